//! Powders: the d spacings of their rings, from tables made by others.

use clap::ValueEnum;

/// The powder in the beam.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Powder {
    /// Lanthanum hexaboride, NIST SRM 660c.
    #[value(name = "lab6")]
    LaB6,
    /// Cerium dioxide, NIST SRM 674b.
    #[value(name = "ceo2")]
    CeO2,
    /// Nothing: the detector is lit evenly.
    None,
}

impl Powder {
    /// Its formula, which is the sample's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::LaB6 => "LaB6",
            Self::CeO2 => "CeO2",
            Self::None => "even",
        }
    }

    /// Each ring's d spacing in angstrom and its intensity beside the strongest ring's 100,
    /// falling d.
    pub fn rings(self) -> Vec<(f64, f64)> {
        let table = match self {
            Self::LaB6 => include_str!("../calibrants/LaB6.D"),
            Self::CeO2 => include_str!("../calibrants/CeO2.D"),
            Self::None => "",
        };
        table.lines().filter(|line| !line.starts_with('#')).filter_map(ring).collect()
    }
}

/// A line `d # (h k l) multiplicity [intensity]`. Weak rings are listed without an intensity.
fn ring(line: &str) -> Option<(f64, f64)> {
    let (d, rest) = line.split_once('#')?;
    let intensity = rest.split(')').nth(1)?.split_whitespace().nth(1);
    Some((d.trim().parse().ok()?, intensity.and_then(|text| text.parse().ok()).unwrap_or(1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_read_whole() {
        let rings = Powder::LaB6.rings();
        assert_eq!(rings[1], (2.93931985, 100.0));
        assert!(rings.len() > 40 && rings.iter().any(|&(_, intensity)| intensity == 1.0));
        assert!(Powder::CeO2.rings().is_sorted_by(|a, b| a.0 > b.0));
    }
}
