//! Which values of the frames' type are no measurement.

use std::ops::RangeInclusive;

use geometry::DummyRule;
use kernels::{Invalid, PixelType};
use recipe::{Dummy, Recipe};

/// The rule for frames of `dtype`: the recipe's own, or what the detector is known to write, and all
/// ones of unsigned 32 and 64 bits, which no detector counts to; and what lies beyond the valid values.
pub fn rule(recipe: &Recipe, detector: &DummyRule, dtype: PixelType) -> Invalid {
    let [below, above] = [
        recipe
            .valid_min
            .map(|least| Span { integers: i128::MIN..=least.ceil() as i128 - 1, reals: f64::MIN..=least.next_down() }),
        recipe
            .valid_max
            .map(|most| Span { integers: most.floor() as i128 + 1..=i128::MAX, reals: most.next_up()..=f64::MAX }),
    ];
    [below, above].into_iter().flatten().fold(marks(recipe.dummy, detector, dtype), |rule, span| {
        rule.and(Invalid::integers([span.integers])).and(Invalid::reals([span.reals]))
    })
}

/// Invalid values.
struct Span {
    integers: RangeInclusive<i128>,
    reals: RangeInclusive<f64>,
}

fn marks(dummy: Dummy, detector: &DummyRule, dtype: PixelType) -> Invalid {
    match dummy {
        Dummy::None => Invalid::none(),
        Dummy::Auto => known(detector, dtype),
        Dummy::Value { value, delta } => {
            let (low, high) = (value - delta, value + delta);
            Invalid::integers([low.ceil() as i128..=high.floor() as i128]).and(Invalid::reals([low..=high]))
        }
    }
}

fn known(detector: &DummyRule, dtype: PixelType) -> Invalid {
    if let Some((bits, signed)) = integer(dtype) {
        let all_ones = (!signed && bits >= 32).then(|| (1i128 << bits) - 1).map(|ones| ones..=ones);
        return Invalid::integers(all_ones.into_iter().chain(detector.invalid(bits, signed)));
    }
    Invalid::reals(detector.dummy.map(|dummy| around(dummy, detector.delta.unwrap_or(0.0))))
}

fn around(dummy: f64, delta: f64) -> RangeInclusive<f64> {
    dummy - delta..=dummy + delta
}

/// The bits of an integer type, and whether it has a sign.
fn integer(dtype: PixelType) -> Option<(u32, bool)> {
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
        let unknown = marks(Dummy::Auto, &DummyRule::default(), PixelType::U32);
        assert_eq!(unknown, Invalid::integers([4294967295..=4294967295]));
        assert_eq!(marks(Dummy::Auto, &DummyRule::default(), PixelType::U16), Invalid::none());
        assert_eq!(marks(Dummy::None, &EIGER, PixelType::U32), Invalid::none());
    }

    #[test]
    fn the_detectors_rule_is_that_of_its_pixels_type() {
        let top_two = Invalid::integers([65534..=65535]);
        assert_eq!(marks(Dummy::Auto, &EIGER, PixelType::U16), top_two);
        assert_eq!(marks(Dummy::Auto, &EIGER, PixelType::F32), Invalid::reals([-3.5..=-0.5]));
    }

    #[test]
    fn values_beyond_the_valid_ones_are_no_measurement() {
        let recipe = |valid_min, valid_max| {
            let geometry = Some("Distance: 1".to_owned());
            let dummy = Some(Dummy::None);
            Recipe::resolve(&Settings { geometry, dummy, valid_min, valid_max, ..Settings::default() }).unwrap()
        };
        let rule = |min, max| rule(&recipe(min, max), &EIGER, PixelType::I32);
        assert_eq!(rule(None, None), Invalid::none());
        let above = Invalid::integers([61..=i128::MAX]).and(Invalid::reals([60.5f64.next_up()..=f64::MAX]));
        assert_eq!(rule(None, Some(60.5)), above);
        let below = Invalid::integers([i128::MIN..=-1]).and(Invalid::reals([f64::MIN..=-5e-324]));
        assert_eq!(rule(Some(0.0), None), below);
    }

    #[test]
    fn a_given_value_holds_for_integers_and_reals() {
        let given = Dummy::Value { value: -2.0, delta: 1.5 };
        let expected = Invalid::integers([-3..=-1]).and(Invalid::reals([-3.5..=-0.5]));
        assert_eq!(marks(given, &EIGER, PixelType::I32), expected);
    }
}
