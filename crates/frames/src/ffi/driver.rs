//! A driver of the HDF5 library (H5FD) whose bytes go through a [`Storage`], which keeps I/O errors
//! that the library would lose.
//!
//! The library drops errors: `H5Dclose` writes buffered data, and a program that drops a dataset
//! never learns about a full disk. After a failed write, the library may even crash when the file
//! is closed. A `Storage` can therefore record the error and report success to the library.

mod callbacks;
mod layout;
mod storage;

use std::ffi::{CString, c_char, c_uint};
use std::mem::ManuallyDrop;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use hdf5::plist::{FileAccess, FileCreate};
use hdf5_sys::h5f::{H5F_ACC_RDONLY, H5F_ACC_TRUNC, H5Fcreate, H5Fopen};
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5p::H5Pset_driver;

use super::bitshuffle_filter::register_bitshuffle;
use super::{Hdf5Id, LibraryError, call_for_id, call_for_status, with_library_lock};
use callbacks::CLASS;
use layout::{DriverClass, DriverInfo};
pub use storage::{ByteKind, SharedStorage, Storage};

/// Creates an HDF5 file in an empty storage. `name` is the file name that the library reports.
///
/// # Errors
/// The HDF5 library fails.
pub fn create_with_storage(
    storage: SharedStorage,
    name: &Path,
    access: &FileAccess,
    create: &FileCreate,
) -> Result<hdf5::File, LibraryError> {
    // SAFETY: `with_driver` passes a name that ends in NUL and outlives the call, and the list that
    // it set the driver in; both lists are open while they are borrowed.
    let make = |name, access| unsafe { H5Fcreate(name, H5F_ACC_TRUNC, create.id(), access) };
    into_hdf5_file(with_driver(storage, name, access.id(), make))
}

/// Opens an HDF5 file in a storage for reading. Sources of virtual datasets are looked for relative
/// to `name`.
///
/// # Errors
/// The storage holds no HDF5 file, or a damaged one.
pub fn open_with_storage(
    storage: SharedStorage,
    name: &Path,
    access: &FileAccess,
) -> Result<hdf5::File, LibraryError> {
    // SAFETY: `with_driver` passes a name that ends in NUL and outlives the call, and the list that
    // it set the driver in, which is open while it is borrowed.
    into_hdf5_file(with_driver(storage, name, access.id(), |name, access| unsafe {
        H5Fopen(name, H5F_ACC_RDONLY, access)
    }))
}

/// Opens a storage like [`open_with_storage`], with the flags of `H5Fopen` and a file access
/// property list, in which the driver is set.
pub(super) fn open_handle(
    storage: SharedStorage,
    name: &Path,
    flags: c_uint,
    access: &Hdf5Id,
) -> Result<Hdf5Id, LibraryError> {
    // SAFETY: `with_driver` passes a name that ends in NUL and outlives the call, and the list that
    // it set the driver in, which is open while it is borrowed.
    with_driver(storage, name, access.0, |name, access| unsafe { H5Fopen(name, flags, access) })
}

fn into_hdf5_file(opened: Result<Hdf5Id, LibraryError>) -> Result<hdf5::File, LibraryError> {
    let opened = ManuallyDrop::new(opened?);
    // SAFETY: the identifier is that of a file which was opened just now, and the handle does not
    // release it.
    with_library_lock(|| unsafe { hdf5::from_id(opened.0) })
        .map_err(|why| LibraryError::new(why.to_string()))
}

fn with_driver(
    storage: SharedStorage,
    name: &Path,
    access: hid_t,
    open: impl FnOnce(*const c_char, hid_t) -> hid_t,
) -> Result<Hdf5Id, LibraryError> {
    let name = CString::new(name.as_os_str().as_bytes())
        .map_err(|_| LibraryError::new("a path with a NUL byte"))?;
    let info = Arc::new(DriverInfo { name: name.clone(), storage });
    with_library_lock(|| {
        let driver = register_driver()?;
        register_bitshuffle()?;
        // SAFETY: the list is valid, and the driver copies `info` by `copy_info` before this
        // returns.
        call_for_status(|| unsafe { H5Pset_driver(access, driver, Arc::as_ptr(&info).cast()) })?;
        call_for_id(|| open(name.as_ptr(), access))
    })
}

/// Registers the driver on the first call, and returns its identifier.
fn register_driver() -> Result<hid_t, LibraryError> {
    static DRIVER: OnceLock<Result<hid_t, LibraryError>> = OnceLock::new();
    DRIVER
        .get_or_init(|| {
            // `DriverClass` has the layout of these versions.
            if hdf5::library_version() < (1, 14, 0) {
                return Err(LibraryError::new(
                    "the HDF5 library is too old: expected 1.14 or newer",
                ));
            }
            // SAFETY: the class is a static. `DriverClass` has the members of `H5FD_class_t`
            // version 1 in their order and C's layout, its functions have the signatures of that;
            // the library checks the version's number, and its own version was checked above.
            // Another layout would have it call what is no function: the pinned sources are what it
            // is held to.
            call_for_status(|| unsafe { H5FDregister(&CLASS) }).map(|id| id as hid_t)
        })
        .clone()
}

unsafe extern "C" {
    fn H5FDregister(class: *const DriverClass) -> hid_t;
}
