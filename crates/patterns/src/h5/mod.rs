//! The one way to HDF5 for parts, finals and exports, to read and to write.
//!
//! The library is called here and nowhere else in this crate, and its bytes go through a storage of ours: an error of the file
//! system is kept whatever the library makes of it, what was written is compared with what is read back before a file counts
//! as written, and [`Error`] tells what is not there from what can't be read. What is read is checked before it is used:
//! sizes before memory is taken, and texts for UTF-8.

mod attributes;
mod checksums;
mod dataset;
mod error;
mod group;
mod recording_storage;
mod verifying_storage;

use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use filter::atomic::AtomicFile;
use filter::untrusted_file;
use hdf5::file::LibraryVersion;
use hdf5::plist::{FileAccess, FileCreate};

pub use error::Hdf5Error;

pub(crate) use dataset::{Dataset, DatasetElement, DatasetStorage, NumberClass};
pub(crate) use error::Result;
pub(crate) use group::{Group, VirtualElement, VirtualSource};
pub(crate) use recording_storage::VerifiedFile;

use error::ErrorLatch;
use recording_storage::RecordingStorage;
use verifying_storage::VerifyingStorage;

/// The most bytes that are read into memory at once: more is asked for by damaged files alone.
const MAX_READ_BYTES: usize = 1 << 31;

/// Returns the version of the library, as `2.2.0`.
pub(crate) fn library_version() -> String {
    let (major, minor, patch) = hdf5::library_version();
    format!("{major}.{minor}.{patch}")
}

/// A new file that HDF5 1.10 reads.
pub(crate) struct NewHdf5File {
    root: Group,
    file: hdf5::File,
    storage: Arc<Mutex<RecordingStorage>>,
    user_block: u64,
}

impl NewHdf5File {
    /// Creates a file at a temporary name, with `user_block` bytes before what is HDF5.
    pub fn create(temporary: &AtomicFile, user_block: u64) -> Result<Self> {
        Self::create_in(temporary.create_temporary().map_err(Hdf5Error::Io)?, temporary.temporary_path(), user_block)
    }

    /// Makes an HDF5 file of a new one.
    pub fn create_in(file: std::fs::File, path: &Path, user_block: u64) -> Result<Self> {
        let health = ErrorLatch::of_written();
        let storage = Arc::new(Mutex::new(RecordingStorage::new(file, health.clone())));
        let access = FileAccess::build()
            .libver_bounds(LibraryVersion::Earliest, LibraryVersion::V110)
            .file_locking(false)
            .finish()?;
        let create = FileCreate::build().userblock(user_block).finish()?;
        let file = health.check(frames::create_with_storage(storage.clone(), path, &access, &create))?;
        let root = Group::new(file.group("/")?, &health);
        Ok(Self { root, file, storage, user_block })
    }

    /// Closes the file, reads it back, and compares all of it with what was written. No group or dataset of it may be open.
    pub fn finish(self) -> Result<VerifiedFile> {
        let Self { root, file, storage, user_block } = self;
        let health = root.health().clone();
        drop(root);
        health.check(file.flush())?;
        health.check(file.close())?;
        let storage = Arc::into_inner(storage).ok_or("closed while some of it is in use")?;
        // The last errors come with the last writes.
        health.check::<(), Hdf5Error>(Ok(()))?;
        storage.into_inner().unwrap_or_else(PoisonError::into_inner).verify_written(user_block)
    }
}

impl Deref for NewHdf5File {
    type Target = Group;
    fn deref(&self) -> &Group {
        &self.root
    }
}

/// A file that is read.
pub(crate) struct Hdf5File {
    root: Group,
    has_checksums: bool,
}

impl Hdf5File {
    /// Opens a file to read, without a lock.
    pub fn open(path: &Path) -> Result<Self> {
        Self::from_open_file(path, untrusted_file::open(path).map_err(Hdf5Error::Io)?)
    }

    /// Reads an open file, which lies at `path`.
    pub fn from_open_file(path: &Path, file: std::fs::File) -> Result<Self> {
        let health = ErrorLatch::of_read(path);
        let storage = VerifyingStorage::new(file, health.clone())?;
        let has_checksums = storage.has_checksums();
        // Virtual datasets look for their sources from where the file itself is.
        let real = if path.is_symlink() { path.canonicalize().map_err(Hdf5Error::Io)? } else { path.to_path_buf() };
        let access = FileAccess::build().file_locking(false).finish()?;
        let file = health.call(|| frames::open_with_storage(Arc::new(Mutex::new(storage)), &real, &access))?;
        let root = Group::new(health.call(|| file.group("/"))?, &health);
        Ok(Self { root, has_checksums })
    }

    /// Whether every byte is verified by a checksum before it is used.
    pub fn has_checksums(&self) -> bool {
        self.has_checksums
    }
}

impl Deref for Hdf5File {
    type Target = Group;
    fn deref(&self) -> &Group {
        &self.root
    }
}
