//! [`UnusableFile`]: why a file does not count as covering frames.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::output::OutputError;
use crate::part::PartError;

/// A part, final file or directory that can't be used, so that its frames count as not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableFile {
    why: String,
    /// True if the file system failed, so that it is unknown what the file holds; false if the file
    /// is damaged.
    pub is_io_failure: bool,
}

impl UnusableFile {
    /// Describes a directory that can't be listed.
    pub(super) fn directory(path: &Path, why: &io::Error) -> Self {
        Self { why: format!("{}: {why}", path.display()), is_io_failure: true }
    }
}

impl From<PartError> for UnusableFile {
    fn from(error: PartError) -> Self {
        Self { why: error.to_string(), is_io_failure: error.is_io_failure() }
    }
}

impl From<OutputError> for UnusableFile {
    fn from(error: OutputError) -> Self {
        // A file that ends early is damaged.
        let is_io_failure =
            error.io_error().is_some_and(|why| why.kind() != ErrorKind::UnexpectedEof);
        Self { why: error.to_string(), is_io_failure }
    }
}

impl fmt::Display for UnusableFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}
