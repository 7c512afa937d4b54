//! Amounts of bytes as users write them, and memory sizes as SLURM and dask-jobqueue read them.

use std::fmt;
use std::str::FromStr;

/// Parses an amount of bytes such as `500M`, `2G`, `100GB` or `1.5GiB`. One letter is a power of
/// 1024, as in SLURM, `sort -S` and plan-split; with `B`, it is a power of 1000, as in
/// dask-jobqueue and ESRF's integrator; with `iB`, of 1024 again. A number without a letter counts
/// units of `plain` bytes. Returns `None` for any other text, and for less than one byte or more
/// than 2^62.
fn parse_bytes(text: &str, plain: u64) -> Option<u64> {
    let split = text.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let number: f64 = digits.parse().ok()?;
    // dask, whose sizes are copied to here, has a space before the unit.
    let unit = unit.trim_start().to_ascii_uppercase();
    let power = |letter: &str| "KMGT".find(letter).map(|index| index as u32 + 1);
    let factor = match (unit.strip_suffix("IB"), unit.strip_suffix('B'), unit.as_str()) {
        (_, _, "") => plain,
        (Some(letter), _, _) if letter.len() == 1 => 1024_u64.pow(power(letter)?),
        (_, Some(letter), _) if letter.len() == 1 => 1000_u64.pow(power(letter)?),
        (_, _, letter) if letter.len() == 1 => 1024_u64.pow(power(letter)?),
        _ => return None,
    };
    let bytes = (number * factor as f64).ceil();
    (bytes >= 1.0 && bytes < 2_f64.powi(62)).then_some(bytes as u64)
}

/// The memory of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemorySize {
    bytes: u64,
}

impl MemorySize {
    /// Creates a size from a number of bytes.
    pub fn from_bytes(bytes: u64) -> Self {
        Self { bytes }
    }

    /// Returns the number of bytes.
    pub fn bytes(self) -> u64 {
        self.bytes
    }
}

impl FromStr for MemorySize {
    type Err = String;

    /// Parses a size as SLURM does (a bare number is in units of M), and `100GB` as dask-jobqueue
    /// does.
    fn from_str(text: &str) -> Result<Self, String> {
        parse_bytes(text, 1 << 20).map(Self::from_bytes).ok_or_else(|| {
            "expected a number and a unit, such as 64G: K, M, G or T (powers of 1024), or KB, MB, GB or TB (of 1000)"
                .to_owned()
        })
    }
}

impl fmt::Display for MemorySize {
    /// Formats the size in the largest of SLURM's units that fits, rounded up, as dask-jobqueue
    /// does: 16GB is `15G`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes {
            1_073_741_824.. => write!(f, "{}G", self.bytes.div_ceil(1 << 30)),
            1_048_576.. => write!(f, "{}M", self.bytes.div_ceil(1 << 20)),
            _ => write!(f, "{}K", self.bytes.div_ceil(1 << 10).max(1)),
        }
    }
}

/// A rate in stored bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ByteRate(pub f64);

impl FromStr for ByteRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_bytes(text, 1)
            .map(|bytes| Self(bytes as f64))
            .ok_or_else(|| "expected stored bytes per second, such as 500M".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_sizes_are_read_as_slurm_and_dask_jobqueue_do() {
        let cases = [
            ("4000", "4G"),
            ("100G", "100G"),
            ("100GB", "94G"),
            ("16GB", "15G"),
            ("1.5GiB", "2G"),
            ("512M", "512M"),
            ("100 GB", "94G"),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<MemorySize>().unwrap().to_string(), expected, "{text}");
        }
        for wrong in ["", "G", "5X", "-1G", "0", "1GGB", "1e99T"] {
            assert!(wrong.parse::<MemorySize>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_are_in_bytes() {
        assert_eq!("500M".parse(), Ok(ByteRate(500.0 * 1_048_576.0)));
        assert_eq!("1000".parse(), Ok(ByteRate(1000.0)));
    }
}
