//! HDF5 filter 32004: LZ4 blocks after a header of 12 bytes.
//!
//! Layout, big-endian: u64 decoded bytes, u32 block size in bytes; then for each block u32 stored
//! bytes and the block. A block whose stored length equals its decoded length is not compressed.
//! The last block may be short.

use std::borrow::Cow;
use std::sync::Arc;

use super::error::{ByteCursor, DecodeError, StreamFault, zeroed};
use super::filter::{FilterDecoder, SupportedFilter};
use crate::lz4_block::SLACK;
use crate::simd::{Isa, Kernel, Simd};

const ID: u32 = 32004;
const FILTER_NAME: &str = hdf5_filters::filter_name(ID).expect("a filter with a name");

pub(super) const FILTER: SupportedFilter =
    SupportedFilter { id: ID, decoder: |_, _| Ok(Arc::new(Lz4)) };

/// The filter has no parameter that decoding needs.
#[derive(Debug)]
struct Lz4;

impl FilterDecoder for Lz4 {
    fn decode_into(&self, stored: &[u8], out: &mut [u8], len: usize) -> Result<(), DecodeError> {
        decode(stored, out, len)
    }

    fn decode_up_to<'a>(
        &self,
        stored: Cow<'a, [u8]>,
        limit: usize,
    ) -> Result<Cow<'a, [u8]>, DecodeError> {
        decode_up_to(&stored, limit).map(Cow::Owned)
    }
}

/// Decodes into the first `len` bytes of `out`, which the stream must fill exactly. The bytes after
/// them may be overwritten; if there are [`SLACK`] of them, the last block needs no copy.
fn decode(stored: &[u8], out: &mut [u8], len: usize) -> Result<(), DecodeError> {
    let mut cursor = ByteCursor::new(stored);
    let header =
        read_header(&mut cursor).and_then(|(total, block_size)| match total == len as u64 {
            true => Ok(block_size),
            false => Err(StreamFault::DeclaredLength { found: total, expected: len }),
        });
    let block_size =
        header.map_err(|fault| DecodeError::Header { filter: FILTER_NAME, offset: 0, fault })?;
    for (block, start) in (0..len).step_by(block_size).enumerate() {
        let (offset, block_len) = (cursor.offset(), block_size.min(len - start));
        decode_block(&mut cursor, &mut out[start..], block_len)
            .map_err(|fault| DecodeError::Block { filter: FILTER_NAME, block, offset, fault })?;
    }
    Ok(())
}

/// Decodes a stream whose length only its header tells, up to `limit` bytes.
fn decode_up_to(stored: &[u8], limit: usize) -> Result<Vec<u8>, DecodeError> {
    let (total, _) = read_header(&mut ByteCursor::new(stored))
        .map_err(|fault| DecodeError::Header { filter: FILTER_NAME, offset: 0, fault })?;
    if total > limit as u64 {
        let fault = StreamFault::DeclaredLength { found: total, expected: limit };
        return Err(DecodeError::Header { filter: FILTER_NAME, offset: 0, fault });
    }
    let mut out = zeroed(total as usize)?;
    decode(stored, &mut out, total as usize)?;
    Ok(out)
}

/// Reads the header: decoded bytes and block size.
fn read_header(cursor: &mut ByteCursor<'_>) -> Result<(u64, usize), StreamFault> {
    let (total, block_size) = (cursor.take_u64()?, cursor.take_u32()?);
    if block_size == 0 && total != 0 {
        Err(StreamFault::BlockSize(0))
    } else {
        Ok((total, block_size.max(1) as usize))
    }
}

/// Decodes the next block into the first `len` bytes of `out`; up to [`SLACK`] bytes after them may
/// be overwritten.
fn decode_block(
    cursor: &mut ByteCursor<'_>,
    out: &mut [u8],
    len: usize,
) -> Result<(), StreamFault> {
    let stored = cursor.take_u32()? as usize;
    let block = cursor.take(stored)?;
    if stored == len {
        out[..len].copy_from_slice(block);
        return Ok(());
    }
    match decompress_block(block, out, len) {
        true => Ok(()),
        false => Err(StreamFault::Corrupt { codec: "LZ4", expected: len }),
    }
}

/// Decompresses a raw LZ4 block into the first `len` bytes of `out`, and returns whether it has as
/// many. Up to [`SLACK`] bytes after them may be overwritten.
pub(super) fn decompress_block(block: &[u8], out: &mut [u8], len: usize) -> bool {
    if let Some(padded) = out.get_mut(..len + SLACK) {
        return Isa::fastest().run(DecompressWithSlack { block, out: padded, len });
    }
    let mut padded = vec![0; len + SLACK];
    let is_valid = Isa::fastest().run(DecompressWithSlack { block, out: &mut padded, len });
    out[..len].copy_from_slice(&padded[..len]);
    is_valid
}

/// Decompresses a block; see [`Simd::decompress_with_slack`].
struct DecompressWithSlack<'a> {
    block: &'a [u8],
    out: &'a mut [u8],
    len: usize,
}

impl Kernel for DecompressWithSlack<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> bool {
        simd.decompress_with_slack(self.block, self.out, self.len)
    }
}
