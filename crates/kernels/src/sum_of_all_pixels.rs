//! [`SumOfAllPixels`], the sums of a plan over the pixels of a frame, a pixel's two bins at a time.

use crate::double_double::{DoubleDouble, DoubleDoubles};
use crate::simd::{Kernel, Simd};
use crate::static_sums::{BinStaticSums, StaticTerms};
use crate::tiled_csc::EntryVisitor;

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
        let mut sums = PartialSums::new(self.terms, self.nbins);
        let (first_bins, pair_weights) = matrix.pairs();
        for (pixel, (&bin, &weights)) in first_bins.iter().zip(pair_weights).enumerate() {
            // A pixel without entries may have a normalization that is no number.
            if weights[0] != 0. {
                sums.add_pair(pixel, bin as usize, weights);
            }
        }
        matrix.for_each_extra(&mut sums);
        let mut bin_sums: Vec<BinStaticSums> =
            (0..self.nbins).map(|bin| sums.of_bin(bin)).collect();
        if self.terms.dark.is_some() {
            matrix.for_each_entry(AddDarkTerms { terms: self.terms, bin_sums: &mut bin_sums });
        }
        bin_sums
    }
}

/// Number of sums of a bin that no dark changes: norm, norm_sq, count and base_variance.
const QUANTITIES: usize = 4;

/// Number of bins up to which each bin has several partial sums. Neighbouring pixels are often in
/// one bin, and an addition waits for the last to the same sum.
const FEW_BINS: usize = 1 << 13;

/// The sums of [`QUANTITIES`] of each bin, in parts for pixels whose numbers differ in the last bits.
struct PartialSums<'a> {
    terms: StaticTerms<'a>,
    /// Number of parts, a power of two.
    parts: usize,
    /// Number of bins in a part, one more than there are: pairs have a second bin also if its weight
    /// is 0.
    part_bins: usize,
    /// The quantities of each bin side by side, the bins of each part, and the parts.
    high: Vec<f64>,
    low: Vec<f64>,
    entries: Vec<u64>,
    /// 1, unknown to the compiler, which takes vector instructions apart where a factor is 1.
    one: f64,
}

impl<'a> PartialSums<'a> {
    fn new(terms: StaticTerms<'a>, nbins: usize) -> PartialSums<'a> {
        let (parts, part_bins) = (if nbins <= FEW_BINS { 4 } else { 1 }, nbins + 1);
        let sums = vec![0.; parts * part_bins * QUANTITIES];
        PartialSums {
            terms,
            parts,
            part_bins,
            high: sums.clone(),
            low: sums,
            entries: vec![0; part_bins],
            one: std::hint::black_box(1.),
        }
    }

    /// Returns where the sums of a pixel in a bin begin.
    #[inline(always)]
    fn place(&self, pixel: usize, bin: usize) -> usize {
        ((pixel & (self.parts - 1)) * self.part_bins + bin) * QUANTITIES
    }

    /// Adds the terms of a pixel in a bin and the next.
    #[inline(always)]
    fn add_pair(&mut self, pixel: usize, bin: usize, weights: [f32; 2]) {
        let [w, v] = weights.map(f64::from);
        let n = self.terms.normalization[pixel];
        let given = self.terms.variance.map(|variance| variance[pixel]);
        let factors = |w: f64| given.map_or([w, w], |variance| [w * w, variance]);
        let ([w_a, w_b], [v_a, v_b]) = (factors(w), factors(v));
        let (wn, vn) = (w * n, v * n);
        let mut term = DoubleDoubles::two_products(
            [w, wn, w, w_a, v, vn, v, v_a],
            [n, wn, self.one, w_b, n, vn, self.one, v_b],
        );
        // The squares of norms lack the products of their two parts.
        let cross = |norm: usize| 2. * (term.high[norm] * term.low[norm]);
        term.add_small([0., cross(0), 0., 0., 0., cross(4), 0., 0.]);
        let place = self.place(pixel, bin);
        let sums = (
            self.high[place..].first_chunk_mut::<{ 2 * QUANTITIES }>(),
            self.low[place..].first_chunk_mut::<{ 2 * QUANTITIES }>(),
        );
        let (Some(high), Some(low)) = sums else { unreachable!("a bin after the last has sums") };
        let mut sum = DoubleDoubles { high: *high, low: *low };
        sum.add(&term);
        (*high, *low) = (sum.high, sum.low);
        self.entries[bin] += 1;
        self.entries[bin + 1] += u64::from(weights[1] != 0.);
    }

    /// Returns the sums of a bin.
    fn of_bin(&self, bin: usize) -> BinStaticSums {
        let sum = |quantity| {
            (0..self.parts).fold(DoubleDouble::default(), |mut sum, part| {
                let place = self.place(part, bin) + quantity;
                sum += DoubleDouble { high: self.high[place], low: self.low[place] };
                sum
            })
        };
        BinStaticSums {
            norm: sum(0),
            norm_sq: sum(1),
            count: sum(2),
            base_variance: sum(3),
            entries: self.entries[bin],
            ..BinStaticSums::default()
        }
    }
}

impl EntryVisitor for PartialSums<'_> {
    #[inline(always)]
    fn visit(&mut self, pixel: usize, bin: usize, weight: f32) {
        let term = self.terms.term(pixel, weight);
        let place = self.place(pixel, bin);
        let terms = [term.norm, term.norm_sq, term.count, term.base_variance];
        for (place, term) in (place..).zip(terms) {
            let mut sum = DoubleDouble { high: self.high[place], low: self.low[place] };
            sum += term;
            (self.high[place], self.low[place]) = (sum.high, sum.low);
        }
        self.entries[bin] += 1;
    }
}

/// Adds the terms of a dark to the sums of all bins.
struct AddDarkTerms<'a> {
    terms: StaticTerms<'a>,
    bin_sums: &'a mut [BinStaticSums],
}

impl EntryVisitor for AddDarkTerms<'_> {
    #[inline(always)]
    fn visit(&mut self, pixel: usize, bin: usize, weight: f32) {
        let term = self.terms.term(pixel, weight);
        let sums = &mut self.bin_sums[bin];
        sums.dark += term.dark;
        sums.dark_sq += term.dark_sq;
        sums.norm_dark += term.norm_dark;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Isa;
    use crate::tiled_csc::TiledCsc;

    /// Adds the terms of all entries, one after the other.
    fn plain_sums(terms: StaticTerms<'_>, nbins: usize) -> Vec<BinStaticSums> {
        let mut sums = vec![BinStaticSums::default(); nbins];
        terms.matrix.for_each_entry(|pixel: usize, bin: usize, weight: f32| {
            let (sum, term) = (&mut sums[bin], terms.term(pixel, weight));
            sum.norm += term.norm;
            sum.norm_sq += term.norm_sq;
            sum.count += term.count;
            sum.base_variance += term.base_variance;
            sum.dark += term.dark;
            sum.dark_sq += term.dark_sq;
            sum.norm_dark += term.norm_dark;
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
            let mut values: Vec<f64> =
                (0..PIXELS).map(|p| 0.3 + (p as f64 * 0.7).sin().abs()).collect();
            for pixel in (0..PIXELS).filter(|pixel| !matrix.has_entries(*pixel)) {
                values[pixel] = [f64::NAN, f64::INFINITY][pixel % 2];
            }
            for has_images in [false, true] {
                let image = has_images.then_some(&values[..]);
                let terms = StaticTerms {
                    matrix: matrix.as_slices(),
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
                            assert!(error.abs() <= 1e-28 * expected.high, "{found:?} {expected:?}");
                        }
                    }
                }
            }
        }
    }
}
