//! Writes and reads chunks as they are stored, past the filters of their dataset.

use hdf5_sys::h5d::{H5Dget_chunk_info_by_coord, H5Dread_chunk2, H5Dwrite_chunk};
use hdf5_sys::h5p::H5P_DEFAULT;

use super::{LibraryError, call_for_status, with_library_lock, zeroed_buffer};

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

/// Maximum length of a stored chunk; HDF5 allows 4 GiB.
const MAX_CHUNK_BYTES: u64 = 1 << 32;

/// Reads the stored bytes of one chunk that went through all filters of the dataset; `offset` as in
/// [`write_chunk`].
///
/// # Errors
/// The HDF5 library fails, the chunk was never written, or a filter was left out.
///
/// # Panics
/// The offset's rank differs from the dataset's.
pub fn read_chunk(dataset: &hdf5::Dataset, offset: &[u64]) -> Result<Vec<u8>, LibraryError> {
    let rank = dataset.space()?.ndim();
    assert_eq!(offset.len(), rank, "one number a dimension");
    let id = dataset.id();
    let (mut filters, mut address, mut size) = (0, 0, 0);
    // The size is that of the bytes that are read, as nobody else is in the library.
    with_library_lock(|| {
        // SAFETY: the dataset is open as long as it is borrowed; `offset` has a number for each of
        // its dimensions, and the others are places for one number each.
        call_for_status(|| unsafe {
            H5Dget_chunk_info_by_coord(
                id,
                offset.as_ptr(),
                &raw mut filters,
                &raw mut address,
                &raw mut size,
            )
        })?;
        if filters != 0 || size == 0 {
            return Err(LibraryError::new("a chunk that was not written, or left out a filter"));
        }
        let mut stored = zeroed_buffer(0_u8, size, MAX_CHUNK_BYTES)?;
        let mut length = stored.len();
        // SAFETY: as above; `stored` has as many bytes as `length` says.
        call_for_status(|| unsafe {
            H5Dread_chunk2(
                id,
                H5P_DEFAULT,
                offset.as_ptr(),
                &raw mut filters,
                stored.as_mut_ptr().cast(),
                &raw mut length,
            )
        })?;
        Ok(stored)
    })
}
