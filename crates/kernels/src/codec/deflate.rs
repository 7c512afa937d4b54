//! HDF5 filter 1: a zlib stream.

use std::borrow::Cow;
use std::sync::Arc;

use flate2::{Decompress, FlushDecompress, Status};

use super::error::{DecodeError, zeroed};
use super::filter::{FilterDecoder, SupportedFilter};

const ID: u32 = 1;
const FILTER_NAME: &str = hdf5_filters::filter_name(ID).expect("a filter with a name");

pub(super) const FILTER: SupportedFilter =
    SupportedFilter { id: ID, decoder: |_, _| Ok(Arc::new(Deflate)) };

/// The filter has no parameter that decoding needs.
#[derive(Debug)]
struct Deflate;

impl FilterDecoder for Deflate {
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

/// Inflates into `out`, which the stream must fill exactly.
pub(super) fn decode(stored: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
    let (found, ended) = inflate(stored, out)?;
    let expected = out.len();
    if !ended && found == expected {
        let message =
            format!("the stream has more than the expected {expected} bytes, or is truncated");
        return Err(DecodeError::Library { filter: FILTER_NAME, message });
    }
    if found != expected {
        Err(DecodeError::Length { filter: FILTER_NAME, found, expected })
    } else {
        Ok(())
    }
}

/// Inflates a stream of unknown length, up to `limit` bytes.
fn decode_up_to(stored: &[u8], limit: usize) -> Result<Vec<u8>, DecodeError> {
    let mut out = zeroed(limit)?;
    let (found, ended) = inflate(stored, &mut out)?;
    if !ended {
        let message = format!("the stream is truncated, or decodes to more than {limit} bytes");
        return Err(DecodeError::Library { filter: FILTER_NAME, message });
    }
    out.truncate(found);
    Ok(out)
}

/// Inflates into `out`; returns how many bytes it wrote, and whether it reached the end of the
/// stream.
fn inflate(stored: &[u8], out: &mut [u8]) -> Result<(usize, bool), DecodeError> {
    let mut inflate = Decompress::new(true);
    let mut ended = false;
    // The trailing checksum may need a call of its own, once the output is full.
    for _ in 0..2 {
        let (read, written) = (inflate.total_in() as usize, inflate.total_out() as usize);
        let status = inflate
            .decompress(&stored[read..], &mut out[written..], FlushDecompress::Finish)
            .map_err(|e| DecodeError::Library { filter: FILTER_NAME, message: e.to_string() })?;
        ended = status == Status::StreamEnd;
        if ended {
            break;
        }
    }
    Ok((inflate.total_out() as usize, ended))
}
