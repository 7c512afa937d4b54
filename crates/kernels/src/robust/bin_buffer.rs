//! Buffer of the valid pixels of one bin of one frame, as parallel lists (a structure of arrays).

use super::among_zeros::{OrderStart, Zeros};
use super::bin_entries::{BinEntries, PixelVariance};
use super::list_bits::list_bits;
use super::partial_sums::{sum, sum_pairs};
use super::quantile::{BinPixels, PixelTerm, PixelTerms, QuantileRange};
use super::rejected::ClipStep;
use super::{BinSums, quantile};
use crate::invalid_values::InvalidRanges;
use crate::pixel::Pixel;
use crate::simd::Simd;

/// Number of pixels that are compared before the outliers among them are listed: one in each bit.
const PIXELS_PER_OUTLIER_MASK: usize = u64::BITS as usize;

/// Relative distance from the mean that counts as zero. Rounding alone moves a pixel that far from
/// the mean.
const MEAN_TOLERANCE: f64 = 1e-12;

/// The valid pixels of one bin. All non-empty lists have one element per pixel, in the order of the
/// frame.
#[derive(Default)]
pub(crate) struct BinBuffer {
    /// w s.
    pub(super) signal: Vec<f64>,
    /// w n.
    pub(super) norms: Vec<f64>,
    /// w; empty if all weights are 1.
    pub(super) weights: Vec<f64>,
    /// w² v; empty if pixels have no variance of their own.
    pub(super) variance: Vec<f64>,
    /// s / n, for quantiles; else empty. It is not computed as (w s) / (w n): rounding would make
    /// equal pixels differ.
    pub(super) intensity: Vec<f64>,
    /// The steps of clipping that dropped pixels of this bin; `None` if they are not recorded.
    pub(super) clip_steps: Option<Vec<ClipStep>>,
    /// The indices of pixels to be removed, ascending.
    to_drop: Vec<u32>,
    /// Working memory of the quantile search.
    scratch: quantile::QuantileScratch,
}

impl BinBuffer {
    /// Replaces the contents by the pixels of a bin. Fills `intensity` if `with_intensities`.
    #[inline(always)]
    pub(super) fn load<T: Pixel>(
        &mut self,
        bin: &BinEntries<'_>,
        raw: &[T],
        with_intensities: bool,
    ) {
        let BinEntries { weights, norms, dark, variance, .. } = *bin;
        self.weights.clear();
        self.norms.clear();
        self.signal.clear();
        let values = raw.iter().map(|raw| raw.to_f64());
        match (weights, dark) {
            (None, None) => self.signal.extend(values),
            (Some(weights), None) => {
                self.signal.extend(values.zip(weights).map(|(raw, &w)| f64::from(w) * raw))
            }
            (_, Some(_)) => {
                self.signal.extend(values.enumerate().map(|(entry, raw)| bin.signal(entry, raw)))
            }
        }
        match weights {
            None => self.norms.extend_from_slice(norms),
            Some(weights) => {
                self.weights.extend(weights.iter().map(|&w| f64::from(w)));
                self.norms.extend(norms.iter().zip(weights).map(|(norm, &w)| f64::from(w) * norm));
            }
        }
        self.intensity.clear();
        if with_intensities {
            let signals =
                raw.iter().enumerate().map(|(entry, raw)| bin.dark_subtracted(entry, raw.to_f64()));
            self.intensity.extend(signals.zip(norms).map(|(signal, norm)| signal / norm));
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
    }

    /// Removes the pixels that are invalid, given all as they were loaded, and returns true if there
    /// are any.
    #[inline(always)]
    pub(super) fn drop_invalid<T: Pixel>(&mut self, raw: &[T], rule: &InvalidRanges<T>) -> bool {
        if !rule.any_invalid(raw) {
            return false;
        }
        self.to_drop.clear();
        for (entry, &raw) in raw.iter().enumerate() {
            if rule.contains(raw) {
                self.to_drop.push(entry as u32);
            }
        }
        self.drop_listed();
        true
    }

    /// Returns the sums over the pixels between two quantiles; see
    /// [`quantile::mean_between_quantiles`]. `whole` is the bin if all its pixels are valid.
    pub(super) fn mean_between_quantiles<S: Simd>(
        &mut self,
        simd: S,
        whole: Option<&BinEntries<'_>>,
        low: f64,
        high: f64,
    ) -> BinSums {
        let mut scratch = std::mem::take(&mut self.scratch);
        let among_zeros = whole.and_then(|bin| self.mean_among_zeros(bin, low, high, &mut scratch));
        let sums = among_zeros.unwrap_or_else(|| {
            let pixels = BinPixels { intensity: &self.intensity, norm: &self.norms, bin: self };
            let full_sums = whole.map(|bin| bin.full_sums);
            quantile::mean_between_quantiles(simd, &pixels, full_sums, low, high, &mut scratch)
        });
        self.scratch = scratch;
        sums
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
        let zeros = Zeros {
            bin: self,
            norms: &self.norms,
            entries: bin,
            start: OrderStart::default(),
            norm: sum_pairs(
                &self.intensity,
                &self.norms,
                |x, norm| if x == 0. { norm } else { 0. },
            ),
            is_zero: |index: usize| self.intensity[index] == 0.,
        };
        zeros.mean_between_quantiles(&QuantileRange::new(low, high, bin.full_sums.norm), scratch)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.norms.is_empty()
    }

    /// Removes the pixels in `to_drop`. The order of the others stays.
    #[inline(always)]
    fn drop_listed(&mut self) {
        let Self { signal, norms, weights, variance, intensity, to_drop, .. } = self;
        for list in [signal, norms, weights, variance, intensity] {
            if !list.is_empty() {
                remove_at(to_drop, list);
            }
        }
    }

    /// Returns the sums over the buffered pixels, with a variance of 0. Weights are taken from
    /// `full_sums` if given.
    #[inline(always)]
    pub(super) fn sums(&self, full_sums: Option<BinSums>) -> BinSums {
        let signal = sum(&self.signal, |signal| signal);
        if let Some(full_sums) = full_sums {
            return BinSums { signal, variance: 0., ..full_sums };
        }
        BinSums {
            signal,
            variance: 0.,
            norm: sum(&self.norms, |norm| norm),
            norm_sq: sum(&self.norms, |norm| norm * norm),
            count: if self.weights.is_empty() {
                self.norms.len() as f64
            } else {
                sum(&self.weights, |weight| weight)
            },
        }
    }

    /// Returns Σ w² v, from the pixels' own variances.
    #[inline(always)]
    pub(super) fn variance(&self) -> f64 {
        sum(&self.variance, |variance| variance)
    }

    /// Returns Σ w² (s - m n)², from the spread of the pixels around the mean m.
    #[inline(always)]
    pub(super) fn azimuthal_variance(&self, mean: f64) -> f64 {
        sum_pairs(&self.signal, &self.norms, |signal, norm| {
            let distance = signal - mean * norm;
            distance * distance
        })
    }

    /// Removes the pixels whose s / n is farther than `limit` from the mean, and returns true if
    /// there are any.
    #[inline(always)]
    pub(super) fn drop_outliers(&mut self, mean: f64, limit: f64) -> bool {
        let step = ClipStep { mean, limit: limit_with_tolerance(mean, limit) };
        self.to_drop.clear();
        let norms = self.norms.chunks(PIXELS_PER_OUTLIER_MASK);
        let pixels = self.signal.chunks(PIXELS_PER_OUTLIER_MASK).zip(norms);
        for (number, (signal, norms)) in pixels.enumerate() {
            let mut outliers = 0;
            // A mask and no branch, so that the compiler uses vectors.
            for (bit, (&signal, &norm)) in signal.iter().zip(norms).enumerate() {
                outliers |= u64::from(!step.keeps(signal, norm)).wrapping_neg() & (1 << bit);
            }
            list_bits(outliers, number * PIXELS_PER_OUTLIER_MASK, &mut self.to_drop);
        }
        if self.to_drop.is_empty() {
            return false;
        }
        self.drop_listed();
        if let Some(steps) = &mut self.clip_steps {
            steps.push(step);
        }
        true
    }
}

impl PixelTerms for BinBuffer {
    fn term(&self, index: usize) -> PixelTerm {
        PixelTerm {
            signal: self.signal[index],
            variance: self.variance.get(index).copied().unwrap_or(0.),
            norm: self.norms[index],
            weight: self.weights.get(index).copied().unwrap_or(1.),
        }
    }
}

/// Returns `limit` plus the distance that rounding explains: a pixel nearer to the mean is no
/// outlier.
#[inline(always)]
pub(super) fn limit_with_tolerance(mean: f64, limit: f64) -> f64 {
    limit + MEAN_TOLERANCE * mean.abs()
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
        for bits in 0..1 << all.len() {
            let mut indices = Vec::new();
            list_bits(bits, 0, &mut indices);
            let mut list = all.to_vec();
            remove_at(&indices, &mut list);
            let is_removed = |&&number: &&f64| indices.contains(&(number as u32));
            let expected: Vec<f64> = all.iter().filter(|n| !is_removed(n)).copied().collect();
            assert_eq!(list, expected, "{indices:?}");
            assert_eq!(indices.len(), bits.count_ones() as usize);
        }
    }
}
