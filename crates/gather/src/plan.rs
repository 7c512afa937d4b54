//! The tasks that must be covered, and what of them is still to do.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use manners::{Filter, Input, Stop};
use patterns::coverage;
use records::{Acquisition, Record, Spans, Task, TaskRecipe};

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

    /// The tasks, one a recipe.
    pub fn tasks(&self) -> impl Iterator<Item = Task> {
        self.0.iter().cloned().flat_map(Task::by_recipe)
    }

    /// Emits each task that is not done, cut to the frames that are missing and exist, and to the recipes
    /// that miss some.
    ///
    /// # Errors
    /// As [`Filter::emit`].
    pub fn emit_missing(&self, filter: &Filter) -> Result<(), Stop> {
        let mut done: HashMap<Key, Spans> = HashMap::new();
        for (key, whole) in self.whole_scans() {
            filter.check()?;
            let found = coverage::find(&whole.out, &whole);
            found.unusable.iter().for_each(|why| filter.warn(why));
            done.insert(key, found.done());
        }
        for task in &self.0 {
            let absent = task.acquisition.absent_in(&task.range);
            let there = absent.iter().fold(task.range.clone(), |there, absent| there.minus(&absent.range));
            let left = |recipe: TaskRecipe| {
                let left = there.minus(&done[&key(task, &recipe.recipe_digest)]);
                (!left.is_empty()).then_some((recipe, left))
            };
            if let Some(task) = cut(task, task.recipes().filter_map(left).collect()) {
                filter.emit(&task.into())?;
            }
        }
        Ok(())
    }

    /// One task a scan and recipe, with the frames and sources of all its tasks: one look at the parts
    /// answers for all of them.
    fn whole_scans(&self) -> Vec<(Key, Task)> {
        let mut places = HashMap::new();
        let mut scans: Vec<(Key, Task)> = Vec::new();
        for task in self.0.iter().cloned().flat_map(Task::by_recipe) {
            let key = key(&task, &task.recipe_digest);
            let place = *places.entry(key.clone()).or_insert(scans.len());
            match scans.get_mut(place) {
                Some((_, whole)) => {
                    whole.range = whole.range.as_slice().iter().chain(task.range.as_slice()).copied().collect();
                    whole.acquisition.sources.extend(task.acquisition.sources);
                }
                None => scans.push((key, task)),
            }
        }
        scans
    }
}

/// Output root, scan and recipe.
type Key = (PathBuf, String, String);

fn key(task: &Task, recipe_digest: &str) -> Key {
    (task.out.to_path_buf(), task.scan.clone(), recipe_digest.to_owned())
}

/// The task with these of its recipes, and the frames that any of them misses: those that another one
/// has are found done when it is run. It keeps its id, by which it is found in the plan.
fn cut(task: &Task, missing: Vec<(TaskRecipe, Spans)>) -> Option<Task> {
    let range: Spans = missing.iter().flat_map(|(_, left)| left.as_slice().iter().copied()).collect();
    let range = range.sorted();
    if range == task.range.sorted() {
        return task.clone().with_recipes(missing.into_iter().map(|(recipe, _)| recipe));
    }
    let renamed = |(recipe, _): (TaskRecipe, Spans)| TaskRecipe {
        part: Task::part_path(&task.scan, &recipe.recipe_digest, &range),
        ..recipe
    };
    let sources: Vec<_> = task.acquisition.sources.iter().filter_map(|source| source.within(&range)).collect();
    let bytes = sources.iter().map(|source| source.bytes).sum();
    let cut = Task {
        bytes,
        range: range.clone(),
        acquisition: Acquisition { sources, ..task.acquisition.clone() },
        ..task.clone()
    };
    cut.with_recipes(missing.into_iter().map(renamed))
}
