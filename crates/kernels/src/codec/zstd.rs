//! HDF5 filter 32015: Zstandard frames.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

use zstd::bulk::Decompressor;

use super::error::{DecodeError, zeroed};
use super::filter::{FilterDecoder, SupportedFilter};

const ID: u32 = 32015;
const FILTER_NAME: &str = hdf5_filters::filter_name(ID).expect("a filter with a name");

pub(super) const FILTER: SupportedFilter =
    SupportedFilter { id: ID, decoder: |_, _| Ok(Arc::new(Zstd)) };

/// The filter has no parameter that decoding needs.
#[derive(Debug)]
struct Zstd;

impl FilterDecoder for Zstd {
    fn decode_into(&self, stored: &[u8], out: &mut [u8], len: usize) -> Result<(), DecodeError> {
        decode(stored, &mut out[..len])
    }

    fn decode_up_to<'a>(
        &self,
        stored: Cow<'a, [u8]>,
        limit: usize,
    ) -> Result<Cow<'a, [u8]>, DecodeError> {
        decode_up_to(&stored, limit).map(Cow::Owned)
    }
}

/// Decodes into `out`, which the stream must fill exactly.
fn decode(stored: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
    let expected = out.len();
    let found = decompress(stored, out)
        .map_err(|message| DecodeError::Library { filter: FILTER_NAME, message })?;
    if found == expected {
        Ok(())
    } else {
        Err(DecodeError::Length { filter: FILTER_NAME, found, expected })
    }
}

/// Decodes a stream of unknown length, up to `limit` bytes.
fn decode_up_to(stored: &[u8], limit: usize) -> Result<Vec<u8>, DecodeError> {
    let mut out = zeroed(limit)?;
    let found = decompress(stored, &mut out)
        .map_err(|message| DecodeError::Library { filter: FILTER_NAME, message })?;
    out.truncate(found);
    Ok(out)
}

/// Decompresses a stream into `out`; returns how many bytes it wrote, or zstd's error message.
pub(super) fn decompress(stored: &[u8], out: &mut [u8]) -> Result<usize, String> {
    thread_local! {
        /// A decompressor per thread, because creating one takes longer than decoding a block of 8
        /// KiB.
        static CONTEXT: RefCell<Decompressor<'static>> = RefCell::new(Decompressor::default());
    }
    CONTEXT
        .with_borrow_mut(|context| context.decompress_to_buffer(stored, out))
        .map_err(|e| e.to_string())
}
