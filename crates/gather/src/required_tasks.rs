//! The tasks of `--plan`, which must be done, and the tasks of `--missing`, which are still to do.

use std::collections::HashMap;
use std::path::Path;

use filter::{Filter, Input, Stop};
use patterns::MonitorValues;
use patterns::coverage::{self, CoverageIndex, UnusableFile};
use recipe::{Recipe, RecipeError};
use records::{Acquisition, Fail, Record, Span, Spans, Task, TaskRecipe};

use crate::scan_group::OutputKey;

/// The tasks of a plan, in its order.
pub struct RequiredTasks(Vec<Task>);

impl RequiredTasks {
    /// Reads a plan. If `root` is given, results are looked for there instead of in the tasks' own
    /// output root.
    ///
    /// # Errors
    /// Fails if the file can't be read, and if a signal asks to stop.
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

    /// Returns whether the plan has no tasks.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the tasks, split into one for each recipe.
    pub fn split_by_recipe(&self) -> impl Iterator<Item = Task> {
        self.0.iter().cloned().flat_map(Task::split_by_recipe)
    }

    /// Emits each task that is not done, reduced to the frames that exist and have no pattern, and
    /// to the recipes that lack such frames. Tasks larger than `max_bytes` of stored data are
    /// split. With `needs_sparse`, patterns of recipes that clip count only with their sparse pixels.
    ///
    /// # Errors
    /// Fails as [`Filter::emit`] does.
    pub fn emit_missing(
        &self,
        max_bytes: Option<u64>,
        needs_sparse: bool,
        filter: &Filter,
    ) -> Result<(), Stop> {
        let mut done: HashMap<OutputKey, Spans> = HashMap::new();
        for OutputTasks { key, tasks, recipe } in self.tasks_by_output() {
            filter.check_stopped()?;
            let scan_task = combine(&tasks, recipe);
            let monitor = read_monitor(&scan_task, filter);
            let index = CoverageIndex::default();
            let coverage = match needs_sparse && rejects_pixels(&scan_task, filter)? {
                true => index.find_sparse_coverage(&scan_task.out, &scan_task, monitor.as_ref()),
                false => index.find_coverage(&scan_task.out, &scan_task, monitor.as_ref()),
            };
            report_unusable(&coverage.unusable, &scan_task, filter)?;
            done.insert(key, coverage.covered_frames());
        }
        for task in self.latest_versions() {
            let existing = existing_frames(task);
            let missing = task.recipes().filter_map(|recipe| {
                let done = &done[&OutputKey::with_recipe(task, &recipe.recipe_digest)];
                let missing = frames_without(&existing, done);
                (!missing.is_empty()).then_some((recipe, missing))
            });
            if let Some(task) = restrict_to_missing(task, missing.collect()) {
                for piece in split_by_bytes(task, max_bytes) {
                    filter.emit(&piece.into())?;
                }
            }
        }
        Ok(())
    }

    /// Iterates over the tasks without those that come again, later in the plan, with other content:
    /// while a scan is measured, a task comes again when more is known of its frames.
    pub fn latest_versions(&self) -> impl Iterator<Item = &Task> {
        let mut last = HashMap::new();
        for (index, task) in self.0.iter().enumerate() {
            last.insert((task.id.as_str(), &task.range), index);
        }
        let is_last =
            move |(index, task): &(usize, &Task)| last[&(task.id.as_str(), &task.range)] == *index;
        self.0.iter().enumerate().filter(is_last).map(|(_, task)| task)
    }

    /// Returns the tasks of each final file, so that the parts of each are looked at once.
    pub fn tasks_by_output(&self) -> Vec<OutputTasks<'_>> {
        let mut indices = HashMap::new();
        let mut outputs: Vec<OutputTasks> = Vec::new();
        for task in &self.0 {
            for recipe in task.recipes() {
                let key = OutputKey::with_recipe(task, &recipe.recipe_digest);
                match indices.get(&key) {
                    Some(&index) => {
                        let output: &mut OutputTasks = &mut outputs[index];
                        output.tasks.push(task);
                    }
                    None => {
                        indices.insert(key.clone(), outputs.len());
                        outputs.push(OutputTasks { key, tasks: vec![task], recipe });
                    }
                }
            }
        }
        outputs
    }
}

/// The tasks of a final file.
pub struct OutputTasks<'a> {
    pub key: OutputKey,
    /// The tasks, in the order of the plan; there is at least one. The tasks of a scan that is
    /// being measured differ in the frames that they know of.
    pub tasks: Vec<&'a Task>,
    /// The recipe of the first task.
    pub recipe: TaskRecipe,
}

/// Combines the tasks of a final file into one with the frames and sources of all.
pub fn combine(tasks: &[&Task], recipe: TaskRecipe) -> Task {
    let mut whole = tasks[0].clone().with_recipes([recipe]).expect("a recipe is given");
    whole.range = tasks.iter().flat_map(|task| task.range.as_slice()).copied().collect();
    let more = tasks[1..].iter().flat_map(|task| &task.acquisition.sources);
    whole.acquisition.sources.extend(more.cloned());
    whole
}

/// Returns the frames of a task that are not in `done`, which is in ascending order.
pub fn frames_without(frames: &Spans, done: &Spans) -> Spans {
    frames.difference(&frames_near(frames, done))
}

/// Returns the spans of an ascending list that may have some of these frames.
pub fn frames_near(frames: &Spans, list: &Spans) -> Spans {
    let spans = frames.as_slice();
    let first = spans.iter().map(Span::start).min().unwrap_or(0);
    let end = spans.iter().map(Span::stop).max().unwrap_or(0);
    coverage::spans_between(list, first, end)
}

/// Reports files whose frames count as not done: with a warning if they are damaged, and as
/// failures if they can't be read now, because their frames may be done for all that is known.
pub fn report_unusable(files: &[UnusableFile], task: &Task, filter: &Filter) -> Result<(), Stop> {
    for file in files {
        let why = file.to_string();
        if file.is_io_failure {
            let about = format!("results for {}", task.final_file.display());
            filter.fail(Fail {
                id: task.id.clone(),
                about,
                error: why,
                retryable: true,
                ..Fail::default()
            })?;
        } else {
            filter.warn(&why);
        }
    }
    Ok(())
}

/// Returns the frames of a task's range that exist.
pub fn existing_frames(task: &Task) -> Spans {
    let absent = task.acquisition.absent_within(&task.range);
    absent.iter().fold(task.range.clone(), |range, absent| range.difference(&absent.range))
}

/// Restricts a task to the recipes that lack frames, and to the frames that any of them lacks;
/// `None` if none does. Where a recipe has a pattern that another one lacks, ai-integrate finds it
/// done.
fn restrict_to_missing(task: &Task, missing: Vec<(TaskRecipe, Spans)>) -> Option<Task> {
    let range: Spans =
        missing.iter().flat_map(|(_, frames)| frames.as_slice().iter().copied()).collect();
    let range = range.to_sorted();
    let with_recipes = task.clone().with_recipes(missing.into_iter().map(|(recipe, _)| recipe))?;
    Some(if range == task.range.to_sorted() {
        with_recipes
    } else {
        restrict_to_range(&with_recipes, range)
    })
}

/// Splits a task into pieces of equal numbers of frames and at most about `max_bytes` stored bytes.
/// Frames that share a chunk stay together.
fn split_by_bytes(task: Task, max_bytes: Option<u64>) -> Vec<Task> {
    let Some(max_bytes) = max_bytes.filter(|&max_bytes| task.bytes > max_bytes) else {
        return vec![task];
    };
    let frames = task.range.count();
    let frames_per_chunk = task.acquisition.chunk.first().copied().unwrap_or(1).max(1);
    let length = frames.div_ceil(task.bytes.div_ceil(max_bytes)).next_multiple_of(frames_per_chunk);
    let range = task.range.to_sorted();
    let piece = |from| {
        let mut piece = restrict_to_range(&task, range.slice(from, length));
        if from > 0 {
            // The absent frames of the task are in no piece's range, and only the first piece lists
            // them.
            let absent = std::mem::take(&mut piece.acquisition.absent);
            let count = absent.iter().map(|absent| absent.range.count()).sum();
            let elsewhere = &mut piece.acquisition.absent_elsewhere;
            *elsewhere = elsewhere.saturating_add(count);
        }
        piece
    };
    (0..frames).step_by(length as usize).map(piece).collect()
}

/// Restricts a task to a range of its frames and to the sources that hold them. It keeps its id, by
/// which it can be found in the plan.
fn restrict_to_range(task: &Task, range: Spans) -> Task {
    let sources: Vec<_> =
        task.acquisition.sources.iter().filter_map(|source| source.restricted_to(&range)).collect();
    let bytes = sources.iter().map(|source| source.bytes).sum();
    let acquisition = Acquisition { sources, ..task.acquisition.clone() };
    let with_new_part = |recipe: TaskRecipe| {
        let part = Task::part_path(&task.scan, &recipe.recipe_digest, &range);
        TaskRecipe { part, ..recipe }
    };
    let piece = Task { bytes, range: range.clone(), acquisition, ..task.clone() };
    piece.with_recipes(task.recipes().map(with_new_part)).expect("a task has at least one recipe")
}

/// Returns whether the recipe of a task rejects pixels, which `ai-integrate --sparse` keeps. The files
/// of the recipe are not read. A recipe that can't be read is a failure, and may do so.
///
/// # Errors
/// Fails as [`Filter::fail`] does.
pub fn rejects_pixels(task: &Task, filter: &Filter) -> Result<bool, Stop> {
    match Recipe::load_unverified(&task.recipe, &task.recipe_digest) {
        Ok(recipe) => Ok(recipe.sigma_clip.is_some()),
        Err(why) => {
            filter.fail(Fail {
                id: task.id.clone(),
                about: format!("sparse pixels of {}", task.final_file.display()),
                retryable: matches!(why, RecipeError::Io { .. }),
                error: why.to_string(),
                ..Fail::default()
            })?;
            Ok(true)
        }
    }
}

/// Reads the monitor of a task's scan, by which frames are recognized whose monitor was corrected
/// since. `None` with a warning if it can't be read: earlier patterns then count.
fn read_monitor(task: &Task, filter: &Filter) -> Option<MonitorValues> {
    let monitor = Recipe::load(&task.recipe, &task.recipe_digest)
        .map_err(|why| why.to_string())
        .and_then(|recipe| MonitorValues::read(task, &recipe).map_err(|why| why.to_string()));
    let warn = |why: &String| {
        let entry = &task.acquisition.entry;
        filter.warn(&format!(
            "entry {entry}: the monitor of earlier patterns can't be compared: {why}"
        ));
    };
    monitor.inspect_err(warn).ok()
}
