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

use crate::cached::{self, is_cached};
pub use crate::coding::{Coding, HdfFilter, PixelKind};
use crate::ffi::{Flaw, Kind, Layout, Object};
use crate::grid::{DAMAGED_INDEX, Grid, Place};
use crate::prefetch;
use crate::stack::{dimensions, shown};
use crate::worker::{self, Answer, Failure, Request};
use crate::{image, run};

/// The reason of a frame whose chunks were never written, or not all of them.
pub const NOT_WRITTEN: &str = "not written";

/// Why a source can't be read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
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
    NotThat {
        /// The file.
        file: PathBuf,
        /// What is wrong with it, and what was expected.
        why: String,
    },
}

/// Where the pixels of a frame are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
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
pub struct Store {
    coding: Coding,
    frames: u64,
    shape: [u64; 2],
    bytes: Bytes,
    lacks_checksum: bool,
}

#[derive(Debug)]
enum Bytes {
    /// Chunks of a file.
    Chunks(Arc<File>, Grid),
    /// One run in a file, from this offset.
    Run(Arc<File>, u64),
    /// Out of a dataset's header.
    Memory(Vec<u8>),
    /// An image file, each of whose images is decoded when it is asked for.
    Image(PathBuf),
    /// A dataset that has no bytes.
    Nothing,
}

impl Store {
    /// Opens a source whose frames have `shape` (rows, columns).
    ///
    /// # Errors
    /// The file or the dataset is not there or can't be read, or its frames are not of that shape.
    pub fn open(source: &Source, shape: [u64; 2]) -> Result<Self, StoreError> {
        Self::open_expecting(source, Some(shape))
    }

    /// Opens a source whose frames may have any shape, which [`shape`](Self::shape) then says.
    ///
    /// # Errors
    /// The file or the dataset is not there or can't be read, or holds no frames.
    pub fn open_any(source: &Source) -> Result<Self, StoreError> {
        Self::open_expecting(source, None)
    }

    fn open_expecting(source: &Source, shape: Option<[u64; 2]>) -> Result<Self, StoreError> {
        match source.dataset.as_str() {
            "" => Self::image(&source.file, shape),
            dataset => Self::hdf5(&source.file, dataset, shape),
        }
    }

    /// Returns the rows and columns of its frames.
    pub fn shape(&self) -> [u64; 2] {
        self.shape
    }

    /// How the chunks are coded.
    pub fn coding(&self) -> &Coding {
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
    pub fn chunks_of(&self, row: u64) -> Row {
        if row >= self.frames {
            return Row::Absent(format!("no frame {row}: the file has {}", self.frames));
        }
        let len = self.frame_bytes();
        let whole = |offset| {
            let shape = [1, self.shape[0], self.shape[1]];
            Row::Whole(Chunk { offset, len, filter_mask: 0, origin: [row, 0, 0], shape })
        };
        match &self.bytes {
            Bytes::Chunks(_, grid) => self.row_of(grid, row),
            // No file reaches as far as where these saturate, and so none has the frame's bytes.
            Bytes::Run(_, offset) => whole(offset.saturating_add(row.saturating_mul(len))),
            Bytes::Memory(_) | Bytes::Image(_) => whole(row.saturating_mul(len)),
            Bytes::Nothing => Row::Absent(NOT_WRITTEN.to_owned()),
        }
    }

    /// Whether a chunk can be read without waiting for the disk, as far as can be told. An image file that is not at hand
    /// is first brought into the system's cache: its frames are decoded as they are read.
    pub fn is_at_hand(&self, chunk: &Chunk) -> bool {
        match &self.bytes {
            Bytes::Chunks(file, _) | Bytes::Run(file, _) => is_cached(file, chunk.offset, chunk.len),
            Bytes::Image(path) => {
                // Why it can't be is said when the frame is read.
                let _ = cached::bring(path);
                true
            }
            Bytes::Memory(_) | Bytes::Nothing => true,
        }
    }

    /// Fills a buffer for each of these chunks, which rise by their offset: those that lie beside each other are read in one
    /// go. Asks before each if it is to `go_on`. A chunk that was not read has `None`.
    ///
    /// # Errors
    /// Of a chunk, as [`read`](Self::read).
    pub fn read_all(
        &self,
        chunks: &[Chunk],
        mut buffer: impl FnMut() -> Vec<u8>,
        mut go_on: impl FnMut() -> bool,
    ) -> Vec<Option<io::Result<Vec<u8>>>> {
        let mut all = Vec::with_capacity(chunks.len());
        for run in run::runs(chunks) {
            if !go_on() {
                all.extend(run.iter().map(|_| None));
                continue;
            }
            let mut buffers: Vec<Vec<u8>> = run.iter().map(|_| buffer()).collect();
            match self.read_run(run, &mut buffers) {
                Ok(()) => all.extend(buffers.into_iter().map(|bytes| Some(Ok(bytes)))),
                // Whichever of them it was, the others are read.
                Err(_) => all.extend(
                    run.iter()
                        .zip(buffers)
                        .map(|(chunk, mut bytes)| Some(self.read(chunk, &mut bytes).map(|()| bytes))),
                ),
            }
        }
        all
    }

    fn read_run(&self, run: &[Chunk], buffers: &mut [Vec<u8>]) -> io::Result<()> {
        let (Bytes::Chunks(file, _) | Bytes::Run(file, _), [_, .., last]) = (&self.bytes, run) else {
            return run.iter().zip(buffers).try_for_each(|(chunk, bytes)| self.read(chunk, bytes));
        };
        check_end(file, last)?;
        run.iter().zip(&mut *buffers).try_for_each(|(chunk, bytes)| make_room(bytes, chunk))?;
        run::read(file, run, buffers)
    }

    /// Fills `bytes` with the stored bytes of a chunk.
    ///
    /// # Errors
    /// The file does not have them (any more), or they are of an image that can't be decoded.
    pub fn read(&self, chunk: &Chunk, bytes: &mut Vec<u8>) -> io::Result<()> {
        match &self.bytes {
            Bytes::Chunks(file, _) | Bytes::Run(file, _) => {
                check_end(file, chunk)?;
                make_room(bytes, chunk)?;
                file.read_exact_at(bytes, chunk.offset)
            }
            Bytes::Memory(all) => {
                bytes.clear();
                let run = all.get(chunk.offset as usize..chunk.offset.saturating_add(chunk.len) as usize);
                bytes.extend_from_slice(run.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?);
                Ok(())
            }
            Bytes::Image(path) => {
                // The stored bytes, the pixels, and these as bytes.
                memory::check(chunk.len.saturating_mul(3))?;
                let image = image::read_frame(path, chunk.origin[0] as usize).map_err(by_system)?;
                *bytes = image.pixels.to_ne_bytes();
                let fits = image.pixels.kind() == self.coding.dtype && bytes.len() as u64 == chunk.len;
                if fits { Ok(()) } else { Err(io::Error::other("an image of another shape or type than the first")) }
            }
            Bytes::Nothing => Err(io::Error::other(NOT_WRITTEN)),
        }
    }

    fn frame_bytes(&self) -> u64 {
        self.coding.dtype.frame_bytes(self.shape)
    }

    fn row_of(&self, grid: &Grid, row: u64) -> Row {
        if grid.is_damaged(row) {
            return Row::Damaged(format!("{DAMAGED_INDEX}: its entries for this frame contradict others"));
        }
        if !grid.is_written(row) {
            return Row::Absent(NOT_WRITTEN.to_owned());
        }
        let chunk = |(origin, place): ([u64; 3], Place)| Chunk {
            offset: place.offset,
            len: place.bytes,
            filter_mask: place.filter_mask,
            origin,
            shape: grid.chunk_shape(),
        };
        let chunks: Vec<Chunk> = grid.of_frame(row).map(chunk).collect();
        match chunks[..] {
            [one] if one.shape == [1, self.shape[0], self.shape[1]] => Row::Whole(one),
            _ => Row::Pieces(chunks),
        }
    }

    fn image(path: &Path, expected: Option<[u64; 2]>) -> Result<Self, StoreError> {
        let header = image::probe(path)?;
        let not_that = |why| StoreError::NotThat { file: path.to_owned(), why };
        let shape = header.shape.map(|extent| extent as u64);
        check_shape(shape, expected).map_err(not_that)?;
        let coding = Coding::native(header.kind).map_err(not_that)?;
        let (frames, bytes) = (header.frames as u64, Bytes::Image(path.to_owned()));
        Ok(Self { coding, frames, shape, bytes, lacks_checksum: header.lacks_checksum })
    }

    fn hdf5(path: &Path, dataset: &str, expected: Option<[u64; 2]>) -> Result<Self, StoreError> {
        // The system's word on why a file can't be had is clearer than the library's.
        let file = prefetch::open(path).map_err(|why| StoreError::Io { file: path.to_owned(), why })?;
        let Index { coding, frames, shape, stored } = Self::index(path, dataset, expected)?;
        let bytes = match stored {
            Stored::Chunks(grid) => Bytes::Chunks(file, grid),
            Stored::Run(offset) => Bytes::Run(file, offset),
            Stored::Header(bytes) => Bytes::Memory(bytes),
            Stored::Nothing => Bytes::Nothing,
        };
        Ok(Self { coding, frames, shape, bytes, lacks_checksum: false })
    }

    /// Where the bytes of a dataset are; by a worker, where workers read.
    fn index(path: &Path, dataset: &str, shape: Option<[u64; 2]>) -> Result<Index, StoreError> {
        let Some(client) = worker::running() else { return Self::index_here(path, dataset, shape) };
        let no_answer = |why: String, retryable| StoreError::NoAnswer { file: path.to_owned(), why, retryable };
        let request = Request::Index { file: path.into(), dataset: dataset.to_owned(), shape };
        match client.request(&request) {
            Ok(Ok((Answer::Index(index), bulk))) => Ok(index.with_bulk(&bulk)),
            Ok(Ok(_)) => Err(no_answer("an answer to another question".to_owned(), false)),
            Ok(Err(failure)) => Err(failure.into_store_error(path)),
            Err(why) => Err(no_answer(why.to_string(), why.is_retryable())),
        }
    }

    /// Where the bytes of a dataset are, as the library says in this process.
    pub(crate) fn index_here(path: &Path, dataset: &str, shape: Option<[u64; 2]>) -> Result<Index, StoreError> {
        let io = |why| StoreError::Io { file: path.to_owned(), why };
        let failed = |flaw: Flaw, wrong: &dyn Fn(String) -> StoreError| match flaw.into_io() {
            Ok(why) => io(why),
            Err(Flaw { why, .. }) => wrong(why),
        };
        let not_hdf5 = |why| StoreError::Hdf5 { file: path.to_owned(), why };
        let wrong = |why| StoreError::Dataset { file: path.to_owned(), dataset: dataset.to_owned(), why };
        let opened = Object::open_file(path).map_err(|flaw| failed(flaw, &not_hdf5))?;
        let object = opened.open(dataset).map_err(|flaw| failed(flaw, &|_| wrong("no such dataset".to_owned())))?;
        if object.kind() != Kind::Dataset {
            return Err(wrong("not a dataset".to_owned()));
        }
        Index::read(&object, shape).map_err(|flaw| failed(flaw, &wrong))
    }
}

/// Where the bytes of a dataset are, and how they are coded: what the library is needed for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Index {
    coding: Coding,
    frames: u64,
    shape: [u64; 2],
    stored: Stored,
}

/// Where the bytes of a dataset are in its file.
#[derive(Debug, Serialize, Deserialize)]
enum Stored {
    Chunks(Grid),
    /// In one run from this offset.
    Run(u64),
    /// In the dataset's header.
    Header(Vec<u8>),
    Nothing,
}

impl Index {
    /// Takes out what is sent as bytes.
    pub(crate) fn take_bulk(&mut self) -> Vec<u8> {
        match &mut self.stored {
            Stored::Chunks(grid) => grid.take_bulk(),
            _ => Vec::new(),
        }
    }

    fn with_bulk(mut self, bulk: &[u8]) -> Self {
        if let Stored::Chunks(grid) = &mut self.stored {
            grid.put_bulk(bulk);
        }
        self
    }

    fn read(object: &Object, expected: Option<[u64; 2]>) -> Result<Self, Flaw> {
        let extents = object.extents()?;
        let [frames, rows, columns] = dimensions(&extents).map_err(Flaw::new)?;
        let shape = [rows, columns];
        check_shape(shape, expected).map_err(Flaw::new)?;
        let pixel = object.pixel_type()?;
        let (stored, filters) = match object.layout()? {
            Layout::Compact => (Stored::Header(object.stored_elements()?), Vec::new()),
            Layout::Contiguous(None) => (Stored::Nothing, Vec::new()),
            Layout::Contiguous(Some(offset)) => (Stored::Run(offset), Vec::new()),
            Layout::Chunked(chunk, filters) => (Stored::Chunks(Grid::read(object, &extents, &chunk)?), filters),
            Layout::External(_) => return Err(Flaw::new("stored in other files: name those")),
            Layout::Virtual(_) => return Err(Flaw::new("virtual: name the datasets that it is made of")),
        };
        Ok(Self { coding: Coding::new(pixel, filters).map_err(Flaw::new)?, frames, shape, stored })
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Io { why, .. } => Self::from_io(&why),
            StoreError::Dataset { dataset, why, .. } => Self::Dataset { dataset, why },
            StoreError::Hdf5 { why, .. } => Self::Hdf5(why),
            other => Self::Hdf5(other.to_string()),
        }
    }
}

impl Failure {
    fn into_store_error(self, file: &Path) -> StoreError {
        let file = file.to_owned();
        match self {
            Self::Io { errno, why } => StoreError::Io { file, why: Self::to_io(errno, why) },
            Self::Hdf5(why) => StoreError::Hdf5 { file, why },
            Self::Dataset { dataset, why } => StoreError::Dataset { file, dataset, why },
        }
    }
}

/// Checks that frames have the shape that is expected, where one is.
fn check_shape(found: [u64; 2], expected: Option<[u64; 2]>) -> Result<(), String> {
    match expected {
        Some(expected) if expected != found => {
            Err(format!("frames of {}: expected {}", shown(&found), shown(&expected)))
        }
        _ => Ok(()),
    }
}

/// The system's own error where it is what failed, which is no fault of the image.
fn by_system(error: image::ImageError) -> io::Error {
    match error {
        image::ImageError::Io { why, .. } => why,
        other => io::Error::other(other),
    }
}

/// Makes a buffer as long as a chunk's stored bytes. What it held is not cleared first: all of it is overwritten.
fn make_room(bytes: &mut Vec<u8>, chunk: &Chunk) -> io::Result<()> {
    let len = usize::try_from(chunk.len).map_err(|_| io::ErrorKind::OutOfMemory)?;
    memory::reserve(bytes, len)?;
    bytes.resize(len, 0);
    Ok(())
}

/// A damaged index may tell of more bytes than there are: no memory is taken for those.
fn check_end(file: &File, chunk: &Chunk) -> io::Result<()> {
    let end = chunk.offset.checked_add(chunk.len).ok_or(io::ErrorKind::UnexpectedEof)?;
    if file.metadata()?.len() < end {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends within the frame"));
    }
    Ok(())
}
