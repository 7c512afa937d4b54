//! The pixels of one bin, side by side.

use super::BinSums;
use super::lanes::{sum, sum_of_both};
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
    pub(super) room: super::quantile::Room,
}

/// The entries of one bin, as they are for all frames, and its raw pixels.
#[derive(Clone, Copy)]
pub(crate) struct Entries<'a, T> {
    pub(crate) raw: &'a [T],
    /// w, unless all are 1.
    pub(crate) weight: Option<&'a [f32]>,
    /// n.
    pub(crate) norm: &'a [f64],
    /// The dark counts, where there are any.
    pub(crate) dark: Option<&'a [f64]>,
    pub(crate) variance: Variance<'a>,
    /// Whether intensities are asked for.
    pub(crate) sorts: bool,
}

/// The pixels' own variances.
#[derive(Clone, Copy)]
pub(crate) enum Variance<'a> {
    /// None.
    No,
    /// max(raw, 1).
    Counts,
    /// w² v of each entry.
    Given(&'a [f64]),
}

impl Work {
    /// Takes the valid pixels of a bin; whether those are all.
    #[inline(always)]
    pub(crate) fn load<T: Pixel>(&mut self, bin: Entries<'_, T>, rule: &InvalidOf<T>) -> bool {
        let Entries { raw, weight, norm, dark, variance, sorts } = bin;
        self.weight.clear();
        self.norm.clear();
        self.signal.clear();
        let values = raw.iter().map(|raw| raw.value());
        match (weight, dark) {
            (None, None) => self.signal.extend(values),
            (None, Some(dark)) => self.signal.extend(values.zip(dark).map(|(raw, dark)| raw - dark)),
            (Some(weight), None) => self.signal.extend(values.zip(weight).map(|(raw, &w)| f64::from(w) * raw)),
            (Some(weight), Some(dark)) => {
                let signals = values.zip(dark).map(|(raw, dark)| raw - dark);
                self.signal.extend(signals.zip(weight).map(|(signal, &w)| f64::from(w) * signal));
            }
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
            let dark = |entry: usize| dark.map_or(0., |dark| dark[entry]);
            let signals = raw.iter().enumerate().map(|(entry, raw)| raw.value() - dark(entry));
            self.intensity.extend(signals.zip(norm).map(|(signal, norm)| signal / norm));
        }
        self.variance.clear();
        match variance {
            Variance::No => {}
            Variance::Counts => {
                let counts = raw.iter().map(|raw| raw.value().max(1.));
                match weight {
                    None => self.variance.extend(counts),
                    Some(weight) => {
                        let squares = weight.iter().map(|&w| f64::from(w) * f64::from(w));
                        self.variance.extend(counts.zip(squares).map(|(counts, square)| square * counts));
                    }
                }
            }
            Variance::Given(given) => self.variance.extend_from_slice(given),
        }
        if !rule.any(raw) {
            return true;
        }
        self.keep(|entry, _, _| !rule.contains(raw[entry]));
        false
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
        let limit = limit + ROUNDING * mean.abs();
        let is_near = |signal: f64, norm: f64| (signal - mean * norm).abs() <= limit * norm.abs();
        let far = sum_of_both(&self.signal, &self.norm, |signal, norm| f64::from(!is_near(signal, norm)));
        if far == 0. {
            return false;
        }
        self.keep(|_, signal, norm| is_near(signal, norm));
        true
    }
}
