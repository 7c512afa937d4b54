//! Which frames are done: by parts, however the work was cut, and by the final file.
//!
//! A part covers a frame if its checksum holds, the frame is settled in it, and the raw data was
//! known by the same stamp as now: a file that was touched since makes its own frames stale, and no
//! others. What was lost on the way (a file that had vanished, bytes that did not decode) is not
//! covered, so that a rerun tries again. A copied final covers in the same way, row by row, each with
//! a checksum of its own; for a virtual final its parts answer.

use std::ops::Range;
use std::path::{Path, PathBuf};

use records::{Spans, Task};

use crate::finals::{self, Final};
use crate::part::{self, Part};
use crate::stamp::Stamps;

/// What is done of a task's frames.
#[derive(Debug, Default)]
pub struct Coverage {
    /// The parts that cover some of the task's frames, and which.
    pub parts: Vec<(PathBuf, Spans)>,
    /// The task's frames that the final covers and no part does.
    pub finished: Spans,
    /// Files that can't be used, such as damaged parts, and why: worth a warning.
    pub unusable: Vec<String>,
}

impl Coverage {
    /// The task's frames that are done, rising.
    pub fn done(&self) -> Spans {
        let all = self.parts.iter().map(|(_, frames)| frames).chain([&self.finished]);
        all.flat_map(|frames| frames.as_slice().iter().copied()).collect::<Spans>().sorted()
    }
}

/// Looks for the task's frames among the parts of its scan and recipe below `out_root`, then in the
/// final. A part whose first line says that it has none of them is not read.
pub fn find(out_root: &Path, task: &Task) -> Coverage {
    let wanted: Vec<u64> = task.range.sorted().iter().collect();
    let mut coverage = Coverage::default();
    let (Some(&first), Some(&last)) = (wanted.first(), wanted.last()) else { return coverage };
    let stamps = Stamps::of(&task.acquisition.sources);
    for path in parts_of(out_root, &task.scan, &task.recipe_digest) {
        let part = part::peek(&path).and_then(|head| {
            if head.scan != task.scan || head.recipe != task.recipe_digest {
                return Err(part::Error::content(&path, "damaged: its first line is about another scan or recipe"));
            }
            head.meets(first, last).then(|| part::read(&path)).transpose()
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
            Err(error) if error.has_gone() => (),
            Err(error) => coverage.unusable.push(error.to_string()),
        }
    }
    // After the parts, for a final is in its place before its parts go.
    let left: Vec<u64> = task.range.minus(&coverage.done()).iter().collect();
    if let (Some(&first), Some(&last), true) = (left.first(), left.last(), task.final_file.stays_below()) {
        let path = out_root.join(task.final_file.as_path());
        match finished(&path, task, &stamps, &left, first..last + 1) {
            Ok(frames) => coverage.finished = frames,
            Err(finals::Error::Io { why, .. }) if why.kind() == std::io::ErrorKind::NotFound => (),
            Err(error) => coverage.unusable.push(error.to_string()),
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
    directory(out_root, scan, recipe_digest).map(|directory| part::files(&directory)).unwrap_or_default()
}

fn finished(
    path: &Path,
    task: &Task,
    stamps: &Stamps,
    wanted: &[u64],
    range: Range<u64>,
) -> Result<Spans, finals::Error> {
    let mut there = Final::open(path)?;
    if there.task.scan != task.scan || there.task.recipe_digest != task.recipe_digest {
        return Ok(Spans::default());
    }
    let frames = there.status.len();
    there.verify((range.start as usize).min(frames)..(range.end as usize).min(frames))?;
    let then = Stamps::of(&there.task.acquisition.sources);
    let covered = |frame: &u64| {
        let settled = there.status.get(*frame as usize).is_some_and(|status| status.is_settled());
        settled && there.is_intact_at(*frame) && then.get(*frame) == stamps.get(*frame)
    };
    Ok(wanted.iter().copied().filter(covered).collect())
}

fn covered_by(part: &Part, wanted: &[u64], stamps: &Stamps) -> Spans {
    let then = Stamps::of(&part.head.task.acquisition.sources);
    let settled = part.frames.iter().zip(&part.status).filter(|(_, status)| status.is_settled());
    let same = |frame: &u64| wanted.binary_search(frame).is_ok() && then.get(*frame) == stamps.get(*frame);
    settled.map(|(frame, _)| *frame).filter(same).collect()
}
