//! How long a job may run, as SLURM writes it.

use std::fmt;
use std::str::FromStr;

/// A time limit. SLURM counts it in whole minutes, rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Walltime {
    seconds: u64,
}

impl Walltime {
    /// That many seconds, and one at the least.
    pub fn from_seconds(seconds: u64) -> Self {
        Self { seconds: seconds.max(1) }
    }

    /// In seconds.
    pub fn seconds(self) -> u64 {
        self.seconds
    }

    /// In minutes, rounded up as SLURM does.
    pub fn minutes(self) -> u64 {
        self.seconds.div_ceil(60)
    }
}

impl FromStr for Walltime {
    type Err = String;

    /// Reads the six forms of sbatch's `--time`: `M`, `M:S`, `H:M:S`, `D-H`, `D-H:M` and `D-H:M:S`.
    fn from_str(text: &str) -> Result<Self, String> {
        seconds(text)
            .filter(|&seconds| seconds > 0)
            .map(Self::from_seconds)
            .ok_or_else(|| format!("`{text}`: expected minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS"))
    }
}

fn seconds(text: &str) -> Option<u64> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (Some(number(days)?), clock),
        None => (None, text),
    };
    let fields: Vec<u64> = clock.split(':').map(number).collect::<Option<_>>()?;
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

/// Digits alone (`parse` would take a sign), and few enough that no sum of them overflows.
fn number(text: &str) -> Option<u64> {
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
    fn times_mean_what_slurm_takes_them_for() {
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
