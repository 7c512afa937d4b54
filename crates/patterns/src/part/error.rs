//! [`PartError`]: why a part can't be written or read.

use std::io;
use std::path::{Path, PathBuf};

use crate::h5;

/// Reason why a part can't be written or read.
#[derive(Debug, thiserror::Error)]
pub enum PartError {
    /// A system call failed.
    #[error("{}: {why}", path.display())]
    Io {
        /// Path of the part.
        path: PathBuf,
        /// Error of the system.
        why: io::Error,
    },
    /// The HDF5 library failed, or an object of the file is missing or damaged.
    #[error("{}: {why}", path.display())]
    Hdf5 {
        /// Path of the part.
        path: PathBuf,
        /// Error of the library.
        why: h5::Hdf5Error,
    },
    /// The file doesn't begin with the user block of a part.
    #[error("{}: {why}", path.display())]
    Head {
        /// Path of the file.
        path: PathBuf,
        /// Difference from the user block of a part.
        why: super::user_block::UserBlockError,
    },
    /// The bytes after the user block have another checksum than when they were written.
    #[error(
    "{}: damaged: checksum {found}, expected {expected} as in its first line; remove the file and run ai-integrate again",
    path.display()
    )]
    Damaged {
        /// Path of the part.
        path: PathBuf,
        /// Checksum in the user block.
        expected: String,
        /// Checksum of the bytes in the file.
        found: String,
    },
    /// Another part was renamed to this path while the part was being read.
    #[error("{}: replaced by another part while it was being read; run the command again", path.display())]
    Replaced {
        /// Path of the part.
        path: PathBuf,
    },
    /// Datasets of the part, or rows that are to be written, contradict each other.
    #[error("{}: {why}", path.display())]
    Content {
        /// Path of the part.
        path: PathBuf,
        /// Contradiction, and what was expected.
        why: String,
    },
    /// The task names a part outside of the output directory.
    #[error("{}: outside of the output directory; expected a part's path below it", path.display())]
    Outside {
        /// Path of the part in the task.
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

    /// Returns the system's error if a system call failed, so that the state of the part is
    /// unknown.
    pub fn io_error(&self) -> Option<&io::Error> {
        match self {
            Self::Io { why, .. }
            | Self::Head { why: super::user_block::UserBlockError::Io(why), .. } => Some(why),
            _ => None,
        }
    }

    /// Returns the error of the file system, if it says nothing of the file's content.
    pub(crate) fn into_io_failure(self) -> Option<io::Error> {
        match (self.is_io_failure(), self) {
            (
                true,
                Self::Io { why, .. }
                | Self::Head { why: super::user_block::UserBlockError::Io(why), .. },
            ) => Some(why),
            _ => None,
        }
    }

    /// Returns whether bytes of a part were changed, so that it can never be read.
    pub(crate) fn is_damage(&self) -> bool {
        use super::user_block::UserBlockError::{Damaged, ImpossibleFrames};
        matches!(
            self,
            Self::Damaged { .. } | Self::Head { why: Damaged | ImpossibleFrames { .. }, .. }
        )
    }

    /// Returns whether an existing file could not be read. Unlike a damaged or truncated part, it
    /// may be readable later.
    pub(crate) fn is_io_failure(&self) -> bool {
        self.io_error().is_some_and(|why| why.kind() != io::ErrorKind::UnexpectedEof)
            && !self.was_removed()
    }

    /// Returns whether the file has been removed or replaced since it was listed, so that listing
    /// the parts again may help.
    pub fn was_removed(&self) -> bool {
        match self {
            Self::Io { why, .. }
            | Self::Head { why: super::user_block::UserBlockError::Io(why), .. } => {
                why.kind() == io::ErrorKind::NotFound
            }
            Self::Replaced { .. } => true,
            _ => false,
        }
    }
}
