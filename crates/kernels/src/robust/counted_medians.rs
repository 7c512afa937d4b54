//! [`CountedMedians`], medians that fall on pixels of few photons, in 8 interleaved frames.
//!
//! The normalizations of a bin's pixels differ little. So where photons are few, all pixels of one
//! count are below all of the next count, and their order does not depend on the frame: that of s / n
//! is that of n. One pass in this order adds up w n of the pixels with fewer photons than the count on
//! which a median is expected, and of those with this count, with the sums so far at some places. The
//! median is found from the last of these places before it. No pixel has to be listed or sorted.

use super::BinSums;
use super::bin_entries::BinEntries;
use super::bin_lane::InterleavedBin;
use super::count_hints::{CountHint, LanePositions};
use super::lane_regions::{PIXELS_PER_MASK, all_bits_if};
use super::quantile::{QuantileRange, sum_selected};
use super::row_terms::{LaneSums, number_or_zero};
use super::tile_lanes::INTERLEAVED_FRAMES;

/// How many counts are tried: that which is expected, and the next one in the direction of the median.
const MAX_TRIES: usize = 2;

/// By how much intensities must differ, relative to them, to be told apart without doubt.
const LEAST_DIFFERENCE: f64 = 1e-12;

/// Working memory of a thread.
#[derive(Default)]
pub(super) struct CountedMedians {
    /// The entries in the order of equal counts, if some of the bin are left out.
    order: Vec<u32>,
    /// Before each group of [`PIXELS_PER_MASK`] pixels in that order, Σ w n of those of the expected
    /// counts.
    places: Vec<LaneSums>,
}

/// Sums over the pixels of a bin.
struct CountSums {
    /// Σ w n of the pixels below the expected counts.
    below: LaneSums,
    /// Σ w n of those of the expected counts.
    equal: LaneSums,
}

impl CountedMedians {
    /// Returns the bytes of memory that the lists for bins of so many pixels take at the most.
    pub(super) fn memory_bytes(pixels: usize) -> usize {
        pixels * size_of::<u32>() + pixels.div_ceil(PIXELS_PER_MASK) * size_of::<LaneSums>()
    }

    /// Computes the medians that fall on the counts that `hint` tells, or on the next ones, where
    /// `sums` has none yet. Returns where they are.
    #[inline(always)]
    pub(super) fn add_medians(
        &mut self,
        bin: &InterleavedBin<'_>,
        range: &QuantileRange,
        hint: CountHint,
        sums: &mut [Option<BinSums>; INTERLEAVED_FRAMES],
    ) -> LanePositions {
        let mut positions = [f32::NAN; INTERLEAVED_FRAMES];
        let Some(mut counts) = hint.expected(bin.rows.len()) else { return positions };
        let whole = bin.bin.whole();
        let is_wanted = |lane: usize, counts: &[u16; INTERLEAVED_FRAMES]| {
            bin.is_wanted[lane] && counts[lane] > 0 && keeps_counts_apart(whole, counts[lane])
        };
        let mut is_open: [bool; INTERLEAVED_FRAMES] =
            std::array::from_fn(|lane| is_wanted(lane, &counts) && sums[lane].is_none());
        if !is_open.contains(&true) {
            return positions;
        }
        let (Self { order, places }, sorted) = (self, whole.sorted_if_equal());
        let order = match bin.bin.left_out {
            None => sorted,
            Some(_) => {
                order.clear();
                order.reserve_exact(sorted.len());
                let kept = sorted.iter().filter_map(|&entry| bin.bin.entry_of_whole(entry));
                order.extend(kept.map(|entry| entry as u32));
                order
            }
        };
        // Pixels that are equal in all are added one by one elsewhere.
        let rounding = (order.len() + 128) as f64 * f64::EPSILON * bin.bin.full_sums.norm;
        for _ in 0..MAX_TRIES {
            let found = add_up(bin, order, counts, places);
            for lane in 0..INTERLEAVED_FRAMES {
                if !is_open[lane] {
                    continue;
                }
                let (below, equal) = (found.below[lane], found.equal[lane]);
                if range.reaches_low(below + rounding) {
                    counts[lane] -= 1;
                } else if range.reaches_low(below + equal - rounding) {
                    let median = Median { bin, range, order, rounding, lane, count: counts[lane] };
                    sums[lane] = median.find(places, below);
                    let part = (range.lower_limit() - below) / equal;
                    positions[lane] = f32::from(counts[lane]) + part as f32;
                    is_open[lane] = false;
                    continue;
                } else {
                    counts[lane] = counts[lane].saturating_add(1);
                }
                is_open[lane] = is_wanted(lane, &counts);
            }
            if !is_open.contains(&true) {
                break;
            }
        }
        positions
    }
}

/// Returns whether all pixels of a count above 0 have another intensity than those of other counts.
#[inline(always)]
fn keeps_counts_apart(whole: &BinEntries<'_>, count: u16) -> bool {
    let order = whole.sorted_if_equal();
    let (Some(&first), Some(&last)) = (order.first(), order.last()) else { return false };
    let (greatest, least) = (whole.norms[first as usize], whole.norms[last as usize]);
    let count = f64::from(count);
    greatest * count * (1. + LEAST_DIFFERENCE) < least * (count + 1.)
}

/// Adds up the pixels of the expected counts, and those below. Replaces `places`.
#[inline(always)]
fn add_up(
    bin: &InterleavedBin<'_>,
    order: &[u32],
    counts: [u16; INTERLEAVED_FRAMES],
    places: &mut Vec<LaneSums>,
) -> CountSums {
    let InterleavedBin { rows, norms, .. } = *bin;
    let mut all = CountSums { below: [0.; INTERLEAVED_FRAMES], equal: [0.; INTERLEAVED_FRAMES] };
    places.clear();
    places.reserve_exact(order.len().div_ceil(PIXELS_PER_MASK));
    for entries in order.chunks(PIXELS_PER_MASK) {
        places.push(all.equal);
        // Sums of few pixels at a time, which are rounded less.
        let (mut below, mut equal) = ([0.; INTERLEAVED_FRAMES], [0.; INTERLEAVED_FRAMES]);
        for &entry in entries {
            let (row, norm) = (rows[entry as usize], norms[entry as usize]);
            // Masks and no branches, so that the compiler uses vectors.
            for lane in 0..INTERLEAVED_FRAMES {
                let is_below = all_bits_if(row[lane] < counts[lane]).cast_signed();
                let is_equal = all_bits_if(row[lane] == counts[lane]).cast_signed();
                below[lane] += number_or_zero(norm, is_below.into());
                equal[lane] += number_or_zero(norm, is_equal.into());
            }
        }
        for lane in 0..INTERLEAVED_FRAMES {
            all.below[lane] += below[lane];
            all.equal[lane] += equal[lane];
        }
    }
    all
}

/// A median that is on a pixel of a count.
struct Median<'a> {
    bin: &'a InterleavedBin<'a>,
    range: &'a QuantileRange,
    /// The entries of the bin in the order of equal counts.
    order: &'a [u32],
    /// By how much two sums over the bin may differ that add the same numbers in another order.
    rounding: f64,
    lane: usize,
    count: u16,
}

impl Median<'_> {
    /// Returns the sums at the median, given Σ w n of the pixels below the count. `None` if rounding
    /// decides which pixel it is, or which of two comes first.
    #[inline(always)]
    fn find(&self, places: &[LaneSums], below: f64) -> Option<BinSums> {
        let Self { bin, range, order, rounding, lane, .. } = *self;
        let reached = |place: &LaneSums| range.reaches_low(below + place[lane]);
        let group = places.partition_point(|place| !reached(place)).checked_sub(1)?;
        let mut norm_up_to = below + places[group][lane];
        for &entry in &order[group * PIXELS_PER_MASK..] {
            let entry = entry as usize;
            if bin.rows[entry][lane] != self.count {
                continue;
            }
            let norm = bin.norms[entry];
            norm_up_to += norm;
            if !range.reaches_low(norm_up_to) {
                continue;
            }
            let is_certain = range.reaches_low(norm_up_to - rounding)
                && !range.reaches_low(norm_up_to - norm + rounding)
                && range.is_median_at(norm_up_to - rounding)
                && !self.has_near_neighbour(entry);
            let lane = &bin.lane(lane);
            return is_certain.then(|| sum_selected(lane, &[entry as u32]));
        }
        None
    }

    /// Returns whether the intensity of another pixel of this count may be equal after rounding though
    /// its n is another: what then orders the two is not n.
    #[inline(always)]
    fn has_near_neighbour(&self, entry: usize) -> bool {
        let norms = self.bin.bin.norms;
        let norm = norms[entry];
        let norm_at = |position: usize| norms[self.order[position] as usize];
        // From the greatest norm to the least.
        let first = self.order.partition_point(|&entry| norms[entry as usize] > norm);
        let behind = self.order.partition_point(|&entry| norms[entry as usize] >= norm);
        let is_near = |other: f64| (other - norm).abs() < LEAST_DIFFERENCE * norm;
        first > 0 && is_near(norm_at(first - 1))
            || behind < self.order.len() && is_near(norm_at(behind))
    }
}
