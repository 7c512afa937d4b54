//! Reduces 8 frames interleaved: SIMD lanes are frames, and the entries of a bin are read once for
//! all of them.
//!
//! Pixels that are invalid in all frames are removed first. A lane whose bin has an overflowing
//! pixel ([`OVERFLOW`]) or an outlier is then reduced on its own, with [`BinBuffer`]. Both ways sum
//! in the same order, so they give the same bytes.

use super::bin_buffer::{BinBuffer, limit_with_tolerance};
use super::bin_entries::{BinEntries, PixelVariance};
use super::bin_lane::InterleavedBin;
use super::csr::CsrMatrix;
use super::frame_bin_sums::FrameBinSums;
use super::gathered_rows::{GatheredRows, gather_rows};
use super::interleaved_pixels::{InterleavedPixels, OVERFLOW};
use super::interleaved_quantiles::InterleavedQuantileScratch;
use super::outlier_search::find_outliers;
use super::partial_sums;
use super::rejected::RejectedShares;
use super::row_terms::{
    CountVariance, LaneSums, OutlierTerm, PixelWeights, SignalTerm, SquaredDeviation, UnitWeights,
    WeightedSignal, map_lanes, sum_rows,
};
use super::sigma_clip;
use super::tile_lanes::INTERLEAVED_FRAMES;
use super::without_masked::WithoutMasked;
use super::{BinSums, RawPixels, Reduction, Statistic};
use crate::invalid_values::InvalidRanges;
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
    quantiles: InterleavedQuantileScratch,
}

/// A reduction of interleaved frames with one matrix.
pub(crate) struct InterleavedReduction<'a> {
    pub(super) matrix: &'a CsrMatrix,
    pub(super) plan: &'a IntegrationPlan,
    pub(super) interleaved: &'a InterleavedPixels,
    pub(super) scratch: &'a mut InterleavedScratch,
    pub(super) buffer: &'a mut BinBuffer,
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
        let InterleavedReduction { matrix, plan, interleaved, scratch, buffer, totals, rejected } =
            self;
        let (reduction, valid) = (matrix.reduction, InvalidRanges::default());
        let mut hints = scratch.quantiles.take_hints(matrix, plan);
        let sums_counts = matrix.sums_counts();
        for bin_index in 0..plan.nbins() {
            let whole = matrix.entries_of_bin(bin_index, plan);
            let InterleavedScratch { rows, without_masked, norms, raw, quantiles } = &mut *scratch;
            let GatheredRows { mut largest, counts } = gather_rows(
                interleaved,
                totals.len(),
                matrix.pixels_from_bin(bin_index),
                whole.pixels.len(),
                sums_counts,
                rows,
            );
            let bin = if largest[..totals.len()].contains(&OVERFLOW) {
                without_masked.drop_masked(&whole, interleaved, rows, totals.len(), &mut largest)
            } else {
                whole
            };
            if bin.pixels.is_empty() {
                continue;
            }
            bin.weighted_norms_into(norms);
            let has_no_overflow = largest.map(|largest| largest < OVERFLOW);
            let sums = match (reduction.statistic, bin.weights, bin.dark) {
                (Statistic::QuantileMean { low, high }, ..) => {
                    let is_wanted =
                        std::array::from_fn(|lane| lane < totals.len() && has_no_overflow[lane]);
                    let bin = InterleavedBin { bin: &bin, rows, norms, is_wanted };
                    let hint = hints.get_mut(bin_index);
                    bin.means_between_quantiles(simd, low, high, hint, quantiles)
                        .map(|sums| sums.map_or(LaneReduction::Alone, LaneReduction::Done))
                }
                (_, None, None) => {
                    let is_summed = sums_counts && bin.left_out.is_none();
                    let remaining = || sum_rows(rows, &SignalTerm(UnitWeights));
                    let signals = if is_summed { counts } else { remaining() };
                    sum_lanes(&reduction, &bin, rows, norms, UnitWeights, signals)
                }
                (_, Some(weights), None) => {
                    let weights = PixelWeights(weights);
                    let signals = sum_rows(rows, &SignalTerm(weights));
                    sum_lanes(&reduction, &bin, rows, norms, weights, signals)
                }
                (.., Some(_)) => {
                    let signals = sum_rows(rows, &SignalTerm(&bin));
                    sum_lanes(&reduction, &bin, rows, norms, &bin, signals)
                }
            };
            for (lane, totals) in totals.iter_mut().enumerate() {
                raw.clear();
                let reduced = if has_no_overflow[lane] { sums[lane] } else { LaneReduction::Alone };
                let unclipped = match reduced {
                    LaneReduction::Done(sums) => {
                        totals.set_bin(bin_index, sums);
                        continue;
                    }
                    LaneReduction::Unclipped(sums) => {
                        raw.extend(rows.iter().map(|row| f64::from(row[lane])));
                        Some(sums)
                    }
                    LaneReduction::Alone => {
                        let pixels = bin.pixels.iter().zip(rows.iter());
                        raw.extend(
                            pixels.map(|(&pixel, row)| interleaved.value(pixel, lane, row[lane])),
                        );
                        None
                    }
                };
                let pixels = RawPixels { bin: &bin, raw, rule: &valid };
                let rejected = rejected.get_mut(lane);
                let sums = reduction.reduce_and_collect(simd, &pixels, unclipped, buffer, rejected);
                totals.set_bin(bin_index, sums);
            }
        }
        scratch.quantiles.keep_hints(plan, hints);
    }
}

/// The outcome of reducing a bin in all lanes at once, in one of them.
#[derive(Clone, Copy)]
enum LaneReduction {
    /// The result.
    Done(BinSums),
    /// The sums over all pixels, among which sigma clipping finds outliers, with the variance that
    /// it finds them by.
    Unclipped(BinSums),
    /// None. The frame's pixels are to be reduced alone.
    Alone,
}

/// Sums each lane over all rows, and looks for outliers. `signals` are Σ w s.
#[inline(always)]
fn sum_lanes(
    reduction: &Reduction,
    bin: &BinEntries<'_>,
    rows: &[[u16; INTERLEAVED_FRAMES]],
    norms: &[f64],
    signal: impl WeightedSignal,
    signals: LaneSums,
) -> [LaneReduction; INTERLEAVED_FRAMES] {
    let variance_model = reduction.variance_model;
    let mean = map_lanes(signals, |signal| signal / bin.full_sums.norm);
    let pixel_variance = pixel_variance_sums(bin, rows);
    let variance = if variance_model.is_spread_in_clipping() {
        sum_rows(rows, &SquaredDeviation { signal, mean: &mean, norms })
    } else {
        pixel_variance
    };
    let mut has_outliers = [false; INTERLEAVED_FRAMES];
    if let Statistic::SigmaClip { threshold, max_iter: 1.. } = reduction.statistic {
        let limits: LaneSums = std::array::from_fn(|lane| {
            let sums = BinSums { variance: variance[lane], ..bin.full_sums };
            limit_with_tolerance(mean[lane], sigma_clip::outlier_limit(&sums, threshold))
        });
        has_outliers =
            find_outliers(bin, rows, &OutlierTerm { signal, mean: &mean, norms, limits });
    }
    let final_variance =
        if variance_model.is_spread_in_result() { variance } else { pixel_variance };
    std::array::from_fn(|lane| {
        let sums = |variance: LaneSums| BinSums {
            signal: signals[lane],
            variance: variance[lane],
            ..bin.full_sums
        };
        if has_outliers[lane] {
            LaneReduction::Unclipped(sums(variance))
        } else {
            LaneReduction::Done(sums(final_variance))
        }
    })
}

/// Returns Σ w² v of each lane, from the pixels' own variances.
#[inline(always)]
fn pixel_variance_sums(bin: &BinEntries<'_>, rows: &[[u16; INTERLEAVED_FRAMES]]) -> LaneSums {
    match (bin.variance, bin.weights) {
        (PixelVariance::No, _) => [0.; INTERLEAVED_FRAMES],
        (PixelVariance::Given(given), _) => {
            [partial_sums::sum(given, |variance| variance); INTERLEAVED_FRAMES]
        }
        (PixelVariance::Counts, None) => sum_rows(rows, &CountVariance { weights: None }),
        (PixelVariance::Counts, weights) => sum_rows(rows, &CountVariance { weights }),
    }
}
