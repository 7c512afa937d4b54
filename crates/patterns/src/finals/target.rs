//! What a final is to be of: one scan, one recipe, and what records said of them.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use records::{Absent, Digest, ScanState, Spans, Task};

use super::Error;
use crate::stamp::Stamps;

/// One scan and one recipe, and what the records of a run said of them.
#[derive(Clone, Debug)]
pub struct Target {
    out_root: PathBuf,
    /// The newest task that was heard of; its range and sources mean nothing here.
    task: Task,
    /// The stamps of the frames that the records name.
    pub(super) stamps: Stamps,
    absent: Vec<Absent>,
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
        let (stamps, absent) = (Stamps::default(), task.acquisition.absent.clone());
        Ok(Self { out_root, task: task.clone(), stamps, absent, is_heard: false })
    }

    /// Adds what another task of the same scan and recipe says.
    pub fn add(&mut self, task: &Task) {
        self.is_heard = true;
        self.stamps.add_newest(&task.acquisition.sources);
        self.weigh(task);
    }

    /// Adds what a part or final says of the scan as a whole. A record that says something else of as
    /// many frames is the newer word: a frame that was absent then may well be there now.
    pub(super) fn learn(&mut self, task: &Task) {
        if !self.is_heard || task.acquisition.frames > self.frames() {
            self.weigh(task);
        }
    }

    /// Believes the task that knows most of the scan, and those that know as much.
    fn weigh(&mut self, task: &Task) {
        let knows = |task: &Task| {
            let scan = &task.acquisition;
            (scan.frames, scan.complete, scan.scan_state() != ScanState::Running)
        };
        match knows(task).cmp(&knows(&self.task)) {
            Ordering::Less => (),
            Ordering::Equal => {
                let new = task.acquisition.absent.iter().filter(|absent| !self.absent.contains(absent));
                let new: Vec<Absent> = new.cloned().collect();
                self.absent.extend(new);
            }
            Ordering::Greater => (self.task, self.absent) = (task.clone(), task.acquisition.absent.clone()),
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
        let mut seen = Spans::default();
        let mut absent = Vec::new();
        for Absent { range, kind, reason } in &self.absent {
            let range = range.and(&Spans::all(self.frames())).minus(&seen);
            if !range.is_empty() {
                seen = seen.as_slice().iter().chain(range.as_slice()).copied().collect::<Spans>().sorted();
                absent.push(Absent { range, kind: *kind, reason: reason.clone() });
            }
        }
        absent
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
