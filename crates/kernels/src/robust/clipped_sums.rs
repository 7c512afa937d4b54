//! [`ClippedSums`], the sums over the pixels of a bin that remain while others are removed.
//!
//! Removed pixels, the invalid ones and outliers, are subtracted from the sums: few are removed, and
//! the others need not be looked at again. Rounding limits that, so a sum of which little is left is
//! added up again.
//!
//! The spread is kept as sums around a center c, of which Σ w² (s - m n)² follows for any mean m: with
//! D = Σ (w s - c w n)² and E = Σ (w s - c w n) w n it is D - 2 (m - c) E + (m - c)² Σ w² n². The center
//! is 0 unless the spread is so small beside the mean that rounding would matter: then D and E are added
//! up again around the mean.

use super::BinSums;
use super::partial_sums::PARTIAL_SUMS;
use super::quantile::PixelTerm;

/// Signal and weights are added up again if they are less than this part of what was subtracted from
/// them, in absolute numbers, since they were added up last: rounding is then at most 2⁶ times that of
/// new sums. The spread, which may be small beside the mean, feels that of the mean.
const LEAST_LEFT: f64 = 1. / 64.;

/// As [`LEAST_LEFT`], for variances.
const LEAST_VARIANCE_LEFT: f64 = 1. / 4096.;

/// The terms that a pixel adds to the sums of its bin, or such sums: eight numbers fill a vector.
pub(super) type ClipTerms = [f64; 8];

/// [`ClipTerms`] has the terms of [`BinSums`] in its order, of which these are named here.
const SIGNAL: usize = 0;
const VARIANCE: usize = 1;
const NORM: usize = 2;
const NORM_SQ: usize = 3;
const COUNT: usize = 4;
/// (w s - c w n)².
const SQUARE: usize = 5;
/// (w s - c w n) w n.
const PRODUCT: usize = 6;
/// |w s|.
const MAGNITUDE: usize = 7;

/// Sums of terms of some entries of a bin. The other entries count as 0, so that the order of
/// [`super::partial_sums`] is that of all entries.
#[derive(Clone, Copy, Default)]
pub(super) struct TermSums {
    partial: [ClipTerms; PARTIAL_SUMS],
    /// The number of entries.
    pub(super) entries: usize,
}

impl TermSums {
    /// Adds the terms of an entry.
    #[inline(always)]
    pub(super) fn add(&mut self, entry: usize, terms: &ClipTerms) {
        for (sum, term) in self.partial[entry % PARTIAL_SUMS].iter_mut().zip(terms) {
            *sum += term;
        }
        self.entries += 1;
    }

    /// Returns the sums, in the order of [`super::partial_sums`].
    #[inline(always)]
    fn totals(&self) -> ClipTerms {
        let mut sums = self.partial;
        for half in [8, 4, 2, 1] {
            for lane in 0..half {
                for number in 0..sums[0].len() {
                    sums[lane][number] += sums[lane + half][number];
                }
            }
        }
        sums[0]
    }
}

/// The sums over the pixels of a bin that remain.
#[derive(Clone, Copy, Default)]
pub(super) struct ClippedSums {
    sums: ClipTerms,
    /// The sums of what was subtracted since each was added up last; of the signal, Σ |w s|.
    subtracted: BinSums,
    /// The number of pixels that were subtracted from the weights.
    subtracted_pixels: usize,
    /// The center of the spread, and D as it was when it was added up last.
    center: f64,
    squares_added_up: f64,
    /// True if clipping measures distances by the spread.
    has_spread: bool,
    /// The number of pixels that remain.
    pub(super) pixels: usize,
}

impl ClippedSums {
    /// Begins with the sums over so many pixels. The variance is Σ w² v.
    #[inline(always)]
    pub(super) fn new(sums: BinSums, pixels: usize) -> Self {
        let BinSums { signal, variance, norm, norm_sq, count } = sums;
        let sums = [signal, variance, norm, norm_sq, count, 0., 0., 0.];
        Self { sums, pixels, ..Self::default() }
    }

    /// Sets Σ w s and Σ w² v.
    #[inline(always)]
    pub(super) fn set_signal(&mut self, signal: f64, variance: f64) {
        (self.sums[SIGNAL], self.sums[VARIANCE]) = (signal, variance);
    }

    /// Returns Σ w s / Σ w n.
    #[inline(always)]
    pub(super) fn mean(&self) -> f64 {
        self.sums[SIGNAL] / self.sums[NORM]
    }

    /// Sets the spread around a center: D and E.
    #[inline(always)]
    pub(super) fn set_spread(&mut self, center: f64, [squares, products]: [f64; 2]) {
        (self.center, self.has_spread) = (center, true);
        (self.sums[SQUARE], self.squares_added_up) = (squares, squares);
        self.sums[PRODUCT] = products;
    }

    /// Returns whether the spread is so small that it must be added up again, around the mean.
    #[inline(always)]
    pub(super) fn has_little_spread(&self) -> bool {
        self.has_spread
            && is_little(self.spread_around_mean(), LEAST_VARIANCE_LEFT * self.squares_added_up)
    }

    /// Returns the center of the spread; 0 without one.
    #[inline(always)]
    pub(super) fn center(&self) -> f64 {
        self.center
    }

    /// Returns Σ w² (s - m n)² with the mean m.
    #[inline(always)]
    fn spread_around_mean(&self) -> f64 {
        let shift = self.mean() - self.center;
        self.sums[SQUARE] - 2. * shift * self.sums[PRODUCT] + shift * shift * self.sums[NORM_SQ]
    }

    /// Returns the sums over the remaining pixels with the variance that outliers are found by.
    #[inline(always)]
    pub(super) fn with_clip_variance(&self) -> BinSums {
        let sums = self.with_pixel_variance();
        match self.has_spread {
            true => BinSums { variance: self.spread_around_mean(), ..sums },
            false => sums,
        }
    }

    /// Returns the sums over the remaining pixels with the variance Σ w² v.
    #[inline(always)]
    pub(super) fn with_pixel_variance(&self) -> BinSums {
        let [signal, variance, norm, norm_sq, count, ..] = self.sums;
        BinSums { signal, variance, norm, norm_sq, count }
    }

    /// Subtracts pixels, given their terms. `add_up` returns the terms of all pixels that remain then,
    /// with a center.
    ///
    /// Where `has_exact_counts`, Σ w s and Σ w² v are sums of integers from 0 on, which are exact. New
    /// ones would be the same.
    #[inline(always)]
    pub(super) fn subtract(
        &mut self,
        removed: &TermSums,
        has_exact_counts: bool,
        add_up: impl Fn(f64) -> TermSums,
    ) {
        self.pixels -= removed.entries;
        if self.pixels == 0 {
            return;
        }
        let totals = removed.totals();
        for (sum, removed) in self.sums.iter_mut().zip(totals) {
            *sum -= removed;
        }
        self.subtracted.signal += totals[MAGNITUDE];
        self.subtracted.variance += totals[VARIANCE].abs();
        self.subtracted.norm_sq += totals[NORM_SQ];
        self.subtracted.count += totals[COUNT];
        self.subtracted_pixels += removed.entries;
        // Σ |w n| is not known, but this is no less.
        let norms = (self.subtracted_pixels as f64 * self.subtracted.norm_sq).sqrt();
        let sums = &mut self.sums;
        let is_little_signal = is_little(sums[SIGNAL].abs(), LEAST_LEFT * self.subtracted.signal);
        let is_little_variance =
            is_little(sums[VARIANCE].abs(), LEAST_VARIANCE_LEFT * self.subtracted.variance);
        let are_little_weights = is_little(sums[NORM].abs(), LEAST_LEFT * norms)
            || is_little(sums[NORM_SQ], LEAST_LEFT * self.subtracted.norm_sq)
            || is_little(sums[COUNT], LEAST_LEFT * self.subtracted.count);
        if are_little_weights || (is_little_signal || is_little_variance) && !has_exact_counts {
            let again = add_up(0.).totals();
            if is_little_signal {
                (sums[SIGNAL], self.subtracted.signal) = (again[SIGNAL], 0.);
            }
            if is_little_variance {
                (sums[VARIANCE], self.subtracted.variance) = (again[VARIANCE], 0.);
            }
            if are_little_weights {
                sums[NORM..=COUNT].copy_from_slice(&again[NORM..=COUNT]);
                (self.subtracted.norm_sq, self.subtracted.count) = (0., 0.);
                self.subtracted_pixels = 0;
            }
        } else {
            // As new sums would be.
            let forget = |is_little: bool, subtracted: &mut f64| {
                *subtracted = if is_little { 0. } else { *subtracted };
            };
            forget(is_little_signal, &mut self.subtracted.signal);
            forget(is_little_variance, &mut self.subtracted.variance);
        }
        if self.has_spread && are_little_weights || self.has_little_spread() {
            let mean = self.mean();
            let spread = if has_exact_counts && self.sums[SIGNAL] == 0. {
                // No photon is left.
                [0.; 2]
            } else {
                let again = add_up(mean).totals();
                [again[SQUARE], again[PRODUCT]]
            };
            self.set_spread(mean, spread);
        }
    }
}

/// Returns whether a number is below the least that may be left; true if either is no number.
#[inline(always)]
fn is_little(left: f64, least: f64) -> bool {
    left < least || left.is_nan() || least.is_nan()
}

/// Returns the terms of a pixel, given the center of the spread.
#[inline(always)]
pub(super) fn clip_terms(pixel: PixelTerm, center: f64) -> ClipTerms {
    let PixelTerm { signal, variance, norm, weight } = pixel;
    let distance = signal - center * norm;
    let (square, product) = (distance * distance, distance * norm);
    [signal, variance, norm, norm * norm, weight, square, product, signal.abs()]
}

/// Returns the terms of a pixel's weights alone, as those of an invalid pixel, which was in no other sum.
#[inline(always)]
pub(super) fn weight_terms(pixel: PixelTerm) -> ClipTerms {
    clip_terms(PixelTerm { signal: 0., variance: 0., ..pixel }, 0.)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds up the terms of all entries for which `is_left`.
    fn add_up(pixels: &[PixelTerm], is_left: &[bool], center: f64) -> TermSums {
        let mut sums = TermSums::default();
        for (entry, pixel) in pixels.iter().enumerate().filter(|(entry, _)| is_left[*entry]) {
            sums.add(entry, &clip_terms(*pixel, center));
        }
        sums
    }

    #[test]
    fn sums_of_what_is_left_are_right_whatever_was_removed() {
        // Numbers from 0 to 1.
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as f64 / (1_u64 << 31) as f64
        };
        let (mut again, mut kept) = (0, 0);
        for case in 0..2000 {
            // A few pixels are larger, by up to 10¹⁵, in signal or weight.
            let scale = 10_f64.powf(15. * random());
            let level = 10_f64.powf(4. * random());
            let pixels: Vec<PixelTerm> = (0..40)
                .map(|entry| {
                    let is_large = entry % 10 == 7;
                    let factor = |is_it: bool| if is_large && is_it { scale } else { 1. };
                    let sign = if case % 3 == 0 && random() < 0.5 { -1. } else { 1. };
                    let weight = (0.5 + random()) * factor(case % 5 == 0);
                    PixelTerm {
                        signal: sign * weight * (level + random()) * factor(case % 5 != 1),
                        variance: weight * weight * (1. + random()) * factor(case % 5 != 2),
                        norm: weight * (0.9 + random() / 8.),
                        weight,
                    }
                })
                .collect();
            let mut is_left = vec![true; pixels.len()];
            let [signal, variance, norm, norm_sq, count, squares, products, _] =
                add_up(&pixels, &is_left, 0.).totals();
            let sums = BinSums { signal, variance, norm, norm_sq, count };
            let mut clipped = ClippedSums::new(sums, pixels.len());
            clipped.set_spread(0., [squares, products]);
            // In three steps.
            for step in 0..3 {
                let mut removed = TermSums::default();
                for (entry, pixel) in pixels.iter().enumerate() {
                    if entry % 10 == 7 && entry / 10 % 3 == step {
                        removed.add(entry, &clip_terms(*pixel, clipped.center()));
                        is_left[entry] = false;
                    }
                }
                let calls = std::cell::Cell::new(0);
                clipped.subtract(&removed, false, |center| {
                    calls.set(calls.get() + 1);
                    add_up(&pixels, &is_left, center)
                });
                again += calls.get();
                kept += usize::from(calls.get() == 0);
                let magnitude = |term: usize| -> f64 {
                    let left = pixels.iter().zip(&is_left).filter(|(_, is_left)| **is_left);
                    left.map(|(pixel, _)| clip_terms(*pixel, 0.)[term].abs()).sum()
                };
                let new = add_up(&pixels, &is_left, 0.).totals();
                let around_mean = add_up(&pixels, &is_left, new[SIGNAL] / new[NORM]).totals();
                for (term, (found, new)) in clipped.sums.iter().zip(new).enumerate().take(SQUARE) {
                    let error = (found - new).abs();
                    assert!(error < 1e-11 * magnitude(term), "case {case}, step {step}, {term}");
                }
                let error = (clipped.with_clip_variance().variance - around_mean[SQUARE]).abs();
                let of_mean = 1e-13 * (new[SIGNAL] / new[NORM] * around_mean[PRODUCT]).abs();
                let allowed = 1e-10 * around_mean[SQUARE] + of_mean + 1e-16 * magnitude(SQUARE);
                assert!(error < allowed, "case {case}, step {step}: {error:e}, not {allowed:e}");
            }
        }
        // Both ways are taken.
        assert!(again > 1000 && kept > 500, "{again} {kept}");
    }

    #[test]
    fn exact_sums_need_no_pixels() {
        let pixel =
            |signal: f64| PixelTerm { signal, variance: signal.max(1.), norm: 1.5, weight: 1. };
        let pixels: Vec<PixelTerm> = (0..100).map(|entry| pixel(f64::from(entry / 99))).collect();
        let mut is_left = vec![true; pixels.len()];
        let all = add_up(&pixels, &is_left, 0.).totals();
        let [signal, variance, norm, norm_sq, count, squares, products, _] = all;
        let mut exact = ClippedSums::new(BinSums { signal, variance, norm, norm_sq, count }, 100);
        exact.set_spread(0., [squares, products]);
        let mut others = exact;
        let mut removed = TermSums::default();
        removed.add(99, &clip_terms(pixels[99], 0.));
        is_left[99] = false;
        exact.subtract(&removed, true, |_| unreachable!("all is known"));
        others.subtract(&removed, false, |center| add_up(&pixels, &is_left, center));
        assert_eq!(exact.with_clip_variance(), others.with_clip_variance());
        assert_eq!(exact.with_pixel_variance(), others.with_pixel_variance());
        assert_eq!(exact.subtracted, others.subtracted);
    }
}
