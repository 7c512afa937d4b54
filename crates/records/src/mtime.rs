//! A file's modification time on the wire: seconds since 1970 with nine decimals, as text.
//!
//! The value is a text because it has more digits than a double, to which jq and JavaScript would
//! round a JSON number.

use serde::{Deserialize, Deserializer, Serializer};

const NANOSECONDS: i64 = 1_000_000_000;

pub(crate) fn serialize<S: Serializer>(
    nanoseconds: &i64,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let (seconds, rest) =
        (nanoseconds.div_euclid(NANOSECONDS), nanoseconds.rem_euclid(NANOSECONDS));
    serializer.collect_str(&format_args!("{seconds}.{rest:09}"))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).ok_or_else(|| {
        serde::de::Error::custom(format!("mtime {text:?}: expected seconds with nine decimals"))
    })
}

/// Parses a time in nanoseconds. The decimals count upward, before 1970 too: -1.500000000 is half a
/// second after -1.
fn parse(text: &str) -> Option<i64> {
    let (seconds, rest) = text.split_once('.')?;
    let digits = rest.len() == 9 && rest.bytes().all(|digit| digit.is_ascii_digit());
    let rest: i64 = digits.then(|| rest.parse().ok())??;
    seconds.parse::<i64>().ok()?.checked_mul(NANOSECONDS)?.checked_add(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Serialize, Deserialize, Debug, PartialEq)]
    struct Time(#[serde(with = "super")] i64);

    #[test]
    fn nanoseconds_survive() {
        for (time, text) in [
            (1_772_616_030_000_000_001, "\"1772616030.000000001\""),
            (-5, "\"-1.999999995\""),
            (0, "\"0.000000000\""),
        ] {
            assert_eq!(serde_json::to_string(&Time(time)).unwrap(), text);
            assert_eq!(serde_json::from_str::<Time>(text).unwrap(), Time(time));
        }
        for bad in ["\"1\"", "\"1.5\"", "\"1.-00000001\"", "\"99999999999.000000000\"", "17"] {
            assert!(serde_json::from_str::<Time>(bad).is_err(), "{bad}");
        }
    }
}
