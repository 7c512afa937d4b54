//! Memory: what a task is expected to take, and what the process took.

use crate::ahead::{SHARE, readers};
use crate::crew::Crew;
use crate::job::Job;

/// The program, HDF5 and its caches.
const PROCESS: u64 = 64 << 20;

/// A thread's lanes, blocks and stack.
const THREAD: u64 = 4 << 20;

/// Bytes that the process has at the most while a task of these recipes is worked on, with frames of so many `stored` bytes:
/// the matrices; for each reader and each thread the stored bytes of a window; for each thread the accumulators and the
/// sums of a batch, what it has of `decoded` frames or of frames side by side, and what rows wait to be written.
pub fn expected(jobs: &[Job], crew: &Crew<'_>, stored: u64, decoded: u64) -> u64 {
    let integrators = || jobs.iter().filter_map(|job| job.means.as_ref()).map(|means| &means.integrator);
    let matrices = integrators().map(|integrator| integrator.bytes() as u64);
    let beside = integrators().map(|integrator| integrator.bytes_a_thread() as u64).max().unwrap_or(0);
    let sums = 2 * size_of::<f64>() as u64 * crew.bins() as u64;
    let batch = crew.batch as u64;
    let window = (crew.windows.longest() as u64 * stored).clamp(batch * stored, SHARE.max(batch * stored));
    let thread = THREAD + window + 2 * batch.clamp(8, 16) * sums + decoded + beside;
    let waiting = crew.ahead() as u64 * crew.windows.longest() as u64 * sums;
    let ahead = readers(crew.threads) as u64 * window.min(SHARE);
    PROCESS + ahead + matrices.sum::<u64>() + crew.threads as u64 * thread + waiting
}

/// The most that the process had at any time, bytes; `None` where the kernel does not tell.
pub fn peak() -> Option<u64> {
    of_status(&std::fs::read_to_string("/proc/self/status").ok()?)
}

fn of_status(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_the_peak() {
        assert_eq!(of_status("VmPeak:\t  9 kB\nVmHWM:\t   1234 kB\nVmRSS:\t 7 kB\n"), Some(1234 << 10));
        assert_eq!(of_status("VmPeak:\t  9 kB\n"), None);
        assert!(peak().is_none_or(|bytes| bytes > 1 << 20));
    }
}
