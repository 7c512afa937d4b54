//! Comma-separated values: a line of names, and one line per bin.

use std::path::PathBuf;

use system::ownership::ReplacePolicy;

use super::columns::{format_number, format_rows};
use super::text_files::write_text_files;
use super::{ExportContent, ExportError, ExportFormat, PatternReduction};
use crate::output::{AveragePattern, OutputFile};

/// The format.
pub(super) struct Csv;

impl ExportFormat for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn help(&self) -> &'static str {
        "An averaged pattern as comma-separated values below the names of the columns"
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
        write_text_files(self, output, reduction, policy, |pattern, _| {
            Ok(format_csv(output, pattern))
        })
    }
}

fn format_csv(output: &OutputFile, pattern: &AveragePattern) -> String {
    let error = if pattern.errors.is_some() { ",error" } else { "" };
    let header = format!("{},intensity{error}\n", output.shared.axes.radial.name);
    header
        + &format_rows(output, pattern, |columns| {
            Some(columns.iter().map(|value| format_number(*value)).collect::<Vec<_>>().join(","))
        })
}
