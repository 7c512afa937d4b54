//! What a final is to be of: one scan, one recipe, and what records said of them.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use records::{Absent, Digest, ScanState, Spans, Task};

use super::{Error, Final};
use crate::part::Part;
use crate::stamp::{LastStates, Stamps};

/// One scan and one recipe, and what the records of a run said of them.
#[derive(Clone, Debug)]
pub struct Target {
    out_root: PathBuf,
    /// The newest task that was heard of; its range and sources mean nothing here.
    task: Task,
    /// The stamps of the frames that the records name.
    pub(super) stamps: Stamps,
    /// The last states of the files that the records name.
    last: LastStates,
    absent: AbsentFrames,
    /// Whether a record was heard, or all is from files.
    is_heard: bool,
}

impl Target {
    /// That of a task whose output root is `out_root`, with what the task says of its frames.
    ///
    /// # Errors
    /// A final, a scan's id or a recipe's digest that lead out of the root.
    pub fn new(out_root: &Path, task: &Task) -> Result<Self, Error> {
        let mut target = Self::unheard(out_root, task)?;
        target.add(task);
        Ok(target)
    }

    /// That of a task which was found in a part or a final: no record says what its frames' raw data
    /// is now.
    ///
    /// # Errors
    /// As [`Target::new`].
    pub fn unheard(out_root: &Path, task: &Task) -> Result<Self, Error> {
        let parts = Task::part_path(&task.scan, &task.recipe_digest, &Spans::default());
        let name = |id: &str| !id.is_empty() && !id.contains('/');
        if !task.final_file.stays_below() || !parts.stays_below() || !name(&task.scan) || !name(&task.recipe_digest) {
            return Err(Error::Outside { path: task.final_file.to_path_buf() });
        }
        let out_root = std::path::absolute(out_root).map_err(Error::io(out_root))?;
        let (stamps, last, absent) =
            (Stamps::default(), LastStates::default(), AbsentFrames::new(&task.acquisition.absent));
        Ok(Self { out_root, task: task.clone(), stamps, last, absent, is_heard: false })
    }

    /// Adds what another task of the same scan and recipe says.
    pub fn add(&mut self, task: &Task) {
        self.is_heard = true;
        let stamps = Stamps::of(&task.acquisition);
        let is_news = self.last.add(&stamps);
        self.stamps.add_newest(&task.acquisition);
        if is_news {
            // A file has been written anew, maybe with fewer frames: what was known of the scan is out of date.
            self.stamps = self.last.current(&self.stamps);
            self.believe(task);
        } else if !self.last.outdate(&stamps) {
            self.weigh(task);
            // Of as many frames as before, the newest word on those of its range is the task's: some may be there by now.
            if knowledge(task) == knowledge(&self.task) {
                self.absent.correct(task);
            }
        }
    }

    /// Adds what parts and a final say of the scan as a whole, unless it was of files that have been written anew since. A
    /// record that says something else of as many frames is the newer word: a frame that was absent then may well be
    /// there now.
    pub(super) fn learn(&mut self, parts: &[Part], existing: Option<&Final>) {
        let last = self.last_states(parts, existing);
        let mut is_outdated = last.outdate(&self.stamps) || last.outdate(&Stamps::of(&self.task.acquisition));
        let tasks = parts.iter().map(|part| &part.head.task).chain(existing.map(|existing| &existing.task));
        for task in tasks.filter(|task| !last.outdate(&Stamps::of(&task.acquisition))) {
            if is_outdated {
                self.believe(task);
                is_outdated = false;
            } else if !self.is_heard || task.acquisition.frames > self.frames() {
                self.weigh(task);
            }
        }
    }

    /// Returns the last state of each file that records, parts or a final name.
    pub(super) fn last_states(&self, parts: &[Part], existing: Option<&Final>) -> LastStates {
        let mut last = self.last.clone();
        let tasks = parts.iter().map(|part| &part.head.task).chain(existing.map(|existing| &existing.task));
        for task in tasks {
            last.add(&Stamps::of(&task.acquisition));
        }
        last.find_gone(self.task.acquisition.file.parent().unwrap_or(Path::new("/")), &self.stamps);
        last
    }

    fn believe(&mut self, task: &Task) {
        (self.task, self.absent) = (task.clone(), AbsentFrames::new(&task.acquisition.absent));
    }

    /// Believes the task that knows most of the scan, and those that know as much.
    fn weigh(&mut self, task: &Task) {
        match knowledge(task).cmp(&knowledge(&self.task)) {
            Ordering::Less => (),
            Ordering::Equal => self.absent.add(&task.acquisition.absent),
            Ordering::Greater => self.believe(task),
        }
    }

    /// The digest of scan and recipe: the id of the summary.
    pub fn id(&self) -> String {
        Digest::new("summary").text(&self.task.scan).text(&self.task.recipe_digest).short()
    }

    /// The newest task that was heard of, for all that it says of the scan as a whole.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// How many frames the scan has.
    pub fn frames(&self) -> u64 {
        self.task.acquisition.frames
    }

    /// The frames that are known to be absent, each once, and why.
    pub fn absent(&self) -> Vec<Absent> {
        let all = Spans::all(self.frames());
        let clipped = self.absent.entries.iter().map(|entry| Absent { range: entry.range.and(&all), ..entry.clone() });
        clipped.filter(|entry| !entry.range.is_empty()).collect()
    }

    /// Which frames are known to be absent.
    pub fn absent_frames(&self) -> &Spans {
        &self.absent.frames
    }

    /// The output root, absolute.
    pub fn out_root(&self) -> &Path {
        &self.out_root
    }

    /// The final file, absolute.
    pub fn path(&self) -> PathBuf {
        self.out_root.join(self.task.final_file.as_path())
    }
}

/// How much of a scan a task knows: the more, the later its record was made.
fn knowledge(task: &Task) -> (u64, bool, bool) {
    let scan = &task.acquisition;
    (scan.frames, scan.complete, scan.scan_state() != ScanState::Running)
}

/// The frames of a scan that are known to be absent, each in one entry.
#[derive(Clone, Debug, Default)]
struct AbsentFrames {
    entries: Vec<Absent>,
    /// The frames of all entries.
    frames: Spans,
    /// Frames that a task was to integrate: a list that says they are absent is an older one.
    there: Spans,
    /// The list that was added last: tasks of one scan often have the same.
    last: Vec<Absent>,
}

impl AbsentFrames {
    fn new(list: &[Absent]) -> Self {
        let mut new = Self::default();
        new.add(list);
        new
    }

    /// Adds the frames of a list that are not known to be absent yet.
    fn add(&mut self, list: &[Absent]) {
        if self.last == list {
            return;
        }
        for Absent { range, kind, reason } in list {
            let range = range.minus(&self.frames).minus(&self.there);
            if !range.is_empty() {
                self.frames = union(&self.frames, &range);
                self.entries.push(Absent { range, kind: *kind, reason: reason.clone() });
            }
        }
        self.last = list.to_vec();
    }

    /// Takes a task's word for the frames of its range.
    fn correct(&mut self, task: &Task) {
        let own = task.acquisition.absent_in(&task.range);
        let now: Spans = own.iter().flat_map(|entry| entry.range.as_slice()).copied().collect();
        let now = now.sorted();
        self.there = union(&self.there, &task.range).minus(&now);
        // Most tasks have nothing to correct.
        if self.frames.and(&task.range) == now && own.iter().all(|entry| self.entries.contains(entry)) {
            return;
        }
        self.entries.iter_mut().for_each(|entry| entry.range = entry.range.minus(&task.range));
        self.entries.retain(|entry| !entry.range.is_empty());
        self.frames = self.frames.minus(&task.range);
        self.last = Vec::new();
        self.add(&own);
    }
}

fn union(one: &Spans, two: &Spans) -> Spans {
    one.as_slice().iter().chain(two.as_slice()).copied().collect::<Spans>().sorted()
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::{AbsentKind, Acquisition, Span};

    /// A task of a range of a running scan of 30 frames, of which those from `there` on are absent.
    fn task(range: Span, there: u64) -> Task {
        let absent =
            Absent { range: Span::new(there, 30).into(), kind: AbsentKind::NeverTaken, reason: "not yet".to_owned() };
        let acquisition = Acquisition {
            frames: 30,
            start_time: Some("2026-01-02T03:04:05".to_owned()),
            absent: vec![absent],
            ..Acquisition::default()
        };
        let (scan, recipe_digest, final_file) = ("5c".to_owned(), "00".to_owned(), "f.h5".into());
        Task { range: range.into(), acquisition, scan, recipe_digest, final_file, ..Task::default() }
    }

    #[test]
    fn frames_that_a_task_is_of_are_absent_no_more_whatever_older_lists_say() {
        let (old, new) = (task(Span::new(0, 10), 10), task(Span::new(10, 20), 20));
        for order in [[&old, &new, &old], [&new, &old, &new], [&old, &old, &new]] {
            let mut target = Target::new(Path::new("/out"), order[0]).unwrap();
            order.into_iter().for_each(|task| target.add(task));
            assert_eq!(*target.absent_frames(), Span::new(20, 30).into());
            assert_eq!(target.absent().len(), 1);
        }
        // What has vanished since is absent again, once the task of it says so.
        let mut target = Target::new(Path::new("/out"), &new).unwrap();
        target.add(&task(Span::new(0, 30), 15));
        assert_eq!(*target.absent_frames(), Span::new(15, 30).into());
    }
}
