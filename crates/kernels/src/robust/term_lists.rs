//! [`TermLists`], what the pixels of one bin of one frame add to its sums, as parallel lists (a structure
//! of arrays).

use super::bin_entries::{BinEntries, PixelVariance};
use super::quantile::{PixelTerm, PixelTerms};

/// The pixels of one bin of one frame. All non-empty lists have one element per pixel, in the order
/// of the frame.
#[derive(Default)]
pub(super) struct TermLists {
    /// w s.
    pub(super) signal: Vec<f64>,
    /// w n.
    pub(super) norms: Vec<f64>,
    /// w; empty if all weights are 1.
    pub(super) weights: Vec<f64>,
    /// w² v; empty if pixels have no variance of their own.
    pub(super) variance: Vec<f64>,
}

impl TermLists {
    /// Replaces the contents by the pixels of a bin: `raw` has one per entry.
    #[inline(always)]
    pub(super) fn load(&mut self, bin: &BinEntries<'_>, raw: &[f64]) {
        let BinEntries { weights, norms, dark, variance, dead_time, .. } = *bin;
        self.weights.clear();
        self.signal.clear();
        let values = raw.iter().copied();
        match (weights, dark.is_none() && dead_time.is_zero()) {
            (None, true) => self.signal.extend(values),
            (Some(weights), true) => {
                self.signal.extend(values.zip(weights).map(|(raw, &w)| f64::from(w) * raw))
            }
            (_, false) => {
                self.signal.extend(values.enumerate().map(|(entry, raw)| bin.signal(entry, raw)))
            }
        }
        self.norms.clear();
        match weights {
            None => self.norms.extend_from_slice(norms),
            Some(weights) => {
                self.weights.extend(weights.iter().map(|&w| f64::from(w)));
                self.norms.extend(norms.iter().zip(weights).map(|(norm, &w)| f64::from(w) * norm));
            }
        }
        self.variance.clear();
        match variance {
            PixelVariance::No => {}
            PixelVariance::Counts => {
                let counts = raw.iter().copied().enumerate();
                self.variance.extend(counts.map(|(entry, raw)| bin.variance(entry, raw)));
            }
            PixelVariance::Given(given) => self.variance.extend_from_slice(given),
        }
    }

    /// Replaces what some pixels add by 0.
    #[inline(always)]
    pub(super) fn set_zero(&mut self, pixels: &[u32]) {
        for list in self.all_mut() {
            if !list.is_empty() {
                pixels.iter().for_each(|&pixel| list[pixel as usize] = 0.);
            }
        }
    }

    /// Returns all lists.
    #[inline(always)]
    pub(super) fn all_mut(&mut self) -> [&mut Vec<f64>; 4] {
        [&mut self.signal, &mut self.norms, &mut self.weights, &mut self.variance]
    }
}

impl PixelTerms for TermLists {
    #[inline(always)]
    fn term(&self, index: usize) -> PixelTerm {
        PixelTerm {
            signal: self.signal[index],
            variance: self.variance.get(index).copied().unwrap_or(0.),
            norm: self.norms[index],
            weight: self.weights.get(index).copied().unwrap_or(1.),
        }
    }
}
