//! Memory: what a task is expected to take, and what the process took.

use crate::batch_runner::BatchRunner;
use crate::job::Job;
use crate::prefetch::{MAX_PREFETCH_BYTES, prefetch_threads};

/// The program, HDF5 and its caches.
const BASE_BYTES: u64 = 64 << 20;

/// A thread's lanes, blocks and stack.
const BYTES_PER_THREAD: u64 = 4 << 20;

/// Bytes that the process has at the most while a task of these recipes is worked on, with frames of so many `stored` bytes:
/// the matrices; for each reader and each thread the stored bytes of a window; for each thread the accumulators and the
/// sums of a batch, what it has of `decoded` frames or of frames side by side, and what rows wait to be written.
pub fn estimate_bytes(jobs: &[Job], crew: &BatchRunner<'_>, stored: u64, decoded: u64) -> u64 {
    let integrators = || jobs.iter().filter_map(|job| job.resources.as_ref()).map(|means| &means.integrator);
    let matrices = integrators().map(|integrator| integrator.memory_bytes() as u64);
    let beside = integrators().map(|integrator| integrator.thread_bytes() as u64).max().unwrap_or(0);
    let sums = 2 * size_of::<f64>() as u64 * crew.total_bins() as u64;
    let batch = crew.batch_frames as u64;
    let window =
        (crew.batches.max_frames() as u64 * stored).clamp(batch * stored, MAX_PREFETCH_BYTES.max(batch * stored));
    let thread = BYTES_PER_THREAD + window + 2 * batch.clamp(8, 16) * sums + decoded + beside;
    let waiting = crew.max_in_flight() as u64 * crew.batches.max_frames() as u64 * sums;
    let ahead = prefetch_threads(crew.threads) as u64 * window.min(MAX_PREFETCH_BYTES);
    BASE_BYTES + ahead + matrices.sum::<u64>() + crew.threads as u64 * thread + waiting
}

/// The most that the process had at any time, bytes; `None` where the kernel does not tell.
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
