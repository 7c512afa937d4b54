//! [`LaneRegions`], ways to find the pixels that the quantiles of 8 interleaved frames may fall on.

use super::BinSums;
use super::bin_lane::{BinLane, InterleavedBin, PartsScratch};
use super::lane_sample::LaneSample;
use super::lane_sort::LaneNumbers;
use super::partial_sums::PARTIAL_SUMS;
use super::quantile::QuantileRange;
use super::quantile_hints::{QuantileHint, QuantilePlaces};
use super::tile_lanes::INTERLEAVED_FRAMES;
use crate::dead_time::DeadTime;
use crate::simd::Simd;

/// Bins with fewer pixels are not worth a sample or a hint.
pub(super) const MIN_PIXELS: usize = 256;

/// How much wider regions are than the sample or the hint says, relative to their ends: four times
/// what s and the products that it is compared with are rounded by.
pub(super) const WIDENING: f32 = 1. / (1 << 20) as f32;

/// Number of pixels that are compared before those in a region are noted: one in each bit.
pub(super) const PIXELS_PER_MASK: usize = u32::BITS as usize;

/// For each frame, a bit for each of [`PIXELS_PER_MASK`] pixels.
pub(super) type LaneMasks = [u32; INTERLEAVED_FRAMES];

/// A rule that turns the counts of a row into s in f32, where there is no dark. It is a trait for the
/// reason that [`WeightedSignal`](super::row_terms::WeightedSignal) is one.
pub(super) trait RowSignal: Copy {
    /// Returns s of a pixel in all frames.
    fn signals(self, row: &[u16; INTERLEAVED_FRAMES]) -> LaneNumbers;
}

/// The rule without dead time.
#[derive(Clone, Copy)]
pub(super) struct Uncorrected;

impl RowSignal for Uncorrected {
    #[inline(always)]
    fn signals(self, row: &[u16; INTERLEAVED_FRAMES]) -> LaneNumbers {
        let mut signals = [0.; INTERLEAVED_FRAMES];
        for (signal, &raw) in signals.iter_mut().zip(row) {
            *signal = f32::from(raw);
        }
        signals
    }
}

impl RowSignal for DeadTime {
    #[inline(always)]
    fn signals(self, row: &[u16; INTERLEAVED_FRAMES]) -> LaneNumbers {
        let mut signals = [0.; INTERLEAVED_FRAMES];
        for (signal, &raw) in signals.iter_mut().zip(row) {
            *signal = self.correct(raw.into()) as f32;
        }
        signals
    }
}

/// Regions of intensities in which the quantiles of each frame are sought.
pub(super) trait LaneRegions {
    /// Seeks the quantiles of the lanes that are wanted where those of other frames were.
    fn follow(
        &mut self,
        hint: QuantileHint,
        range: &QuantileRange,
        is_wanted: [bool; INTERLEAVED_FRAMES],
    );

    /// Seeks the quantiles of the lanes that are wanted by a sample of the bin's pixels.
    fn estimate(
        &mut self,
        range: &QuantileRange,
        sample: &LaneSample,
        is_wanted: [bool; INTERLEAVED_FRAMES],
    );

    /// Takes a lane out: none of its pixels is looked at.
    fn skip(&mut self, lane: usize);

    /// Returns whether a quantile of any lane may fall on a pixel without a photon.
    fn any_reaches_zero(&self) -> bool;

    /// Finds the pixels of each region.
    fn split(&mut self, bin: &InterleavedBin<'_>);

    /// Computes the mean of a lane from the pixels in its regions and between them, or `None` if a
    /// quantile is not there. Adds the quantiles to `places`.
    fn mean<S: Simd>(
        &mut self,
        simd: S,
        lane: &BinLane<'_>,
        range: &QuantileRange,
        places: &mut [QuantilePlaces; 2],
        scratch: &mut PartsScratch,
    ) -> Option<BinSums>;
}

/// Returns by how much two sums over a bin may differ, relative to them: one in groups of
/// [`PIXELS_PER_MASK`], and one of [`PARTIAL_SUMS`].
pub(super) fn rounding_of_sums(pixels: usize) -> f64 {
    let additions =
        PIXELS_PER_MASK + pixels.div_ceil(PIXELS_PER_MASK) + pixels.div_ceil(PARTIAL_SUMS);
    // Some more, for what is added to such sums.
    (additions + 64) as f64 * f64::EPSILON
}

/// Returns a mask of all bits, or of none.
#[inline(always)]
pub(super) fn all_bits_if(is_set: bool) -> u32 {
    u32::from(is_set).wrapping_neg()
}
