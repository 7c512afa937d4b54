//! [`QuantileBuffer`], which computes the quantile mean of one bin of one frame.

use super::among_zeros::{OrderStart, Zeros};
use super::bin_entries::BinEntries;
use super::partial_sums::sum_pairs;
use super::quantile::{BinPixels, QuantileRange};
use super::term_lists::TermLists;
use super::{BinSums, RawPixels, quantile};
use crate::simd::Simd;

/// The valid pixels of one bin.
#[derive(Default)]
pub(super) struct QuantileBuffer {
    terms: TermLists,
    /// s / n. It is not computed as (w s) / (w n): rounding would make equal pixels differ.
    intensity: Vec<f64>,
    /// The indices of invalid pixels, ascending.
    invalid: Vec<u32>,
    /// Working memory of the quantile search.
    scratch: quantile::QuantileScratch,
}

impl QuantileBuffer {
    /// Returns the sums over the valid pixels of a bin between two quantiles; see
    /// [`quantile::mean_between_quantiles`].
    #[inline(always)]
    pub(super) fn mean_between_quantiles<S: Simd>(
        &mut self,
        simd: S,
        pixels: &RawPixels<'_>,
        low: f64,
        high: f64,
    ) -> BinSums {
        let RawPixels { bin, raw, .. } = *pixels;
        self.terms.load(bin, raw);
        let corrected = raw.iter().map(|&raw| bin.corrected(raw));
        let signals =
            corrected.enumerate().map(|(entry, corrected)| bin.dark_subtracted(entry, corrected));
        self.intensity.clear();
        self.intensity.extend(signals.zip(bin.norms).map(|(signal, norm)| signal / norm));
        let whole = if self.drop_invalid(pixels) { None } else { Some(bin) };
        if self.intensity.is_empty() {
            return BinSums::default();
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let among_zeros = whole.and_then(|bin| self.mean_among_zeros(bin, low, high, &mut scratch));
        let sums = among_zeros.unwrap_or_else(|| {
            let Self { terms, intensity, .. } = &*self;
            let pixels = BinPixels { intensity, norm: &terms.norms, bin: terms };
            // The weights of the whole bin are used instead of new sums, because they are more exact
            // and equal to those of other frames.
            let full_sums = whole.map(|bin| bin.full_sums);
            quantile::mean_between_quantiles(simd, &pixels, full_sums, low, high, &mut scratch)
        });
        self.scratch = scratch;
        sums
    }

    /// Removes the invalid pixels, and returns true if there are any. The order of the others stays.
    #[inline(always)]
    fn drop_invalid(&mut self, pixels: &RawPixels<'_>) -> bool {
        let Self { terms, intensity, invalid, .. } = self;
        pixels.list_invalid(invalid);
        for list in terms.all_mut().into_iter().chain([intensity]) {
            if !list.is_empty() {
                remove_at(invalid, list);
            }
        }
        !invalid.is_empty()
    }

    /// Returns the sums over the pixels between two quantiles if these have no photon.
    fn mean_among_zeros(
        &self,
        bin: &BinEntries<'_>,
        low: f64,
        high: f64,
        scratch: &mut quantile::QuantileScratch,
    ) -> Option<BinSums> {
        bin.zero_order?;
        if self.intensity.iter().fold(false, |any, &intensity| any | (intensity < 0.)) {
            return None;
        }
        let zeros =
            Zeros {
                bin: &self.terms,
                norms: &self.terms.norms,
                entries: bin,
                start: OrderStart::default(),
                norm: sum_pairs(&self.intensity, &self.terms.norms, |x, norm| {
                    if x == 0. { norm } else { 0. }
                }),
                is_zero: |index: usize| self.intensity[index] == 0.,
            };
        zeros.mean_between_quantiles(&QuantileRange::new(low, high, bin.full_sums.norm), scratch)
    }
}

/// Removes the elements with some indices, which ascend.
#[inline(always)]
fn remove_at(indices: &[u32], list: &mut Vec<f64>) {
    let mut kept = indices.first().map_or(list.len(), |&index| index as usize);
    for (number, &index) in indices.iter().enumerate() {
        let next = indices.get(number + 1).map_or(list.len(), |&next| next as usize);
        let between = index as usize + 1..next;
        list.copy_within(between.clone(), kept);
        kept += between.len();
    }
    list.truncate(kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_elements_leave_the_others_in_order() {
        let all = [0., 1., 2., 3., 4., 5., 6.];
        for bits in 0_u32..1 << all.len() {
            let indices: Vec<u32> = (0..7).filter(|bit| bits >> bit & 1 == 1).collect();
            let mut list = all.to_vec();
            remove_at(&indices, &mut list);
            let is_removed = |&&number: &&f64| indices.contains(&(number as u32));
            let expected: Vec<f64> = all.iter().filter(|n| !is_removed(n)).copied().collect();
            assert_eq!(list, expected, "{indices:?}");
        }
    }
}
