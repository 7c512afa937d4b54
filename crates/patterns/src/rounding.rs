//! Values as they are stored: with one NaN, in single precision or fewer bits ([`Rounding`]).

/// The only NaN that is written to f32 datasets.
pub const NAN32: f32 = f32::from_bits(0x7fc0_0000);
/// The only NaN that is written to f64 datasets.
pub const NAN64: f64 = f64::from_bits(0x7ff8_0000_0000_0000);

/// Returns `value`, with any NaN replaced by [`NAN64`].
pub fn canonical_nan(value: f64) -> f64 {
    if value.is_nan() { NAN64 } else { value }
}

/// Rounding of values to single precision, and to fewer bits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rounding {
    /// The lowest bits of f64, which become zero.
    dropped: u64,
}

impl Rounding {
    /// Rounds to `kept` bits behind the leading one; to all 23 if it is `None`.
    pub fn new(kept: Option<u32>) -> Self {
        let bits = |kept| (f64::MANTISSA_DIGITS - 1).saturating_sub(kept);
        let mask = |kept| !u64::MAX.checked_shl(bits(kept)).unwrap_or_default();
        Self { dropped: kept.map_or(0, mask) }
    }

    /// Returns the nearest value with the bits that are kept, of two the one whose last bit is 0;
    /// [`NAN32`] for any NaN. The difference is at most a part in 2^(kept + 1), unless f32 has the
    /// value as a subnormal number.
    #[inline(always)]
    pub fn round(self, value: f64) -> f32 {
        if self.dropped == 0 || value.is_nan() {
            return to_f32(value);
        }
        // As integers, neighbours differ by one step, also where the exponent changes.
        let (bits, half) = (value.to_bits(), self.dropped >> 1);
        let is_odd = bits & self.dropped.wrapping_add(1) != 0;
        let above = bits.saturating_add(half).saturating_add(is_odd.into());
        let rounded = to_f32(f64::from_bits(above & !self.dropped));
        // The largest values have none above them.
        if rounded.is_infinite() { to_f32(value) } else { rounded }
    }
}

/// Rounds a value to single precision, with [`NAN32`] for any NaN.
#[inline(always)]
pub(crate) fn to_f32(value: f64) -> f32 {
    if value.is_nan() { NAN32 } else { value as f32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value with `kept` bits that is nearest, found by exact division: a double has the
    /// quotient.
    fn nearest(value: f64, kept: u32) -> f64 {
        if value == 0.0 {
            return value;
        }
        let mut unit = 1.0_f64;
        while value.abs() < unit {
            unit /= 2.0;
        }
        while value.abs() >= 2.0 * unit {
            unit *= 2.0;
        }
        let step = unit / f64::from(1 << kept);
        (value / step).round_ties_even() * step
    }

    #[test]
    fn values_are_rounded_to_the_nearest_with_the_bits_that_are_kept() {
        let of_bits = |bits: u64| 1.0 + bits as f64 / f64::from(1 << 24);
        let values = (0..1 << 12).map(|bits| of_bits(bits * 4099 % (1 << 24))).chain([
            0.0,
            1.5,
            1.0 + 2e-16,
            2.0 - 1e-7,
            3.999_999_9,
            1e-30,
            7e30,
            1.0 / 3.0,
        ]);
        let values: Vec<f64> = values.flat_map(|value| [value, -value, 1e5 * value]).collect();
        for kept in 1..=22 {
            let rounding = Rounding::new(Some(kept));
            for value in &values {
                let rounded = rounding.round(*value);
                assert_eq!(f64::from(rounded), nearest(*value, kept), "{value} to {kept} bits");
                assert_eq!(rounding.round(rounded.into()), rounded, "once is as good as twice");
            }
        }
    }

    #[test]
    fn values_without_a_nearest_one_stay() {
        let rounding = Rounding::new(Some(3));
        assert_eq!(rounding.round(f64::NAN).to_bits(), NAN32.to_bits());
        assert_eq!(rounding.round(f64::INFINITY), f32::INFINITY);
        assert_eq!(rounding.round(f64::from(f32::MAX)), f32::MAX);
        assert_eq!(rounding.round(-f64::from(f32::MAX)), f32::MIN);
        assert_eq!(Rounding::default().round(1.0 / 3.0), 1.0 / 3.0);
    }
}
