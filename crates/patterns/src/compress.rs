//! Compresses cakes with shuffle and deflate, which every HDF5 reader supports without a plugin.
//!
//! Each chunk holds whole chi bins of one frame and is smaller than the 1 MiB that readers cache,
//! so that a frame or a sector can be read without its neighbours. The chunks are compressed in
//! parallel on all CPUs, outside of the HDF5 library, and then written through it.

use std::io::Write as _;
use std::thread::Builder;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use crate::h5::{Dataset, DatasetElement, DatasetStorage, Group, Result};

/// Default size of the HDF5 library's chunk cache.
const MAX_CHUNK_BYTES: usize = 1 << 20;
/// Level of deflate. Higher levels take twice the time to save another 2 %.
pub(crate) const DEFLATE_LEVEL: u8 = 1;

/// Number type of a dataset that can be compressed.
pub(crate) trait ShuffleElement: DatasetElement {
    /// Returns one byte of the number; byte 0 is the least significant.
    fn byte(self, index: usize) -> u8;
}

macro_rules! impl_shuffle_element {
    ($($number:ty),*) => {
        $(impl ShuffleElement for $number {
            fn byte(self, index: usize) -> u8 {
                self.to_le_bytes()[index]
            }
        })*
    };
}
impl_shuffle_element!(f32, f64, u32, u64);

/// Returns the number of chi bins (rows of a cake) that a chunk holds. The shape of a cake is
/// `[chi, radial]`.
fn rows_per_chunk<T>([lines, width]: [usize; 2]) -> usize {
    let most = crate::row_blocks::rows_in::<T>(MAX_CHUNK_BYTES, width).min(lines.max(1));
    lines.max(1).div_ceil(lines.max(1).div_ceil(most))
}

/// Creates a dataset of `frames` cakes, which [`write_compressed`] fills.
pub(crate) fn create_compressed<T: ShuffleElement>(
    group: &Group,
    name: &str,
    frames: usize,
    cake: [usize; 2],
) -> Result<Dataset> {
    let [lines, width] = cake;
    let form = DatasetStorage::Deflated([1, rows_per_chunk::<T>(cake), width], DEFLATE_LEVEL);
    group.create_dataset::<T>(name, &[frames, lines, width], &form)
}

/// Compresses and writes the cakes of consecutive frames, from frame `first` on.
pub(crate) fn write_compressed<T: ShuffleElement>(
    dataset: &Dataset,
    first: usize,
    values: &[T],
    cake: [usize; 2],
) -> Result<()> {
    let ([lines, width], lines_of_chunk) = (cake, rows_per_chunk::<T>(cake));
    // A cake is in memory, and a chunk is no larger than a cake, so the products do not saturate.
    let (of_cake, size) =
        (lines.saturating_mul(width).max(1), lines_of_chunk.saturating_mul(width).max(1));
    let pieces: Vec<&[T]> = values.chunks(of_cake).flat_map(|frame| frame.chunks(size)).collect();
    let threads = system::cpu::available_cpus().min(pieces.len()).max(1);
    let compressed: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let share = |pieces: &[&[T]]| {
            pieces.iter().map(|piece| compress_chunk(piece, size)).collect::<Vec<_>>()
        };
        let shares = pieces.chunks(pieces.len().div_ceil(threads).max(1));
        let workers: Vec<_> = shares
            .map(|pieces| {
                let worker = Builder::new().spawn_scoped(scope, move || share(pieces));
                // A machine that has no thread to give has this one.
                worker.map_err(|_| share(pieces))
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| match worker {
                Ok(worker) => worker.join().expect("compression does not panic"),
                Err(compressed) => compressed,
            })
            .collect()
    });
    let chunks_of_frame = lines.div_ceil(lines_of_chunk).max(1);
    for (frame, chunks) in (first..).zip(compressed.chunks(chunks_of_frame)) {
        for (line, chunk) in (0..).step_by(lines_of_chunk).zip(chunks) {
            dataset.write_chunk(&[frame as u64, line, 0], chunk)?;
        }
    }
    Ok(())
}

/// Returns the stored bytes of a chunk of `size` numbers. A chunk that extends beyond the cake is
/// filled with 0.
fn compress_chunk<T: ShuffleElement>(values: &[T], size: usize) -> Vec<u8> {
    let mut shuffled = Vec::with_capacity(size.saturating_mul(size_of::<T>()));
    let rest = size.saturating_sub(values.len());
    for byte in 0..size_of::<T>() {
        shuffled.extend(values.iter().map(|value| value.byte(byte)));
        shuffled.extend(std::iter::repeat_n(0, rest));
    }
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(DEFLATE_LEVEL.into()));
    encoder.write_all(&shuffled).and_then(|()| encoder.finish()).expect("memory takes all bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h5;
    use crate::row_writer::{RowWriter, read_rows};

    #[test]
    fn chunks_have_similar_sizes_and_fit_a_readers_cache() {
        assert_eq!(rows_per_chunk::<f32>([360, 1000]), 180);
        assert_eq!(rows_per_chunk::<f64>([360, 1000]), 120);
        assert_eq!(rows_per_chunk::<f32>([7, 1_000_000]), 1);
        assert_eq!(rows_per_chunk::<f32>([8, 100]), 8);
    }

    #[test]
    fn the_library_reads_compressed_chunks() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.h5");
        // Three chunks a frame, the last of them one chi bin short.
        let (frames, [lines, width]) = (3, [8, 87_000]);
        let value = |index: usize| (index as f32).sqrt();
        let file =
            h5::NewHdf5File::create_in(std::fs::File::create_new(&path).expect("a file"), &path, 0)
                .expect("a file");
        let mut table =
            RowWriter::<f32>::with_rows(&file, "x", frames, &[lines, width]).expect("a dataset");
        for frame in 0..frames {
            let row = frame * lines * width..(frame + 1) * lines * width;
            table.push(row.map(value)).expect("it is written");
        }
        table.flush().expect("it is written");
        drop(table);
        file.finish().and_then(h5::VerifiedFile::sync).expect("it is closed");
        let file = h5::Hdf5File::open(&path).expect("a file");
        let dataset = file.dataset("x").expect("a dataset");
        for frame in [1, 0, 2] {
            let found: Vec<f32> = read_rows(&dataset, frame..frame + 1).expect("it is read");
            let expected = (frame * lines * width..(frame + 1) * lines * width).map(value);
            assert!(found.into_iter().eq(expected), "frame {frame}");
        }
        let size = path.metadata().expect("a file").len();
        assert!(size < (frames * lines * width * 4) as u64);
    }
}
