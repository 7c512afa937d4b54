//! Opens a [`Source`], locates the stored chunks of each frame, and reads them without the HDF5
//! library's lock.
//!
//! The chunk index is read once through the HDF5 library. After that, chunks are read with
//! positioned reads, from any number of threads.

mod error;
mod index;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use records::{Source, format_count};
use system::memory;

pub use crate::chunk::{Chunk, FrameChunks, NOT_WRITTEN};
use crate::chunk_grid::{ChunkGrid, ChunkLocation, DAMAGED_INDEX};
pub use crate::coding::{Dtype, Hdf5Filter, PixelCoding};
use crate::frame_shape::check_shape;
use crate::open_ahead;
use crate::page_cache::{self, is_range_cached};
use crate::{coalesced_read, image};
pub use error::SourceError;
pub(crate) use index::IndexRequest;
use index::{SourceIndex, StoredLocation};

/// An open source, which any number of threads may read.
#[derive(Debug)]
pub struct SourceReader {
    coding: PixelCoding,
    frames: u64,
    shape: [u64; 2],
    bytes: SourceData,
    lacks_checksum: bool,
}

#[derive(Debug)]
enum SourceData {
    /// Chunks of a file.
    Chunks(Arc<File>, ChunkGrid),
    /// Contiguous frames in a file, from this offset on.
    Contiguous(Arc<File>, u64),
    /// Contents of a compact dataset, from the object header.
    Compact(Vec<u8>),
    /// An image file, whose images are decoded when they are read.
    Image(PathBuf),
    /// A dataset without stored bytes.
    Nothing,
}

impl SourceReader {
    /// Opens a source whose frames have the given `shape` (rows, columns).
    ///
    /// # Errors
    /// The file or the dataset doesn't exist or can't be read, or its frames have another shape.
    pub fn open(source: &Source, shape: [u64; 2]) -> Result<Self, SourceError> {
        Self::open_expecting(source, Some(shape))
    }

    /// Opens a source whose frames may have any shape, which [`shape`](Self::shape) returns.
    ///
    /// # Errors
    /// The file or the dataset doesn't exist or can't be read, or holds no frames.
    pub fn open_any(source: &Source) -> Result<Self, SourceError> {
        Self::open_expecting(source, None)
    }

    fn open_expecting(source: &Source, shape: Option<[u64; 2]>) -> Result<Self, SourceError> {
        match source.dataset.as_str() {
            "" => Self::open_image(&source.file, shape),
            dataset => Self::open_hdf5(&source.file, dataset, shape),
        }
    }

    /// Returns the rows and columns of the frames.
    pub fn shape(&self) -> [u64; 2] {
        self.shape
    }

    /// Returns the coding of the chunks.
    pub fn coding(&self) -> &PixelCoding {
        &self.coding
    }

    /// Returns whether the source is an image without the checksum that its format supports, so
    /// that damaged pixels can't be detected.
    pub fn lacks_checksum(&self) -> bool {
        self.lacks_checksum
    }

    /// Returns the number of frames.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Returns the chunks of the frame in this row of the dataset.
    pub fn frame_chunks(&self, row: u64) -> FrameChunks {
        if row >= self.frames {
            return FrameChunks::NoData(format!(
                "no row {row}: {} in the file",
                format_count(self.frames, "row")
            ));
        }
        let len = self.frame_bytes();
        let whole = |offset| {
            let shape = [1, self.shape[0], self.shape[1]];
            FrameChunks::Whole(Chunk { offset, len, filter_mask: 0, origin: [row, 0, 0], shape })
        };
        match &self.bytes {
            SourceData::Chunks(_, grid) => self.frame_chunks_in(grid, row),
            // A saturated offset is beyond the end of any file, so reading there fails.
            SourceData::Contiguous(_, offset) => {
                whole(offset.saturating_add(row.saturating_mul(len)))
            }
            SourceData::Compact(_) | SourceData::Image(_) => whole(row.saturating_mul(len)),
            SourceData::Nothing => FrameChunks::NoData(NOT_WRITTEN.to_owned()),
        }
    }

    /// Returns whether a chunk can probably be read without waiting for storage. Reads an image
    /// file whole, which loads it into the page cache, because its frames are decoded while they
    /// are read; the answer is then true.
    pub fn is_cached(&self, chunk: &Chunk) -> bool {
        match &self.bytes {
            SourceData::Chunks(file, _) | SourceData::Contiguous(file, _) => {
                is_range_cached(file, chunk.offset, chunk.len)
            }
            SourceData::Image(path) => {
                // A failure is reported when the frame is read.
                let _ = page_cache::load_into_cache(path);
                true
            }
            SourceData::Compact(_) | SourceData::Nothing => true,
        }
    }

    /// Reads chunks, which are in ascending order of offset, each into a buffer from `buffer`.
    /// Neighbouring chunks are read together. Calls `go_on` before each read, and returns `None`
    /// for all chunks that were not read because it returned `false`. Each chunk has its own error,
    /// as in [`read_chunk`](Self::read_chunk).
    pub fn read_chunks(
        &self,
        chunks: &[Chunk],
        mut buffer: impl FnMut() -> Vec<u8>,
        mut go_on: impl FnMut() -> bool,
    ) -> Vec<Option<io::Result<Vec<u8>>>> {
        let mut all = Vec::with_capacity(chunks.len());
        for run in coalesced_read::group_adjacent(chunks) {
            if !go_on() {
                all.extend(run.iter().map(|_| None));
                continue;
            }
            let mut buffers: Vec<Vec<u8>> = run.iter().map(|_| buffer()).collect();
            match self.read_adjacent(run, &mut buffers) {
                Ok(()) => all.extend(buffers.into_iter().map(|bytes| Some(Ok(bytes)))),
                // One of the chunks can't be read; read them one by one, so that the others are not
                // lost.
                Err(_) => all.extend(run.iter().zip(buffers).map(|(chunk, mut bytes)| {
                    Some(self.read_chunk(chunk, &mut bytes).map(|()| bytes))
                })),
            }
        }
        all
    }

    fn read_adjacent(&self, run: &[Chunk], buffers: &mut [Vec<u8>]) -> io::Result<()> {
        let (SourceData::Chunks(file, _) | SourceData::Contiguous(file, _), [_, .., last]) =
            (&self.bytes, run)
        else {
            return run
                .iter()
                .zip(buffers)
                .try_for_each(|(chunk, bytes)| self.read_chunk(chunk, bytes));
        };
        check_chunk_in_file(file, last)?;
        run.iter().zip(&mut *buffers).try_for_each(|(chunk, bytes)| reserve_chunk(bytes, chunk))?;
        coalesced_read::read_adjacent(file, run, buffers)
    }

    /// Reads the stored bytes of a chunk into `bytes`.
    ///
    /// # Errors
    /// The file doesn't contain them (any more), or they belong to an image that can't be decoded.
    pub fn read_chunk(&self, chunk: &Chunk, bytes: &mut Vec<u8>) -> io::Result<()> {
        match &self.bytes {
            SourceData::Chunks(file, _) | SourceData::Contiguous(file, _) => {
                check_chunk_in_file(file, chunk)?;
                reserve_chunk(bytes, chunk)?;
                file.read_exact_at(bytes, chunk.offset)
            }
            SourceData::Compact(all) => {
                bytes.clear();
                let run =
                    all.get(chunk.offset as usize..chunk.offset.saturating_add(chunk.len) as usize);
                bytes.extend_from_slice(
                    run.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?,
                );
                Ok(())
            }
            SourceData::Image(path) => {
                // The stored bytes, the pixels, and the pixels as bytes.
                memory::check_available(chunk.len.saturating_mul(3))?;
                let image =
                    image::read_frame(path, chunk.origin[0] as usize).map_err(into_io_error)?;
                *bytes = image.pixels.to_ne_bytes();
                let fits =
                    image.pixels.dtype() == self.coding.dtype && bytes.len() as u64 == chunk.len;
                if fits {
                    Ok(())
                } else {
                    Err(io::Error::other(
                        "another shape or pixel type than the first image of the file",
                    ))
                }
            }
            SourceData::Nothing => Err(io::Error::other(NOT_WRITTEN)),
        }
    }

    fn frame_bytes(&self) -> u64 {
        self.coding.dtype.frame_bytes(self.shape)
    }

    fn frame_chunks_in(&self, grid: &ChunkGrid, row: u64) -> FrameChunks {
        if grid.is_damaged(row) {
            return FrameChunks::Damaged(format!(
                "{DAMAGED_INDEX}: the entries of this frame repeat or overlap others"
            ));
        }
        if !grid.is_written(row) {
            return FrameChunks::NoData(NOT_WRITTEN.to_owned());
        }
        let chunk = |(origin, place): ([u64; 3], ChunkLocation)| Chunk {
            offset: place.offset,
            len: place.bytes,
            filter_mask: place.filter_mask,
            origin,
            shape: grid.chunk_shape(),
        };
        let chunks: Vec<Chunk> = grid.frame_chunks(row).map(chunk).collect();
        match chunks[..] {
            [one] if one.shape == [1, self.shape[0], self.shape[1]] => FrameChunks::Whole(one),
            _ => FrameChunks::Pieces(chunks),
        }
    }

    fn open_image(path: &Path, expected: Option<[u64; 2]>) -> Result<Self, SourceError> {
        let header = image::probe(path)?;
        let mismatch = |why: String| SourceError::Mismatch { file: path.to_owned(), why };
        let shape = header.shape.map(|extent| extent as u64);
        check_shape(shape, expected).map_err(|why| mismatch(why.to_string()))?;
        // Frames of other types are refused where they are found; a mask may have any.
        let coding = PixelCoding::of_image(header.kind);
        let (frames, bytes) = (header.frames as u64, SourceData::Image(path.to_owned()));
        Ok(Self { coding, frames, shape, bytes, lacks_checksum: header.is_unverified })
    }

    fn open_hdf5(
        path: &Path,
        dataset: &str,
        expected: Option<[u64; 2]>,
    ) -> Result<Self, SourceError> {
        // The system's error for an unreadable file is clearer than the library's.
        let file =
            open_ahead::open(path).map_err(|why| SourceError::Io { file: path.to_owned(), why })?;
        let SourceIndex { coding, frames, shape, stored } =
            SourceIndex::open(path, dataset, expected)?;
        let bytes = match stored {
            StoredLocation::Chunks(grid) => SourceData::Chunks(file, grid),
            StoredLocation::Contiguous(offset) => SourceData::Contiguous(file, offset),
            StoredLocation::Compact(bytes) => SourceData::Compact(bytes),
            StoredLocation::Nothing => SourceData::Nothing,
        };
        Ok(Self { coding, frames, shape, bytes, lacks_checksum: false })
    }
}

/// Converts an image error to an I/O error, and keeps the system's own error if a system call
/// failed.
fn into_io_error(error: image::ImageError) -> io::Error {
    match error {
        image::ImageError::Io { why, .. } => why,
        other => io::Error::other(other),
    }
}

/// Resizes a buffer to the length of a chunk's stored bytes. Old contents are not cleared, because
/// all of them are overwritten.
fn reserve_chunk(bytes: &mut Vec<u8>, chunk: &Chunk) -> io::Result<()> {
    let len = usize::try_from(chunk.len).map_err(|_| io::ErrorKind::OutOfMemory)?;
    memory::reserve(bytes, len)?;
    bytes.resize(len, 0);
    Ok(())
}

/// Returns an error if a chunk extends beyond the end of its file. A damaged index may claim any
/// length, for which no memory must be allocated.
fn check_chunk_in_file(file: &File, chunk: &Chunk) -> io::Result<()> {
    let end = chunk.offset.checked_add(chunk.len).ok_or(io::ErrorKind::UnexpectedEof)?;
    if file.metadata()?.len() < end {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends within the frame"));
    }
    Ok(())
}
