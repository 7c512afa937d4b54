//! Pixel values that mean "no value".

use std::ops::RangeInclusive;

/// The values by which a detector marks pixels without a count, as pyFAI keeps them, and what
/// they come to on integers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DummyRule {
    /// The value; `None` where the detector marks nothing.
    pub dummy: Option<f64>,
    /// How far from `dummy` a value is still one; none means equal to it.
    pub delta: Option<f64>,
    /// Whether the detector counts single photons, so that a negative count is never one.
    pub counter: bool,
}

impl DummyRule {
    /// The integers that are invalid in pixels of `bits` (8 to 64) bits, lowest and highest; `None` where
    /// the rule invalidates nothing.
    ///
    /// The dummy -2 of photon counters stands, with -1, for the gaps and the defective pixels: as
    /// an unsigned pixel all ones and the value below, as a signed one any negative value. Other
    /// dummies are taken as they are, wrapped to the pixel's type.
    ///
    /// ```
    /// let eiger = geometry::DummyRule { dummy: Some(-2.0), delta: Some(1.5), counter: true };
    /// assert_eq!(eiger.invalid(16, false), Some(65534..=65535));
    /// assert_eq!(eiger.invalid(32, true), Some(-2147483648..=-1));
    /// ```
    pub fn invalid_range(&self, bits: u32, signed: bool) -> Option<RangeInclusive<i128>> {
        let dummy = self.dummy?;
        let values = 1_i128 << bits;
        let [lowest, highest] = if signed { [-values / 2, values / 2 - 1] } else { [0, values - 1] };
        if self.counter && dummy < 0.0 {
            return Some(if signed { lowest..=-1 } else { highest - 1..=highest });
        }
        let dummy = dummy as i128;
        let wrapped = if (lowest..=highest).contains(&dummy) { dummy } else { dummy.rem_euclid(values) };
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
        assert_eq!(eiger.invalid_range(64, false), Some(i128::from(u64::MAX) - 1..=i128::from(u64::MAX)));
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
