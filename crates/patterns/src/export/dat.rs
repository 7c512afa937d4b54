//! Columns under a header of `#` lines, with one line per bin, as pyFAI saves patterns.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use system::ownership::ReplacePolicy;

use super::columns::{format_number, format_rows};
use super::text_files::write_text_files;
use super::{AbsoluteScale, ExportContent, ExportError, ExportFormat, PatternReduction};
use crate::output::{AveragePattern, OutputFile};

/// The format.
pub(super) struct Dat;

impl ExportFormat for Dat {
    fn name(&self) -> &'static str {
        "dat"
    }

    fn help(&self) -> &'static str {
        "An averaged pattern in columns below a header, as pyFAI writes them"
    }

    fn content(&self) -> ExportContent {
        ExportContent::Averages
    }

    fn write(
        &self,
        output: &OutputFile,
        reduction: Option<PatternReduction>,
        policy: &ReplacePolicy,
    ) -> Result<Vec<PathBuf>, ExportError> {
        write_text_files(self, output, reduction, policy, |pattern, title| {
            Ok(format_dat(output, reduction, pattern, title))
        })
    }
}

fn format_dat(
    output: &OutputFile,
    reduction: Option<PatternReduction>,
    pattern: &AveragePattern,
    title: &str,
) -> String {
    let column = |value: &f64| format!("{:>14}", format_number(*value));
    let header = format_header(output, reduction, pattern, title);
    header
        + &format_rows(output, pattern, |columns| {
            Some(columns.iter().map(column).collect::<Vec<_>>().join("  "))
        })
}

fn format_header(
    output: &OutputFile,
    reduction: Option<PatternReduction>,
    pattern: &AveragePattern,
    title: &str,
) -> String {
    let (axis, scan) = (&output.shared.axes.radial, &output.task.acquisition);
    let mut header = String::new();
    let mut line = |text: &str| writeln!(header, "# {text}").expect("a string takes all text");
    line(&format!("== {title}, azpipe {} ==", env!("CARGO_PKG_VERSION")));
    line(&format!("File: {}", one_line(&scan.file)));
    line(&format!("Entry: {} Detector: {}", scan.entry, scan.detector));
    match output.recipe.common_poni() {
        Some(poni) => poni.lines().for_each(|text| line(text.trim_start_matches(['#', ' ']))),
        None => line("Geometry: differs between frames; it is in the recipe of the final file"),
    }
    line(&format!("Recipe digest: {}", output.task.recipe_digest));
    if let Some(AbsoluteScale { thickness, factor }) = reduction.and_then(|of| of.absolute) {
        line(&format!("thickness_cm: {}", thickness.0));
        line(&format!("calibration_factor: {}", factor.value));
        if let Some(error) = factor.error {
            line(&format!("calibration_factor_error: {error}"));
        }
    }
    let error = if pattern.errors.is_some() { format!("{:>14}", "sigma") } else { String::new() };
    line(&format!("{:>12}  {:>14}  {error}", axis.label(), "I"));
    header
}

fn one_line(path: &Path) -> String {
    path.to_string_lossy().replace(['\n', '\r'], " ")
}
