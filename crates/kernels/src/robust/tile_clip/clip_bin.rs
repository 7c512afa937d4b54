//! Clips one bin of one frame, given its sums and its candidates.

use super::super::BinSums;
use super::super::bin_buffer::limit_with_tolerance;
use super::super::bin_entries::BinEntries;
use super::super::partial_sums::sum;
use super::super::rejected::ClipStep;
use super::super::sigma_clip::outlier_limit;
use super::bin_rows::CandidateRange;
use super::candidates::Candidate;

/// Relative distance by which the limits of candidates, which are f32 numbers like the intensities
/// that are compared with them, must be within those of clipping: 16 roundings of an f32.
const F32_MARGIN: f64 = 1e-6;

/// How far from the mean pixels become candidates, relative to the limit of clipping. The mean and
/// the limit of the next frames may shrink by a part of the rest without a second pass.
const CANDIDATE_DISTANCE: f64 = 0.75;

/// The mean of a bin, and the distance from it beyond which pixels are outliers.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClipLimits {
    mean: f64,
    limit: f64,
}

impl ClipLimits {
    fn from_sums(sums: &BinSums, threshold: f64) -> Self {
        let mean = sums.signal / sums.norm;
        Self { mean, limit: limit_with_tolerance(mean, outlier_limit(sums, threshold)) }
    }

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
    fn are_all_outside(self, range: CandidateRange) -> bool {
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
    /// The sums over the pixels that remain, and the last limits; none if no pixel remains.
    Done(BinSums, Option<ClipLimits>),
    /// Outliers may be missing among the candidates; the limits that clipping got to.
    NeedsCandidates(ClipLimits),
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
    /// The candidates that clipping dropped, and whether they are above the mean.
    pub(super) dropped: Vec<(Candidate, bool)>,
    /// The entries that do not remain, by rising index.
    removed: Vec<usize>,
    /// n of the entries that remain.
    norms: Vec<f64>,
}

impl ClipScratch {
    /// Clips the pixels of a bin as [`super::super::sigma_clip`] does, with the same result.
    ///
    /// Sums of counts are integers, so what is dropped can be subtracted from them. The sums of
    /// norms, whose order counts, are added anew.
    #[inline(always)]
    pub(super) fn clip(
        &mut self,
        to_clip: BinToClip<'_>,
        threshold: f64,
        max_iter: u32,
    ) -> ClippedBin {
        let BinToClip { bin, normalization, mut signal, mut excess, candidates, range, invalid } =
            to_clip;
        let is_valid = |candidate: &Candidate| {
            invalid.binary_search_by_key(&candidate.pixel, |invalid| invalid.pixel).is_err()
        };
        self.remaining.clear();
        self.remaining.extend(candidates.iter().filter(|candidate| is_valid(candidate)));
        self.dropped.clear();
        self.removed.clear();
        self.removed.extend(invalid.iter().filter_map(|invalid| bin.entry_of(invalid.pixel)));
        let Some(mut sums) = self.sums(bin, signal, excess) else {
            return ClippedBin::Done(BinSums::default(), None);
        };
        let mut limits = ClipLimits::from_sums(&sums, threshold);
        for _ in 0..max_iter {
            if !limits.are_all_outside(range) {
                return ClippedBin::NeedsCandidates(limits);
            }
            let step = ClipStep { mean: limits.mean, limit: limits.limit };
            let ClipScratch { remaining, dropped, removed, .. } = self;
            let before = dropped.len();
            remaining.retain(|candidate| {
                let (raw, norm) =
                    (f64::from(candidate.raw), normalization[candidate.pixel as usize]);
                let is_kept = step.keeps(raw, norm);
                if !is_kept {
                    dropped.push((*candidate, step.is_above(raw, norm)));
                }
                is_kept
            });
            if dropped.len() == before {
                break;
            }
            for (candidate, _) in &dropped[before..] {
                signal -= u64::from(candidate.raw);
                excess -= u64::from(candidate.raw.max(1) - 1);
                removed.extend(bin.entry_of(candidate.pixel));
            }
            removed.sort_unstable();
            match self.sums(bin, signal, excess) {
                Some(remaining) => sums = remaining,
                None => return ClippedBin::Done(BinSums::default(), None),
            }
            limits = ClipLimits::from_sums(&sums, threshold);
        }
        ClippedBin::Done(sums, Some(limits))
    }

    /// Returns the sums over the entries that remain, or `None` if none remains.
    #[inline(always)]
    fn sums(&mut self, bin: &BinEntries<'_>, signal: u64, excess: u64) -> Option<BinSums> {
        let count = bin.pixels.len() - self.removed.len();
        let signal = signal as f64;
        let variance = (count as u64 + excess) as f64;
        if count == 0 {
            return None;
        }
        if self.removed.is_empty() {
            return Some(BinSums { signal, variance, ..bin.full_sums });
        }
        self.norms.clear();
        let mut from = 0;
        for &entry in &self.removed {
            self.norms.extend_from_slice(&bin.norms[from..entry]);
            from = entry + 1;
        }
        self.norms.extend_from_slice(&bin.norms[from..]);
        Some(BinSums {
            signal,
            variance,
            norm: sum(&self.norms, |norm| norm),
            norm_sq: sum(&self.norms, |norm| norm * norm),
            count: count as f64,
        })
    }
}
