//! [`ClipBuffer`], which clips one bin of one frame.

use super::clipped_sums::{ClippedSums, TermSums, clip_terms, weight_terms};
use super::list_bits::list_bits;
use super::partial_sums::{sum, sum_pairs};
use super::quantile::PixelTerms;
use super::rejected::RejectedShares;
use super::sigma_clip::{ClipRule, ClipStep};
use super::term_lists::TermLists;
use super::{BinSums, RawPixels};

/// Number of pixels that are compared before the outliers among them are listed: one in each bit.
const PIXELS_PER_OUTLIER_MASK: usize = u64::BITS as usize;

/// The pixels of one bin. Removed pixels are 0 in all lists: they add nothing to a sum, and are no
/// outliers.
#[derive(Default)]
pub(super) struct ClipBuffer {
    terms: TermLists,
    /// The entries that are to be removed, ascending.
    to_remove: Vec<u32>,
}

impl ClipBuffer {
    /// Returns the sums over the valid pixels of a bin that clipping keeps. Adds the others to
    /// `rejected`, if that is wanted.
    #[inline(always)]
    pub(super) fn clip(
        &mut self,
        rule: ClipRule,
        pixels: &RawPixels<'_>,
        mut rejected: Option<&mut RejectedShares>,
    ) -> BinSums {
        let RawPixels { bin, raw, .. } = *pixels;
        self.terms.load(bin, raw);
        let mut clipped = self.add_up_valid(pixels);
        if clipped.pixels == 0 {
            return BinSums::default();
        }
        if rule.variance_model.is_spread_in_clipping() {
            clipped.set_spread(0., self.spread_around(0.));
            if clipped.has_little_spread() {
                clipped.set_spread(clipped.mean(), self.spread_around(clipped.mean()));
            }
        }
        for _ in 0..rule.max_iter {
            let step = rule.step(&clipped.with_clip_variance());
            self.list_outliers(step);
            if self.to_remove.is_empty() {
                break;
            }
            let center = clipped.center();
            let mut removed = TermSums::default();
            for &entry in &self.to_remove {
                let entry = entry as usize;
                let term = self.terms.term(entry);
                removed.add(entry, &clip_terms(term, center));
                if let Some(rejected) = &mut rejected {
                    rejected.add(bin.pixels[entry], step.is_above(term.signal, term.norm));
                }
            }
            self.terms.set_zero(&self.to_remove);
            clipped.subtract(&removed, false, |center| self.add_up(center));
            if clipped.pixels == 0 {
                return BinSums::default();
            }
        }
        rule.result(&clipped)
    }

    /// Removes the invalid pixels, and returns the sums over the others.
    #[inline(always)]
    fn add_up_valid(&mut self, pixels: &RawPixels<'_>) -> ClippedSums {
        let RawPixels { bin, .. } = *pixels;
        pixels.list_invalid(&mut self.to_remove);
        let mut weights_of_invalid = TermSums::default();
        for &entry in &self.to_remove {
            let entry = entry as usize;
            weights_of_invalid.add(entry, &weight_terms(bin.term(entry, 0.)));
        }
        self.terms.set_zero(&self.to_remove);
        let signal = sum(&self.terms.signal, |signal| signal);
        let variance = sum(&self.terms.variance, |variance| variance);
        let sums = BinSums { signal, variance, ..bin.full_sums };
        let mut clipped = ClippedSums::new(sums, bin.pixels.len());
        if weights_of_invalid.entries > 0 {
            clipped.subtract(&weights_of_invalid, false, |center| self.add_up(center));
        }
        clipped
    }

    /// Returns Σ (w s - c w n)² and Σ (w s - c w n) w n with a center c.
    #[inline(always)]
    fn spread_around(&self, center: f64) -> [f64; 2] {
        let TermLists { signal, norms, .. } = &self.terms;
        let square = |signal: f64, norm: f64| {
            let distance = signal - center * norm;
            distance * distance
        };
        let product = |signal: f64, norm: f64| (signal - center * norm) * norm;
        [sum_pairs(signal, norms, square), sum_pairs(signal, norms, product)]
    }

    /// Adds up the terms of the pixels that remain.
    #[cold]
    fn add_up(&self, center: f64) -> TermSums {
        let mut sums = TermSums::default();
        for (entry, &norm) in self.terms.norms.iter().enumerate() {
            // Without weights, removed pixels would count as 1. No other pixel has a norm of 0: matrix and
            // normalization have none.
            if norm != 0. {
                sums.add(entry, &clip_terms(self.terms.term(entry), center));
            }
        }
        sums
    }

    /// Lists the pixels whose s / n is farther from the mean than a step of clipping allows.
    #[inline(always)]
    fn list_outliers(&mut self, step: ClipStep) {
        self.to_remove.clear();
        let norms = self.terms.norms.chunks(PIXELS_PER_OUTLIER_MASK);
        let pixels = self.terms.signal.chunks(PIXELS_PER_OUTLIER_MASK).zip(norms);
        for (number, (signal, norms)) in pixels.enumerate() {
            let mut outliers = 0;
            // A mask and no branch, so that the compiler uses vectors.
            for (bit, (&signal, &norm)) in signal.iter().zip(norms).enumerate() {
                outliers |= u64::from(step.rejects(signal, norm)).wrapping_neg() & (1 << bit);
            }
            list_bits(outliers, number * PIXELS_PER_OUTLIER_MASK, &mut self.to_remove);
        }
    }
}
