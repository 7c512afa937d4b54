//! Reads the extents of dataspaces.

use std::ptr::null_mut;

use hdf5_sys::h5s::{H5Sget_simple_extent_dims, H5Sget_simple_extent_ndims};

use super::{Hdf5Id, LibraryError, call_for_status, zeroed_buffer};

/// Maximum number of dimensions of an HDF5 dataset.
pub(super) const MAX_RANK: usize = 32;

/// Returns the extents of a dataspace, empty for a scalar.
pub(super) fn dataspace_shape(space: &Hdf5Id) -> Result<Vec<u64>, LibraryError> {
    // SAFETY: the call takes only a number; the dataspace is open for as long as its handle lives.
    let rank = call_for_status(|| unsafe { H5Sget_simple_extent_ndims(space.0) })?;
    let mut extents = zeroed_buffer(0, rank, MAX_RANK as u64)?;
    // SAFETY: the library writes a number a dimension, and the buffer has as many: the rank was
    // read from this dataspace, which is a copy that only its handle has. NULL for the largest
    // extents is allowed.
    call_for_status(|| unsafe {
        H5Sget_simple_extent_dims(space.0, extents.as_mut_ptr(), null_mut())
    })?;
    Ok(extents)
}
