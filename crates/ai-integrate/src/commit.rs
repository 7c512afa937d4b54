//! Commits a task whose frames are integrated: renames its parts into place and emits its results. Making a file
//! durable means waiting for the disk, so a separate thread commits a task while the next one is integrated.

use std::panic::resume_unwind;
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::Instant;

use filter::{Filter, Stop};
use patterns::coverage::CoverageIndex;
use patterns::part::PartWriter;
use records::{Absent, AbsentKind, Fail, Spans, Task, TaskResult};

use crate::batches::Batches;
use crate::job::Job;
use crate::stats::{TaskStats, format_ranges};

/// A task whose frames are integrated and whose parts are not committed yet.
pub struct IntegratedTask {
    /// The time at which the task was begun.
    pub began: Instant,
    /// The task's recipes.
    pub jobs: Vec<Job>,
    /// The frames that were to be integrated.
    pub batches: Batches,
    /// The counts, losses and times of the task's batches.
    pub stats: TaskStats,
    /// The part that holds the rows of each recipe; `None` for a recipe that had no frames to integrate.
    pub parts: Vec<Option<PartWriter>>,
    /// The device's name in the results; empty without a device.
    pub device: String,
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
    /// Returns whether a part waits to be made durable, which takes time.
    pub fn has_parts(&self) -> bool {
        self.parts.iter().any(Option::is_some)
    }

    /// Commits the parts, adds them to `index`, and emits the losses and one result per recipe. Frames that should
    /// have a pattern and have none make the status 1, whether this run or scan-find noticed it.
    ///
    /// # Errors
    /// Fails if a part can't be written, and as [`Filter::emit`].
    pub fn commit(mut self, filter: &Filter, index: &CoverageIndex) -> Result<TaskProgress, Stop> {
        let digests = self.commit_parts(index)?;
        let first = &self.jobs[0];
        self.stats.report_losses(filter, &first.task)?;
        let without_monitor = self.stats.has_frames_without_monitor().then_some(AbsentKind::NoMonitor);
        warn_of_absent(filter, first);
        filter.mark_failed_if_lossy(first.absent.iter().map(|absent| absent.kind).chain(without_monitor));
        let todo: Vec<Spans> = self.jobs.iter().map(|job| job.todo.clone()).collect();
        let frames_without_source =
            report_frames_without_source(filter, &first.task, self.batches.frames_without_source(&todo))?;
        let progress = TaskProgress {
            any_integrated: self.stats.has_done(),
            cut_short: self.stats.frames() < self.batches.frames(),
        };
        self.stats.seconds.wall = self.began.elapsed().as_secs_f64();
        let Self { jobs, batches: windows, stats: tally, device, .. } = self;
        let has_work = |recipe| windows.frames_of_recipe(recipe).next().is_some();
        let shares = tally.recipe_shares(has_work);
        for (recipe, ((job, part_digest), (read_bytes, seconds))) in
            jobs.into_iter().zip(digests).zip(shares).enumerate()
        {
            let done: Spans = tally.done(recipe).iter().copied().collect();
            let done = job.covered.as_slice().iter().chain(done.as_slice()).copied().collect::<Spans>().to_sorted();
            let (engine, sent_bytes) = tally.engine(recipe);
            let skipped = !has_work(recipe);
            let missing = job
                .absent
                .into_iter()
                .chain(tally.missing(&job.todo))
                .chain(absent_within(&frames_without_source, &job.todo));
            let result = TaskResult {
                task: job.task,
                done,
                missing: missing.collect(),
                skipped,
                part_digest,
                read_bytes,
                seconds,
                sent_bytes,
                device: if engine == "cpu" { engine.to_owned() } else { device.clone() },
                engine: engine.to_owned(),
                decode_path: if skipped { String::new() } else { tally.decode_path() },
                host: host_name(),
            };
            filter.emit(&result.into())?;
        }
        Ok(progress)
    }

    /// Makes the parts durable, renames them to the names of the frames that they hold, and returns their digests by
    /// recipe.
    fn commit_parts(&mut self, index: &CoverageIndex) -> Result<Vec<Option<String>>, Stop> {
        let began = Instant::now();
        let parts = std::mem::take(&mut self.parts).into_iter().zip(&self.jobs).enumerate();
        let finished = parts.map(|(recipe, (part, job))| {
            let (done, lost) = (self.stats.done(recipe), self.stats.lost().intersection(&job.todo));
            let Some(mut part) = part.filter(|_| done.len() as u64 + lost.count() > 0) else { return Ok(None) };
            if done.len() < self.batches.frames_of_recipe(recipe).count() {
                part.rename(&job.partial_part_name(&done.iter().copied().collect(), &lost))?;
            }
            let path = part.target().to_path_buf();
            part.finish().inspect(|_| index.add(&path)).map(Some)
        });
        let digests = finished.collect::<Result<_, _>>().map_err(|why| Stop::fatal("part", why))?;
        self.stats.seconds.write += began.elapsed().as_secs_f64();
        Ok(digests)
    }
}

/// A task that a thread of its own commits.
pub struct PendingCommit<'a> {
    scan: String,
    range: Spans,
    thread: ScopedJoinHandle<'a, Result<(), Stop>>,
}

impl<'a> PendingCommit<'a> {
    /// Starts a thread that commits the task by `commit`.
    ///
    /// # Errors
    /// Fails if the thread can't be started.
    pub fn spawn<'e>(
        scope: &'a Scope<'a, 'e>,
        task: IntegratedTask,
        settle: &'a (impl Fn(IntegratedTask) -> Result<(), Stop> + Sync),
    ) -> Result<Self, Stop> {
        let Task { scan, range, .. } = &task.jobs[0].task;
        let (scan, range) = (scan.clone(), range.clone());
        let thread = Builder::new().name("settle".to_owned()).spawn_scoped(scope, move || settle(task));
        thread.map(|thread| Self { scan, range, thread }).map_err(|why| Stop::fatal("threads", why))
    }

    /// Returns whether the other task shares frames with this one. Which of them are done is known only after this
    /// commit.
    pub fn overlaps(&self, other: &Task) -> bool {
        self.scan == other.scan && !self.range.intersection(&other.range).is_empty()
    }

    /// Waits until the task is committed.
    ///
    /// # Errors
    /// Returns the error of the commit.
    ///
    /// # Panics
    /// Resumes a panic of the commit's thread.
    pub fn wait(self) -> Result<(), Stop> {
        self.thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}

/// Warns of the frames of a task that scan-find expected and did not find; they make the status 1.
fn warn_of_absent(filter: &Filter, job: &Job) {
    let lost: Vec<&Absent> = job.absent.iter().filter(|absent| absent.kind.is_loss()).collect();
    let Some(first) = lost.first() else { return };
    let count: u64 = lost.iter().map(|absent| absent.range.count()).sum();
    let more = if lost.len() > 1 { ", and other reasons" } else { "" };
    let (file, entry) = (job.task.acquisition.file.display(), &job.task.acquisition.entry);
    filter.warn(&format!("{file}: entry {entry}: {count} frames without data: {}{more}", first.reason));
}

/// Reports the frames that no source of the task holds although scan-find did not list them as absent.
fn report_frames_without_source(
    filter: &Filter,
    task: &Task,
    frames_without_source: Spans,
) -> Result<Option<Absent>, Stop> {
    if frames_without_source.is_empty() {
        return Ok(None);
    }
    let error = format!("frames {}: no source of the task holds them", format_ranges(&frames_without_source));
    let about = task.acquisition.file.display().to_string();
    filter.fail(Fail { id: task.id.clone(), about, error, ..Fail::default() })?;
    Ok(Some(Absent { range: frames_without_source, kind: AbsentKind::Missing, reason: "no source".to_owned() }))
}

fn absent_within(absent: &Option<Absent>, todo: &Spans) -> Option<Absent> {
    let absent = absent.as_ref()?;
    Some(Absent { range: absent.range.intersection(todo), ..absent.clone() }).filter(|absent| !absent.range.is_empty())
}

fn host_name() -> String {
    nix::unistd::gethostname().map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned())
}
