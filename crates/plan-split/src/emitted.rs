//! The tasks that have been emitted in this run, so that a scan that grows is not planned anew each time it is found.

use std::collections::HashMap;

use records::{Absent, AbsentKind, Acquisition, IdHasher, ScanState, Task};
use serde::Serialize;

/// What has been emitted.
#[derive(Default)]
pub struct Emitted {
    /// By scan and frames with a source, what was emitted last.
    tasks: HashMap<String, Last>,
    /// By scan, the digest of what is known of it as a whole.
    scans: HashMap<String, String>,
}

/// What a task said when it was emitted last.
#[derive(Clone, Debug, PartialEq)]
struct Last {
    /// The digest of all else that its integration depends on.
    content: String,
    /// The digest of the absent frames that it tells of.
    absent: String,
}

/// What a scan record says of the scan as a whole: it reaches gather with whatever task comes last.
pub struct Whole {
    scan: String,
    facts: String,
    /// Digest of what all tasks of the scan have in common and depend on.
    common: String,
    is_running: bool,
    frames: u64,
}

impl Whole {
    /// Describes the scan of this id. Where tasks `have_monitors`, they are integrated again once the scan has ended: counters
    /// may have been read before they were written.
    pub fn new(id: &str, scan: &Acquisition, have_monitors: bool) -> Self {
        let Acquisition { frames, complete, end_time, end_reason, .. } = scan;
        let is_running = scan.scan_state() == ScanState::Running;
        let (absent, _) = news(&scan.absent, is_running);
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
            is_running,
            frames: *frames,
        }
    }
}

/// Returns which absent frames are worth a word, and whether there are others: which frame of a running scan is in a file that
/// grows, and which in none yet, is news of every second.
fn news(absent: &[Absent], is_running: bool) -> (Vec<&Absent>, bool) {
    let is_lost = |absent: &&Absent| !matches!(absent.kind, AbsentKind::NeverTaken | AbsentKind::NotWritten);
    let lost: Vec<&Absent> = absent.iter().filter(|absent| !is_running || is_lost(absent)).collect();
    let has_others = lost.len() < absent.len();
    (lost, has_others)
}

impl Emitted {
    /// Returns those of a scan's tasks that have frames in a source, and are new or changed since they were emitted, by their
    /// sources or by their absent frames, which no other task tells of. If none is and the scan itself has changed, such as by its end, the last task says so.
    pub fn new_tasks(&mut self, whole: Whole, tasks: impl Iterator<Item = Task>) -> impl Iterator<Item = Task> {
        let facts = self.scans.insert(whole.scan.clone(), whole.facts.clone());
        let (mut is_told, mut last) = (facts.as_ref() == Some(&whole.facts), None);
        let mut tasks = tasks;
        std::iter::from_fn(move || {
            for task in tasks.by_ref() {
                if self.is_new(&whole, &task) {
                    is_told = true;
                    return Some(task);
                }
                last = Some(task);
            }
            last.take().filter(|_| !std::mem::replace(&mut is_told, true))
        })
    }

    fn is_new(&mut self, whole: &Whole, task: &Task) -> bool {
        let frames: Vec<_> = task.acquisition.sources.iter().map(|source| &source.frames).collect();
        if frames.is_empty() {
            return false;
        }
        let recipes: Vec<_> = task.recipes().map(|recipe| (recipe.recipe_digest, recipe.final_file)).collect();
        let (absent, has_others) = news(&task.acquisition.absent, whole.is_running);
        // How many frames are to come changes with the number of frames.
        let to_come = has_others.then_some(whole.frames);
        let has_absent = !absent.is_empty() || has_others;
        let content = digest(&(&whole.common, recipes, &task.out, &task.acquisition.sources));
        let now = Last { content, absent: digest(&(absent, to_come)) };
        let Some(last) = self.tasks.insert(digest(&(&whole.scan, frames)), now.clone()) else { return true };
        // Frames that are absent no more are told of by the task that has them now.
        last.content != now.content || (has_absent && last.absent != now.absent)
    }
}

fn digest(of: &impl Serialize) -> String {
    IdHasher::new("emitted").add_text(&serde_json::to_string(of).expect("records always serialize")).to_short_hex()
}

#[cfg(test)]
mod tests {
    use records::{Source, Span, Spans};

    use super::*;

    const NONE: [u64; 0] = [];

    fn source(file: u64, mtime: i64) -> Source {
        let frames = Span::new(10 * file, 10 * file + 10).into();
        Source { file: format!("/raw/{file}.h5").into(), mtime, frames, rows: Spans::first_n(10), ..Source::default() }
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
        tasks.iter_mut().for_each(|task| task.acquisition.absent = task.acquisition.absent_within(&task.range));
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
    fn absent_frames_are_told_of_by_their_own_task_when_they_change() {
        let tasks = |scan: &Acquisition| {
            let absent = scan.absent.clone();
            let cuts = crate::cut::cut(scan, crate::cut::By::File);
            let task = |cut: crate::cut::Cut| {
                let scan = Acquisition { sources: cut.sources, absent: absent.clone(), ..scan.clone() };
                let acquisition = Acquisition { absent: scan.absent_within(&cut.range), ..scan };
                Task { range: cut.range, acquisition, ..Task::default() }
            };
            cuts.map(task).collect::<Vec<_>>()
        };
        let mut run = Emitted::default();
        let mut emitted = |scan: &Acquisition| -> Vec<String> {
            let tasks = run.new_tasks(Whole::new("5c", scan, false), tasks(scan).into_iter());
            tasks.map(|task| serde_json::to_string(&(task.range, task.acquisition.absent.len())).unwrap()).collect()
        };
        let late = |scan: Acquisition| Acquisition { sources: scan.sources[1..].to_vec(), ..scan };
        assert_eq!(emitted(&late(scan(3))), ["[[[0,20]],0]", "[[[20,100]],1]"]);
        let grown = Acquisition { frames: 120, ..late(scan(3)) };
        let grown = Acquisition {
            absent: vec![Absent { range: Span::new(30, 120).into(), ..scan(3).absent[0].clone() }],
            ..grown
        };
        assert_eq!(emitted(&grown), ["[[[20,120]],1]"], "more frames are to come");
        let first = Acquisition { sources: scan(3).sources, ..grown.clone() };
        assert_eq!(emitted(&first), ["[[[0,10]],0]"], "a file that came late");
        let mut lost = Acquisition { end_reason: Some("USER_ABORT".to_owned()), ..first };
        assert_eq!(emitted(&lost), ["[[[20,120]],1]"], "the frames that are to come no more");
        let entry = Absent { range: Span::new(5, 6).into(), kind: AbsentKind::Corrupt, reason: "damaged".to_owned() };
        lost.absent.push(entry);
        assert_eq!(emitted(&lost), ["[[[0,10]],1]"]);
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
            let task = Task { range: Spans::first_n(100), acquisition: scan.clone(), ..Task::default() };
            run.new_tasks(Whole::new("5c", scan, false), std::iter::once(task)).count()
        };
        assert_eq!([tell(&none), tell(&none)], [1, 0]);
        none.end_reason = Some("USER_ABORT".to_owned());
        assert_eq!([tell(&none), tell(&none)], [1, 0]);
    }
}
