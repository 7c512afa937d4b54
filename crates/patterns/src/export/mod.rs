//! Patterns as text, for programs that read columns: XYE, pyFAI's dat, CSV.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use manners::atomic;

use crate::finals::{Averaged, Final};

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Three columns, radial, intensity and error, without a header and without bins that hold nothing:
    /// what GSAS, TOPAS and FullProf read.
    Xye,
    /// Columns under a header of `#` lines, as pyFAI saves patterns.
    Dat,
    /// Comma-separated, with a line of names.
    Csv,
}

/// Why there is no export.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The final has no average.
    #[error("{}: no average to export", path.display())]
    NoAverage {
        /// The final.
        path: PathBuf,
    },
    /// A cake in a format of patterns.
    #[error("{}: a cake of {azimuthal} by {radial} bins: expected a pattern", path.display())]
    Cake {
        /// The final.
        path: PathBuf,
        /// Azimuthal bins.
        azimuthal: usize,
        /// Radial bins.
        radial: usize,
    },
    /// The file can't be written.
    #[error("{}: {why}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the file system said.
        why: std::io::Error,
    },
}

impl Format {
    /// The end of the files' names, and the format's own.
    pub fn name(self) -> &'static str {
        match self {
            Self::Xye => "xye",
            Self::Dat => "dat",
            Self::Csv => "csv",
        }
    }
}

/// Writes the average of a final beside it, and says where.
///
/// # Errors
/// A final without an average; a cake; a file that can't be written.
pub fn write(of: &Final, format: Format) -> Result<PathBuf, Error> {
    let averaged = of.averaged.as_ref().ok_or_else(|| Error::NoAverage { path: of.path.clone() })?;
    if let [azimuthal, radial] = of.shared.axes.shape()[..] {
        return Err(Error::Cake { path: of.path.clone(), azimuthal, radial });
    }
    let path = of.path.with_extension(format.name());
    atomic::write(&path, text(of, averaged, format)).map_err(|why| Error::Io { path: path.clone(), why })?;
    Ok(path)
}

fn text(of: &Final, averaged: &Averaged, format: Format) -> String {
    let axis = &of.shared.axes.radial;
    let mut out = match (format, &averaged.errors) {
        (Format::Xye, _) => String::new(),
        (Format::Dat, _) => dat_header(of, averaged),
        (Format::Csv, Some(_)) => format!("{},intensity,error\n", axis.name),
        (Format::Csv, None) => format!("{},intensity\n", axis.name),
    };
    for (bin, (center, intensity)) in axis.centers.iter().zip(&averaged.intensity).enumerate() {
        let error = averaged.errors.as_ref().map(|errors| errors[bin]);
        let columns = [Some(*center), Some(*intensity), error];
        let columns = columns.into_iter().flatten();
        let line = match format {
            Format::Xye if !intensity.is_finite() => continue,
            Format::Xye => columns.map(number).collect::<Vec<_>>().join(" "),
            Format::Dat => columns.map(|value| format!("{:>14}", number(value))).collect::<Vec<_>>().join("  "),
            Format::Csv => columns.map(number).collect::<Vec<_>>().join(","),
        };
        out.push_str(&line);
        out.push('\n');
    }
    out
}

fn dat_header(of: &Final, averaged: &Averaged) -> String {
    let (axis, scan) = (&of.shared.axes.radial, &of.task.acquisition);
    let mut header = String::new();
    let mut line = |text: &str| writeln!(header, "# {text}").expect("a string takes all text");
    line(&format!(
        "== {} of {} frames, azpipe {} ==",
        averaged.average.name(),
        averaged.frames,
        env!("CARGO_PKG_VERSION")
    ));
    line(&format!("File: {}", one_line(&scan.file)));
    line(&format!("Entry: {} Detector: {}", scan.entry, scan.detector));
    of.recipe.poni.lines().for_each(|text| line(text.trim_start_matches(['#', ' '])));
    line(&format!("Recipe digest: {}", of.task.recipe_digest));
    let error = if averaged.errors.is_some() { format!("{:>14}", "sigma") } else { String::new() };
    line(&format!("{:>12}  {:>14}  {error}", axis.label(), "I"));
    header
}

fn one_line(path: &Path) -> String {
    path.to_string_lossy().replace(['\n', '\r'], " ")
}

/// As C prints `%.6e`, with more digits: programs of all ages read it.
fn number(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    let text = format!("{value:.8e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_look_as_c_prints_them() {
        assert_eq!(
            [1234.5, -0.00025, 0.0, 1e123].map(super::number),
            ["1.23450000e+03", "-2.50000000e-04", "0.00000000e+00", "1.00000000e+123"]
        );
    }
}
