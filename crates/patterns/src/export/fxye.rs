//! GSAS's format FXYE: powder data in free format, where each record has a position, an intensity
//! and its error.
//!
//! ```text
//! LaB6_0001 1.1 pilatus: mean of 60 frames, 0.4100 angstrom
//! BANK 1 2480 2480 CONST 134.521 1.702 0 0 FXYE
//!   1.34521000e+02  1.20000000e+01  1.00000000e-01
//! ```
//!
//! Positions are centidegrees of 2θ. The line `BANK` has the numbers of points and of records,
//! which are equal, the first position, and the step. If the axis is q, then 2θ = 2 arcsin(q λ /
//! 4π) has unequal steps, and the line has their mean; programs use the positions of the records.
//! Points without data, or without an error above zero, are left out, because a refinement can't
//! weight them. Patterns without an error model have an error of 1, because GSAS-II takes the weights
//! from the third column, and reads no record without one.

use std::f64::consts::PI;
use std::path::PathBuf;

use geometry::{Poni, Unit, quantity};
use system::ownership::ReplacePolicy;

use super::columns::format_number;
use super::text_files::write_text_files;
use super::{ExportContent, ExportError, ExportFormat, PatternReduction};
use crate::output::{AveragePattern, OutputFile};

/// Maximum length of a title.
const MAX_TITLE_CHARS: usize = 80;

/// The format.
pub(super) struct Fxye;

impl ExportFormat for Fxye {
    fn name(&self) -> &'static str {
        "fxye"
    }

    fn help(&self) -> &'static str {
        "An averaged pattern over 2theta in centidegrees without empty bins, for GSAS and GSAS-II; the unit must be 2theta or q; with --error-model no, each error is 1"
    }

    fn content(&self) -> ExportContent {
        ExportContent::Averages
    }

    fn missing_errors(&self) -> Option<&'static str> {
        Some("has an error of 1 at each point, so that all have the same weight in a refinement")
    }

    fn write(
        &self,
        output: &OutputFile,
        reduction: Option<PatternReduction>,
        policy: &ReplacePolicy,
    ) -> Result<Vec<PathBuf>, ExportError> {
        write_text_files(self, output, reduction, policy, |pattern, title| {
            format_fxye(output, pattern, title)
        })
    }
}

fn format_fxye(
    output: &OutputFile,
    pattern: &AveragePattern,
    average: &str,
) -> Result<String, ExportError> {
    let (positions, wavelength) = positions_in_centidegrees(output)?;
    let sigma = |bin: usize| match &pattern.errors {
        Some(errors) => errors[bin],
        // Readers expect three columns. Without an error model, all points have the same weight.
        None => 1.0,
    };
    let is_there = |bin: &usize| {
        pattern.intensity[*bin].is_finite() && sigma(*bin).is_finite() && sigma(*bin) > 0.0
    };
    let bins: Vec<usize> = (0..positions.len()).filter(is_there).collect();
    let (first, last) = (
        bins.first().map_or(0.0, |bin| positions[*bin]),
        bins.last().map_or(0.0, |bin| positions[*bin]),
    );
    let span =
        bins.first().zip(bins.last()).map_or(1, |(first, last)| last.abs_diff(*first).max(1));
    let scan = &output.task.acquisition;
    let stem = scan.file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut title = format!("{stem} {} {}: {average}", scan.entry, scan.detector);
    if let Some(wavelength) = wavelength {
        title += &format!(", {:.6} angstrom", wavelength * 1e10);
    }
    let title: String = title
        .chars()
        .map(|char| if char.is_control() { ' ' } else { char })
        .take(MAX_TITLE_CHARS)
        .collect();
    let (count, step) = (bins.len(), (last - first) / span as f64);
    let mut out = format!("{title}\nBANK 1 {count} {count} CONST {first:.6} {step:.6} 0 0 FXYE\n");
    for bin in bins {
        let record = [positions[bin], pattern.intensity[bin], sigma(bin)]
            .map(|value| format!("{:>16}", format_number(value)));
        out += &format!("{}\n", record.join(" "));
    }
    Ok(out)
}

/// Returns the centres of the bins in hundredths of a degree of 2θ, and the wavelength in metres if
/// it is known.
fn positions_in_centidegrees(output: &OutputFile) -> Result<(Vec<f64>, Option<f64>), ExportError> {
    let (path, format) = (|| output.path.clone(), Fxye.name());
    let axis = &output.shared.axes.radial;
    let unit = Unit::parse(&format!("{}_{}", axis.name, axis.units)).ok();
    let poni = Poni::parse(&output.recipe.poni);
    let wavelength = poni.as_ref().ok().and_then(|poni| poni.wavelength);
    let two_theta: Vec<f64> = match unit {
        Some(unit) if *unit.quantity() == quantity::TWO_THETA => {
            axis.centers.iter().map(|angle| angle / unit.scale()).collect()
        }
        Some(unit) if *unit.quantity() == quantity::Q => {
            let why = poni
                .err()
                .map_or_else(|| "the PONI file has none".to_owned(), |why| why.to_string());
            let wavelength =
                wavelength.ok_or_else(|| ExportError::Wavelength { path: path(), format, why })?
                    * 1e9;
            axis.centers
                .iter()
                .map(|q| 2.0 * (q / unit.scale() * wavelength / (4.0 * PI)).asin())
                .collect()
        }
        _ => {
            return Err(ExportError::Axis {
                path: path(),
                axis: axis.label(),
                wanted_by: format!("--export {format}"),
                expected: "2th or q",
            });
        }
    };
    Ok((two_theta.into_iter().map(|angle| angle.to_degrees() * 100.0).collect(), wavelength))
}
