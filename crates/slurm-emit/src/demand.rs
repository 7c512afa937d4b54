//! What a job needs by itself: memory and time, estimated from the plan.

use std::collections::HashMap;

use recipe::Recipe;
use records::{RawPath, Task};

use crate::error::Error;
use crate::memory::Memory;
use crate::plan::Plan;
use crate::size::Size;
use crate::walltime::Walltime;

/// Frames that a thread of ai-integrate holds at a time.
const BATCH_FRAMES: u64 = 16;

/// Bytes of a window that are read ahead, by each of so many readers an engine: one a thread, but some at the least, and no
/// more than storage is the faster for.
const BYTES_READ_AHEAD: u64 = 64 << 20;
const READERS: [u64; 2] = [4, 32];

/// Bytes a pixel while the matrix and the corrections of a recipe are made: positions, corners and chi in
/// f64 and f32, and two entries or so, twice, for the matrix is built before it is put in order.
const BYTES_A_PIXEL: u64 = 300;

/// Bytes a pixel that stay of a recipe: its matrix, normalization and mask.
const BYTES_KEPT_A_PIXEL: u64 = 40;

/// Bytes a pixel that a thread has of frames side by side, by methods that look at all pixels of a bin.
const BESIDE_A_PIXEL: u64 = 16;

/// The program, HDF5 and its caches.
const BYTES_A_PROCESS: u64 = 1 << 30;

/// Memory for the jobs of a plan, half as much again as ai-integrate is expected to use, in whole GiB.
///
/// A process has the matrix and the corrections of each recipe once, each thread the stored bytes of
/// its frames, those being decoded, and the patterns of the frames, of all recipes of the task, and each reader the stored
/// bytes of the frames that come next.
///
/// # Errors
/// A recipe that can't be read.
pub fn memory(plan: &Plan, size: &Size) -> Result<Memory, Error> {
    let mut bins_of = HashMap::new();
    for (path, digest) in plan.recipes() {
        let recipe = Recipe::load(path, digest).map_err(|why| Error::Recipe { why })?;
        bins_of.insert(path, recipe.npt * recipe.npt_azim);
    }
    let of_task = |recipes: &[RawPath]| recipes.iter().map(|path| bins_of[path.as_path()]).sum::<u64>();
    let bins = plan.together().map(of_task).max().unwrap_or(0);
    let kept = BYTES_KEPT_A_PIXEL * (bins_of.len() as u64).saturating_sub(1);
    let Largest { pixels, frame, stored, chunk } = plan.largest();
    let patterns = 2 * bins * size_of::<f64>() as u64;
    let thread = BATCH_FRAMES * (stored + patterns) + (4 * frame).max(BESIDE_A_PIXEL * pixels) + chunk;
    let readers = size.engines * size.threads.clamp(READERS[0], READERS[1]);
    let ahead = readers * (BATCH_FRAMES * stored).min(BYTES_READ_AHEAD);
    let all = BYTES_A_PROCESS + pixels * (BYTES_A_PIXEL + kept) + size.cpus() * thread + ahead;
    Ok(Memory::from_bytes((all * 3 / 2).next_multiple_of(1 << 30)))
}

/// A walltime for batches of so many bytes at most, each of a job at that rate: twice what they should take
/// and five minutes, in steps of five minutes.
pub fn walltime(bytes: u64, rate: f64) -> Walltime {
    let seconds = 2.0 * bytes as f64 / rate + 300.0;
    Walltime::from_seconds((seconds as u64).next_multiple_of(300))
}

/// The largest of anything in the tasks of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Largest {
    /// Pixels of a frame.
    pub pixels: u64,
    /// Bytes of a frame.
    pub frame: u64,
    /// Stored bytes of a frame, on the average of a task.
    pub stored: u64,
    /// Bytes of a chunk of several frames, stored, decoded, and in a step between; 0 where no chunk is one.
    pub chunk: u64,
}

impl Largest {
    /// Takes a task into account.
    pub fn with(self, task: &Task) -> Self {
        let [rows, columns] = task.acquisition.shape;
        let pixels = rows * columns;
        // `u32` has 32 bits, `f64` 64
        let bits = task
            .acquisition
            .dtype
            .trim_start_matches(|char: char| char.is_ascii_alphabetic())
            .parse()
            .unwrap_or(64_u64);
        let (frame, stored) = (pixels * bits / 8, task.bytes / task.range.count().max(1));
        let chunk = match task.acquisition.chunk.first() {
            Some(&depth) if depth > 1 => frame.saturating_mul(2).saturating_add(stored).saturating_mul(depth),
            _ => 0,
        };
        Self {
            pixels: self.pixels.max(pixels),
            frame: self.frame.max(frame),
            stored: self.stored.max(stored),
            chunk: self.chunk.max(chunk),
        }
    }
}

#[cfg(test)]
mod tests {
    use records::{Acquisition, Span};

    use super::*;

    /// 100 frames of an Eiger 4M, compressed sevenfold.
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
        let largest = Largest::default().with(&small).with(&eiger()).with(&small);
        assert_eq!(largest, Largest { pixels: 4_485_690, frame: 17_942_760, stored: 2_560_000, chunk: 0 });
        let mut deep = eiger();
        deep.acquisition.chunk = vec![10, 2167, 2070];
        assert_eq!(Largest::default().with(&deep).chunk, 10 * (2 * 17_942_760 + 2_560_000));
    }

    #[test]
    fn memory_grows_with_the_threads_and_not_with_the_plan() {
        let plan = |tasks: u64| {
            let mut plan = Plan::default();
            (0..tasks).for_each(|id| assert!(plan.push(Task { id: id.to_string(), ..eiger() })));
            plan
        };
        let size = |threads| Size { workers: 4, engines: 8, threads, gpus: 0 };
        // recipes that are not there are not read: none is named
        let of = |tasks, threads| memory(&plan(tasks), &size(threads)).map(|memory| memory.to_string());
        assert_eq!(of(1, 4).unwrap(), "11G");
        assert_eq!(of(1, 4).unwrap(), of(50, 4).unwrap());
        assert_eq!(of(1, 1).unwrap(), "7G");
    }

    #[test]
    fn time_is_twice_the_work_and_some() {
        assert_eq!(walltime(60_000_000_000, 100e6).to_string(), "00:25:00");
        assert_eq!(walltime(0, 100e6).to_string(), "00:05:00");
    }
}
