//! Integrates one task: finds the frames that are done, and integrates the rest.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use filter::{Filter, FrameCounts, Stop, Work};
use integrator::opencl::DeviceError;
use memory_model::prefetch_threads;
use patterns::coverage::{CoverageIndex, OwnerError};
use patterns::part::{self, PartStorage, PartWriter, RowEncoder};
use patterns::pixel_statistics::SourceStates;
use patterns::sparse_pixels::SparseFrame;
use records::{Fail, Seconds, Spans, Task, format_count};

use crate::args::Args;
use crate::attempt::{Attempt, TaskOutcome};
use crate::batch_runner::BatchRunner;
use crate::batches::{Batches, RecipeIndex};
use crate::busy_times::{BusyTimes, Stage};
use crate::commit::IntegratedTask;
use crate::device::pool::DevicePool;
use crate::device::worker::SharedDevice;
use crate::error::TaskError;
use crate::memory;
use crate::monitor_cache::MonitorCache;
use crate::pixel_statistics::{self, StatisticsTask};
use crate::recipe_group::RecipeGroup;
use crate::recipe_task::RecipeTask;
use crate::recipes::RecipeCache;
use crate::segments::find_segments;
use crate::sources::{FrameLoss, SourcePool};
use crate::sparse;
use crate::stats::TaskStats;
use crate::task_device::{self, TaskDevice};
use crate::task_names::{describe_scan, describe_task};
use crate::worker_memory::{TaskKind, WorkerMemoryPool};

/// The number of files that all engines together keep open ahead of need; the usual limit of a
/// process is 1024.
const MAX_OPEN_FILES: usize = 256;

/// The state that the tasks of a run share.
pub struct TaskRunner<'a> {
    filter: &'a Filter,
    args: &'a Args,
    device_pool: &'a DevicePool,
    threads: usize,
    recipes: RecipeCache,
    monitors: MonitorCache,
    /// The index of the frames that are done.
    index: CoverageIndex,
    /// States of the files that statistics of the pixels were made from.
    source_states: SourceStates,
    times: &'a BusyTimes,
    worker_memory: WorkerMemoryPool,
    /// Warnings about frames that were given.
    warned: Mutex<HashSet<String>>,
}

impl<'a> TaskRunner<'a> {
    /// Creates a runner whose tasks use `threads` threads each.
    pub fn new(
        filter: &'a Filter,
        args: &'a Args,
        device_pool: &'a DevicePool,
        threads: usize,
        times: &'a BusyTimes,
    ) -> Self {
        let (recipes, index) = (RecipeCache::default(), CoverageIndex::default());
        let (monitors, source_states) = (MonitorCache::default(), SourceStates::default());
        let warned = Mutex::default();
        Self {
            filter,
            args,
            device_pool,
            threads,
            recipes,
            monitors,
            index,
            source_states,
            times,
            worker_memory: WorkerMemoryPool::default(),
            warned,
        }
    }

    /// Returns the times of the stages.
    pub fn times(&self) -> &'a BusyTimes {
        self.times
    }

    /// Returns the index of the frames that are done.
    pub fn index(&self) -> &CoverageIndex {
        &self.index
    }

    /// Integrates a task's frames on the engine with this number. Returns `None` if the task can't
    /// be integrated, after it has reported why.
    ///
    /// # Errors
    /// Fails if a part can't be written, on a signal, and as [`Filter::emit`].
    pub fn integrate(
        &self,
        mut task: Task,
        engine_number: usize,
    ) -> Result<Option<IntegratedTask>, Stop> {
        let began = Instant::now();
        if let Some(out) = &self.args.out {
            task.out =
                std::path::absolute(out).map_err(|why| Stop::fatal(out.display(), why))?.into();
        }
        self.filter.progress().set_scan(describe_scan(&task.acquisition));
        let (is_of_several, frames) = (!task.more.is_empty(), task.range.count());
        let mut recipe_tasks = Vec::new();
        let tasks = task.split_by_recipe();
        self.worker_memory.begin(&TaskKind::from_tasks(&tasks));
        for task in tasks {
            match self.index.check_owner(&task.out, &task) {
                Ok(()) => (),
                Err(OwnerError::Unreadable(why)) => return Err(Stop::fatal("output", why)),
                Err(OwnerError::Other(why)) => {
                    self.report_task_error(
                        &task,
                        TaskError { why, retryable: false },
                        is_of_several,
                    )?;
                    continue;
                }
            }
            match RecipeTask::new(
                &task,
                &self.recipes,
                &self.monitors,
                &self.index,
                self.args,
                self.filter,
            ) {
                Ok(recipe_task) => recipe_tasks.push(recipe_task),
                Err(refusal) => self.report_task_error(&task, refusal, is_of_several)?,
            }
        }
        let statistics = match self.args.pixel_stats && !recipe_tasks.is_empty() {
            true => StatisticsTask::of_each_rule(
                &recipe_tasks,
                self.args.force,
                &self.source_states,
                self.filter,
            )?,
            false => Vec::new(),
        };
        let mut attempt = Attempt { began, recipe_tasks, statistics, found: 0 };
        while !attempt.recipe_tasks.is_empty() {
            match self.integrate_recipes(attempt, engine_number)? {
                Ok(integrated) => return Ok(Some(integrated)),
                Err((mut others, recipe, why)) => {
                    let refused = others.recipe_tasks.remove(recipe.0);
                    self.report_task_error(&refused.task, why, is_of_several)?;
                    attempt = others;
                }
            }
        }
        let found = FrameCounts { done: attempt.found, ..FrameCounts::default() };
        let right = FrameCounts { failed: frames, ..FrameCounts::default() };
        self.filter.progress().correct(found, right);
        Ok(None)
    }

    /// Integrates the frames by all recipes of an attempt. If one of them can't be applied, returns
    /// the attempt with the recipe and the reason.
    ///
    /// # Errors
    /// Fails as [`integrate`](Self::integrate) does.
    fn integrate_recipes(
        &self,
        mut attempt: Attempt,
        engine_number: usize,
    ) -> Result<Result<IntegratedTask, (Attempt, RecipeIndex, TaskError)>, Stop> {
        let setup_began = Instant::now();
        let Attempt { recipe_tasks, statistics, .. } = &attempt;
        let mut todo: Vec<Spans> =
            recipe_tasks.iter().map(|recipe_task| recipe_task.todo.clone()).collect();
        todo.extend(statistics.iter().map(|statistics| statistics.todo.clone()));
        let largest = self.args.batch_frames.into();
        let has_device = self.device_pool.device_count() > 0;
        let batches = attempt.divide(&todo, self.threads, largest, has_device);
        self.times.add(Stage::Setup, setup_began.elapsed().as_secs_f64());
        let progress = self.filter.progress();
        let covered = Spans::union_all(recipe_tasks.iter().map(|recipe_task| &recipe_task.covered));
        let found = covered.difference(&Spans::union_all(&todo)).count();
        // Without a refused recipe, more frames may be done.
        progress.add_found(found.saturating_sub(attempt.found));
        let task_device = TaskDevice {
            pool: self.device_pool,
            filter: self.filter,
            args: self.args,
            threads: self.threads,
        };
        let shared_device = task_device.open(engine_number, recipe_tasks, &batches);
        let (mut device, mut changed_sources) = (shared_device.as_ref(), BTreeMap::new());
        let (stats, parts, sums) = loop {
            if batches.len() == 0 {
                break (
                    TaskStats::new(recipe_tasks.len()),
                    recipe_tasks.iter().map(|_| None).collect(),
                    Vec::new(),
                );
            }
            let mut counted = FrameCounts::default();
            match self.integrate_batches(
                recipe_tasks,
                statistics,
                &batches,
                device,
                &changed_sources,
                &mut counted,
            )? {
                TaskOutcome::Done(stats, parts, sums) => break (*stats, parts, sums),
                TaskOutcome::WrongDevice => device = None,
                // The parts hold rows of frames that can't be trusted, so they are written again
                // without those sources.
                TaskOutcome::SourcesChanged(sources) => changed_sources.extend(sources),
                TaskOutcome::Refused(recipe, why) => {
                    progress.correct(counted, FrameCounts::default());
                    attempt.found = found.max(attempt.found);
                    return Ok(Err((attempt, recipe, why)));
                }
            }
            progress.correct(counted, FrameCounts::default());
        };
        let device = shared_device.map_or_else(String::new, |shared_device| shared_device.label);
        let Attempt { began, recipe_tasks, statistics, .. } = attempt;
        let statistics = statistics.into_iter().zip(sums);
        let statistics = statistics.filter_map(|(task, sums)| Some((task, sums?))).collect();
        Ok(Ok(IntegratedTask {
            began,
            recipe_tasks,
            batches,
            stats,
            parts,
            statistics,
            device,
            found,
        }))
    }

    /// Reports that a task, or one of its recipes, can't be integrated.
    fn report_task_error(
        &self,
        task: &Task,
        TaskError { why, retryable }: TaskError,
        is_of_several: bool,
    ) -> Result<(), Stop> {
        let about = task.acquisition.file.display().to_string();
        let error =
            if is_of_several { format!("for {}: {why}", task.final_file.display()) } else { why };
        self.filter.fail(Fail { id: task.id.clone(), about, error, retryable, ..Fail::default() })
    }

    /// Warns once of what frames give reason for: the check of the first frame is made for each
    /// position of a detector.
    fn warn_of_frames(&self, warnings: &[String]) {
        for warning in warnings {
            let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
            if warned.insert(warning.clone()) {
                self.filter.warn(warning);
            }
        }
    }

    /// Integrates the batches on all threads, writes their rows into one part per recipe, and adds
    /// the frames that lack statistics of the pixels to these. Sources listed in `changed_sources`
    /// are not read. Adds to `counted` what it counts as done or failed.
    fn integrate_batches(
        &self,
        recipe_tasks: &[RecipeTask],
        statistics_tasks: &[StatisticsTask],
        batches: &Batches,
        shared_device: Option<&SharedDevice>,
        changed_sources: &BTreeMap<usize, FrameLoss>,
        counted: &mut FrameCounts,
    ) -> Result<TaskOutcome, Stop> {
        let began = Instant::now();
        let mut stats = TaskStats::new(recipe_tasks.len());
        let cannot_write = |why: part::PartError| Stop::fatal("part", why);
        // Recipes that clip write the pixels that they reject, also if the part of one of them may
        // replace one that has pixels.
        let collects_sparse =
            self.args.sparse || recipe_tasks.iter().any(|recipe_task| recipe_task.replaces_sparse);
        let storage = PartStorage { sparse: collects_sparse, ..self.args.part_storage() };
        let mut parts = Vec::with_capacity(recipe_tasks.len());
        for (recipe, recipe_task) in recipe_tasks.iter().enumerate() {
            let frames: Spans = batches.frames_of_recipe(RecipeIndex(recipe)).collect();
            parts.push(match &recipe_task.resources {
                Some(resources) if !frames.is_empty() => Some(
                    recipe_task.create_part(resources, &frames, storage).map_err(cannot_write)?,
                ),
                _ => None,
            });
        }
        let mut statistics = Vec::with_capacity(statistics_tasks.len());
        for task in statistics_tasks {
            if task.todo.is_empty() {
                statistics.push(None);
                continue;
            }
            statistics.push(match task.start() {
                Ok(started) => Some(started),
                Err(why) => {
                    pixel_statistics::report_no_memory(task, &why, self.filter)?;
                    None
                }
            });
        }
        let sums: Vec<_> = statistics.iter().map(|one| one.as_ref().map(|one| &one.sums)).collect();
        let scan = &recipe_tasks[0].task.acquisition;
        let name = describe_task(&recipe_tasks[0].task);
        let most_open = MAX_OPEN_FILES / usize::from(self.args.engines);
        let sources = SourcePool::new(scan, batches, most_open, changed_sources);
        let (threads, batch) = (self.threads, self.args.batch_frames.into());
        // Matrices of other positions are built between segments, when no thread has memory.
        let kind = match recipe_tasks.iter().any(RecipeTask::has_moving_geometry) {
            true => TaskKind::default(),
            false => TaskKind::from_tasks(recipe_tasks.iter().map(|recipe_task| &recipe_task.task)),
        };
        let encoders: Vec<Option<RowEncoder>> =
            parts.iter().map(|part| part.as_ref().map(PartWriter::row_encoder)).collect();
        for source in &scan.sources {
            self.filter.note(2, || {
                let (file, frames) =
                    (source.file.display(), format_count(source.frames.count(), "frame"));
                format!("{name}: {file}: {frames}, {:.3} MB", source.bytes as f64 / 1e6)
            });
        }
        self.times.add(Stage::Setup, began.elapsed().as_secs_f64());
        let (mut in_statistics, mut statistics_errors) = (Vec::new(), Vec::new());
        let mut not_sparse = Spans::default();
        for segment in find_segments(recipe_tasks, batches) {
            if self.filter.is_draining() {
                break;
            }
            let setup_began = Instant::now();
            let cache_of =
                |recipe_task: &RecipeTask| self.args.matrix_cache_dir(&recipe_task.task.out);
            let segment_recipes =
                match segment.prepare(recipe_tasks, batches, cache_of, self.filter) {
                    Ok(segment_recipes) => segment_recipes,
                    Err((recipe, why)) => return Ok(TaskOutcome::Refused(recipe, why)),
                };
            let groups =
                RecipeGroup::for_batches(recipe_tasks, &segment_recipes, batches, collects_sparse);
            task_device::warn_of_missing_kernels(
                &groups,
                shared_device,
                self.device_pool,
                self.filter,
            );
            let runner = BatchRunner {
                filter: self.filter,
                threads,
                batch_frames: batch,
                memory: (&self.worker_memory, &kind),
                recipe_groups: &groups,
                encoders: &encoders,
                shared_device,
                statistics: &sums,
                sources: &sources,
                batches,
                range: segment.batches,
            };
            self.filter.note(1, || {
                let stored = recipe_tasks[0].task.bytes / recipe_tasks[0].task.range.count().max(1);
                let expected = memory::estimate_bytes(
                    recipe_tasks,
                    &segment_recipes,
                    &runner,
                    stored,
                    memory_model::decoded_bytes_per_thread(scan, batch, stored),
                ) >> 20;
                let threads = format_count(threads, "thread");
                format!("{name}: about {expected} MiB of memory with {threads}")
            });
            self.times.add(Stage::Setup, setup_began.elapsed().as_secs_f64());
            runner.run(|mut output| {
                let began = Instant::now();
                in_statistics.append(&mut output.in_statistics);
                statistics_errors.append(&mut output.statistics_errors);
                self.warn_of_frames(&output.warnings);
                if let Some(why) = &output.encode_error {
                    return Err(Stop::fatal("part", why));
                }
                for (recipe, row) in &output.rows {
                    let part =
                        parts[recipe.0].as_mut().expect("a recipe with frames to do has a part");
                    recipe_tasks[recipe.0].check_first_frame(&row.row, self.filter);
                    if let Some(SparseFrame::TooMany { .. }) = row.row.sparse {
                        not_sparse.push(row.row.frame);
                    }
                    part.push(row).map_err(cannot_write)?;
                }
                let (frames, failed) = (output.frames as u64, output.losses.len() as u64);
                counted.done += frames - failed;
                counted.failed += failed;
                self.filter.progress().add_work(Work { frames, failed, bytes: output.read_bytes });
                stats.add_batch(output);
                stats.seconds.write += began.elapsed().as_secs_f64();
                Ok(())
            })?;
        }
        if !not_sparse.is_empty() {
            self.filter.warn(&sparse::describe_too_many(&name, &not_sparse.to_sorted()));
        }
        self.add_times(&stats);
        if sources.without_checksum() > 0 {
            self.filter.note(1, || {
                let images = format_count(sources.without_checksum(), "CBF image");
                format!("{name}: {images} without Content-MD5: damage can't be detected")
            });
        }
        self.filter.note(1, || {
            let ahead = match stats.prefetched_bytes.div_ceil(1 << 20) {
                0 => String::new(),
                mib => format!("; {mib} MiB read ahead"),
            };
            let peak = memory::peak_bytes().map_or(String::new(), |bytes| format!("; peak memory {} MiB", bytes >> 20));
            let Seconds { read, integrate, write, .. } = stats.seconds;
            let times =
                format!("read in {read:.3} s, integrated in {integrate:.3} s, written in {write:.3} s of all threads");
            let frames = format_count(stats.frames() as u64, "frame");
            let cakes = match stats.cakes {
                0 => String::new(),
                cakes => format!("; {cakes} cakes divided block by block"),
            };
            format!("{name}: {frames}: {times}; {}{cakes}{ahead}{peak}", stats.decode_path())
        });
        if let Some((why, shared_device)) = stats.device_error.take().zip(shared_device) {
            self.device_pool.warn_once(self.filter, &shared_device.label, &why);
            if matches!(why, DeviceError::WrongSums(_)) {
                return Ok(TaskOutcome::WrongDevice);
            }
        }
        let changed_sources = sources.close_all();
        if changed_sources.is_empty() {
            for (index, frames) in in_statistics {
                if let Some(statistics) = &mut statistics[index] {
                    statistics.frames.extend(frames);
                }
            }
            for (index, why) in statistics_errors {
                if let Some(statistics) = &mut statistics[index] {
                    statistics.error.get_or_insert(why);
                }
            }
            Ok(TaskOutcome::Done(Box::new(stats), parts, statistics))
        } else {
            Ok(TaskOutcome::SourcesChanged(changed_sources))
        }
    }

    /// Adds the times of a pipeline, whose prefetch threads and worker threads work side by side.
    fn add_times(&self, stats: &TaskStats) {
        let (prefetch, workers) = (prefetch_threads(self.threads) as f64, self.threads as f64);
        self.times.add(Stage::Read, stats.prefetch_seconds / prefetch);
        self.times.add(Stage::Read, (stats.seconds.read - stats.prefetch_seconds) / workers);
        self.times.add(Stage::Integrate, stats.seconds.integrate / workers);
        self.times.add(Stage::Write, stats.seconds.write);
    }
}
