//! Reduces 8 frames interleaved: SIMD lanes are frames, and the entries of a bin are read once for
//! all of them.
//!
//! Pixels that are invalid in all frames are removed first. A lane whose bin has an overflowing
//! pixel ([`OVERFLOW`]) is then reduced on its own, as `per_frame` does. Both ways sum in the same
//! order, so they give the same bytes.

use super::bin_entries::BinEntries;
use super::bin_lane::InterleavedBin;
use super::clipped_sums::ClippedSums;
use super::csr::CsrMatrix;
use super::frame_bin_sums::FrameBinSums;
use super::gathered_rows::{GatheredRows, GatheredSums, gather_rows};
use super::interleaved_pixels::{InterleavedPixels, OVERFLOW};
use super::interleaved_quantiles::InterleavedQuantileScratch;
use super::lane_clip::{LaneClipScratch, LanesToClip};
use super::quantile_hints::QuantileHint;
use super::rejected::RejectedShares;
use super::row_terms::{
    CorrectedPixels, DarkSubtracted, PixelWeights, SignalTerm, UnitWeights, sum_rows,
};
use super::sigma_clip::ClipRule;
use super::tile_lanes::INTERLEAVED_FRAMES;
use super::without_masked::WithoutMasked;
use super::{BinBuffers, BinSums, RawPixels, Statistic};
use crate::plan::IntegrationPlan;
use crate::simd::{Kernel, Simd};

/// Working memory of a thread.
#[derive(Default)]
pub(crate) struct InterleavedScratch {
    /// The pixels of the bin: one row per entry, one element per frame.
    rows: Vec<[u16; INTERLEAVED_FRAMES]>,
    without_masked: WithoutMasked,
    /// w n of the bin's entries.
    norms: Vec<f64>,
    /// The bin's pixels in one frame.
    raw: Vec<f64>,
    clip: LaneClipScratch,
    quantiles: InterleavedQuantileScratch,
}

/// A reduction of interleaved frames with one matrix.
pub(crate) struct InterleavedReduction<'a> {
    pub(super) matrix: &'a CsrMatrix,
    pub(super) plan: &'a IntegrationPlan,
    pub(super) interleaved: &'a InterleavedPixels,
    pub(super) scratch: &'a mut InterleavedScratch,
    pub(super) buffers: &'a mut BinBuffers,
    /// The result: one element per frame. The remaining lanes are not used.
    pub(super) totals: &'a mut [FrameBinSums],
    /// The pixels that clipping rejects: one element per frame, or none if they are not wanted.
    pub(super) rejected: &'a mut [RejectedShares],
}

impl Kernel for InterleavedReduction<'_> {
    type Output = ();

    /// Computes the sums of all bins of each frame into `totals`.
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let InterleavedReduction { matrix, plan, interleaved, scratch, buffers, totals, rejected } =
            self;
        let reduction = matrix.reduction;
        let mut hints = scratch.quantiles.take_hints(matrix, plan);
        let frames = totals.len();
        for bin_index in 0..plan.nbins() {
            let bin = matrix.entries_of_bin(bin_index, plan);
            let gathered_sums = match matrix.sums_counts(plan) {
                true if reduction.variance_model.is_spread_in_clipping() => {
                    GatheredSums::CountsAndMoments(bin.norms)
                }
                true => GatheredSums::Counts,
                false => GatheredSums::Nothing,
            };
            let gathered = gather_rows(
                interleaved,
                frames,
                matrix.pixels_from_bin(bin_index),
                bin.pixels.len(),
                gathered_sums,
                &mut scratch.rows,
            );
            let lanes = GatheredBin { bin: &bin, interleaved, frames, gathered };
            let sums = match reduction.statistic {
                Statistic::SigmaClip { threshold, max_iter } => {
                    let variance_model = reduction.variance_model;
                    let rule = ClipRule { variance_model, threshold, max_iter };
                    lanes.clip(rule, scratch, rejected)
                }
                Statistic::QuantileMean { low, high } => {
                    let hint = hints.get_mut(bin_index);
                    lanes.means_between_quantiles(simd, low, high, hint, scratch)
                }
            };
            for (lane, totals) in totals.iter_mut().enumerate() {
                let sums = sums[lane].unwrap_or_else(|| {
                    let InterleavedScratch { raw, rows, .. } = &mut *scratch;
                    raw.clear();
                    let pixels = bin.pixels.iter();
                    if rows.len() == bin.pixels.len() {
                        let stored = |(&pixel, row): (&u32, &[u16; INTERLEAVED_FRAMES])| {
                            interleaved.value(pixel, lane, row[lane])
                        };
                        raw.extend(pixels.zip(&*rows).map(stored));
                    } else {
                        raw.extend(pixels.map(|&pixel| interleaved.read_value(pixel, lane)));
                    }
                    let pixels = RawPixels { bin: &bin, raw };
                    reduction.reduce(simd, &pixels, buffers, rejected.get_mut(lane))
                });
                totals.set_bin(bin_index, sums);
            }
        }
        scratch.quantiles.keep_hints(plan, hints);
    }
}

/// A bin whose pixels have been gathered.
struct GatheredBin<'a> {
    bin: &'a BinEntries<'a>,
    interleaved: &'a InterleavedPixels,
    /// The number of lanes that have a frame.
    frames: usize,
    gathered: GatheredRows,
}

impl GatheredBin<'_> {
    /// Returns the sums over the pixels that clipping keeps; `None` for lanes with pixels that overflow.
    #[inline(always)]
    fn clip(
        self,
        rule: ClipRule,
        scratch: &mut InterleavedScratch,
        rejected: &mut [RejectedShares],
    ) -> [Option<BinSums>; INTERLEAVED_FRAMES] {
        let Self {
            bin: whole,
            interleaved,
            frames,
            gathered: GatheredRows { mut largest, counts, moments },
        } = self;
        let InterleavedScratch { rows, without_masked, norms, clip, .. } = scratch;
        let (bin, weights) = match largest[..frames].contains(&OVERFLOW) {
            true => without_masked.zero_masked(whole, interleaved, rows, frames, &mut largest),
            false => (*whole, ClippedSums::new(whole.full_sums, whole.pixels.len())),
        };
        let masked = bin.left_out.map_or(&[][..], |left_out| left_out.entries);
        if weights.pixels == 0 {
            return [Some(BinSums::default()); INTERLEAVED_FRAMES];
        }
        bin.weighted_norms_into(norms);
        let is_wanted = self.lanes_without_overflow(&largest);
        let to_clip = LanesToClip { rule, bin: &bin, weights, rows, norms, is_wanted, largest };
        let sums = match (bin.weights, bin.dark) {
            _ if !bin.dead_time.is_zero() => {
                let corrected = CorrectedPixels(&bin);
                let signals = sum_rows(to_clip.rows, &SignalTerm(corrected));
                to_clip.clip(corrected, signals, None, rejected, clip)
            }
            (None, None) => to_clip.clip(UnitWeights, counts, moments, rejected, clip),
            (Some(weights), None) => {
                let weights = PixelWeights(weights);
                let signals = sum_rows(to_clip.rows, &SignalTerm(weights));
                to_clip.clip(weights, signals, None, rejected, clip)
            }
            (_, Some(_)) => {
                let dark = DarkSubtracted(&bin);
                let signals = sum_rows(to_clip.rows, &SignalTerm(dark));
                to_clip.clip(dark, signals, None, rejected, clip)
            }
        };
        // As they were, for the lanes with pixels that overflow.
        masked.iter().for_each(|&entry| rows[entry as usize] = [OVERFLOW; INTERLEAVED_FRAMES]);
        std::array::from_fn(|lane| is_wanted[lane].then_some(sums[lane]))
    }

    /// Returns the sums over the pixels between two quantiles; `None` for lanes with pixels that
    /// overflow.
    #[inline(always)]
    fn means_between_quantiles<S: Simd>(
        self,
        simd: S,
        low: f64,
        high: f64,
        hint: Option<&mut QuantileHint>,
        scratch: &mut InterleavedScratch,
    ) -> [Option<BinSums>; INTERLEAVED_FRAMES] {
        let Self { bin: whole, interleaved, frames, gathered: GatheredRows { mut largest, .. } } =
            self;
        let InterleavedScratch { rows, without_masked, norms, quantiles, .. } = scratch;
        let bin = match largest[..frames].contains(&OVERFLOW) {
            true => without_masked.drop_masked(whole, interleaved, rows, frames, &mut largest),
            false => *whole,
        };
        if bin.pixels.is_empty() {
            return [Some(BinSums::default()); INTERLEAVED_FRAMES];
        }
        bin.weighted_norms_into(norms);
        let is_wanted = self.lanes_without_overflow(&largest);
        let bin = InterleavedBin { bin: &bin, rows, norms, is_wanted };
        bin.means_between_quantiles(simd, low, high, hint, quantiles)
    }

    /// Returns which lanes have a frame and no pixel that overflows, given the maximum of each.
    #[inline(always)]
    fn lanes_without_overflow(
        &self,
        largest: &[u16; INTERLEAVED_FRAMES],
    ) -> [bool; INTERLEAVED_FRAMES] {
        std::array::from_fn(|lane| lane < self.frames && largest[lane] < OVERFLOW)
    }
}
