//! [`FrameValue`]: a number, or counters that give each frame a number of its own.

use std::fmt;
use std::str::FromStr;

use crate::output::{OutputError, OutputFile};
use crate::rounding::NAN64;

/// A number for each frame of a scan: a value of `gather --subtract-scale` and `--transmission`.
#[derive(Clone, Debug, PartialEq)]
pub enum FrameValue {
    /// A number that all frames have in common.
    Number(f64),
    /// A counter, or the ratio of two, divided by a number.
    Counter {
        /// Name of the counter.
        name: String,
        /// Name of the counter that it is divided by.
        divisor: Option<String>,
        /// Number that both are divided by, such as their ratio without a sample; 1 by default.
        unit: f64,
    },
}

impl Default for FrameValue {
    fn default() -> Self {
        Self::Number(1.0)
    }
}

impl FromStr for FrameValue {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected a number above 0, or a counter that may be divided by \
                                another and by a number, as in diode/monitor or diode/monitor/0.83";
        let usable = |number: &f64| number.is_finite() && *number > 0.0;
        let is_number = |word: &str| word.parse::<f64>().is_ok();
        if let Ok(number) = text.trim().parse() {
            return Some(number).filter(usable).map(Self::Number).ok_or(EXPECTED);
        }
        let mut words: Vec<&str> = text.split('/').map(str::trim).collect();
        let mut unit = 1.0;
        if let Some(number) = words.last().and_then(|word| word.parse().ok()) {
            unit = Some(number).filter(usable).ok_or(EXPECTED)?;
            words.pop();
        }
        let (name, divisor) = match words[..] {
            [name] => (name, None),
            [name, divisor] => (name, Some(divisor)),
            _ => return Err(EXPECTED),
        };
        let is_no_name = |word: &str| word.is_empty() || is_number(word);
        if is_no_name(name) || divisor.is_some_and(is_no_name) {
            return Err(EXPECTED);
        }
        Ok(Self::Counter { name: name.to_owned(), divisor: divisor.map(str::to_owned), unit })
    }
}

impl fmt::Display for FrameValue {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (name, divisor, unit) = match self {
            Self::Number(number) => return write!(f, "{number}"),
            Self::Counter { name, divisor, unit } => (name, divisor, unit),
        };
        f.write_str(name)?;
        divisor.as_ref().map_or(Ok(()), |divisor| write!(f, "/{divisor}"))?;
        if *unit == 1.0 { Ok(()) } else { write!(f, "/{unit}") }
    }
}

impl FrameValue {
    /// Returns whether each frame has a value of its own.
    pub fn is_counter(&self) -> bool {
        matches!(self, Self::Counter { .. })
    }

    /// Returns the value at each frame of a final file; NaN where it is missing or not above 0.
    pub(super) fn values(&self, output: &OutputFile) -> Result<Vec<f64>, OutputError> {
        let frames = output.status.len();
        let mut values = match self {
            Self::Number(number) => vec![*number; frames],
            Self::Counter { name, divisor, unit } => {
                let mut values = output.frame_numbers(name)?.values;
                if let Some(divisor) = divisor {
                    let divisors = output.frame_numbers(divisor)?.values;
                    values.truncate(divisors.len());
                    values.iter_mut().zip(divisors).for_each(|(value, by)| *value /= by);
                }
                values.iter_mut().for_each(|value| *value /= unit);
                values
            }
        };
        // Of a scan that is running, frames may come before their readings.
        values.resize(frames, NAN64);
        for value in &mut values {
            if !value.is_finite() || *value <= 0.0 {
                *value = NAN64;
            }
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_a_number_a_counter_or_a_ratio() {
        for text in ["1", "0.95", "1e-3", "diode", "diode/monitor", "diode/monitor/0.83", "d/2"] {
            let value: FrameValue = text.parse().unwrap();
            assert_eq!(value.to_string().parse(), Ok(value));
        }
        assert_eq!("2.5".parse(), Ok(FrameValue::Number(2.5)));
        let ratio =
            |unit| FrameValue::Counter { name: "a".into(), divisor: Some("b".into()), unit };
        assert_eq!("a / b".parse(), Ok(ratio(1.0)));
        assert_eq!("a/b/0.5".parse(), Ok(ratio(0.5)));
        let wrong = [
            "", "0", "-1", "nan", "inf", "a/", "/b", "a/b/c", " ", "a/b/0", "a/-1", "1/2", "a/2/3",
            "a/0/1",
        ];
        for wrong in wrong {
            assert!(wrong.parse::<FrameValue>().is_err(), "{wrong}");
        }
    }
}
