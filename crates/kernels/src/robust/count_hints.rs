//! [`CountHint`], on which counts the medians of the frames before were: those of the next frames are
//! mostly on the same or on neighbouring ones.

use super::BinSums;
use super::tile_lanes::INTERLEAVED_FRAMES;

/// How many times the median's count the pixels of a bin must be, for medians to be sought by count. The
/// standard deviation of a median's position is then a tenth of a count, by a normal distribution: 0.6
/// √pixels of the 0.4 pixels / √count that have the count.
const PIXELS_PER_COUNT: f32 = 225.;

/// Where the medians of the last frames of a bin were, as counts with a fraction: 6.25 is a quarter of the
/// way, by w n, through the pixels of 6 photons.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CountHint {
    /// Of the last frame; infinite if unknown.
    last: f32,
    /// By how much it changed from frame to frame.
    step: f32,
}

impl CountHint {
    pub(super) const UNKNOWN: Self = Self { last: f32::INFINITY, step: 0. };

    /// Returns the counts that the medians of the next frames of a bin with so many pixels are expected
    /// on: the beam's strength goes on changing as it did. None are, if they were not on counts before, or
    /// if too few pixels have one count.
    pub(super) fn expected(self, pixels: usize) -> Option<[u16; INTERLEAVED_FRAMES]> {
        // From positive numbers, `as` rounds down; negative ones become 0.
        let of_lane = |lane: usize| (self.last + self.step * (lane + 1) as f32) as u16;
        (self.last * PIXELS_PER_COUNT <= pixels as f32).then(|| std::array::from_fn(of_lane))
    }

    /// Returns the hint for the next frames, given the medians of the lanes that are wanted and where those
    /// are that `counted_medians` found. If it found few, what it looked for was wrong, and it is not asked in
    /// the next frames.
    pub(super) fn next(
        self,
        sums: &[Option<BinSums>; INTERLEAVED_FRAMES],
        found: &LanePositions,
    ) -> Self {
        let is_found = |lane: &usize| !found[*lane].is_nan();
        let wanted = (0..INTERLEAVED_FRAMES).filter(|&lane| sums[lane].is_some());
        let mut lanes = (0..INTERLEAVED_FRAMES).filter(is_found);
        if self.last.is_finite() && 2 * lanes.clone().count() < wanted.clone().count() {
            return Self::UNKNOWN;
        }
        let Some(last) = { wanted }.next_back() else { return Self::UNKNOWN };
        let ends = lanes.next().zip(lanes.next_back());
        let step =
            |(first, end): (usize, usize)| (found[end] - found[first]) / (end - first) as f32;
        let raw = |BinSums { signal, count, .. }| (signal / count) as f32;
        let middle = sums[last].map_or(f32::INFINITY, |sums| raw(sums).floor() + 0.5);
        let last = if is_found(&last) { found[last] } else { middle };
        Self { last, step: ends.map_or(0., step) }
    }
}

/// Where medians are, one element for each lane, as in [`CountHint`]; NaN where it is not known.
pub(super) type LanePositions = [f32; INTERLEAVED_FRAMES];

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a median on one pixel of so many photons.
    fn on(raw: f64) -> Option<BinSums> {
        Some(BinSums { signal: 0.5 * raw, count: 0.5, ..BinSums::default() })
    }

    #[test]
    fn medians_are_expected_where_the_last_ones_were_and_where_they_move_to() {
        let none = [f32::NAN; INTERLEAVED_FRAMES];
        assert_eq!(CountHint::UNKNOWN.expected(100_000), None);
        let hint = CountHint::UNKNOWN.next(&[on(6.); INTERLEAVED_FRAMES], &none);
        assert_eq!(hint.expected(5000), Some([6; INTERLEAVED_FRAMES]));
        assert_eq!(hint.expected(1000), None);
        // From 6.95 to 6.25, and on by a tenth of a count from frame to frame.
        let found = std::array::from_fn(|lane| 6.95 - 0.1 * lane as f32);
        let hint = hint.next(&[on(6.); INTERLEAVED_FRAMES], &found);
        assert_eq!(hint.expected(5000), Some([6, 6, 5, 5, 5, 5, 5, 5]));
        // Few were where they were expected.
        let few = std::array::from_fn(|lane| if lane < 3 { 5.5 } else { f32::NAN });
        assert_eq!(hint.next(&[on(9.); INTERLEAVED_FRAMES], &few), CountHint::UNKNOWN);
    }
}
