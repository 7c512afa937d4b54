//! Memory of a task: an estimate beforehand, and the peak of the process.

use crate::batch_runner::BatchRunner;
use crate::job::Job;
use crate::prefetch::{MAX_PREFETCH_BYTES, prefetch_threads};

/// Memory of the program, of HDF5 and of its caches.
const BASE_BYTES: u64 = 64 << 20;

/// Memory of a thread's kernels, block buffers and stack.
const BYTES_PER_THREAD: u64 = 4 << 20;

/// Estimates the peak memory of the process in bytes while it works on a task, whose frames have `stored` bytes each.
/// The sum has the matrices; for each prefetch thread and each worker thread the stored bytes of a batch; for each
/// worker thread the accumulators, the sums of a batch and its `decoded` frames; and the rows that wait to be
/// written.
pub fn estimate_bytes(jobs: &[Job], runner: &BatchRunner<'_>, stored: u64, decoded: u64) -> u64 {
    let integrators = || jobs.iter().filter_map(|job| job.resources.as_ref()).map(|resources| &resources.integrator);
    let matrices = integrators().map(|integrator| integrator.memory_bytes() as u64);
    let beside = integrators().map(|integrator| integrator.thread_bytes() as u64).max().unwrap_or(0);
    let sums = 2 * size_of::<f64>() as u64 * runner.total_bins() as u64;
    let batch = runner.batch_frames as u64;
    let window =
        (runner.batches.max_frames() as u64 * stored).clamp(batch * stored, MAX_PREFETCH_BYTES.max(batch * stored));
    let thread = BYTES_PER_THREAD + window + 2 * batch.clamp(8, 16) * sums + decoded + beside;
    let waiting = runner.max_in_flight() as u64 * runner.batches.max_frames() as u64 * sums;
    let ahead = prefetch_threads(runner.threads) as u64 * window.min(MAX_PREFETCH_BYTES);
    BASE_BYTES + ahead + matrices.sum::<u64>() + runner.threads as u64 * thread + waiting
}

/// Returns the peak memory of the process in bytes; `None` where the kernel does not report it.
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
        assert_eq!(parse_peak("VmPeak:\t  9 kB\nVmHWM:\t   1234 kB\nVmRSS:\t 7 kB\n"), Some(1234 << 10));
        assert_eq!(parse_peak("VmPeak:\t  9 kB\n"), None);
        assert!(peak_bytes().is_none_or(|bytes| bytes > 1 << 20));
    }
}
