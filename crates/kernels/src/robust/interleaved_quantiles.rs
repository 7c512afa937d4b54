//! Quantile means of a bin in 8 interleaved frames.
//!
//! Each frame takes the first of these ways that gives a result, and all give the same bytes:
//!
//! - `among_zeros`, where both quantiles fall on pixels without a photon.
//! - [`CountedMedians`], where a median falls on pixels of few photons.
//! - [`LaneRegions`], which find the pixels that the quantiles may fall on: by where those of the
//!   frames before were, else by a sample. [`LaneSegments`] do for a median, [`LaneBrackets`] for a
//!   range of quantiles.
//! - All pixels of the bin, as `quantile_buffer` does.

use super::BinSums;
use super::among_zeros::{OrderStart, Zeros, find_starts};
use super::bin_lane::{BinLane, InterleavedBin, PartsScratch, PixelLists};
use super::by_plan::ByPlan;
use super::counted_medians::CountedMedians;
use super::csr::CsrMatrix;
use super::lane_brackets::LaneBrackets;
use super::lane_regions::{LaneRegions, MIN_PIXELS};
use super::lane_segments::LaneSegments;
use super::quantile::{self, BinPixels, QuantileRange, QuantileScratch};
use super::quantile_hints::{QuantileHint, QuantilePlaces};
use super::row_terms::{LaneSums, ZeroNorm, sum_rows};
use super::tile_lanes::INTERLEAVED_FRAMES;
use crate::plan::IntegrationPlan;
use crate::simd::Simd;

/// Working memory of a thread.
#[derive(Default)]
pub(super) struct InterleavedQuantileScratch {
    hints: ByPlan<Vec<QuantileHint>>,
    segments: LaneSegments,
    brackets: LaneBrackets,
    counts: CountedMedians,
    parts: PartsScratch,
}

impl InterleavedQuantileScratch {
    /// Returns the bytes of memory that hints and brackets take at the most, for frames of a plan.
    pub(super) fn memory_bytes(matrix: &CsrMatrix, plan: &IntegrationPlan) -> usize {
        let hints = plan.nbins() * size_of::<QuantileHint>();
        ByPlan::<Vec<QuantileHint>>::memory_bytes(hints)
            + LaneSegments::memory_bytes(matrix.largest_bin())
            + LaneBrackets::memory_bytes(matrix.largest_bin())
            + CountedMedians::memory_bytes(matrix.largest_bin())
    }

    /// Takes the hints of each bin that the last frames of a plan gave; none if quantiles can't be
    /// bracketed.
    pub(super) fn take_hints(
        &mut self,
        matrix: &CsrMatrix,
        plan: &IntegrationPlan,
    ) -> Vec<QuantileHint> {
        if !matrix.has_f32_quantiles {
            return Vec::new();
        }
        let unknown = || vec![QuantileHint::UNKNOWN; plan.nbins()];
        self.hints.take(plan.id()).unwrap_or_else(unknown)
    }

    /// Keeps the hints for the next frames of a plan.
    pub(super) fn keep_hints(&mut self, plan: &IntegrationPlan, hints: Vec<QuantileHint>) {
        if !hints.is_empty() {
            self.hints.keep(plan.id(), hints);
        }
    }
}

/// The means of a bin.
struct LaneMeans {
    sums: [Option<BinSums>; INTERLEAVED_FRAMES],
    /// Where the quantiles are.
    places: [QuantilePlaces; 2],
}

impl InterleavedBin<'_> {
    /// Returns the sums over the pixels between two quantiles, in each lane that is wanted. Replaces the
    /// hint by one for the next frames. Without one, quantiles are not bracketed.
    #[inline(always)]
    pub(super) fn means_between_quantiles<S: Simd>(
        &self,
        simd: S,
        low: f64,
        high: f64,
        hint: Option<&mut QuantileHint>,
        scratch: &mut InterleavedQuantileScratch,
    ) -> [Option<BinSums>; INTERLEAVED_FRAMES] {
        let Self { bin, rows, .. } = *self;
        let range = QuantileRange::new(low, high, bin.full_sums.norm);
        let mut means =
            LaneMeans { sums: [None; INTERLEAVED_FRAMES], places: [QuantilePlaces::NONE; 2] };
        let is_all = range.has_no_lower() && range.has_no_upper();
        if let Some(hint) = hint
            && rows.len() >= MIN_PIXELS
            && !is_all
        {
            let InterleavedQuantileScratch { segments, brackets, counts, parts, .. } = scratch;
            match range.is_single() {
                true => {
                    let found = counts.add_medians(self, &range, hint.counts, &mut means.sums);
                    if means.sums.iter().any(Option::is_some) {
                        hint.forget_ranges();
                    }
                    if self.missing(&means).contains(&true) {
                        self.seek(simd, &range, hint, &mut means, segments, parts);
                    }
                    hint.counts = hint.counts.next(&means.sums, &found);
                }
                false => self.seek(simd, &range, hint, &mut means, brackets, parts),
            }
        }
        if bin.zero_order.is_some() && self.missing(&means).contains(&true) {
            self.add_means_among_zeros(&range, &mut means, &mut scratch.parts.quantile);
        }
        for lane in 0..INTERLEAVED_FRAMES {
            if self.is_missing(lane, &means) {
                means.sums[lane] = Some(self.mean_of_all(simd, lane, low, high, scratch));
            }
        }
        means.sums
    }

    /// Returns whether a lane has no mean yet, and one is wanted.
    #[inline(always)]
    fn is_missing(&self, lane: usize, means: &LaneMeans) -> bool {
        self.is_wanted[lane] && means.sums[lane].is_none()
    }

    /// Returns for all lanes whether they have no mean yet, and one is wanted.
    #[inline(always)]
    fn missing(&self, means: &LaneMeans) -> [bool; INTERLEAVED_FRAMES] {
        std::array::from_fn(|lane| self.is_missing(lane, means))
    }

    /// Computes missing means from the pixels in the regions where the quantiles are expected: by the
    /// hint, if it is of use, and where that misses by a sample of the bin's pixels. A lane stays
    /// without a mean if a quantile is in none of them.
    #[inline(always)]
    fn seek<S: Simd>(
        &self,
        simd: S,
        range: &QuantileRange,
        hint: &mut QuantileHint,
        means: &mut LaneMeans,
        regions: &mut impl LaneRegions,
        scratch: &mut PartsScratch,
    ) {
        if hint.is_useful(range) {
            regions.follow(*hint, range, self.is_wanted);
            self.add_means(simd, range, means, regions, scratch);
        }
        let is_missing = self.missing(means);
        if is_missing.contains(&true) {
            scratch.sample.take(self.bin, self.rows);
            regions.estimate(range, &scratch.sample, is_missing);
            self.add_means(simd, range, means, regions, scratch);
        }
        hint.update(&means.places, self.rows.len(), self.bin.full_sums.norm);
    }

    /// Computes missing means from the pixels in the regions, and from pixels without a photon if there
    /// may be some.
    #[inline(always)]
    fn add_means<S: Simd>(
        &self,
        simd: S,
        range: &QuantileRange,
        means: &mut LaneMeans,
        regions: &mut impl LaneRegions,
        scratch: &mut PartsScratch,
    ) {
        if self.bin.zero_order.is_some() && regions.any_reaches_zero() {
            self.add_means_among_zeros(range, means, &mut scratch.quantile);
        }
        if !self.missing(means).contains(&true) {
            return;
        }
        for lane in 0..INTERLEAVED_FRAMES {
            if !self.is_missing(lane, means) {
                regions.skip(lane);
            }
        }
        regions.split(self);
        for lane in 0..INTERLEAVED_FRAMES {
            if self.is_missing(lane, means) {
                let pixels = &self.lane(lane);
                means.sums[lane] = regions.mean(simd, pixels, range, &mut means.places, scratch);
            }
        }
    }

    /// Returns the bin in one frame.
    #[inline(always)]
    pub(super) fn lane(&self, lane: usize) -> BinLane<'_> {
        BinLane { bin: self.bin, rows: self.rows, norms: self.norms, lane }
    }

    /// Computes the missing means of the lanes whose quantiles fall on pixels without a photon.
    #[inline(always)]
    fn add_means_among_zeros(
        &self,
        range: &QuantileRange,
        means: &mut LaneMeans,
        scratch: &mut QuantileScratch,
    ) {
        let Self { bin, rows, norms, .. } = *self;
        let zero_norms: LaneSums = sum_rows(rows, &ZeroNorm { norms });
        let starts: [OrderStart; INTERLEAVED_FRAMES] =
            find_starts(range, bin, rows, norms, &zero_norms);
        for lane in 0..INTERLEAVED_FRAMES {
            if !self.is_missing(lane, means) {
                continue;
            }
            let zeros = Zeros {
                bin: &self.lane(lane),
                norms,
                entries: bin,
                norm: zero_norms[lane],
                start: starts[lane],
                is_zero: |entry: usize| rows[entry][lane] == 0,
            };
            means.sums[lane] = zeros.mean_between_quantiles(range, scratch);
            if means.sums[lane].is_some() {
                for places in &mut means.places {
                    places.add_known(0.);
                }
            }
        }
    }

    /// Computes the mean of a lane from all its pixels.
    #[inline(always)]
    fn mean_of_all<S: Simd>(
        &self,
        simd: S,
        lane: usize,
        low: f64,
        high: f64,
        scratch: &mut InterleavedQuantileScratch,
    ) -> BinSums {
        let PartsScratch { lists: [PixelLists { intensity, .. }, _], quantile, .. } =
            &mut scratch.parts;
        let lane = self.lane(lane);
        lane.intensities_into(intensity);
        let pixels = BinPixels { intensity, norm: self.norms, bin: &lane };
        quantile::mean_between_quantiles(
            simd,
            &pixels,
            Some(self.bin.full_sums),
            low,
            high,
            quantile,
        )
    }
}
