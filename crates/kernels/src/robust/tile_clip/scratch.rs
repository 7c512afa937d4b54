//! [`TileClipScratch`], the working memory, and the pass over frames that fills it.

use super::super::by_plan::ByPlan;
use super::super::csr::CsrMatrix;
use super::super::interleaved_pixels::MAX_OVERFLOW_DIVISOR;
use super::super::retries::Retries;
use super::super::tile_lanes::INTERLEAVED_FRAMES;
use super::super::tile_lanes::{TileCounts, TileLanes};
use super::super::unsplit_bins::{SMALL_BIN, UnsplitBins};
use super::Unfinished;
use super::bin_rows::{BinRows, CandidateRange, add_tile, add_wide_lane};
use super::candidates::{Candidate, Candidates};
use super::clip_bin::ClipScratch;
use crate::codec::DecodeError;
use crate::fused::{InvalidRules, PixelSource};
use crate::pixel::PixelWidth;
use crate::plan::IntegrationPlan;
use crate::simd::Simd;
use crate::summation_order::TILE;

/// Pixels of all lanes per pixel that may be candidates. It allows for those of small bins, twice
/// over.
const MAX_CANDIDATES_DIVISOR: usize = 32;

/// A tile without photons.
static NO_PHOTONS: TileCounts = [[0; INTERLEAVED_FRAMES]; TILE];

/// Working memory of a thread.
#[derive(Default)]
pub(in super::super) struct TileClipScratch {
    lanes: TileLanes,
    counts: Vec<[u16; INTERLEAVED_FRAMES]>,
    pub(super) rows: BinRows,
    pub(super) candidates: Candidates,
    pub(super) invalid: Candidates,
    pub(super) clip: ClipScratch,
    /// The ranges for the candidates of the next frames, one per bin.
    ranges: ByPlan<Vec<CandidateRange>>,
    pub(in super::super) retries: Retries,
}

/// Returns how many candidates the frames may have together.
fn max_candidates(plan: &IntegrationPlan) -> usize {
    plan.pixels() * INTERLEAVED_FRAMES / MAX_CANDIDATES_DIVISOR
}

/// Returns how many pixels the frames may have together that are invalid and not masked.
fn max_invalid(plan: &IntegrationPlan) -> usize {
    plan.pixels() * INTERLEAVED_FRAMES / MAX_OVERFLOW_DIVISOR
}

/// Returns the ranges of candidates where nothing is known of the frames.
pub(super) fn first_ranges(matrix: &CsrMatrix) -> Vec<CandidateRange> {
    let sizes = matrix.starts.windows(2).map(|range| range[1] - range[0]);
    sizes
        .map(|size| if size < SMALL_BIN { CandidateRange::ALL } else { CandidateRange::NONE })
        .collect()
}

impl TileClipScratch {
    /// Returns the bytes of memory that it takes at the most, for frames of a plan.
    pub(in super::super) fn memory_bytes(plan: &IntegrationPlan) -> usize {
        (max_candidates(plan) + max_invalid(plan)) * size_of::<Candidate>()
            + BinRows::memory_bytes(plan.nbins())
            + ByPlan::<Vec<CandidateRange>>::memory_bytes(
                plan.nbins() * size_of::<CandidateRange>(),
            )
    }

    /// Takes the ranges that suited the last frames of a plan, or those to begin with.
    pub(super) fn take_ranges(
        &mut self,
        matrix: &CsrMatrix,
        plan: &IntegrationPlan,
    ) -> Vec<CandidateRange> {
        self.ranges.take(plan.id()).unwrap_or_else(|| first_ranges(matrix))
    }

    /// Keeps the ranges for the next frames of a plan.
    pub(super) fn keep_ranges(&mut self, plan: &IntegrationPlan, ranges: Vec<CandidateRange>) {
        self.ranges.keep(plan.id(), ranges);
    }

    /// Sets all sums to 0, and the ranges of the bins in the lanes of so many frames. Other lanes have
    /// no candidates.
    pub(super) fn start(
        &mut self,
        plan: &IntegrationPlan,
        ranges: &[CandidateRange],
        frames: usize,
    ) {
        self.rows.reset(plan.nbins());
        for (bin, range) in ranges.iter().enumerate() {
            (0..frames).for_each(|lane| self.rows.set_range(bin, lane, *range));
        }
    }

    /// Sets ranges such that only pixels of unfinished bins are candidates.
    pub(super) fn set_ranges(&mut self, unfinished: &[Unfinished]) {
        self.rows.forget_ranges();
        for Unfinished { bin, lane, step } in unfinished {
            self.rows.set_range(*bin, *lane, step.candidate_range());
        }
    }

    /// Reads the frames and collects the pixels outside of the ranges; adds up the pixels and
    /// collects the invalid ones, too, if `is_summed`. Too many candidates are none: the ranges
    /// then say so.
    ///
    /// Returns false if the frames can't be clipped by tiles: a pixel is no count of 32 bits, too
    /// many are invalid, or a sum is too large to be exact. A source that fails is replaced by its error.
    #[inline(always)]
    pub(super) fn read<S: Simd>(
        &mut self,
        simd: S,
        plan: &IntegrationPlan,
        unsplit: &UnsplitBins,
        rules: &InvalidRules,
        sources: &mut [Result<PixelSource<'_>, DecodeError>],
        is_summed: bool,
    ) -> bool {
        let Self { lanes, counts, rows, candidates, invalid, .. } = self;
        counts.resize(TILE, [0; INTERLEAVED_FRAMES]);
        let [counts] = counts.as_chunks_mut().0 else { unreachable!("one tile") };
        candidates.reset(max_candidates(plan));
        lanes.start();
        for tile_index in 0..plan.unused.len() {
            lanes.read(simd, plan, tile_index, rules, sources, |_, _, _| ());
            let found_invalid: usize = lanes.lanes.iter().map(|lane| lane.invalid.count()).sum();
            if found_invalid > max_invalid(plan) {
                return false;
            }
            let tile = unsplit.tile(tile_index);
            if lanes.lanes.iter().any(|lane| lane.width == PixelWidth::F64) {
                for (index, lane) in lanes.lanes.iter_mut().enumerate().take(sources.len()) {
                    lane.widen_to(PixelWidth::F64);
                    if !add_wide_lane(rows, tile, index, lane, is_summed, candidates) {
                        return false;
                    }
                }
                continue;
            }
            if lanes.interleave(simd, counts) {
                add_tile(simd, rows, tile, counts, is_summed, candidates);
            } else if !rows.ignores_zeros() {
                add_tile(simd, rows, tile, &NO_PHOTONS, is_summed, candidates);
            }
        }
        rows.flush();
        if is_summed && !rows.are_exact_as_f64() {
            return false;
        }
        if candidates.is_overfull {
            candidates.discard();
            rows.forget_ranges();
        }
        candidates.sort();
        if is_summed {
            invalid.reset(max_invalid(plan));
            for (index, lane) in lanes.lanes.iter().enumerate() {
                for pixel in lane.invalid.pixels() {
                    let pixel = pixel as u32;
                    let bin = unsplit.bin(pixel);
                    invalid.push(Candidate { bin, lane: index as u32, pixel, raw: 0 });
                }
            }
            invalid.sort();
        }
        true
    }
}
