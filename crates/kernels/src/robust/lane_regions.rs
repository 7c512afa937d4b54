//! [`LaneRegions`], ways to find the pixels that the quantiles of 8 interleaved frames may fall on.

use super::BinSums;
use super::bin_lane::{BinLane, InterleavedBin, PartsScratch};
use super::lane_sample::LaneSample;
use super::quantile::QuantileRange;
use super::quantile_hints::{QuantileHint, QuantilePlaces};
use super::tile_lanes::INTERLEAVED_FRAMES;
use crate::simd::Simd;

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
