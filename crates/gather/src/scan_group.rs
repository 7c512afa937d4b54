//! Collects the records about each scan and recipe until its final file is written.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::time::Instant;

use filter::CountedFrames;
use patterns::output::{self, OutputSpec};
use records::{Seconds, Spans, Summary, Task, TaskResult};
use system::ownership::ProtectedFiles;

use crate::build_schedule::BuildSchedule;

/// Identifies a final file: each has its own output root, scan and recipe.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OutputKey {
    out_root: PathBuf,
    scan: String,
    recipe_digest: String,
}

impl OutputKey {
    /// Creates the key of a task's first recipe.
    pub fn new(task: &Task) -> Self {
        Self::with_recipe(task, &task.recipe_digest)
    }

    /// Creates the key of one of a task's recipes.
    pub fn with_recipe(task: &Task, recipe_digest: &str) -> Self {
        let (out_root, scan) = (task.out.to_path_buf(), task.scan.clone());
        Self { out_root, scan, recipe_digest: recipe_digest.to_owned() }
    }
}

/// One scan integrated by one recipe: the contents of one final file.
pub struct ScanGroup {
    /// The scan, the recipe, and where the final file goes.
    pub target: OutputSpec,
    /// The frames that `--plan` requires; `None` without a plan, when all frames that exist are
    /// required.
    pub required: Option<Spans>,
    /// The seconds of each stage, summed over the results.
    pub seconds: Seconds,
    /// The frames that results were about.
    reported: Spans,
    /// When to write the final file.
    pub schedule: BuildSchedule,
    /// The last report about the final file, so that the same report is not repeated.
    pub last_report: Option<LastReport>,
    /// The warnings that were printed.
    pub printed_warnings: HashSet<String>,
    /// The warnings about frames without a pattern that held at the last update.
    pub absence_warnings: HashSet<String>,
    /// The frames of the last update, as the progress counts them.
    pub counted: CountedFrames,
    /// True if the final file, as last written, lacks frames that it should have.
    pub lacks_frames: bool,
    /// True for a file that is merged from others, whose scan has no pixels of its own.
    pub is_merged: bool,
}

/// The last report about a final file.
#[derive(Clone, Debug, PartialEq)]
pub enum LastReport {
    /// The summary, without seconds, which grow although nothing else changes.
    Summary(Box<Summary>),
    /// The reason why there is no final file.
    Failure(String),
}

impl ScanGroup {
    /// Creates a group that no record was about so far.
    pub fn new(target: OutputSpec) -> Self {
        let mut schedule = BuildSchedule::default();
        schedule.add_input(Instant::now());
        Self {
            target,
            required: None,
            seconds: Seconds::default(),
            reported: Spans::default(),
            schedule,
            last_report: None,
            printed_warnings: HashSet::new(),
            absence_warnings: HashSet::new(),
            counted: CountedFrames::default(),
            lacks_frames: false,
            is_merged: false,
        }
    }

    /// Returns whether there are results for every frame that is not absent.
    fn has_all_results(&self) -> bool {
        let unreported = Spans::first_n(self.target.frames()).difference(&self.reported);
        self.target.are_all_absent(&unreported)
    }
}

/// All scans and recipes of a run, in the order of their first record.
#[derive(Default)]
pub struct ScanGroups {
    indices: HashMap<OutputKey, usize>,
    groups: Vec<ScanGroup>,
    /// The indices of groups that have all results and whose final file is still to be written.
    waiting: BTreeSet<usize>,
    /// The raw data that records name, which exports and plots must not replace.
    protected: Option<ProtectedFiles>,
}

impl ScanGroups {
    /// Creates an empty collection. The raw data that records name is added to `protected`.
    pub fn new(protected: Option<ProtectedFiles>) -> Self {
        Self { protected, ..Self::default() }
    }

    /// Adds a result record.
    ///
    /// # Errors
    /// Fails if a path of the record leads out of the output root, and if an earlier record of the
    /// same scan and recipe names another final file.
    pub fn add_result(&mut self, result: &TaskResult) -> Result<(), output::OutputError> {
        let index = self.add_task(&result.task)?;
        let group = &mut self.groups[index];
        let seconds = &result.seconds;
        group.seconds.read += seconds.read;
        group.seconds.integrate += seconds.integrate;
        group.seconds.write += seconds.write;
        group.seconds.wall += seconds.wall;
        group.reported = group.reported.union(&result.task.range);
        if group.has_all_results() {
            self.waiting.insert(index);
        } else {
            self.waiting.remove(&index);
        }
        Ok(())
    }

    /// Removes a group whose final file is due from the list of waiting groups, and returns it.
    pub fn take_due(&mut self, now: Instant) -> Option<&mut ScanGroup> {
        let is_due =
            |index: &&usize| self.groups[**index].schedule.due_time().is_some_and(|due| due <= now);
        let index = *self.waiting.iter().find(is_due)?;
        self.waiting.remove(&index);
        Some(&mut self.groups[index])
    }

    /// Returns when the next final file is due.
    pub fn next_due_time(&self) -> Option<Instant> {
        self.waiting.iter().filter_map(|index| self.groups[*index].schedule.due_time()).min()
    }

    /// Adds a task of the plan, whose frames are required.
    ///
    /// # Errors
    /// Fails as [`ScanGroups::add_result`] does.
    pub fn add_required_task(&mut self, task: &Task) -> Result<(), output::OutputError> {
        let index = self.add_task(task)?;
        let required = &mut self.groups[index].required;
        *required = Some(required.take().unwrap_or_default().union(&task.range));
        Ok(())
    }

    /// Adds a scan whose parts or final file were found on disk, unless a record was about it.
    pub fn add_found(&mut self, target: OutputSpec) {
        let task = target.task();
        let (scan, recipe_digest) = (task.scan.clone(), task.recipe_digest.clone());
        let key = OutputKey { out_root: target.out_root().to_path_buf(), scan, recipe_digest };
        let other = self.indices.get(&key).map(|&index| &self.groups[index].target);
        match other.map(|other| other.task().final_file != target.task().final_file) {
            None => drop(self.insert(key, target)),
            // Results are of the final file that a task names; this one has another name.
            Some(true) => self.groups.push(ScanGroup::new(target)),
            Some(false) => (),
        }
    }

    /// Iterates over all groups.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut ScanGroup> {
        self.groups.iter_mut()
    }

    /// Adds a task's facts about its scan, and returns the index of its group.
    fn add_task(&mut self, task: &Task) -> Result<usize, output::OutputError> {
        if let Some(protected) = &self.protected {
            protected.add(&task.acquisition.file);
            protected.add(&task.recipe);
            task.acquisition.sources.iter().for_each(|source| protected.add(&source.file));
        }
        let key = OutputKey::new(task);
        let index = match self.indices.get(&key) {
            Some(&index) => {
                let target = &mut self.groups[index].target;
                let [one, other] = [task, target.task()].map(|task| &task.final_file);
                if one != other {
                    let [one, other] = [one, other].map(|path| path.to_path_buf());
                    return Err(output::OutputError::TwoNames { one, other });
                }
                target.add(task);
                index
            }
            None => self.insert(key, OutputSpec::new(&task.out, task)?),
        };
        self.groups[index].schedule.add_input(Instant::now());
        Ok(index)
    }

    fn insert(&mut self, key: OutputKey, target: OutputSpec) -> usize {
        let index = self.groups.len();
        self.indices.insert(key, index);
        self.groups.push(ScanGroup::new(target));
        index
    }
}
