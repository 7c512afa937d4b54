//! The tasks that must be covered, and what of them is still to do.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use filter::{Filter, Input, Stop};
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
        let mut input = Input::open(&[path.to_path_buf()])?.with_expected_type("task");
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
        self.0.iter().cloned().flat_map(Task::split_by_recipe)
    }

    /// Emits each task that is not done, cut to the frames that are missing and exist, and to the recipes
    /// that miss some; with `most`, in pieces of so many stored bytes at the most.
    ///
    /// # Errors
    /// As [`Filter::emit`].
    pub fn emit_missing(&self, most: Option<u64>, filter: &Filter) -> Result<(), Stop> {
        let mut done: HashMap<Key, Spans> = HashMap::new();
        for (key, whole) in self.whole_scans() {
            filter.check_stopped()?;
            let found = coverage::find_coverage(&whole.out, &whole);
            found.unusable.iter().for_each(|why| filter.warn(why));
            done.insert(key, found.covered_frames());
        }
        for task in &self.0 {
            let absent = task.acquisition.absent_within(&task.range);
            let there = absent.iter().fold(task.range.clone(), |there, absent| there.difference(&absent.range));
            let left = |recipe: TaskRecipe| {
                let left = there.difference(&done[&key(task, &recipe.recipe_digest)]);
                (!left.is_empty()).then_some((recipe, left))
            };
            if let Some(task) = cut(task, task.recipes().filter_map(left).collect()) {
                for piece in pieces(task, most) {
                    filter.emit(&piece.into())?;
                }
            }
        }
        Ok(())
    }

    /// One task a scan and recipe, with the frames and sources of all its tasks: one look at the parts
    /// answers for all of them.
    fn whole_scans(&self) -> Vec<(Key, Task)> {
        let mut places = HashMap::new();
        let mut scans: Vec<(Key, Task)> = Vec::new();
        for task in self.0.iter().cloned().flat_map(Task::split_by_recipe) {
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
/// has are found done when it is run.
fn cut(task: &Task, missing: Vec<(TaskRecipe, Spans)>) -> Option<Task> {
    let range: Spans = missing.iter().flat_map(|(_, left)| left.as_slice().iter().copied()).collect();
    let range = range.to_sorted();
    let whole = task.clone().with_recipes(missing.into_iter().map(|(recipe, _)| recipe))?;
    Some(if range == task.range.to_sorted() { whole } else { within(&whole, range) })
}

/// A task in pieces of equal numbers of frames, so many that they have about `most` stored bytes; a chunk of frames stays
/// whole.
fn pieces(task: Task, most: Option<u64>) -> Vec<Task> {
    let Some(most) = most.filter(|&most| task.bytes > most) else { return vec![task] };
    let frames = task.range.count();
    let frames_a_chunk = task.acquisition.chunk.first().copied().unwrap_or(1).max(1);
    let length = frames.div_ceil(task.bytes.div_ceil(most)).next_multiple_of(frames_a_chunk);
    let range = task.range.to_sorted();
    let piece = |from| {
        let mut piece = within(&task, range.slice(from, length));
        if from > 0 {
            // The first tells of the task's absent frames, which are in no piece's range.
            let absent = std::mem::take(&mut piece.acquisition.absent);
            let moved = absent.iter().map(|absent| absent.range.count()).sum();
            let elsewhere = &mut piece.acquisition.absent_elsewhere;
            *elsewhere = elsewhere.saturating_add(moved);
        }
        piece
    };
    (0..frames).step_by(length as usize).map(piece).collect()
}

/// The frames of a task that are in `range`, and what holds them. It keeps its id, by which it is found in the plan.
fn within(task: &Task, range: Spans) -> Task {
    let sources: Vec<_> = task.acquisition.sources.iter().filter_map(|source| source.restricted_to(&range)).collect();
    let bytes = sources.iter().map(|source| source.bytes).sum();
    let acquisition = Acquisition { sources, ..task.acquisition.clone() };
    let renamed = |recipe: TaskRecipe| {
        let part = Task::part_path(&task.scan, &recipe.recipe_digest, &range);
        TaskRecipe { part, ..recipe }
    };
    let piece = Task { bytes, range: range.clone(), acquisition, ..task.clone() };
    piece.with_recipes(task.recipes().map(renamed)).expect("it has as many recipes as before")
}
