//! Calibrants: substances whose rings show whether a geometry is right.

use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Names and d-spacings of pyFAI's calibrants.
const TABLE: &str = include_str!("calibrants.tsv");

/// A calibrant: a value of `plan-split --calibrant` and `gather --drift`.
#[derive(Clone, Debug, PartialEq)]
pub enum Calibrant {
    /// A name, and d-spacings in angstrom.
    Known {
        /// The name of the substance, or the spacings as they were given.
        name: String,
        /// The spacings in descending order.
        spacings: Vec<f64>,
    },
    /// A file of d-spacings.
    File(PathBuf),
}

impl Calibrant {
    /// Returns the names of the calibrants that need no file.
    pub fn known_names() -> impl Iterator<Item = &'static str> {
        table_rows().map(|(name, _)| name)
    }

    /// Returns the name for the legend of a picture.
    pub fn name(&self) -> String {
        match self {
            Self::Known { name, .. } => name.clone(),
            Self::File(path) => {
                path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
            }
        }
    }

    /// Returns the file of d-spacings; `None` of a calibrant that needs none.
    pub fn file(&self) -> Option<&PathBuf> {
        match self {
            Self::Known { .. } => None,
            Self::File(path) => Some(path),
        }
    }

    /// Returns the d-spacings in angstrom, in descending order.
    ///
    /// # Errors
    /// The file can't be read or has no spacings; the message does not repeat its path.
    pub fn spacings(&self) -> Result<Vec<f64>, String> {
        match self {
            Self::Known { spacings, .. } => Ok(spacings.clone()),
            Self::File(path) => read_spacings(path),
        }
    }
}

/// Returns the 2theta of rings in degrees, ascending. Spacings below half the wavelength have no
/// ring.
pub fn ring_angles(spacings: &[f64], wavelength_in_angstrom: f64) -> Vec<f64> {
    let sines = spacings.iter().map(|spacing| wavelength_in_angstrom / (2.0 * spacing));
    let mut angles: Vec<f64> =
        sines.filter(|sine| *sine < 1.0).map(|sine| 2.0 * sine.asin().to_degrees()).collect();
    angles.sort_by(f64::total_cmp);
    angles
}

/// Returns the name and the list of spacings of each row of the table.
fn table_rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (name, rest) = line.split_once('\t')?;
        Some((name, rest.rsplit_once('\t')?.1))
    })
}

impl FromStr for Calibrant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((name, spacings)) =
            table_rows().find(|(name, _)| name.eq_ignore_ascii_case(text))
        {
            let spacings = spacings.split(' ').filter_map(|spacing| spacing.parse().ok()).collect();
            return Ok(Self::Known { name: name.to_owned(), spacings });
        }
        if let Some(mut spacings) = text.split(',').map(parse_spacing).collect::<Option<Vec<f64>>>()
        {
            spacings.sort_by(|a, b| b.total_cmp(a));
            return Ok(Self::Known { name: format!("d = {text} Å"), spacings });
        }
        if text.contains(['/', '.']) {
            return Ok(Self::File(text.into()));
        }
        Err(format!(
            "expected a name ({}), a file of d-spacings, or d-spacings in angstrom such as 4.157,2.939",
            Self::known_names().collect::<Vec<_>>().join(", ")
        ))
    }
}

fn parse_spacing(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|spacing: &f64| spacing.is_finite() && *spacing > 0.0)
}

/// Reads a file like pyFAI's `.D` files: spacings, mostly one per line, and comments behind `#`.
/// Like pyFAI, takes every word before the comment as a spacing.
fn read_spacings(path: &Path) -> Result<Vec<f64>, String> {
    let text = system::untrusted_file::read_text(path).map_err(|why| why.to_string())?;
    let mut spacings = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for word in line.split('#').next().unwrap_or_default().split_whitespace() {
            let expected = || format!("line {number}: {word}: expected a d-spacing in angstrom");
            spacings.push(parse_spacing(word).ok_or_else(expected)?);
        }
    }
    if spacings.is_empty() {
        return Err("no d-spacings; expected one per line, in angstrom".to_owned());
    }
    spacings.sort_by(|a, b| b.total_cmp(a));
    Ok(spacings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calibrants_are_known_by_name_and_given_by_spacings() {
        let spacings = |text: &str| text.parse::<Calibrant>().unwrap().spacings().unwrap();
        assert_eq!(spacings("lab6")[..3], [4.156826, 2.93932, 2.399945]);
        assert_eq!(spacings("2.4, 4.157"), [4.157, 2.4]);
        assert!(Calibrant::known_names().all(|name| spacings(name).is_sorted_by(|a, b| a > b)));
        let why = "unobtainium".parse::<Calibrant>().unwrap_err();
        assert!(why.contains("LaB6") && why.contains("4.157,2.939"), "{why}");
    }

    #[test]
    fn files_of_pyfai_are_read_and_others_refused() {
        let place = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            let path = place.path().join("x.D");
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().parse::<Calibrant>().unwrap().spacings()
        };
        assert_eq!(read("# Calibrant: x\n\n  2.5 # (1 0 0) 6\n 3.5\n"), Ok(vec![3.5, 2.5]));
        assert_eq!(
            read("# nothing\n").unwrap_err(),
            "no d-spacings; expected one per line, in angstrom"
        );
        assert_eq!(read("2.5 3.5 # all\n4.5\n"), Ok(vec![4.5, 3.5, 2.5]));
        for bad in ["x", "nan", "-1", "0"] {
            let expected = format!("line 2: {bad}: expected a d-spacing in angstrom");
            assert_eq!(read(&format!("2.5\n4.15 {bad}\n")).unwrap_err(), expected);
        }
    }

    #[test]
    fn rings_follow_braggs_law() {
        // λ = d: sin θ = 1/2.
        let angles = ring_angles(&[2.0, 1.0, 0.4], 1.0);
        assert_eq!(angles.len(), 2);
        assert!((angles[1] - 60.0).abs() < 1e-12);
    }
}
