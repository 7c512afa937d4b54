//! A driver of the HDF5 library (H5FD) whose bytes go through a [`Storage`], which keeps I/O errors that the
//! library would lose.
//!
//! The library drops errors: `H5Dclose` writes buffered data, and a program that drops a dataset never learns
//! about a full disk. After a failed write, the library may even crash when the file is closed. A `Storage` can
//! therefore record the error and report success to the library.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::io;
use std::mem::ManuallyDrop;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use hdf5::plist::{FileAccess, FileCreate};
use hdf5_sys::h5::{haddr_t, herr_t, hsize_t};
use hdf5_sys::h5f::{H5F_ACC_RDONLY, H5F_ACC_RDWR, H5F_ACC_TRUNC, H5F_close_degree_t, H5Fcreate, H5Fopen};
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5p::{H5Pget_driver_info, H5Pset_driver};

use super::{Hdf5Id, LibraryError, call_for_id, call_for_status, record_storage_error, with_library_lock};
use crate::watchdog::wait_for_storage;

/// The kind of bytes that the library reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteKind {
    /// Values of datasets.
    RawData,
    /// Everything else: the file's structure, and texts of variable length.
    Metadata,
}

/// Storage of an HDF5 file's bytes. An error makes the library's call fail.
pub trait Storage: Send {
    /// Returns the size in bytes.
    fn size(&self) -> u64;

    /// Fills `buffer` with the bytes from offset `at` on, and with zeros after the end.
    ///
    /// # Errors
    /// The bytes can't be read.
    fn read(&mut self, bytes: ByteKind, at: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes `buffer` at offset `at`.
    ///
    /// # Errors
    /// The bytes can't be written.
    fn write(&mut self, bytes: ByteKind, at: u64, buffer: &[u8]) -> io::Result<()>;

    /// Truncates the storage to `size` bytes, or extends it with zeros.
    ///
    /// # Errors
    /// The file system refuses.
    fn set_size(&mut self, size: u64) -> io::Result<()>;

    /// Opens another file for reading, to which this one refers in an external link or a virtual dataset.
    ///
    /// # Errors
    /// The file doesn't exist or can't be opened.
    fn open_other(&mut self, path: &Path) -> io::Result<SharedStorage>;
}

/// A storage that is shared by the library and the code that opened the file.
pub type SharedStorage = Arc<Mutex<dyn Storage>>;

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
    // SAFETY: `with_driver` passes a name that ends in NUL and outlives the call, and the list that it set the driver in; both lists are
    // open while they are borrowed.
    let make = |name, access| unsafe { H5Fcreate(name, H5F_ACC_TRUNC, create.id(), access) };
    into_hdf5_file(with_driver(storage, name, access.id(), make))
}

/// Opens an HDF5 file in a storage for reading. Sources of virtual datasets are looked for relative to `name`.
///
/// # Errors
/// The storage holds no HDF5 file, or a damaged one.
pub fn open_with_storage(storage: SharedStorage, name: &Path, access: &FileAccess) -> Result<hdf5::File, LibraryError> {
    // SAFETY: `with_driver` passes a name that ends in NUL and outlives the call, and the list that it set the driver in, which is
    // open while it is borrowed.
    into_hdf5_file(with_driver(storage, name, access.id(), |name, access| unsafe {
        H5Fopen(name, H5F_ACC_RDONLY, access)
    }))
}

/// Opens a storage like [`open_with_storage`], with the flags of `H5Fopen` and a file access property list, in
/// which the driver is set.
pub(super) fn open_handle(
    storage: SharedStorage,
    name: &Path,
    flags: c_uint,
    access: &Hdf5Id,
) -> Result<Hdf5Id, LibraryError> {
    // SAFETY: `with_driver` passes a name that ends in NUL and outlives the call, and the list that it set the driver in, which is
    // open while it is borrowed.
    with_driver(storage, name, access.0, |name, access| unsafe { H5Fopen(name, flags, access) })
}

fn into_hdf5_file(opened: Result<Hdf5Id, LibraryError>) -> Result<hdf5::File, LibraryError> {
    let opened = ManuallyDrop::new(opened?);
    // SAFETY: the identifier is that of a file which was opened just now, and the handle does not release it.
    with_library_lock(|| unsafe { hdf5::from_id(opened.0) }).map_err(|why| LibraryError::new(why.to_string()))
}

fn with_driver(
    storage: SharedStorage,
    name: &Path,
    access: hid_t,
    open: impl FnOnce(*const c_char, hid_t) -> hid_t,
) -> Result<Hdf5Id, LibraryError> {
    let name = CString::new(name.as_os_str().as_bytes()).map_err(|_| LibraryError::new("a path with a NUL byte"))?;
    let info = Arc::new(DriverInfo { name: name.clone(), storage });
    with_library_lock(|| {
        let driver = register_driver()?;
        // SAFETY: the list is valid, and the driver copies `info` by `copy_info` before this returns.
        call_for_status(|| unsafe { H5Pset_driver(access, driver, Arc::as_ptr(&info).cast()) })?;
        call_for_id(|| open(name.as_ptr(), access))
    })
}

/// Driver information in a file access property list.
struct DriverInfo {
    name: CString,
    storage: SharedStorage,
}

/// Registers the driver on the first call, and returns its identifier.
fn register_driver() -> Result<hid_t, LibraryError> {
    static DRIVER: OnceLock<Result<hid_t, LibraryError>> = OnceLock::new();
    DRIVER
        .get_or_init(|| {
            // `DriverClass` has the layout of these versions.
            if hdf5::library_version() < (1, 14, 0) {
                return Err(LibraryError::new("the HDF5 library is too old: expected 1.14 or newer"));
            }
            // SAFETY: the class is a static. `DriverClass` has the members of `H5FD_class_t` version 1 in their order and C's layout, its
            // functions have the signatures of that; the library checks the version's number, and its own version was
            // checked above. Another layout would have it call what is no function: the pinned sources are what it is held to.
            call_for_status(|| unsafe { H5FDregister(&CLASS) }).map(|id| id as hid_t)
        })
        .clone()
}

unsafe extern "C" {
    fn H5FDregister(class: *const DriverClass) -> hid_t;
}

/// `H5FD_t` of H5FDdevelop.h, followed by the driver's own fields.
#[repr(C)]
struct DriverFile {
    driver_id: hid_t,
    class: *const c_void,
    number: c_ulong,
    access_flags: c_uint,
    feature_flags: c_ulong,
    largest_address: haddr_t,
    base_address: haddr_t,
    threshold: hsize_t,
    alignment: hsize_t,
    paged: bool,
    /// Space for fields that a later version of the library may add to `H5FD_t`.
    spare: [u64; 8],
    info: *const DriverInfo,
    storage: SharedStorage,
    end_of_allocation: haddr_t,
}

/// `H5FD_mem_t`, as an integer because a C enum may hold any value. Only one value matters to the driver.
type MemoryType = c_int;
const MEMORY_SUPERBLOCK: MemoryType = 1;
const MEMORY_RAW_DATA: MemoryType = 3;

type ReadCall = unsafe extern "C" fn(*mut DriverFile, MemoryType, hid_t, haddr_t, usize, *mut c_void) -> herr_t;
type WriteCall = unsafe extern "C" fn(*mut DriverFile, MemoryType, hid_t, haddr_t, usize, *const c_void) -> herr_t;
/// An optional function that this driver doesn't provide.
type UnusedCallback = Option<unsafe extern "C" fn()>;

/// `H5FD_class_t` of H5FDdevelop.h, version 1.
#[repr(C)]
struct DriverClass {
    version: c_uint,
    value: c_int,
    name: *const c_char,
    largest_address: haddr_t,
    close_degree: H5F_close_degree_t,
    terminate: UnusedCallback,
    superblock: [UnusedCallback; 3],
    info_size: usize,
    get_info: Option<unsafe extern "C" fn(*mut DriverFile) -> *mut c_void>,
    copy_info: Option<unsafe extern "C" fn(*const c_void) -> *mut c_void>,
    free_info: Option<unsafe extern "C" fn(*mut c_void) -> herr_t>,
    transfer_size: usize,
    transfer: [UnusedCallback; 2],
    open: Option<unsafe extern "C" fn(*const c_char, c_uint, hid_t, haddr_t) -> *mut DriverFile>,
    close: Option<unsafe extern "C" fn(*mut DriverFile) -> herr_t>,
    compare: Option<unsafe extern "C" fn(*const DriverFile, *const DriverFile) -> c_int>,
    query: Option<unsafe extern "C" fn(*const DriverFile, *mut c_ulong) -> herr_t>,
    memory: [UnusedCallback; 3],
    get_end_of_allocation: Option<unsafe extern "C" fn(*const DriverFile, MemoryType) -> haddr_t>,
    set_end_of_allocation: Option<unsafe extern "C" fn(*mut DriverFile, MemoryType, haddr_t) -> herr_t>,
    get_end_of_file: Option<unsafe extern "C" fn(*const DriverFile, MemoryType) -> haddr_t>,
    get_handle: UnusedCallback,
    read: Option<ReadCall>,
    write: Option<WriteCall>,
    many: [UnusedCallback; 4],
    flush: UnusedCallback,
    truncate: Option<unsafe extern "C" fn(*mut DriverFile, hid_t, bool) -> herr_t>,
    lock: [UnusedCallback; 2],
    delete: UnusedCallback,
    control: UnusedCallback,
    free_lists: [MemoryType; 7],
}

// SAFETY: the one value is a static that nobody changes: all its members are numbers, functions, and a pointer to a literal.
unsafe impl Sync for DriverClass {}

/// Behaves like the library's own driver for plain files, "sec2", except for the functions left out.
static CLASS: DriverClass = DriverClass {
    version: 1,
    // Values up to 511 are reserved for the library and for tests.
    value: 0x617a,
    name: c"azpipe".as_ptr(),
    largest_address: i64::MAX as haddr_t,
    close_degree: H5F_close_degree_t::H5F_CLOSE_WEAK,
    terminate: None,
    superblock: [None; 3],
    info_size: size_of::<DriverInfo>(),
    get_info: Some(get_info),
    copy_info: Some(copy_info),
    free_info: Some(free_info),
    transfer_size: 0,
    transfer: [None; 2],
    open: Some(open),
    close: Some(close),
    compare: Some(compare),
    query: Some(query),
    memory: [None; 3],
    get_end_of_allocation: Some(get_end_of_allocation),
    set_end_of_allocation: Some(set_end_of_allocation),
    get_end_of_file: Some(get_end_of_file),
    get_handle: None,
    read: Some(read),
    write: Some(write),
    many: [None; 4],
    flush: None,
    truncate: Some(truncate),
    lock: [None; 2],
    delete: None,
    control: None,
    // H5FD_FLMAP_DICHOTOMY: separate free lists for metadata and raw data.
    free_lists: [
        MEMORY_SUPERBLOCK,
        MEMORY_SUPERBLOCK,
        MEMORY_SUPERBLOCK,
        MEMORY_RAW_DATA,
        MEMORY_RAW_DATA,
        MEMORY_SUPERBLOCK,
        MEMORY_SUPERBLOCK,
    ],
};

/// Feature flags: aggregate and accumulate metadata, sieve raw data, aggregate small data, SWMR, and
/// compatibility with files of the default driver.
const DRIVER_FEATURES: c_ulong = 0x1 | 0x2 | 0x4 | 0x8 | 0x10 | 0x1000 | 0x8000;

unsafe extern "C" fn get_info(file: *mut DriverFile) -> *mut c_void {
    // SAFETY: the library passes what `open` gave it and `close` has not freed yet; its `info` is a pointer of an `Arc` that `open` holds
    // until `close`, which is what `copy_info` asks for.
    unsafe { copy_info((*file).info.cast()) }
}

unsafe extern "C" fn copy_info(info: *const c_void) -> *mut c_void {
    // SAFETY: the library passes what `H5Pset_driver` or one of these functions gave: a pointer from an `Arc` that is held.
    unsafe { Arc::increment_strong_count(info.cast::<DriverInfo>()) };
    info.cast_mut()
}

unsafe extern "C" fn free_info(info: *mut c_void) -> herr_t {
    // SAFETY: each pointer that `copy_info` or `get_info` gave is passed here once.
    unsafe { Arc::decrement_strong_count(info.cast::<DriverInfo>()) };
    0
}

unsafe extern "C" fn open(name: *const c_char, flags: c_uint, access: hid_t, _: haddr_t) -> *mut DriverFile {
    // SAFETY: the list is the one that is being opened with: its driver information is a `DriverInfo`, which the list
    // keeps alive meanwhile. The `Arc` must not be dropped here, because it belongs to the list.
    let info = unsafe { H5Pget_driver_info(access) }.cast::<DriverInfo>().cast_const();
    if info.is_null() {
        return null_mut();
    }
    // SAFETY: as above; the name ends in NUL.
    let (info, name) = unsafe { (ManuallyDrop::new(Arc::from_raw(info)), CStr::from_ptr(name)) };
    let storage = if name == info.name.as_c_str() {
        Arc::clone(&info.storage)
    } else if flags & H5F_ACC_RDWR != 0 {
        return null_mut();
    } else {
        let other = lock_storage(&info.storage).open_other(Path::new(OsStr::from_bytes(name.to_bytes())));
        match other {
            Ok(other) => other,
            Err(why) => {
                record_storage_error(&why);
                return null_mut();
            }
        }
    };
    if flags & H5F_ACC_TRUNC != 0 && lock_storage(&storage).set_size(0).is_err() {
        return null_mut();
    }
    Box::into_raw(Box::new(DriverFile {
        driver_id: 0,
        class: null(),
        number: 0,
        access_flags: 0,
        feature_flags: 0,
        largest_address: 0,
        base_address: 0,
        threshold: 0,
        alignment: 0,
        paged: false,
        spare: [0; 8],
        info: Arc::into_raw(Arc::clone(&info)),
        storage,
        end_of_allocation: 0,
    }))
}

unsafe extern "C" fn close(file: *mut DriverFile) -> herr_t {
    // SAFETY: the library passes what `open` gave it, a box by `Box::into_raw`, once, and does not touch it after this call.
    let file = unsafe { Box::from_raw(file) };
    // SAFETY: `open` took one reference for this file by `Arc::into_raw`, which nobody has released: a file is closed
    // once.
    unsafe { Arc::decrement_strong_count(file.info) };
    0
}

/// Compares file handles by address: every opening counts as a separate file, so that errors are not mixed up.
unsafe extern "C" fn compare(one: *const DriverFile, two: *const DriverFile) -> c_int {
    match one.cmp(&two) {
        std::cmp::Ordering::Less => -1,
        std::cmp::Ordering::Equal => 0,
        std::cmp::Ordering::Greater => 1,
    }
}

unsafe extern "C" fn query(_: *const DriverFile, flags: *mut c_ulong) -> herr_t {
    if !flags.is_null() {
        // SAFETY: the library passes NULL, or the address of an `unsigned long` of its own, to which nobody else writes under its lock.
        unsafe { *flags = DRIVER_FEATURES };
    }
    0
}

unsafe extern "C" fn get_end_of_allocation(file: *const DriverFile, _: MemoryType) -> haddr_t {
    // SAFETY: the library passes what `open` gave it and `close` has not freed yet; under its lock nobody writes to it meanwhile.
    unsafe { (*file).end_of_allocation }
}

unsafe extern "C" fn set_end_of_allocation(file: *mut DriverFile, _: MemoryType, end: haddr_t) -> herr_t {
    // SAFETY: the library passes what `open` gave it and `close` has not freed yet. It is written to under the library's lock, and no
    // function of this driver keeps a reference to this member.
    unsafe { (*file).end_of_allocation = end };
    0
}

unsafe extern "C" fn get_end_of_file(file: *const DriverFile, _: MemoryType) -> haddr_t {
    // SAFETY: the library passes what `open` gave it and `close` has not freed yet; the reference ends with this statement.
    lock_storage(unsafe { &(*file).storage }).size()
}

unsafe extern "C" fn read(
    file: *mut DriverFile,
    memory: MemoryType,
    _: hid_t,
    at: haddr_t,
    size: usize,
    buffer: *mut c_void,
) -> herr_t {
    if size == 0 {
        return 0;
    }
    // SAFETY: the library passes what `open` gave it and `close` has not freed yet, and a buffer of `size` bytes that is nobody else's
    // during the call. Its bytes are set before they are lent, for the library's own memory may be unset.
    let (storage, buffer) = unsafe {
        std::ptr::write_bytes(buffer.cast::<u8>(), 0, size);
        (&(*file).storage, std::slice::from_raw_parts_mut(buffer.cast::<u8>(), size))
    };
    to_herr(wait_for_storage(|| lock_storage(storage).read(ByteKind::from_memory_type(memory), at, buffer)))
}

unsafe extern "C" fn write(
    file: *mut DriverFile,
    memory: MemoryType,
    _: hid_t,
    at: haddr_t,
    size: usize,
    buffer: *const c_void,
) -> herr_t {
    if size == 0 {
        return 0;
    }
    // SAFETY: the library passes what `open` gave it and `close` has not freed yet, and a buffer of `size` bytes to which nobody writes
    // during the call. That all of them are set is the library's promise to write what it was given: a file would have the
    // same bytes. They are copied and digested, and decide nothing here.
    let (storage, buffer) = unsafe { (&(*file).storage, std::slice::from_raw_parts(buffer.cast::<u8>(), size)) };
    to_herr(lock_storage(storage).write(ByteKind::from_memory_type(memory), at, buffer))
}

unsafe extern "C" fn truncate(file: *mut DriverFile, _: hid_t, _: bool) -> herr_t {
    // SAFETY: the library passes what `open` gave it and `close` has not freed yet; the reference to its storage ends with this call.
    let (storage, end) = unsafe { (&(*file).storage, (*file).end_of_allocation) };
    let mut storage = lock_storage(storage);
    let is_as_long = storage.size() == end;
    to_herr(if is_as_long { Ok(()) } else { storage.set_size(end) })
}

impl ByteKind {
    fn from_memory_type(memory: MemoryType) -> Self {
        if memory == MEMORY_RAW_DATA { Self::RawData } else { Self::Metadata }
    }
}

fn to_herr(done: io::Result<()>) -> herr_t {
    match done {
        Ok(()) => 0,
        Err(why) => {
            record_storage_error(&why);
            -1
        }
    }
}

/// Locks a storage, even if another thread panicked: a panic leaves no storage in an inconsistent state.
fn lock_storage<'a>(storage: &'a Mutex<dyn Storage + 'static>) -> MutexGuard<'a, dyn Storage + 'static> {
    storage.lock().unwrap_or_else(PoisonError::into_inner)
}
