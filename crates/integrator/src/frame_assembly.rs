//! [`Assembler`], which puts frames together from chunks that hold parts of frames, or several
//! frames.

use std::collections::HashMap;
use std::io;

use frames::source::Chunk;
use kernels::{DecodeError, Pipeline};
use system::memory;
use xxhash_rust::xxh3::xxh3_64;

/// Why a frame can't be put together.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// A chunk can't be read, or there is no memory for it.
    #[error("offset {offset}: {why}")]
    Read {
        /// The chunk's offset in its file, in bytes.
        offset: u64,
        /// The error of the operating system.
        why: io::Error,
    },
    /// A chunk can't be decoded.
    #[error("offset {offset}: {why}")]
    Decode {
        /// The chunk's offset in its file, in bytes.
        offset: u64,
        /// The decoder's error.
        why: DecodeError,
    },
}

/// Puts frames together from chunks, on one thread. It keeps the decoded chunks of the last frame
/// for the next frame, so that a chunk of several frames is read and decoded once, also if it is
/// damaged or too large for the memory.
#[derive(Default)]
pub struct Assembler {
    decoded: HashMap<u64, Result<DecodedChunk, DecodeError>>,
    /// Buffers of chunks that are no longer needed, for later chunks.
    free_buffers: Vec<Vec<u8>>,
    stored: Vec<u8>,
}

/// The pixels of one chunk, kept for the next frames that have a piece in it.
struct DecodedChunk {
    pixels: Vec<u8>,
    /// The digest of the chunk's stored bytes.
    digest: u64,
}

impl Assembler {
    /// Sets `frame` to the pixels of the frame in `row` of the dataset, native-endian and
    /// row-major. Returns a digest of the stored bytes of its chunks, in their order. `read` fills
    /// a buffer with the stored bytes of a chunk.
    ///
    /// # Errors
    /// A chunk can't be read or decoded, or there is no memory for it.
    pub fn assemble(
        &mut self,
        pipeline: &Pipeline,
        shape: [usize; 2],
        (row, chunks): (u64, &[Chunk]),
        mut read: impl FnMut(&Chunk, &mut Vec<u8>) -> io::Result<()>,
        frame: &mut Vec<u8>,
    ) -> Result<u64, AssembleError> {
        let size = pipeline.dtype().size();
        let unneeded =
            self.decoded.extract_if(|offset, _| chunks.iter().all(|chunk| chunk.offset != *offset));
        self.free_buffers.extend(unneeded.filter_map(|(_, chunk)| Some(chunk.ok()?.pixels)));
        let first = chunks.first().map_or(0, |chunk| chunk.offset);
        let no_memory = |offset, why| AssembleError::Read { offset, why };
        frame.clear();
        let frame_bytes = shape[0] * shape[1] * size;
        memory::reserve(frame, frame_bytes).map_err(|why| no_memory(first, why))?;
        frame.resize(frame_bytes, 0);
        let mut digests = Vec::with_capacity(chunks.len() * 8);
        for chunk in chunks {
            let offset = chunk.offset;
            if !self.decoded.contains_key(&offset) {
                read(chunk, &mut self.stored).map_err(|why| AssembleError::Read { offset, why })?;
                let decoded = self.decode(pipeline, chunk);
                self.decoded.insert(offset, decoded);
            }
            let decoded = match &self.decoded[&offset] {
                Ok(decoded) => decoded,
                Err(DecodeError::Memory(why)) => {
                    return Err(no_memory(
                        offset,
                        io::Error::new(io::ErrorKind::OutOfMemory, why.clone()),
                    ));
                }
                Err(why) => return Err(AssembleError::Decode { offset, why: why.clone() }),
            };
            copy_overlap(decoded, chunk, row, shape, size, frame);
            digests.extend(decoded.digest.to_le_bytes());
        }
        Ok(xxh3_64(&digests))
    }

    /// Decodes the chunk whose stored bytes were read last.
    fn decode(&mut self, pipeline: &Pipeline, chunk: &Chunk) -> Result<DecodedChunk, DecodeError> {
        let mut pixels = self.free_buffers.pop().unwrap_or_default();
        let bytes = chunk_bytes(chunk, pipeline.dtype().size());
        // The old contents are not cleared, because all of them are overwritten.
        memory::reserve(&mut pixels, bytes).map_err(|why| DecodeError::Memory(why.to_string()))?;
        pixels.resize(bytes, 0);
        pipeline.decode(chunk.filter_mask, &self.stored, &mut pixels)?;
        Ok(DecodedChunk { pixels, digest: xxh3_64(&self.stored) })
    }
}

/// Returns the bytes of a chunk's pixels; `usize::MAX` if the product overflows, so that the
/// allocation fails.
fn chunk_bytes(chunk: &Chunk, size: usize) -> usize {
    let bytes = chunk.shape.iter().fold(size as u64, |bytes, extent| bytes.saturating_mul(*extent));
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Copies the chunk's part of the frame in `row`. Chunks at the frame's edge may reach beyond it.
fn copy_overlap(
    decoded: &DecodedChunk,
    chunk: &Chunk,
    row: u64,
    shape: [usize; 2],
    size: usize,
    frame: &mut [u8],
) {
    let [first, top, left] = chunk.origin.map(|origin| origin as usize);
    let [_, rows, columns] = chunk.shape.map(|length| length as usize);
    let layer = (row as usize - first) * rows * columns;
    let width = columns.min(shape[1].saturating_sub(left)) * size;
    for line in 0..rows.min(shape[0].saturating_sub(top)) {
        let from = (layer + line * columns) * size;
        let to = ((top + line) * shape[1] + left) * size;
        frame[to..to + width].copy_from_slice(&decoded.pixels[from..from + width]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernels::PixelType;

    /// Returns the chunks of a dataset of 2 frames of 3 x 5 pixels, in chunks of 2 x 2 x 3, not
    /// compressed. The value of a pixel is 100 f + 10 y + x.
    fn chunks() -> Vec<(Chunk, Vec<u8>)> {
        let origins = [[0, 0, 0], [0, 0, 3], [0, 2, 0], [0, 2, 3]];
        let numbered = origins.into_iter().zip([0u64, 12, 24, 36]);
        let stored = |[_, top, left]: [u64; 3]| {
            let inside = |y: u64, x: u64| y < 3 && x < 5;
            let value = move |f: u64, y: u64, x: u64| {
                if inside(y, x) { (100 * f + 10 * y + x) as u8 } else { 255 }
            };
            (0..2)
                .flat_map(|f| {
                    (top..top + 2).flat_map(move |y| (left..left + 3).map(move |x| value(f, y, x)))
                })
                .collect()
        };
        let chunk =
            |(origin, offset)| Chunk { offset, len: 12, filter_mask: 0, origin, shape: [2, 2, 3] };
        numbered.map(|(origin, offset)| (chunk((origin, offset)), stored(origin))).collect()
    }

    #[test]
    fn frames_are_assembled_from_shared_chunks_that_are_read_once() {
        let pipeline = Pipeline::from_hdf5(&[], PixelType::U8, false).unwrap();
        let (all, mut reads) = (chunks(), 0);
        let list: Vec<Chunk> = all.iter().map(|(chunk, _)| *chunk).collect();
        let mut assembler = Assembler::default();
        let mut digests = Vec::new();
        for row in 0..2u64 {
            let read = |chunk: &Chunk, out: &mut Vec<u8>| {
                reads += 1;
                out.clone_from(&all[(chunk.offset / 12) as usize].1);
                Ok(())
            };
            let mut frame = vec![7];
            let digest =
                assembler.assemble(&pipeline, [3, 5], (row, &list), read, &mut frame).unwrap();
            let expected: Vec<u8> =
                (0..3).flat_map(|y| (0..5).map(move |x| (100 * row + 10 * y + x) as u8)).collect();
            assert_eq!(frame, expected);
            digests.push(digest);
        }
        assert_eq!(reads, 4);
        assert_eq!(digests[0], digests[1]);
    }
    #[test]
    fn a_chunk_that_cannot_be_decoded_is_tried_once_for_all_of_its_frames() {
        let pipeline = Pipeline::from_hdf5(&[], PixelType::U8, false).unwrap();
        let (all, mut reads) = (chunks(), 0);
        let sound: Vec<Chunk> = all.iter().map(|(chunk, _)| *chunk).collect();
        let mut huge = sound.clone();
        huge[0].shape = [2, 1 << 40, 1 << 20];
        for (list, stored_bytes) in [(sound, 5), (huge, 12)] {
            let mut assembler = Assembler::default();
            let mut errors = Vec::new();
            for row in 0..2u64 {
                let read = |chunk: &Chunk, out: &mut Vec<u8>| {
                    reads += 1;
                    out.clone_from(&all[(chunk.offset / 12) as usize].1);
                    out.truncate(stored_bytes);
                    Ok(())
                };
                let mut frame = Vec::new();
                let failed = assembler.assemble(&pipeline, [3, 5], (row, &list), read, &mut frame);
                errors.push(failed.unwrap_err().to_string());
            }
            assert_eq!(errors[0], errors[1]);
        }
        assert_eq!(reads, 2);
    }
}
