//! Parses `--since` and times of start, and compares them with times of files.

use std::str::FromStr;
use std::time::{Duration, SystemTime};

/// A point in time, in UTC or on the beamline's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Since {
    /// Seconds since 1970 in UTC.
    Utc(f64),
    /// Seconds since 1970 on a clock of unknown offset.
    LocalClock(f64),
}

/// The reason why a text is not a time.
#[derive(Debug, thiserror::Error)]
#[error(
    "expected a time such as 2026-03-04, 2026-03-04T10:20, 2026-03-04T10:20:30+01:00, 90m, 12h or 7d"
)]
pub struct TimeParseError;

/// A parsed time: seconds on its own clock, and the offset of that clock in seconds if the text has
/// it.
struct ParsedTime {
    clock: f64,
    offset: Option<f64>,
}

impl Since {
    /// Returns whether a scan with this start time began at or after this time; `None` if the text
    /// is not a time.
    pub fn accepts(&self, start_time: &str) -> Option<bool> {
        let stamp = ParsedTime::parse(start_time)?;
        Some(match self {
            Self::Utc(then) => stamp.clock - stamp.offset.unwrap_or(0.0) >= *then,
            Self::LocalClock(then) => stamp.clock >= *then,
        })
    }

    /// Returns whether a modification time (nanoseconds since 1970) is at or after this time.
    pub fn accepts_mtime(&self, mtime: i64) -> bool {
        let (Self::Utc(then) | Self::LocalClock(then)) = self;
        mtime as f64 / 1e9 >= *then
    }
}

/// The largest offset from UTC of a clock, in seconds.
const MAX_UTC_OFFSET: f64 = 14.0 * 3600.0;

/// Returns by how many seconds a file was modified (`mtime`: nanoseconds since 1970) before a scan with
/// this start time began; on a clock of unknown offset by how many at the least. `None` if the text is not a
/// time; negative if the file was modified later.
pub fn seconds_before_start(mtime: i64, start_time: &str) -> Option<f64> {
    let stamp = ParsedTime::parse(start_time)?;
    Some(stamp.clock - stamp.offset.unwrap_or(MAX_UTC_OFFSET) - mtime as f64 / 1e9)
}

impl FromStr for Since {
    type Err = TimeParseError;

    fn from_str(text: &str) -> Result<Self, TimeParseError> {
        if let Some(ago) = parse_age(text) {
            let now =
                SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
            return Ok(Self::Utc(now.as_secs_f64() - ago));
        }
        let stamp = ParsedTime::parse(text).ok_or(TimeParseError)?;
        Ok(stamp
            .offset
            .map_or(Self::LocalClock(stamp.clock), |offset| Self::Utc(stamp.clock - offset)))
    }
}

/// Parses an age such as `90m`, `12h` or `7d` into seconds.
fn parse_age(text: &str) -> Option<f64> {
    let unit = match text.as_bytes().last()? {
        b's' => 1.0,
        b'm' => 60.0,
        b'h' => 3600.0,
        b'd' => 86400.0,
        _ => return None,
    };
    let number: f64 = text[..text.len() - 1].parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number * unit)
}

impl ParsedTime {
    /// Parses ISO 8601 as files and people write it: a date, optionally a time of day after `T` or
    /// a space, and optionally an offset.
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (date, rest) = text.split_at_checked(10)?;
        let mut parts = date.split('-');
        let [year, month, day] = [(); 3].map(|()| parts.next().and_then(parse_digits));
        let days = days_since_1970(year?, month?, day?)?;
        let rest = rest.strip_prefix(['T', 't', ' ']).unwrap_or(rest);
        let cut = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
        let (time, offset) = rest.split_at(cut);
        let offset = match offset {
            "" => None,
            "Z" | "z" => Some(0.0),
            _ => {
                let sign = if offset.starts_with('-') { -1.0 } else { 1.0 };
                Some(sign * parse_time_of_day(&offset[1..])?)
            }
        };
        let seconds = if time.is_empty() { 0.0 } else { parse_time_of_day(time)? };
        Some(Self { clock: days as f64 * 86400.0 + seconds, offset })
    }
}

/// Parses `10:20`, `10:20:30.5`, or the `1020` of an offset into seconds.
fn parse_time_of_day(text: &str) -> Option<f64> {
    if text.len() == 4 && !text.contains(':') {
        let (hours, minutes) = text.split_at_checked(2)?;
        return parse_time_of_day(&format!("{hours}:{minutes}"));
    }
    let mut parts = text.split(':');
    let (hours, minutes) =
        (parse_digits(parts.next()?)?, parts.next().map_or(Some(0), parse_digits)?);
    let seconds: f64 = parts.next().map_or(Some(0.0), |seconds| seconds.parse().ok())?;
    let in_range =
        hours < 25 && minutes < 60 && (0.0..61.0).contains(&seconds) && parts.next().is_none();
    in_range.then(|| (hours * 3600 + minutes * 60) as f64 + seconds)
}

fn parse_digits(text: &str) -> Option<i64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

/// Returns the days from 1970-01-01 to a date of the Gregorian calendar. The computation starts
/// years in March, so that the leap day is the last day; 400 years have 146097 days.
fn days_since_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap_year = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_of_month = match month {
        2 if is_leap_year => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=days_of_month).contains(&day) {
        return None;
    }
    let year = if month < 3 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let in_years = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    Some(in_years + (153 * month + 2) / 5 + day - 1 - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(text: &str) -> Since {
        text.parse().unwrap()
    }

    #[test]
    fn dates_are_seconds_since_1970() {
        assert_eq!(since("1970-01-01T00:00:00Z"), Since::Utc(0.0));
        assert_eq!(since("2026-03-04T10:20:30+01:00"), Since::Utc(1_772_616_030.0));
        assert_eq!(since("2024-02-29"), Since::LocalClock(1_709_164_800.0));
        assert_eq!(since("2000-03-01 00:00"), Since::LocalClock(951_868_800.0));
    }

    #[test]
    fn a_time_without_offset_is_on_the_clock_of_the_beamline() {
        assert_eq!(
            since("2021-01-29T11:00").accepts("2021-01-29T11:00:40.490243+01:00"),
            Some(true)
        );
        assert_eq!(
            since("2021-01-29T11:00Z").accepts("2021-01-29T11:00:40.490243+01:00"),
            Some(false)
        );
        assert_eq!(since("2021-01-29").accepts("yesterday"), None);
    }

    #[test]
    fn files_are_older_than_scans_that_began_later_on_any_clock() {
        let mtime = 1_772_616_030_000_000_000;
        let before = |start: &str| seconds_before_start(mtime, start);
        assert_eq!(before("2026-03-04T10:20:30+01:00"), Some(0.0));
        assert_eq!(before("2026-03-04T10:20:20+01:00"), Some(-10.0));
        assert_eq!(before("2026-03-04T11:20:30+01:00"), Some(3600.0));
        assert_eq!(before("2026-03-04T23:20:31"), Some(1.0));
        assert_eq!(before("yesterday"), None);
    }

    #[test]
    fn what_is_no_time_says_what_is() {
        for text in [
            "",
            "yesterday",
            "2026-13-01",
            "2026-02-29",
            "2026-02-30",
            "2026-04-31",
            "2026-03-04T25:61",
            "12x",
            "-3h",
            "2026-03-04Tnoon",
            "2026-03-04T1é2",
            "2026-03-04T10:20+1é2",
            "2026-03-04T1\u{fffd}",
        ] {
            assert!(text.parse::<Since>().is_err(), "{text}");
            assert_eq!(seconds_before_start(0, text), None, "{text}");
        }
    }

    #[test]
    fn ages_count_back_from_now() {
        let Since::Utc(then) = since("1h") else { panic!() };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
        assert!((now - 3600.0 - then).abs() < 60.0);
    }
}
