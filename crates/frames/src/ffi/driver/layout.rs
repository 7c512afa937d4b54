//! Types of the library's header H5FDdevelop.h, and the driver's own data in them.

use std::ffi::{CString, c_char, c_int, c_uint, c_ulong, c_void};

use hdf5_sys::h5::{haddr_t, herr_t, hsize_t};
use hdf5_sys::h5f::H5F_close_degree_t;
use hdf5_sys::h5i::hid_t;

use super::storage::{ByteKind, SharedStorage};

/// Driver information in a file access property list.
pub(super) struct DriverInfo {
    pub(super) name: CString,
    pub(super) storage: SharedStorage,
}

/// `H5FD_t` of H5FDdevelop.h, followed by the driver's own fields.
#[repr(C)]
pub(super) struct DriverFile {
    pub(super) driver_id: hid_t,
    pub(super) class: *const c_void,
    pub(super) number: c_ulong,
    pub(super) access_flags: c_uint,
    pub(super) feature_flags: c_ulong,
    pub(super) largest_address: haddr_t,
    pub(super) base_address: haddr_t,
    pub(super) threshold: hsize_t,
    pub(super) alignment: hsize_t,
    pub(super) paged: bool,
    /// Space for fields that a later version of the library may add to `H5FD_t`.
    pub(super) spare: [u64; 8],
    pub(super) info: *const DriverInfo,
    pub(super) storage: SharedStorage,
    pub(super) end_of_allocation: haddr_t,
}

/// `H5FD_mem_t`, as an integer because a C enum may hold any value. Only one value matters to the
/// driver.
pub(super) type MemoryType = c_int;
pub(super) const MEMORY_SUPERBLOCK: MemoryType = 1;
pub(super) const MEMORY_RAW_DATA: MemoryType = 3;

pub(super) type ReadCall =
    unsafe extern "C" fn(*mut DriverFile, MemoryType, hid_t, haddr_t, usize, *mut c_void) -> herr_t;
pub(super) type WriteCall = unsafe extern "C" fn(
    *mut DriverFile,
    MemoryType,
    hid_t,
    haddr_t,
    usize,
    *const c_void,
) -> herr_t;
/// An optional function that this driver doesn't provide.
pub(super) type UnusedCallback = Option<unsafe extern "C" fn()>;

/// `H5FD_class_t` of H5FDdevelop.h, version 1.
#[repr(C)]
pub(super) struct DriverClass {
    pub(super) version: c_uint,
    pub(super) value: c_int,
    pub(super) name: *const c_char,
    pub(super) largest_address: haddr_t,
    pub(super) close_degree: H5F_close_degree_t,
    pub(super) terminate: UnusedCallback,
    pub(super) superblock: [UnusedCallback; 3],
    pub(super) info_size: usize,
    pub(super) get_info: Option<unsafe extern "C" fn(*mut DriverFile) -> *mut c_void>,
    pub(super) copy_info: Option<unsafe extern "C" fn(*const c_void) -> *mut c_void>,
    pub(super) free_info: Option<unsafe extern "C" fn(*mut c_void) -> herr_t>,
    pub(super) transfer_size: usize,
    pub(super) transfer: [UnusedCallback; 2],
    pub(super) open:
        Option<unsafe extern "C" fn(*const c_char, c_uint, hid_t, haddr_t) -> *mut DriverFile>,
    pub(super) close: Option<unsafe extern "C" fn(*mut DriverFile) -> herr_t>,
    pub(super) compare: Option<unsafe extern "C" fn(*const DriverFile, *const DriverFile) -> c_int>,
    pub(super) query: Option<unsafe extern "C" fn(*const DriverFile, *mut c_ulong) -> herr_t>,
    pub(super) memory: [UnusedCallback; 3],
    pub(super) get_end_of_allocation:
        Option<unsafe extern "C" fn(*const DriverFile, MemoryType) -> haddr_t>,
    pub(super) set_end_of_allocation:
        Option<unsafe extern "C" fn(*mut DriverFile, MemoryType, haddr_t) -> herr_t>,
    pub(super) get_end_of_file:
        Option<unsafe extern "C" fn(*const DriverFile, MemoryType) -> haddr_t>,
    pub(super) get_handle: UnusedCallback,
    pub(super) read: Option<ReadCall>,
    pub(super) write: Option<WriteCall>,
    pub(super) many: [UnusedCallback; 4],
    pub(super) flush: UnusedCallback,
    pub(super) truncate: Option<unsafe extern "C" fn(*mut DriverFile, hid_t, bool) -> herr_t>,
    pub(super) lock: [UnusedCallback; 2],
    pub(super) delete: UnusedCallback,
    pub(super) control: UnusedCallback,
    pub(super) free_lists: [MemoryType; 7],
}

// SAFETY: the one value is a static that nobody changes: all its members are numbers, functions,
// and a pointer to a literal.
unsafe impl Sync for DriverClass {}

impl ByteKind {
    pub(super) fn from_memory_type(memory: MemoryType) -> Self {
        if memory == MEMORY_RAW_DATA { Self::RawData } else { Self::Metadata }
    }
}
