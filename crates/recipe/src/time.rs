//! [`Time`], a time as a setting.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::options::SettingValue;

/// A time in seconds, above 0. A user may write another unit: `120ns`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "f64")]
pub struct Time(f64);

/// Units of time, each with how many of it make a second. A unit that another one ends in comes after
/// it.
const TIME_UNITS: [(&str, f64); 6] =
    [("ns", 1e9), ("us", 1e6), ("µs", 1e6), ("μs", 1e6), ("ms", 1e3), ("s", 1.0)];

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
        let (number, per_second) = TIME_UNITS
            .iter()
            .find_map(|(unit, per_second)| Some((text.trim().strip_suffix(unit)?, per_second)))
            .unwrap_or((text, &1.0));
        let seconds = number.trim().parse::<f64>().ok();
        let seconds = seconds.and_then(|number| Self::new(number / per_second));
        seconds.ok_or_else(|| format!("`{text}`: expected {EXPECTED}"))
    }
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
            let seconds = text.parse::<Time>().unwrap().get();
            assert!((seconds / 1.2e-7 - 1.0).abs() < 1e-15, "{text}: {seconds}");
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
