//! Commits a task whose frames are integrated: renames its parts into place and emits its results.
//! Making a file durable means waiting for the disk, so a separate thread commits a task while the
//! next one is integrated.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::Instant;

use filter::{Filter, FrameCounts, Stop};
use patterns::coverage::CoverageIndex;
use patterns::part::PartWriter;
use patterns::{Status, output};
use records::{
    Absent, AbsentKind, Acquisition, Fail, Spans, Task, TaskResult, format_count, format_frames,
};

use crate::batches::{Batches, RecipeIndex};
use crate::error::MAX_RANGES_IN_MESSAGE;
use crate::frame_states::{DoneTask, FrameStates, RecipeOutput};
use crate::pixel_statistics::{StatisticsTask, TaskStatistics};
use crate::recipe_task::RecipeTask;
use crate::running_tasks::RunningTask;
use crate::stats::{TaskStats, loss_record};

/// A task whose frames are integrated and whose parts are not committed yet.
pub struct IntegratedTask {
    /// The time at which the task was begun.
    pub began: Instant,
    /// The task's recipes.
    pub recipe_tasks: Vec<RecipeTask>,
    /// The frames that were to be integrated.
    pub batches: Batches,
    /// The counts, losses and times of the task's batches.
    pub stats: TaskStats,
    /// The part that holds the rows of each recipe; `None` for a recipe that had no frames to
    /// integrate.
    pub parts: Vec<Option<PartWriter>>,
    /// The statistics of the pixels, and what they are of.
    pub statistics: Vec<(StatisticsTask, TaskStatistics)>,
    /// The device's name in the results; empty without a device.
    pub device: String,
    /// How many frames an earlier run has integrated by all recipes.
    pub found: u64,
}

/// The progress that a task made before it was committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskProgress {
    /// True if frames were integrated.
    pub any_integrated: bool,
    /// True if the filter was asked to drain before the task's end.
    pub cut_short: bool,
}

impl IntegratedTask {
    /// Returns whether a part or statistics wait to be made durable, which takes time.
    pub fn has_parts(&self) -> bool {
        self.parts.iter().any(Option::is_some) || !self.statistics.is_empty()
    }

    /// Commits the parts and the statistics, adds the parts to `index`, and emits the losses and one
    /// result per recipe.
    /// Frames that should have a pattern and have none are noted in `states`, whether this run, an
    /// earlier one or scan-find noticed it.
    ///
    /// # Errors
    /// Fails if a part or statistics can't be written, and as [`Filter::emit`].
    pub fn commit(
        mut self,
        filter: &Filter,
        index: &CoverageIndex,
        states: &FrameStates,
    ) -> Result<TaskProgress, Stop> {
        let digests = self.commit_parts(index)?;
        // Before the results, which gather may wait for. Without them, the parts count all the same.
        let statistics = std::mem::take(&mut self.statistics).into_iter();
        let statistics: Vec<Result<(), Stop>> =
            statistics.map(|(task, statistics)| task.commit(statistics, filter)).collect();
        let first = &self.recipe_tasks[0];
        self.stats.report_losses(filter, &first.task)?;
        report_earlier_losses(filter, &self.recipe_tasks)?;
        // Another recipe may have a pattern of a frame whose file is away.
        let count = |recipe_task: &&RecipeTask| -> u64 {
            recipe_task.absent.iter().map(|absent| absent.range.count()).sum()
        };
        let lacking_most = self.recipe_tasks.iter().max_by_key(count).unwrap_or(first);
        warn_of_absent(filter, lacking_most, states);
        self.warn_of_frames_without_pattern(filter);
        let todo: Vec<Spans> =
            self.recipe_tasks.iter().map(|recipe_task| recipe_task.todo.clone()).collect();
        let frames_without_source = report_frames_without_source(
            filter,
            &first.task,
            self.batches.frames_without_source(&todo),
        )?;
        let progress = TaskProgress {
            any_integrated: self.stats.has_done(),
            cut_short: self.stats.frames() < self.batches.frames(),
        };
        self.stats.seconds.wall = self.began.elapsed().as_secs_f64();
        let unfinished = (self.batches.frames() - self.stats.frames()) as u64;
        let counted = self.stats.frame_counts(self.found);
        let covered = self.recipe_tasks.iter().map(|recipe_task| &recipe_task.covered);
        let mut done_task = DoneTask {
            about: first.task.range.clone(),
            found: Spans::union_all(covered).difference(&Spans::union_all(&todo)),
            missing: Vec::new(),
        };
        let Self { recipe_tasks, batches, stats, device, .. } = self;
        let has_work = |recipe| batches.frames_of_recipe(recipe).next().is_some();
        let shares = stats.recipe_shares(has_work);
        for (recipe, ((recipe_task, part_digest), (read_bytes, seconds))) in
            recipe_tasks.into_iter().zip(digests).zip(shares).enumerate()
        {
            let recipe = RecipeIndex(recipe);
            let without_pattern = frames_without_pattern(&recipe_task, &stats, recipe);
            let known_before =
                describe_without_pattern(&without_pattern, &recipe_task.task.acquisition);
            let done: Spans = stats.done(recipe).iter().copied().collect();
            let done = without_pattern
                .values()
                .fold(recipe_task.covered.union(&done), |done, frames| done.difference(frames));
            let (engine, sent_bytes) = stats.engine(recipe);
            let skipped = !has_work(recipe);
            // A frame that has a pattern, of which only the pixels were to do, is not missing.
            let lacking = recipe_task.todo.difference(&recipe_task.covered);
            let missing = recipe_task
                .absent
                .into_iter()
                .chain(stats.missing(&lacking, &recipe_task.task.acquisition))
                .chain(known_before)
                .chain(absent_within(&frames_without_source, &lacking));
            let missing: Vec<Absent> = missing.collect();
            done_task.missing.push((RecipeOutput::new(&recipe_task.task), missing.clone()));
            let result = TaskResult {
                task: recipe_task.task,
                done,
                missing,
                skipped,
                part_digest,
                read_bytes,
                seconds,
                sent_bytes,
                device: if engine == "cpu" { engine.to_owned() } else { device.clone() },
                engine: engine.to_owned(),
                decode_path: if skipped { String::new() } else { stats.decode_path() },
                host: host_name(),
            };
            filter.emit(&result.into())?;
        }
        let (before, now) = states.replace(&done_task);
        filter.progress().count_again(before);
        let done = now.done.saturating_sub(unfinished);
        filter.progress().correct(counted, FrameCounts { done, ..now });
        filter.progress().keep(done);
        statistics.into_iter().collect::<Result<(), Stop>>().map(|()| progress)
    }

    /// Warns of the frames that have no monitor, geometry or valid pixel, by this run or an earlier one.
    fn warn_of_frames_without_pattern(&self, filter: &Filter) {
        for (recipe, recipe_task) in self.recipe_tasks.iter().enumerate() {
            let all = frames_without_pattern(recipe_task, &self.stats, RecipeIndex(recipe));
            for absent in all.into_iter().map(|(status, frames)| status.to_absent(frames, None)) {
                if matches!(
                    absent.kind,
                    AbsentKind::NoMonitor | AbsentKind::NoGeometry | AbsentKind::NoValidPixel
                ) {
                    let of_several = if self.recipe_tasks.len() > 1 {
                        Some(&recipe_task.task.final_file)
                    } else {
                        None
                    };
                    let about =
                        of_several.map_or(String::new(), |file| format!(" for {}", file.display()));
                    let scan = &recipe_task.task.acquisition;
                    let frames = format_count(absent.range.count(), "frame");
                    let (file, entry) = (scan.file.display(), &scan.entry);
                    filter.warn(&format!(
                        "{file}: entry {entry}{about}: {frames} without a pattern: {}",
                        absent.reason
                    ));
                }
            }
        }
    }

    /// Makes the parts durable, renames them to the names of the frames that they hold, and returns
    /// their digests by recipe.
    fn commit_parts(&mut self, index: &CoverageIndex) -> Result<Vec<Option<String>>, Stop> {
        let began = Instant::now();
        let parts = std::mem::take(&mut self.parts).into_iter().zip(&self.recipe_tasks).enumerate();
        let finished = parts.map(|(recipe, (part, recipe_task))| {
            let recipe = RecipeIndex(recipe);
            let (done, lost) =
                (self.stats.done(recipe), self.stats.lost().intersection(&recipe_task.todo));
            let Some(mut part) = part.filter(|_| done.len() as u64 + lost.count() > 0) else {
                return Ok(None);
            };
            if done.len() < self.batches.frames_of_recipe(recipe).count() {
                part.rename(
                    &recipe_task.partial_part_name(&done.iter().copied().collect(), &lost),
                )?;
            }
            output::keep_shown_part(&recipe_task.task, &mut part)?;
            let path = part.target().to_path_buf();
            part.finish().inspect(|_| index.add(&path)).map(Some)
        });
        let digests = finished.collect::<Result<_, _>>().map_err(|why| Stop::fatal("part", why))?;
        self.stats.seconds.write += began.elapsed().as_secs_f64();
        Ok(digests)
    }
}

/// A task that a separate thread commits.
pub struct PendingCommit<'a>(ScopedJoinHandle<'a, Result<(), Stop>>);

impl<'a> PendingCommit<'a> {
    /// Starts a thread that commits the task by `commit`. The task runs until then.
    ///
    /// # Errors
    /// Fails if the thread can't be started.
    pub fn spawn<'e>(
        scope: &'a Scope<'a, 'e>,
        task: IntegratedTask,
        running: RunningTask<'a>,
        commit: &'a (impl Fn(IntegratedTask) -> Result<(), Stop> + Sync),
    ) -> Result<Self, Stop> {
        let commit = move || {
            let committed = commit(task);
            drop(running);
            committed
        };
        let thread = Builder::new().name("commit".to_owned()).spawn_scoped(scope, commit);
        thread.map(Self).map_err(|why| Stop::fatal("starting a thread", why))
    }

    /// Waits until the task is committed.
    ///
    /// # Errors
    /// Returns the error of the commit.
    ///
    /// # Panics
    /// Resumes a panic of the commit's thread.
    pub fn wait(self) -> Result<(), Stop> {
        self.0.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}

/// Returns the frames of a task's recipe that no rerun would give a pattern, by status: those of
/// this run without a monitor, and those of earlier runs.
fn frames_without_pattern(
    recipe_task: &RecipeTask,
    stats: &TaskStats,
    recipe: RecipeIndex,
) -> BTreeMap<Status, Spans> {
    let mut all: BTreeMap<Status, Spans> = BTreeMap::new();
    let earlier = recipe_task
        .covered_without_pattern
        .iter()
        .map(|(status, frames)| (*status, frames.clone()));
    for (status, frames) in stats.without_pattern(recipe).chain(earlier) {
        let known = all.entry(status).or_default();
        *known = known
            .as_slice()
            .iter()
            .chain(frames.as_slice())
            .copied()
            .collect::<Spans>()
            .to_sorted();
    }
    all.retain(|_, frames| !frames.is_empty());
    all
}

/// Returns the records of these frames. Those without data name their file, as the run that lost
/// them did.
fn describe_without_pattern(frames: &BTreeMap<Status, Spans>, scan: &Acquisition) -> Vec<Absent> {
    let mut all = Vec::new();
    for (status, frames) in frames {
        match status {
            Status::Absent => all.extend(frames_by_source(scan, frames.clone()).into_iter().map(
                |(source, frames)| {
                    status.to_absent(
                        frames.into_iter().collect(),
                        Some(&scan.short_name(&scan.sources[source].file)),
                    )
                },
            )),
            _ => all.push(status.to_absent(frames.clone(), None)),
        }
    }
    all
}

/// Returns the frames in each source, by its index.
fn frames_by_source(scan: &Acquisition, frames: Spans) -> BTreeMap<usize, Vec<u64>> {
    let mut by_source: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for location in Batches::new(scan, &[frames], 1).locations() {
        by_source.entry(location.source).or_default().push(location.frame);
    }
    by_source
}

/// Reports the frames that an earlier run lost for good, because their file has no data for them,
/// as that run did.
fn report_earlier_losses(filter: &Filter, recipe_tasks: &[RecipeTask]) -> Result<(), Stop> {
    let lost = recipe_tasks
        .iter()
        .filter_map(|recipe_task| recipe_task.covered_without_pattern.get(&Status::Absent));
    let lost: Spans = lost.flat_map(|frames| frames.as_slice()).copied().collect();
    let task = &recipe_tasks[0].task;
    for (source, frames) in frames_by_source(&task.acquisition, lost.to_sorted()) {
        filter.fail(loss_record(
            task,
            source,
            &frames,
            "no data for them in the file, as an earlier run found",
            true,
        ))?;
    }
    Ok(())
}

/// Warns of the frames of a task that scan-find expected and did not find, unless an earlier task of a
/// scan that grows lacked the same frames for the same reason.
fn warn_of_absent(filter: &Filter, recipe_task: &RecipeTask, states: &FrameStates) {
    let task = &recipe_task.task;
    let (file, entry) = (task.acquisition.file.display(), &task.acquisition.entry);
    let Some(why) = describe_absent(&recipe_task.absent) else { return };
    let lacking = recipe_task.absent.iter().map(|absent| &absent.range);
    let about = format!("{why} {:?}", Spans::union_all(lacking).as_slice());
    if states.is_new_warning(RecipeOutput::new(task), &about) {
        filter.warn(&format!("{file}: entry {entry}: {why}"));
    }
}

/// Describes the frames that scan-find expected and did not find; `None` if there are none.
pub(crate) fn describe_absent(absent: &[Absent]) -> Option<String> {
    let lost: Vec<&Absent> = absent.iter().filter(|absent| absent.kind.is_loss()).collect();
    let count: u64 = lost.iter().map(|absent| absent.range.count()).sum();
    let more = if lost.len() > 1 { ", and other reasons" } else { "" };
    Some(format!("{} without data: {}{more}", format_count(count, "frame"), lost.first()?.reason))
}

/// Describes frames of a task that none of its sources holds.
pub(crate) fn describe_frames_without_source(frames: &Spans) -> String {
    format!("{}: no file of the task has them", format_frames(frames, MAX_RANGES_IN_MESSAGE))
}

/// Reports the frames that no source of the task holds although scan-find did not list them as
/// absent.
fn report_frames_without_source(
    filter: &Filter,
    task: &Task,
    frames_without_source: Spans,
) -> Result<Option<Absent>, Stop> {
    if frames_without_source.is_empty() {
        return Ok(None);
    }
    let error = describe_frames_without_source(&frames_without_source);
    let about = task.acquisition.file.display().to_string();
    filter.fail(Fail { id: task.id.clone(), about, error, ..Fail::default() })?;
    Ok(Some(Absent {
        range: frames_without_source,
        kind: AbsentKind::Missing,
        reason: "no source".to_owned(),
    }))
}

fn absent_within(absent: &Option<Absent>, todo: &Spans) -> Option<Absent> {
    let absent = absent.as_ref()?;
    Some(Absent { range: absent.range.intersection(todo), ..absent.clone() })
        .filter(|absent| !absent.range.is_empty())
}

fn host_name() -> String {
    nix::unistd::gethostname()
        .map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned())
}
