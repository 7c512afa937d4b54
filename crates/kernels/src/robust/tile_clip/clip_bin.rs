//! Clips one bin of one frame, given its sums and its candidates.

use super::super::BinSums;
use super::super::bin_entries::BinEntries;
use super::super::clipped_sums::{ClippedSums, TermSums, clip_terms, weight_terms};
use super::super::quantile::PixelTerm;
use super::super::sigma_clip::{ClipRule, ClipStep};
use super::bin_rows::CandidateRange;
use super::candidates::Candidate;

/// Relative distance by which the limits of candidates, which are f32 numbers like the intensities
/// that are compared with them, must be within those of clipping: 16 roundings of an f32.
const F32_MARGIN: f64 = 1e-6;

/// How far from the mean pixels become candidates, relative to the limit of clipping. The mean and
/// the limit of the next frames may shrink by a part of the rest without a second pass.
const CANDIDATE_DISTANCE: f64 = 0.75;

impl ClipStep {
    /// Returns the range outside of which pixels are to be candidates.
    pub(super) fn candidate_range(self) -> CandidateRange {
        let distance = CANDIDATE_DISTANCE * self.limit;
        let lower = (self.mean - distance) as f32;
        CandidateRange {
            lower: if lower > 0. { lower } else { CandidateRange::NONE.lower },
            upper: (self.mean + distance) as f32,
        }
    }

    /// Returns whether all outliers are candidates, if candidates are outside of `range`.
    fn finds_all_outside(self, range: CandidateRange) -> bool {
        let lower = f64::from(range.lower.max(0.)) * (1. - F32_MARGIN);
        let upper = f64::from(range.upper) * (1. + F32_MARGIN);
        range.upper < 0.
            || (range.upper.is_finite()
                && upper <= self.mean + self.limit * (1. - F32_MARGIN)
                && lower >= self.mean - self.limit)
    }
}

/// The outcome of clipping one bin of one frame.
pub(super) enum ClippedBin {
    /// The sums over the pixels that remain, and the last step; none if no pixel remains.
    Done(BinSums, Option<ClipStep>),
    /// Outliers may be missing among the candidates; the step that clipping got to.
    NeedsCandidates(ClipStep),
}

/// A bin of one frame.
pub(super) struct BinToClip<'a> {
    pub(super) bin: &'a BinEntries<'a>,
    /// n of each pixel of the frame.
    pub(super) normalization: &'a [f64],
    /// Σ s and the Poisson excess of the valid pixels.
    pub(super) signal: u64,
    pub(super) excess: u64,
    /// The pixels outside of `range`, by rising index.
    pub(super) candidates: &'a [Candidate],
    pub(super) range: CandidateRange,
    pub(super) invalid: &'a [Candidate],
}

/// Working memory for clipping.
#[derive(Default)]
pub(super) struct ClipScratch {
    /// The candidates that remain.
    remaining: Vec<Candidate>,
    /// The candidates that clipping removed, and whether they are above the mean.
    pub(super) rejected: Vec<(Candidate, bool)>,
    /// The entries that were removed, in any order.
    removed: Vec<usize>,
}

impl ClipScratch {
    /// Clips the pixels of a bin as [`super::super::clip_buffer`] does, with the same result.
    #[inline(always)]
    pub(super) fn clip(&mut self, to_clip: BinToClip<'_>, rule: ClipRule) -> ClippedBin {
        let BinToClip { bin, normalization, mut signal, excess, candidates, range, invalid } =
            to_clip;
        let Self { remaining, rejected, removed } = self;
        rejected.clear();
        removed.clear();
        removed.extend(invalid.iter().filter_map(|invalid| bin.entry_of(invalid.pixel)));
        remaining.clear();
        remaining.extend(candidates.iter().filter(|candidate| {
            invalid.binary_search_by_key(&candidate.pixel, |invalid| invalid.pixel).is_err()
        }));
        let mut variance = (bin.pixels.len() - removed.len()) as u64 + excess;
        let sums = BinSums { signal: signal as f64, variance: variance as f64, ..bin.full_sums };
        let mut clipped = ClippedSums::new(sums, bin.pixels.len());
        if !removed.is_empty() {
            let mut sums = TermSums::default();
            for &entry in &*removed {
                sums.add(entry, &weight_terms(bin.term(entry, 0.)));
            }
            clipped.subtract(&sums, true, |_| add_up(bin, removed, signal, variance));
        }
        if clipped.pixels == 0 {
            return ClippedBin::Done(BinSums::default(), None);
        }
        let mut step = rule.step(&clipped.with_clip_variance());
        for _ in 0..rule.max_iter {
            if !step.finds_all_outside(range) {
                return ClippedBin::NeedsCandidates(step);
            }
            let mut sums = TermSums::default();
            remaining.retain(|&candidate| {
                let (raw, norm) =
                    (f64::from(candidate.raw), normalization[candidate.pixel as usize]);
                let Some(entry) =
                    step.rejects(raw, norm).then(|| bin.entry_of(candidate.pixel)).flatten()
                else {
                    return true;
                };
                signal -= u64::from(candidate.raw);
                variance -= u64::from(candidate.raw.max(1));
                sums.add(entry, &clip_terms(bin.term(entry, raw), 0.));
                rejected.push((candidate, step.is_above(raw, norm)));
                removed.push(entry);
                false
            });
            if sums.entries == 0 {
                break;
            }
            clipped.subtract(&sums, true, |_| add_up(bin, removed, signal, variance));
            if clipped.pixels == 0 {
                return ClippedBin::Done(BinSums::default(), None);
            }
            step = rule.step(&clipped.with_clip_variance());
        }
        ClippedBin::Done(rule.result(&clipped), Some(step))
    }
}

/// Adds up the terms of the pixels that remain, given Σ s and Σ v, which are exact.
#[cold]
fn add_up(bin: &BinEntries<'_>, removed: &[usize], signal: u64, variance: u64) -> TermSums {
    let mut removed = removed.to_vec();
    removed.sort_unstable();
    let mut sums = TermSums::default();
    for entry in (0..bin.pixels.len()).filter(|entry| removed.binary_search(entry).is_err()) {
        sums.add(entry, &weight_terms(bin.term(entry, 0.)));
    }
    let counts =
        PixelTerm { signal: signal as f64, variance: variance as f64, norm: 0., weight: 0. };
    sums.add(0, &clip_terms(counts, 0.));
    sums
}
