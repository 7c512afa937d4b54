//! [`Standard`]: a sample of known cross-section, from which calibration factors are measured.

use std::fmt;
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use system::untrusted_file;

use super::{ExportError, glassy_carbon};

/// Cross-section of water at 20 °C in 1/cm per steradian, which does not depend on q where angles
/// are small. Source: D. Orthaber, A. Bergmann and O. Glatter, J. Appl. Cryst. 33, 218 (2000).
const WATER: f64 = 1.632e-2;
/// Range of q in 1/angstrom in which water is compared: that of the plateau that ATSAS's
/// databsolute takes.
const WATER_RANGE: [f64; 2] = [0.2, 0.5];
/// Largest q in 1/angstrom at which water can be asked to be compared.
const MAX_WATER_Q: f64 = 1.0;

/// Cross-sections in 1/cm that a file may have.
const CROSS_SECTIONS: RangeInclusive<f64> = 1e-12..=1e12;

/// A sample of known cross-section: a value of `gather --calibrate`.
#[derive(Clone, Debug, PartialEq)]
pub struct Standard {
    /// Name of the standard, or path of the file.
    name: String,
    /// Values by ascending q.
    rows: Vec<Row>,
    /// Unit of q.
    q_unit: QUnit,
    /// Range of q that is compared, if it is not that of all values.
    range: Option<[f64; 2]>,
}

/// Cross-section at one q.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Row {
    q: f64,
    /// dΣ/dΩ in 1/cm.
    value: f64,
    /// Standard error over the value, if it is known.
    relative_error: Option<f64>,
}

/// Unit of a standard's q.
#[derive(Clone, Copy, Debug, PartialEq)]
enum QUnit {
    InverseAngstrom,
    /// The unit of the patterns that are compared.
    OfPatterns,
}

/// Cross-section of a standard, interpolated.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownValue {
    /// dΣ/dΩ in 1/cm.
    pub value: f64,
    /// Standard error over the value, if it is known.
    pub relative_error: Option<f64>,
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Standard {
    /// Names of the standards that are not files.
    pub const NAMES: [&str; 2] = ["glassy-carbon", "water"];

    /// Returns the standard of this name, or reads a text file: columns of q in the unit of the
    /// patterns, dΣ/dΩ in 1/cm and, if it is known, its standard error; separated by blanks or a
    /// comma. Lines that begin with # are left out, and a first line of names. The errors are those of
    /// one scale: they are common to all rows.
    ///
    /// # Errors
    /// Fails if the file can't be read or is no such table.
    pub fn open(name: &Path) -> Result<Self, ExportError> {
        let shown = name.display().to_string();
        match name.to_str() {
            Some("glassy-carbon") => return Ok(Self::glassy_carbon(shown)),
            Some("water") => return Ok(Self::water(shown)),
            _ => (),
        }
        let path: PathBuf = name.to_owned();
        let text = untrusted_file::read_text(name).map_err(|why| match why.kind() {
            ErrorKind::NotFound => ExportError::Reduction {
                path: path.clone(),
                why: format!("{why}; expected {} or a file", Self::NAMES.join(", ")),
            },
            _ => ExportError::Io { path: path.clone(), why },
        })?;
        let rows = parse_rows(&text).map_err(|why| ExportError::Reduction { path, why })?;
        Ok(Self { name: shown, rows, q_unit: QUnit::OfPatterns, range: None })
    }

    fn glassy_carbon(name: String) -> Self {
        let relative_error = Some(glassy_carbon::RELATIVE_ERROR);
        let rows = glassy_carbon::CROSS_SECTION.map(|(q, value)| Row { q, value, relative_error });
        Self { name, rows: rows.to_vec(), q_unit: QUnit::InverseAngstrom, range: None }
    }

    fn water(name: String) -> Self {
        let rows = [0.0, MAX_WATER_Q].map(|q| Row { q, value: WATER, relative_error: None });
        let (q_unit, range) = (QUnit::InverseAngstrom, Some(WATER_RANGE));
        Self { name, rows: rows.to_vec(), q_unit, range }
    }

    /// Returns the number of units of patterns, of which `per_inverse_nm` are 1/nm, in the unit of q.
    fn unit(&self, per_inverse_nm: f64) -> f64 {
        match self.q_unit {
            QUnit::InverseAngstrom => 10.0 * per_inverse_nm,
            QUnit::OfPatterns => 1.0,
        }
    }

    /// Returns the range of q that is compared unless another one is asked for, in a unit of which
    /// `per_inverse_nm` are 1/nm.
    pub(super) fn range(&self, per_inverse_nm: f64) -> [f64; 2] {
        let ends = |rows: &[Row]| [rows[0].q, rows[rows.len().saturating_sub(1)].q];
        self.range.unwrap_or_else(|| ends(&self.rows)).map(|q| q * self.unit(per_inverse_nm))
    }

    /// Returns the cross-section at q, linear between two values; `None` outside of all values.
    pub(super) fn at(&self, q: f64, per_inverse_nm: f64) -> Option<KnownValue> {
        let q = q / self.unit(per_inverse_nm);
        let above = self.rows.partition_point(|row| row.q < q);
        let high = self.rows.get(above)?;
        let low = match above.checked_sub(1) {
            Some(below) => self.rows[below],
            None if high.q == q => *high,
            None => return None,
        };
        let part = if high.q > low.q { (q - low.q) / (high.q - low.q) } else { 0.0 };
        let between = |low: f64, high: f64| low + part * (high - low);
        Some(KnownValue {
            value: between(low.value, high.value),
            relative_error: low
                .relative_error
                .zip(high.relative_error)
                .map(|(low, high)| between(low, high)),
        })
    }
}

/// Reads the rows of a table.
fn parse_rows(text: &str) -> Result<Vec<Row>, String> {
    const EXPECTED: &str = "expected columns of q, dΣ/dΩ in 1/cm and its error";
    let mut rows: Vec<Row> = Vec::new();
    let mut columns = None;
    let mut has_names = false;
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let number = index.saturating_add(1);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<&str> =
            line.split([' ', '\t', ',', ';']).filter(|word| !word.is_empty()).collect();
        let parsed: Result<Vec<f64>, _> = words.iter().map(|word| word.parse()).collect();
        let Ok(numbers) = parsed else {
            let has_number = words.iter().any(|word| word.parse::<f64>().is_ok());
            if rows.is_empty() && !has_names && !has_number {
                has_names = true;
                continue;
            }
            return Err(format!("line {number} has other words than numbers; {EXPECTED}"));
        };
        if has_decimal_commas(line) {
            return Err(format!(
                "line {number}: {line}: the comma may be a decimal one; expected decimal points, and \
                 blanks or commas between columns"
            ));
        }
        if *columns.get_or_insert(numbers.len()) != numbers.len() {
            return Err(format!(
                "line {number} has another number of columns than the lines before; {EXPECTED}"
            ));
        }
        let (q, value, error) = match numbers[..] {
            [q, value] => (q, value, None),
            [q, value, error] => (q, value, Some(error)),
            _ => return Err(format!("line {number} has {} columns; {EXPECTED}", numbers.len())),
        };
        let has_usable_error = error.is_none_or(|error| (0.0..value).contains(&error));
        if !(q.is_finite() && q >= 0.0 && CROSS_SECTIONS.contains(&value) && has_usable_error) {
            let (least, most) = (CROSS_SECTIONS.start(), CROSS_SECTIONS.end());
            return Err(format!(
                "line {number}: {line}: expected q of 0 or more, dΣ/dΩ from {least:e} to {most:e}, and \
                 an error of 0 or more that is less than dΣ/dΩ"
            ));
        }
        if rows.last().is_some_and(|before| before.q >= q) {
            return Err(format!("line {number}: q is {q}, and not above that of the line before"));
        }
        rows.push(Row { q, value, relative_error: error.map(|error| error / value) });
    }
    match rows.len() {
        0 | 1 => Err(format!("{} lines of numbers; {EXPECTED} in two lines or more", rows.len())),
        _ => Ok(rows),
    }
}

/// Returns whether a comma stands within a word of a line whose words are separated otherwise, too.
fn has_decimal_commas(line: &str) -> bool {
    let words: Vec<&str> =
        line.split([' ', '\t', ';']).filter(|word| !word.trim_matches(',').is_empty()).collect();
    words.len() > 1 && words.iter().any(|word| word.trim_matches(',').contains(','))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certified_table_is_in_order_and_has_its_ends() {
        let table = &glassy_carbon::CROSS_SECTION;
        assert!(table.is_sorted_by(|one, next| one.0 < next.0 && one.1 > next.1));
        assert_eq!((table[0], table[58]), ((0.008_275_68, 34.93338), (0.247_402, 4.463_604)));
        let standard = Standard::open(Path::new("glassy-carbon")).unwrap();
        let (first, last) = (standard.at(0.082_756_8, 1.0), standard.at(0.247_402, 0.1));
        assert!((first.unwrap().value - 34.93338).abs() < 1e-9);
        assert!((last.unwrap().value - 4.463_604).abs() < 1e-9);
        assert!((standard.at(1.0, 1.0).unwrap().value - 23.6816).abs() < 1e-3);
        assert!(standard.at(0.08, 1.0).is_none() && standard.at(2.48, 1.0).is_none());
    }

    #[test]
    fn water_is_flat() {
        let standard = Standard::open(Path::new("water")).unwrap();
        assert_eq!(standard.range(1.0), [2.0, 5.0]);
        assert_eq!(standard.at(3.0, 1.0).unwrap().value, 1.632e-2);
    }

    #[test]
    fn a_table_has_two_or_three_columns_of_numbers() {
        let rows = parse_rows("# a note\nq,I,error\n0.1, 4, 0.2\n\n0.2;2;0.2\n").unwrap();
        let row = |q, value, relative_error| Row { q, value, relative_error };
        assert_eq!(rows, [row(0.1, 4.0, Some(0.05)), row(0.2, 2.0, Some(0.1))]);
        for text in ["0\t1\n1\t1", "0, 1\n1 ,1", "0,1\n1,1", "0 , 1\n1;1"] {
            assert_eq!(parse_rows(text).unwrap(), [row(0.0, 1.0, None), row(1.0, 1.0, None)]);
        }
        for (wrong, why) in [
            ("", "0 lines of numbers"),
            ("1 2", "1 lines of numbers"),
            ("q I\nq I\n1 2\n2 2", "line 2 has other words"),
            ("1 2\n2 two", "line 2 has other words"),
            ("1 2\n2 2 2", "line 2 has another number of columns"),
            ("1\n2", "line 1 has 1 columns"),
            ("1 2 3 4\n", "line 1 has 4 columns"),
            ("2 2\n1 2", "line 2: q is 1"),
            ("1 2\n1 2", "line 2: q is 1"),
            ("1 0\n", "line 1: 1 0:"),
            ("-1 1", "line 1: -1 1:"),
            ("1 1 nan", "line 1: 1 1 nan:"),
            ("inf 1", "line 1: inf 1:"),
            ("1 1 1", "line 1: 1 1 1:"),
            ("1 1e-13", "line 1: 1 1e-13:"),
            ("1 1e13", "line 1: 1 1e13:"),
            ("0,1o 2\n1 2\n2 2", "line 1 has other words"),
            ("q 1\n1 2\n2 2", "line 1 has other words"),
            ("1,5 20", "line 1: 1,5 20: the comma may be a decimal one"),
            ("1,5;20", "line 1: 1,5;20: the comma may be a decimal one"),
            ("1,2, 3", "line 1: 1,2, 3: the comma may be a decimal one"),
        ] {
            let error = parse_rows(wrong).unwrap_err();
            assert!(error.starts_with(why), "{wrong:?}: {error}");
        }
    }
}
