//! Memory of a task: an estimate beforehand, and the peak of the process.

use integrator::PixelType;
use records::Acquisition;

use crate::batch_runner::BatchRunner;
use crate::prefetch::{MAX_PREFETCH_BYTES, prefetch_threads};
use crate::recipe_task::RecipeTask;
use crate::worker::frames_assembled_at_once;

/// Memory of the program, of HDF5 and of its caches.
const BASE_BYTES: u64 = 64 << 20;

/// Memory of a thread's kernels, block buffers and stack.
const BYTES_PER_THREAD: u64 = 4 << 20;

/// Estimates the peak memory of the process in bytes while it works on a task, whose frames have `stored` bytes each.
/// The sum has the matrices; for each prefetch thread and each worker thread the stored bytes of a batch; for each
/// worker thread the accumulators, the sums of a batch and its `decoded` frames; and the rows that wait to be
/// written.
pub fn estimate_bytes(recipe_tasks: &[RecipeTask], runner: &BatchRunner<'_>, stored: u64, decoded: u64) -> u64 {
    let integrators = || {
        recipe_tasks
            .iter()
            .filter_map(|recipe_task| recipe_task.resources.as_ref())
            .map(|resources| &resources.integrator)
    };
    let matrices = integrators().map(|integrator| integrator.memory_bytes() as u64);
    let kernel_bytes = integrators().map(|integrator| integrator.thread_bytes() as u64).max().unwrap_or(0);
    let sums = 2 * size_of::<f64>() as u64 * runner.total_bins() as u64;
    let batch = runner.batch_frames as u64;
    let batch_bytes =
        (runner.batches.max_frames() as u64 * stored).clamp(batch * stored, MAX_PREFETCH_BYTES.max(batch * stored));
    let thread = BYTES_PER_THREAD + batch_bytes + 2 * batch.clamp(8, 16) * sums + decoded + kernel_bytes;
    let waiting = runner.max_in_flight() as u64 * runner.batches.max_frames() as u64 * sums;
    let prefetched = prefetch_threads(runner.threads) as u64 * batch_bytes.min(MAX_PREFETCH_BYTES);
    BASE_BYTES + prefetched + matrices.sum::<u64>() + runner.threads as u64 * thread + waiting
}

/// Returns the bytes that a thread needs for decoded data. If each chunk is one frame, that is one frame.
///
/// Otherwise frames are assembled from chunks, and the thread holds a group of frames and all chunks that cover one
/// frame. A chunk of `depth` frames has the size of `depth` frames. It is counted twice decoded, as input and output of
/// the last HDF5 filter, and once as stored, with `stored` bytes per frame.
pub fn decoded_bytes_per_thread(scan: &Acquisition, batch: usize, stored: u64) -> u64 {
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
        assert_eq!(parse_peak("VmPeak:\t  9 kB\nVmHWM:\t   1234 kB\nVmRSS:\t 7 kB\n"), Some(1234 << 10));
        assert_eq!(parse_peak("VmPeak:\t  9 kB\n"), None);
        assert!(peak_bytes().is_none_or(|bytes| bytes > 1 << 20));
    }

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
