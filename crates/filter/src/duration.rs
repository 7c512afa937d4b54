//! Parses durations on the command line.

use std::time::Duration;

/// Explains that a text is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a duration: seconds, 90s, 50m, 12h or HH:MM:SS")]
pub struct DurationError;

/// Parses a duration as people and SLURM write it: seconds, `90s`, `50m`, `12h` or `HH:MM:SS`.
///
/// # Errors
/// The text has none of these forms, or is too large.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let seconds = match text.split(':').collect::<Vec<_>>()[..] {
        [hours, minutes, seconds] => parse_clock(hours, minutes, seconds),
        _ => parse_with_suffix(text),
    };
    seconds.map(Duration::from_secs).ok_or(DurationError)
}

fn parse_clock(hours: &str, minutes: &str, seconds: &str) -> Option<u64> {
    let below_60 = |text: &str| text.parse().ok().filter(|&count: &u64| count < 60);
    hours
        .parse::<u64>()
        .ok()?
        .checked_mul(3600)?
        .checked_add(below_60(minutes)? * 60 + below_60(seconds)?)
}

fn parse_with_suffix(text: &str) -> Option<u64> {
    let (digits, unit) = match text.char_indices().last()? {
        (at, 's') => (&text[..at], 1),
        (at, 'm') => (&text[..at], 60),
        (at, 'h') => (&text[..at], 3600),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_slurm_and_people_write_them() {
        for (text, seconds) in
            [("90", 90), ("90s", 90), ("50m", 3000), ("2h", 7200), ("01:30:05", 5405)]
        {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for bad in ["", "m", "1:2", "00:60:00", "-5", "1d", "é"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
