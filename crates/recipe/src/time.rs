//! [`Time`], a time as a setting.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::options::SettingValue;

/// A time in seconds, above 0. A user may write another unit: `120ns`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "f64")]
pub struct Time(f64);

/// Units of time, each with its power of ten of a second. A unit that another one ends in comes after it.
const TIME_UNITS: [(&str, i32); 6] =
    [("ns", -9), ("us", -6), ("µs", -6), ("μs", -6), ("ms", -3), ("s", 0)];

/// Valid times in seconds.
const TIME_RANGE: std::ops::RangeInclusive<f64> = 1e-15..=1e6;

const EXPECTED: &str =
    "a time from 1e-15 to 1e6 seconds, such as 120ns or 1.2e-7; units: s, ms, us, ns";

impl Time {
    /// Makes a time; `None` if it is not from 1e-15 to 1e6 seconds.
    pub fn new(seconds: f64) -> Option<Self> {
        TIME_RANGE.contains(&seconds).then_some(Self(seconds))
    }

    /// Returns the time in seconds.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, power) = TIME_UNITS
            .iter()
            .find_map(|(unit, power)| Some((text.trim().strip_suffix(unit)?, *power)))
            .unwrap_or((text, 0));
        let seconds = parse_seconds(number.trim(), power).and_then(Self::new);
        seconds.ok_or_else(|| format!("`{text}`: expected {EXPECTED}"))
    }
}

/// Parses a number times a power of ten. It is rounded once, so that a time is the same number, and
/// gives recipes the same digest, in any unit.
fn parse_seconds(number: &str, power: i32) -> Option<f64> {
    let (digits, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let exponent: i32 = exponent.parse().ok()?;
    format!("{digits}e{}", exponent.checked_add(power)?).parse().ok()
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", geometry::format_number(self.0))
    }
}

impl TryFrom<SettingValue> for Time {
    type Error = String;

    fn try_from(value: SettingValue) -> Result<Self, String> {
        value.to_string().parse()
    }
}

impl From<Time> for f64 {
    fn from(seconds: Time) -> Self {
        seconds.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_one_number_of_seconds_in_any_unit() {
        for text in ["120ns", " 120 ns ", "0.12us", "0.12 µs", "0.00012ms", "1.2e-7 s", "1.2e-7"] {
            assert_eq!(text.parse::<Time>().unwrap().get(), 1.2e-7, "{text}");
        }
        for nanoseconds in 1..3000 {
            let in_units = [
                format!("{nanoseconds}ns"),
                format!("{}us", f64::from(nanoseconds) / 1e3),
                format!("{}ms", f64::from(nanoseconds) / 1e6),
                format!("{nanoseconds}e-9"),
                format!("{nanoseconds}E-3 us"),
            ];
            let times = in_units.map(|text| text.parse::<Time>().unwrap().get());
            assert_eq!(times, [times[0]; 5]);
        }
        assert_eq!("2s".parse::<Time>().unwrap().to_string(), "2 s");
    }

    #[test]
    fn times_that_can_not_be_are_refused() {
        for bad in ["", "ns", "0", "0s", "-1ns", "nan", "inf", "1e-20", "1e9 s", "1 min", "1h"] {
            let why = bad.parse::<Time>().unwrap_err();
            assert!(why.contains("such as 120ns"), "{bad}: {why}");
        }
    }

    #[test]
    fn recipes_hold_seconds() {
        #[derive(Debug, PartialEq, Deserialize, Serialize)]
        struct File {
            time: Time,
        }
        let parse = |text: &str| toml::from_str::<File>(text).map(|file| file.time.get());
        assert_eq!(parse("time = 2").unwrap(), 2.0);
        assert_eq!(parse("time = 1.2e-7").unwrap(), 1.2e-7);
        assert_eq!(parse("time = '50us'").unwrap(), 5e-5);
        assert!(parse("time = 0").is_err() && parse("time = true").is_err());
        let json = serde_json::to_string(&File { time: "120ns".parse().unwrap() }).unwrap();
        assert_eq!(json, r#"{"time":1.2e-7}"#);
    }
}
