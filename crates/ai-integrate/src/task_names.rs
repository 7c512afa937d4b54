//! Names of scans and tasks in messages and in the progress.

use records::{Acquisition, Task, format_frames};

use crate::error::MAX_RANGES_IN_MESSAGE;

/// Names a scan in the progress: its file, which is shown without its directory, and its entry.
pub fn describe_scan(scan: &Acquisition) -> String {
    let name = scan
        .file
        .file_name()
        .map_or_else(|| scan.file.display().to_string(), |name| name.display().to_string());
    format!("{name} {}", scan.entry)
}

/// Names a task in messages by its scan and frames, because nobody knows a task by its id.
pub fn describe_task(task: &Task) -> String {
    format!(
        "{}, {}",
        describe_scan(&task.acquisition),
        format_frames(&task.range, MAX_RANGES_IN_MESSAGE)
    )
}
