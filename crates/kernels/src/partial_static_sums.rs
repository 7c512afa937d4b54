//! [`PartialStaticSums`], to which the terms of pixels are added a pixel's two bins at a time.

use std::ops::{Add, Mul};

use crate::bitmap::Bitmap;
use crate::double_double::{DoubleDouble, each, two_sums};
use crate::static_sums::{BinStaticSums, StaticTerms};
use crate::summation_order::TILE;
use crate::tiled_csc::EntryVisitor;

/// Number of sums of a bin that no dark changes: norm, norm_sq, count and base_variance.
const QUANTITIES: usize = 4;

/// Number of sums of a bin that a dark has, dark, dark_sq and norm_dark, and one that stays zero, so
/// that two bins fill a vector register.
const DARK_QUANTITIES: usize = 4;

/// Number of bins up to which each bin has several partial sums. Neighbouring pixels are often in
/// one bin, and an addition waits for the last to the same sum.
pub(crate) const FEW_BINS: usize = 1 << 13;

/// Number of pixels for each bin from which on several partial sums are worth their totals.
const PARTS_PIXELS: usize = 16;

/// Number of entries of a tile that can be looked at while those of a pixel are searched among them.
const SEARCH_ENTRIES: usize = 32;

/// The [`BinStaticSums`] over some of a plan's pixels, in parts for pixels whose numbers differ in the
/// last bits.
pub(crate) struct PartialStaticSums<'a> {
    terms: StaticTerms<'a>,
    /// Number of parts, a power of two.
    parts: usize,
    /// Number of bins in a part, one more than there are: pairs have a second bin also if its weight
    /// is 0.
    part_bins: usize,
    sums: BinColumns<QUANTITIES>,
    /// Empty without a dark.
    dark_sums: BinColumns<DARK_QUANTITIES>,
    entries: Vec<u64>,
    /// 1, unknown to the compiler, which takes vector instructions apart where a factor is 1.
    one: f64,
}

/// Sums of `N` quantities: the quantities of each bin side by side, the bins of each part, and the
/// parts.
struct BinColumns<const N: usize> {
    sums: Vec<f64>,
    /// The sums of all that was lost by rounding in additions to `sums`.
    errors: Vec<f64>,
}

impl<'a> PartialStaticSums<'a> {
    /// Returns sums of zero, to which the terms of this number of pixels will be added.
    pub(crate) fn new(
        terms: StaticTerms<'a>,
        nbins: usize,
        pixels: usize,
    ) -> PartialStaticSums<'a> {
        let has_parts = nbins <= FEW_BINS && pixels / PARTS_PIXELS >= nbins;
        let (parts, part_bins) = (if has_parts { 4 } else { 1 }, nbins + 1);
        PartialStaticSums {
            terms,
            parts,
            part_bins,
            sums: BinColumns::zeros(parts * part_bins),
            dark_sums: BinColumns::zeros(if terms.dark.is_some() { parts * part_bins } else { 0 }),
            entries: vec![0; part_bins],
            one: std::hint::black_box(1.),
        }
    }

    /// Returns the number of a bin among those of all parts, in the part of a pixel.
    #[inline(always)]
    fn bin_in_part(&self, pixel: usize, bin: usize) -> usize {
        (pixel & (self.parts - 1)) * self.part_bins + bin
    }

    /// Adds the terms of a pixel's pair: its weights in a bin and the next.
    #[inline(always)]
    pub(crate) fn add_pair(&mut self, pixel: usize, bin: usize, weights: [f32; 2]) {
        let [w, v] = weights.map(f64::from);
        let (n, one) = (self.terms.normalization[pixel], self.one);
        let both = [w, w, w, w, v, v, v, v];
        let norms = each(f64::mul, both, [n, n, one, one, n, n, one, one]);
        // Norms and counts as they are, and squares of norms and weights.
        let factors = [one, norms[1], one, norms[3], one, norms[5], one, norms[7]];
        let mut terms = each(f64::mul, norms, factors);
        if let Some(variance) = self.terms.variance {
            let given = variance[pixel];
            terms = each(f64::mul, terms, [one, one, one, given, one, one, one, given]);
        }
        let place = self.bin_in_part(pixel, bin);
        self.sums.add(place, terms);
        if let Some(dark) = self.terms.dark {
            let d = dark[pixel];
            let darks = each(f64::mul, both, [d; 2 * DARK_QUANTITIES]);
            let factors = [one, darks[1], norms[0], 0., one, darks[5], norms[4], 0.];
            self.dark_sums.add(place, each(f64::mul, darks, factors));
        }
        self.entries[bin] += 1;
        self.entries[bin + 1] += u64::from(weights[1] != 0.);
    }

    /// Adds the terms of some pixels of a tile. All of them have entries.
    #[inline(always)]
    pub(crate) fn add_pixels(&mut self, tile: usize, pixels: &Bitmap) {
        let matrix = self.terms.matrix;
        let extra = matrix.extra_of_tile(tile);
        let is_searched = (pixels.count() as usize) < extra.len() / SEARCH_ENTRIES;
        let (first_bins, pair_weights) = matrix.pairs();
        for in_tile in pixels.iter_ones() {
            let pixel = tile * TILE + in_tile;
            self.add_pair(pixel, first_bins[pixel] as usize, pair_weights[pixel]);
            if is_searched {
                for (bin, weight) in matrix.extra_of_pixel(pixel) {
                    self.visit(pixel, bin, weight);
                }
            }
        }
        for entry in if is_searched { &[] } else { extra } {
            if pixels.contains(entry.pixel as usize) {
                let pixel = tile * TILE + entry.pixel as usize;
                self.visit(pixel, entry.bin as usize, entry.weight);
            }
        }
    }

    /// Returns how many pixels have an entry in each bin.
    pub(crate) fn entries(&self) -> &[u64] {
        &self.entries[..self.part_bins - 1]
    }

    /// Returns the sums of a bin.
    pub(crate) fn of_bin(&self, bin: usize) -> BinStaticSums {
        let places = || (0..self.parts).map(|part| part * self.part_bins + bin);
        let [norm, norm_sq, count, base_variance] = self.sums.total(places());
        let [dark, dark_sq, norm_dark, _] = match self.terms.dark {
            Some(_) => self.dark_sums.total(places()),
            None => Default::default(),
        };
        let entries = self.entries[bin];
        BinStaticSums { norm, norm_sq, count, base_variance, dark, dark_sq, norm_dark, entries }
    }
}

impl<const N: usize> BinColumns<N> {
    fn zeros(bins: usize) -> BinColumns<N> {
        BinColumns { sums: vec![0.; bins * N], errors: vec![0.; bins * N] }
    }

    /// Adds terms to the sums of a bin and, if there are twice as many, to those of the next.
    #[inline(always)]
    fn add<const M: usize>(&mut self, bin: usize, terms: [f64; M]) {
        const { assert!(M == N || M == 2 * N, "the quantities of one or two bins") };
        let place = bin * N;
        let (Some(sums), Some(errors)) = (
            self.sums[place..].first_chunk_mut::<M>(),
            self.errors[place..].first_chunk_mut::<M>(),
        ) else {
            unreachable!("a bin after the last has sums")
        };
        let [sum, error] = two_sums(*sums, terms);
        *sums = sum;
        *errors = each(f64::add, *errors, error);
    }

    /// Returns the totals of the sums of some bins.
    fn total(&self, bins: impl Iterator<Item = usize>) -> [DoubleDouble; N] {
        let mut totals = [DoubleDouble::default(); N];
        for bin in bins {
            for (place, total) in (bin * N..).zip(&mut totals) {
                *total += DoubleDouble::from_sum(self.sums[place], self.errors[place]);
            }
        }
        totals
    }
}

/// Adds an entry that is not in a pair.
impl EntryVisitor for PartialStaticSums<'_> {
    #[inline(always)]
    fn visit(&mut self, pixel: usize, bin: usize, weight: f32) {
        let place = self.bin_in_part(pixel, bin);
        let w = f64::from(weight);
        let norm = w * self.terms.normalization[pixel];
        let variance = self.terms.variance.map_or(1., |variance| variance[pixel]);
        self.sums.add(place, [norm, norm * norm, w, w * w * variance]);
        if let Some(dark) = self.terms.dark {
            let dark = w * dark[pixel];
            self.dark_sums.add(place, [dark, dark * dark, dark * norm, 0.]);
        }
        self.entries[bin] += 1;
    }
}
