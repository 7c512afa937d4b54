//! Which values of the frames' type are no measurement.

use std::ops::RangeInclusive;

use geometry::DummyRule;
use kernels::{InvalidValues, PixelType};
use recipe::{DummySetting, Recipe};

/// The rule for frames of `dtype`: the recipe's own, or what the detector is known to write, and all
/// ones of unsigned 32 and 64 bits, which no detector counts to; and what lies beyond the valid values.
pub fn invalid_values(recipe: &Recipe, detector: &DummyRule, dtype: PixelType) -> InvalidValues {
    let below = |least: f64| ValueRange {
        integers: i128::MIN..=(least.ceil() as i128).saturating_sub(1),
        reals: f64::MIN..=as_stored(least, dtype).next_down(),
    };
    let above = |most: f64| ValueRange {
        integers: (most.floor() as i128).saturating_add(1)..=i128::MAX,
        reals: as_stored(most, dtype).next_up()..=f64::MAX,
    };
    let [below, above] = [recipe.valid_min.map(below), recipe.valid_max.map(above)];
    [below, above].into_iter().flatten().fold(dummy_values(recipe.dummy, detector, dtype), |rule, span| {
        rule.or(InvalidValues::from_integers([span.integers])).or(InvalidValues::from_reals([span.reals]))
    })
}

/// Invalid values.
struct ValueRange {
    integers: RangeInclusive<i128>,
    reals: RangeInclusive<f64>,
}

fn dummy_values(dummy: DummySetting, detector: &DummyRule, dtype: PixelType) -> InvalidValues {
    match dummy {
        DummySetting::None => InvalidValues::none(),
        DummySetting::Auto => detector_dummies(detector, dtype),
        DummySetting::Value { value, delta } => {
            let (low, high) = (value - delta, value + delta);
            InvalidValues::from_integers([low.ceil() as i128..=high.floor() as i128])
                .or(InvalidValues::from_reals([interval_around(value, delta, dtype)]))
        }
    }
}

fn detector_dummies(detector: &DummyRule, dtype: PixelType) -> InvalidValues {
    if let Some((bits, signed)) = integer_bits(dtype) {
        let all_ones = (!signed && bits >= 32).then(|| (1i128 << bits) - 1).map(|ones| ones..=ones);
        return InvalidValues::from_integers(all_ones.into_iter().chain(detector.invalid_range(bits, signed)));
    }
    InvalidValues::from_reals(detector.dummy.map(|dummy| interval_around(dummy, detector.delta.unwrap_or(0.0), dtype)))
}

/// Returns the reals that are `dummy` or no further from it than `delta`, of the numbers that the pixels can hold.
fn interval_around(dummy: f64, delta: f64, dtype: PixelType) -> RangeInclusive<f64> {
    let dummy = as_stored(dummy, dtype);
    as_stored(dummy - delta, dtype)..=as_stored(dummy + delta, dtype)
}

/// Returns the number that a pixel holds where `value` was written into it: -9999.9 in single precision is -9999.900390625,
/// and a comparison with the decimal number would never find it.
fn as_stored(value: f64, dtype: PixelType) -> f64 {
    let single = value as f32;
    if dtype == PixelType::F32 && single.is_finite() { f64::from(single) } else { value }
}

/// The bits of an integer type, and whether it has a sign.
fn integer_bits(dtype: PixelType) -> Option<(u32, bool)> {
    match dtype {
        PixelType::U8 => Some((8, false)),
        PixelType::I8 => Some((8, true)),
        PixelType::U16 => Some((16, false)),
        PixelType::I16 => Some((16, true)),
        PixelType::U32 => Some((32, false)),
        PixelType::I32 => Some((32, true)),
        PixelType::U64 => Some((64, false)),
        PixelType::I64 => Some((64, true)),
        PixelType::F32 | PixelType::F64 => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recipe::Settings;

    const EIGER: DummyRule = DummyRule { dummy: Some(-2.0), delta: Some(1.5), counter: true };

    #[test]
    fn all_ones_are_no_count_whatever_the_detector() {
        let unknown = dummy_values(DummySetting::Auto, &DummyRule::default(), PixelType::U32);
        assert_eq!(unknown, InvalidValues::from_integers([4294967295..=4294967295]));
        assert_eq!(dummy_values(DummySetting::Auto, &DummyRule::default(), PixelType::U16), InvalidValues::none());
        assert_eq!(dummy_values(DummySetting::None, &EIGER, PixelType::U32), InvalidValues::none());
    }

    #[test]
    fn the_detectors_rule_is_that_of_its_pixels_type() {
        let top_two = InvalidValues::from_integers([65534..=65535]);
        assert_eq!(dummy_values(DummySetting::Auto, &EIGER, PixelType::U16), top_two);
        assert_eq!(dummy_values(DummySetting::Auto, &EIGER, PixelType::F32), InvalidValues::from_reals([-3.5..=-0.5]));
    }

    fn recipe(valid_min: Option<f64>, valid_max: Option<f64>) -> Recipe {
        let (geometry, dummy) = (Some("Distance: 1".to_owned()), Some(DummySetting::None));
        Recipe::resolve(&Settings { geometry, dummy, valid_min, valid_max, ..Settings::default() }).unwrap()
    }

    #[test]
    fn values_beyond_the_valid_ones_are_no_measurement() {
        let rule = |min, max| invalid_values(&recipe(min, max), &EIGER, PixelType::I32);
        assert_eq!(rule(None, None), InvalidValues::none());
        let above = InvalidValues::from_integers([61..=i128::MAX])
            .or(InvalidValues::from_reals([60.5f64.next_up()..=f64::MAX]));
        assert_eq!(rule(None, Some(60.5)), above);
        let below = InvalidValues::from_integers([i128::MIN..=-1]).or(InvalidValues::from_reals([f64::MIN..=-5e-324]));
        assert_eq!(rule(Some(0.0), None), below);
    }

    #[test]
    fn a_value_is_compared_as_the_pixels_hold_it() {
        // Decimal numbers that single precision rounds up, down and not at all.
        for value in [-9999.9, 0.1, 0.7, -0.3, 1e-7, 65504.1, -2.0, 3.4e38] {
            let marks = |dtype| dummy_values(DummySetting::Value { value, delta: 0.0 }, &EIGER, dtype);
            let stored = f64::from(value as f32);
            assert_eq!(marks(PixelType::F64), integers(value).or(InvalidValues::from_reals([value..=value])));
            assert_eq!(marks(PixelType::F32), integers(value).or(InvalidValues::from_reals([stored..=stored])));
            if value < 0.0 {
                // No valid value is below 0.
                continue;
            }
            let recipe = recipe(Some(value), Some(value));
            let limits = |dtype| invalid_values(&recipe, &EIGER, dtype);
            let valid = |value: f64| [f64::MIN..=value.next_down(), value.next_up()..=f64::MAX];
            for (dtype, held) in [(PixelType::F64, value), (PixelType::F32, stored)] {
                let [below, above] = valid(held);
                let (low, high) = ((value.ceil() as i128).saturating_sub(1), (value.floor() as i128).saturating_add(1));
                let expected = InvalidValues::from_integers([i128::MIN..=low]).or(InvalidValues::from_reals([below]));
                let expected = expected
                    .or(InvalidValues::from_integers([high..=i128::MAX]))
                    .or(InvalidValues::from_reals([above]));
                assert_eq!(limits(dtype), expected, "{value} {dtype}");
            }
        }
    }

    fn integers(value: f64) -> InvalidValues {
        InvalidValues::from_integers([value.ceil() as i128..=value.floor() as i128])
    }

    #[test]
    fn a_given_value_holds_for_integers_and_reals() {
        let given = DummySetting::Value { value: -2.0, delta: 1.5 };
        let expected = InvalidValues::from_integers([-3..=-1]).or(InvalidValues::from_reals([-3.5..=-0.5]));
        assert_eq!(dummy_values(given, &EIGER, PixelType::I32), expected);
    }
}
