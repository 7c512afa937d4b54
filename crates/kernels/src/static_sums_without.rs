//! [`StaticSumsWithout`], the sums that do not depend on the photons of a frame, for a frame with
//! invalid pixels.

use crate::bitmap::Bitmap;
use crate::invalid_pixels::InvalidPixels;
use crate::partial_static_sums::PartialStaticSums;
use crate::simd::{Kernel, Simd};
use crate::static_sums::{BinStaticSums, StaticSums, StaticTerms};
use crate::summation_order::TILE;

/// Computes the sums of all bins over all pixels except the invalid ones of a frame.
pub(crate) struct StaticSumsWithout<'a> {
    pub(crate) terms: StaticTerms<'a>,
    /// The sums over all pixels.
    pub(crate) bin_sums: &'a [BinStaticSums],
    /// The sums over all pixels, rounded to doubles.
    pub(crate) static_sums: &'a StaticSums,
    /// The pixels without entries, tile by tile.
    pub(crate) unused: &'a [Bitmap],
    pub(crate) invalid: &'a InvalidPixels,
}

impl Kernel for StaticSumsWithout<'_> {
    type Output = StaticSums;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> StaticSums {
        // The fewer pixels are added up: the invalid ones, or the others.
        let unused: usize = self.unused.iter().map(|pixels| pixels.count() as usize).sum();
        let (invalid, used) = (self.invalid.count(), self.unused.len() * TILE - unused);
        let pixels = invalid.min(used - invalid);
        let mut sums = PartialStaticSums::new(self.terms, self.bin_sums.len(), pixels);
        if pixels == invalid {
            for (tile, invalid) in self.invalid.tiles() {
                sums.add_pixels(tile, invalid);
            }
            self.all_minus(&sums)
        } else {
            let mut invalid = self.invalid.tiles().peekable();
            for (tile, unused) in self.unused.iter().enumerate() {
                let of_tile = invalid.next_if(|(of, _)| *of == tile);
                let invalid = of_tile.map_or(Bitmap::EMPTY, |(_, pixels)| *pixels);
                sums.add_pixels(tile, &invalid.zip(unused, |a, b| !(a | b)));
            }
            let bins = (0..self.bin_sums.len()).map(|bin| sums.of_bin(bin));
            StaticSums::from_bins(bins, self.terms.dark.is_some())
        }
    }
}

impl StaticSumsWithout<'_> {
    /// Returns the sums over all pixels minus those over some.
    #[inline(always)]
    fn all_minus(&self, some: &PartialStaticSums<'_>) -> StaticSums {
        let entries = some.entries().iter().enumerate();
        let changed = entries.filter(|(_, entries)| **entries > 0).map(|(bin, _)| bin);
        let left = changed.map(|bin| (bin, self.bin_sums[bin].minus(some.of_bin(bin))));
        self.static_sums.clone().with(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Isa;
    use crate::weight_override::WeightOverride;
    use crate::{IntegrationPlan, TiledCsc, VarianceModel};

    const PIXELS: usize = 2 * TILE + 700;
    const NBINS: usize = 40;

    /// Returns a plan whose pixels have up to four entries, without the masked ones.
    fn plan(has_dark: bool, is_masked: impl Fn(usize) -> bool) -> IntegrationPlan {
        let (mut starts, mut bins, mut weights) = (vec![0], Vec::new(), Vec::new());
        for pixel in 0..PIXELS {
            for entry in 0..if is_masked(pixel) { 0 } else { pixel % 5 } {
                bins.push((pixel / 120 + entry * (1 + pixel % 2)) as u32);
                weights.push(1. / (1. + (pixel % 17 * 3 + entry) as f32));
            }
            starts.push(bins.len() as u64);
        }
        let matrix = TiledCsc::new(&starts, &bins, &weights, NBINS + 8).expect("a matrix");
        let values = |scale: f64| (0..PIXELS).map(move |p| scale + (p as f64 * 0.7).sin().abs());
        let dark: Option<Vec<f64>> = has_dark.then(|| values(3.).collect());
        let norms: Vec<f64> = values(0.3).collect();
        IntegrationPlan::new(matrix, norms, VarianceModel::POISSON, dark.as_deref()).expect("norms")
    }

    fn lists(sums: &StaticSums) -> [&[f64]; 7] {
        let StaticSums { weights, base_variance, dark, dark_sq, norm_dark, .. } = sums;
        let WeightOverride { norm, norm_sq, count } = &**weights;
        [norm, norm_sq, count, base_variance, dark, dark_sq, norm_dark].map(|list| &list[..])
    }

    #[test]
    fn invalid_pixels_leave_the_sums_of_a_plan_without_them() {
        type Set = (&'static str, fn(usize) -> bool);
        let sets: [Set; 6] = [
            ("one", |pixel| pixel == 3001),
            ("a tenth", |pixel| pixel % 10 == 3),
            ("whole bins", |pixel| pixel > TILE && pixel < TILE + 900),
            ("most", |pixel| pixel % 10 != 3),
            ("all but one", |pixel| pixel != 3001),
            ("all", |_| true),
        ];
        for has_dark in [false, true] {
            let all = plan(has_dark, |_| false);
            for (name, is_invalid) in sets {
                // Pixels that have no entries are not among the invalid ones.
                let invalid: InvalidPixels =
                    (0..PIXELS).filter(|&pixel| pixel % 5 != 0 && is_invalid(pixel)).collect();
                let without = plan(has_dark, is_invalid);
                let expected = without.static_sums();
                for isa in Isa::available() {
                    let found = isa.run(all.static_sums_without(&invalid));
                    assert_eq!(found.entries, expected.entries, "{name}");
                    for (found, expected) in lists(&found).iter().zip(lists(expected)) {
                        assert_eq!(found.len(), expected.len());
                        for (found, expected) in found.iter().zip(expected) {
                            let error = (found - expected).abs();
                            assert!(error <= 1e-15 * expected, "{name}: {found} {expected}");
                        }
                    }
                }
            }
        }
    }
}
