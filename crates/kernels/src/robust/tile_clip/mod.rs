//! Clips frames tile by tile, without storing their pixels.
//!
//! A mean of counts needs their sum alone, and so does the Poisson variance. Sums of integers don't
//! depend on their order, so they are added while a tile is in the first-level cache, as plain sums
//! are. What is needed besides are the outliers, a few in a million pixels. They are at the ends of
//! a bin's intensities: the same pass collects *candidates*, the pixels outside of a narrower range
//! than that of clipping. The range is that of the frames before. Where it turns out to be too wide
//! in a bin of a frame, the frames are decoded once more, and candidates collected by the limits
//! that are now known.
//!
//! So the result never depends on the frames before, and has the bytes of the other ways to clip.

mod bin_rows;
mod candidates;
mod clip_bin;
mod scratch;

use super::csr::CsrMatrix;
use super::frame_bin_sums::FrameBinSums;
use super::rejected::RejectedShares;
use super::sigma_clip::ClipStep;
use super::unsplit_bins::UnsplitBins;
use crate::codec::{DecodeError, Pipeline};
use crate::encoded_frame::EncodedFrame;
use crate::fused::{InvalidRules, PixelSource};
use crate::plan::IntegrationPlan;
use crate::rejected_pixels::RejectedPixels;
use crate::simd::{Kernel, Simd};

use bin_rows::CandidateRange;
use candidates::Candidate;
use clip_bin::{BinToClip, ClippedBin};
pub(super) use scratch::TileClipScratch;

/// How often frames are decoded again for candidates that were missing. Each time the limits that
/// are known are nearer to the last ones; frames that need more are clipped in another way.
const MAX_PASSES: usize = 3;

/// Up to [`super::tile_lanes::INTERLEAVED_FRAMES`] frames to be clipped.
pub(super) struct TileClipping<'a> {
    pub(super) matrix: &'a CsrMatrix,
    pub(super) unsplit: &'a UnsplitBins,
    pub(super) plan: &'a IntegrationPlan,
    pub(super) pipeline: &'a Pipeline,
    pub(super) rules: &'a InvalidRules,
    pub(super) frames: &'a [EncodedFrame<'a>],
    pub(super) scratch: &'a mut TileClipScratch,
    /// The result: one element per frame.
    pub(super) totals: &'a mut [FrameBinSums],
    /// The pixels that clipping rejects: one element per frame, or none if they are not wanted.
    pub(super) rejected: &'a mut [RejectedCounts],
}

impl Kernel for TileClipping<'_> {
    /// For each frame, why it can't be decoded; `None` if the frames can't be clipped by tiles.
    type Output = Option<Vec<Result<(), DecodeError>>>;

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) -> Self::Output {
        let plan = self.plan;
        let ranges = self.scratch.take_ranges(self.matrix, plan);
        self.scratch.start(plan, &ranges, self.frames.len());
        let outcomes = self.read(simd, true)?;
        let lanes = (0..outcomes.len()).filter(|&lane| outcomes[lane].is_ok());
        let all = (0..plan.nbins()).flat_map(|bin| lanes.clone().map(move |lane| (bin, lane)));
        let mut next_ranges = scratch::first_ranges(self.matrix);
        let mut unfinished = self.clip_bins(all, &mut next_ranges);
        for _ in 0..MAX_PASSES {
            if unfinished.is_empty() {
                break;
            }
            self.scratch.set_ranges(&unfinished);
            self.read(simd, false)?;
            if self.scratch.candidates.is_overfull {
                return None;
            }
            let bins = unfinished.iter().map(|unfinished| (unfinished.bin, unfinished.lane));
            unfinished = self.clip_bins(bins, &mut next_ranges);
        }
        self.scratch.keep_ranges(plan, next_ranges);
        unfinished.is_empty().then_some(outcomes)
    }
}

/// A bin of a frame for which candidates were missing, and the step that clipping got to.
struct Unfinished {
    bin: usize,
    lane: usize,
    step: ClipStep,
}

impl TileClipping<'_> {
    /// Passes over the frames; see [`TileClipScratch::read`].
    #[inline(always)]
    fn read<S: Simd>(&mut self, simd: S, is_summed: bool) -> Option<Vec<Result<(), DecodeError>>> {
        let frame_bytes = self.plan.pixels() * self.pipeline.dtype().size();
        let open = |stored| PixelSource::open(self.pipeline, stored, frame_bytes);
        let mut sources: Vec<_> = self.frames.iter().map(open).collect();
        let Self { plan, unsplit, rules, .. } = *self;
        let is_read = self.scratch.read(simd, plan, unsplit, rules, &mut sources, is_summed);
        is_read.then(|| sources.into_iter().map(|source| source.map(|_| ())).collect())
    }

    /// Clips bins, by rising bin and lane, and returns those for which candidates are missing.
    /// Narrows the range of each bin that is done, for the next frames.
    #[inline(always)]
    fn clip_bins(
        &mut self,
        bins: impl Iterator<Item = (usize, usize)>,
        next_ranges: &mut [CandidateRange],
    ) -> Vec<Unfinished> {
        let Self { matrix, plan, .. } = *self;
        let mut unfinished = Vec::new();
        for (bin_index, lane) in bins {
            let bin = &matrix.entries_of_bin(bin_index, plan);
            if bin.pixels.is_empty() {
                continue;
            }
            let TileClipScratch { rows, candidates, invalid, clip, .. } = &mut *self.scratch;
            let [signal, excess] = rows.totals(bin_index, lane);
            let to_clip = BinToClip {
                bin,
                normalization: plan.normalization(),
                signal,
                excess,
                candidates: candidates.find(bin_index, lane),
                range: rows.range(bin_index, lane),
                invalid: invalid.find(bin_index, lane),
            };
            match clip.clip(to_clip, self.unsplit.rule) {
                ClippedBin::NeedsCandidates(step) => {
                    unfinished.push(Unfinished { bin: bin_index, lane, step });
                }
                ClippedBin::Done(sums, step) => {
                    self.totals[lane].set_bin(bin_index, sums);
                    if let Some(step) = step {
                        next_ranges[bin_index].narrow(step.candidate_range());
                    }
                    if let Some(rejected) = self.rejected.get_mut(lane) {
                        clip.rejected.iter().for_each(|&(pixel, above)| rejected.add(pixel, above));
                    }
                }
            }
        }
        unfinished
    }
}

/// The pixels that clipping rejects in one frame, and their counts.
pub(super) struct RejectedCounts {
    shares: RejectedShares,
    /// The index of a pixel and its counts.
    counts: Vec<(u32, u32)>,
}

impl RejectedCounts {
    /// Makes an empty list for one frame.
    pub(super) fn new(matrix: &CsrMatrix) -> Self {
        Self { shares: RejectedShares::new(matrix.max_rejected()), counts: Vec::new() }
    }

    fn add(&mut self, candidate: Candidate, is_above: bool) {
        self.shares.add(candidate.pixel, is_above);
        self.counts.push((candidate.pixel, candidate.raw));
    }

    /// Returns the pixels that were rejected above the mean.
    pub(super) fn into_pixels(mut self, plan: &IntegrationPlan) -> RejectedPixels {
        self.counts.sort_unstable();
        self.shares.into_pixels(plan, |pixel| {
            let found = self.counts.binary_search_by_key(&pixel, |(pixel, _)| *pixel);
            found.map_or(f64::NAN, |index| f64::from(self.counts[index].1))
        })
    }
}
