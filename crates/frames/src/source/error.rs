//! The error of a source that can't be read, and its form on the pipe from the HDF5 worker.

use std::io;
use std::path::{Path, PathBuf};

use crate::hdf5_worker::WorkerFailure;
use crate::image;

/// Explains why a source can't be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file can't be opened.
    #[error("{}: {why}", file.display())]
    Io {
        /// Path of the file.
        file: PathBuf,
        /// Error of the system.
        why: io::Error,
    },
    /// The HDF5 library can't parse the file.
    #[error("{}: not readable as HDF5: {why}", file.display())]
    Hdf5 {
        /// Path of the file.
        file: PathBuf,
        /// Error of the HDF5 library.
        why: String,
    },
    /// The HDF5 worker gave no answer, so it is unknown where the frames are.
    #[error("{}: {why}", file.display())]
    NoAnswer {
        /// Path of the file.
        file: PathBuf,
        /// Failure of the worker.
        why: String,
        /// True if a later attempt may succeed.
        retryable: bool,
    },
    /// The dataset doesn't exist, or holds no readable frames.
    #[error("{}::{dataset}: {why}", file.display())]
    Dataset {
        /// Path of the file.
        file: PathBuf,
        /// Path of the dataset.
        dataset: String,
        /// Reason, and what was expected.
        why: String,
    },
    /// The image can't be read.
    #[error(transparent)]
    Image(#[from] image::ImageError),
    /// The image differs from the one that the source describes.
    #[error("{}: {why}", file.display())]
    Mismatch {
        /// Path of the file.
        file: PathBuf,
        /// The difference, and what was expected.
        why: String,
    },
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
    pub(super) fn into_source_error(self, file: &Path) -> SourceError {
        let file = file.to_owned();
        match self {
            Self::Io { errno, why } => SourceError::Io { file, why: Self::to_io(errno, why) },
            Self::Hdf5(why) => SourceError::Hdf5 { file, why },
            Self::Dataset { dataset, why } => SourceError::Dataset { file, dataset, why },
        }
    }
}
