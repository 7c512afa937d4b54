//! [`LaneBrackets`], the pixels of a bin that two quantiles of 8 interleaved frames may fall on.
//!
//! Both quantiles of each frame are bracketed by those of the frames before, or by a sample of the
//! bin's pixels. One pass over all frames, in f32, adds up w n of the pixels outside of the brackets
//! and lists those within; only these are then looked at one by one. Rounding can put pixels near the
//! ends of a bracket on either side of it, so a quantile counts as found only at a distance from the
//! ends that rounding does not reach.

use super::BinSums;
use super::bin_lane::{BinLane, InterleavedBin, PartOfLane, PartsScratch, Quantile, find};
use super::lane_regions::{
    LaneMasks, LaneRegions, PIXELS_PER_MASK, RowSignal, Uncorrected, WIDENING, all_bits_if,
    rounding_of_sums,
};
use super::lane_sample::{LARGEST_DEVIATION, LaneSample};
use super::lane_sort::LaneNumbers;
use super::list_bits::IndexList;
use super::partial_sums::Sum;
use super::quantile::{self, BinPixels, OtherPixels, QuantileCut, QuantileRange};
use super::quantile_hints::{IntensityRange, QuantileHint, QuantilePlaces};
use super::row_terms::{LaneSums, number_or_zero};
use super::tile_lanes::INTERLEAVED_FRAMES;
use crate::simd::Simd;

/// A range of s / n in each frame.
#[derive(Clone, Copy)]
struct Bracket {
    low: LaneNumbers,
    high: LaneNumbers,
}

impl Bracket {
    /// All is above.
    const BELOW_ALL: Self = Self {
        low: [f32::NEG_INFINITY; INTERLEAVED_FRAMES],
        high: [f32::NEG_INFINITY; INTERLEAVED_FRAMES],
    };
    /// All is below.
    const ABOVE_ALL: Self = Self {
        low: [f32::INFINITY; INTERLEAVED_FRAMES],
        high: [f32::INFINITY; INTERLEAVED_FRAMES],
    };

    /// Returns the limits that pixels are compared with.
    #[inline(always)]
    fn widened(mut self) -> Self {
        for lane in 0..INTERLEAVED_FRAMES {
            self.low[lane] *= 1. - WIDENING;
            self.high[lane] *= 1. + WIDENING;
        }
        self
    }
}

/// The brackets of the quantiles in each frame, and the pixels within.
pub(super) struct LaneBrackets {
    /// The bracket of each quantile, ascending. Where they overlap, the first is that of both, and nothing is between them or in the second.
    brackets: [Bracket; 2],
    /// The index in the bin of each pixel within a bracket, ascending.
    within: [[IndexList; INTERLEAVED_FRAMES]; 2],
    /// The pixels between the brackets, in groups of [`PIXELS_PER_MASK`]; empty if there are none in
    /// any lane.
    between: Vec<LaneMasks>,
    /// Σ w n of the pixels below the brackets, and of those between them.
    norm_below: LaneSums,
    norm_between: LaneSums,
    /// By how much two sums over the bin may differ that add the same numbers in another order.
    rounding: f64,
    /// The pixels between the quantiles of a lane: bits in groups of [`PIXELS_PER_MASK`], and by their
    /// index in the bin.
    selected_bits: Vec<u32>,
    selected: IndexList,
}

impl Default for LaneBrackets {
    fn default() -> Self {
        Self {
            brackets: [Bracket::ABOVE_ALL; 2],
            within: Default::default(),
            between: Vec::new(),
            norm_below: [0.; INTERLEAVED_FRAMES],
            norm_between: [0.; INTERLEAVED_FRAMES],
            rounding: 0.,
            selected_bits: Vec::new(),
            selected: IndexList::default(),
        }
    }
}

impl LaneBrackets {
    /// Returns the bytes of memory that the lists for bins of so many pixels take at the most.
    pub(super) fn memory_bytes(pixels: usize) -> usize {
        (2 * INTERLEAVED_FRAMES + 1) * IndexList::memory_bytes(pixels)
            + pixels.div_ceil(PIXELS_PER_MASK) * (size_of::<LaneMasks>() + size_of::<u32>())
    }

    /// Sets the brackets of the lanes that are wanted, and of the others such that none of their
    /// pixels is listed.
    #[inline(always)]
    fn set_brackets(
        &mut self,
        [mut lower, mut upper]: [Bracket; 2],
        range: &QuantileRange,
        is_wanted: [bool; INTERLEAVED_FRAMES],
    ) {
        if range.has_no_lower() {
            lower = Bracket::BELOW_ALL;
        }
        if range.has_no_upper() {
            upper = Bracket::ABOVE_ALL;
        }
        for lane in 0..INTERLEAVED_FRAMES {
            // Also where rounding could confuse a pixel above the one with a pixel below the other.
            let gap =
                lower.high[lane] * (1. + 2. * WIDENING)..upper.low[lane] * (1. - 2. * WIDENING);
            if gap.is_empty() {
                lower.low[lane] = lower.low[lane].min(upper.low[lane]);
                lower.high[lane] = lower.high[lane].max(upper.high[lane]);
                (upper.low[lane], upper.high[lane]) = (lower.high[lane], lower.high[lane]);
            }
        }
        self.brackets = [lower, upper];
        (0..INTERLEAVED_FRAMES).filter(|&lane| !is_wanted[lane]).for_each(|lane| self.skip(lane));
    }

    /// Returns whether both quantiles of a lane have the same bracket, the lower one.
    #[inline(always)]
    fn has_one_bracket(&self, lane: usize) -> bool {
        self.brackets[1].low[lane] <= self.brackets[0].high[lane]
    }

    /// Lists the pixels within the brackets, and finds those between them. Some lane has two brackets
    /// if `TWO`.
    #[inline(always)]
    fn split_rows<const TWO: bool>(&mut self, bin: &InterleavedBin<'_>, signal: impl RowSignal) {
        let InterleavedBin { bin, rows, norms, .. } = *bin;
        let [lower, upper] = self.brackets.map(Bracket::widened);
        self.norm_below = [0.; INTERLEAVED_FRAMES];
        self.norm_between = [0.; INTERLEAVED_FRAMES];
        let chunks = rows
            .chunks(PIXELS_PER_MASK)
            .zip(bin.norms.chunks(PIXELS_PER_MASK))
            .zip(norms.chunks(PIXELS_PER_MASK));
        for (number, ((rows, pixel_norms), norms)) in chunks.enumerate() {
            let mut within_lower = [0; INTERLEAVED_FRAMES];
            let mut within_upper = [0; INTERLEAVED_FRAMES];
            let mut between = [0; INTERLEAVED_FRAMES];
            let mut norm_below = [0.; INTERLEAVED_FRAMES];
            let mut norm_between = [0.; INTERLEAVED_FRAMES];
            for (bit, ((row, &pixel_norm), &norm)) in
                rows.iter().zip(pixel_norms).zip(norms).enumerate()
            {
                let pixel_norm = pixel_norm as f32;
                let bit = 1_u32 << bit;
                let signals = signal.signals(row);
                // Masks and no branches, so that the compiler uses vectors.
                for (lane, signal) in signals.into_iter().enumerate() {
                    let is_below = all_bits_if(signal < lower.low[lane] * pixel_norm);
                    let is_above = all_bits_if(signal > lower.high[lane] * pixel_norm);
                    norm_below[lane] += number_or_zero(norm, is_below.cast_signed().into());
                    within_lower[lane] |= bit & !(is_below | is_above);
                    if TWO {
                        let is_below_upper = all_bits_if(signal < upper.low[lane] * pixel_norm);
                        let is_above_upper = all_bits_if(signal > upper.high[lane] * pixel_norm);
                        let is_between = is_above & is_below_upper;
                        norm_between[lane] += number_or_zero(norm, is_between.cast_signed().into());
                        within_upper[lane] |= bit & is_above & !(is_below_upper | is_above_upper);
                        between[lane] |= bit & is_between;
                    }
                }
            }
            // Sums of few pixels at a time, which are rounded less.
            for lane in 0..INTERLEAVED_FRAMES {
                self.norm_below[lane] += norm_below[lane];
                self.norm_between[lane] += norm_between[lane];
            }
            let first = number * PIXELS_PER_MASK;
            for (list, mask) in self.within[0].iter_mut().zip(within_lower) {
                list.extend_by_bits(mask, first);
            }
            if TWO {
                for (list, mask) in self.within[1].iter_mut().zip(within_upper) {
                    list.extend_by_bits(mask, first);
                }
                self.between.push(between);
            }
        }
    }

    /// Returns what is known of the pixels that are not within the bracket of a quantile. `norms` are
    /// Σ w n of those within the bracket of each.
    #[inline(always)]
    fn others(&self, quantile: Quantile, lane: usize, norms: [f64; 2]) -> OtherPixels {
        let index = quantile as usize;
        let Bracket { low, high } = &self.brackets[index];
        let half = f64::from(WIDENING) / 2.;
        let norm_below = match index {
            0 => self.norm_below[lane],
            _ => self.norm_below[lane] + norms[0] + self.norm_between[lane],
        };
        OtherPixels {
            norm_below,
            norm_within: norms[index],
            rounding: self.rounding,
            low: f64::from(low[lane]) * (1. - half),
            high: f64::from(high[lane]) * (1. + half),
        }
    }
}

impl LaneRegions for LaneBrackets {
    #[inline(always)]
    fn follow(
        &mut self,
        hint: QuantileHint,
        range: &QuantileRange,
        is_wanted: [bool; INTERLEAVED_FRAMES],
    ) {
        let bracket = |IntensityRange { low, high }| Bracket {
            low: [low; INTERLEAVED_FRAMES],
            high: [high; INTERLEAVED_FRAMES],
        };
        self.set_brackets(hint.ranges.map(bracket), range, is_wanted);
    }

    #[inline(always)]
    fn estimate(
        &mut self,
        range: &QuantileRange,
        sample: &LaneSample,
        is_wanted: [bool; INTERLEAVED_FRAMES],
    ) {
        let brackets = range.ranks(sample.size()).map(|rank| {
            let [low, high] = sample.bracket(rank, LARGEST_DEVIATION);
            Bracket { low, high }
        });
        self.set_brackets(brackets, range, is_wanted);
    }

    #[inline(always)]
    fn skip(&mut self, lane: usize) {
        for bracket in &mut self.brackets {
            (bracket.low[lane], bracket.high[lane]) = (f32::INFINITY, f32::INFINITY);
        }
    }

    #[inline(always)]
    fn any_reaches_zero(&self) -> bool {
        self.brackets[0].low.iter().any(|&low| low <= 0.)
    }

    #[inline(always)]
    fn split(&mut self, bin: &InterleavedBin<'_>) {
        for list in self.within.as_flattened_mut() {
            list.clear(bin.rows.len());
        }
        self.rounding = rounding_of_sums(bin.rows.len()) * bin.bin.full_sums.norm;
        self.between.clear();
        match (0..INTERLEAVED_FRAMES).all(|lane| self.has_one_bracket(lane)) {
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
        let number = lane.lane;
        let [lower, upper] =
            self.within.each_ref().map(|lists| PartOfLane { lane, entries: &lists[number] });
        if self.has_one_bracket(number) {
            let others = |norm| Some(self.others(Quantile::Lower, number, [norm; 2]));
            return lower.mean(simd, others, range, places, scratch);
        }
        let PartsScratch { lists: [lower_lists, upper_lists], selected, quantile, .. } = scratch;
        let within = [lower.load(lower_lists), upper.load(upper_lists)];
        let norms = within.each_ref().map(|within| simd.run(Sum(within.norm)));
        let mut find = |which: Quantile| {
            let (index, others) = (which as usize, self.others(which, number, norms));
            find(simd, &within[index], &others, which, range, &mut places[index], quantile)
        };
        let lower = match range.has_no_lower() {
            true => None,
            false => Some(find(Quantile::Lower)?),
        };
        let upper = match range.has_no_upper() {
            true => None,
            false => Some(find(Quantile::Upper)?),
        };
        let selected_bits = &mut self.selected_bits;
        selected_bits.clear();
        selected_bits.extend(self.between.iter().map(|masks| masks[number]));
        let parts = [(&within[0], lower, None), (&within[1], None, upper)];
        select_with_parts(simd, parts, selected_bits, selected);
        self.selected.clear(lane.rows.len());
        for (number, &bits) in selected_bits.iter().enumerate() {
            self.selected.extend_by_bits(bits, number * PIXELS_PER_MASK);
        }
        Some(quantile::sum_selected(lane, &self.selected))
    }
}

/// Adds the pixels of each part from its lower quantile to its upper one to those that are set in
/// `bits`, in groups of [`PIXELS_PER_MASK`]. `selected` is working memory.
#[inline(always)]
fn select_with_parts<S: Simd>(
    simd: S,
    parts: [(&BinPixels<'_, PartOfLane<'_>>, Option<QuantileCut>, Option<QuantileCut>); 2],
    bits: &mut [u32],
    selected: &mut Vec<u32>,
) {
    for (pixels, lower, upper) in parts {
        pixels.select(simd, lower, upper, selected);
        for &index in &*selected {
            let entry = pixels.bin.entry(index) as usize;
            bits[entry / PIXELS_PER_MASK] |= 1 << (entry % PIXELS_PER_MASK);
        }
    }
}
