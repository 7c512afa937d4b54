//! Estimates the memory and the walltime of a job from the plan.

use std::collections::HashSet;

use memory_model::{DEFAULT_BATCH_FRAMES, EngineSizes};
use records::RawPath;

use crate::frame_maxima::FrameMaxima;
use crate::job_size::JobSize;
use crate::memory::MemorySize;
use crate::recipe_sizes::{RecipeSize, RecipeSizes};
use crate::task_plan::TaskPlan;
use crate::walltime::Walltime;

/// Bytes per pixel while the matrix and the corrections of a recipe are built: positions, corners
/// and chi in f64 and f32, and about two entries, twice, because the matrix is built before it is
/// sorted.
const BYTES_PER_PIXEL_WHILE_BUILDING: u64 = 300;

/// Bytes per pixel of a recipe that is ready: matrix, normalization and mask.
const BYTES_PER_PIXEL: u64 = 40;

/// Further bytes per pixel of a recipe that needs all pixels of a bin at once: the matrix by bin of
/// split pixels (32), and for medians the order of each bin's pixels, twice (16). An image of variances
/// takes 16 more, for which the half that is added to all is enough.
const BY_BIN_BYTES_PER_PIXEL: u64 = 48;

/// Bytes per pixel that a thread needs by methods that look at all pixels of a bin, at the most: 16
/// for 8 interleaved frames, and 4.5 for the pixels that may be outliers if frames are clipped tile
/// by tile. Recipes without such methods do not need them.
const ROBUST_BYTES_PER_PIXEL: u64 = 21;

/// Entries of a matrix per pixel, with pixel splitting.
const ENTRIES_PER_PIXEL: u64 = 2;

/// Seconds of a CPU in which a matrix is built, per pixel: 1.5 s for a detector of 4 million pixels.
const BUILD_SECONDS_PER_PIXEL: f64 = 1.5 / 4.5e6;

/// Bytes of what else runs in a job: gather, the process in which HDF5 reads metadata, and the
/// driver of a GPU.
const BYTES_BESIDE_AI_INTEGRATE: u64 = (1 << 30) - memory_model::BASE_BYTES;

/// Bytes per pixel of `gather --pixel-images`: the sums, and the images from which the mask is made.
const GATHER_BYTES_PER_PIXEL: u64 = 90;

/// Estimates the memory of each job of a plan: half as much again as ai-integrate is expected to
/// use, in whole GiB.
///
/// A process holds the matrix and the corrections of each recipe of one geometry once, and those of a
/// detector that moves for each engine; the memory of its engines is what ai-integrate itself
/// expects, with the statistics of `--pixel-stats` if `has_pixel_statistics`, and the pixels
/// of `--sparse` if `has_sparse_pixels`.
pub fn estimate_memory(
    plan: &TaskPlan,
    sizes: &RecipeSizes,
    size: &JobSize,
    has_pixel_statistics: bool,
    has_sparse_pixels: bool,
) -> MemorySize {
    let of_sets = |value: &dyn Fn(&[RawPath]) -> u64| plan.recipe_sets().map(value).max();
    let bins = of_sets(&|set| sizes.sizes_of(set).map(|size| size.bins).sum()).unwrap_or(0);
    let azimuthal = |set: &[RawPath]| {
        let azimuthal = sizes.sizes_of(set).filter(|size| size.has_plain_azimuthal_errors);
        azimuthal.map(|size| size.bins).sum()
    };
    let azimuthal_bins = of_sets(&azimuthal).unwrap_or(0);
    // ai-integrate adds up the pixels once for each rule about which values mean "no measurement".
    let rules = |set: &[RawPath]| {
        let rules = sizes.sizes_of(set).map(|size| &size.dummy).collect::<HashSet<_>>().len();
        rules.max(1) as u64
    };
    let rules = of_sets(&rules).unwrap_or(1);
    let clips = |set: &[RawPath]| sizes.sizes_of(set).filter(|size| size.clips).count() as u64;
    let clips = of_sets(&clips).unwrap_or(0);
    let is_moving = |size: &&RecipeSize| size.positions > 0;
    // The most recipes of a kind in memory at a time.
    let count_kept = |is_of_kind: &dyn Fn(&RecipeSize) -> bool| {
        let is_at_exposure_time = |size: &&RecipeSize| is_of_kind(size) && size.has_exposure_time;
        let in_use = of_sets(&|set| sizes.sizes_of(set).filter(is_at_exposure_time).count() as u64);
        let all = sizes.all().filter(is_at_exposure_time).count() as u64;
        let most = memory_model::MAX_EXPOSURE_TIMES as u64 + size.engines * in_use.unwrap_or(0);
        let others = sizes.all().filter(|size| is_of_kind(size) && !size.has_exposure_time);
        others.count() as u64 + all.min(most)
    };
    let fixed = count_kept(&|size| !is_moving(&size));
    // The recipes of a detector that moves are those of one scan, and are dropped with its tasks.
    let moving = of_sets(&|set| sizes.sizes_of(set).filter(is_moving).count() as u64).unwrap_or(0);
    let FrameMaxima { pixels, stored_bytes, decoded_bytes, longest_batch } = plan.frame_maxima();
    let engine = EngineSizes {
        threads: usize::try_from(size.threads).unwrap_or(usize::MAX),
        bins: usize::try_from(bins).unwrap_or(usize::MAX),
        azimuthal_bins: usize::try_from(azimuthal_bins).unwrap_or(usize::MAX),
        batch_frames: DEFAULT_BATCH_FRAMES.into(),
        longest_batch: longest_batch.max(DEFAULT_BATCH_FRAMES.into()),
        stored_bytes,
        decoded_bytes,
        kernel_bytes: ROBUST_BYTES_PER_PIXEL * pixels,
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
    // Recipes of a detector that moves have none: their patterns are sums over all pixels.
    let by_bin = count_kept(&|size| size.needs_all_pixels);
    let recipes = pixels
        * (BYTES_PER_PIXEL_WHILE_BUILDING
            + fixed.saturating_sub(1) * BYTES_PER_PIXEL
            + by_bin * BY_BIN_BYTES_PER_PIXEL);
    // Each engine has a matrix of each recipe in use and builds another; some more are kept.
    let positions = match moving {
        0 => 0,
        moving => {
            let engine = BYTES_PER_PIXEL_WHILE_BUILDING + moving * BYTES_PER_PIXEL;
            size.engines * pixels * engine + memory_model::MAX_POSITION_BYTES
        }
    };
    let expected = memory_model::BASE_BYTES
        + positions
        + BYTES_BESIDE_AI_INTEGRATE
        + gather
        + recipes
        + size.engines * engine.bytes();
    MemorySize::from_bytes((expected * 3 / 2).next_multiple_of(1 << 30))
}

/// Estimates the seconds in which a job of this size builds the matrices of so many positions of a
/// detector with `pixels` pixels.
pub fn estimate_build_seconds(builds: u64, pixels: u64, size: &JobSize) -> f64 {
    builds as f64 * pixels as f64 * BUILD_SECONDS_PER_PIXEL / size.cpus().max(1) as f64
}

/// Estimates the walltime of a job that integrates for `seconds`: twice the expected time and five
/// minutes, in steps of five minutes.
pub fn estimate_walltime(seconds: f64) -> Walltime {
    let seconds = 2.0 * seconds + 300.0;
    Walltime::from_seconds((seconds as u64).next_multiple_of(300))
}

#[cfg(test)]
mod tests {
    use recipe::{Quantiles, Settings};
    use records::{Acquisition, Span, Task};

    use super::*;
    use crate::recipe_sizes::tests::{moving_plan, plan_of};

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
            let (plan, none) = (plan(tasks), RecipeSizes::default());
            estimate_memory(&plan, &none, &size(threads), has_pixel_statistics, false).to_string()
        };
        let estimate = |tasks, threads| estimate_with(tasks, threads, false);
        assert_eq!(estimate(1, 4), "13G");
        assert_eq!(estimate(1, 4), estimate(50, 4));
        assert_eq!(estimate(1, 1), "7G");
        assert_eq!(
            estimate_with(1, 4, true),
            "18G",
            "8 engines, 72 bytes for each of 4.5 M pixels, 4 more in each thread, and gather"
        );
    }

    #[test]
    fn memory_is_that_of_the_positions_of_one_scan() {
        let size = JobSize { workers: 4, engines: 8, threads: 4, gpus: 0 };
        let estimate = |scans, positions| {
            let (plan, sizes) = moving_plan(&eiger(), scans, 100, positions);
            estimate_memory(&plan, &sizes, &size, false, false).bytes() >> 30
        };
        let [fixed, one, three_hundred] = [estimate(1, 0), estimate(1, 3), estimate(300, 3)];
        assert_eq!(one, three_hundred);
        // 8 engines, 340 bytes for each of 4.5 M pixels and 256 MiB, and half as much again.
        assert!((17..=19).contains(&(one - fixed)), "{fixed} {one}");
    }

    #[test]
    fn memory_is_that_of_a_few_exposure_times() {
        let size = JobSize { workers: 4, engines: 2, threads: 4, gpus: 0 };
        let estimate = |recipes| {
            let settings = Settings { dead_time: "120ns".parse().ok(), ..Settings::default() };
            let (plan, sizes) = plan_of(settings, &eiger(), recipes, 100, 0);
            estimate_memory(&plan, &sizes, &size, false, false).bytes() >> 30
        };
        assert_eq!(estimate(6), estimate(300));
        assert!(estimate(6) > estimate(1));
    }

    #[test]
    fn medians_have_their_matrix_by_bin_besides() {
        let size = JobSize { workers: 4, engines: 1, threads: 4, gpus: 0 };
        let shape = [10_000, 10_000];
        let task = Task { acquisition: Acquisition { shape, ..eiger().acquisition }, ..eiger() };
        let estimate = |median| {
            let settings = Settings { median, ..Settings::default() };
            let (plan, sizes) = plan_of(settings, &task, 1, 100, 0);
            estimate_memory(&plan, &sizes, &size, false, false).bytes() >> 30
        };
        // 48 bytes for each of 100 M pixels, and half as much again.
        let besides = estimate(Some(Quantiles { low: 50.0, high: 50.0 })) - estimate(None);
        assert!((6..=7).contains(&besides), "{besides}");
    }

    #[test]
    fn a_walltime_is_twice_the_work_and_five_minutes() {
        assert_eq!(estimate_walltime(600.0).to_string(), "00:25:00");
        assert_eq!(estimate_walltime(0.0).to_string(), "00:05:00");
    }

    #[test]
    fn matrices_take_their_time_on_the_cpus_of_the_job() {
        let size = JobSize { workers: 4, engines: 2, threads: 5, gpus: 0 };
        assert!((estimate_build_seconds(1000, 4_500_000, &size) - 150.0).abs() < 1e-9);
        assert_eq!(estimate_build_seconds(0, 4_500_000, &size), 0.0);
    }
}
