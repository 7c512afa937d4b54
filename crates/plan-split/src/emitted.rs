//! The tasks that have been emitted in this run, so that a scan that grows is not planned anew each time it is found.

use std::collections::HashMap;

use records::{Absent, AbsentKind, Acquisition, Digest, ScanState, Task};
use serde::Serialize;

/// What has been emitted.
#[derive(Default)]
pub struct Emitted {
    /// By scan and frames with a source, the digest of all else that a task's integration depends on.
    tasks: HashMap<String, String>,
    /// By scan, the digest of what is known of it as a whole.
    scans: HashMap<String, String>,
}

/// What a scan record says of the scan as a whole: it reaches gather with whatever task comes last.
pub struct Whole {
    scan: String,
    facts: String,
    /// Digest of what all tasks of the scan have in common and depend on.
    common: String,
}

impl Whole {
    /// Describes the scan of this id. Where tasks `have_monitors`, they are integrated again once the scan has ended: counters
    /// may have been read before they were written.
    pub fn new(id: &str, scan: &Acquisition, have_monitors: bool) -> Self {
        let Acquisition { frames, complete, end_time, end_reason, .. } = scan;
        let mut absent = scan.absent.clone();
        if scan.scan_state() == ScanState::Running {
            // Which frame of a running scan is in a file that grows, and which in none yet, is news of every second.
            let is_lost = |absent: &Absent| !matches!(absent.kind, AbsentKind::NeverTaken | AbsentKind::NotWritten);
            absent.retain(is_lost);
        }
        let ended = have_monitors.then(|| scan.scan_state());
        // All that is left is what frames are read and integrated by.
        let common = Acquisition {
            frames: 0,
            complete: false,
            end_time: None,
            end_reason: None,
            absent: Vec::new(),
            sources: Vec::new(),
            ..scan.clone()
        };
        Self {
            scan: id.to_owned(),
            facts: digest(&(frames, complete, end_time, end_reason, absent)),
            common: digest(&(common, ended)),
        }
    }
}

impl Emitted {
    /// Returns those of a scan's tasks that have frames in a source, and are new or changed since they were emitted. If none
    /// is and the scan itself has changed, such as by its end, the last task says so.
    pub fn new_tasks(&mut self, whole: Whole, tasks: impl Iterator<Item = Task>) -> impl Iterator<Item = Task> {
        let facts = self.scans.insert(whole.scan.clone(), whole.facts.clone());
        let (mut is_told, mut last) = (facts == Some(whole.facts), None);
        let mut tasks = tasks;
        std::iter::from_fn(move || {
            for task in tasks.by_ref() {
                if self.is_new(&whole.scan, &whole.common, &task) {
                    is_told = true;
                    return Some(task);
                }
                last = Some(task);
            }
            last.take().filter(|_| !std::mem::replace(&mut is_told, true))
        })
    }

    fn is_new(&mut self, scan: &str, common: &str, task: &Task) -> bool {
        let frames: Vec<_> = task.acquisition.sources.iter().map(|source| &source.frames).collect();
        if frames.is_empty() {
            return false;
        }
        let recipes: Vec<_> = task.recipes().map(|recipe| (recipe.recipe_digest, recipe.final_file)).collect();
        let content = digest(&(common, recipes, &task.out, &task.acquisition.sources));
        self.tasks.insert(digest(&(scan, frames)), content.clone()) != Some(content)
    }
}

fn digest(of: &impl Serialize) -> String {
    Digest::new("emitted").text(&serde_json::to_string(of).expect("records always serialize")).short()
}

#[cfg(test)]
mod tests {
    use records::{Source, Span, Spans};

    use super::*;

    const NONE: [u64; 0] = [];

    fn source(file: u64, mtime: i64) -> Source {
        let frames = Span::new(10 * file, 10 * file + 10).into();
        Source { file: format!("/raw/{file}.h5").into(), mtime, frames, rows: Spans::all(10), ..Source::default() }
    }

    /// A scan of 100 frames of which so many files are there.
    fn scan(files: u64) -> Acquisition {
        let absent = Span::new(10 * files, 100).into();
        let absent = Absent { range: absent, kind: AbsentKind::NeverTaken, reason: "being written".to_owned() };
        let sources = (0..files).map(|file| source(file, 5)).collect();
        Acquisition {
            frames: 100,
            start_time: Some("2026".to_owned()),
            sources,
            absent: vec![absent],
            ..Acquisition::default()
        }
    }

    /// One task a source, the absent frames in the last one, as `--by file` cuts.
    fn tasks(scan: &Acquisition) -> Vec<Task> {
        let task = |source: &Source| Task {
            range: source.frames.clone(),
            acquisition: Acquisition { sources: vec![source.clone()], ..scan.clone() },
            ..Task::default()
        };
        let mut tasks: Vec<Task> = scan.sources.iter().map(task).collect();
        let last = tasks.last_mut().unwrap();
        let absent = scan.absent.iter().flat_map(|absent| absent.range.as_slice().to_vec());
        last.range = last.range.as_slice().iter().copied().chain(absent).collect();
        tasks
    }

    /// The first frames of the tasks that are emitted.
    fn emitted(emitted: &mut Emitted, scan: &Acquisition, have_monitors: bool) -> Vec<u64> {
        let whole = Whole::new("5c", scan, have_monitors);
        let tasks = emitted.new_tasks(whole, tasks(scan).into_iter());
        tasks.map(|task| task.range.iter().next().unwrap()).collect()
    }

    #[test]
    fn a_growing_scan_is_planned_file_by_file() {
        let mut run = Emitted::default();
        assert_eq!(emitted(&mut run, &scan(1), false), [0]);
        assert_eq!(emitted(&mut run, &scan(1), false), NONE);
        assert_eq!(emitted(&mut run, &scan(4), false), [10, 20, 30]);
        assert_eq!(emitted(&mut run, &scan(10), false), [40, 50, 60, 70, 80, 90]);
        let ended = Acquisition { end_time: Some("2027".to_owned()), complete: true, ..scan(10) };
        assert_eq!(emitted(&mut run, &ended, false), [90], "its end is told once");
        assert_eq!(emitted(&mut run, &ended, false), NONE);
    }

    #[test]
    fn what_changed_is_planned_again() {
        let mut run = Emitted::default();
        assert_eq!(emitted(&mut run, &scan(3), false), [0, 10, 20]);
        let mut touched = scan(3);
        touched.sources[1] = source(1, 6);
        assert_eq!(emitted(&mut run, &touched, false), [10]);
        assert_eq!(emitted(&mut run, &scan(3), false), [10], "as it was before is changed, too");
        let counted = Acquisition { counters: [("mon".to_owned(), "/1.1/mon".to_owned())].into(), ..scan(3) };
        assert_eq!(emitted(&mut run, &counted, false), [0, 10, 20]);
    }

    #[test]
    fn monitors_are_read_again_when_the_scan_has_ended() {
        let mut run = Emitted::default();
        assert_eq!(emitted(&mut run, &scan(2), true), [0, 10]);
        assert_eq!(emitted(&mut run, &scan(2), true), NONE);
        let ended = Acquisition { end_time: Some("2027".to_owned()), ..scan(2) };
        assert_eq!(emitted(&mut run, &ended, true), [0, 10]);
    }

    #[test]
    fn a_scan_without_sources_is_told_when_it_changes() {
        let mut run = Emitted::default();
        let mut none = scan(0);
        let mut tell = |scan: &Acquisition| {
            let task = Task { range: Spans::all(100), acquisition: scan.clone(), ..Task::default() };
            run.new_tasks(Whole::new("5c", scan, false), std::iter::once(task)).count()
        };
        assert_eq!([tell(&none), tell(&none)], [1, 0]);
        none.end_reason = Some("USER_ABORT".to_owned());
        assert_eq!([tell(&none), tell(&none)], [1, 0]);
    }
}
