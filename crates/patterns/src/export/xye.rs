//! Columns without a header: position, intensity and, with an error model, error. Bins without
//! data, or without an error above zero, are left out, because a refinement can't weight them.

use std::path::PathBuf;

use system::ownership::ReplacePolicy;

use super::columns::{format_number, format_rows};
use super::text_files::write_text_files;
use super::{ExportContent, ExportError, ExportFormat, PatternReduction};
use crate::output::{AveragePattern, OutputFile};

/// The format.
pub(super) struct Xye;

impl ExportFormat for Xye {
    fn name(&self) -> &'static str {
        "xye"
    }

    fn help(&self) -> &'static str {
        "An averaged pattern in three columns (x, intensity, error; without the last with --error-model no) without header and empty bins, for TOPAS and FullProf"
    }

    fn content(&self) -> ExportContent {
        ExportContent::Averages
    }

    fn missing_errors(&self) -> Option<&'static str> {
        Some(
            "has two columns, and programs assume errors, as GSAS-II does the root of the intensity",
        )
    }

    fn write(
        &self,
        output: &OutputFile,
        reduction: Option<PatternReduction>,
        policy: &ReplacePolicy,
    ) -> Result<Vec<PathBuf>, ExportError> {
        write_text_files(self, output, reduction, policy, |pattern, _| {
            Ok(format_xye(output, pattern))
        })
    }
}

fn format_xye(output: &OutputFile, pattern: &AveragePattern) -> String {
    format_rows(output, pattern, |columns| {
        let is_measured = columns[1].is_finite() && columns.get(2).is_none_or(|error| *error > 0.0);
        is_measured.then(|| {
            columns.iter().map(|value| format_number(*value)).collect::<Vec<_>>().join(" ")
        })
    })
}
