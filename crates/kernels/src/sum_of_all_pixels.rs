//! [`SumOfAllPixels`], the sums of a plan over the pixels of a frame, a pixel's two bins at a time.

use crate::partial_static_sums::PartialStaticSums;
use crate::simd::{Kernel, Simd};
use crate::static_sums::{BinStaticSums, StaticTerms};

/// Computes the sums of all bins over all pixels.
pub(crate) struct SumOfAllPixels<'a> {
    pub(crate) terms: StaticTerms<'a>,
    pub(crate) nbins: usize,
}

impl Kernel for SumOfAllPixels<'_> {
    type Output = Vec<BinStaticSums>;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> Vec<BinStaticSums> {
        let matrix = self.terms.matrix;
        let mut sums = PartialStaticSums::new(self.terms, self.nbins, matrix.pairs().0.len());
        let (first_bins, pair_weights) = matrix.pairs();
        for (pixel, (&bin, &weights)) in first_bins.iter().zip(pair_weights).enumerate() {
            // A pixel without entries may have a normalization that is no number.
            if weights[0] != 0. {
                sums.add_pair(pixel, bin as usize, weights);
            }
        }
        matrix.for_each_extra(&mut sums);
        (0..self.nbins).map(|bin| sums.of_bin(bin)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::double_double::DoubleDouble;
    use crate::partial_static_sums::FEW_BINS;
    use crate::simd::Isa;
    use crate::tiled_csc::TiledCsc;

    /// Adds the terms of all entries, one after the other.
    fn plain_sums(terms: StaticTerms<'_>, nbins: usize) -> Vec<BinStaticSums> {
        let exact = |term| DoubleDouble::from_sum(term, 0.);
        let mut sums = vec![BinStaticSums::default(); nbins];
        terms.matrix.for_each_entry(|pixel: usize, bin: usize, weight: f32| {
            let (sum, w) = (&mut sums[bin], f64::from(weight));
            let norm = w * terms.normalization[pixel];
            sum.norm += exact(norm);
            sum.norm_sq += exact(norm * norm);
            sum.count += exact(w);
            let variance = terms.variance.map_or(1., |variance| variance[pixel]);
            sum.base_variance += exact(w * w * variance);
            let dark = terms.dark.map_or(0., |dark| w * dark[pixel]);
            sum.dark += exact(dark);
            sum.dark_sq += exact(dark * dark);
            sum.norm_dark += exact(dark * norm);
            sum.entries += 1;
        });
        sums
    }

    fn quantities(sums: &BinStaticSums) -> [DoubleDouble; 7] {
        let BinStaticSums { norm, norm_sq, count, base_variance, dark, dark_sq, norm_dark, .. } =
            *sums;
        [norm, norm_sq, count, base_variance, dark, dark_sq, norm_dark]
    }

    #[test]
    fn pairs_add_up_to_the_sums_of_single_entries() {
        const PIXELS: usize = 5000;
        for (nbins, spread) in [(3, 1), (40, 4), (FEW_BINS + 9, 3)] {
            let (mut starts, mut bins, mut weights) = (vec![0], Vec::new(), Vec::new());
            for pixel in 0..PIXELS {
                // None, one, a pair, and more than a pair; also in the last bin.
                let first = pixel * 7919 % nbins;
                for entry in 0..(pixel * 31 % 5).min(nbins - first) {
                    let bin = (first + entry * (1 + pixel % spread)) as u32;
                    if (bin as usize) < nbins {
                        bins.push(bin);
                        weights.push(1. / (1. + (pixel % 17 * 3 + entry) as f32));
                    }
                }
                starts.push(bins.len() as u64);
            }
            let matrix = TiledCsc::new(&starts, &bins, &weights, nbins).unwrap();
            let slices = matrix.as_slices();
            let mut values: Vec<f64> =
                (0..PIXELS).map(|p| 0.3 + (p as f64 * 0.7).sin().abs()).collect();
            for pixel in (0..PIXELS).filter(|pixel| slices.entries(*pixel).next().is_none()) {
                values[pixel] = [f64::NAN, f64::INFINITY][pixel % 2];
            }
            for has_images in [false, true] {
                let image = has_images.then_some(&values[..]);
                let terms = StaticTerms {
                    matrix: slices,
                    normalization: &values,
                    dark: image,
                    variance: image,
                };
                let expected = plain_sums(terms, nbins);
                for isa in Isa::available() {
                    let found = isa.run(SumOfAllPixels { terms, nbins });
                    assert_eq!(found.len(), nbins);
                    for (found, expected) in found.iter().zip(&expected) {
                        assert_eq!(found.entries, expected.entries);
                        for (found, expected) in quantities(found).iter().zip(quantities(expected))
                        {
                            let error = found.high - expected.high + (found.low - expected.low);
                            // Of 2^-53 of each addition, only the sum of these losses is rounded.
                            assert!(error.abs() <= 1e-27 * expected.high, "{found:?} {expected:?}");
                        }
                    }
                }
            }
        }
    }
}
