//! HDF5 filter 3: a Fletcher checksum after the data.

use std::borrow::Cow;
use std::sync::Arc;

use super::error::DecodeError;
use super::filter::{FilterDecoder, SupportedFilter};

const ID: u32 = 3;
const FILTER_NAME: &str = hdf5_filters::filter_name(ID).expect("a filter with a name");

pub(super) const FILTER: SupportedFilter =
    SupportedFilter { id: ID, decoder: |_, _| Ok(Arc::new(Fletcher32)) };

/// The filter has no parameters.
#[derive(Debug)]
struct Fletcher32;

impl FilterDecoder for Fletcher32 {
    fn decode_into(&self, stored: &[u8], out: &mut [u8], len: usize) -> Result<(), DecodeError> {
        let data = verify(stored)?;
        if data.len() != len {
            return Err(DecodeError::Length {
                filter: FILTER_NAME,
                found: data.len(),
                expected: len,
            });
        }
        out[..len].copy_from_slice(data);
        Ok(())
    }

    fn decode_up_to<'a>(
        &self,
        stored: Cow<'a, [u8]>,
        _: usize,
    ) -> Result<Cow<'a, [u8]>, DecodeError> {
        let kept = verify(&stored)?.len();
        Ok(match stored {
            Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[..kept]),
            Cow::Owned(mut bytes) => {
                bytes.truncate(kept);
                Cow::Owned(bytes)
            }
        })
    }

    fn decode_to_length<'a>(
        &self,
        stored: Cow<'a, [u8]>,
        len: usize,
    ) -> Result<Cow<'a, [u8]>, DecodeError> {
        // The data stay where they are; the filter that is undone next checks their length.
        self.decode_up_to(stored, len)
    }
}

/// Verifies the checksum and returns the data before it.
fn verify(stored: &[u8]) -> Result<&[u8], DecodeError> {
    let Some((data, checksum)) = stored.split_last_chunk::<4>() else {
        return Err(DecodeError::Length { filter: FILTER_NAME, found: stored.len(), expected: 4 });
    };
    let (stored, computed) = (u32::from_le_bytes(*checksum), fletcher32(data));
    // HDF5 before 1.6.3 wrote the bytes of each half swapped on little-endian machines; the library
    // still takes both.
    let swapped = (computed & 0x00ff_00ff) << 8 | (computed & 0xff00_ff00) >> 8;
    if stored == computed || stored == swapped {
        Ok(data)
    } else {
        Err(DecodeError::Checksum { stored, computed })
    }
}

/// Computes the checksum: two 16-bit sums in ones' complement over big-endian 16-bit words. An odd
/// last byte is the high byte of a word.
fn fletcher32(data: &[u8]) -> u32 {
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    let (mut low, mut high) = (0u32, 0u32);
    // After at most 360 words the sums are folded to 16 bits; more words could overflow 32 bits.
    for run in data.chunks(720) {
        for word in run.chunks(2) {
            low += u32::from(word[0]) << 8 | word.get(1).map_or(0, |&b| u32::from(b));
            high += low;
        }
        (low, high) = (fold(low), fold(high));
    }
    fold(high) << 16 | fold(low)
}
