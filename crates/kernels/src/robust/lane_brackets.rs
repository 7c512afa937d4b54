//! [`LaneBrackets`], the pixels of a bin that the quantiles of 8 interleaved frames may fall on.
//!
//! Both quantiles of each frame are bracketed by those of the frames before, or by a sample of the
//! bin's pixels. One pass over all frames, in f32, adds up w n of the pixels outside of the brackets
//! and lists those within; only these are then looked at one by one. Rounding can put pixels near the
//! ends of a bracket on either side of it, so a quantile counts as found only at a distance from the
//! ends that rounding does not reach.

use super::bin_entries::BinEntries;
use super::lane_sort::{LaneNumbers, sort_lanes};
use super::list_bits::list_bits;
use super::partial_sums::PARTIAL_SUMS;
use super::quantile::{OtherPixels, QuantileRange};
use super::quantile_hints::{IntensityRange, QuantileHint};
use super::row_terms::{LaneSums, number_or_zero};
use super::tile_lanes::INTERLEAVED_FRAMES;

/// Bins with fewer pixels are not worth a sample or a hint.
pub(super) const MIN_PIXELS: usize = 256;
/// The largest number of pixels in a sample, a power of two; of small bins it is less.
const MAX_SAMPLE: usize = 256;
/// Number of pixels of a bin for each in the sample, at least.
const PIXELS_PER_SAMPLE: usize = 4;
/// Number of sampled pixels on either side of a quantile that bracket it, divided by the square root
/// of the sample's size: three standard deviations of a median's position, and a sixth more because
/// weights differ.
const MARGIN: f64 = 1.75;

/// How much wider the brackets are than the sample says, relative to their ends: five times what the
/// products that pixels are compared with are rounded by.
const WIDENING: f32 = 1. / (1 << 20) as f32;

/// Number of pixels that are compared before those within the brackets are listed: one in each bit.
pub(super) const PIXELS_PER_MASK: usize = u32::BITS as usize;

/// For each frame, a bit for each of [`PIXELS_PER_MASK`] pixels.
type LaneMasks = [u32; INTERLEAVED_FRAMES];

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

/// The quantile of a [`QuantileRange`].
#[derive(Clone, Copy)]
pub(super) enum Quantile {
    Lower,
    Upper,
}

/// The brackets of the quantiles in each frame, and the pixels within.
pub(super) struct LaneBrackets {
    sample: Vec<LaneNumbers>,
    /// The bracket of each quantile, ascending. Where they overlap, as for a median, the first is
    /// that of both, and nothing is between them or in the second.
    brackets: [Bracket; 2],
    /// The index in the bin of each pixel within a bracket, ascending.
    within: [[Vec<u32>; INTERLEAVED_FRAMES]; 2],
    /// The pixels between the brackets, in groups of [`PIXELS_PER_MASK`]; empty if there are none in
    /// any lane.
    between: Vec<LaneMasks>,
    /// Σ w n of the pixels below the brackets, and of those between them.
    norm_below: LaneSums,
    norm_between: LaneSums,
    /// By how much two sums over the bin may differ that add the same numbers in another order.
    rounding: f64,
}

impl Default for LaneBrackets {
    fn default() -> Self {
        Self {
            sample: Vec::new(),
            brackets: [Bracket::ABOVE_ALL; 2],
            within: Default::default(),
            between: Vec::new(),
            norm_below: [0.; INTERLEAVED_FRAMES],
            norm_between: [0.; INTERLEAVED_FRAMES],
            rounding: 0.,
        }
    }
}

impl LaneBrackets {
    /// Returns the bytes of memory that the lists for bins of so many pixels take at the most.
    pub(super) fn memory_bytes(pixels: usize) -> usize {
        2 * INTERLEAVED_FRAMES * pixels * size_of::<u32>()
    }

    /// Brackets the quantiles of the lanes that are wanted by where those of other frames were.
    /// Returns false if that is unknown.
    #[inline(always)]
    pub(super) fn follow(
        &mut self,
        hint: QuantileHint,
        range: &QuantileRange,
        is_wanted: [bool; INTERLEAVED_FRAMES],
    ) -> bool {
        let [lower, upper] = hint.map(IntensityRange::is_known);
        if !(lower || range.has_no_lower()) || !(upper || range.has_no_upper()) {
            return false;
        }
        let bracket = |IntensityRange { low, high }| Bracket {
            low: [low; INTERLEAVED_FRAMES],
            high: [high; INTERLEAVED_FRAMES],
        };
        self.set_brackets(hint.map(bracket), range, is_wanted);
        true
    }

    /// Brackets the quantiles of the lanes that are wanted by a sample of the bin's pixels.
    #[inline(always)]
    pub(super) fn estimate(
        &mut self,
        range: &QuantileRange,
        bin: &BinEntries<'_>,
        rows: &[[u16; INTERLEAVED_FRAMES]],
        is_wanted: [bool; INTERLEAVED_FRAMES],
    ) {
        let size = 1 << (rows.len() / PIXELS_PER_SAMPLE).clamp(1, MAX_SAMPLE).ilog2();
        self.sample.resize(size, [0.; INTERLEAVED_FRAMES]);
        for (number, sampled) in self.sample.iter_mut().enumerate() {
            let entry = (2 * number + 1) * rows.len() / (2 * size);
            let norm = bin.norms[entry] as f32;
            for (intensity, &raw) in sampled.iter_mut().zip(&rows[entry]) {
                *intensity = f32::from(raw) / norm;
            }
        }
        sort_lanes(&mut self.sample);
        let brackets = range.ranks(size).map(|rank| self.bracket_around(rank));
        self.set_brackets(brackets, range, is_wanted);
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

    /// Takes a lane out: none of its pixels is listed.
    #[inline(always)]
    pub(super) fn skip(&mut self, lane: usize) {
        for bracket in &mut self.brackets {
            (bracket.low[lane], bracket.high[lane]) = (f32::INFINITY, f32::INFINITY);
        }
    }

    /// Returns the bracket of the pixel with a rank in the sample.
    #[inline(always)]
    fn bracket_around(&self, rank: usize) -> Bracket {
        let margin = (MARGIN * (self.sample.len() as f64).sqrt()) as usize;
        let low = rank.checked_sub(margin).map(|rank| self.sample[rank]);
        let high = self.sample.get(rank + margin).copied();
        Bracket {
            low: low.unwrap_or([f32::NEG_INFINITY; INTERLEAVED_FRAMES]),
            high: high.unwrap_or([f32::INFINITY; INTERLEAVED_FRAMES]),
        }
    }

    /// Returns whether a quantile of any lane may fall on a pixel without a photon.
    #[inline(always)]
    pub(super) fn any_reaches_zero(&self) -> bool {
        self.brackets[0].low.iter().any(|&low| low <= 0.)
    }

    /// Returns whether both quantiles of a lane have the same bracket, the lower one.
    #[inline(always)]
    fn has_one_bracket(&self, lane: usize) -> bool {
        self.brackets[1].low[lane] <= self.brackets[0].high[lane]
    }

    /// Lists the pixels within the brackets and between them. `norms` has w n of each pixel.
    #[inline(always)]
    pub(super) fn split(
        &mut self,
        bin: &BinEntries<'_>,
        norms: &[f64],
        rows: &[[u16; INTERLEAVED_FRAMES]],
    ) {
        for list in self.within.as_flattened_mut() {
            list.clear();
            list.reserve_exact(rows.len());
        }
        self.rounding = rounding_of_sums(rows.len()) * bin.full_sums.norm;
        self.between.clear();
        match (0..INTERLEAVED_FRAMES).all(|lane| self.has_one_bracket(lane)) {
            true => self.split_rows::<false>(bin, norms, rows),
            false => self.split_rows::<true>(bin, norms, rows),
        }
    }

    /// Implements [`LaneBrackets::split`]. Some lane has two brackets if `TWO`.
    #[inline(always)]
    fn split_rows<const TWO: bool>(
        &mut self,
        bin: &BinEntries<'_>,
        norms: &[f64],
        rows: &[[u16; INTERLEAVED_FRAMES]],
    ) {
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
                // Masks and no branches, so that the compiler uses vectors.
                for lane in 0..INTERLEAVED_FRAMES {
                    let raw = f32::from(row[lane]);
                    let is_below = all_bits_if(raw < lower.low[lane] * pixel_norm);
                    let is_above = all_bits_if(raw > lower.high[lane] * pixel_norm);
                    norm_below[lane] += number_or_zero(norm, is_below.cast_signed().into());
                    within_lower[lane] |= bit & !(is_below | is_above);
                    if TWO {
                        let is_below_upper = all_bits_if(raw < upper.low[lane] * pixel_norm);
                        let is_above_upper = all_bits_if(raw > upper.high[lane] * pixel_norm);
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
                list_bits(mask.into(), first, list);
            }
            if TWO {
                for (list, mask) in self.within[1].iter_mut().zip(within_upper) {
                    list_bits(mask.into(), first, list);
                }
                self.between.push(between);
            }
        }
    }

    /// Returns the pixels that a quantile of a lane may fall on, by their index in the bin.
    #[inline(always)]
    pub(super) fn within(&self, quantile: Quantile, lane: usize) -> &[u32] {
        &self.within[self.bracket_of(quantile, lane)][lane]
    }

    /// Returns what is known of the pixels that are not [`LaneBrackets::within`]. `norms` are Σ w n of
    /// those within the bracket of each quantile.
    #[inline(always)]
    pub(super) fn others(&self, quantile: Quantile, lane: usize, norms: [f64; 2]) -> OtherPixels {
        let index = self.bracket_of(quantile, lane);
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

    /// Returns the pixels between the brackets of a lane, in groups of [`PIXELS_PER_MASK`]; `None` if
    /// both quantiles have the same bracket.
    #[inline(always)]
    pub(super) fn between(&self, lane: usize) -> Option<impl Iterator<Item = u32> + use<'_>> {
        (!self.has_one_bracket(lane)).then(|| self.between.iter().map(move |masks| masks[lane]))
    }

    #[inline(always)]
    fn bracket_of(&self, quantile: Quantile, lane: usize) -> usize {
        match quantile {
            Quantile::Upper if !self.has_one_bracket(lane) => 1,
            _ => 0,
        }
    }
}

/// Returns by how much two sums over a bin may differ, relative to them: one in groups of
/// [`PIXELS_PER_MASK`], and one of [`PARTIAL_SUMS`].
fn rounding_of_sums(pixels: usize) -> f64 {
    let additions =
        PIXELS_PER_MASK + pixels.div_ceil(PIXELS_PER_MASK) + pixels.div_ceil(PARTIAL_SUMS);
    // Some more, for what is added to such sums.
    (additions + 64) as f64 * f64::EPSILON
}

/// Returns a mask of all bits, or of none.
#[inline(always)]
fn all_bits_if(is_set: bool) -> u32 {
    u32::from(is_set).wrapping_neg()
}
