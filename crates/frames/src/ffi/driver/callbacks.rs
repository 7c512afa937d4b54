//! The driver's functions, which the library calls.

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::io;
use std::mem::ManuallyDrop;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hdf5_sys::h5::{haddr_t, herr_t};
use hdf5_sys::h5f::{H5F_ACC_RDWR, H5F_ACC_TRUNC, H5F_close_degree_t};
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5p::H5Pget_driver_info;

use super::super::record_storage_error;
use super::layout::{
    DriverClass, DriverFile, DriverInfo, MEMORY_RAW_DATA, MEMORY_SUPERBLOCK, MemoryType,
};
use super::storage::{ByteKind, Storage};
use crate::storage_wait::wait_for_storage;

/// Behaves like the library's own driver for plain files, "sec2", except for the functions left
/// out.
pub(super) static CLASS: DriverClass = DriverClass {
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

/// Feature flags: aggregate and accumulate metadata, sieve raw data, aggregate small data, SWMR,
/// and compatibility with files of the default driver.
const DRIVER_FEATURES: c_ulong = 0x1 | 0x2 | 0x4 | 0x8 | 0x10 | 0x1000 | 0x8000;

unsafe extern "C" fn get_info(file: *mut DriverFile) -> *mut c_void {
    // SAFETY: the library passes what `open` gave it and `close` has not freed yet; its `info` is a
    // pointer of an `Arc` that `open` holds until `close`, which is what `copy_info` asks for.
    unsafe { copy_info((*file).info.cast()) }
}

unsafe extern "C" fn copy_info(info: *const c_void) -> *mut c_void {
    // SAFETY: the library passes what `H5Pset_driver` or one of these functions gave: a pointer
    // from an `Arc` that is held.
    unsafe { Arc::increment_strong_count(info.cast::<DriverInfo>()) };
    info.cast_mut()
}

unsafe extern "C" fn free_info(info: *mut c_void) -> herr_t {
    // SAFETY: each pointer that `copy_info` or `get_info` gave is passed here once.
    unsafe { Arc::decrement_strong_count(info.cast::<DriverInfo>()) };
    0
}

unsafe extern "C" fn open(
    name: *const c_char,
    flags: c_uint,
    access: hid_t,
    _: haddr_t,
) -> *mut DriverFile {
    // SAFETY: the list is the one that is being opened with: its driver information is a
    // `DriverInfo`, which the list keeps alive meanwhile. The `Arc` must not be dropped here,
    // because it belongs to the list.
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
        let other =
            lock_storage(&info.storage).open_other(Path::new(OsStr::from_bytes(name.to_bytes())));
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
    // SAFETY: the library passes what `open` gave it, a box by `Box::into_raw`, once, and does not
    // touch it after this call.
    let file = unsafe { Box::from_raw(file) };
    // SAFETY: `open` took one reference for this file by `Arc::into_raw`, which nobody has
    // released: a file is closed once.
    unsafe { Arc::decrement_strong_count(file.info) };
    0
}

/// Compares file handles by address: every opening counts as a separate file, so that errors are
/// not mixed up.
unsafe extern "C" fn compare(one: *const DriverFile, two: *const DriverFile) -> c_int {
    match one.cmp(&two) {
        std::cmp::Ordering::Less => -1,
        std::cmp::Ordering::Equal => 0,
        std::cmp::Ordering::Greater => 1,
    }
}

unsafe extern "C" fn query(_: *const DriverFile, flags: *mut c_ulong) -> herr_t {
    if !flags.is_null() {
        // SAFETY: the library passes NULL, or the address of an `unsigned long` of its own, to
        // which nobody else writes under its lock.
        unsafe { *flags = DRIVER_FEATURES };
    }
    0
}

unsafe extern "C" fn get_end_of_allocation(file: *const DriverFile, _: MemoryType) -> haddr_t {
    // SAFETY: the library passes what `open` gave it and `close` has not freed yet; under its lock
    // nobody writes to it meanwhile.
    unsafe { (*file).end_of_allocation }
}

unsafe extern "C" fn set_end_of_allocation(
    file: *mut DriverFile,
    _: MemoryType,
    end: haddr_t,
) -> herr_t {
    // SAFETY: the library passes what `open` gave it and `close` has not freed yet. It is written
    // to under the library's lock, and no function of this driver keeps a reference to this member.
    unsafe { (*file).end_of_allocation = end };
    0
}

unsafe extern "C" fn get_end_of_file(file: *const DriverFile, _: MemoryType) -> haddr_t {
    // SAFETY: the library passes what `open` gave it and `close` has not freed yet; the reference
    // ends with this statement.
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
    // SAFETY: the library passes what `open` gave it and `close` has not freed yet, and a buffer of
    // `size` bytes that is nobody else's during the call. Its bytes are set before they are lent,
    // for the library's own memory may be unset.
    let (storage, buffer) = unsafe {
        std::ptr::write_bytes(buffer.cast::<u8>(), 0, size);
        (&(*file).storage, std::slice::from_raw_parts_mut(buffer.cast::<u8>(), size))
    };
    to_herr(wait_for_storage(|| {
        lock_storage(storage).read(ByteKind::from_memory_type(memory), at, buffer)
    }))
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
    // SAFETY: the library passes what `open` gave it and `close` has not freed yet, and a buffer of
    // `size` bytes to which nobody writes during the call. That all of them are set is the
    // library's promise to write what it was given: a file would have the same bytes. They are
    // copied and digested, and decide nothing here.
    let (storage, buffer) =
        unsafe { (&(*file).storage, std::slice::from_raw_parts(buffer.cast::<u8>(), size)) };
    to_herr(lock_storage(storage).write(ByteKind::from_memory_type(memory), at, buffer))
}

unsafe extern "C" fn truncate(file: *mut DriverFile, _: hid_t, _: bool) -> herr_t {
    // SAFETY: the library passes what `open` gave it and `close` has not freed yet; the reference
    // to its storage ends with this call.
    let (storage, end) = unsafe { (&(*file).storage, (*file).end_of_allocation) };
    let mut storage = lock_storage(storage);
    let is_as_long = storage.size() == end;
    to_herr(if is_as_long { Ok(()) } else { storage.set_size(end) })
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

/// Locks a storage, even if another thread panicked: a panic leaves no storage in an inconsistent
/// state.
fn lock_storage<'a>(
    storage: &'a Mutex<dyn Storage + 'static>,
) -> MutexGuard<'a, dyn Storage + 'static> {
    storage.lock().unwrap_or_else(PoisonError::into_inner)
}
