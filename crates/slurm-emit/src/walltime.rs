//! The time limit of a job, in SLURM's notation.

use std::fmt;
use std::str::FromStr;

/// The time limit of a job, in seconds. SLURM rounds it up to whole minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Walltime {
    seconds: u64,
}

impl Walltime {
    /// Creates a walltime of `seconds`, and of at least one second.
    pub fn from_seconds(seconds: u64) -> Self {
        Self { seconds: seconds.max(1) }
    }

    /// Returns the walltime in seconds.
    pub fn seconds(self) -> u64 {
        self.seconds
    }

    /// Returns the walltime in minutes, rounded up as SLURM does.
    pub fn minutes(self) -> u64 {
        self.seconds.div_ceil(60)
    }
}

impl FromStr for Walltime {
    type Err = String;

    /// Parses the six forms of sbatch's `--time`: `M`, `M:S`, `H:M:S`, `D-H`, `D-H:M` and
    /// `D-H:M:S`.
    fn from_str(text: &str) -> Result<Self, String> {
        parse_seconds(text).filter(|&seconds| seconds > 0).map(Self::from_seconds).ok_or_else(
            || {
                "expected minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS, such as 02:00:00"
                    .to_owned()
            },
        )
    }
}

fn parse_seconds(text: &str) -> Option<u64> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (Some(parse_digits(days)?), clock),
        None => (None, text),
    };
    let fields: Vec<u64> = clock.split(':').map(parse_digits).collect::<Option<_>>()?;
    let [hours, minutes, seconds] = match (days, &fields[..]) {
        (_, &[hours, minutes, seconds]) => [hours, minutes, seconds],
        (Some(_), &[hours, minutes]) => [hours, minutes, 0],
        (Some(_), &[hours]) => [hours, 0, 0],
        (None, &[minutes, seconds]) => [0, minutes, seconds],
        (None, &[minutes]) => [0, minutes, 0],
        _ => return None,
    };
    Some(days.unwrap_or(0) * 86_400 + hours * 3600 + minutes * 60 + seconds)
}

/// Parses one to nine digits, so few that no sum of such numbers overflows. `parse` alone would
/// accept a sign.
fn parse_digits(text: &str) -> Option<u64> {
    let plain = (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

impl fmt::Display for Walltime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, rest) = (self.seconds / 86_400, self.seconds % 86_400);
        if days > 0 {
            write!(f, "{days}-")?;
        }
        write!(f, "{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_slurm_does() {
        let cases = [
            ("90", "01:30:00"),
            ("30:00", "00:30:00"),
            ("01:00:00", "01:00:00"),
            ("2-0", "2-00:00:00"),
            ("1-12:30", "1-12:30:00"),
            ("1-00:00:01", "1-00:00:01"),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Walltime>().unwrap().to_string(), expected, "{text}");
        }
        for wrong in ["", "0", "1h", "1:2:3:4", "-5", "+5", "1-", "99999999999999999999"] {
            assert!(wrong.parse::<Walltime>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn minutes_are_rounded_up() {
        assert_eq!("1:01".parse::<Walltime>().unwrap().minutes(), 2);
    }
}
