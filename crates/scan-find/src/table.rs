//! The table of scans that a terminal shows in place of the records.

use std::collections::HashMap;
use std::path::PathBuf;

use filter::TerminalView;
use records::{Acquisition, Record, ScanState, format_count};

/// Headings of the columns, with the least width of each; the title comes last, because its length
/// varies most.
const COLUMNS: [(&str, usize); 8] = [
    ("ENTRY", 6),
    ("DETECTOR", 9),
    ("FRAMES", 7),
    ("MISSING", 7),
    ("SHAPE", 9),
    ("CODEC", 6),
    ("SIZE", 9),
    ("START", 16),
];

/// Columns whose values are aligned at the right, as numbers are.
const RIGHT_ALIGNED: [usize; 3] = [2, 3, 6];

/// Number of characters of a start time without its seconds: `2026-03-04T10:20`.
const MINUTES_LENGTH: usize = 16;

/// A table with a row for each scan and detector. Rows appear as scans are found, so that a column
/// only grows wider.
pub struct ScanTable {
    lists_counters: bool,
    widths: [usize; COLUMNS.len()],
    /// The file of the last row, which is a heading over its scans.
    file: Option<PathBuf>,
    /// The counts of each scan's last row, by its id: a scan that grows is shown again.
    counts: HashMap<String, ScanCounts>,
}

/// Counts of a scan, which the last line adds up.
struct ScanCounts {
    frames: u64,
    missing: u64,
    bytes: u64,
}

impl ScanTable {
    /// Creates an empty table. With `lists_counters`, the names of a scan's counters follow its
    /// row.
    pub fn new(lists_counters: bool) -> Self {
        Self {
            lists_counters,
            widths: COLUMNS.map(|(_, width)| width),
            file: None,
            counts: HashMap::new(),
        }
    }

    /// Formats cells in columns, followed by the title.
    fn format_row(&mut self, cells: &[String; COLUMNS.len()], title: &str) -> String {
        let mut row = String::new();
        for (column, cell) in cells.iter().enumerate() {
            let width = self.widths[column].max(cell.chars().count());
            self.widths[column] = width;
            if RIGHT_ALIGNED.contains(&column) {
                row += &format!("{cell:>width$}  ");
            } else {
                row += &format!("{cell:<width$}  ");
            }
        }
        row += title;
        row.trim_end().to_owned()
    }

    fn format_scan(&mut self, id: &str, scan: &Acquisition) -> String {
        let missing = count_missing(scan);
        let bytes = scan.sources.iter().fold(0_u64, |sum, source| sum.saturating_add(source.bytes));
        self.counts.insert(id.to_owned(), ScanCounts { frames: scan.frames, missing, bytes });
        let mut lines = Vec::new();
        if self.file.as_deref() != Some(&*scan.file) {
            if self.file.is_none() {
                lines.push(
                    self.format_row(&COLUMNS.map(|(heading, _)| heading.to_owned()), "TITLE"),
                );
            }
            lines.push(scan.file.display().to_string());
            self.file = Some(scan.file.to_path_buf());
        }
        let start = scan.start_time.as_deref().unwrap_or("-");
        let cells = [
            scan.entry.clone(),
            scan.detector.clone(),
            scan.frames.to_string(),
            if missing == 0 { "-".to_owned() } else { missing.to_string() },
            format!("{}x{}", scan.shape[0], scan.shape[1]),
            scan.codec.clone(),
            format_size(bytes),
            start.chars().take(MINUTES_LENGTH).collect::<String>().replacen('T', " ", 1),
        ];
        let state = match scan.scan_state() {
            ScanState::Running => " (running)",
            ScanState::Aborted => " (aborted)",
            ScanState::Unknown | ScanState::Ended => "",
        };
        let title = scan.title.as_deref().unwrap_or_default();
        lines.push(self.format_row(&cells, &format!("{title}{state}")));
        if self.lists_counters {
            let counters: Vec<&str> = scan.counters.keys().map(String::as_str).collect();
            lines.push(format!(
                "    counters: {}",
                if counters.is_empty() { "none".to_owned() } else { counters.join(", ") }
            ));
        }
        lines.join("\n")
    }
}

impl TerminalView for ScanTable {
    fn format(&mut self, record: &Record) -> Option<String> {
        match record {
            Record::Scan(scan) => Some(self.format_scan(&scan.id, &scan.acquisition)),
            // stderr has its message.
            Record::Fail(_) => Some(String::new()),
            _ => None,
        }
    }

    fn format_end(&mut self) -> String {
        if self.counts.is_empty() {
            return String::new();
        }
        let sum = |field: fn(&ScanCounts) -> u64| {
            self.counts.values().map(field).fold(0, u64::saturating_add)
        };
        let missing = match sum(|scan| scan.missing) {
            0 => String::new(),
            missing => format!(" ({missing} missing)"),
        };
        let (scans, frames) = (
            format_count(self.counts.len() as u64, "scan"),
            format_count(sum(|scan| scan.frames), "frame"),
        );
        format!("{scans}, {frames}{missing}, {}", format_size(sum(|scan| scan.bytes)))
    }
}

/// Counts the frames that the scan should have and has not.
fn count_missing(scan: &Acquisition) -> u64 {
    let losses = scan.absent.iter().filter(|absent| absent.kind.is_loss());
    losses.fold(0, |sum, absent| sum.saturating_add(absent.range.count()))
}

/// Formats a number of bytes with a binary prefix and two significant digits at least: `2.1 GiB`.
fn format_size(bytes: u64) -> String {
    const PREFIXES: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut size = bytes as f64 / 1024.0;
    let mut prefix = 0;
    while size >= 1023.5 && prefix + 1 < PREFIXES.len() {
        size /= 1024.0;
        prefix += 1;
    }
    let decimals = usize::from(size < 9.95);
    format!("{size:.decimals$} {}", PREFIXES[prefix])
}

#[cfg(test)]
mod tests {
    use records::{Absent, AbsentKind, Scan, Source, Span};

    use super::*;

    fn scan(entry: &str, absent: u64) -> Record {
        let missing = Absent {
            range: Span::new(0, absent).into(),
            kind: AbsentKind::Missing,
            reason: String::new(),
        };
        let acquisition = Acquisition {
            file: "/raw/LaB6.h5".into(),
            entry: entry.to_owned(),
            detector: "pilatus".to_owned(),
            title: Some("loopscan 1000 0.1".to_owned()),
            start_time: Some("2026-03-04T10:20:30.123456+01:00".to_owned()),
            end_time: (entry == "1.1").then(|| "2026-03-04T10:25:30+01:00".to_owned()),
            frames: 1000,
            shape: [619, 487],
            codec: "bslz4".to_owned(),
            counters: [("mon".to_owned(), "/1.1/measurement/mon".to_owned())].into(),
            sources: vec![Source { bytes: 123_456_789, ..Source::default() }],
            absent: if absent > 0 { vec![missing] } else { Vec::new() },
            ..Acquisition::default()
        };
        Scan { id: entry.to_owned(), acquisition }.into()
    }

    #[test]
    fn a_scan_is_a_row_below_its_file() {
        let mut table = ScanTable::new(false);
        let first = table.format(&scan("1.1", 0)).expect("a row");
        let second = table.format(&scan("2.1", 20)).expect("a row");
        assert_eq!(
            format!("{first}\n{second}\n{}", table.format_end()),
            "\
ENTRY   DETECTOR    FRAMES  MISSING  SHAPE      CODEC        SIZE  START             TITLE
/raw/LaB6.h5
1.1     pilatus       1000        -  619x487    bslz4     118 MiB  2026-03-04 10:20  loopscan 1000 0.1
2.1     pilatus       1000       20  619x487    bslz4     118 MiB  2026-03-04 10:20  loopscan 1000 0.1 (running)
2 scans, 2000 frames (20 missing), 235 MiB"
        );
    }

    #[test]
    fn a_scan_that_is_shown_again_counts_once() {
        let mut table = ScanTable::new(false);
        for absent in [20, 0] {
            table.format(&scan("2.1", absent)).expect("a row");
        }
        assert_eq!(table.format_end(), "1 scan, 1000 frames, 118 MiB");
    }

    #[test]
    fn counters_follow_a_row() {
        let shown = ScanTable::new(true).format(&scan("1.1", 0)).expect("a row");
        assert_eq!(shown.lines().last(), Some("    counters: mon"));
    }

    #[test]
    fn sizes_have_two_digits_and_never_four() {
        for (bytes, expected) in [
            (0, "0.0 KiB"),
            (1024, "1.0 KiB"),
            (1_048_575, "1.0 MiB"),
            (10 << 30, "10 GiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(format_size(bytes), expected);
        }
    }
}
