//! Writes chunks that are already compressed.

use hdf5_sys::h5d::H5Dwrite_chunk;
use hdf5_sys::h5p::H5P_DEFAULT;

use super::{LibraryError, call_for_status};

/// Writes one chunk that the caller has already passed through all filters of the dataset. Filters
/// in the caller's own threads don't need the library's global lock.
///
/// `offset` is the position of the chunk's first element, in elements of each dimension.
///
/// # Errors
/// The HDF5 library fails.
///
/// # Panics
/// The offset's rank differs from the dataset's.
pub fn write_chunk(
    dataset: &hdf5::Dataset,
    offset: &[u64],
    stored: &[u8],
) -> Result<(), LibraryError> {
    let rank = dataset.space()?.ndim();
    assert_eq!(offset.len(), rank, "one number a dimension");
    let id = dataset.id();
    // SAFETY: the dataset is open as long as it is borrowed; `offset` has a number for each of its
    // dimensions, and `stored` as many bytes as its length says. The library reads both and keeps
    // neither.
    let write = || unsafe {
        H5Dwrite_chunk(id, H5P_DEFAULT, 0, offset.as_ptr(), stored.len(), stored.as_ptr().cast())
    };
    call_for_status(write).map(drop)
}
