//! The memory that ai-integrate needs, and the limits of its pipeline from which the memory
//! follows. ai-integrate keeps these limits; slurm-emit requests the memory for its jobs.

use records::Acquisition;

/// Memory of the program, of HDF5 and of its caches.
pub const BASE_BYTES: u64 = 64 << 20;

/// The frames of a batch, by default.
pub const DEFAULT_BATCH_FRAMES: u16 = 16;

/// How many times its nominal size a batch may reach in order to end at the end of a chunk that
/// holds several frames.
pub const MAX_BATCH_STRETCH: usize = 8;

/// The largest number of interleaved sources that one batch spans, so that its rows fit in memory.
pub const MAX_INTERLEAVED_SOURCES: u64 = 16;

/// The most bytes that are read ahead by each prefetch thread.
pub const MAX_PREFETCH_BYTES: u64 = 64 << 20;

/// Bytes of rows that may wait for an earlier batch, unless each thread's own batch takes more.
const MAX_WAITING_BYTES: usize = 512 << 20;

/// Bytes of the matrices that a process keeps for positions of detectors that move, besides those in
/// use.
pub const MAX_POSITION_BYTES: u64 = 256 << 20;

/// How many recipes for one exposure time each, which no task in hand uses, a process keeps at the most
/// when it gets another one.
pub const MAX_EXPOSURE_TIMES: usize = 4;

/// The most positions of a recipe whose matrices are kept in the cache directory, from their second use
/// on. If an encoder's noise makes each frame a position of its own, no matrix is used again, and each
/// would leave a note of its first use.
pub const MAX_CACHED_POSITIONS: usize = 64;

/// Bytes per pixel of the statistics of pixels over frames.
pub const STATISTICS_BYTES_PER_PIXEL: u64 = 36;

/// Bytes per pixel of the frame that a thread decodes for statistics. Their pixels have at most 32
/// bits.
const STATISTICS_BYTES_PER_DECODED_PIXEL: u64 = 4;

/// One in so many entries of a matrix may be of a sparse pixel; frames with more have none.
pub const SPARSE_DIVISOR: u64 = 16;

/// Bytes of a sparse pixel in a row that waits: index and value, in lists that may be twice as long.
const BYTES_PER_SPARSE_PIXEL: usize = 16;

/// Bytes per sparse pixel of a thread: indices of 8 frames, in lists that may be twice as long.
const THREAD_BYTES_PER_SPARSE_PIXEL: u64 = 64;

/// Memory of a thread's kernels, block buffers and stack.
const BYTES_PER_THREAD: u64 = 4 << 20;

/// The sizes of a task on which the memory of an engine depends, besides its matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineSizes {
    /// Worker threads.
    pub threads: usize,
    /// Bins of a frame, summed over all recipes.
    pub bins: usize,
    /// The bins among these whose errors follow from the spread of their pixels, without clipping:
    /// a thread adds up three sums of each, not two.
    pub azimuthal_bins: usize,
    /// Frames of a batch as it was asked for.
    pub batch_frames: usize,
    /// Frames of the longest batch.
    pub longest_batch: usize,
    /// Stored bytes of a frame.
    pub stored_bytes: u64,
    /// Bytes that a thread needs for decoded data, as [`decoded_bytes_per_thread`] returns them.
    pub decoded_bytes: u64,
    /// Bytes that a thread needs for methods that look at all pixels of a bin.
    pub kernel_bytes: u64,
    /// Pixels of a frame.
    pub pixels: u64,
    /// Rules by which statistics of the pixels are made; 0 if there are none.
    pub statistics_rules: u64,
    /// The most sparse pixels of a frame, summed over all recipes; 0 if there are none.
    pub sparse_pixels: usize,
}

impl EngineSizes {
    /// Returns the memory of an engine in bytes, without its matrices: for each prefetch thread and
    /// each worker thread the stored bytes of a batch; for each worker thread the accumulators, the
    /// sums of a batch and its decoded frames; the rows that wait to be written, with their patterns,
    /// of which a cake is at most as large compressed, and their sparse pixels; and the statistics of the pixels, of this
    /// task and of the one that is being committed, and for these a frame for each worker thread.
    pub fn bytes(&self) -> u64 {
        let sums = 2 * size_of::<f64>() as u64 * self.bins as u64;
        let (batch, longest) = (self.batch_frames as u64, self.longest_batch as u64);
        let least = batch * self.stored_bytes;
        let batch_bytes = (longest * self.stored_bytes).clamp(least, MAX_PREFETCH_BYTES.max(least));
        let thread = BYTES_PER_THREAD
            + batch_bytes
            + 2 * batch.clamp(8, 16)
                * (sums + size_of::<f64>() as u64 * self.azimuthal_bins as u64)
            + self.decoded_bytes
            + self.kernel_bytes
            + THREAD_BYTES_PER_SPARSE_PIXEL * self.sparse_pixels as u64;
        let in_flight =
            max_batches_in_flight(self.threads, self.bins, self.sparse_pixels, self.longest_batch);
        let patterns = 2 * size_of::<f32>() as u64 * self.bins as u64;
        let sparse = (BYTES_PER_SPARSE_PIXEL * self.sparse_pixels) as u64;
        let waiting = in_flight as u64 * longest * (sums + patterns + sparse);
        let prefetched =
            prefetch_threads(self.threads) as u64 * batch_bytes.min(MAX_PREFETCH_BYTES);
        let statistics = match self.statistics_rules {
            0 => 0,
            rules => {
                let decoded = STATISTICS_BYTES_PER_DECODED_PIXEL * self.threads as u64;
                (2 * STATISTICS_BYTES_PER_PIXEL * rules + decoded) * self.pixels
            }
        };
        prefetched + self.threads as u64 * thread + waiting + statistics
    }
}

/// Returns the number of prefetch threads of a task, which is how many files or offsets can be
/// waited for at once.
pub fn prefetch_threads(threads: usize) -> usize {
    threads.clamp(4, 32)
}

/// Returns how many frames are assembled before they are integrated together; memory per thread
/// limits it.
pub fn frames_assembled_at_once(frame_bytes: usize, batch: usize) -> usize {
    const MAX_ASSEMBLED_BYTES: usize = 64 << 20;
    (MAX_ASSEMBLED_BYTES / frame_bytes.max(1)).clamp(1, batch)
}

/// Returns how many batches may be in progress, or finished and waiting for an earlier one. The
/// limit keeps the rows of fast files from piling up behind a slow file.
pub fn max_batches_in_flight(
    threads: usize,
    bins: usize,
    sparse_pixels: usize,
    longest_batch: usize,
) -> usize {
    // A row has signal and variance, and three weights if the frame has invalid pixels.
    let row = 5 * size_of::<f64>() * bins + BYTES_PER_SPARSE_PIXEL * sparse_pixels;
    let batches = MAX_WAITING_BYTES / (row * longest_batch).max(1);
    batches.clamp(threads + 1, 4 * threads + 4)
}

/// Returns how many sources take turns in consecutive frames, as far as a batch spans them all: as
/// Lima 2's receivers write frames.
pub fn interleaved_sources(scan: &Acquisition) -> usize {
    let steps =
        scan.sources.iter().flat_map(|source| source.frames.as_slice()).map(|span| span.step());
    steps.max().unwrap_or(1).min(scan.sources.len() as u64).clamp(1, MAX_INTERLEAVED_SOURCES)
        as usize
}

/// Returns the most frames of a batch, if `batch` are asked for: one chunk more than was asked for,
/// less a frame.
pub fn longest_batch(scan: &Acquisition, batch: usize) -> usize {
    let size = batch * interleaved_sources(scan);
    let chunk = scan
        .chunk
        .first()
        .map_or(1, |&frames| usize::try_from(frames.max(1)).unwrap_or(usize::MAX));
    size.saturating_add(chunk - 1).min(MAX_BATCH_STRETCH * size)
}

/// Returns the bytes that a thread needs for decoded data. If each chunk is one frame, that is one
/// frame.
///
/// Otherwise frames are assembled from chunks, and the thread holds a group of frames and all
/// chunks that cover one frame. A chunk of `depth` frames has the size of `depth` frames. It is
/// counted twice decoded, as input and output of the last HDF5 filter, and once as stored, with
/// `stored` bytes per frame.
pub fn decoded_bytes_per_thread(scan: &Acquisition, batch: usize, stored: u64) -> u64 {
    let [rows, columns] = scan.shape;
    let size = pixel_bytes(&scan.dtype);
    let frame = rows.saturating_mul(columns).saturating_mul(size);
    let [depth, height, width] = match scan.chunk[..] {
        [depth, height, width] if scan.chunk != [1, rows, columns] => {
            [depth, height.max(1), width.max(1)]
        }
        _ => return frame,
    };
    let covered = rows.next_multiple_of(height).saturating_mul(columns.next_multiple_of(width));
    let chunks = covered.saturating_mul(size).saturating_mul(depth);
    let side_by_side = frame.saturating_mul(frames_assembled_at_once(frame as usize, batch) as u64);
    side_by_side
        .saturating_add(chunks.saturating_mul(2))
        .saturating_add(stored.saturating_mul(depth))
}

/// Returns the bytes of a pixel: `u32` has 32 bits. Types of unknown names count as the largest, of
/// 8 bytes.
fn pixel_bytes(dtype: &str) -> u64 {
    let bits = dtype.trim_start_matches(|char: char| char.is_ascii_alphabetic());
    bits.parse().map_or(8, |bits: u64| bits / 8).clamp(1, 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(chunk: &[u64]) -> Acquisition {
        Acquisition {
            shape: [10, 20],
            dtype: "u16".to_owned(),
            chunk: chunk.to_vec(),
            ..Acquisition::default()
        }
    }

    #[test]
    fn chunks_of_many_frames_count_as_they_are_decoded() {
        let bytes = |chunk: &[u64]| decoded_bytes_per_thread(&scan(chunk), 4, 100);
        assert_eq!([bytes(&[]), bytes(&[1, 10, 20])], [400, 400]);
        assert_eq!(bytes(&[50, 10, 20]), 4 * 400 + 2 * 50 * 400 + 50 * 100);
        assert_eq!(bytes(&[1, 6, 20]), 4 * 400 + 2 * 12 * 20 * 2 + 100, "the last chunk overhangs");
        assert_eq!(bytes(&[u64::MAX, 10, 20]), u64::MAX);
    }

    #[test]
    fn a_batch_ends_with_a_chunk_if_the_chunk_is_not_too_long() {
        let longest = [&[][..], &[1, 10, 20], &[10, 10, 20], &[1000, 10, 20], &[u64::MAX, 10, 20]]
            .map(|chunk| longest_batch(&scan(chunk), 16));
        assert_eq!(longest, [16, 16, 25, 128, 128]);
    }

    #[test]
    fn an_engine_has_the_bytes_of_its_parts() {
        let sizes = EngineSizes {
            threads: 2,
            bins: 100,
            azimuthal_bins: 30,
            batch_frames: 16,
            longest_batch: 16,
            stored_bytes: 1000,
            decoded_bytes: 5000,
            kernel_bytes: 700,
            pixels: 50,
            statistics_rules: 3,
            sparse_pixels: 10,
        };
        let (batch, sums) = (16_000, 1600);
        let thread = (4 << 20) + batch + 32 * (sums + 240) + 5000 + 700 + 640;
        // Four prefetch threads, and as many batches as may wait: 4 times the threads, and 4.
        let (patterns, waiting) = (800, 12 * 16);
        let rest = waiting * (sums + patterns + 160) + 3 * 2 * 36 * 50 + 2 * 4 * 50;
        assert_eq!(sizes.bytes(), 4 * batch + 2 * thread + rest);
    }
}
