//! The pixels of one bin, side by side.

use super::bin::{Bin, Variance};
use super::lanes::{sum, sum_of_both};
use super::quantile::{Pixels, Term, Terms};
use super::{BinSums, quantile};
use crate::backend::Steps;
use crate::invalid::InvalidOf;
use crate::pixel::Pixel;

/// A share of the mean that rounding may put a pixel away from it: less is no distance.
const ROUNDING: f64 = 1e-12;

/// Lists of one length, an entry a pixel in use, in the order of the frame.
#[derive(Default)]
pub(crate) struct Work {
    /// w s.
    pub(super) signal: Vec<f64>,
    /// w n.
    pub(super) norm: Vec<f64>,
    /// w; empty where all are 1.
    pub(super) weight: Vec<f64>,
    /// w² v; empty where pixels have no variance of their own.
    pub(super) variance: Vec<f64>,
    /// s / n, for methods that sort: not of the products above, whose rounding would part equal ones.
    pub(super) intensity: Vec<f64>,
    /// Of the method that sorts.
    pub(super) room: quantile::Room,
}

impl Work {
    /// Takes the valid pixels of a bin, with intensities for methods that sort; whether those are all.
    #[inline(always)]
    pub(super) fn load<T: Pixel>(&mut self, bin: &Bin<'_>, raw: &[T], rule: &InvalidOf<T>, sorts: bool) -> bool {
        let Bin { weight, norm, dark, variance, .. } = *bin;
        self.weight.clear();
        self.norm.clear();
        self.signal.clear();
        let values = raw.iter().map(|raw| raw.value());
        match (weight, dark) {
            (None, None) => self.signal.extend(values),
            (Some(weight), None) => self.signal.extend(values.zip(weight).map(|(raw, &w)| f64::from(w) * raw)),
            (_, Some(_)) => self.signal.extend(values.enumerate().map(|(entry, raw)| bin.signal(entry, raw))),
        }
        match weight {
            None => self.norm.extend_from_slice(norm),
            Some(weight) => {
                self.weight.extend(weight.iter().map(|&w| f64::from(w)));
                self.norm.extend(norm.iter().zip(weight).map(|(norm, &w)| f64::from(w) * norm));
            }
        }
        self.intensity.clear();
        if sorts {
            let signals = raw.iter().enumerate().map(|(entry, raw)| bin.count(entry, raw.value()));
            self.intensity.extend(signals.zip(norm).map(|(signal, norm)| signal / norm));
        }
        self.variance.clear();
        match variance {
            Variance::No => {}
            Variance::Counts => {
                let counts = raw.iter().map(|raw| raw.value()).enumerate();
                self.variance.extend(counts.map(|(entry, raw)| bin.variance(entry, raw)));
            }
            Variance::Given(given) => self.variance.extend_from_slice(given),
        }
        if !rule.any(raw) {
            return true;
        }
        self.keep(|entry, _, _| !rule.contains(raw[entry]));
        false
    }

    /// The sums of the pixels between two quantiles.
    pub(super) fn between<S: Steps>(&mut self, steps: S, whole: Option<BinSums>, low: f64, high: f64) -> BinSums {
        let mut room = std::mem::take(&mut self.room);
        let pixels = Pixels { intensity: &self.intensity, norm: &self.norm, bin: self };
        let sums = quantile::reduce(steps, &pixels, whole, low, high, &mut room);
        self.room = room;
        sums
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.norm.is_empty()
    }

    /// Keeps the entries for which this holds, given their place, signal and norm; in their order.
    #[inline(always)]
    pub(super) fn keep(&mut self, holds: impl Fn(usize, f64, f64) -> bool) {
        let mut kept = 0;
        let [has_weight, has_variance, sorts] =
            [&self.weight, &self.variance, &self.intensity].map(|list| !list.is_empty());
        for entry in 0..self.norm.len() {
            let (signal, norm) = (self.signal[entry], self.norm[entry]);
            self.signal[kept] = signal;
            self.norm[kept] = norm;
            if has_weight {
                self.weight[kept] = self.weight[entry];
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
        self.norm.truncate(kept);
        self.weight.truncate(kept);
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
            norm: sum(&self.norm, |norm| norm),
            norm_sq: sum(&self.norm, |norm| norm * norm),
            count: if self.weight.is_empty() { self.norm.len() as f64 } else { sum(&self.weight, |weight| weight) },
        }
    }

    /// Σ w² v.
    #[inline(always)]
    pub(super) fn variance(&self) -> f64 {
        sum(&self.variance, |variance| variance)
    }

    /// Σ w² (s - m n)².
    #[inline(always)]
    pub(super) fn spread(&self, mean: f64) -> f64 {
        sum_of_both(&self.signal, &self.norm, |signal, norm| {
            let distance = signal - mean * norm;
            distance * distance
        })
    }

    /// Drops the pixels whose s / n is farther than `limit` from the mean; whether there are such.
    #[inline(always)]
    pub(super) fn drop_outliers(&mut self, mean: f64, limit: f64) -> bool {
        let limit = limit_with_rounding(mean, limit);
        let is_near = |signal: f64, norm: f64| (signal - mean * norm).abs() <= limit * norm.abs();
        let far = sum_of_both(&self.signal, &self.norm, |signal, norm| f64::from(!is_near(signal, norm)));
        if far == 0. {
            return false;
        }
        self.keep(|_, signal, norm| is_near(signal, norm));
        true
    }
}

impl Terms for Work {
    fn term(&self, place: usize) -> Term {
        Term {
            signal: self.signal[place],
            variance: self.variance.get(place).copied().unwrap_or(0.),
            norm: self.norm[place],
            weight: self.weight.get(place).copied().unwrap_or(1.),
        }
    }
}

/// How far off the mean a pixel may be, where more than `limit` makes an outlier.
#[inline(always)]
pub(super) fn limit_with_rounding(mean: f64, limit: f64) -> f64 {
    limit + ROUNDING * mean.abs()
}
