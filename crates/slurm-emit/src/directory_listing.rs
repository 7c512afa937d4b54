//! Looks at what a directory holds, with errors that name the path.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::error::EmitError;

/// Lists the paths in a directory; none if it does not exist.
///
/// # Errors
/// Fails if the directory can't be read.
pub fn list_directory(directory: &Path) -> Result<Vec<PathBuf>, EmitError> {
    let entries = match fs::read_dir(directory) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        entries => entries.map_err(EmitError::at(directory))?,
    };
    let paths: io::Result<Vec<PathBuf>> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect();
    paths.map_err(EmitError::at(directory))
}

/// Returns whether a directory has this path, and not a link to one.
///
/// # Errors
/// Fails if the path can't be looked up.
pub fn is_directory(path: &Path) -> Result<bool, EmitError> {
    match path.symlink_metadata() {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(false)
        }
        found => found.map(|found| found.is_dir()).map_err(EmitError::at(path)),
    }
}

/// Returns whether a file, a directory or a link has this path, even a dangling link.
///
/// # Errors
/// Fails if the path can't be looked up.
pub fn exists(path: &Path) -> Result<bool, EmitError> {
    match path.symlink_metadata() {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(false)
        }
        found => found.map(|_| true).map_err(EmitError::at(path)),
    }
}
