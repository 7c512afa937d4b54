//! [`ScanProgress`]: how far a scan was when a task record was made.

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
}
