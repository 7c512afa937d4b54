//! Bitshuffle as a filter of the HDF5 library, which otherwise needs a plugin for it.

use std::ffi::{c_uint, c_void};
use std::sync::OnceLock;

use hdf5_filters::bitshuffle::{self, BlockCodec, Encoder};
use hdf5_sys::h5::{H5allocate_memory, H5free_memory};
use hdf5_sys::h5z::{H5Z_CLASS_T_VERS, H5Z_FLAG_REVERSE, H5Z_class2_t, H5Zregister};

use super::{LibraryError, call_for_status};

/// Maximum length of a decoded chunk. HDF5 allows 4 GiB, and only a damaged file has more than this.
const MAX_CHUNK_BYTES: u64 = 1 << 31;

/// Registers the filter on the first call. The caller holds the library's lock.
///
/// # Errors
/// The library has no memory.
pub(super) fn register_bitshuffle() -> Result<(), LibraryError> {
    static REGISTERED: OnceLock<Result<(), LibraryError>> = OnceLock::new();
    REGISTERED
        .get_or_init(|| {
            let class = H5Z_class2_t {
                version: H5Z_CLASS_T_VERS as _,
                id: bitshuffle::ID as _,
                encoder_present: 1,
                decoder_present: 1,
                name: c"bitshuffle".as_ptr(),
                can_apply: None,
                set_local: None,
                filter: Some(filter_chunk),
            };
            // SAFETY: `class` is what its version says; the library copies it, and keeps the name
            // and the function, which live as long as the program.
            call_for_status(|| unsafe { H5Zregister((&raw const class).cast()) }).map(drop)
        })
        .clone()
}

/// Encodes or decodes a chunk for the library: replaces the buffer, and returns the length of the
/// new content, or 0 for an error.
///
/// # Safety
/// As the library calls its filters: `parameters` has `parameter_count` numbers; `buffer` and
/// `buffer_size` are not null, and `buffer` holds `length` bytes that `H5free_memory` can free.
unsafe extern "C" fn filter_chunk(
    flags: c_uint,
    parameter_count: usize,
    parameters: *const c_uint,
    length: usize,
    buffer_size: *mut usize,
    buffer: *mut *mut c_void,
) -> usize {
    // SAFETY: the caller's promises. The slices live only as long as this call.
    let (parameters, bytes): (&[u32], &[u8]) = unsafe {
        let parameters = match parameter_count {
            0 => &[],
            count => std::slice::from_raw_parts(parameters, count),
        };
        (parameters, std::slice::from_raw_parts((*buffer).cast(), length))
    };
    let Some(codec) = BlockCodec::from_parameters(parameters) else { return 0 };
    let element = parameters[2] as usize;
    if !(1..=8).contains(&element) {
        return 0;
    }
    if flags & H5Z_FLAG_REVERSE == 0 {
        let encoded = Encoder::new(codec).and_then(|mut encoder| encoder.encode(bytes, element));
        let Ok(encoded) = encoded else { return 0 };
        // SAFETY: as this function's.
        return unsafe {
            replace(buffer, buffer_size, encoded.len(), |new| new.copy_from_slice(&encoded))
        };
    }
    let decoded = bytes.first_chunk().map(|length| u64::from_be_bytes(*length));
    let Some(decoded) = decoded.filter(|length| (1..=MAX_CHUNK_BYTES).contains(length)) else {
        return 0;
    };
    let mut is_sound = false;
    // SAFETY: as this function's. `bytes` are freed after they were decoded.
    let length = unsafe {
        replace(buffer, buffer_size, decoded as usize, |new| {
            is_sound = bitshuffle::decode(codec, bytes, element, new).is_ok();
        })
    };
    if is_sound { length } else { 0 }
}

/// Replaces the library's buffer by one of `length` bytes, which `fill` fills. Returns the length;
/// 0 if there is no memory.
///
/// # Safety
/// `buffer` and `buffer_size` are the library's, as [`filter_chunk`] gets them.
unsafe fn replace(
    buffer: *mut *mut c_void,
    buffer_size: *mut usize,
    length: usize,
    fill: impl FnOnce(&mut [u8]),
) -> usize {
    // SAFETY: the new buffer has `length` bytes, which are zeroed and nobody else's. The old one is
    // the library's own, and not used after it was freed.
    unsafe {
        let new: *mut u8 = H5allocate_memory(length, 1).cast();
        if new.is_null() {
            return 0;
        }
        fill(std::slice::from_raw_parts_mut(new, length));
        H5free_memory(*buffer);
        *buffer = new.cast();
        *buffer_size = length;
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::with_library_lock;

    #[test]
    fn the_library_writes_and_reads_what_is_bitshuffled() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.h5");
        with_library_lock(register_bitshuffle).unwrap();
        let values: Vec<f32> = (0..5000).map(|index| (index as f32).sqrt()).collect();
        for codec in [BlockCodec::Lz4, BlockCodec::Zstd] {
            let file = hdf5::File::create(&path).unwrap();
            let builder = file.new_dataset::<f32>().chunk(3000).shape(5000);
            let data = builder.add_filter(bitshuffle::ID as _, &codec.parameters(4)).create("x");
            data.unwrap().write_raw(&values).unwrap();
            file.close().unwrap();
            let data = hdf5::File::open(&path).unwrap().dataset("x").unwrap();
            assert_eq!(data.read_raw::<f32>().unwrap(), values);
            assert!(data.storage_size() < 4 * 5000, "it is compressed");
        }
    }
}
