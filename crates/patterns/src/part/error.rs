//! Why a part can't be written or read.

use std::io;
use std::path::{Path, PathBuf};

use crate::h5;

/// Why a part can't be written or read.
#[derive(Debug, thiserror::Error)]
pub enum PartError {
    /// The file system refused.
    #[error("{}: {why}", path.display())]
    Io {
        /// The part.
        path: PathBuf,
        /// What it said.
        why: io::Error,
    },
    /// The HDF5 library refused, or found other bytes than were written.
    #[error("{}: {why}", path.display())]
    Hdf5 {
        /// The part.
        path: PathBuf,
        /// What it said.
        why: h5::Hdf5Error,
    },
    /// The first bytes are not a part's.
    #[error("{}: {why}", path.display())]
    Head {
        /// The file.
        path: PathBuf,
        /// What is wrong with them.
        why: super::user_block::UserBlockError,
    },
    /// Some bytes are not those that were written.
    #[error("{}: damaged: expected checksum {expected}, found {found}", path.display())]
    Damaged {
        /// The part.
        path: PathBuf,
        /// The checksum in its first line.
        expected: String,
        /// The checksum of its bytes.
        found: String,
    },
    /// Another part took its place while it was in use.
    #[error("{}: replaced by another part while it was being read", path.display())]
    Replaced {
        /// The part.
        path: PathBuf,
    },
    /// What it holds does not fit together.
    #[error("{}: {why}", path.display())]
    Content {
        /// The part.
        path: PathBuf,
        /// What was found and what was expected.
        why: String,
    },
    /// A path that leads out of the output root.
    #[error("{}: expected a path that stays below the output directory", path.display())]
    Outside {
        /// The path.
        path: PathBuf,
    },
}

impl PartError {
    pub(super) fn io(path: &Path) -> impl Fn(io::Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |why| Self::Io { path: path.clone(), why }
    }

    pub(super) fn hdf5(path: &Path) -> impl Fn(h5::Hdf5Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |why| match why {
            h5::Hdf5Error::Io(why) => Self::Io { path: path.clone(), why },
            why => Self::Hdf5 { path: path.clone(), why },
        }
    }

    pub(crate) fn content(path: &Path, why: impl Into<String>) -> Self {
        Self::Content { path: path.to_path_buf(), why: why.into() }
    }

    /// Returns the error of the file system, where it is one: nothing is known of the part then.
    pub fn io_error(&self) -> Option<&io::Error> {
        match self {
            Self::Io { why, .. } | Self::Head { why: super::user_block::UserBlockError::Io(why), .. } => Some(why),
            _ => None,
        }
    }

    /// Returns whether the system did not give a file that is there: unlike a damaged or a short one, it may give it later.
    pub(crate) fn is_io_failure(&self) -> bool {
        self.io_error().is_some_and(|why| why.kind() != io::ErrorKind::UnexpectedEof) && !self.was_removed()
    }

    /// Whether the file is not there any more, or is another one: to look again may help.
    pub fn was_removed(&self) -> bool {
        match self {
            Self::Io { why, .. } | Self::Head { why: super::user_block::UserBlockError::Io(why), .. } => {
                why.kind() == io::ErrorKind::NotFound
            }
            Self::Replaced { .. } => true,
            _ => false,
        }
    }
}
