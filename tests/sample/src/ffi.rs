//! The calls of the HDF5 library that its crate does not wrap: chunks written as they are, and
//! filters that the library is told of without knowing how to apply them.

use std::ffi::{c_uint, c_void};

use hdf5::Dataset;
use hdf5_sys::h5z::{H5Z_CLASS_T_VERS, H5Z_class2_t, H5Zregister};

/// Writes `bytes` as the stored chunk of `dataset` whose first element is at `origin`. Bit n of
/// `filter_mask` says that filter n was left out.
///
/// # Errors
/// HDF5's, for instance if no chunk begins at `origin`.
///
/// # Panics
/// If `origin` does not have one index per dimension.
#[allow(unsafe_code)]
pub fn write_chunk(
    dataset: &Dataset,
    origin: &[u64],
    filter_mask: u32,
    bytes: &[u8],
) -> hdf5::Result<()> {
    assert_eq!(origin.len(), dataset.ndim(), "one index a dimension");
    // SAFETY: the dataset is open for as long as it is borrowed, `origin` has its rank, and
    // the length is that of `bytes`. The library is not reentrant: `sync` takes its lock.
    let status = hdf5::sync::sync(|| unsafe {
        hdf5_sys::h5d::H5Dwrite_chunk(
            dataset.id(),
            hdf5_sys::h5p::H5P_DEFAULT,
            filter_mask,
            origin.as_ptr(),
            bytes.len(),
            bytes.as_ptr().cast(),
        )
    });
    if status < 0 {
        return Err(
            format!("chunk at {origin:?} of {}: HDF5 did not write it", dataset.name()).into()
        );
    }
    Ok(())
}

/// Lets this process create datasets whose header names filter `id`. Their chunks must be
/// written with [`write_chunk`]: the library itself can neither filter nor read them.
///
/// # Errors
/// HDF5's, for instance if `id` is not the number of a filter.
#[allow(unsafe_code)]
pub fn announce_filter(id: i32) -> hdf5::Result<()> {
    let class = H5Z_class2_t {
        version: H5Z_CLASS_T_VERS as _,
        id,
        encoder_present: 1,
        decoder_present: 1,
        // The name that the library writes into files. HDF5 looks it up when it reckons the room for it and
        // again when it writes it, so two threads must not register a filter under two names.
        name: c"bitshuffle".as_ptr(),
        can_apply: None,
        set_local: None,
        filter: Some(refuse),
    };
    // SAFETY: the library copies the class, whose name and function are static.
    let status = hdf5::sync::sync(|| unsafe { H5Zregister((&raw const class).cast()) });
    if status < 0 { Err(format!("filter {id}: HDF5 did not register it").into()) } else { Ok(()) }
}

/// The filter itself: it fails, which it says by a length of 0.
extern "C" fn refuse(
    _flags: c_uint,
    _count: usize,
    _values: *const c_uint,
    _bytes: usize,
    _size: *mut usize,
    _buffer: *mut *mut c_void,
) -> usize {
    0
}
