//! Compression of cakes, in chunks that are encoded outside of the HDF5 library.
//!
//! Each chunk holds whole chi bins of one frame and is smaller than the 1 MiB that readers cache,
//! so that a frame or a sector can be read without its neighbours. The chunks are encoded in
//! parallel on all CPUs, without the HDF5 library's lock, and then written through it.

use std::io;
use std::thread::Builder;

use hdf5_filters::bitshuffle::{self, Encoder};
use hdf5_filters::shuffle::{shuffle, unshuffle};
use zlib_rs::{DeflateConfig, InflateConfig, ReturnCode, Strategy};

use crate::compression::{Compression, DEFLATE_LEVEL};
use crate::h5::{Dataset, DatasetElement, DatasetStorage, Group, Hdf5Error, Result};

/// Default size of the HDF5 library's chunk cache.
const MAX_CHUNK_BYTES: usize = 1 << 20;
/// Number type of a dataset that can be compressed. Files hold numbers as this machine does.
pub(crate) trait CompressedElement: DatasetElement + bytemuck::Pod {}
impl<T: DatasetElement + bytemuck::Pod> CompressedElement for T {}

/// Returns the number of chi bins (rows of a cake) that a chunk holds. The shape of a cake is
/// `[chi, radial]`.
fn rows_per_chunk<T>([lines, width]: [usize; 2]) -> usize {
    let most = crate::row_blocks::rows_in::<T>(MAX_CHUNK_BYTES, width).min(lines.max(1));
    lines.max(1).div_ceil(lines.max(1).div_ceil(most))
}

/// Returns the number of values of a chunk. A cake is in memory, and a chunk is no larger than a
/// cake, so the product does not saturate.
fn chunk_values<T>(cake: [usize; 2]) -> usize {
    rows_per_chunk::<T>(cake).saturating_mul(cake[1]).max(1)
}

/// Returns the storage of cakes: chunks of one frame each.
pub(crate) fn cake_storage<T>(
    cake: [usize; 2],
    compression: Compression,
    is_resizable: bool,
) -> DatasetStorage {
    let chunk = [1, rows_per_chunk::<T>(cake), cake[1]];
    DatasetStorage::Compressed { chunk, compression, is_resizable }
}

/// Returns whether a dataset has cakes in the chunks and the compression that a final file has.
pub(crate) fn has_cake_storage<T>(
    dataset: &Dataset,
    cake: [usize; 2],
    compression: Compression,
) -> Result<bool> {
    let chunk = [1, rows_per_chunk::<T>(cake), cake[1]];
    let has_chunk = dataset.chunk_shape()?.is_some_and(|found| found == chunk);
    Ok(has_chunk && dataset.compression()? == Some(compression))
}

/// Encodes cakes; its buffers are reused from chunk to chunk.
pub(crate) struct CakeEncoder {
    compression: Compression,
    bitshuffle: Option<Encoder>,
    padded: Vec<u8>,
    shuffled: Vec<u8>,
    deflated: Vec<u8>,
}

impl CakeEncoder {
    /// Creates an encoder.
    ///
    /// # Errors
    /// Fails if there is no memory.
    pub fn new(compression: Compression) -> io::Result<Self> {
        let bitshuffle = compression.block_codec().map(Encoder::new).transpose()?;
        let [padded, shuffled, deflated] = [const { Vec::new() }; 3];
        Ok(Self { compression, bitshuffle, padded, shuffled, deflated })
    }

    /// Returns the stored bytes of a cake's chunks, one after the other. A chunk that extends beyond
    /// the cake is filled with 0.
    ///
    /// # Errors
    /// Fails if there is no memory.
    pub fn encode<T: CompressedElement>(
        &mut self,
        values: &[T],
        cake: [usize; 2],
    ) -> io::Result<Vec<Vec<u8>>> {
        let size = chunk_values::<T>(cake);
        values.chunks(size).map(|values| self.encode_chunk(values, size)).collect()
    }

    fn encode_chunk<T: CompressedElement>(
        &mut self,
        values: &[T],
        size: usize,
    ) -> io::Result<Vec<u8>> {
        let mut bytes: &[u8] = bytemuck::cast_slice(values);
        if values.len() < size {
            self.padded.clear();
            self.padded.extend_from_slice(bytes);
            self.padded.resize(size.saturating_mul(size_of::<T>()), 0);
            bytes = &self.padded;
        }
        match (self.compression, &mut self.bitshuffle) {
            (Compression::None, _) => Ok(bytes.to_vec()),
            (_, Some(bitshuffle)) => bitshuffle.encode(bytes, size_of::<T>()),
            (_, None) => {
                self.shuffled.resize(bytes.len(), 0);
                shuffle(bytes, size_of::<T>(), &mut self.shuffled);
                self.deflated.resize(zlib_rs::compress_bound(bytes.len()), 0);
                // Neighbours in a plane of bytes are equal, as in empty bins, or noise, in which there
                // is nothing to find further away.
                let config = DeflateConfig {
                    level: DEFLATE_LEVEL.into(),
                    strategy: Strategy::Rle,
                    ..DeflateConfig::default()
                };
                match zlib_rs::compress_slice(&mut self.deflated, &self.shuffled, config) {
                    (stored, ReturnCode::Ok) => Ok(stored.to_vec()),
                    (_, ReturnCode::MemError) => Err(io::ErrorKind::OutOfMemory.into()),
                    (_, why) => Err(io::Error::other(format!("deflate fails: {why:?}"))),
                }
            }
        }
    }
}

/// Decodes cakes.
pub(crate) struct CakeDecoder {
    compression: Compression,
    padded: Vec<u8>,
    shuffled: Vec<u8>,
}

impl CakeDecoder {
    /// Creates a decoder.
    pub fn new(compression: Compression) -> Self {
        Self { compression, padded: Vec::new(), shuffled: Vec::new() }
    }

    /// Decodes one frame's cake from a dataset, chunk by chunk, into `values`. Returns whether it is
    /// stored as [`CakeEncoder`] writes it; otherwise the HDF5 library may know better.
    pub fn read<T: CompressedElement>(
        &mut self,
        dataset: &Dataset,
        frame: usize,
        cake: [usize; 2],
        values: &mut [T],
    ) -> bool {
        let offsets = chunk_offsets::<T>(frame, cake);
        self.decode(offsets.map(|offset| dataset.chunk_unverified(&offset).ok()), cake, values)
    }

    /// Decodes the stored bytes of a cake's chunks, one after the other, into `values`. Returns
    /// whether they decode to a cake of this shape.
    fn decode<T: CompressedElement>(
        &mut self,
        mut chunks: impl Iterator<Item = Option<Vec<u8>>>,
        cake: [usize; 2],
        values: &mut [T],
    ) -> bool {
        let size = chunk_values::<T>(cake);
        let mut decode = |values: &mut [T]| {
            let stored = chunks.next().flatten();
            stored.is_some_and(|stored| self.decode_chunk(&stored, values, size).is_some())
        };
        values.chunks_mut(size).all(&mut decode) && chunks.next().is_none()
    }

    /// Decodes a chunk of `size` values, of which the first ones are those of the cake.
    fn decode_chunk<T: CompressedElement>(
        &mut self,
        stored: &[u8],
        values: &mut [T],
        size: usize,
    ) -> Option<()> {
        let (is_whole, values) = (values.len() == size, bytemuck::cast_slice_mut::<T, u8>(values));
        let Self { compression, padded, shuffled } = self;
        let bytes = if is_whole {
            &mut *values
        } else {
            padded.resize(size.saturating_mul(size_of::<T>()), 0);
            &mut padded[..]
        };
        match (*compression, compression.block_codec()) {
            (Compression::None, _) if stored.len() == bytes.len() => bytes.copy_from_slice(stored),
            (Compression::None, _) => return None,
            (_, Some(codec)) => {
                bitshuffle::decode(codec, stored, size_of::<T>(), bytes).ok()?;
            }
            (_, None) => {
                shuffled.resize(bytes.len(), 0);
                match zlib_rs::decompress_slice(shuffled, stored, InflateConfig::default()) {
                    (whole, ReturnCode::Ok) if whole.len() == bytes.len() => {
                        unshuffle(whole, size_of::<T>(), bytes);
                    }
                    _ => return None,
                }
            }
        }
        if !is_whole {
            values.copy_from_slice(&padded[..values.len()]);
        }
        Some(())
    }
}

/// Creates a dataset of `frames` cakes, which [`write_compressed`] fills.
pub(crate) fn create_compressed<T: CompressedElement>(
    group: &Group,
    name: &str,
    frames: usize,
    cake: [usize; 2],
    compression: Compression,
) -> Result<Dataset> {
    let [lines, width] = cake;
    group.create_dataset::<T>(
        name,
        &[frames, lines, width],
        &cake_storage::<T>(cake, compression, false),
    )
}

/// Encodes and writes the cakes of consecutive frames, from frame `first` on.
pub(crate) fn write_compressed<T: CompressedElement>(
    dataset: &Dataset,
    first: usize,
    values: &[T],
    cake: [usize; 2],
    compression: Compression,
) -> Result<()> {
    let ([lines, width], size) = (cake, chunk_values::<T>(cake));
    // A cake is in memory, so the product does not saturate.
    let of_cake = lines.saturating_mul(width).max(1);
    let pieces: Vec<&[T]> = values.chunks(of_cake).flat_map(|frame| frame.chunks(size)).collect();
    let threads = system::cpu::available_cpus().min(pieces.len()).max(1);
    let encoded: io::Result<Vec<Vec<u8>>> = std::thread::scope(|scope| {
        let share = |pieces: &[&[T]]| -> io::Result<Vec<_>> {
            let mut encoder = CakeEncoder::new(compression)?;
            pieces.iter().map(|piece| encoder.encode_chunk(piece, size)).collect()
        };
        let shares = pieces.chunks(pieces.len().div_ceil(threads).max(1));
        let workers: Vec<_> = shares
            .map(|pieces| {
                let worker = Builder::new().spawn_scoped(scope, move || share(pieces));
                // A machine that has no thread to give has this one.
                worker.map_err(|_| share(pieces))
            })
            .collect();
        let mut encoded = Vec::with_capacity(pieces.len());
        for worker in workers {
            encoded.extend(match worker {
                Ok(worker) => worker.join().expect("compression does not panic")?,
                Err(encoded) => encoded?,
            });
        }
        Ok(encoded)
    });
    let encoded = encoded.map_err(Hdf5Error::Io)?;
    let chunks_of_frame = lines.div_ceil(rows_per_chunk::<T>(cake)).max(1);
    for (frame, chunks) in (first..).zip(encoded.chunks(chunks_of_frame)) {
        write_cake::<T>(dataset, frame, chunks, cake)?;
    }
    Ok(())
}

/// Reads the stored bytes of the chunks of one frame's cake.
pub(crate) fn read_cake<T>(
    dataset: &Dataset,
    frame: usize,
    cake: [usize; 2],
) -> Result<Vec<Vec<u8>>> {
    chunk_offsets::<T>(frame, cake).map(|offset| dataset.read_chunk(&offset)).collect()
}

/// Returns where the chunks of one frame's cake begin.
fn chunk_offsets<T>(frame: usize, cake: [usize; 2]) -> impl Iterator<Item = [u64; 3]> {
    let lines = (0..cake[0] as u64).step_by(rows_per_chunk::<T>(cake));
    lines.map(move |line| [frame as u64, line, 0])
}

/// Writes the chunks of one frame's cake.
pub(crate) fn write_cake<T>(
    dataset: &Dataset,
    frame: usize,
    chunks: &[Vec<u8>],
    cake: [usize; 2],
) -> Result<()> {
    let mut pairs = chunk_offsets::<T>(frame, cake).zip(chunks);
    pairs.try_for_each(|(offset, chunk)| dataset.write_chunk(&offset, chunk))
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
        // Three chunks a frame, the last of them one chi bin short.
        let (frames, [lines, width]) = (3, [8, 87_000]);
        let value = |index: usize| (index as f32).sqrt();
        for compression in Compression::ALL {
            let path = directory.path().join(compression.name());
            let new = std::fs::File::create_new(&path).expect("a file");
            let file = h5::NewHdf5File::create_in(new, &path, 0).expect("a file");
            let row = [lines, width];
            let mut table = RowWriter::<f32>::with_rows(&file, "x", frames, &row, compression)
                .expect("a dataset");
            for frame in 0..frames {
                let row = frame * lines * width..(frame + 1) * lines * width;
                table.push(row.map(value)).expect("it is written");
            }
            table.flush().expect("it is written");
            drop(table);
            file.finish().and_then(h5::VerifiedFile::sync).expect("it is closed");
            let file = h5::Hdf5File::open(&path).expect("a file");
            let dataset = file.dataset("x").expect("a dataset");
            assert_eq!(dataset.compression().expect("it is read"), Some(compression));
            let has_storage = has_cake_storage::<f32>(&dataset, [lines, width], compression);
            assert!(has_storage.expect("it is read"));
            for frame in [1, 0, 2] {
                let found: Vec<f32> = read_rows(&dataset, frame..frame + 1).expect("it is read");
                let expected = (frame * lines * width..(frame + 1) * lines * width).map(value);
                assert!(found.iter().copied().eq(expected), "frame {frame}");
                let stored = read_cake::<f32>(&dataset, frame, [lines, width]).expect("it is read");
                assert_eq!(stored.len(), 3);
                let mut decoder = CakeDecoder::new(compression);
                let mut decoded = vec![0.0; lines * width];
                assert!(decoder.read(&dataset, frame, [lines, width], &mut decoded));
                assert!(decoded == found, "frame {frame}");
            }
            let size = path.metadata().expect("a file").len();
            let raw = (frames * lines * width * 4) as u64;
            assert_eq!(size < raw, compression != Compression::None, "{size} of {raw} bytes");
        }
    }

    #[test]
    fn damaged_chunks_are_refused_or_decode_to_other_values() {
        let cake = [8, 100];
        let values: Vec<f32> = (0..800).map(|index| (index as f32).sqrt()).collect();
        for compression in Compression::ALL {
            let mut encoder = CakeEncoder::new(compression).expect("memory");
            let chunks = encoder.encode(&values, cake).expect("memory");
            let mut decoder = CakeDecoder::new(compression);
            let mut decode = |chunks: &[&[u8]]| {
                let (mut found, chunks) = (vec![0.0_f32; 800], chunks.iter());
                let chunks = chunks.map(|stored| Some(stored.to_vec()));
                decoder.decode(chunks, cake, &mut found).then_some(found)
            };
            let is_equal = |found: &Vec<f32>| *found == values;
            let [whole] = &chunks[..] else { panic!("one chunk") };
            assert!(decode(&[whole]).is_some_and(|found| is_equal(&found)));
            for length in 0..whole.len() {
                assert_eq!(decode(&[&whole[..length]]), None, "{compression:?}, {length} bytes");
            }
            let longer = decode(&[&[&whole[..], &[0; 4]].concat()]);
            let expected = (compression == Compression::Gzip).then(|| values.clone());
            assert!(longer == expected, "{compression:?}: bytes behind the stream");
            for at in 0..whole.len() {
                let mut changed = whole.clone();
                changed[at] ^= 0x10;
                // The checksum of a deflated stream is the only one.
                let found = decode(&[&changed]);
                let is_gzip = compression == Compression::Gzip;
                assert!(!is_gzip || found.is_none_or(|found| is_equal(&found)), "byte {at}");
            }
            assert_eq!(decode(&[]), None);
            assert_eq!(decode(&[whole, whole]), None);
        }
    }
}
