//! The HDF5 files that a walk has open.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::error::DiscoverError;
use super::file_content_cache;
use crate::ffi::Hdf5Object;
use crate::open_ahead;

/// Opens files, and keeps those open that are probably used again.
#[derive(Default)]
pub(super) struct OpenFiles {
    /// The file that was opened last, since the next dataset is often in the same file.
    last_opened: Option<(PathBuf, Rc<Hdf5Object>)>,
    /// The first of the prefetched files. It is kept open because it is used again after all
    /// others.
    first_prefetched: Option<(PathBuf, Rc<Hdf5Object>)>,
}

impl OpenFiles {
    /// Opens a file, or reuses the one that was opened last.
    ///
    /// # Errors
    /// The file doesn't exist, can't be opened, or is not an HDF5 file.
    pub(super) fn open(&mut self, path: &Path) -> Result<Rc<Hdf5Object>, DiscoverError> {
        if let Some((_, object)) = self.find(path) {
            return Ok(Rc::clone(object));
        }
        let object = Rc::new(
            Hdf5Object::open_file(path).map_err(|err| DiscoverError::from_library(path, &err))?,
        );
        self.last_opened = Some((path.to_owned(), Rc::clone(&object)));
        Ok(object)
    }

    /// Returns whether a file is open.
    pub(super) fn is_open(&self, path: &Path) -> bool {
        self.find(path).is_some()
    }

    fn find(&self, path: &Path) -> Option<&(PathBuf, Rc<Hdf5Object>)> {
        [&self.last_opened, &self.first_prefetched]
            .into_iter()
            .flatten()
            .find(|(open, _)| open == path)
    }

    /// Starts opening files in the background that will be used in this order.
    pub(super) fn prefetch(&mut self, files: impl Iterator<Item = PathBuf>) {
        self.first_prefetched = None;
        open_ahead::open_files_ahead(files.filter(|file| !file_content_cache::holds(file)));
    }

    /// Keeps the last opened file open if it is the first one since [`OpenFiles::prefetch`].
    pub(super) fn remember_first(&mut self) {
        if self.first_prefetched.is_none() {
            self.first_prefetched.clone_from(&self.last_opened);
        }
    }
}
