//! The mean of the pixels between two quantiles, as pyFAI's `medfilt1d_ng`.
//!
//! A quantile is found by selection, not by sorting all pixels: a sample brackets it, one pass
//! picks the pixels within the bracket, and of these candidates about half is dropped at a time.
//! Where few photons fall, most pixels of a bin are equal; then the same is done with what orders
//! equal pixels.

use std::cmp::Ordering;

use super::BinSums;
use super::partial_sums::{PARTIAL_SUMS, add_partial_sums, sum};
use super::quantile_candidates::CandidatePixels;
use crate::simd::Simd;

/// Fraction of a bin's norm by which rounding may shift a quantile. A pixel that near to the
/// quantile is at it.
const QUANTILE_TOLERANCE: f64 = 1e-12;

/// Working memory of a thread.
#[derive(Default)]
pub(crate) struct QuantileScratch {
    /// The pixels that the quantile may fall on.
    candidates: CandidatePixels,
    /// The next, smaller set of candidates.
    narrowed: CandidatePixels,
    selected: Vec<u32>,
}

impl QuantileScratch {
    /// Returns the list of the selected pixels, empty.
    pub(super) fn clear_selected(&mut self) -> &mut Vec<u32> {
        self.selected.clear();
        &mut self.selected
    }
}

/// The contribution of a pixel to the sums of its bin.
#[derive(Clone, Copy)]
pub(super) struct PixelTerm {
    /// w s.
    pub(super) signal: f64,
    /// w² v.
    pub(super) variance: f64,
    /// w n.
    pub(super) norm: f64,
    /// w.
    pub(super) weight: f64,
}

impl PixelTerm {
    /// Returns what orders pixels of equal intensity.
    #[inline(always)]
    pub(super) fn keys(&self) -> [f64; 3] {
        [self.signal, self.variance, self.norm]
    }
}

/// The position of a quantile among the pixels of a bin, ordered by intensity.
#[derive(Clone, Copy)]
pub(super) struct QuantileCut {
    /// Index of the pixel at the quantile.
    pub(super) index: u32,
    pub(super) intensity: f64,
    term: PixelTerm,
    /// Σ w n up to and including the pixel at the quantile.
    pub(super) norm_up_to: f64,
}

/// Access to the contributions of the pixels of a bin.
pub(super) trait PixelTerms {
    /// Returns the contribution of the pixel at `index` in the bin.
    fn term(&self, index: usize) -> PixelTerm;
}

/// Two quantiles of a bin.
pub(super) struct QuantileRange {
    low: f64,
    high: f64,
    /// Σ w n of all pixels.
    norm: f64,
    slack: f64,
}

impl QuantileRange {
    pub(super) fn new(low: f64, high: f64, norm: f64) -> Self {
        Self { low, high, norm, slack: QUANTILE_TOLERANCE * norm.abs() }
    }

    /// Returns whether both quantiles are one, and pixels can be on either side of it.
    #[inline(always)]
    pub(super) fn is_single(&self) -> bool {
        self.low == self.high && !self.has_no_lower() && !self.has_no_upper()
    }

    /// Returns whether no pixel is too low.
    #[inline(always)]
    pub(super) fn has_no_lower(&self) -> bool {
        self.low <= 0.
    }

    /// Returns whether no pixel is too high.
    #[inline(always)]
    pub(super) fn has_no_upper(&self) -> bool {
        self.high >= 1.
    }

    /// Returns the ranks that the quantiles have among so many pixels of equal weight, rounded down.
    #[inline(always)]
    pub(super) fn ranks(&self, pixels: usize) -> [usize; 2] {
        [self.low, self.high].map(|quantile| (quantile * pixels as f64) as usize)
    }

    /// Returns whether a pixel is at the lower quantile or above it, given Σ w n up to and including
    /// it.
    #[inline(always)]
    pub(super) fn reaches_low(&self, norm_up_to: f64) -> bool {
        norm_up_to >= self.lower_limit()
    }

    /// Returns Σ w n up to and including the pixel at the lower quantile, or less.
    #[inline(always)]
    pub(super) fn lower_limit(&self) -> f64 {
        self.low * self.norm - self.slack
    }

    /// Returns whether both quantiles are at the pixel of the lower one, as they mostly are for a
    /// median, given Σ w n up to and including it.
    #[inline(always)]
    pub(super) fn is_median_at(&self, norm_up_to: f64) -> bool {
        self.low == self.high && self.reaches_high(norm_up_to)
    }

    /// Returns whether a pixel is at the upper quantile or above it, given Σ w n up to and including
    /// it.
    #[inline(always)]
    pub(super) fn reaches_high(&self, norm_up_to: f64) -> bool {
        norm_up_to > self.high * self.norm + self.slack
    }
}

/// Pixels of a bin.
pub(super) struct BinPixels<'a, B> {
    /// s / n.
    pub(super) intensity: &'a [f64],
    /// w n.
    pub(super) norm: &'a [f64],
    /// The contributions to the sums.
    pub(super) bin: &'a B,
}

impl<B: PixelTerms> BinPixels<'_, B> {
    /// Replaces the contents of `selected` by the indices of the pixels from the lower quantile to
    /// the upper one, ascending. Without a quantile there is no limit.
    pub(super) fn select<S: Simd>(
        &self,
        simd: S,
        lower: Option<QuantileCut>,
        upper: Option<QuantileCut>,
        selected: &mut Vec<u32>,
    ) {
        if let (Some(lower), Some(upper)) = (lower, upper)
            && lower.index == upper.index
        {
            selected.clear();
            selected.push(lower.index);
            return;
        }
        let from = lower.map_or(f64::NEG_INFINITY, |cut| cut.intensity);
        let to = upper.map_or(f64::INFINITY, |cut| cut.intensity);
        simd.indices_within(self.intensity, from, to, selected);
        selected.retain(|&index| {
            lower.is_none_or(|cut| cut.compare(self, index).is_ge())
                && upper.is_none_or(|cut| cut.compare(self, index).is_le())
        });
    }
}

/// The pixels of a bin that are not given, where a quantile is sought among those that it probably
/// falls on.
#[derive(Clone, Copy)]
pub(super) struct OtherPixels {
    /// Σ w n of the pixels that are lower than all given ones.
    pub(super) norm_below: f64,
    /// Σ w n of the given pixels.
    pub(super) norm_within: f64,
    /// By how much these sums may differ from those of other ways to add up all pixels.
    pub(super) rounding: f64,
    /// The pixels below are lower than this intensity.
    pub(super) low: f64,
    /// The pixels above are higher than this intensity.
    pub(super) high: f64,
}

/// Returns the sums over the pixels between two quantiles, including the pixels at the quantiles.
///
/// Pixels of equal intensity are ordered by w s, w² v and w n, as pyFAI sorts its records.
/// `full_sums` has the weights of the whole bin, if they are known.
pub(super) fn mean_between_quantiles<S: Simd, B: PixelTerms>(
    simd: S,
    pixels: &BinPixels<'_, B>,
    full_sums: Option<BinSums>,
    low: f64,
    high: f64,
    scratch: &mut QuantileScratch,
) -> BinSums {
    let norm = full_sums.map_or_else(|| sum(pixels.norm, |norm| norm), |full_sums| full_sums.norm);
    let range = QuantileRange::new(low, high, norm);
    let find = |reaches: &dyn Fn(f64) -> bool, scratch: &mut QuantileScratch| {
        find_cut(simd, pixels, (0., norm), reaches, scratch)
    };
    let lower = (!range.has_no_lower()).then(|| find(&|norm| range.reaches_low(norm), scratch));
    let upper = (!range.has_no_upper()).then(|| {
        let is_same = |lower: &QuantileCut| range.is_median_at(lower.norm_up_to);
        let same = lower.filter(is_same);
        same.unwrap_or_else(|| find(&|norm| range.reaches_high(norm), scratch))
    });
    pixels.select(simd, lower, upper, &mut scratch.selected);
    let sums = sum_selected(pixels.bin, &scratch.selected);
    match full_sums {
        Some(full_sums) if range.has_no_lower() && range.has_no_upper() => {
            BinSums { signal: sums.signal, variance: sums.variance, ..full_sums }
        }
        _ => sums,
    }
}

/// Finds the pixel at a quantile as [`find_cut`] does, or returns `None` if it may not be among the
/// given pixels, or if rounding decides whether the sums reach the quantile.
pub(super) fn find_cut_among<S: Simd, B: PixelTerms>(
    simd: S,
    pixels: &BinPixels<'_, B>,
    others: &OtherPixels,
    reaches: &dyn Fn(f64) -> bool,
    scratch: &mut QuantileScratch,
) -> Option<QuantileCut> {
    let OtherPixels { norm_below, norm_within, rounding, low, high } = *others;
    if pixels.norm.is_empty() || reaches(norm_below) {
        return None;
    }
    let norms = (norm_below, norm_below + norm_within);
    let cut = find_cut(simd, pixels, norms, reaches, scratch);
    // Without pixels above, the last pixel is at the quantile if the sums do not reach it.
    let is_reached = reaches(cut.norm_up_to - rounding)
        || high == f64::INFINITY && !reaches(cut.norm_up_to + rounding);
    let is_first = !reaches(cut.norm_up_to - cut.term.norm + rounding);
    (is_reached && is_first && (low..=high).contains(&cut.intensity)).then_some(cut)
}

/// Returns the sums over the selected pixels of a bin.
#[inline(always)]
pub(super) fn sum_selected<B: PixelTerms>(bin: &B, selected: &[u32]) -> BinSums {
    let mut sums = [[0.; PARTIAL_SUMS]; 5];
    for selected in selected.chunks(PARTIAL_SUMS) {
        for (lane, &index) in selected.iter().enumerate() {
            let PixelTerm { signal, variance, norm, weight } = bin.term(index as usize);
            for (sum, term) in sums.iter_mut().zip([signal, variance, norm, norm * norm, weight]) {
                sum[lane] += term;
            }
        }
    }
    let [signal, variance, norm, norm_sq, count] = sums.map(add_partial_sums);
    BinSums { signal, variance, norm, norm_sq, count }
}

/// Finds the pixel at a quantile: the first, in order, for which `reaches(Σ w n up to and including
/// it)` is true, or the last if there is none. `norms` are Σ w n below all pixels, and up to and
/// including the last.
fn find_cut<S: Simd, B: PixelTerms>(
    simd: S,
    pixels: &BinPixels<'_, B>,
    norms: (f64, f64),
    reaches: &dyn Fn(f64) -> bool,
    scratch: &mut QuantileScratch,
) -> QuantileCut {
    let QuantileScratch { candidates, narrowed, .. } = scratch;
    let mut norm_below = candidates.start(simd, pixels.intensity, pixels.norm, norms, reaches);
    norm_below = candidates.narrow(simd, narrowed, norm_below, reaches);
    norm_below = candidates.keep_ties(simd, narrowed, norm_below, reaches);
    for key in 0..3 {
        if candidates.index.len() == 1 {
            break;
        }
        let key_of = |&index: &u32| pixels.bin.term(index as usize).keys()[key];
        candidates.key.clear();
        candidates.key.extend(candidates.index.iter().map(key_of));
        if !candidates.are_all_equal() {
            norm_below = candidates.narrow(simd, narrowed, norm_below, reaches);
            norm_below = candidates.keep_ties(simd, narrowed, norm_below, reaches);
        }
    }
    // The remaining candidates are equal in all keys. The order of the frame decides.
    let (mut at, mut norm_up_to) = (0, norm_below + candidates.norm[0]);
    while at + 1 < candidates.norm.len() && !reaches(norm_up_to) {
        at += 1;
        norm_up_to += candidates.norm[at];
    }
    let index = candidates.index[at];
    let (intensity, term) = (pixels.intensity[index as usize], pixels.bin.term(index as usize));
    QuantileCut { index, intensity, term, norm_up_to }
}

impl QuantileCut {
    /// Compares a pixel of the bin with the pixel at the quantile, in the order of pixels.
    #[inline(always)]
    fn compare<B: PixelTerms>(&self, pixels: &BinPixels<'_, B>, index: u32) -> Ordering {
        let intensity = pixels.intensity[index as usize];
        if intensity != self.intensity {
            return if intensity < self.intensity { Ordering::Less } else { Ordering::Greater };
        }
        let keys = pixels.bin.term(index as usize).keys();
        let order = keys.partial_cmp(&self.term.keys()).unwrap_or(Ordering::Equal);
        order.then(index.cmp(&self.index))
    }
}
