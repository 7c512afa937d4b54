//! Memory of a task: an estimate beforehand, and the peak of the process.

use memory_model::EngineSizes;

use crate::batch_runner::BatchRunner;
use crate::recipe_task::RecipeTask;
use crate::segments::SegmentRecipe;

/// Estimates the peak memory of the process in bytes while it works on a task, whose frames have
/// `stored` bytes each, and whose threads need `decoded` bytes each for decoded data: that of an
/// engine, the matrices in use, and those that are kept for other positions of a detector.
pub fn estimate_bytes(
    recipe_tasks: &[RecipeTask],
    segment_recipes: &[SegmentRecipe],
    runner: &BatchRunner<'_>,
    stored: u64,
    decoded: u64,
) -> u64 {
    let integrators = || {
        segment_recipes.iter().filter_map(|recipe| match recipe {
            SegmentRecipe::Ready(integrator, _) => Some(integrator),
            SegmentRecipe::Idle | SegmentRecipe::NoGeometry(_) => None,
        })
    };
    let is_moving = recipe_tasks.iter().any(RecipeTask::has_moving_geometry);
    let matrices = integrators().map(|integrator| integrator.memory_bytes() as u64);
    let engine = EngineSizes {
        threads: runner.threads,
        bins: runner.total_bins(),
        azimuthal_bins: runner.azimuthal_bins(),
        batch_frames: runner.batch_frames,
        longest_batch: runner.batches.max_frames(),
        stored_bytes: stored,
        decoded_bytes: decoded,
        kernel_bytes: integrators()
            .map(|integrator| integrator.thread_bytes() as u64)
            .max()
            .unwrap_or(0),
        pixels: recipe_tasks[0].task.acquisition.shape.iter().product(),
        sparse_pixels: runner.max_sparse_pixels(),
        statistics_rules: runner.statistics.iter().flatten().count() as u64,
    };
    let positions = if is_moving { memory_model::MAX_POSITION_BYTES } else { 0 };
    memory_model::BASE_BYTES + matrices.sum::<u64>() + positions + engine.bytes()
}

/// Returns the peak memory of the process in bytes; `None` if the kernel does not report it.
pub fn peak_bytes() -> Option<u64> {
    parse_peak(&std::fs::read_to_string("/proc/self/status").ok()?)
}

fn parse_peak(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_the_peak() {
        assert_eq!(
            parse_peak("VmPeak:\t  9 kB\nVmHWM:\t   1234 kB\nVmRSS:\t 7 kB\n"),
            Some(1234 << 10)
        );
        assert_eq!(parse_peak("VmPeak:\t  9 kB\n"), None);
        assert!(peak_bytes().is_none_or(|bytes| bytes > 1 << 20));
    }
}
