//! [`QuantileHint`], where the quantiles of the frames before were: those of the next frames are mostly
//! near.
//!
//! A hint only says where to look first. It changes no result.

use super::count_hints::CountHint;
use super::quantile::{OtherPixels, QuantileRange};

/// Standard deviation of a median's rank, divided by the square root of the number of pixels; a
/// fifth is added because weights differ.
const RANK_DEVIATION: f64 = 0.6;
/// A hint reaches so many standard deviations beyond the quantiles of the frames before. Those of eight
/// frames are more than two deviations apart, so that few of the next frames are beyond.
const DEVIATIONS: f64 = 1.5;
/// A hint reaches beyond the quantiles of the frames before by so much of their range: intensities
/// that rise go on rising.
const RANGE_SHARE: f64 = 0.25;

/// A range of s / n; not finite if unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct IntensityRange {
    pub(super) low: f32,
    pub(super) high: f32,
}

/// Where to look for the quantiles of a bin.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuantileHint {
    /// Of the lower and the upper quantile.
    pub(super) ranges: [IntensityRange; 2],
    /// True if the quantiles of the last frames were where those before them hinted at. If they were
    /// not, as where the beam's strength changes, those of the next frames are not expected to be.
    has_held: bool,
    /// For a median on pixels of few photons.
    pub(super) counts: CountHint,
}

impl QuantileHint {
    pub(super) const UNKNOWN: Self =
        Self { ranges: [IntensityRange::UNKNOWN; 2], has_held: true, counts: CountHint::UNKNOWN };

    /// Returns whether it is worth looking there.
    pub(super) fn is_useful(&self, range: &QuantileRange) -> bool {
        let [lower, upper] = self.ranges.map(IntensityRange::is_known);
        self.has_held && (lower || range.has_no_lower()) && (upper || range.has_no_upper())
    }

    /// Forgets where the quantiles were.
    pub(super) fn forget_ranges(&mut self) {
        self.ranges = [IntensityRange::UNKNOWN; 2];
    }

    /// Replaces the hint by one from where the quantiles of the last frames were, given the number of
    /// the bin's pixels and Σ w n of them.
    pub(super) fn update(&mut self, places: &[QuantilePlaces; 2], pixels: usize, norm: f64) {
        let mut ranges = self.ranges.iter().zip(places);
        self.has_held = ranges.all(|(range, places)| !range.is_known() || range.has_all(places));
        self.ranges = places.map(|places| places.hint(pixels, norm));
    }
}

impl IntensityRange {
    /// Not NaN, which Valgrind, in tests that count instructions, does not always tell from finite numbers.
    pub(super) const UNKNOWN: Self = Self { low: f32::INFINITY, high: f32::NEG_INFINITY };

    pub(super) fn is_known(self) -> bool {
        self.low.is_finite() && self.high.is_finite()
    }

    /// Returns whether a quantile was here in all frames.
    fn has_all(self, places: &QuantilePlaces) -> bool {
        f64::from(self.low) <= places.least && places.greatest <= f64::from(self.high)
    }
}

/// Where a quantile of a bin is in several frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuantilePlaces {
    least: f64,
    greatest: f64,
    /// The largest difference of intensities, divided by the sum of w n of the pixels between them.
    spacing: f64,
}

impl QuantilePlaces {
    pub(super) const NONE: Self =
        Self { least: f64::INFINITY, greatest: f64::NEG_INFINITY, spacing: 0. };

    /// Adds the quantile of a frame, with Σ w n up to and including the pixel at it. It was found
    /// among pixels between the `others`.
    pub(super) fn add(&mut self, intensity: f64, norm_up_to: f64, others: &OtherPixels) {
        self.add_known(intensity);
        let below = norm_up_to - others.norm_below;
        // A range that is open at one end is known from the other end to the quantile.
        let (distance, norm) = match (others.low.is_finite(), others.high.is_finite()) {
            (true, true) => (others.high - others.low, others.norm_within),
            (true, false) => (intensity - others.low, below),
            (false, true) => (others.high - intensity, others.norm_within - below),
            (false, false) => (f64::INFINITY, 1.),
        };
        self.spacing = self.spacing.max(distance / norm);
    }

    /// Adds the quantile of a frame of which nothing else is known.
    pub(super) fn add_known(&mut self, intensity: f64) {
        self.least = self.least.min(intensity);
        self.greatest = self.greatest.max(intensity);
    }

    /// Returns where to look for the quantile in the next frames, given the number of the bin's pixels
    /// and Σ w n of them. It is unknown if no frame was added, or if the range around a quantile was
    /// open at both ends.
    pub(super) fn hint(&self, pixels: usize, norm: f64) -> IntensityRange {
        let deviation = self.spacing * norm * RANK_DEVIATION / (pixels as f64).sqrt();
        let margin = DEVIATIONS * deviation + RANGE_SHARE * (self.greatest - self.least);
        IntensityRange { low: (self.least - margin) as f32, high: (self.greatest + margin) as f32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_wider_than_the_places() {
        let mut places = QuantilePlaces::NONE;
        assert!(!places.hint(100, 100.).is_known());
        let others =
            |low, high| OtherPixels { norm_below: 40., norm_within: 20., rounding: 0., low, high };
        places.add(5., 50., &others(4., 6.));
        // One intensity in the 10 pixels up to the quantile.
        places.add(7., 50., &others(6., f64::INFINITY));
        let IntensityRange { low, high } = places.hint(100, 100.);
        // 2 intensities in 20 of 100 pixels; a rank deviates by 6.
        let margin = (DEVIATIONS * 0.6 + RANGE_SHARE * 2.) as f32;
        assert_eq!((low, high), (5. - margin, 7. + margin));
    }

    #[test]
    fn a_hint_that_missed_is_not_followed_until_it_would_have_held() {
        let range = QuantileRange::new(0.5, 0.5, 100.);
        let others =
            OtherPixels { norm_below: 40., norm_within: 20., rounding: 0., low: 0., high: 10. };
        let mut hint = QuantileHint::UNKNOWN;
        let mut update_with = |intensity: f64| {
            let mut places = [QuantilePlaces::NONE; 2];
            places.iter_mut().for_each(|places| places.add(intensity, 50., &others));
            hint.update(&places, 100, 100.);
            hint.is_useful(&range)
        };
        assert_eq!([5., 5., 500., 500.].map(&mut update_with), [true, true, false, true]);
    }
}
