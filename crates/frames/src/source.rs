//! One open source: where in it the stored bytes of each frame are, and how they are coded.
//!
//! The chunk index is read once, through the HDF5 library; after that, bytes are had by positioned
//! reads, from any number of threads and without the library's lock.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use filter::memory;
use records::Source;
use serde::{Deserialize, Serialize};

use crate::chunk_grid::{ChunkGrid, ChunkLocation, DAMAGED_INDEX};
pub use crate::coding::{Dtype, Hdf5Filter, PixelCoding};
use crate::ffi::{Hdf5Object, LibraryError, ObjectType, StorageLayout};
use crate::frame_shape::{format_shape, frame_dimensions};
use crate::hdf5_worker::{self, WorkerAnswer, WorkerFailure, WorkerRequest};
use crate::open_ahead;
use crate::page_cache::{self, is_range_cached};
use crate::{coalesced_read, image};

/// The reason of a frame whose chunks were never written, or not all of them.
pub const NOT_WRITTEN: &str = "not written";

/// Why a source can't be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The system does not let us open the file.
    #[error("{}: {why}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What the system says.
        why: io::Error,
    },
    /// The HDF5 library can't make sense of the file.
    #[error("{}: not readable as HDF5: {why}", file.display())]
    Hdf5 {
        /// The file.
        file: PathBuf,
        /// What the library says.
        why: String,
    },
    /// Nobody can say where the frames are: the library did not get on with the file.
    #[error("{}: {why}", file.display())]
    NoAnswer {
        /// The file.
        file: PathBuf,
        /// What the library did.
        why: String,
        /// Whether another time it may.
        retryable: bool,
    },
    /// The dataset is not there, or holds no frames that can be read.
    #[error("{}::{dataset}: {why}", file.display())]
    Dataset {
        /// The file.
        file: PathBuf,
        /// The dataset.
        dataset: String,
        /// What is wrong with it, and what was expected.
        why: String,
    },
    /// Not a readable image.
    #[error(transparent)]
    Image(#[from] image::ImageError),
    /// An image that is not the one that the source tells of.
    #[error("{}: {why}", file.display())]
    Mismatch {
        /// The file.
        file: PathBuf,
        /// What is wrong with it, and what was expected.
        why: String,
    },
}

/// Where the pixels of a frame are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameChunks {
    /// In one chunk that holds this frame and nothing else.
    Whole(Chunk),
    /// In several chunks, or in one that holds other frames too or overhangs the frame. Rows first.
    Pieces(Vec<Chunk>),
    /// Nowhere, and why.
    Absent(String),
    /// Nobody knows where, for the file is damaged, and how.
    Damaged(String),
}

/// A run of stored bytes, and the pixels that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Where it begins; no other chunk of the source begins there.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
    /// Bit k: filter k of the coding was left out.
    pub filter_mask: u32,
    /// First frame (row of the dataset), row and column that it holds.
    pub origin: [u64; 3],
    /// Frames, rows and columns that it holds when decoded. It may overhang the frame, and the last
    /// frame.
    pub shape: [u64; 3],
}

/// An open source.
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
    /// One run in a file, from this offset.
    Contiguous(Arc<File>, u64),
    /// Out of a dataset's header.
    Compact(Vec<u8>),
    /// An image file, each of whose images is decoded when it is asked for.
    Image(PathBuf),
    /// A dataset that has no bytes.
    Nothing,
}

impl SourceReader {
    /// Opens a source whose frames have `image_shape` (rows, columns).
    ///
    /// # Errors
    /// The file or the dataset is not there or can't be read, or its frames are not of that shape.
    pub fn open(source: &Source, shape: [u64; 2]) -> Result<Self, SourceError> {
        Self::open_expecting(source, Some(shape))
    }

    /// Opens a source whose frames may have any shape, which [`shape`](Self::shape) then says.
    ///
    /// # Errors
    /// The file or the dataset is not there or can't be read, or holds no frames.
    pub fn open_any(source: &Source) -> Result<Self, SourceError> {
        Self::open_expecting(source, None)
    }

    fn open_expecting(source: &Source, shape: Option<[u64; 2]>) -> Result<Self, SourceError> {
        match source.dataset.as_str() {
            "" => Self::open_image(&source.file, shape),
            dataset => Self::open_hdf5(&source.file, dataset, shape),
        }
    }

    /// Returns the rows and columns of its frames.
    pub fn shape(&self) -> [u64; 2] {
        self.shape
    }

    /// How the chunks are coded.
    pub fn coding(&self) -> &PixelCoding {
        &self.coding
    }

    /// Whether it is an image whose format has a checksum, and that has none: damaged pixels can't be told from others.
    pub fn lacks_checksum(&self) -> bool {
        self.lacks_checksum
    }

    /// How many frames it has.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Where the frame in this row of the dataset is.
    pub fn frame_chunks(&self, row: u64) -> FrameChunks {
        if row >= self.frames {
            return FrameChunks::Absent(format!("no frame {row}: the file has {}", self.frames));
        }
        let len = self.frame_bytes();
        let whole = |offset| {
            let shape = [1, self.shape[0], self.shape[1]];
            FrameChunks::Whole(Chunk { offset, len, filter_mask: 0, origin: [row, 0, 0], shape })
        };
        match &self.bytes {
            SourceData::Chunks(_, grid) => self.frame_chunks_in(grid, row),
            // No file reaches as far as where these saturate, and so none has the frame's bytes.
            SourceData::Contiguous(_, offset) => whole(offset.saturating_add(row.saturating_mul(len))),
            SourceData::Compact(_) | SourceData::Image(_) => whole(row.saturating_mul(len)),
            SourceData::Nothing => FrameChunks::Absent(NOT_WRITTEN.to_owned()),
        }
    }

    /// Whether a chunk can be read without waiting for the disk, as far as can be told. An image file that is not at hand
    /// is first brought into the system's cache: its frames are decoded as they are read.
    pub fn is_cached(&self, chunk: &Chunk) -> bool {
        match &self.bytes {
            SourceData::Chunks(file, _) | SourceData::Contiguous(file, _) => {
                is_range_cached(file, chunk.offset, chunk.len)
            }
            SourceData::Image(path) => {
                // Why it can't be is said when the frame is read.
                let _ = page_cache::load_into_cache(path);
                true
            }
            SourceData::Compact(_) | SourceData::Nothing => true,
        }
    }

    /// Fills a buffer for each of these chunks, which rise by their offset: those that lie beside each other are read in one
    /// go. Asks before each if it is to `go_on`. A chunk that was not read has `None`.
    ///
    /// # Errors
    /// Of a chunk, as [`read_chunk`](Self::read).
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
                // Whichever of them it was, the others are read.
                Err(_) => all.extend(
                    run.iter()
                        .zip(buffers)
                        .map(|(chunk, mut bytes)| Some(self.read_chunk(chunk, &mut bytes).map(|()| bytes))),
                ),
            }
        }
        all
    }

    fn read_adjacent(&self, run: &[Chunk], buffers: &mut [Vec<u8>]) -> io::Result<()> {
        let (SourceData::Chunks(file, _) | SourceData::Contiguous(file, _), [_, .., last]) = (&self.bytes, run) else {
            return run.iter().zip(buffers).try_for_each(|(chunk, bytes)| self.read_chunk(chunk, bytes));
        };
        check_chunk_in_file(file, last)?;
        run.iter().zip(&mut *buffers).try_for_each(|(chunk, bytes)| reserve_chunk(bytes, chunk))?;
        coalesced_read::read_adjacent(file, run, buffers)
    }

    /// Fills `bytes` with the stored bytes of a chunk.
    ///
    /// # Errors
    /// The file does not have them (any more), or they are of an image that can't be decoded.
    pub fn read_chunk(&self, chunk: &Chunk, bytes: &mut Vec<u8>) -> io::Result<()> {
        match &self.bytes {
            SourceData::Chunks(file, _) | SourceData::Contiguous(file, _) => {
                check_chunk_in_file(file, chunk)?;
                reserve_chunk(bytes, chunk)?;
                file.read_exact_at(bytes, chunk.offset)
            }
            SourceData::Compact(all) => {
                bytes.clear();
                let run = all.get(chunk.offset as usize..chunk.offset.saturating_add(chunk.len) as usize);
                bytes.extend_from_slice(run.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?);
                Ok(())
            }
            SourceData::Image(path) => {
                // The stored bytes, the pixels, and these as bytes.
                memory::check_available(chunk.len.saturating_mul(3))?;
                let image = image::read_frame(path, chunk.origin[0] as usize).map_err(into_io_error)?;
                *bytes = image.pixels.to_ne_bytes();
                let fits = image.pixels.dtype() == self.coding.dtype && bytes.len() as u64 == chunk.len;
                if fits { Ok(()) } else { Err(io::Error::other("an image of another shape or type than the first")) }
            }
            SourceData::Nothing => Err(io::Error::other(NOT_WRITTEN)),
        }
    }

    fn frame_bytes(&self) -> u64 {
        self.coding.dtype.frame_bytes(self.shape)
    }

    fn frame_chunks_in(&self, grid: &ChunkGrid, row: u64) -> FrameChunks {
        if grid.is_damaged(row) {
            return FrameChunks::Damaged(format!("{DAMAGED_INDEX}: its entries for this frame contradict others"));
        }
        if !grid.is_written(row) {
            return FrameChunks::Absent(NOT_WRITTEN.to_owned());
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
        let not_that = |why| SourceError::Mismatch { file: path.to_owned(), why };
        let shape = header.shape.map(|extent| extent as u64);
        check_shape(shape, expected).map_err(not_that)?;
        let coding = PixelCoding::native_dtype(header.kind).map_err(not_that)?;
        let (frames, bytes) = (header.frames as u64, SourceData::Image(path.to_owned()));
        Ok(Self { coding, frames, shape, bytes, lacks_checksum: header.is_unverified })
    }

    fn open_hdf5(path: &Path, dataset: &str, expected: Option<[u64; 2]>) -> Result<Self, SourceError> {
        // The system's word on why a file can't be had is clearer than the library's.
        let file = open_ahead::open(path).map_err(|why| SourceError::Io { file: path.to_owned(), why })?;
        let SourceIndex { coding, frames, shape, stored } = Self::read_index(path, dataset, expected)?;
        let bytes = match stored {
            StoredLocation::Chunks(grid) => SourceData::Chunks(file, grid),
            StoredLocation::Contiguous(offset) => SourceData::Contiguous(file, offset),
            StoredLocation::Compact(bytes) => SourceData::Compact(bytes),
            StoredLocation::Nothing => SourceData::Nothing,
        };
        Ok(Self { coding, frames, shape, bytes, lacks_checksum: false })
    }

    /// Where the bytes of a dataset are; by a worker, where workers read.
    fn read_index(path: &Path, dataset: &str, shape: Option<[u64; 2]>) -> Result<SourceIndex, SourceError> {
        let Some(client) = hdf5_worker::client() else { return Self::read_index_in_process(path, dataset, shape) };
        let no_answer = |why: String, retryable| SourceError::NoAnswer { file: path.to_owned(), why, retryable };
        let request = WorkerRequest::Index { file: path.into(), dataset: dataset.to_owned(), shape };
        match client.request(&request) {
            Ok(Ok((WorkerAnswer::Index(index), bulk))) => Ok(index.with_bytes(&bulk)),
            Ok(Ok(_)) => Err(no_answer("an answer to another question".to_owned(), false)),
            Ok(Err(failure)) => Err(failure.into_store_error(path)),
            Err(why) => Err(no_answer(why.to_string(), why.is_retryable())),
        }
    }

    /// Where the bytes of a dataset are, as the library says in this process.
    pub(crate) fn read_index_in_process(
        path: &Path,
        dataset: &str,
        shape: Option<[u64; 2]>,
    ) -> Result<SourceIndex, SourceError> {
        let io = |why| SourceError::Io { file: path.to_owned(), why };
        let failed = |flaw: LibraryError, wrong: &dyn Fn(String) -> SourceError| match flaw.into_io() {
            Ok(why) => io(why),
            Err(LibraryError { why, .. }) => wrong(why),
        };
        let not_hdf5 = |why| SourceError::Hdf5 { file: path.to_owned(), why };
        let wrong = |why| SourceError::Dataset { file: path.to_owned(), dataset: dataset.to_owned(), why };
        let opened = Hdf5Object::open_file(path).map_err(|flaw| failed(flaw, &not_hdf5))?;
        let object = opened.open(dataset).map_err(|flaw| failed(flaw, &|_| wrong("no such dataset".to_owned())))?;
        if object.object_type() != ObjectType::Dataset {
            return Err(wrong("not a dataset".to_owned()));
        }
        SourceIndex::read(&object, shape).map_err(|flaw| failed(flaw, &wrong))
    }
}

/// Where the bytes of a dataset are, and how they are coded: what the library is needed for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SourceIndex {
    coding: PixelCoding,
    frames: u64,
    shape: [u64; 2],
    stored: StoredLocation,
}

/// Where the bytes of a dataset are in its file.
#[derive(Debug, Serialize, Deserialize)]
enum StoredLocation {
    Chunks(ChunkGrid),
    /// In one run from this offset.
    Contiguous(u64),
    /// In the dataset's header.
    Compact(Vec<u8>),
    Nothing,
}

impl SourceIndex {
    /// Takes out what is sent as bytes.
    pub(crate) fn take_bytes(&mut self) -> Vec<u8> {
        match &mut self.stored {
            StoredLocation::Chunks(grid) => grid.take_bytes(),
            _ => Vec::new(),
        }
    }

    fn with_bytes(mut self, bulk: &[u8]) -> Self {
        if let StoredLocation::Chunks(grid) = &mut self.stored {
            grid.restore_bytes(bulk);
        }
        self
    }

    fn read(object: &Hdf5Object, expected: Option<[u64; 2]>) -> Result<Self, LibraryError> {
        let extents = object.shape()?;
        let [frames, rows, columns] = frame_dimensions(&extents).map_err(LibraryError::new)?;
        let shape = [rows, columns];
        check_shape(shape, expected).map_err(LibraryError::new)?;
        let pixel = object.element_type()?;
        let (stored, filters) = match object.storage_layout()? {
            StorageLayout::Compact => (StoredLocation::Compact(object.read_raw_elements()?), Vec::new()),
            StorageLayout::Contiguous(None) => (StoredLocation::Nothing, Vec::new()),
            StorageLayout::Contiguous(Some(offset)) => (StoredLocation::Contiguous(offset), Vec::new()),
            StorageLayout::Chunked(chunk, filters) => {
                (StoredLocation::Chunks(ChunkGrid::read(object, &extents, &chunk)?), filters)
            }
            StorageLayout::External(_) => return Err(LibraryError::new("stored in other files: name those")),
            StorageLayout::Virtual(_) => {
                return Err(LibraryError::new("virtual: name the datasets that it is made of"));
            }
        };
        Ok(Self { coding: PixelCoding::new(pixel, filters).map_err(LibraryError::new)?, frames, shape, stored })
    }
}

impl From<SourceError> for WorkerFailure {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Io { why, .. } => Self::from_io(&why),
            SourceError::Dataset { dataset, why, .. } => Self::Dataset { dataset, why },
            SourceError::Hdf5 { why, .. } => Self::Hdf5(why),
            other => Self::Hdf5(other.to_string()),
        }
    }
}

impl WorkerFailure {
    fn into_store_error(self, file: &Path) -> SourceError {
        let file = file.to_owned();
        match self {
            Self::Io { errno, why } => SourceError::Io { file, why: Self::to_io(errno, why) },
            Self::Hdf5(why) => SourceError::Hdf5 { file, why },
            Self::Dataset { dataset, why } => SourceError::Dataset { file, dataset, why },
        }
    }
}

/// Checks that frames have the shape that is expected, where one is.
fn check_shape(found: [u64; 2], expected: Option<[u64; 2]>) -> Result<(), String> {
    match expected {
        Some(expected) if expected != found => {
            Err(format!("frames of {}: expected {}", format_shape(&found), format_shape(&expected)))
        }
        _ => Ok(()),
    }
}

/// The system's own error where it is what failed, which is no fault of the image.
fn into_io_error(error: image::ImageError) -> io::Error {
    match error {
        image::ImageError::Io { why, .. } => why,
        other => io::Error::other(other),
    }
}

/// Makes a buffer as long as a chunk's stored bytes. What it held is not cleared first: all of it is overwritten.
fn reserve_chunk(bytes: &mut Vec<u8>, chunk: &Chunk) -> io::Result<()> {
    let len = usize::try_from(chunk.len).map_err(|_| io::ErrorKind::OutOfMemory)?;
    memory::reserve(bytes, len)?;
    bytes.resize(len, 0);
    Ok(())
}

/// A damaged index may tell of more bytes than there are: no memory is taken for those.
fn check_chunk_in_file(file: &File, chunk: &Chunk) -> io::Result<()> {
    let end = chunk.offset.checked_add(chunk.len).ok_or(io::ErrorKind::UnexpectedEof)?;
    if file.metadata()?.len() < end {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends within the frame"));
    }
    Ok(())
}
