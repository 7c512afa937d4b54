//! [`LaneSegments`], the pixels of a bin that a median of 8 interleaved frames may fall on.
//!
//! Three segments of intensities, one above the other, are set by where the medians of the frames
//! before were, or by a sample of the bin's pixels. One pass over all frames, in f32, marks the
//! pixels of each segment and adds up w n of those below the second. If this sum does not reach the
//! median, and with the second segment neither, it is in the third. Few pixels are thus looked at one
//! by one: those of the second segment, which is narrow, and one time in four those of another.
//! Rounding can put pixels near the ends of a segment on either side of it, so a median counts as
//! found only at a distance from the ends that rounding does not reach.

use super::BinSums;
use super::bin_lane::{BinLane, InterleavedBin, PartOfLane, PartsScratch};
use super::lane_regions::{
    LaneMasks, LaneRegions, PIXELS_PER_MASK, RowSignal, Uncorrected, WIDENING, all_bits_if,
    rounding_of_sums,
};
use super::lane_sample::{LARGEST_DEVIATION, LaneSample};
use super::lane_sort::LaneNumbers;
use super::list_bits::IndexList;
use super::quantile::{OtherPixels, QuantileRange};
use super::quantile_hints::{IntensityRange, QuantileHint, QuantilePlaces};
use super::row_terms::{LaneSums, number_or_zero};
use super::tile_lanes::INTERLEAVED_FRAMES;
use crate::simd::Simd;

/// The median is in the second segment if its rank deviates by less than so many standard
/// deviations from that in the sample: three times in four.
const DEVIATION_OF_SECOND: f64 = 1.2;

/// One of the segments, which ascend.
#[derive(Clone, Copy)]
enum MedianSegment {
    First,
    Second,
    Third,
}

/// The segments of each frame, and the pixels in them.
#[derive(Default)]
pub(super) struct LaneSegments {
    /// Where the segments begin, and where the last one ends.
    limits: [LaneNumbers; 4],
    /// The pixels in each segment, a bit each of [`PIXELS_PER_MASK`].
    masks: Vec<[LaneMasks; 3]>,
    /// Σ w n of the pixels below the second segment.
    norm_below_second: LaneSums,
    /// By how much two sums over the bin may differ that add the same numbers in another order.
    rounding: f64,
    /// The indices in the bin of the pixels of one segment of a lane, ascending.
    listed: IndexList,
}

impl LaneSegments {
    /// Returns the bytes of memory that the lists for bins of so many pixels take at the most.
    pub(super) fn memory_bytes(pixels: usize) -> usize {
        pixels.div_ceil(PIXELS_PER_MASK) * size_of::<[LaneMasks; 3]>()
            + IndexList::memory_bytes(pixels)
    }

    #[inline(always)]
    fn set_limits(&mut self, limits: [LaneNumbers; 4], is_wanted: [bool; INTERLEAVED_FRAMES]) {
        self.limits = limits;
        (0..INTERLEAVED_FRAMES).filter(|&lane| !is_wanted[lane]).for_each(|lane| self.skip(lane));
    }

    /// Finds the pixels of each segment; the first and the third are empty unless `THREE`.
    #[inline(always)]
    fn split_rows<const THREE: bool>(&mut self, bin: &InterleavedBin<'_>, signal: impl RowSignal) {
        let InterleavedBin { bin, rows, norms, .. } = *bin;
        let mut limits = self.limits;
        limits[..2].as_flattened_mut().iter_mut().for_each(|limit| *limit *= 1. - WIDENING);
        limits[2..].as_flattened_mut().iter_mut().for_each(|limit| *limit *= 1. + WIDENING);
        let [first, second, third, end] = limits;
        self.norm_below_second = [0.; INTERLEAVED_FRAMES];
        let chunks = rows
            .chunks(PIXELS_PER_MASK)
            .zip(bin.norms.chunks(PIXELS_PER_MASK))
            .zip(norms.chunks(PIXELS_PER_MASK));
        for ((rows, pixel_norms), norms) in chunks {
            let mut masks = [[0; INTERLEAVED_FRAMES]; 3];
            let mut norm_below = [0.; INTERLEAVED_FRAMES];
            for (bit, ((row, &pixel_norm), &norm)) in
                rows.iter().zip(pixel_norms).zip(norms).enumerate()
            {
                let pixel_norm = pixel_norm as f32;
                let bit = 1_u32 << bit;
                let signals = signal.signals(row);
                // Masks and no branches, so that the compiler uses vectors.
                for (lane, signal) in signals.into_iter().enumerate() {
                    let is_below = all_bits_if(signal < second[lane] * pixel_norm);
                    let is_above = all_bits_if(signal > third[lane] * pixel_norm);
                    norm_below[lane] += number_or_zero(norm, is_below.cast_signed().into());
                    masks[1][lane] |= bit & !(is_below | is_above);
                    if THREE {
                        let is_too_low = all_bits_if(signal < first[lane] * pixel_norm);
                        let is_too_high = all_bits_if(signal > end[lane] * pixel_norm);
                        masks[0][lane] |= bit & is_below & !is_too_low;
                        masks[2][lane] |= bit & is_above & !is_too_high;
                    }
                }
            }
            // Sums of few pixels at a time, which are rounded less.
            for (sum, norm) in self.norm_below_second.iter_mut().zip(norm_below) {
                *sum += norm;
            }
            self.masks.push(masks);
        }
    }

    /// Lists the pixels of a segment in a lane.
    #[inline(always)]
    fn list(&mut self, segment: MedianSegment, lane: &BinLane<'_>) {
        self.listed.clear(lane.rows.len());
        for (number, masks) in self.masks.iter().enumerate() {
            let mask = masks[segment as usize][lane.lane];
            self.listed.extend_by_bits(mask, number * PIXELS_PER_MASK);
        }
    }

    /// Returns what is known of the pixels that are not in a segment of a lane, given Σ w n of those
    /// below it and of those in it.
    #[inline(always)]
    fn others(
        &self,
        segment: MedianSegment,
        lane: usize,
        norm_below: f64,
        norm_within: f64,
    ) -> OtherPixels {
        let half = f64::from(WIDENING) / 2.;
        let limit = |index: usize| f64::from(self.limits[index][lane]);
        let (low, high) = match segment {
            // Beyond the ends of the second segment, which is widened.
            MedianSegment::First => (limit(0) * (1. - half), limit(1) * (1. - 3. * half)),
            MedianSegment::Second => (limit(1) * (1. - half), limit(2) * (1. + half)),
            MedianSegment::Third => (limit(2) * (1. + 3. * half), limit(3) * (1. + half)),
        };
        OtherPixels { norm_below, norm_within, rounding: self.rounding, low, high }
    }
}

impl LaneRegions for LaneSegments {
    /// Nothing is expected of the first and the third segment.
    #[inline(always)]
    fn follow(
        &mut self,
        hint: QuantileHint,
        _: &QuantileRange,
        is_wanted: [bool; INTERLEAVED_FRAMES],
    ) {
        let IntensityRange { low, high } = hint.ranges[0];
        self.set_limits([low, low, high, high].map(|limit| [limit; INTERLEAVED_FRAMES]), is_wanted);
    }

    #[inline(always)]
    fn estimate(
        &mut self,
        range: &QuantileRange,
        sample: &LaneSample,
        is_wanted: [bool; INTERLEAVED_FRAMES],
    ) {
        let [rank, _] = range.ranks(sample.size());
        let [first, end] = sample.bracket(rank, LARGEST_DEVIATION);
        let [second, third] = sample.bracket(rank, DEVIATION_OF_SECOND);
        self.set_limits([first, second, third, end], is_wanted);
    }

    #[inline(always)]
    fn skip(&mut self, lane: usize) {
        self.limits.iter_mut().for_each(|limit| limit[lane] = f32::INFINITY);
    }

    #[inline(always)]
    fn any_reaches_zero(&self) -> bool {
        self.limits[0].iter().any(|&low| low <= 0.)
    }

    #[inline(always)]
    fn split(&mut self, bin: &InterleavedBin<'_>) {
        self.rounding = rounding_of_sums(bin.rows.len()) * bin.bin.full_sums.norm;
        self.masks.clear();
        match self.limits[0] == self.limits[1] && self.limits[2] == self.limits[3] {
            _ if !bin.bin.dead_time.is_zero() => self.split_rows::<true>(bin, bin.bin.dead_time),
            true => self.split_rows::<false>(bin, Uncorrected),
            false => self.split_rows::<true>(bin, Uncorrected),
        }
    }

    #[inline(always)]
    fn mean<S: Simd>(
        &mut self,
        simd: S,
        lane: &BinLane<'_>,
        range: &QuantileRange,
        places: &mut [QuantilePlaces; 2],
        scratch: &mut PartsScratch,
    ) -> Option<BinSums> {
        let norm_below_second = self.norm_below_second[lane.lane];
        if range.reaches_low(norm_below_second) {
            self.list(MedianSegment::First, lane);
            let others = |norm| {
                Some(self.others(MedianSegment::First, lane.lane, norm_below_second - norm, norm))
            };
            let pixels = PartOfLane { lane, entries: &self.listed };
            return pixels.mean(simd, others, range, places, scratch);
        }
        self.list(MedianSegment::Second, lane);
        let mut norm_up_to_second = None;
        let others = |norm| {
            if range.reaches_low(norm_below_second + norm) {
                return Some(self.others(
                    MedianSegment::Second,
                    lane.lane,
                    norm_below_second,
                    norm,
                ));
            }
            norm_up_to_second = Some(norm_below_second + norm);
            None
        };
        let pixels = PartOfLane { lane, entries: &self.listed };
        let mean = pixels.mean(simd, others, range, places, scratch);
        let Some(norm_below) = norm_up_to_second else { return mean };
        self.list(MedianSegment::Third, lane);
        let others = |norm| Some(self.others(MedianSegment::Third, lane.lane, norm_below, norm));
        let pixels = PartOfLane { lane, entries: &self.listed };
        pixels.mean(simd, others, range, places, scratch)
    }
}
