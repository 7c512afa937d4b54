//! [`ScanProgress`]: how far a scan was when a task record was made, and whether its raw file has changed
//! since.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use records::{ScanState, Task};

/// State of a scan when a task was made. A greater value is a later state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ScanProgress {
    /// True if the writer recorded the end. A scan that was aborted has fewer frames than it had
    /// while it was to take all.
    tells_end: bool,
    pub frames: u64,
    pub complete: bool,
    pub is_over: bool,
}

impl ScanProgress {
    /// Returns the state of the scan in a task record.
    pub fn new(task: &Task) -> Self {
        let scan = &task.acquisition;
        let is_over = scan.scan_state() != ScanState::Running;
        let tells_end = scan.end_time.is_some() || scan.end_reason.is_some();
        Self { tells_end, frames: scan.frames, complete: scan.complete, is_over }
    }

    /// Returns whether the scan has fewer frames than in another state, which doesn't tell its end.
    pub fn is_shorter(self, other: Self) -> bool {
        self.frames < other.frames && !other.tells_end
    }
}

/// How much later than the raw file a final file must have been written for the raw file to count as
/// unchanged since: clocks of machines differ.
const CLOCK_TOLERANCE: i64 = 3600;

/// Returns whether a raw file may have changed since a final file was written. One that is gone has
/// not.
pub(super) fn changed_since(raw: &Path, written: &Path) -> std::io::Result<bool> {
    let raw = match std::fs::metadata(raw) {
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        raw => raw?,
    };
    let written = std::fs::metadata(written)?;
    // A copy of an older file may keep its time of modification, but gets a new time of change.
    Ok(raw.mtime().max(raw.ctime()).saturating_add(CLOCK_TOLERANCE) >= written.mtime())
}
