//! HDF5 filter 32015: Zstandard frames.

use std::cell::RefCell;

use zstd::bulk::Decompressor;

use super::DecodeError;
use super::error::zeroed;

const FILTER_NAME: &str = "zstd";

/// Decodes into `out`, which the stream must fill exactly.
pub(super) fn decode(stored: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
    let expected = out.len();
    let found = decompress(stored, out).map_err(|message| DecodeError::Library { filter: FILTER_NAME, message })?;
    if found == expected { Ok(()) } else { Err(DecodeError::Length { filter: FILTER_NAME, found, expected }) }
}

/// Decodes a stream of unknown length, up to `limit` bytes.
pub(super) fn decode_up_to(stored: &[u8], limit: usize) -> Result<Vec<u8>, DecodeError> {
    let mut out = zeroed(limit)?;
    let found =
        decompress(stored, &mut out).map_err(|message| DecodeError::Library { filter: FILTER_NAME, message })?;
    out.truncate(found);
    Ok(out)
}

/// Decompresses a stream into `out`; returns how many bytes it wrote, or zstd's error message.
pub(super) fn decompress(stored: &[u8], out: &mut [u8]) -> Result<usize, String> {
    thread_local! {
        /// A decompressor per thread, because creating one takes longer than decoding a block of 8 KiB.
        static CONTEXT: RefCell<Decompressor<'static>> = RefCell::new(Decompressor::default());
    }
    CONTEXT.with_borrow_mut(|context| context.decompress_to_buffer(stored, out)).map_err(|e| e.to_string())
}
