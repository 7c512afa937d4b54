//! [`OutlierSearch`], which lists the outliers of a bin in 8 frames, step by step.

use super::bin_entries::BinEntries;
use super::interleaved_pixels::OVERFLOW;
use super::row_terms::{LaneSums, WeightedSignal, deviation, map_lanes};
use super::sigma_clip::ClipStep;
use super::tile_lanes::INTERLEAVED_FRAMES;
use crate::dead_time::DeadTime;

/// Marks pixels that are removed. Lanes with pixels that overflow are not searched.
pub(super) const DROPPED: u16 = OVERFLOW;

/// Number of rows that are compared at once.
const ROWS_PER_STEP: usize = 16;

/// By how much of the mean and the limit the bounds of intensities are moved inwards, so that rounding
/// does not matter: of the bounds, and of w s - m w n.
const MARGIN: f64 = 1e-9;

/// The outliers of an entry, at least one.
pub(super) struct RowOutliers {
    pub(super) entry: u32,
    /// One bit per lane.
    pub(super) lanes: u32,
}

/// The rows of a bin in which outliers are looked for: they are found once for several steps of
/// clipping.
#[derive(Default)]
pub(super) struct OutlierCandidates {
    /// The entries, ascending.
    entries: Vec<u32>,
    /// In other rows, no pixel is beyond the limits; `None` if nothing is known.
    limits: Option<LaneLimits>,
    /// In other rows, no count is beyond the bounds; `None` if some were compared exactly.
    bounds: Option<CountBounds>,
}

/// The mean of each lane, and the distance of s / n from it beyond which pixels are outliers or
/// candidates.
#[derive(Clone, Copy)]
struct LaneLimits {
    mean: LaneSums,
    limit: LaneSums,
}

impl LaneLimits {
    /// Returns true if no pixel within other limits is beyond these.
    #[inline(always)]
    fn include(&self, other: &Self) -> bool {
        (0..INTERLEAVED_FRAMES).all(|lane| {
            let farthest = other.limit[lane] + (self.mean[lane] - other.mean[lane]).abs();
            self.limit[lane] == f64::INFINITY
                || farthest
                    <= self.limit[lane] - MARGIN * (self.limit[lane] + self.mean[lane].abs())
        })
    }
}

/// Distance from the mean beyond which pixels become candidates, relative to the limit of clipping. The
/// limits of the next steps may shrink by a part of the rest.
const CANDIDATE_DISTANCE: f64 = 0.9;

/// Where outliers are looked for: a bin in 8 frames.
pub(super) struct OutlierSearch<'a, W> {
    signal: W,
    /// w n.
    norms: &'a [f64],
    /// The rule by which limits of intensities become bounds of counts.
    count_rule: CountRule,
    /// The range of the pixels.
    counts: CountRange,
    candidates: &'a mut OutlierCandidates,
}

impl<'a, W: WeightedSignal> OutlierSearch<'a, W> {
    /// Prepares the search. `norms` are w n, `largest` the maxima of all lanes.
    #[inline(always)]
    pub(super) fn new(
        bin: &'a BinEntries<'a>,
        signal: W,
        norms: &'a [f64],
        largest: [u16; INTERLEAVED_FRAMES],
        candidates: &'a mut OutlierCandidates,
    ) -> Self {
        (candidates.limits, candidates.bounds) = (None, None);
        let (count_rule, counts) = (CountRule::new(bin), CountRange::up_to(largest));
        Self { signal, norms, count_rule, counts, candidates }
    }

    /// Replaces the contents of `outliers` by those among the pixels that remain, by rising entry: the
    /// pixels that a step of clipping rejects. The step is `None` for lanes that are not searched.
    ///
    /// Counts that are no candidates with any normalization and dark of the bin are told by comparing
    /// 16-bit integers. Where that tells little, as with normalizations that differ much, the rows that
    /// follow are compared exactly.
    #[inline(always)]
    pub(super) fn list(
        &mut self,
        rows: &[[u16; INTERLEAVED_FRAMES]],
        steps: &[Option<ClipStep>; INTERLEAVED_FRAMES],
        outliers: &mut Vec<RowOutliers>,
    ) {
        outliers.clear();
        let nothing = ClipStep { mean: 0., limit: f64::INFINITY };
        let limits = LaneLimits {
            mean: std::array::from_fn(|lane| steps[lane].unwrap_or(nothing).mean),
            limit: std::array::from_fn(|lane| steps[lane].unwrap_or(nothing).limit),
        };
        let bounds = self.count_rule.bounds(&limits);
        if bounds.contain(&self.counts) {
            return;
        }
        let OutlierCandidates { limits: known, bounds: known_bounds, .. } = &self.candidates;
        if !known_bounds.as_ref().is_some_and(|known| bounds.include(known))
            && !known.as_ref().is_some_and(|known| limits.include(known))
        {
            self.find_candidates(rows, &limits);
        }
        for &entry in &self.candidates.entries {
            let lanes = self.lanes(entry as usize, &rows[entry as usize], &limits);
            if lanes != 0 {
                outliers.push(RowOutliers { entry, lanes });
            }
        }
    }

    /// Finds the rows in which a pixel is nearly an outlier.
    #[inline(always)]
    fn find_candidates(&mut self, rows: &[[u16; INTERLEAVED_FRAMES]], limits: &LaneLimits) {
        let limit = map_lanes(limits.limit, |limit| CANDIDATE_DISTANCE * limit);
        let nearer = LaneLimits { limit, ..*limits };
        let bounds = self.count_rule.bounds(&nearer);
        self.candidates.entries.clear();
        let (mut beyond, mut tells_much) = (0, true);
        for (step, rows) in rows.chunks(ROWS_PER_STEP).enumerate() {
            let first = step * ROWS_PER_STEP;
            tells_much = tells_much && beyond <= ROWS_PER_STEP + first / 2;
            if tells_much && bounds.contain(&CountRange::from_rows(rows)) {
                continue;
            }
            for (entry, row) in (first..).zip(rows) {
                let is_candidate = match tells_much {
                    true => !bounds.contain(&CountRange::from_rows(std::slice::from_ref(row))),
                    false => self.lanes(entry, row, &nearer) != 0,
                };
                if is_candidate {
                    self.candidates.entries.push(entry as u32);
                    beyond += 1;
                }
            }
        }
        self.candidates.limits = Some(nearer);
        self.candidates.bounds = tells_much.then_some(bounds);
    }

    /// Returns the lanes in which a pixel is farther than the limit from the mean, one in each bit.
    #[inline(always)]
    fn lanes(&self, entry: usize, row: &[u16; INTERLEAVED_FRAMES], limits: &LaneLimits) -> u32 {
        let signal = self.signal.weighted(entry, map_lanes(*row, f64::from));
        let distance = deviation(signal, &limits.mean, self.norms[entry]);
        let norm = self.norms[entry].abs();
        let mut outliers = 0;
        // A mask and no branch, so that the compiler uses vectors.
        for lane in 0..INTERLEAVED_FRAMES {
            let is_outlier =
                (distance[lane].abs() > limits.limit[lane] * norm) & (row[lane] != DROPPED);
            outliers |= u32::from(is_outlier).wrapping_neg() & (1 << lane);
        }
        outliers
    }
}

/// The lowest and the highest count in each lane, each plus 1: [`DROPPED`] plus 1 is 0.
struct CountRange {
    lowest: [u16; INTERLEAVED_FRAMES],
    highest: [u16; INTERLEAVED_FRAMES],
}

impl CountRange {
    const EMPTY: Self =
        Self { lowest: [u16::MAX; INTERLEAVED_FRAMES], highest: [0; INTERLEAVED_FRAMES] };

    /// Returns the range from 0 to the largest count of each lane.
    fn up_to(largest: [u16; INTERLEAVED_FRAMES]) -> Self {
        let mut range = Self { lowest: [0; INTERLEAVED_FRAMES], highest: largest };
        for highest in &mut range.highest {
            *highest = highest.saturating_add(1);
        }
        range
    }

    /// Returns the range of the counts in some rows.
    #[inline(always)]
    fn from_rows(rows: &[[u16; INTERLEAVED_FRAMES]]) -> Self {
        let mut range = Self::EMPTY;
        for row in rows {
            for (lane, count) in row.iter().enumerate() {
                let count = count.wrapping_add(1);
                range.lowest[lane] = range.lowest[lane].min(count);
                range.highest[lane] = range.highest[lane].max(count);
            }
        }
        range
    }
}

/// The lowest and the highest count of each lane that is no outlier with any normalization and dark of
/// the bin, each plus 1. If there is none, the lowest is above the highest.
///
/// [`DROPPED`] plus 1 is 0 and so within the bounds where no count is too low.
struct CountBounds {
    lowest: [u16; INTERLEAVED_FRAMES],
    highest: [u16; INTERLEAVED_FRAMES],
}

/// The rule by which limits of the intensities of a bin become bounds of counts.
struct CountRule {
    /// The least and the greatest n.
    norms: [f64; 2],
    /// The least and the greatest dark.
    dark: [f64; 2],
    dead_time: DeadTime,
}

impl CountRule {
    #[inline(always)]
    fn new(bin: &BinEntries<'_>) -> Self {
        let dark = bin.dark.map_or([0.; 2], range);
        Self { norms: range(bin.norms), dark, dead_time: bin.dead_time }
    }

    /// Returns the bounds of counts whose intensity is within limits, with any normalization and dark.
    #[inline(always)]
    fn bounds(&self, limits: &LaneLimits) -> CountBounds {
        let Self { norms: [least, greatest], dark: [least_dark, greatest_dark], dead_time } = *self;
        let mut bounds =
            CountBounds { lowest: [2; INTERLEAVED_FRAMES], highest: [1; INTERLEAVED_FRAMES] };
        for lane in 0..INTERLEAVED_FRAMES {
            let (mean, limit) = (limits.mean[lane], limits.limit[lane]);
            if limit == f64::INFINITY {
                (bounds.lowest[lane], bounds.highest[lane]) = (0, u16::MAX);
                continue;
            }
            if least <= 0. {
                continue;
            }
            let margin = MARGIN * (mean.abs() + limit);
            let (low, high) = (mean - limit + margin, mean + limit - margin);
            let low = low * if low < 0. { least } else { greatest } + greatest_dark;
            let high = high * if high < 0. { greatest } else { least } + least_dark;
            let margin = MARGIN * (least_dark.abs() + greatest_dark.abs());
            let low = dead_time.counts_before((low + margin).max(0.));
            let high = dead_time.counts_before(high - margin);
            // Nothing is known of a mean or a limit that is no number.
            if low <= f64::from(DROPPED - 1) && high >= 0. {
                let lowest = low.ceil() as u16;
                bounds.lowest[lane] = if lowest > 0 { lowest.saturating_add(1) } else { 0 };
                bounds.highest[lane] = (high.min(f64::from(u16::MAX)) as u16).saturating_add(1);
            }
        }
        bounds
    }
}

impl CountBounds {
    /// Returns true if no count within other bounds is beyond these.
    #[inline(always)]
    fn include(&self, other: &Self) -> bool {
        (0..INTERLEAVED_FRAMES).all(|lane| {
            self.lowest[lane] <= other.lowest[lane] && other.highest[lane] <= self.highest[lane]
        })
    }

    /// Returns true if all counts are within the bounds.
    #[inline(always)]
    fn contain(&self, counts: &CountRange) -> bool {
        let mut beyond = [0; INTERLEAVED_FRAMES];
        for (lane, beyond) in beyond.iter_mut().enumerate() {
            *beyond = counts.highest[lane].saturating_sub(self.highest[lane])
                | self.lowest[lane].saturating_sub(counts.lowest[lane]);
        }
        beyond == [0; INTERLEAVED_FRAMES]
    }
}

/// Returns the least and the greatest of some numbers.
#[inline(always)]
fn range(numbers: &[f64]) -> [f64; 2] {
    const LANES: usize = 16;
    let (mut least, mut greatest) = ([f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
    let (whole, rest) = numbers.as_chunks::<LANES>();
    for numbers in whole {
        for lane in 0..LANES {
            let number = numbers[lane];
            least[lane] = if number < least[lane] { number } else { least[lane] };
            greatest[lane] = if number > greatest[lane] { number } else { greatest[lane] };
        }
    }
    let least = rest.iter().copied().chain(least).fold(f64::INFINITY, f64::min);
    let greatest = rest.iter().copied().chain(greatest).fold(f64::NEG_INFINITY, f64::max);
    [least, greatest]
}

#[cfg(test)]
mod tests {
    use super::super::BinSums;
    use super::super::bin_entries::PixelVariance;
    use super::super::row_terms::UnitWeights;
    use super::*;

    fn bin<'a>(pixels: &'a [u32], norms: &'a [f64]) -> BinEntries<'a> {
        BinEntries {
            pixels,
            weights: None,
            norms,
            dark: None,
            variance: PixelVariance::No,
            dead_time: DeadTime::ZERO,
            zero_order: None,
            count_order: None,
            left_out: None,
            full_sums: BinSums::default(),
        }
    }

    /// Returns the outliers in rows of one count per pixel, the same in all lanes but one that is not
    /// searched.
    fn find(norms: &[f64], counts: &[u16], mean: f64, limit: f64) -> Vec<u32> {
        let rows: Vec<_> = counts.iter().map(|&count| [count; INTERLEAVED_FRAMES]).collect();
        let pixels: Vec<u32> = (0..).take(norms.len()).collect();
        let mut steps = [Some(ClipStep { mean, limit }); INTERLEAVED_FRAMES];
        steps[3] = None;
        let mut found = Vec::new();
        let candidates = &mut OutlierCandidates::default();
        let largest = [u16::MAX; INTERLEAVED_FRAMES];
        OutlierSearch::new(&bin(&pixels, norms), UnitWeights, norms, largest, candidates)
            .list(&rows, &steps, &mut found);
        assert!(found.iter().all(|row| row.lanes == 0b1111_0111));
        found.into_iter().map(|row| row.entry).collect()
    }

    #[test]
    fn pixels_beyond_the_limit_are_found_whatever_the_norms() {
        // The last pixel, alone in its step, is the outlier or not.
        let with_last = |norm: f64, count: u16, last_norm: f64, last: u16| {
            let mut norms = vec![norm; 3 * ROWS_PER_STEP];
            let mut counts = vec![count; 3 * ROWS_PER_STEP];
            norms.push(last_norm);
            counts.push(last);
            (norms, counts)
        };
        for (norm, count, last_norm, last, mean, limit, expected) in [
            (1., 50, 1., 60, 50., 10., false),
            (1., 50, 1., 61, 50., 10., true),
            (1., 50, 1., 39, 50., 10., true),
            (1., 50, 0.5, 31, 50., 10., true),
            (1., 50, 0.5, 29, 50., 10., false),
            (1., 50, 2., 79, 50., 10., true),
            (1., 50, 2., 119, 50., 10., false),
            // All norms are negative, and so is the mean.
            (-1., 50, -1., 0, -50., 35., true),
            (-1., 50, -1., 20, -50., 35., false),
            (1., 50, -1., 50, 50., 10., true),
            (1., 65_534, 1., 65_534, 1e6, 1e3, true),
            (0.9999, 65_534, 1., 65_534, 65_540., 5.5, true),
            // Removed pixels are none.
            (1., 50, 1., DROPPED, 50., 10., false),
            (1., 1, 1., DROPPED, 1., 2., false),
            (1., 65_534, 1., DROPPED, 65_534., 0., false),
            (1., 65_534, 1., 65_534, 1e6, 1e6, false),
            (1., 0, 1., 0, 0., 0., false),
            (1., 0, 1., 0, f64::NAN, 1., false),
            (1., 0, 1., 0, 0., f64::NAN, false),
            (1., 7, 1., 7, 7., f64::INFINITY, false),
        ] {
            let (norms, counts) = with_last(norm, count, last_norm, last);
            let last = norms.len() as u32 - 1;
            let found = find(&norms, &counts, mean, limit).contains(&last);
            assert_eq!(found, expected, "{norm} {count} {last_norm} {last} {mean} {limit}");
        }
    }
}
