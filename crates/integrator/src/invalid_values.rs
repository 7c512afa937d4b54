//! Finds the pixel values that mean "no measurement": dummy values of the detector or the recipe,
//! and values outside the recipe's limits.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use geometry::DummyRule;
use kernels::{InvalidValues, PixelType};
use recipe::{DummySetting, Recipe};
use records::FrameLayout;

use crate::{IntegratorError, dead_time, setup};

/// Returns the invalid values of frames of `dtype`: values outside the recipe's limits, those of pixels
/// that were dead for most of the exposure time, and the recipe's dummy value. If the recipe has none,
/// the values that the detector writes and, in unsigned pixels of 32 or 64 bits, the two highest values,
/// to which no detector counts.
///
/// # Errors
/// The rule leaves no value that a pixel of this type can have. The recipe's dead time can't be applied.
pub fn build_invalid_values(
    recipe: &Recipe,
    detector: &DummyRule,
    dtype: PixelType,
) -> Result<InvalidValues, IntegratorError> {
    let dead_time = dead_time::dead_time(recipe)?;
    let rule = build_rule(recipe, detector, dtype).or(dead_time.invalid_values());
    let excludes_all = match integer_bits(dtype) {
        Some((bits, false)) => rule.covers_integers(&(0..=(1 << bits) - 1)),
        Some((bits, true)) => rule.covers_integers(&(-(1 << (bits - 1))..=(1 << (bits - 1)) - 1)),
        None if dtype == PixelType::F32 => rule.covers_reals(&(f32::MIN.into()..=f32::MAX.into())),
        None => rule.covers_reals(&(f64::MIN..=f64::MAX)),
    };
    if excludes_all {
        return Err(IntegratorError::NothingValid {
            dtype: dtype.to_string(),
            settings: describe_exclusions(recipe),
        });
    }
    Ok(rule)
}

/// Returns the values of integer pixels that mean "no measurement", as ranges with both ends, in
/// ascending order: the dummy value of the recipe, or those of the detector. Values outside the
/// recipe's limits are measurements. None are returned for pixels of real numbers.
///
/// # Errors
/// The PONI text or the detector can't be read or doesn't fit the frames.
pub fn no_measurement_values(
    recipe: &Recipe,
    layout: &FrameLayout,
    dtype: PixelType,
) -> Result<Vec<[i64; 2]>, IntegratorError> {
    let (_, view) = setup::read_detector_view(recipe, layout)?;
    let Some((bits, is_signed)) = integer_bits(dtype) else { return Ok(Vec::new()) };
    let values = match is_signed {
        true => -(1 << (bits - 1))..=(1 << (bits - 1)) - 1,
        false => 0..=(1 << bits) - 1,
    };
    let rule = build_dummy_rule(recipe.dummy, &view.detector().dummy, dtype);
    let clip = |range: &RangeInclusive<i128>| {
        let ends =
            [*range.start().max(values.start()), *range.end().min(values.end())].map(i64::try_from);
        // Only values of 64 bits exceed the type.
        let [Ok(low), Ok(high)] = ends else { return None };
        (low <= high).then_some([low, high])
    };
    let mut ranges: Vec<[i64; 2]> = rule.integers().iter().filter_map(clip).collect();
    ranges.sort_unstable();
    ranges.dedup();
    Ok(ranges)
}

/// Caches which values are invalid, because frames repeat few values.
pub struct InvalidValueCache<'a> {
    rule: &'a InvalidValues,
    is_integer: bool,
    answers: HashMap<u64, bool>,
}

impl<'a> InvalidValueCache<'a> {
    /// Makes a cache of answers about pixels of `dtype`.
    pub fn new(rule: &'a InvalidValues, dtype: PixelType) -> Self {
        Self { rule, is_integer: integer_bits(dtype).is_some(), answers: HashMap::new() }
    }

    /// Returns whether a value means "no measurement".
    pub fn contains(&mut self, value: f64) -> bool {
        let ask = || match self.is_integer {
            true => self.rule.covers_integers(&(value as i128..=value as i128)),
            false => self.rule.covers_reals(&(value..=value)),
        };
        if self.answers.len() >= MOST_ANSWERS {
            return ask();
        }
        *self.answers.entry(value.to_bits()).or_insert_with(ask)
    }
}

/// The most answers that a cache keeps, so that frames of real numbers don't fill the memory.
const MOST_ANSWERS: usize = 1 << 16;

/// Returns the settings of a recipe that exclude values, as a user writes them.
fn describe_exclusions(recipe: &Recipe) -> String {
    let limit = |name: &str, value: Option<f64>| value.map(|value| format!("{name} {value}"));
    let dummy = matches!(recipe.dummy, DummySetting::Value { .. })
        .then(|| format!("dummy {}", recipe.dummy));
    let dead_time = recipe.dead_time.map(|time| format!("dead-time {time}"));
    let [low, high] = [limit("valid-min", recipe.valid_min), limit("valid-max", recipe.valid_max)];
    let all = [low, high, dead_time, dummy];
    all.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns the dummy values and the values outside the recipe's limits; these may be all values.
fn build_rule(recipe: &Recipe, detector: &DummyRule, dtype: PixelType) -> InvalidValues {
    let below = |least: f64| ValueRange {
        integers: i128::MIN..=(least.ceil() as i128).saturating_sub(1),
        reals: f64::MIN..=as_stored(least, dtype).next_down(),
    };
    let above = |most: f64| ValueRange {
        integers: (most.floor() as i128).saturating_add(1)..=i128::MAX,
        reals: as_stored(most, dtype).next_up()..=f64::MAX,
    };
    let [below, above] = [recipe.valid_min.map(below), recipe.valid_max.map(above)];
    [below, above].into_iter().flatten().fold(
        build_dummy_rule(recipe.dummy, detector, dtype),
        |rule, range| {
            rule.or(InvalidValues::from_integers([range.integers]))
                .or(InvalidValues::from_reals([range.reals]))
        },
    )
}

/// A range of values, for integer and for floating-point pixels.
struct ValueRange {
    integers: RangeInclusive<i128>,
    reals: RangeInclusive<f64>,
}

/// Returns the dummy values by the recipe's setting.
fn build_dummy_rule(dummy: DummySetting, detector: &DummyRule, dtype: PixelType) -> InvalidValues {
    match dummy {
        DummySetting::None => InvalidValues::none(),
        DummySetting::Auto => build_detector_rule(detector, dtype),
        DummySetting::Value { value, delta } => {
            let (low, high) = (value - delta, value + delta);
            InvalidValues::from_integers([low.ceil() as i128..=high.floor() as i128])
                .or(InvalidValues::from_reals([interval_around(value, delta, dtype)]))
        }
    }
}

/// Returns a warning about a dummy value that pixels of this type can't have, such as -1 in unsigned
/// integers: it turns off the values that the detector is known to write.
pub fn describe_impossible_dummy(
    recipe: &Recipe,
    detector: &DummyRule,
    dtype: PixelType,
) -> Option<String> {
    let DummySetting::Value { value, delta } = recipe.dummy else { return None };
    let (bits, signed) = integer_bits(dtype)?;
    let (least, most): (i128, i128) = match signed {
        true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        false => (0, (1 << bits) - 1),
    };
    let (low, high) = ((value - delta).ceil() as i128, (value + delta).floor() as i128);
    let is_possible = low <= high && high >= least && low <= most;
    let loses_rule = build_detector_rule(detector, dtype) != InvalidValues::none();
    let consequence = match loses_rule {
        true => {
            ", and those that stand for no measurement count as photons: leave it out, or pass --dummy auto"
        }
        false => ": leave it out, or give one that they can have",
    };
    let (dummy, name) = (recipe.dummy, dtype.name());
    (!is_possible).then(|| {
        format!("dummy {dummy}: pixels of the type {name} can't have this value{consequence}")
    })
}

/// Returns the dummy values that the detector is known to write, and those to which no detector counts.
fn build_detector_rule(detector: &DummyRule, dtype: PixelType) -> InvalidValues {
    if let Some((bits, signed)) = integer_bits(dtype) {
        let highest = (1i128 << bits) - 1;
        let of_detector = detector.invalid_range(bits, signed);
        // The kernels are the faster the fewer ranges there are.
        let beyond_counts = (!signed && bits >= 32)
            .then_some(highest - 1..=highest)
            .filter(|beyond| of_detector.as_ref() != Some(beyond));
        return InvalidValues::from_integers(beyond_counts.into_iter().chain(of_detector));
    }
    InvalidValues::from_reals(
        detector.dummy.map(|dummy| interval_around(dummy, detector.delta.unwrap_or(0.0), dtype)),
    )
}

/// Returns the interval `dummy` ± `delta`, with limits that the pixels can hold.
fn interval_around(dummy: f64, delta: f64, dtype: PixelType) -> RangeInclusive<f64> {
    let dummy = as_stored(dummy, dtype);
    as_stored(dummy - delta, dtype)..=as_stored(dummy + delta, dtype)
}

/// Returns the number that a pixel has after `value` is stored in it. In single precision -9999.9
/// becomes -9999.900390625, so a comparison with the decimal number would never match.
fn as_stored(value: f64, dtype: PixelType) -> f64 {
    let single = value as f32;
    if dtype == PixelType::F32 && single.is_finite() { f64::from(single) } else { value }
}

/// Returns the bits of an integer type and whether it is signed; `None` for floating-point types.
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
    fn the_two_highest_values_are_invalid_for_any_detector() {
        let unknown = build_dummy_rule(DummySetting::Auto, &DummyRule::default(), PixelType::U32);
        assert_eq!(unknown, InvalidValues::from_integers([4294967294..=4294967295]));
        assert_eq!(
            build_dummy_rule(DummySetting::Auto, &DummyRule::default(), PixelType::U16),
            InvalidValues::none()
        );
        assert_eq!(
            build_dummy_rule(DummySetting::None, &EIGER, PixelType::U32),
            InvalidValues::none()
        );
    }

    #[test]
    fn the_detectors_dummy_values_depend_on_the_pixel_type() {
        let top_two = InvalidValues::from_integers([65534..=65535]);
        assert_eq!(build_dummy_rule(DummySetting::Auto, &EIGER, PixelType::U16), top_two);
        assert_eq!(
            build_dummy_rule(DummySetting::Auto, &EIGER, PixelType::F32),
            InvalidValues::from_reals([-3.5..=-0.5])
        );
    }

    #[test]
    fn values_without_a_measurement_are_those_of_the_detector_or_the_dummy() {
        let poni = "poni_version: 2.1\nDetector: Pilatus100k\nDistance: 0.2\nPoni1: 0\nPoni2: 0\n";
        let found = |dummy: &str, dtype: PixelType| {
            let settings = Settings {
                geometry: Some(poni.to_owned()),
                dummy: Some(dummy.parse().unwrap()),
                valid_max: Some(100.0),
                ..Settings::default()
            };
            let layout = FrameLayout::full_frame([195, 487]);
            no_measurement_values(&Recipe::resolve(&settings).unwrap(), &layout, dtype).unwrap()
        };
        assert_eq!(found("auto", PixelType::I32), [[i64::from(i32::MIN), -1]]);
        assert_eq!(found("auto", PixelType::U16), [[65534, 65535]]);
        assert_eq!(found("7,2", PixelType::U16), [[5, 9]]);
        assert_eq!(found("-1", PixelType::U16), [[0; 2]; 0], "no value of the type");
        assert_eq!(found("none", PixelType::I32), [[0; 2]; 0]);
        assert_eq!(found("auto", PixelType::F32), [[0; 2]; 0]);
    }

    fn recipe(valid_min: Option<f64>, valid_max: Option<f64>) -> Recipe {
        let (geometry, dummy) = (Some("Distance: 1".to_owned()), Some(DummySetting::None));
        Recipe::resolve(&Settings { geometry, dummy, valid_min, valid_max, ..Settings::default() })
            .unwrap()
    }

    #[test]
    fn values_outside_the_limits_are_invalid() {
        let rule = |min, max| build_rule(&recipe(min, max), &EIGER, PixelType::I32);
        assert_eq!(rule(None, None), InvalidValues::none());
        let above = InvalidValues::from_integers([61..=i128::MAX])
            .or(InvalidValues::from_reals([60.5f64.next_up()..=f64::MAX]));
        assert_eq!(rule(None, Some(60.5)), above);
        let below = InvalidValues::from_integers([i128::MIN..=-1])
            .or(InvalidValues::from_reals([f64::MIN..=-5e-324]));
        assert_eq!(rule(Some(0.0), None), below);
    }

    #[test]
    fn limits_that_leave_no_value_are_refused() {
        use PixelType::{F32, F64, I16, I32, U8, U16, U32};
        let rule = |min, max, dtype| {
            build_invalid_values(&recipe(min, max), &DummyRule::default(), dtype).map(drop)
        };
        let refused = [
            (Some(65536.0), None, U16),
            (Some(65535.5), None, U16),
            (Some(256.0), Some(300.0), U8),
            (Some(0.2), Some(0.8), U32),
            (Some(32767.5), None, I16),
            (Some(3e9), None, I32),
            (Some(1e39), None, F32),
        ];
        for (min, max, dtype) in refused {
            let why = rule(min, max, dtype).expect_err("no value is left").to_string();
            assert!(
                why.contains(&format!("no value of {dtype} pixels")) && why.contains("valid-min"),
                "{why}"
            );
        }
        let left = [
            (Some(65535.0), None, U16),
            (None, Some(0.0), U32),
            (Some(0.2), Some(0.8), F32),
            (Some(0.2), Some(1.8), U32),
            (Some(1e39), None, F64),
            (Some(-5.0), Some(0.5), U8),
            (None, None, I16),
        ];
        for (min, max, dtype) in left {
            rule(min, max, dtype).unwrap_or_else(|why| panic!("{min:?} {max:?} {dtype}: {why}"));
        }
        let recipe = |dummy: &str| Recipe { dummy: dummy.parse().unwrap(), ..recipe(None, None) };
        let why = build_invalid_values(&recipe("128,128"), &EIGER, U8).unwrap_err().to_string();
        assert!(why.contains("dummy 128,128"), "{why}");
        assert!(build_invalid_values(&recipe("128,127"), &EIGER, U8).is_ok(), "0 is left");
    }

    #[test]
    fn a_value_is_compared_as_the_pixels_hold_it() {
        // Decimal numbers that single precision rounds up, down and not at all.
        for value in [-9999.9, 0.1, 0.7, -0.3, 1e-7, 65504.1, -2.0, 3.4e38] {
            let rule =
                |dtype| build_dummy_rule(DummySetting::Value { value, delta: 0.0 }, &EIGER, dtype);
            let stored = f64::from(value as f32);
            assert_eq!(
                rule(PixelType::F64),
                integers(value).or(InvalidValues::from_reals([value..=value]))
            );
            assert_eq!(
                rule(PixelType::F32),
                integers(value).or(InvalidValues::from_reals([stored..=stored]))
            );
            if value < 0.0 {
                // The limits of a recipe are not negative.
                continue;
            }
            let recipe = recipe(Some(value), Some(value));
            let limits = |dtype| build_rule(&recipe, &EIGER, dtype);
            let valid = |value: f64| [f64::MIN..=value.next_down(), value.next_up()..=f64::MAX];
            for (dtype, held) in [(PixelType::F64, value), (PixelType::F32, stored)] {
                let [below, above] = valid(held);
                let (low, high) = (
                    (value.ceil() as i128).saturating_sub(1),
                    (value.floor() as i128).saturating_add(1),
                );
                let expected = InvalidValues::from_integers([i128::MIN..=low])
                    .or(InvalidValues::from_reals([below]));
                let expected = expected
                    .or(InvalidValues::from_integers([high..=i128::MAX]))
                    .or(InvalidValues::from_reals([above]));
                assert_eq!(limits(dtype), expected, "{value} {dtype}");
            }
        }
    }

    #[test]
    fn remembered_answers_are_those_of_the_rule() {
        let rule = build_rule(&recipe(None, Some(60.5)), &EIGER, PixelType::I32)
            .or(InvalidValues::from_integers([-2..=-1]));
        let mut integers = InvalidValueCache::new(&rule, PixelType::I32);
        let mut reals = InvalidValueCache::new(&rule, PixelType::F32);
        for _ in 0..2 {
            assert_eq!(
                [-3.0, -2.0, 0.0, 60.0, 61.0].map(|value| integers.contains(value)),
                [false, true, false, false, true]
            );
            assert_eq!([-2.0, 60.5, 60.6].map(|value| reals.contains(value)), [false, false, true]);
        }
    }

    fn integers(value: f64) -> InvalidValues {
        InvalidValues::from_integers([value.ceil() as i128..=value.floor() as i128])
    }

    #[test]
    fn a_dummy_that_no_pixel_can_have_is_told() {
        let warning = |value: f64, delta: f64, dtype| {
            let dummy = DummySetting::Value { value, delta };
            let recipe = Recipe { dummy, ..recipe(None, None) };
            describe_impossible_dummy(&recipe, &DummyRule::default(), dtype)
        };
        let expected = "dummy -1,0: pixels of the type u32 can't have this value, and those that stand for no measurement count as \
                        photons: leave it out, or pass --dummy auto";
        assert_eq!(warning(-1.0, 0.0, PixelType::U32).as_deref(), Some(expected));
        let expected = "dummy -1,0.5: pixels of the type u16 can't have this value: leave it out, or give one that they can have";
        assert_eq!(warning(-1.0, 0.5, PixelType::U16).as_deref(), Some(expected));
        assert!(warning(-1.0, 1.0, PixelType::U16).is_none(), "0 is within");
        assert!(warning(1e10, 0.0, PixelType::I32).is_some());
        assert!(warning(0.5, 0.1, PixelType::U8).is_some());
        assert!(warning(-1.0, 0.0, PixelType::I32).is_none());
        assert!(warning(-1.0, 0.0, PixelType::F32).is_none());
        let plain = recipe(None, None);
        assert_eq!(describe_impossible_dummy(&plain, &EIGER, PixelType::U32), None);
    }

    #[test]
    fn a_given_dummy_applies_to_integers_and_reals() {
        let given = DummySetting::Value { value: -2.0, delta: 1.5 };
        let expected =
            InvalidValues::from_integers([-3..=-1]).or(InvalidValues::from_reals([-3.5..=-0.5]));
        assert_eq!(build_dummy_rule(given, &EIGER, PixelType::I32), expected);
    }
}
