//! The tasks that must be covered, and what of them is still to do.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use manners::{Filter, Input, Stop};
use patterns::coverage;
use records::{Acquisition, Record, Spans, Task};

/// The tasks of a plan, in its order.
pub struct Plan(Vec<Task>);

impl Plan {
    /// Reads a plan. With `root`, the tasks' results are below it, and not where the tasks say.
    ///
    /// # Errors
    /// A file that can't be read; a signal.
    pub fn read(path: &Path, root: Option<&Path>, filter: &Filter) -> Result<Self, Stop> {
        let mut input = Input::open(&[path.to_path_buf()])?;
        let mut tasks = Vec::new();
        while let Some(record) = input.next(filter)? {
            if let Record::Task(mut task) = record {
                if let Some(root) = root {
                    task.out = root.into();
                }
                tasks.push(*task);
            }
        }
        Ok(Self(tasks))
    }

    /// The tasks.
    pub fn tasks(&self) -> &[Task] {
        &self.0
    }

    /// Emits each task that is not done, cut to the frames that are missing and exist.
    ///
    /// # Errors
    /// As [`Filter::emit`].
    pub fn emit_missing(&self, filter: &Filter) -> Result<(), Stop> {
        let mut done: HashMap<(PathBuf, &str, &str), Spans> = HashMap::new();
        for task in self.whole_scans() {
            filter.check()?;
            let found = coverage::find(&task.1.out, &task.1);
            found.unusable.iter().for_each(|why| filter.warn(why));
            done.insert(task.0, found.done());
        }
        for task in &self.0 {
            let done = done.get(&key(task)).expect("every scan of the plan was looked at");
            let absent = task.acquisition.absent_in(&task.range);
            let left = absent.iter().fold(task.range.minus(done), |left, absent| left.minus(&absent.range));
            if !left.is_empty() {
                filter.emit(&cut(task, left).into())?;
            }
        }
        Ok(())
    }

    /// One task a scan and recipe, with the frames and sources of all its tasks: one look at the parts
    /// answers for all of them.
    fn whole_scans(&self) -> Vec<((PathBuf, &str, &str), Task)> {
        let mut places = HashMap::new();
        let mut scans: Vec<((PathBuf, &str, &str), Task)> = Vec::new();
        for task in &self.0 {
            let place = *places.entry(key(task)).or_insert(scans.len());
            match scans.get_mut(place) {
                Some((_, whole)) => {
                    whole.range = whole.range.as_slice().iter().chain(task.range.as_slice()).copied().collect();
                    whole.acquisition.sources.extend(task.acquisition.sources.iter().cloned());
                }
                None => scans.push((key(task), task.clone())),
            }
        }
        scans
    }
}

fn key(task: &Task) -> (PathBuf, &str, &str) {
    (task.out.to_path_buf(), &task.scan, &task.recipe_digest)
}

/// The task with these of its frames. It keeps its id, by which it is found in the plan.
fn cut(task: &Task, range: Spans) -> Task {
    if range == task.range.sorted() {
        return task.clone();
    }
    let sources: Vec<_> = task.acquisition.sources.iter().filter_map(|source| source.within(&range)).collect();
    Task {
        part: Task::part_path(&task.scan, &task.recipe_digest, &range),
        bytes: sources.iter().map(|source| source.bytes).sum(),
        range,
        acquisition: Acquisition { sources, ..task.acquisition.clone() },
        ..task.clone()
    }
}
