//! Opens HDF5 files for reading, without changing or locking them.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use hdf5_sys::h5f::{H5F_ACC_RDONLY, H5F_ACC_SWMR_READ};
use hdf5_sys::h5p::{H5P_CLS_FILE_ACCESS, H5Pcopy, H5Pcreate, H5Pset, H5Pset_file_locking};

use super::driver::{ByteKind, SharedStorage, Storage, open_handle};
use super::{Hdf5Id, Hdf5Object, LibraryError, call_for_id, call_for_status};
use crate::open_ahead;
use crate::storage_wait::wait_for_storage;

impl Hdf5Object {
    /// Opens a file read-only and without a lock.
    ///
    /// In a file of the newest format, the superblock marks that a writer has it open, or died; the
    /// library then refuses it. Such a file is opened as a SWMR reader would or, if its writer
    /// doesn't use SWMR, with the mark cleared as by `h5clear`, but only in memory.
    pub(crate) fn open_file(path: &Path) -> Result<Self, LibraryError> {
        let file = wait_for_storage(|| open_ahead::open(path))?;
        let open = |flags, access: &Hdf5Id| {
            let storage = ReadOnlyStorage::open_shared(Arc::clone(&file))?;
            // SAFETY: the call takes only a number; the list is a static's, and open for as long as
            // the program.
            let access = call_for_id(|| unsafe { H5Pcopy(access.0) })?;
            open_handle(storage, path, flags, &access)
        };
        let [plain, clearing] = access_lists()?;
        let first = match open(H5F_ACC_RDONLY, plain) {
            Err(err) if err.why.contains("already open for") => err,
            opened => return opened.map(Self),
        };
        open(H5F_ACC_RDONLY | H5F_ACC_SWMR_READ, plain)
            .or_else(|_| open(H5F_ACC_RDONLY, clearing))
            .map(Self)
            .map_err(|err| if err.errno.is_some() { err } else { first })
    }
}

/// Returns the access property lists for files: without locking; and without locking and with a
/// writer's mark cleared in memory.
fn access_lists() -> Result<&'static [Hdf5Id; 2], LibraryError> {
    static ACCESS: OnceLock<Result<[Hdf5Id; 2], LibraryError>> = OnceLock::new();
    ACCESS
        .get_or_init(|| Ok([unlocked_access()?, clearing_access()?]))
        .as_ref()
        .map_err(Clone::clone)
}

fn unlocked_access() -> Result<Hdf5Id, LibraryError> {
    // SAFETY: the class is a static of the library that it sets when it starts, which taking the
    // lock sees to: `call_for_id` calls this under the lock, so that nobody writes to it meanwhile.
    // The call takes only a number.
    let access = call_for_id(|| unsafe { H5Pcreate(*H5P_CLS_FILE_ACCESS) })?;
    // SAFETY: the call takes only numbers, and the list is open for as long as its handle lives.
    call_for_status(|| unsafe { H5Pset_file_locking(access.0, 0, 1) })?;
    Ok(access)
}

fn clearing_access() -> Result<Hdf5Id, LibraryError> {
    let access = unlocked_access()?;
    let mut clear = true;
    let value: *mut c_void = (&raw mut clear).cast();
    // SAFETY: the list is open for as long as its handle lives, and the name is a literal that ends
    // in NUL. The property of this name is a C `bool` (H5Fprivate.h:
    // H5F_ACS_CLEAR_STATUS_FLAGS_SIZE), which has Rust's layout; the library copies so many bytes
    // of the value, which outlives the call. A version in which it is another type would read
    // beyond it: the library is built from the sources that Cargo.lock pins.
    call_for_status(|| unsafe { H5Pset(access.0, c"clear_status_flags".as_ptr(), value) })?;
    Ok(access)
}

/// Storage of a file that other processes may be writing.
struct ReadOnlyStorage {
    file: Arc<File>,
    /// Size when the library opened the file, which may grow.
    size: u64,
}

impl ReadOnlyStorage {
    fn open_shared(file: Arc<File>) -> io::Result<SharedStorage> {
        let size = file.metadata()?.len();
        Ok(Arc::new(Mutex::new(Self { file, size })))
    }
}

impl Storage for ReadOnlyStorage {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&mut self, _: ByteKind, mut at: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.file.read_at(buffer, at) {
                Ok(0) => {
                    buffer.fill(0);
                    break;
                }
                Ok(count) => {
                    at = at.saturating_add(count as u64);
                    buffer = &mut buffer[count..];
                }
                Err(why) if why.kind() == io::ErrorKind::Interrupted => (),
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    fn write(&mut self, _: ByteKind, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn set_size(&mut self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn open_other(&mut self, path: &Path) -> io::Result<SharedStorage> {
        Self::open_shared(open_ahead::open(path)?)
    }
}
