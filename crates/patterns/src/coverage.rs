//! Which frames are done: by parts, however the work was cut, and by the final file.
//!
//! A part covers a frame if its checksum holds, the frame is settled in it, and the raw data was
//! known by the same stamp as now: a file that was touched since makes its own frames stale, and no
//! others. What was lost on the way (a file that had vanished, bytes that did not decode) is not
//! covered, so that a rerun tries again.

use std::path::{Path, PathBuf};

use records::{Spans, Task};

use crate::part::{self, Part};
use crate::stamp::Stamps;

/// What is done of a task's frames.
#[derive(Debug, Default)]
pub struct Coverage {
    /// The parts that cover some of the task's frames, and which.
    pub parts: Vec<(PathBuf, Spans)>,
    /// Parts that can't be used, such as damaged ones, and why: worth a warning.
    pub unusable: Vec<part::Error>,
}

impl Coverage {
    /// The task's frames that are done, rising.
    pub fn done(&self) -> Spans {
        self.parts.iter().flat_map(|(_, frames)| frames.as_slice().iter().copied()).collect::<Spans>().sorted()
    }
}

/// Looks for the task's frames among the parts of its scan and recipe below `out_root`. A part whose
/// first line says that it has none of them is not read.
pub fn find(out_root: &Path, task: &Task) -> Coverage {
    let wanted: Vec<u64> = task.range.sorted().iter().collect();
    let mut coverage = Coverage::default();
    let (Some(&first), Some(&last)) = (wanted.first(), wanted.last()) else { return coverage };
    let stamps = Stamps::of(&task.acquisition.sources);
    for path in parts_of(out_root, &task.scan, &task.recipe_digest) {
        let part = part::peek(&path).and_then(|head| {
            let about_this = head.scan == task.scan && head.recipe == task.recipe_digest;
            (about_this && head.meets(first, last)).then(|| part::read(&path)).transpose()
        });
        match part {
            Ok(Some(part)) => {
                let covered = covered_by(&part, &wanted, &stamps);
                if !covered.is_empty() {
                    coverage.parts.push((path, covered));
                }
            }
            Ok(None) => (),
            // Gather may have taken it in and removed it since it was listed.
            Err(error) if error.is_not_found() => (),
            Err(error) => coverage.unusable.push(error),
        }
    }
    coverage
}

/// The directory of the parts of a scan and a recipe.
pub fn directory(out_root: &Path, scan: &str, recipe_digest: &str) -> Option<PathBuf> {
    let path = Task::part_path(scan, recipe_digest, &Spans::default());
    path.stays_below().then(|| out_root.join(path.parent().unwrap_or(Path::new(""))))
}

/// The files that may be parts of a scan and a recipe, in the order of their names.
pub fn parts_of(out_root: &Path, scan: &str, recipe_digest: &str) -> Vec<PathBuf> {
    let entries = directory(out_root, scan, recipe_digest).and_then(|directory| directory.read_dir().ok());
    let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| part::is_part_name(path)).collect();
    paths.sort();
    paths
}

fn covered_by(part: &Part, wanted: &[u64], stamps: &Stamps) -> Spans {
    let then = Stamps::of(&part.head.task.acquisition.sources);
    let settled = part.frames.iter().zip(&part.status).filter(|(_, status)| status.is_settled());
    let same = |frame: &u64| wanted.binary_search(frame).is_ok() && then.get(*frame) == stamps.get(*frame);
    settled.map(|(frame, _)| *frame).filter(same).collect()
}
