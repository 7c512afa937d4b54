//! Amounts of bytes as users write them, and memory as SLURM and dask-jobqueue take it.

use std::fmt;
use std::str::FromStr;

/// Reads `500M`, `2G`, `100GB`, `1.5GiB`. One letter is a power of 1024, as for SLURM, `sort -S` and
/// plan-split; with `B` it is a power of 1000, as for dask-jobqueue and the integrator; with `iB`
/// of 1024 again. No letter means `plain` bytes.
pub fn bytes(text: &str, plain: u64) -> Option<u64> {
    let split = text.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let number: f64 = digits.parse().ok()?;
    let unit = unit.to_ascii_uppercase();
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

/// Memory of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Memory {
    bytes: u64,
}

impl Memory {
    /// In bytes.
    pub fn from_bytes(bytes: u64) -> Self {
        Self { bytes }
    }

    /// In bytes.
    pub fn bytes(self) -> u64 {
        self.bytes
    }
}

impl FromStr for Memory {
    type Err = String;

    /// As SLURM reads it, where a bare number is in units of M; and `100GB` as dask-jobqueue does.
    fn from_str(text: &str) -> Result<Self, String> {
        bytes(text, 1 << 20).map(Self::from_bytes).ok_or_else(|| {
            format!("`{text}`: expected a number and K, M, G or T (of 1024), or KB, MB, GB or TB (of 1000)")
        })
    }
}

impl fmt::Display for Memory {
    /// In SLURM's units, rounded up to whole ones of the largest that fits, as dask-jobqueue does: 16GB
    /// is 15G.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes {
            1_073_741_824.. => write!(f, "{}G", self.bytes.div_ceil(1 << 30)),
            1_048_576.. => write!(f, "{}M", self.bytes.div_ceil(1 << 20)),
            _ => write!(f, "{}K", self.bytes.div_ceil(1 << 10).max(1)),
        }
    }
}

/// Bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(pub f64);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        bytes(text, 1)
            .map(|bytes| Self(bytes as f64))
            .ok_or_else(|| format!("`{text}`: expected stored bytes a second, such as 500M"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_slurm_and_dask_jobqueue_make_of_it() {
        let cases =
            [("4000", "4G"), ("100G", "100G"), ("100GB", "94G"), ("16GB", "15G"), ("1.5GiB", "2G"), ("512M", "512M")];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Memory>().unwrap().to_string(), expected, "{text}");
        }
        for wrong in ["", "G", "5X", "-1G", "0", "1GGB", "1e99T"] {
            assert!(wrong.parse::<Memory>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_are_in_bytes() {
        assert_eq!("500M".parse(), Ok(Rate(500.0 * 1_048_576.0)));
        assert_eq!("1000".parse(), Ok(Rate(1000.0)));
    }
}
