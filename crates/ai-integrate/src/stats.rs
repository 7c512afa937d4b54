//! Statistics of a task: frames done, frames lost, and times.

use std::collections::BTreeMap;

use filter::{Filter, FrameCounts, Stop};
use integrator::opencl::DeviceError;
use integrator::{DecodePathCounts, Scratch};
use patterns::Status;
use patterns::part::PartRow;
use records::{Absent, Acquisition, Fail, RawPath, Seconds, Source, Spans, Task, format_frames};

use crate::batch_output::BatchOutput;
use crate::batches::RecipeIndex;
use crate::error::MAX_RANGES_IN_MESSAGE;
use crate::sources::FrameLoss;

/// The statistics of a task, summed over its batches.
#[derive(Default)]
pub struct TaskStats {
    /// Frames with sums, or without a geometry or a valid pixel, by recipe, in ascending order.
    done: Vec<Vec<u64>>,
    /// The number of frames processed, integrated or lost.
    frames: usize,
    /// How often the kernels took each decode path.
    pub decode_paths: DecodePathCounts,
    /// The number of frames whose cakes were made of blocks of sums.
    pub cakes: u64,
    /// The number of frames assembled from several chunks.
    pub assembled_frames: u64,
    /// The number of stored bytes read.
    pub read_bytes: u64,
    /// The number of stored bytes that were prefetched.
    pub prefetched_bytes: u64,
    /// By recipe, the number of frames that a device integrated, and of bytes sent to it.
    by_device: Vec<(usize, u64)>,
    /// Done frames without a pattern, because their monitor is invalid, their geometry unknown or no
    /// pixel valid, by recipe and status.
    without_pattern: Vec<BTreeMap<Status, Vec<u64>>>,
    /// The error that made the run stop using the device.
    pub device_error: Option<DeviceError>,
    /// The time spent in each stage.
    pub seconds: Seconds,
    /// The part of the time for reading that the prefetch threads spent.
    pub prefetch_seconds: f64,
    losses: BTreeMap<(usize, Status), LostFrames>,
}

/// The frames of one source that were lost with the same status.
struct LostFrames {
    frames: Vec<u64>,
    /// The reason for the first of them.
    why: String,
    retryable: bool,
}

impl TaskStats {
    /// Creates the statistics of a task with this number of recipes.
    pub fn new(recipes: usize) -> Self {
        Self {
            done: vec![Vec::new(); recipes],
            without_pattern: vec![BTreeMap::new(); recipes],
            by_device: vec![(0, 0); recipes],
            ..Self::default()
        }
    }

    /// Adds the output of a batch.
    pub fn add_batch(&mut self, batch: BatchOutput) {
        self.read_bytes += batch.read_bytes;
        self.prefetched_bytes += batch.prefetched_bytes;
        self.seconds.read += batch.prefetch_seconds + batch.read_seconds;
        self.prefetch_seconds += batch.prefetch_seconds;
        self.seconds.integrate += batch.integrate_seconds;
        self.frames += batch.frames;
        self.decode_paths += batch.decode_paths;
        self.cakes += batch.cakes;
        self.assembled_frames += batch.assembled_frames;
        for (recipe, frames, sent_bytes) in batch.by_device {
            let (all, bytes) = &mut self.by_device[recipe.0];
            *all += frames;
            *bytes += sent_bytes;
        }
        self.device_error = self.device_error.take().or(batch.device_error);
        let is_done = |row: &PartRow| row.has_sums || row.row.status.is_without_sums_by_recipe();
        let done = batch.rows.iter().filter(|(_, row)| is_done(row));
        for (recipe, PartRow { row, .. }) in done {
            self.done[recipe.0].push(row.frame);
            if row.status != Status::Ok {
                self.without_pattern[recipe.0].entry(row.status).or_default().push(row.frame);
            }
        }
        for (frame, source, FrameLoss { status, why, retryable }) in batch.losses {
            let lost = self.losses.entry((source, status)).or_insert(LostFrames {
                frames: Vec::new(),
                why,
                retryable,
            });
            lost.frames.push(frame);
            lost.retryable |= retryable;
        }
    }

    /// Returns how many frames were processed, integrated or lost.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Returns how the frames of the task have been counted so far, if `found` of them were done
    /// before.
    pub fn frame_counts(&self, found: u64) -> FrameCounts {
        let failed: usize = self.losses.values().map(|lost| lost.frames.len()).sum();
        let done = found + (self.frames - failed) as u64;
        FrameCounts { done, failed: failed as u64, never_taken: 0 }
    }

    /// Returns the frames that a recipe is done with, in ascending order: they have sums, or can't
    /// have them without a geometry or a valid pixel.
    pub fn done(&self, recipe: RecipeIndex) -> &[u64] {
        &self.done[recipe.0]
    }

    /// Returns the name of the engine that integrated a recipe's frames, and the number of bytes
    /// sent to the device.
    pub fn engine(&self, recipe: RecipeIndex) -> (&'static str, u64) {
        match self.by_device[recipe.0] {
            (0, bytes) => ("cpu", bytes),
            (frames, bytes) if frames < self.done[recipe.0].len() => ("opencl+cpu", bytes),
            (_, bytes) => ("opencl", bytes),
        }
    }

    /// Describes the decode paths of the frames for a result record; empty if no frame took one.
    pub fn decode_path(&self) -> String {
        if self.decode_paths == DecodePathCounts::default() {
            return String::new();
        }
        let kernels = if self.decode_paths.is_all_on_device() {
            "opencl".to_owned()
        } else {
            format!("{:?}", Scratch::default().isa()).to_lowercase()
        };
        let pieces = match self.assembled_frames {
            0 => String::new(),
            frames => format!(
                ", {frames} of them assembled from chunks that are not one frame each (slower)"
            ),
        };
        format!("{kernels}: {}{pieces}", self.decode_paths)
    }

    /// Returns the frames that a recipe is done with and that have no pattern, because their monitor
    /// is invalid, their geometry unknown or no pixel valid, by status.
    pub fn without_pattern(&self, recipe: RecipeIndex) -> impl Iterator<Item = (Status, Spans)> {
        self.without_pattern[recipe.0]
            .iter()
            .map(|(status, frames)| (*status, frames.iter().copied().collect()))
    }

    /// Returns whether any frame is done.
    pub fn has_done(&self) -> bool {
        self.done.iter().any(|done| !done.is_empty())
    }

    /// Divides the bytes and seconds of the task among its recipes: evenly among those that were
    /// `at_work`, or among all if none was. The shares add up to the totals.
    pub fn recipe_shares(&self, at_work: impl Fn(RecipeIndex) -> bool) -> Vec<(u64, Seconds)> {
        let works: Vec<bool> = (0..self.done.len()).map(RecipeIndex).map(at_work).collect();
        let none_works = !works.contains(&true);
        let sharers = works.iter().filter(|works| **works || none_works).count() as u64;
        let mut bytes = self.read_bytes;
        let mut left = sharers;
        let share = |works: bool| {
            if !works && !none_works {
                return (0, Seconds::default());
            }
            let share = bytes / left;
            (bytes, left) = (bytes - share, left - 1);
            (share, self.seconds.divided_by(sharers))
        };
        works.into_iter().map(share).collect()
    }

    /// Returns the frames that were lost.
    pub fn lost(&self) -> Spans {
        self.losses
            .values()
            .flat_map(|lost| lost.frames.iter().copied())
            .collect::<Spans>()
            .to_sorted()
    }

    /// Emits one `fail` record for each status of lost frames in each source.
    ///
    /// # Errors
    /// Fails as [`Filter::fail`] does.
    pub fn report_losses(&self, filter: &Filter, task: &Task) -> Result<(), Stop> {
        for ((source, _), lost) in &self.losses {
            filter.fail(loss_record(task, *source, &lost.frames, &lost.why, lost.retryable))?;
        }
        Ok(())
    }

    /// Returns the frames of `todo` that were lost, by file and status. The reasons name the files
    /// of `scan`.
    pub fn missing(&self, todo: &Spans, scan: &Acquisition) -> Vec<Absent> {
        // A file may be several sources, such as a virtual dataset's.
        let mut by_file: BTreeMap<(&RawPath, Status), Vec<u64>> = BTreeMap::new();
        for ((source, status), lost) in &self.losses {
            by_file.entry((&scan.sources[*source].file, *status)).or_default().extend(&lost.frames);
        }
        let absent = |((file, status), frames): ((&RawPath, Status), Vec<u64>)| {
            let range = frames.into_iter().collect::<Spans>().to_sorted().intersection(todo);
            status.to_absent(range, Some(&scan.short_name(file)))
        };
        by_file.into_iter().map(absent).filter(|absent| !absent.range.is_empty()).collect()
    }
}

/// Returns the `fail` record of frames of a source that were lost.
pub(crate) fn loss_record(
    task: &Task,
    source: usize,
    frames: &[u64],
    why: &str,
    retryable: bool,
) -> Fail {
    let source = &task.acquisition.sources[source];
    let (about, error) = (source_name(source), describe_loss(source, frames, why));
    Fail { id: task.id.clone(), about, error, retryable, ..Fail::default() }
}

/// Describes why frames of a source were lost, without the path of the source, which the reader
/// knows.
pub(crate) fn describe_loss(source: &Source, frames: &[u64], why: &str) -> String {
    let without = |name: &str| why.strip_prefix(name).and_then(|rest| rest.strip_prefix(": "));
    let why = without(&source_name(source))
        .or_else(|| without(&source.file.display().to_string()))
        .unwrap_or(why);
    let frames = frames.iter().copied().collect();
    format!("{}: {why}", format_frames(&frames, MAX_RANGES_IN_MESSAGE))
}

fn source_name(source: &Source) -> String {
    match source.dataset.as_str() {
        "" => source.file.display().to_string(),
        dataset => format!("{}::{dataset}", source.file.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(losses: &[(u64, usize, Status, &str)]) -> BatchOutput {
        let lost = |&(frame, source, status, why): &(u64, usize, Status, &str)| {
            (frame, source, FrameLoss { status, why: why.to_owned(), retryable: false })
        };
        BatchOutput {
            frames: losses.len(),
            losses: losses.iter().map(lost).collect(),
            ..BatchOutput::default()
        }
    }

    #[test]
    fn losses_of_a_kind_are_one() {
        let mut stats = TaskStats::new(1);
        stats.add_batch(batch(&[
            (0, 0, Status::Corrupt, "block 3"),
            (1, 0, Status::Corrupt, "block 9"),
        ]));
        stats.add_batch(batch(&[
            (2, 1, Status::Corrupt, "block 1"),
            (3, 1, Status::FileMissing, "gone"),
        ]));
        assert_eq!((stats.frames(), stats.losses.len()), (4, 3));
        assert_eq!(stats.losses[&(0, Status::Corrupt)].why, "block 3");
        let source =
            |name: &str| Source { file: format!("/raw/{name}").into(), ..Source::default() };
        let sources = vec![source("s/p3_0000.h5"), source("s/p3_0001.h5")];
        let scan = Acquisition { file: "/raw/master.h5".into(), sources, ..Acquisition::default() };
        let missing = stats.missing(&Spans::first_n(9), &scan).into_iter();
        let missing: Vec<String> = missing
            .map(|absent| format!("{}: {}", format_frames(&absent.range, 8), absent.reason))
            .collect();
        let expected = [
            "frames 0 to 1: can't be decoded: s/p3_0000.h5",
            "frame 3: file missing: s/p3_0001.h5",
            "frame 2: can't be decoded: s/p3_0001.h5",
        ];
        assert_eq!(missing, expected);
    }

    #[test]
    fn what_recipes_have_in_common_is_shared_out() {
        let mut stats = TaskStats::new(3);
        stats.read_bytes = 7;
        stats.seconds.wall = 6.0;
        let shares = |works: [bool; 3]| {
            stats
                .recipe_shares(|recipe| works[recipe.0])
                .into_iter()
                .map(|(bytes, seconds)| (bytes, seconds.wall))
                .collect::<Vec<_>>()
        };
        assert_eq!(shares([true, false, true]), [(3, 3.0), (0, 0.0), (4, 3.0)]);
        assert_eq!(shares([false; 3]), [(2, 2.0), (2, 2.0), (3, 2.0)]);
    }
}
