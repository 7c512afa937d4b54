//! The index of a source: where its dataset's bytes are in the file, and how they are coded. Only
//! this part of a source needs the HDF5 library.

use std::path::Path;

use records::RawPath;
use serde::{Deserialize, Serialize};

use super::SourceError;
use crate::chunk_grid::ChunkGrid;
use crate::coding::{PixelCoding, PixelTypeError};
use crate::ffi::{Hdf5Object, LibraryError, ObjectType, StorageLayout};
use crate::frame_shape::{FrameShapeError, check_shape, frame_dimensions};
use crate::hdf5_worker::{self, FilterConnection, WorkerFailure, WorkerRequest};

/// Location and coding of a dataset's bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SourceIndex {
    pub(super) coding: PixelCoding,
    pub(super) frames: u64,
    pub(super) shape: [u64; 2],
    pub(super) stored: StoredLocation,
}

/// Location of a dataset's bytes in its file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum StoredLocation {
    Chunks(ChunkGrid),
    /// Contiguous, from this offset on.
    Contiguous(u64),
    /// In the object header.
    Compact(Vec<u8>),
    Nothing,
}

impl SourceIndex {
    /// Removes the chunk list from the index and returns it as bytes.
    fn take_bytes(&mut self) -> Vec<u8> {
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

    /// Opens a dataset and reads its index, in the worker process if there is one. `shape` is the
    /// expected number of rows and columns.
    ///
    /// # Errors
    /// The file or the dataset doesn't exist or can't be read, or its frames have another shape.
    pub(super) fn open(
        path: &Path,
        dataset: &str,
        shape: Option<[u64; 2]>,
    ) -> Result<Self, SourceError> {
        let Some(client) = hdf5_worker::client() else {
            return Self::open_in_process(path, dataset, shape);
        };
        let no_answer = |why: String, retryable| SourceError::NoAnswer {
            file: path.to_owned(),
            why,
            retryable,
        };
        let request = IndexRequest { file: path.into(), dataset: dataset.to_owned(), shape };
        match client.request(&request) {
            Ok(Ok((index, bulk))) => Ok(index.with_bytes(&bulk)),
            Ok(Err(failure)) => Err(failure.into_source_error(path)),
            Err(why) => Err(no_answer(why.to_string(), why.is_retryable())),
        }
    }

    /// Reads the location of a dataset's bytes by calling the HDF5 library in this process.
    fn open_in_process(
        path: &Path,
        dataset: &str,
        shape: Option<[u64; 2]>,
    ) -> Result<Self, SourceError> {
        let io = |why| SourceError::Io { file: path.to_owned(), why };
        let failed = |err: LibraryError, wrong: &dyn Fn(String) -> SourceError| match err.into_io()
        {
            Ok(why) => io(why),
            Err(LibraryError { why, .. }) => wrong(why),
        };
        let not_hdf5 = |why| SourceError::Hdf5 { file: path.to_owned(), why };
        let wrong =
            |why| SourceError::Dataset { file: path.to_owned(), dataset: dataset.to_owned(), why };
        let opened = Hdf5Object::open_file(path).map_err(|err| failed(err, &not_hdf5))?;
        let object = opened.open_existing(dataset, "dataset").map_err(|err| failed(err, &wrong))?;
        if object.object_type() != ObjectType::Dataset {
            return Err(wrong("not a dataset".to_owned()));
        }
        // The places of its bytes would be those of another file.
        let [named, holder] = [&opened, &object].map(Hdf5Object::file_name);
        let (named, holder) =
            (named.map_err(|err| failed(err, &wrong))?, holder.map_err(|err| failed(err, &wrong))?);
        if holder != named {
            return Err(wrong(format!(
                "a link to a dataset of {}: expected one of this file",
                holder.display()
            )));
        }
        Self::read(&object, shape).map_err(|err| failed(err, &wrong))
    }

    fn read(object: &Hdf5Object, expected: Option<[u64; 2]>) -> Result<Self, LibraryError> {
        let extents = object.shape()?;
        let [frames, rows, columns] = frame_dimensions(&extents)?;
        let shape = [rows, columns];
        check_shape(shape, expected)?;
        let pixel = object.element_type()?;
        let (stored, filters) = match object.storage_layout()? {
            StorageLayout::Compact => {
                (StoredLocation::Compact(object.read_raw_elements()?), Vec::new())
            }
            StorageLayout::Contiguous(None) => (StoredLocation::Nothing, Vec::new()),
            StorageLayout::Contiguous(Some(offset)) => {
                (StoredLocation::Contiguous(offset), Vec::new())
            }
            StorageLayout::Chunked(chunk, filters) => {
                (StoredLocation::Chunks(ChunkGrid::read(object, &extents, &chunk)?), filters)
            }
            StorageLayout::External(_) => {
                return Err(LibraryError::new(
                    "external storage: expected the files that hold the frames",
                ));
            }
            StorageLayout::Virtual(_) => {
                return Err(LibraryError::new(
                    "a virtual dataset: expected the datasets that it is made of",
                ));
            }
        };
        Ok(Self { coding: PixelCoding::new(pixel, filters)?, frames, shape, stored })
    }
}

/// Asks the worker for the index of a dataset.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct IndexRequest {
    file: RawPath,
    dataset: String,
    shape: Option<[u64; 2]>,
}

impl WorkerRequest for IndexRequest {
    const NAME: &'static str = "index";
    type Message = ();
    /// The index without its chunk list, whose bytes follow.
    type Answer = SourceIndex;

    fn answer(self, _: &FilterConnection<'_>) -> Result<(SourceIndex, Vec<u8>), WorkerFailure> {
        let mut index =
            SourceIndex::open_in_process(self.file.as_ref(), &self.dataset, self.shape)?;
        let bytes = index.take_bytes();
        Ok((index, bytes))
    }
}

/// A dataset whose shape or pixel type doesn't suit is reported like one that the library can't
/// read.
impl From<FrameShapeError> for LibraryError {
    fn from(why: FrameShapeError) -> Self {
        Self::new(why.to_string())
    }
}

impl From<PixelTypeError> for LibraryError {
    fn from(why: PixelTypeError) -> Self {
        Self::new(why.to_string())
    }
}
