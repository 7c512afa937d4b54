//! [`Leftover`]: files that are left over, and their removal.

use std::io::ErrorKind;
use std::path::PathBuf;

use system::ownership::{self, OwnershipRule};

use crate::output::OutputError;

/// A file that is left over, or a directory with such files.
#[derive(Debug)]
pub struct Leftover {
    /// Path of the file or directory.
    pub path: PathBuf,
    /// Reason why it is not needed.
    pub why: String,
    /// Files, in the order of removal.
    pub(super) files: Vec<(PathBuf, OwnershipRule)>,
    /// Total size in bytes.
    pub bytes: u64,
}

impl Leftover {
    pub(super) fn file(
        path: PathBuf,
        why: &str,
        claim: OwnershipRule,
    ) -> Result<Self, OutputError> {
        let mut leftover =
            Self { path: path.clone(), why: why.to_owned(), files: Vec::new(), bytes: 0 };
        leftover.add(path, claim)?;
        Ok(leftover)
    }

    pub(super) fn add(&mut self, path: PathBuf, claim: OwnershipRule) -> Result<(), OutputError> {
        match path.symlink_metadata() {
            Ok(found) => self.bytes = self.bytes.saturating_add(found.len()),
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(()),
            Err(why) => return Err(OutputError::Io { path, why }),
        }
        self.files.push((path, claim));
        Ok(())
    }

    /// Returns the number of files.
    pub fn count(&self) -> usize {
        self.files.len()
    }

    /// Returns whether it is a directory of results, which tells what else is left over of its
    /// recipe: it has to stay until that is gone.
    pub fn is_directory(&self) -> bool {
        self.files.iter().all(|(path, _)| *path != self.path)
    }

    /// Removes the files, and the directory if it is empty then.
    ///
    /// # Errors
    /// Fails if a file is not azpipe's any more, or can't be removed.
    pub fn remove(&self) -> Result<(), OutputError> {
        for (path, claim) in &self.files {
            ownership::remove(path, claim).map_err(OutputError::io(path))?;
        }
        if !self.is_directory() {
            return Ok(());
        }
        let is_empty =
            ownership::remove_empty_directory(&self.path).map_err(OutputError::io(&self.path))?;
        // The directory of a scan is removed with its last recipe.
        match self.path.parent().filter(|_| is_empty) {
            Some(scan) => {
                ownership::remove_empty_directory(scan).map(drop).map_err(OutputError::io(scan))
            }
            None => Ok(()),
        }
    }
}
