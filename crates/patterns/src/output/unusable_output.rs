//! Why a file of azpipe can't be used as a final file.

use std::path::Path;

use super::OutputError;
use crate::h5::{self, VerifiableBytes};

/// Reason why a file of azpipe can't be used as a final file.
pub(super) enum UnusableOutput {
    Hdf5(h5::Hdf5Error),
    /// The content contradicts itself.
    Content(String),
    /// The file has what this version does not know.
    Unknown(String),
}

impl UnusableOutput {
    /// Returns the reason for what this version does not know.
    pub fn unknown(what: &str) -> Self {
        Self::Unknown(what.to_owned())
    }

    /// Returns the error of a file. What is unknown, and is as it was written, is of another version; bytes
    /// are compared with their checksums when they are read.
    pub fn into_error(self, path: &Path, bytes: &VerifiableBytes) -> OutputError {
        match self {
            Self::Hdf5(why) => OutputError::hdf5(path)(why),
            Self::Unknown(why) if bytes.have_checksums() => {
                OutputError::OfOtherVersion { path: path.to_path_buf(), why }
            }
            Self::Content(why) | Self::Unknown(why) => {
                OutputError::content(path, format!("damaged: {why}"))
            }
        }
    }
}

/// Converts the error of a file that can't be opened. If a system call failed or the file's
/// checksums show damage, that is the error; otherwise the file is not a final file.
pub(super) fn open_error(path: &Path, why: h5::Hdf5Error) -> OutputError {
    match why {
        why @ (h5::Hdf5Error::Io(_) | h5::Hdf5Error::Damaged(_)) => OutputError::hdf5(path)(why),
        _ => OutputError::NotOwned { path: path.to_path_buf() },
    }
}

impl From<h5::Hdf5Error> for UnusableOutput {
    fn from(why: h5::Hdf5Error) -> Self {
        Self::Hdf5(why)
    }
}

impl From<String> for UnusableOutput {
    fn from(why: String) -> Self {
        Self::Content(why)
    }
}

impl From<&str> for UnusableOutput {
    fn from(why: &str) -> Self {
        Self::Content(why.to_owned())
    }
}
