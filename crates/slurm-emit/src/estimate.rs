//! Estimates the memory and the walltime of a job from the plan.

use std::collections::{HashMap, HashSet};

use memory_model::{DEFAULT_BATCH_FRAMES, EngineSizes};
use recipe::Recipe;
use records::RawPath;

use crate::error::EmitError;
use crate::frame_maxima::FrameMaxima;
use crate::job_size::JobSize;
use crate::memory::MemorySize;
use crate::task_plan::TaskPlan;
use crate::walltime::Walltime;

/// Bytes per pixel while the matrix and the corrections of a recipe are built: positions, corners
/// and chi in f64 and f32, and about two entries, twice, because the matrix is built before it is
/// sorted.
const BYTES_PER_PIXEL_WHILE_BUILDING: u64 = 300;

/// Bytes per pixel of a recipe that is ready: matrix, normalization and mask.
const BYTES_PER_PIXEL: u64 = 40;

/// Bytes per pixel that a thread needs for interleaved frames, by methods that look at all pixels
/// of a bin. Recipes without such methods do not need them.
const INTERLEAVED_BYTES_PER_PIXEL: u64 = 16;

/// Entries of a matrix per pixel, with pixel splitting.
const ENTRIES_PER_PIXEL: u64 = 2;

/// Bytes of what else runs in a job: gather, the process in which HDF5 reads metadata, and the
/// driver of a GPU.
const BYTES_BESIDE_AI_INTEGRATE: u64 = (1 << 30) - memory_model::BASE_BYTES;

/// Bytes per pixel of `gather --pixel-images`: the sums, and the images from which the mask is made.
const GATHER_BYTES_PER_PIXEL: u64 = 90;

/// Estimates the memory of each job of a plan: half as much again as ai-integrate is expected to
/// use, in whole GiB.
///
/// A process holds the matrix and the corrections of each recipe once; the memory of its engines is
/// what ai-integrate itself expects, with the statistics of `--pixel-stats` if
/// `has_pixel_statistics`, and the pixels of `--sparse` if `has_sparse_pixels`.
///
/// # Errors
/// Fails if a recipe can't be read.
pub fn estimate_memory(
    plan: &TaskPlan,
    size: &JobSize,
    has_pixel_statistics: bool,
    has_sparse_pixels: bool,
) -> Result<MemorySize, EmitError> {
    let (mut recipe_bins, mut recipe_dummies) = (HashMap::new(), HashMap::new());
    let mut moving_recipes = 0;
    let mut clipping = HashSet::new();
    for (path, digest) in plan.recipes() {
        let recipe = Recipe::load(path, digest).map_err(|why| EmitError::Recipe { why })?;
        recipe_bins.insert(path, recipe.npt * recipe.npt_azim);
        recipe_dummies.insert(path, recipe.dummy.to_string());
        moving_recipes += u64::from(recipe.has_moving_geometry());
        if recipe.sigma_clip.is_some() {
            clipping.insert(path);
        }
    }
    let total_bins =
        |recipes: &[RawPath]| recipes.iter().map(|path| recipe_bins[path.as_path()]).sum::<u64>();
    let bins = plan.recipe_sets().map(total_bins).max().unwrap_or(0);
    // ai-integrate adds up the pixels once for each rule about which values mean "no measurement".
    let rules = |recipes: &[RawPath]| {
        let dummies = recipes.iter().map(|path| &recipe_dummies[path.as_path()]);
        dummies.collect::<HashSet<_>>().len().max(1) as u64
    };
    let rules = plan.recipe_sets().map(rules).max().unwrap_or(1);
    let clips = |recipes: &[RawPath]| {
        recipes.iter().filter(|path| clipping.contains(path.as_path())).count() as u64
    };
    let clips = plan.recipe_sets().map(clips).max().unwrap_or(0);
    let other_recipes = (recipe_bins.len() as u64).saturating_sub(1);
    let FrameMaxima { pixels, stored_bytes, decoded_bytes, longest_batch } = plan.frame_maxima();
    let engine = EngineSizes {
        threads: usize::try_from(size.threads).unwrap_or(usize::MAX),
        bins: usize::try_from(bins).unwrap_or(usize::MAX),
        batch_frames: DEFAULT_BATCH_FRAMES.into(),
        longest_batch: longest_batch.max(DEFAULT_BATCH_FRAMES.into()),
        stored_bytes,
        decoded_bytes,
        kernel_bytes: INTERLEAVED_BYTES_PER_PIXEL * pixels,
        pixels,
        statistics_rules: if has_pixel_statistics { rules } else { 0 },
        sparse_pixels: if has_sparse_pixels {
            let entries = clips * ENTRIES_PER_PIXEL * pixels;
            usize::try_from(entries / memory_model::SPARSE_DIVISOR).unwrap_or(usize::MAX)
        } else {
            0
        },
    };
    let gather = if has_pixel_statistics { GATHER_BYTES_PER_PIXEL * pixels } else { 0 };
    let recipes = pixels * (BYTES_PER_PIXEL_WHILE_BUILDING + other_recipes * BYTES_PER_PIXEL);
    // Each engine builds the matrix of a position while another is in use, and some are kept.
    let positions = moving_recipes
        * (size.engines * pixels * (BYTES_PER_PIXEL_WHILE_BUILDING + BYTES_PER_PIXEL)
            + memory_model::MAX_POSITION_BYTES);
    let expected = memory_model::BASE_BYTES
        + positions
        + BYTES_BESIDE_AI_INTEGRATE
        + gather
        + recipes
        + size.engines * engine.bytes();
    Ok(MemorySize::from_bytes((expected * 3 / 2).next_multiple_of(1 << 30)))
}

/// Estimates the walltime of a job that integrates `bytes` stored bytes at `rate` bytes per second:
/// twice the expected time and five minutes, in steps of five minutes.
pub fn estimate_walltime(bytes: u64, rate: f64) -> Walltime {
    let seconds = 2.0 * bytes as f64 / rate + 300.0;
    Walltime::from_seconds((seconds as u64).next_multiple_of(300))
}

#[cfg(test)]
mod tests {
    use records::{Acquisition, Span, Task};

    use super::*;

    /// Creates a task of 100 frames of an Eiger 4M, compressed sevenfold.
    fn eiger() -> Task {
        Task {
            range: Span::new(0, 100).into(),
            bytes: 256_000_000,
            acquisition: Acquisition {
                shape: [2167, 2070],
                dtype: "u32".to_owned(),
                ..Acquisition::default()
            },
            ..Task::default()
        }
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
        let estimate_with = |tasks, threads, has_pixel_statistics| {
            let memory = estimate_memory(&plan(tasks), &size(threads), has_pixel_statistics, false);
            memory.map(|memory| memory.to_string()).unwrap()
        };
        let estimate = |tasks, threads| estimate_with(tasks, threads, false);
        assert_eq!(estimate(1, 4), "12G");
        assert_eq!(estimate(1, 4), estimate(50, 4));
        assert_eq!(estimate(1, 1), "7G");
        assert_eq!(
            estimate_with(1, 4, true),
            "17G",
            "8 engines, 72 bytes for each of 4.5 M pixels, 4 more in each thread, and gather"
        );
    }

    #[test]
    fn a_walltime_is_twice_the_work_and_five_minutes() {
        assert_eq!(estimate_walltime(60_000_000_000, 100e6).to_string(), "00:25:00");
        assert_eq!(estimate_walltime(0, 100e6).to_string(), "00:05:00");
    }
}
