//! Estimates the memory and the walltime of a job from the plan.

use std::collections::HashMap;

use recipe::Recipe;
use records::{RawPath, Task};

use crate::error::EmitError;
use crate::job_size::JobSize;
use crate::memory::MemorySize;
use crate::task_plan::TaskPlan;
use crate::walltime::Walltime;

/// Frames that a thread of ai-integrate holds at a time.
const FRAMES_PER_THREAD: u64 = 16;

/// Bytes that a reader of ai-integrate reads ahead at most.
const READ_AHEAD_BYTES: u64 = 64 << 20;

/// The fewest and the most readers of an engine; in between, it has one per thread.
const READERS: [u64; 2] = [4, 32];

/// Bytes per pixel while the matrix and the corrections of a recipe are built: positions, corners and chi in f64 and
/// f32, and about two entries, twice, because the matrix is built before it is sorted.
const BYTES_PER_PIXEL_WHILE_BUILDING: u64 = 300;

/// Bytes per pixel of a recipe that is ready: matrix, normalization and mask.
const BYTES_PER_PIXEL: u64 = 40;

/// Bytes per pixel that a thread needs for interleaved frames, by methods that look at all pixels of a bin.
const INTERLEAVED_BYTES_PER_PIXEL: u64 = 16;

/// Bytes of the program, HDF5 and its caches.
const BYTES_PER_PROCESS: u64 = 1 << 30;

/// Estimates the memory of each job of a plan: half as much again as ai-integrate is expected to use, in whole GiB.
///
/// A process holds the matrix and the corrections of each recipe once. Each thread holds the stored bytes of its frames,
/// the frames that it decodes, and the patterns of its frames by all recipes of the task. Each reader holds the stored
/// bytes of the frames that come next.
///
/// # Errors
/// Fails if a recipe can't be read.
pub fn estimate_memory(plan: &TaskPlan, size: &JobSize) -> Result<MemorySize, EmitError> {
    let mut recipe_bins = HashMap::new();
    for (path, digest) in plan.recipes() {
        let recipe = Recipe::load(path, digest).map_err(|why| EmitError::Recipe { why })?;
        recipe_bins.insert(path, recipe.npt * recipe.npt_azim);
    }
    let total_bins = |recipes: &[RawPath]| recipes.iter().map(|path| recipe_bins[path.as_path()]).sum::<u64>();
    let bins = plan.recipe_sets().map(total_bins).max().unwrap_or(0);
    let other_recipes = (recipe_bins.len() as u64).saturating_sub(1);
    let FrameMaxima { pixels, bytes, stored_bytes, chunk_bytes } = plan.frame_maxima();
    let patterns = 2 * bins * size_of::<f64>() as u64;
    let decoding = (4 * bytes).max(INTERLEAVED_BYTES_PER_PIXEL * pixels);
    let thread = FRAMES_PER_THREAD * (stored_bytes + patterns) + decoding + chunk_bytes;
    let readers = size.engines * size.threads.clamp(READERS[0], READERS[1]);
    let read_ahead = readers * (FRAMES_PER_THREAD * stored_bytes).min(READ_AHEAD_BYTES);
    let recipes = pixels * (BYTES_PER_PIXEL_WHILE_BUILDING + other_recipes * BYTES_PER_PIXEL);
    let expected = BYTES_PER_PROCESS + recipes + size.cpus() * thread + read_ahead;
    Ok(MemorySize::from_bytes((expected * 3 / 2).next_multiple_of(1 << 30)))
}

/// Estimates the walltime of a job that integrates `bytes` stored bytes at `rate` bytes per second: twice the expected
/// time and five minutes, in steps of five minutes.
pub fn estimate_walltime(bytes: u64, rate: f64) -> Walltime {
    let seconds = 2.0 * bytes as f64 / rate + 300.0;
    Walltime::from_seconds((seconds as u64).next_multiple_of(300))
}

/// The largest frame sizes in the tasks of a plan, each on its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameMaxima {
    /// Pixels of a frame.
    pub pixels: u64,
    /// Bytes of a decoded frame.
    pub bytes: u64,
    /// Stored bytes of a frame, averaged over a task.
    pub stored_bytes: u64,
    /// Bytes for a chunk of several frames: stored, decoded, and between two codecs. 0 if each chunk is one frame.
    pub chunk_bytes: u64,
}

impl FrameMaxima {
    /// Returns the maxima of these and a task's sizes.
    pub fn with_task(self, task: &Task) -> Self {
        let [rows, columns] = task.acquisition.shape;
        let pixels = rows * columns;
        // `u32` has 32 bits, `f64` has 64.
        let bits = task
            .acquisition
            .dtype
            .trim_start_matches(|char: char| char.is_ascii_alphabetic())
            .parse()
            .unwrap_or(64_u64);
        let (bytes, stored_bytes) = (pixels * bits / 8, task.bytes / task.range.count().max(1));
        let chunk_bytes = match task.acquisition.chunk.first() {
            Some(&frames) if frames > 1 => bytes.saturating_mul(2).saturating_add(stored_bytes).saturating_mul(frames),
            _ => 0,
        };
        Self {
            pixels: self.pixels.max(pixels),
            bytes: self.bytes.max(bytes),
            stored_bytes: self.stored_bytes.max(stored_bytes),
            chunk_bytes: self.chunk_bytes.max(chunk_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use records::{Acquisition, Span};

    use super::*;

    /// Creates a task of 100 frames of an Eiger 4M, compressed sevenfold.
    fn eiger() -> Task {
        Task {
            range: Span::new(0, 100).into(),
            bytes: 256_000_000,
            acquisition: Acquisition { shape: [2167, 2070], dtype: "u32".to_owned(), ..Acquisition::default() },
            ..Task::default()
        }
    }

    #[test]
    fn the_largest_frame_counts() {
        let small = Task {
            acquisition: Acquisition { shape: [10, 10], dtype: "u8".to_owned(), ..Default::default() },
            ..eiger()
        };
        let maxima = FrameMaxima::default().with_task(&small).with_task(&eiger()).with_task(&small);
        let expected = FrameMaxima { pixels: 4_485_690, bytes: 17_942_760, stored_bytes: 2_560_000, chunk_bytes: 0 };
        assert_eq!(maxima, expected);
        let mut deep = eiger();
        deep.acquisition.chunk = vec![10, 2167, 2070];
        assert_eq!(FrameMaxima::default().with_task(&deep).chunk_bytes, 10 * (2 * 17_942_760 + 2_560_000));
    }

    #[test]
    fn memory_grows_with_the_threads_and_not_with_the_plan() {
        let plan = |tasks: u64| {
            let mut plan = TaskPlan::default();
            (0..tasks).for_each(|id| assert!(plan.push(Task { id: id.to_string(), ..eiger() })));
            plan
        };
        let size = |threads| JobSize { workers: 4, engines: 8, threads, gpus: 0 };
        // These tasks name no recipe, so that none is read.
        let estimate =
            |tasks, threads| estimate_memory(&plan(tasks), &size(threads)).map(|memory| memory.to_string()).unwrap();
        assert_eq!(estimate(1, 4), "11G");
        assert_eq!(estimate(1, 4), estimate(50, 4));
        assert_eq!(estimate(1, 1), "7G");
    }

    #[test]
    fn a_walltime_is_twice_the_work_and_five_minutes() {
        assert_eq!(estimate_walltime(60_000_000_000, 100e6).to_string(), "00:25:00");
        assert_eq!(estimate_walltime(0, 100e6).to_string(), "00:05:00");
    }
}
