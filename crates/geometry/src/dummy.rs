//! Dummy values: pixel values by which a detector marks invalid pixels.

use std::ops::RangeInclusive;

/// The values by which a detector marks invalid pixels: pyFAI's `dummy` and `delta_dummy`, and what
/// they mean for integer pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DummyRule {
    /// Value of an invalid pixel; `None` if the detector marks none.
    pub dummy: Option<f64>,
    /// Largest difference from `dummy` at which a pixel is invalid; `None` if it must equal
    /// `dummy`.
    pub delta: Option<f64>,
    /// True if the detector counts photons, so that a negative count is always invalid.
    pub counter: bool,
}

impl DummyRule {
    /// Returns the lowest and highest invalid integer for pixels of `bits` (8 to 64) bits; `None`
    /// if no value is invalid.
    ///
    /// Photon counters, whose dummy is -2, mark gaps and defective pixels with -1 and -2. In
    /// unsigned pixels the two highest values are invalid, in signed pixels all negative ones. Any
    /// other dummy is a single value, wrapped to the pixel's type.
    ///
    /// ```
    /// let eiger = geometry::DummyRule { dummy: Some(-2.0), delta: Some(1.5), counter: true };
    /// assert_eq!(eiger.invalid_range(16, false), Some(65534..=65535));
    /// assert_eq!(eiger.invalid_range(32, true), Some(-2147483648..=-1));
    /// ```
    pub fn invalid_range(&self, bits: u32, signed: bool) -> Option<RangeInclusive<i128>> {
        let dummy = self.dummy?;
        let values = 1_i128 << bits;
        let [lowest, highest] =
            if signed { [-values / 2, values / 2 - 1] } else { [0, values - 1] };
        if self.counter && dummy < 0.0 {
            return Some(if signed { lowest..=-1 } else { highest - 1..=highest });
        }
        let dummy = dummy as i128;
        let wrapped =
            if (lowest..=highest).contains(&dummy) { dummy } else { dummy.rem_euclid(values) };
        Some(wrapped..=wrapped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn photon_counters_mark_the_top_two_values_and_negatives() {
        let eiger = DummyRule { dummy: Some(-2.0), delta: Some(1.5), counter: true };
        assert_eq!(eiger.invalid_range(32, false), Some(4294967294..=4294967295));
        assert_eq!(eiger.invalid_range(8, true), Some(-128..=-1));
        assert_eq!(
            eiger.invalid_range(64, false),
            Some(i128::from(u64::MAX) - 1..=i128::from(u64::MAX))
        );
    }

    #[test]
    fn integrating_detectors_mark_one_value() {
        let jungfrau = DummyRule { dummy: Some(-2.0), delta: Some(1.5), counter: false };
        assert_eq!(jungfrau.invalid_range(32, true), Some(-2..=-2));
        assert_eq!(jungfrau.invalid_range(16, false), Some(65534..=65534));
        let lambda = DummyRule { dummy: Some(0.0), delta: None, counter: false };
        assert_eq!(lambda.invalid_range(32, false), Some(0..=0));
        assert_eq!(DummyRule::default().invalid_range(32, false), None);
    }
}
