//! HDF5 filter 32004: LZ4 blocks behind a header of 12 bytes.
//!
//! Layout, big-endian: u64 decoded bytes, u32 block size in bytes; then for each block u32 stored bytes and the block.
//! A block that is stored in as many bytes as it decodes to is stored as it is. The last block may be short.

use super::error::{Cursor, DecodeError, Fault, zeroed};
use crate::backend;
use crate::lz4::SLACK;

const FILTER: &str = "lz4";

/// Decodes into the first `len` bytes of `out`, which the stream must fill exactly. What is behind them may be
/// overwritten; with [`SLACK`] bytes there, the last block needs no copy.
pub(super) fn decode(stored: &[u8], out: &mut [u8], len: usize) -> Result<(), DecodeError> {
    let mut cursor = Cursor::new(stored);
    let header = header(&mut cursor).and_then(|(total, block_size)| match total == len as u64 {
        true => Ok(block_size),
        false => Err(Fault::Announced { found: total, expected: len }),
    });
    let block_size = header.map_err(|fault| DecodeError::Header { filter: FILTER, offset: 0, fault })?;
    for (block, start) in (0..len).step_by(block_size).enumerate() {
        let (offset, block_len) = (cursor.offset(), block_size.min(len - start));
        decode_block(&mut cursor, &mut out[start..], block_len).map_err(|fault| DecodeError::Block {
            filter: FILTER,
            block,
            offset,
            fault,
        })?;
    }
    Ok(())
}

/// Decodes a stream whose length only its header knows, as much as `limit` bytes.
pub(super) fn decode_up_to(stored: &[u8], limit: usize) -> Result<Vec<u8>, DecodeError> {
    let (total, _) =
        header(&mut Cursor::new(stored)).map_err(|fault| DecodeError::Header { filter: FILTER, offset: 0, fault })?;
    if total > limit as u64 {
        let fault = Fault::Announced { found: total, expected: limit };
        return Err(DecodeError::Header { filter: FILTER, offset: 0, fault });
    }
    let mut out = zeroed(total as usize)?;
    decode(stored, &mut out, total as usize)?;
    Ok(out)
}

/// Decoded bytes, and the block size.
fn header(cursor: &mut Cursor<'_>) -> Result<(u64, usize), Fault> {
    let (total, block_size) = (cursor.take_u64()?, cursor.take_u32()?);
    if block_size == 0 && total != 0 { Err(Fault::BlockSize(0)) } else { Ok((total, block_size.max(1) as usize)) }
}

/// Decodes the next block into the first `len` bytes of `out`, and maybe over what is behind them.
fn decode_block(cursor: &mut Cursor<'_>, out: &mut [u8], len: usize) -> Result<(), Fault> {
    let stored = cursor.take_u32()? as usize;
    let block = cursor.take(stored)?;
    if stored == len {
        out[..len].copy_from_slice(block);
        return Ok(());
    }
    let sound = match out.get_mut(..len + SLACK) {
        Some(roomy) => backend::expand_over(block, roomy, len),
        None => {
            let mut roomy = vec![0; len + SLACK];
            let sound = backend::expand_over(block, &mut roomy, len);
            out[..len].copy_from_slice(&roomy[..len]);
            sound
        }
    };
    if sound { Ok(()) } else { Err(Fault::Corrupt { codec: "LZ4", expected: len }) }
}
