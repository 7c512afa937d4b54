//! The tasks of `--plan`, which must be done, the tasks of `--missing`, which are still to do, and
//! the counts of `--count-done`.

use std::collections::HashMap;
use std::path::Path;

use filter::{Filter, Input, Stop};
use patterns::coverage::{self, UnusableFile};
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

    /// Iterates over the tasks, split into one for each recipe.
    pub fn split_by_recipe(&self) -> impl Iterator<Item = Task> {
        self.0.iter().cloned().flat_map(Task::split_by_recipe)
    }

    /// Emits each task that is not done, reduced to the frames that exist and have no pattern, and
    /// to the recipes that lack such frames. Tasks larger than `max_bytes` of stored data are
    /// split.
    ///
    /// # Errors
    /// Fails as [`Filter::emit`] does.
    pub fn emit_missing(&self, max_bytes: Option<u64>, filter: &Filter) -> Result<(), Stop> {
        let mut done: HashMap<OutputKey, Spans> = HashMap::new();
        for OutputTasks { key, tasks, recipe } in self.tasks_by_output() {
            filter.check_stopped()?;
            let scan_task = combine(&tasks, recipe);
            let coverage = coverage::find_coverage(&scan_task.out, &scan_task);
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

    /// Emits a record of how much of the plan is done, as names of parts and heads of final files
    /// tell. A final file is done if it has the plan's recipe and every frame of the plan that
    /// exists.
    ///
    /// # Errors
    /// Fails as [`Filter::emit`] does.
    pub fn emit_counts(&self, filter: &Filter) -> Result<(), Stop> {
        let mut progress = PlanCounts::default();
        let mut claimed: HashMap<OutputKey, Spans> = HashMap::new();
        for OutputTasks { key, tasks, recipe } in self.tasks_by_output() {
            filter.check_stopped()?;
            // Where results are does not depend on the frames, so that any task will do.
            let any_task = tasks[0].clone().with_recipes([recipe]).expect("a recipe is given");
            let frames = coverage::find_claimed_frames(&any_task.out, &any_task);
            report_unusable(&frames.unusable, &any_task, filter)?;
            progress.finals += 1;
            let existing: Vec<Spans> = tasks.iter().map(|task| existing_frames(task)).collect();
            let is_done = Spans::union_all(&existing).difference(&frames.in_output).is_empty();
            progress.finals_done += u64::from(is_done);
            claimed.insert(key, frames.all);
        }
        for task in self.latest_versions() {
            let existing = existing_frames(task);
            let lacking = |recipe: TaskRecipe| {
                let claimed = &claimed[&OutputKey::with_recipe(task, &recipe.recipe_digest)];
                frames_without(&existing, claimed)
            };
            let missing = Spans::union_all(&task.recipes().map(lacking).collect::<Vec<_>>());
            let (count, left) = (existing.count(), missing.count());
            progress.tasks += 1;
            progress.tasks_done += u64::from(left == 0);
            progress.frames += count;
            progress.frames_done += count - left;
            progress.bytes += task.bytes;
            progress.bytes_left += (task.bytes as f64 * left as f64 / count.max(1) as f64) as u64;
        }
        filter.emit(&Record::Other(progress.to_line()))
    }

    /// Iterates over the tasks without those that come again, later in the plan, with other content:
    /// while a scan is measured, a task comes again when more is known of its frames.
    fn latest_versions(&self) -> impl Iterator<Item = &Task> {
        let mut last = HashMap::new();
        for (index, task) in self.0.iter().enumerate() {
            last.insert((task.id.as_str(), &task.range), index);
        }
        let is_last =
            move |(index, task): &(usize, &Task)| last[&(task.id.as_str(), &task.range)] == *index;
        self.0.iter().enumerate().filter(is_last).map(|(_, task)| task)
    }

    /// Returns the tasks of each final file, so that the parts of each are looked at once.
    fn tasks_by_output(&self) -> Vec<OutputTasks<'_>> {
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
struct OutputTasks<'a> {
    key: OutputKey,
    /// The tasks, in the order of the plan; there is at least one. The tasks of a scan that is
    /// being measured differ in the frames that they know of.
    tasks: Vec<&'a Task>,
    /// The recipe of the first task.
    recipe: TaskRecipe,
}

/// Combines the tasks of a final file into one with the frames and sources of all.
fn combine(tasks: &[&Task], recipe: TaskRecipe) -> Task {
    let mut whole = tasks[0].clone().with_recipes([recipe]).expect("a recipe is given");
    whole.range = tasks.iter().flat_map(|task| task.range.as_slice()).copied().collect();
    let more = tasks[1..].iter().flat_map(|task| &task.acquisition.sources);
    whole.acquisition.sources.extend(more.cloned());
    whole
}

/// Returns the frames of a task that are not in `done`, which is in ascending order. Only the spans
/// of `done` near the task are looked at: those of a scan may be as many as its tasks.
fn frames_without(frames: &Spans, done: &Spans) -> Spans {
    let spans = frames.as_slice();
    let first = spans.iter().map(Span::start).min().unwrap_or(0);
    let end = spans.iter().map(Span::stop).max().unwrap_or(0);
    let done = done.as_slice();
    let near = &done[done.partition_point(|span| span.stop() <= first)..];
    let near = near.iter().take_while(|span| span.start() < end).copied();
    frames.difference(&near.collect())
}

/// Reports files whose frames count as not done: with a warning if they are damaged, and as
/// failures if they can't be read now, because their frames may be done for all that is known.
fn report_unusable(files: &[UnusableFile], task: &Task, filter: &Filter) -> Result<(), Stop> {
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
fn existing_frames(task: &Task) -> Spans {
    let absent = task.acquisition.absent_within(&task.range);
    absent.iter().fold(task.range.clone(), |range, absent| range.difference(&absent.range))
}

/// How much of a plan is done.
#[derive(Clone, Copy, Debug, Default)]
struct PlanCounts {
    finals: u64,
    finals_done: u64,
    tasks: u64,
    tasks_done: u64,
    frames: u64,
    frames_done: u64,
    bytes: u64,
    bytes_left: u64,
}

impl PlanCounts {
    /// Returns the record's line.
    fn to_line(self) -> String {
        let Self { finals, finals_done, tasks, tasks_done, frames, frames_done, bytes, bytes_left } =
            self;
        format!(
            "{{\"type\":\"progress\",\"v\":1,\"finals\":{finals},\"finals_done\":{finals_done},\"tasks\":{tasks},\
             \"tasks_done\":{tasks_done},\"frames\":{frames},\"frames_done\":{frames_done},\"bytes\":{bytes},\
             \"bytes_left\":{bytes_left}}}"
        )
    }
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
