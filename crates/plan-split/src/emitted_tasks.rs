//! Remembers the tasks that were emitted, so that when the record of a growing scan comes again,
//! only new and changed frames become tasks.

use std::collections::HashMap;

use records::{Absent, AbsentKind, Acquisition, IdHasher, ScanState, Task};
use serde::Serialize;

/// The tasks emitted in this run.
#[derive(Default)]
pub struct EmittedTasks {
    /// The tasks and facts of each scan.
    scans: HashMap<String, EmittedScan>,
    /// The last scan by place: one may be measured in the place of another, and be replaced by it again.
    last_scans: HashMap<String, String>,
}

/// The tasks of a scan that were emitted.
#[derive(Default)]
struct EmittedScan {
    /// The last task by frames with a source.
    tasks: HashMap<String, TaskDigests>,
    /// The digest of the last facts.
    facts: Option<String>,
}

/// The digests of a task when it was last emitted.
#[derive(Clone, Debug, PartialEq)]
struct TaskDigests {
    /// The digest of everything that affects the task's patterns.
    content: String,
    /// The digest of the absent frames that the task lists.
    absent: String,
}

/// The digests of a scan record.
pub struct ScanDigests {
    scan: String,
    /// The digest of the scan's file, and its place in it.
    place: String,
    /// The digest of the facts about the scan as a whole, which gather learns from any task.
    facts: String,
    /// The digest of the fields that affect the patterns of all tasks.
    common: String,
    is_running: bool,
    frames: u64,
}

impl ScanDigests {
    /// Computes the digests of a scan record. If `has_monitors`, all tasks change when the scan
    /// ends, because counters may have been read before they were written.
    pub fn new(id: &str, scan: &Acquisition, has_monitors: bool) -> Self {
        let Acquisition { frames, planned_frames, complete, end_time, end_reason, .. } = scan;
        let is_running = scan.scan_state() == ScanState::Running;
        let (lasting, _) = lasting_absences(&scan.absent, is_running);
        let monitor_state = has_monitors.then(|| scan.scan_state());
        // The rest of the record decides how frames are read and integrated.
        let common = Acquisition {
            frames: 0,
            planned_frames: None,
            complete: false,
            end_time: None,
            end_reason: None,
            absent: Vec::new(),
            sources: Vec::new(),
            ..scan.clone()
        };
        Self {
            scan: id.to_owned(),
            place: digest(&(&scan.file, &scan.entry, &scan.detector, &scan.dataset)),
            facts: digest(&(frames, planned_frames, complete, end_time, end_reason, lasting)),
            common: digest(&(common, monitor_state)),
            is_running,
            frames: *frames,
        }
    }
}

/// Returns the absent frames that are worth a new task, and whether there are others. While a scan
/// runs, frames that are not taken or written yet change every second and do not count.
fn lasting_absences(absent: &[Absent], is_running: bool) -> (Vec<&Absent>, bool) {
    let is_lost =
        |absent: &&Absent| !matches!(absent.kind, AbsentKind::NeverTaken | AbsentKind::NotWritten);
    let lasting: Vec<&Absent> =
        absent.iter().filter(|absent| !is_running || is_lost(absent)).collect();
    let has_others = lasting.len() < absent.len();
    (lasting, has_others)
}

impl EmittedTasks {
    /// Returns the tasks of a scan that have frames in a source and are new, or whose sources or
    /// absent frames have changed since they were emitted. If there is none and the scan itself has
    /// changed, for instance because it ended, the last task is returned to report the change.
    pub fn select_new(
        &mut self,
        scan: ScanDigests,
        tasks: impl Iterator<Item = Task>,
    ) -> impl Iterator<Item = Task> {
        let last_scan = self.last_scans.insert(scan.place.clone(), scan.scan.clone());
        if last_scan.is_some_and(|last| last != scan.scan) {
            // The results of the other one may be in the place of its own.
            self.scans.remove(&scan.scan);
        }
        let emitted = self.scans.entry(scan.scan.clone()).or_default();
        let facts = emitted.facts.replace(scan.facts.clone());
        let (mut is_reported, mut last) = (facts.as_ref() == Some(&scan.facts), None);
        let mut tasks = tasks;
        std::iter::from_fn(move || {
            for task in tasks.by_ref() {
                if emitted.is_new(&scan, &task) {
                    is_reported = true;
                    return Some(task);
                }
                last = Some(task);
            }
            last.take().filter(|_| !std::mem::replace(&mut is_reported, true))
        })
    }
}

impl EmittedScan {
    fn is_new(&mut self, scan: &ScanDigests, task: &Task) -> bool {
        let frames: Vec<_> = task.acquisition.sources.iter().map(|source| &source.frames).collect();
        if frames.is_empty() {
            return false;
        }
        let recipes: Vec<_> =
            task.recipes().map(|recipe| (recipe.recipe_digest, recipe.final_file)).collect();
        let (lasting, has_others) = lasting_absences(&task.acquisition.absent, scan.is_running);
        // The number of frames that are still to come changes with the number of frames.
        let frames_if_to_come = has_others.then_some(scan.frames);
        let has_absent = !lasting.is_empty() || has_others;
        let content = digest(&(&scan.common, recipes, &task.out, &task.acquisition.sources));
        let now = TaskDigests { content, absent: digest(&(lasting, frames_if_to_come)) };
        let Some(last) = self.tasks.insert(digest(&frames), now.clone()) else {
            return true;
        };
        // Frames that are no longer absent have a source now, and belong to the content of a task.
        last.content != now.content || (has_absent && last.absent != now.absent)
    }
}

fn digest(fields: &impl Serialize) -> String {
    IdHasher::new("emitted")
        .add_text(&serde_json::to_string(fields).expect("records always serialize"))
        .to_short_hex()
}

#[cfg(test)]
mod tests {
    use records::{Source, Span, Spans};

    use super::*;
    use crate::split_scan::{SplitBy, TaskFrames, split_scan};

    const NONE: [u64; 0] = [];

    fn source(file: u64, mtime: i64) -> Source {
        let frames = Span::new(10 * file, 10 * file + 10).into();
        Source {
            file: format!("/raw/{file}.h5").into(),
            mtime,
            frames,
            rows: Spans::first_n(10),
            ..Source::default()
        }
    }

    /// A scan of 100 frames of which this many files are written.
    fn scan(files: u64) -> Acquisition {
        let absent = Span::new(10 * files, 100).into();
        let absent = Absent {
            range: absent,
            kind: AbsentKind::NeverTaken,
            reason: "being written".to_owned(),
        };
        let sources = (0..files).map(|file| source(file, 5)).collect();
        Acquisition {
            frames: 100,
            start_time: Some("2026".to_owned()),
            sources,
            absent: vec![absent],
            ..Acquisition::default()
        }
    }

    /// One task per source, with the absent frames in the last one, as `--by file` splits.
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
            .iter_mut()
            .for_each(|task| task.acquisition.absent = task.acquisition.absent_within(&task.range));
        tasks
    }

    /// The first frame of each task that is emitted.
    fn emitted(emitted: &mut EmittedTasks, scan: &Acquisition, have_monitors: bool) -> Vec<u64> {
        let digests = ScanDigests::new("5c", scan, have_monitors);
        let tasks = emitted.select_new(digests, tasks(scan).into_iter());
        tasks.map(|task| task.range.iter().next().unwrap()).collect()
    }

    #[test]
    fn a_growing_scan_is_planned_file_by_file() {
        let mut run = EmittedTasks::default();
        assert_eq!(emitted(&mut run, &scan(1), false), [0]);
        assert_eq!(emitted(&mut run, &scan(1), false), NONE);
        assert_eq!(emitted(&mut run, &scan(4), false), [10, 20, 30]);
        assert_eq!(emitted(&mut run, &scan(10), false), [40, 50, 60, 70, 80, 90]);
        let ended = Acquisition { end_time: Some("2027".to_owned()), complete: true, ..scan(10) };
        assert_eq!(emitted(&mut run, &ended, false), [90], "its end is reported once");
        assert_eq!(emitted(&mut run, &ended, false), NONE);
    }

    #[test]
    fn a_task_is_emitted_again_when_its_absent_frames_change() {
        let tasks = |scan: &Acquisition| {
            let absent = scan.absent.clone();
            let split = split_scan(scan, SplitBy::File);
            let task = |frames: TaskFrames| {
                let scan =
                    Acquisition { sources: frames.sources, absent: absent.clone(), ..scan.clone() };
                let acquisition = Acquisition { absent: scan.absent_within(&frames.range), ..scan };
                Task { range: frames.range, acquisition, ..Task::default() }
            };
            split.map(task).collect::<Vec<_>>()
        };
        let mut run = EmittedTasks::default();
        let mut emitted = |scan: &Acquisition| -> Vec<String> {
            let tasks =
                run.select_new(ScanDigests::new("5c", scan, false), tasks(scan).into_iter());
            tasks
                .map(|task| {
                    serde_json::to_string(&(task.range, task.acquisition.absent.len())).unwrap()
                })
                .collect()
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
        assert_eq!(emitted(&lost), ["[[[20,120]],1]"], "no more frames are to come");
        let entry = Absent {
            range: Span::new(5, 6).into(),
            kind: AbsentKind::Corrupt,
            reason: "damaged".to_owned(),
        };
        lost.absent.push(entry);
        assert_eq!(emitted(&lost), ["[[[0,10]],1]"]);
    }

    #[test]
    fn changed_sources_are_planned_again() {
        let mut run = EmittedTasks::default();
        assert_eq!(emitted(&mut run, &scan(3), false), [0, 10, 20]);
        let mut touched = scan(3);
        touched.sources[1] = source(1, 6);
        assert_eq!(emitted(&mut run, &touched, false), [10]);
        assert_eq!(
            emitted(&mut run, &scan(3), false),
            [10],
            "a return to the former state is a change, too"
        );
        let counted =
            Acquisition { counters: [("mon".to_owned(), "/1.1/mon".to_owned())].into(), ..scan(3) };
        assert_eq!(emitted(&mut run, &counted, false), [0, 10, 20]);
    }

    #[test]
    fn a_scan_that_comes_back_to_its_place_is_planned_again() {
        let mut run = EmittedTasks::default();
        let mut emitted = |id: &str, scan: &Acquisition| {
            let digests = ScanDigests::new(id, scan, false);
            run.select_new(digests, tasks(scan).into_iter()).count()
        };
        let other_file = Acquisition { file: "/raw/other.h5".into(), ..scan(2) };
        assert_eq!([emitted("a", &scan(3)), emitted("b", &scan(2))], [3, 2]);
        assert_eq!([emitted("a", &scan(3)), emitted("a", &scan(3))], [3, 0]);
        assert_eq!([emitted("c", &other_file), emitted("a", &scan(3))], [2, 0]);
    }

    #[test]
    fn monitors_are_read_again_when_the_scan_has_ended() {
        let mut run = EmittedTasks::default();
        assert_eq!(emitted(&mut run, &scan(2), true), [0, 10]);
        assert_eq!(emitted(&mut run, &scan(2), true), NONE);
        let ended = Acquisition { end_time: Some("2027".to_owned()), ..scan(2) };
        assert_eq!(emitted(&mut run, &ended, true), [0, 10]);
    }

    #[test]
    fn a_scan_without_sources_is_reported_when_it_changes() {
        let mut run = EmittedTasks::default();
        let mut none = scan(0);
        let mut tell = |scan: &Acquisition| {
            let task =
                Task { range: Spans::first_n(100), acquisition: scan.clone(), ..Task::default() };
            run.select_new(ScanDigests::new("5c", scan, false), std::iter::once(task)).count()
        };
        assert_eq!([tell(&none), tell(&none)], [1, 0]);
        none.end_reason = Some("USER_ABORT".to_owned());
        assert_eq!([tell(&none), tell(&none)], [1, 0]);
    }
}
