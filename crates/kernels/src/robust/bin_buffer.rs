//! The pixels of one bin, side by side.

use super::bin_entries::{BinEntries, PixelVariance};
use super::partial_sums::{sum, sum_pairs};
use super::quantile::{BinPixels, PixelTerm, PixelTerms};
use super::{BinSums, quantile};
use crate::invalid_values::InvalidRanges;
use crate::pixel::Pixel;
use crate::simd::SimdBackend;

/// A share of the mean that rounding may put a pixel away from it: less is no distance.
const MEAN_TOLERANCE: f64 = 1e-12;

/// Lists of one length, an entry a pixel in use, in the order of the frame.
#[derive(Default)]
pub(crate) struct BinBuffer {
    /// w s.
    pub(super) signal: Vec<f64>,
    /// w n.
    pub(super) norms: Vec<f64>,
    /// w; empty where all are 1.
    pub(super) weights: Vec<f64>,
    /// w² v; empty where pixels have no variance of their own.
    pub(super) variance: Vec<f64>,
    /// s / n, for methods that sort: not of the products above, whose rounding would part equal ones.
    pub(super) intensity: Vec<f64>,
    /// Of the method that sorts.
    pub(super) scratch: quantile::QuantileScratch,
}

impl BinBuffer {
    /// Takes the valid pixels of a bin, with intensities for methods that sort; whether those are all.
    #[inline(always)]
    pub(super) fn load_valid<T: Pixel>(
        &mut self,
        bin: &BinEntries<'_>,
        raw: &[T],
        rule: &InvalidRanges<T>,
        sorts: bool,
    ) -> bool {
        let BinEntries { weights: weight, norms: norm, dark, variance, .. } = *bin;
        self.weights.clear();
        self.norms.clear();
        self.signal.clear();
        let values = raw.iter().map(|raw| raw.to_f64());
        match (weight, dark) {
            (None, None) => self.signal.extend(values),
            (Some(weight), None) => self.signal.extend(values.zip(weight).map(|(raw, &w)| f64::from(w) * raw)),
            (_, Some(_)) => self.signal.extend(values.enumerate().map(|(entry, raw)| bin.signal(entry, raw))),
        }
        match weight {
            None => self.norms.extend_from_slice(norm),
            Some(weight) => {
                self.weights.extend(weight.iter().map(|&w| f64::from(w)));
                self.norms.extend(norm.iter().zip(weight).map(|(norm, &w)| f64::from(w) * norm));
            }
        }
        self.intensity.clear();
        if sorts {
            let signals = raw.iter().enumerate().map(|(entry, raw)| bin.dark_subtracted(entry, raw.to_f64()));
            self.intensity.extend(signals.zip(norm).map(|(signal, norm)| signal / norm));
        }
        self.variance.clear();
        match variance {
            PixelVariance::No => {}
            PixelVariance::Counts => {
                let counts = raw.iter().map(|raw| raw.to_f64()).enumerate();
                self.variance.extend(counts.map(|(entry, raw)| bin.variance(entry, raw)));
            }
            PixelVariance::Given(given) => self.variance.extend_from_slice(given),
        }
        if !rule.any_invalid(raw) {
            return true;
        }
        self.retain(|entry, _, _| !rule.contains(raw[entry]));
        false
    }

    /// The sums of the pixels between two quantiles.
    pub(super) fn mean_between<S: SimdBackend>(
        &mut self,
        steps: S,
        whole: Option<BinSums>,
        low: f64,
        high: f64,
    ) -> BinSums {
        let mut room = std::mem::take(&mut self.scratch);
        let pixels = BinPixels { intensity: &self.intensity, norm: &self.norms, bin: self };
        let sums = quantile::mean_between_quantiles(steps, &pixels, whole, low, high, &mut room);
        self.scratch = room;
        sums
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.norms.is_empty()
    }

    /// Keeps the entries for which this holds, given their place, signal and norm; in their order.
    #[inline(always)]
    pub(super) fn retain(&mut self, holds: impl Fn(usize, f64, f64) -> bool) {
        let mut kept = 0;
        let [has_weight, has_variance, sorts] =
            [&self.weights, &self.variance, &self.intensity].map(|list| !list.is_empty());
        for entry in 0..self.norms.len() {
            let (signal, norm) = (self.signal[entry], self.norms[entry]);
            self.signal[kept] = signal;
            self.norms[kept] = norm;
            if has_weight {
                self.weights[kept] = self.weights[entry];
            }
            if has_variance {
                self.variance[kept] = self.variance[entry];
            }
            if sorts {
                self.intensity[kept] = self.intensity[entry];
            }
            kept += usize::from(holds(entry, signal, norm));
        }
        self.signal.truncate(kept);
        self.norms.truncate(kept);
        self.weights.truncate(kept);
        self.variance.truncate(kept);
        self.intensity.truncate(kept);
    }

    /// All sums but the variance; `whole` has the weights, where they are known.
    #[inline(always)]
    pub(super) fn sums(&self, whole: Option<BinSums>) -> BinSums {
        let signal = sum(&self.signal, |signal| signal);
        if let Some(whole) = whole {
            return BinSums { signal, variance: 0., ..whole };
        }
        BinSums {
            signal,
            variance: 0.,
            norm: sum(&self.norms, |norm| norm),
            norm_sq: sum(&self.norms, |norm| norm * norm),
            count: if self.weights.is_empty() { self.norms.len() as f64 } else { sum(&self.weights, |weight| weight) },
        }
    }

    /// Σ w² v.
    #[inline(always)]
    pub(super) fn variance(&self) -> f64 {
        sum(&self.variance, |variance| variance)
    }

    /// Σ w² (s - m n)².
    #[inline(always)]
    pub(super) fn azimuthal_variance(&self, mean: f64) -> f64 {
        sum_pairs(&self.signal, &self.norms, |signal, norm| {
            let distance = signal - mean * norm;
            distance * distance
        })
    }

    /// Drops the pixels whose s / n is farther than `outlier_limit` from the mean; whether there are such.
    #[inline(always)]
    pub(super) fn drop_outliers(&mut self, mean: f64, limit: f64) -> bool {
        let limit = limit_with_tolerance(mean, limit);
        let is_near = |signal: f64, norm: f64| (signal - mean * norm).abs() <= limit * norm.abs();
        let far = sum_pairs(&self.signal, &self.norms, |signal, norm| f64::from(!is_near(signal, norm)));
        if far == 0. {
            return false;
        }
        self.retain(|_, signal, norm| is_near(signal, norm));
        true
    }
}

impl PixelTerms for BinBuffer {
    fn term(&self, place: usize) -> PixelTerm {
        PixelTerm {
            signal: self.signal[place],
            variance: self.variance.get(place).copied().unwrap_or(0.),
            norm: self.norms[place],
            weight: self.weights.get(place).copied().unwrap_or(1.),
        }
    }
}

/// How far off the mean a pixel may be, where more than `outlier_limit` makes an outlier.
#[inline(always)]
pub(super) fn limit_with_tolerance(mean: f64, limit: f64) -> f64 {
    limit + MEAN_TOLERANCE * mean.abs()
}
