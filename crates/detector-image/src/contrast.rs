//! Greys of counts: a scale that is linear near the background and logarithmic above it, so that
//! weak rings and strong ones are both seen.

use plotters::style::RGBColor;

/// Scale from counts to positions between 0 (background) and 1 (the brightest rings).
#[derive(Clone, Copy, Debug)]
pub struct Contrast {
    low: f64,
    high: f64,
    /// Counts above `low` at which the scale turns from linear to logarithmic.
    knee: f64,
}

impl Contrast {
    /// Creates the scale from the 1st to the 99.8th percentile of the values, so that hot pixels
    /// don't darken the rest.
    pub fn from_values(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        values.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| {
            let index = (values.len().saturating_sub(1) as f64 * share).round() as usize;
            values.get(index).copied().unwrap_or(0.0)
        };
        let (low, median, high) = (at(0.01), at(0.5), at(0.998));
        if high > low {
            Self { low, high, knee: (median - low).clamp((high - low) / 300.0, high - low) }
        } else {
            Self { low, high: low + 1.0, knee: 1.0 }
        }
    }

    /// Returns the position of a value.
    pub fn position(&self, value: f64) -> f64 {
        let stretch = |value: f64| ((value - self.low) / self.knee).asinh();
        (stretch(value) / stretch(self.high)).clamp(0.0, 1.0)
    }

    /// Returns round values between the ends: 1, 2 or 5 times a power of ten, and zero.
    pub fn ticks(&self) -> Vec<f64> {
        let decades = -3..=12;
        let round = decades
            .flat_map(|decade: i32| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(decade)));
        std::iter::once(0.0)
            .chain(round)
            .filter(|tick| (self.low..=self.high).contains(tick))
            .collect()
    }
}

/// Returns the grey of a position: white for the background, nearly black for the brightest.
pub fn grey(position: f64) -> RGBColor {
    let level = 255.0 - 235.0 * position;
    RGBColor(level as u8, level as u8, level as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_ascend_and_hot_pixels_are_beyond_the_end() {
        let contrast = Contrast::from_values((0..1000).map(f64::from).chain([1e9]));
        let positions = [20.0, 100.0, 500.0, 900.0].map(|value| contrast.position(value));
        assert!(positions.is_sorted() && positions[0] > 0.0 && positions[3] < 1.0, "{positions:?}");
        assert_eq!(contrast.position(1e9), 1.0);
        assert_eq!(contrast.position(-5.0), 0.0);
        assert_eq!(contrast.ticks(), [10.0, 20.0, 50.0, 100.0, 200.0, 500.0]);
    }

    #[test]
    fn frames_without_counts_or_values_have_a_scale() {
        for values in [vec![], vec![0.0; 9], vec![f64::NAN]] {
            assert_eq!(Contrast::from_values(values.into_iter()).position(0.0), 0.0);
        }
    }
}
