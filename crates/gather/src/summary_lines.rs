//! The lines that a terminal shows in place of the summary records.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use filter::TerminalView;
use records::{Record, ScanState, Summary, format_count};
use serde_json::Value;

/// The largest number of reasons for missing frames that a line names.
const MAX_REASONS: usize = 3;

/// A line for each final file that was written or looked at, and a closing line with the sums.
#[derive(Default)]
pub struct SummaryLines {
    /// Paths below it are shortened.
    working_directory: Option<PathBuf>,
    /// Frames, and frames with a pattern, of the last summary with each id.
    counts: HashMap<String, (u64, u64)>,
}

impl SummaryLines {
    /// Creates the view; paths below `working_directory` are shown relative to it.
    pub fn new(working_directory: Option<PathBuf>) -> Self {
        Self { working_directory, ..Self::default() }
    }

    fn shorten<'p>(&self, path: &'p Path) -> &'p Path {
        self.working_directory
            .as_deref()
            .and_then(|directory| path.strip_prefix(directory).ok())
            .unwrap_or(path)
    }
}

impl TerminalView for SummaryLines {
    fn format(&mut self, record: &Record) -> Option<String> {
        match record {
            Record::Summary(summary) => {
                self.counts.insert(summary.id.clone(), (summary.frames, summary.integrated));
                let path = self.shorten(&summary.final_file).display();
                let factor = describe_calibration(summary);
                Some(format!("{path}: {}{factor}", describe_frames(summary)))
            }
            // stderr has its message.
            Record::Fail(_) => Some(String::new()),
            _ => None,
        }
    }

    fn format_end(&mut self) -> String {
        if self.counts.is_empty() {
            return String::new();
        }
        let (frames, integrated) = self
            .counts
            .values()
            .fold((0, 0), |sums, counts| (sums.0 + counts.0, sums.1 + counts.1));
        format!(
            "{}: {}",
            format_count(self.counts.len() as u64, "final file"),
            describe_share(integrated, frames)
        )
    }
}

/// Describes how many frames have a pattern.
fn describe_share(integrated: u64, frames: u64) -> String {
    if integrated == frames {
        format!("{}, all with a pattern", format_count(frames, "frame"))
    } else {
        format!("{integrated} of {} have a pattern", format_count(frames, "frame"))
    }
}

/// Describes how many frames of a scan have a pattern, why others have none, and whether more are
/// to come.
fn describe_frames(summary: &Summary) -> String {
    let mut text = describe_share(summary.integrated, summary.frames);
    let mut counts: Vec<(&str, u64)> = Vec::new();
    for absent in &summary.missing {
        // The reason continues with the file, of which there may be thousands.
        let reason = absent.reason.split(": ").next().unwrap_or_default();
        match counts.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += absent.range.count(),
            None => counts.push((reason, absent.range.count())),
        }
    }
    let reasons: Vec<String> = counts
        .iter()
        .take(MAX_REASONS)
        .map(|(reason, count)| format!("{reason}: {count}"))
        .collect();
    if !reasons.is_empty() {
        text += &format!(
            " ({}{})",
            reasons.join(", "),
            if counts.len() > MAX_REASONS { ", …" } else { "" }
        );
    }
    text += match summary.scan_state {
        ScanState::Running => "; the scan is running",
        ScanState::Aborted => "; the scan was aborted",
        ScanState::Unknown | ScanState::Ended => "",
    };
    text
}

/// Describes the calibration factor that was measured, if there is one, as `--calibration-factor`
/// takes it.
fn describe_calibration(summary: &Summary) -> String {
    let number = |field| summary.extra.get(field).and_then(Value::as_f64);
    let factor = number("calibration_factor").zip(number("calibration_error"));
    factor
        .map(|(factor, error)| format!("; calibration factor {factor:.6e},{error:.1e}"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use records::{Absent, AbsentKind, Span};

    use super::*;

    fn summary(id: &str, integrated: u64, missing: Vec<Absent>) -> Record {
        Summary {
            id: id.to_owned(),
            final_file: format!("/work/PROCESSED/{id}.h5").into(),
            frames: 1000,
            integrated,
            missing,
            ..Summary::default()
        }
        .into()
    }

    fn absent(start: u64, stop: u64, reason: &str) -> Absent {
        Absent {
            range: Span::new(start, stop).into(),
            kind: AbsentKind::Missing,
            reason: reason.to_owned(),
        }
    }

    #[test]
    fn a_measured_factor_is_shown() {
        let Record::Summary(mut summary) = summary("a", 1000, Vec::new()) else { unreachable!() };
        for (field, value) in [("calibration_factor", 0.0123), ("calibration_error", 0.0004)] {
            summary.extra.insert(field.to_owned(), value.into());
        }
        let line = SummaryLines::new(Some("/work".into())).format(&Record::Summary(summary));
        let expected = "PROCESSED/a.h5: 1000 frames, all with a pattern; calibration factor 1.230000e-2,4.0e-4";
        assert_eq!(line.as_deref(), Some(expected));
    }

    #[test]
    fn a_final_is_a_line_and_the_sum_counts_it_once() {
        let mut lines = SummaryLines::new(Some("/work".into()));
        lines.format(&summary("a", 10, Vec::new())).expect("a line");
        let line = lines.format(&summary("a", 1000, Vec::new()));
        assert_eq!(line.as_deref(), Some("PROCESSED/a.h5: 1000 frames, all with a pattern"));
        let missing = vec![
            absent(0, 3, "file missing: p3_0000.h5"),
            absent(10, 12, "file missing: p3_0001.h5"),
            absent(20, 21, "not written: p3_0002.h5"),
        ];
        let line = lines.format(&summary("b", 994, missing));
        let expected =
            "PROCESSED/b.h5: 994 of 1000 frames have a pattern (file missing: 5, not written: 1)";
        assert_eq!(line.as_deref(), Some(expected));
        assert_eq!(lines.format_end(), "2 final files: 1994 of 2000 frames have a pattern");
    }
}
