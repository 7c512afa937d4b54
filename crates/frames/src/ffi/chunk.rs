//! Chunks written as they are to be stored.

use hdf5_sys::h5d::H5Dwrite_chunk;
use hdf5_sys::h5p::H5P_DEFAULT;

use super::call_for_status;

/// Writes one chunk of a dataset whose filters it has been through already, as all of them: filters that run in
/// threads of one's own do not wait for the library's lock.
///
/// `offset` is where the chunk begins, in elements of each dimension.
///
/// # Errors
/// What the library says.
///
/// # Panics
/// An offset of another rank than the dataset's.
pub fn write_chunk(dataset: &hdf5::Dataset, offset: &[u64], stored: &[u8]) -> Result<(), String> {
    assert_eq!(offset.len(), dataset.ndim(), "one number a dimension");
    let id = dataset.id();
    // SAFETY: the dataset is open as long as it is borrowed; `offset` has a number for each of its dimensions, and
    // `stored_dataset` as many bytes as are said. The library reads both and keeps neither.
    let write = || unsafe { H5Dwrite_chunk(id, H5P_DEFAULT, 0, offset.as_ptr(), stored.len(), stored.as_ptr().cast()) };
    call_for_status(write).map(drop).map_err(|flaw| flaw.why)
}
