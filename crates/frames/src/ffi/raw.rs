//! Declares functions of the library that return C enums with integer return types.
//!
//! The bindings declare Rust enums, for which an unlisted value is undefined behaviour. A damaged
//! file or a newer library may produce such a value; as an integer, it is compared and rejected.

use std::ffi::{c_int, c_long, c_uint, c_ulong};

use hdf5_sys::h5i::hid_t;

// SAFETY: each is declared as in the library's headers (H5Dpublic.h, H5Ipublic.h, H5Opublic.h,
// H5Ppublic.h, H5Spublic.h, H5Tpublic.h), but that an enum is a `c_int`, which is how C compilers of this system
// pass an enum with negative values.
unsafe extern "C" {
    /// Returns a negative value on error. See [`TYPE_INTEGER`] and the constants below it.
    pub(super) fn H5Tget_class(kind: hid_t) -> c_int;
    /// Returns 1 for big-endian.
    pub(super) fn H5Tget_order(kind: hid_t) -> c_int;
    /// Returns 1 for two's complement.
    pub(super) fn H5Tget_sign(kind: hid_t) -> c_int;
    /// Returns 0 for ASCII, 1 for UTF-8.
    pub(super) fn H5Tget_cset(kind: hid_t) -> c_int;
    /// Sets the character set to a result of `H5Tget_cset`.
    pub(super) fn H5Tset_cset(kind: hid_t, set: c_int) -> c_int;
    /// Returns a layout: see [`LAYOUT_COMPACT`] and the constants below it.
    pub(super) fn H5Pget_layout(creation: hid_t) -> c_int;
    /// Stores the kind of a chunk index in `kind`: see [`INDEX_BTREE`].
    pub(super) fn H5Dget_chunk_index_type(dataset: hid_t, kind: *mut c_int) -> c_int;
    /// Returns a kind of selection: see [`SELECTED_HYPERSLABS`] and the constants below it.
    pub(super) fn H5Sget_select_type(space: hid_t) -> c_int;
    /// Returns a kind of object: see [`IS_FILE`] and the constants below it.
    pub(super) fn H5Iget_type(id: hid_t) -> c_int;
    /// Fills in the members of `info` that `fields` selects: see [`INFO_BASIC`].
    pub(super) fn H5Oget_info3(object: hid_t, info: *mut ObjectInfo, fields: c_uint) -> c_int;
}

/// `H5O_info2_t` of H5Opublic.h, with an integer in place of the enum of object types.
#[repr(C)]
#[derive(Default)]
pub(super) struct ObjectInfo {
    file: c_ulong,
    /// In files of the native format: the address of the object header, little-endian, in 8 bytes.
    pub token: [u8; 16],
    kind: c_int,
    references: c_uint,
    times: [c_long; 4],
    attributes: u64,
}

/// Selects all members of [`ObjectInfo`] but times and attributes.
pub(super) const INFO_BASIC: c_uint = 1;

pub(super) const TYPE_INTEGER: c_int = 0;
pub(super) const TYPE_FLOAT: c_int = 1;
pub(super) const TYPE_STRING: c_int = 3;
pub(super) const TYPE_ENUM: c_int = 8;

pub(super) const ORDER_BIG_ENDIAN: c_int = 1;
pub(super) const SIGN_TWOS_COMPLEMENT: c_int = 1;

pub(super) const LAYOUT_COMPACT: c_int = 0;
pub(super) const LAYOUT_CONTIGUOUS: c_int = 1;
pub(super) const LAYOUT_CHUNKED: c_int = 2;
pub(super) const LAYOUT_VIRTUAL: c_int = 3;

/// The B-tree of versions before 1.10, the only chunk index without a checksum.
pub(super) const INDEX_BTREE: c_int = 0;

pub(super) const SELECTED_HYPERSLABS: c_int = 2;
pub(super) const SELECTED_ALL: c_int = 3;

pub(super) const IS_FILE: c_int = 1;
pub(super) const IS_GROUP: c_int = 2;
pub(super) const IS_DATASET: c_int = 5;
