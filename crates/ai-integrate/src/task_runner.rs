//! Integrates one task: finds the frames that are done, and integrates the rest.

use std::collections::BTreeMap;
use std::time::Instant;

use filter::{Filter, Stop};
use integrator::PixelType;
use integrator::opencl::DeviceError;
use patterns::coverage::{CoverageIndex, OwnerError};
use patterns::part::{self, PartWriter};
use records::{Acquisition, Fail, Spans, Task};

use crate::args::Args;
use crate::batch_runner::BatchRunner;
use crate::batches::Batches;
use crate::commit::IntegratedTask;
use crate::device::pool::DevicePool;
use crate::device::worker::SharedDevice;
use crate::job::Job;
use crate::memory;
use crate::recipe_group::RecipeGroup;
use crate::recipes::RecipeCache;
use crate::sources::{FrameLoss, SourcePool};
use crate::stats::TaskStats;
use crate::worker::frames_assembled_at_once;

/// The number of files that all engines together keep open ahead of need; the usual limit of a process is 1024.
const MAX_OPEN_FILES: usize = 256;

/// The state that the tasks of a run share.
pub struct TaskRunner<'a> {
    filter: &'a Filter,
    args: &'a Args,
    device_pool: &'a DevicePool,
    threads: usize,
    recipes: RecipeCache,
    /// The index of the frames that are done.
    index: CoverageIndex,
}

/// The reason why a task can't be integrated.
#[derive(Clone, Debug)]
pub struct TaskError {
    /// The reason in one line.
    pub why: String,
    /// True if another attempt may succeed.
    pub retryable: bool,
}

/// The outcome of an attempt to integrate a task.
enum TaskOutcome {
    /// The statistics, and the part of each recipe with all its rows.
    Done(Box<TaskStats>, Vec<Option<PartWriter>>),
    /// The device returned wrong sums; no row is kept.
    WrongDevice,
    /// These sources changed while they were read, or could not be checked; no row is kept.
    SourcesChanged(BTreeMap<usize, FrameLoss>),
}

impl<'a> TaskRunner<'a> {
    /// Creates a runner whose tasks use `threads` threads each.
    pub fn new(filter: &'a Filter, args: &'a Args, device_pool: &'a DevicePool, threads: usize) -> Self {
        Self { filter, args, device_pool, threads, recipes: RecipeCache::default(), index: CoverageIndex::default() }
    }

    /// Returns the index of the frames that are done.
    pub fn index(&self) -> &CoverageIndex {
        &self.index
    }

    /// Returns whether `--force` is set, so that no frame counts as done.
    pub fn is_forced(&self) -> bool {
        self.args.force
    }

    /// Integrates a task's frames on the engine with this number. Returns `None` if the task can't be integrated,
    /// after it has reported why.
    ///
    /// # Errors
    /// Fails if a part can't be written, on a signal, and as [`Filter::emit`].
    pub fn integrate(&self, mut task: Task, engine: usize) -> Result<Option<IntegratedTask>, Stop> {
        let began = Instant::now();
        if let Some(out) = &self.args.out {
            task.out = std::path::absolute(out).map_err(|why| Stop::fatal(out.display(), why))?.into();
        }
        let is_of_several = !task.more.is_empty();
        let mut jobs = Vec::new();
        for task in task.split_by_recipe() {
            match self.index.check_owner(&task.out, &task) {
                Ok(()) => (),
                Err(OwnerError::Unreadable(why)) => return Err(Stop::fatal("output", why)),
                Err(OwnerError::Other(why)) => {
                    self.report_task_error(&task, TaskError { why, retryable: false }, is_of_several)?;
                    continue;
                }
            }
            match Job::new(&task, &self.recipes, &self.index, self.args, self.filter) {
                Ok(job) => jobs.push(job),
                Err(refusal) => self.report_task_error(&task, refusal, is_of_several)?,
            }
        }
        let Some(first) = jobs.first() else { return Ok(None) };
        let todo: Vec<Spans> = jobs.iter().map(|job| job.todo.clone()).collect();
        let batches = Batches::new(&first.task.acquisition, &todo, self.args.batch_frames.into());
        self.filter.progress().add_total(batches.frames() as u64, "frames");
        let berth = self.open_device(engine, &first.task, &batches);
        let (mut device, mut unsure) = (berth.as_ref(), BTreeMap::new());
        let (tally, parts) = loop {
            if batches.len() == 0 {
                break (TaskStats::new(jobs.len()), jobs.iter().map(|_| None).collect());
            }
            match self.integrate_batches(&jobs, &batches, device, &unsure)? {
                TaskOutcome::Done(tally, parts) => break (*tally, parts),
                TaskOutcome::WrongDevice => device = None,
                // The parts hold rows of frames that can't be trusted, so they are written again without those
                // sources.
                TaskOutcome::SourcesChanged(sources) => {
                    unsure.extend(sources);
                    self.filter.progress().add_total(batches.frames() as u64, "frames");
                }
            }
        };
        let device = berth.map_or_else(String::new, |berth| berth.label);
        Ok(Some(IntegratedTask { began, jobs, batches, stats: tally, parts, device }))
    }

    /// Reports that a task, or one of its recipes, can't be integrated.
    fn report_task_error(
        &self,
        task: &Task,
        TaskError { why, retryable }: TaskError,
        is_of_several: bool,
    ) -> Result<(), Stop> {
        let about = task.acquisition.file.display().to_string();
        let error = if is_of_several { format!("for {}: {why}", task.final_file.display()) } else { why };
        self.filter.fail(Fail { id: task.id.clone(), about, error, retryable, ..Fail::default() })
    }

    /// Returns the engine's device, if it has one and there are frames to integrate.
    fn open_device(&self, engine: usize, task: &Task, batches: &Batches) -> Option<SharedDevice> {
        let cache = self.args.kernel_cache_dir(&task.out);
        let (device, label) = self.device_pool.device(engine, cache, self.filter).filter(|_| batches.len() > 0)?;
        let frames = batches.locations().iter().map(|place| place.frame);
        let verified = SharedDevice::sample_frames(frames, self.args.verify as usize);
        // A single thread overlaps two launches; with more threads, the launches of different threads overlap.
        Some(SharedDevice {
            device,
            label,
            queues_per_thread: if self.threads == 1 { 2 } else { 1 },
            verified_frames: verified,
        })
    }

    /// Integrates the batches on all threads, and writes their rows into one part per recipe. Sources listed in
    /// `unsure` are not read.
    fn integrate_batches(
        &self,
        jobs: &[Job],
        batches: &Batches,
        berth: Option<&SharedDevice>,
        unsure: &BTreeMap<usize, FrameLoss>,
    ) -> Result<TaskOutcome, Stop> {
        let mut tally = TaskStats::new(jobs.len());
        let cannot_write = |why: part::PartError| Stop::fatal("part", why);
        let mut parts = Vec::with_capacity(jobs.len());
        for (recipe, job) in jobs.iter().enumerate() {
            let frames: Spans = batches.frames_of_recipe(recipe).collect();
            let means = job.resources.as_ref().filter(|_| !frames.is_empty());
            let part =
                means.map(|means| job.create_part(&means.integrator, &frames)).transpose().map_err(cannot_write)?;
            parts.push(part);
        }
        let scan = &jobs[0].task.acquisition;
        let passes = RecipeGroup::for_batches(jobs, batches);
        let most_open = MAX_OPEN_FILES / usize::from(self.args.engines);
        let sources = SourcePool::new(scan, &passes[0].integrators, batches, most_open, unsure);
        let (threads, batch) = (self.threads, self.args.batch_frames.into());
        let left_out = |device| passes.iter().flat_map(move |pass| pass.integrators.unsupported_on_device(device));
        for (_, why) in berth.iter().flat_map(|berth| left_out(&berth.device)) {
            self.device_pool.warn_once(self.filter, "OpenCL", format_args!("not made for {why}"));
        }
        let crew = BatchRunner {
            filter: self.filter,
            threads,
            batch_frames: batch,
            recipe_groups: &passes,
            shared_device: berth,
            sources: &sources,
            batches,
        };
        self.filter.note(1, || {
            let stored = jobs[0].task.bytes / jobs[0].task.range.count().max(1);
            let expected =
                memory::estimate_bytes(jobs, &crew, stored, decoded_bytes_per_thread(scan, batch, stored)) >> 20;
            format!("task {}: memory expected: {expected} MiB with {threads} threads", jobs[0].task.id)
        });
        crew.run(|window| {
            let began = Instant::now();
            window.warnings.iter().for_each(|warning| self.filter.warn(warning));
            for (recipe, row) in &window.rows {
                let part = parts[*recipe].as_mut().expect("a recipe with frames to do has a part");
                jobs[*recipe].check_first_frame(row, self.filter);
                part.push_row(row).map_err(cannot_write)?;
            }
            self.filter.progress().advance(window.frames as u64);
            tally.add_batch(window);
            tally.seconds.write += began.elapsed().as_secs_f64();
            Ok(())
        })?;
        if sources.without_checksum() > 0 {
            self.filter.note(1, || {
                let id = &jobs[0].task.id;
                format!("task {id}: {} CBF images without Content-MD5: not verified", sources.without_checksum())
            });
        }
        self.filter.note(1, || {
            let ahead = match tally.prefetched_bytes.div_ceil(1 << 20) {
                0 => String::new(),
                mib => format!("; {mib} MiB read ahead"),
            };
            let peak = memory::peak_bytes()
                .map_or(String::new(), |bytes| format!("; memory at the most: {} MiB", bytes >> 20));
            format!("task {}: {}{ahead}{peak}", jobs[0].task.id, tally.decode_path())
        });
        if let Some((why, berth)) = tally.device_error.take().zip(berth) {
            self.device_pool.warn_once(self.filter, &berth.label, &why);
            if matches!(why, DeviceError::WrongSums(_)) {
                return Ok(TaskOutcome::WrongDevice);
            }
        }
        let unsure = sources.close_all();
        if unsure.is_empty() {
            Ok(TaskOutcome::Done(Box::new(tally), parts))
        } else {
            Ok(TaskOutcome::SourcesChanged(unsure))
        }
    }
}

/// Returns the bytes of decoded data that a thread holds: one frame, or, where frames are assembled from chunks, a
/// group of frames and the chunks of one frame. The chunks may span many more frames. They count twice decoded, as
/// the output of the last filter and of the one before it, and once with the `stored` bytes of each frame.
fn decoded_bytes_per_thread(scan: &Acquisition, batch: usize, stored: u64) -> u64 {
    let [rows, columns] = scan.shape;
    let size = scan.dtype.parse().map_or(8, |dtype: PixelType| dtype.size() as u64);
    let frame = rows.saturating_mul(columns).saturating_mul(size);
    let [depth, height, width] = match scan.chunk[..] {
        [depth, height, width] if scan.chunk != [1, rows, columns] => [depth, height.max(1), width.max(1)],
        _ => return frame,
    };
    let covered = rows.next_multiple_of(height).saturating_mul(columns.next_multiple_of(width));
    let chunks = covered.saturating_mul(size).saturating_mul(depth);
    let side_by_side = frame.saturating_mul(frames_assembled_at_once(frame as usize, batch) as u64);
    side_by_side.saturating_add(chunks.saturating_mul(2)).saturating_add(stored.saturating_mul(depth))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_many_frames_count_as_they_are_decoded() {
        let scan = |chunk: &[u64]| Acquisition {
            shape: [10, 20],
            dtype: "u16".to_owned(),
            chunk: chunk.to_vec(),
            ..Acquisition::default()
        };
        let bytes = |chunk: &[u64]| decoded_bytes_per_thread(&scan(chunk), 4, 100);
        assert_eq!([bytes(&[]), bytes(&[1, 10, 20])], [400, 400]);
        assert_eq!(bytes(&[50, 10, 20]), 4 * 400 + 2 * 50 * 400 + 50 * 100);
        assert_eq!(bytes(&[1, 6, 20]), 4 * 400 + 2 * 12 * 20 * 2 + 100, "the last chunk overhangs");
        assert_eq!(bytes(&[u64::MAX, 10, 20]), u64::MAX);
    }
}
