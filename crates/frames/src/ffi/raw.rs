//! Functions of the library that return C enums, declared to return the integers that they are.
//!
//! The bindings declare Rust enums, and an enum with a value that it does not list is undefined behaviour: what a damaged file
//! or a newer library brings along must not decide that. As an integer, an unknown value is compared and refused.

use std::ffi::c_int;

use hdf5_sys::h5i::hid_t;

// SAFETY: each is declared as in the library's headers (H5Dpublic.h, H5Ipublic.h, H5Ppublic.h, H5Spublic.h, H5Tpublic.h), but
// that an enum is a `c_int`, which is how C compilers of this system pass an enum with negative values.
unsafe extern "C" {
    /// Negative: an error. See [`TYPE_INTEGER`] and those below it.
    pub(super) fn H5Tget_class(kind: hid_t) -> c_int;
    /// 1 is big-endian.
    pub(super) fn H5Tget_order(kind: hid_t) -> c_int;
    /// 1 is two's complement.
    pub(super) fn H5Tget_sign(kind: hid_t) -> c_int;
    /// 0 is ASCII, 1 UTF-8.
    pub(super) fn H5Tget_cset(kind: hid_t) -> c_int;
    /// Takes what `H5Tget_cset` gives.
    pub(super) fn H5Tset_cset(kind: hid_t, set: c_int) -> c_int;
    /// See [`LAYOUT_COMPACT`] and those below it.
    pub(super) fn H5Pget_layout(creation: hid_t) -> c_int;
    /// Fills in the kind of a chunk index: see [`INDEX_BTREE`].
    pub(super) fn H5Dget_chunk_index_type(dataset: hid_t, kind: *mut c_int) -> c_int;
    /// See [`SELECTED_HYPERSLABS`] and those below it.
    pub(super) fn H5Sget_select_type(space: hid_t) -> c_int;
    /// See [`IS_FILE`] and those below it.
    pub(super) fn H5Iget_type(id: hid_t) -> c_int;
}

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

/// The B-tree of versions before 1.10, the only index without a checksum.
pub(super) const INDEX_BTREE: c_int = 0;

pub(super) const SELECTED_HYPERSLABS: c_int = 2;
pub(super) const SELECTED_ALL: c_int = 3;

pub(super) const IS_FILE: c_int = 1;
pub(super) const IS_GROUP: c_int = 2;
pub(super) const IS_DATASET: c_int = 5;
