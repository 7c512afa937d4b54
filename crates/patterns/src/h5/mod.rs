//! Reading and writing of HDF5 files for parts, final files and exports.
//!
//! This module is the only caller of the HDF5 library in the crate, and gives the library a file
//! driver of its own. Errors of system calls are kept, because the library forgets or garbles some
//! of them; a written file is read back and compared before it counts as written; and [`Hdf5Error`]
//! tells a missing object from an unreadable one. Values that are read are checked before use:
//! sizes before memory is allocated, and texts for valid UTF-8.

mod attributes;
mod checksums;
mod dataset;
mod error;
mod group;
mod recording_storage;
mod verifying_storage;

use std::io::ErrorKind;
use std::ops::Deref;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use frames::file_check::check_file;
use hdf5::file::LibraryVersion;
use hdf5::plist::{FileAccess, FileCreate};
use system::atomic::AtomicFile;
use system::untrusted_file;

pub use error::Hdf5Error;

pub(crate) use attributes::check_size;
pub(crate) use dataset::{Dataset, DatasetElement, DatasetStorage, NumberClass};
pub(crate) use error::Result;
pub(crate) use group::{Group, VirtualElement, VirtualSource};
pub(crate) use hdf5::LinkType;
pub(crate) use recording_storage::VerifiedFile;

use error::ErrorLatch;
use recording_storage::RecordingStorage;
use verifying_storage::VerifyingStorage;

/// Maximum number of bytes that are read at once. Only a damaged file asks for more.
const MAX_READ_BYTES: usize = 1 << 31;

/// Returns the version of the HDF5 library, such as `2.2.0`.
pub(crate) fn library_version() -> String {
    let (major, minor, patch) = hdf5::library_version();
    format!("{major}.{minor}.{patch}")
}

/// A new file, in a format that HDF5 1.10 can read.
pub(crate) struct NewHdf5File {
    root: Group,
    file: hdf5::File,
    storage: Arc<Mutex<RecordingStorage>>,
    user_block: u64,
}

impl NewHdf5File {
    /// Creates the temporary file, with `user_block` bytes before the HDF5 data.
    pub fn create(temporary: &AtomicFile, user_block: u64) -> Result<Self> {
        Self::create_in(
            temporary.create_temporary().map_err(Hdf5Error::Io)?,
            temporary.temporary_path(),
            user_block,
        )
    }

    /// Starts an HDF5 file in a newly created, empty file. `path` is its path.
    pub fn create_in(file: std::fs::File, path: &Path, user_block: u64) -> Result<Self> {
        let health = ErrorLatch::for_writing();
        let storage = Arc::new(Mutex::new(RecordingStorage::new(file, health.clone())));
        let access = FileAccess::build()
            .libver_bounds(LibraryVersion::Earliest, LibraryVersion::V110)
            .file_locking(false)
            .finish()?;
        let create = FileCreate::build().userblock(user_block).finish()?;
        let file =
            health.check(frames::create_with_storage(storage.clone(), path, &access, &create))?;
        let root = Group::new(file.group("/")?, &health, None);
        Ok(Self { root, file, storage, user_block })
    }

    /// Closes the file, reads it back, and compares it with all that was written. All its groups
    /// and datasets must be dropped before.
    pub fn finish(self) -> Result<VerifiedFile> {
        let Self { root, file, storage, user_block } = self;
        let health = root.health().clone();
        drop(root);
        health.check(file.flush())?;
        health.check(file.close())?;
        let storage = Arc::into_inner(storage);
        let storage = health.check(storage.ok_or("the library keeps the file open"))?;
        // Closing the file writes, too, and may fail.
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

/// A file that is open for reading.
pub(crate) struct Hdf5File {
    root: Group,
    bytes: VerifiableBytes,
}

/// All bytes of a file that is open for reading, for as long as an object of it is open.
#[derive(Clone)]
pub(crate) struct VerifiableBytes(Arc<Mutex<VerifyingStorage>>);

impl VerifiableBytes {
    /// Returns whether each byte is verified by a checksum before it is used.
    pub fn have_checksums(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).has_checksums()
    }

    /// Verifies all bytes that were not read yet, if they have checksums.
    ///
    /// # Errors
    /// Fails with [`Hdf5Error::Damaged`] for the first bytes that were changed after writing, or if
    /// the file can't be read.
    pub fn verify_all(&self) -> Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).verify_all()
    }
}

impl Hdf5File {
    /// Opens a file of azpipe for reading, without an HDF5 file lock. A file without checksums is
    /// first read by the worker process, whose HDF5 library may crash or hang on it. Virtual
    /// datasets must show stored datasets, as azpipe writes them.
    pub fn open(path: &Path) -> Result<Self> {
        let file = untrusted_file::open(path).map_err(Hdf5Error::Io)?;
        check_length(&file)?;
        Self::from_unverified_file(path, file, &["/"])
    }

    /// Opens a file that others wrote, of which only some objects will be read: `read` with
    /// everything in them, `open` only so far as to open them, and to list groups. Of virtual
    /// datasets in it nothing is known: the library may crash when it reads one.
    pub fn open_objects_of_others(path: &Path, read: &[&str], open: &[&str]) -> Result<Self> {
        let file = untrusted_file::open(path).map_err(Hdf5Error::Io)?;
        let (storage, health) = start_reading(path, file, read, open)?;
        Self::from_storage(path, storage, health, None)
    }

    /// Reads from an open file like [`open`](Self::open), whose path is `path`, and of which only
    /// the objects `read` will be read, with everything in them.
    pub fn from_unverified_file(path: &Path, file: std::fs::File, read: &[&str]) -> Result<Self> {
        let (storage, health) = start_reading(path, file, read, &[])?;
        Self::from_storage(path, storage, health, Some(path.into()))
    }

    /// Reads from an open file whose bytes were verified by a checksum of the whole file, and whose
    /// path is `path`.
    pub fn from_verified_file(path: &Path, file: std::fs::File) -> Result<Self> {
        let health = ErrorLatch::for_reading(path);
        health.set_verified(true);
        let storage = VerifyingStorage::new(file, health.clone())?;
        Self::from_storage(path, storage, health, Some(path.into()))
    }

    /// Opens the file `path` with the library. `own_file` is its path if azpipe wrote it.
    fn from_storage(
        path: &Path,
        storage: VerifyingStorage,
        health: ErrorLatch,
        own_file: Option<Arc<Path>>,
    ) -> Result<Self> {
        // The sources of virtual datasets are relative to the file itself, not to a link to it.
        let found = path.symlink_metadata().map_err(Hdf5Error::Io)?;
        let real = if found.is_symlink() {
            path.canonicalize().map_err(Hdf5Error::Io)?
        } else {
            path.to_path_buf()
        };
        // Without a sieve buffer, only the rows that are asked for are read. With it, damage would
        // be told of the row whose read fills the buffer, and the damaged row be taken from there.
        let access = FileAccess::build().file_locking(false).sieve_buf_size(0).finish()?;
        let bytes = VerifiableBytes(Arc::new(Mutex::new(storage)));
        let file = health.call(|| frames::open_with_storage(bytes.0.clone(), &real, &access))?;
        let root = Group::new(health.call(|| file.group("/"))?, &health, own_file);
        Ok(Self { root, bytes })
    }

    /// Returns all bytes of the file.
    pub fn bytes(&self) -> &VerifiableBytes {
        &self.bytes
    }
}

/// Reads the checksums of a file, and has the worker process read a file that has none.
fn start_reading(
    path: &Path,
    file: std::fs::File,
    read: &[&str],
    open: &[&str],
) -> Result<(VerifyingStorage, ErrorLatch)> {
    let health = ErrorLatch::for_reading(path);
    let storage = VerifyingStorage::new(file, health.clone())?;
    health.set_verified(storage.has_checksums());
    if !storage.has_checksums() {
        check_file(path, read, open)?;
    }
    Ok((storage, health))
}

/// Refuses a file that is shorter than its superblock says, as a copy that was interrupted. Such a
/// file has lost its checksums, and the library's error would not tell it from another's file.
fn check_length(file: &std::fs::File) -> Result<()> {
    const SIGNATURE: &[u8; 8] = b"\x89HDF\r\n\x1a\n";
    let mut superblock = [0; 52];
    match file.read_exact_at(&mut superblock, 0) {
        Err(why) if why.kind() == ErrorKind::UnexpectedEof => return Ok(()),
        read => read.map_err(Hdf5Error::Io)?,
    }
    // Where the address of the end is, by the superblock's version; azpipe writes version 0. Addresses
    // of other sizes than 8 bytes are not azpipe's.
    let (at, address_bytes) = match superblock[8] {
        0 => (40, superblock[13]),
        1 => (44, superblock[13]),
        _ => (28, superblock[9]),
    };
    let Some(end) = superblock[at..].first_chunk().map(|end| u64::from_le_bytes(*end)) else {
        return Ok(());
    };
    let length = file.metadata().map_err(Hdf5Error::Io)?.len();
    if superblock.starts_with(SIGNATURE) && address_bytes == 8 && end > length {
        return Err(Hdf5Error::Damaged(format!(
            "the file was cut off: it has {length} bytes of {end}"
        )));
    }
    Ok(())
}

impl Deref for Hdf5File {
    type Target = Group;
    fn deref(&self) -> &Group {
        &self.root
    }
}
