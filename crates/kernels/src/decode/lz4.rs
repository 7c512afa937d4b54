//! HDF5 filter 32004: LZ4 blocks behind a header of 12 bytes.
//!
//! Layout, big-endian: u64 decoded bytes, u32 block size in bytes; then for each block u32 stored bytes and the block.
//! A block that is stored in as many bytes as it decodes to is stored as it is. The last block may be short.

use super::error::{Cursor, DecodeError, Fault};
use crate::lz4;

const FILTER: &str = "lz4";

/// Decodes into `out`, which the stream must fill exactly.
pub(super) fn decode(stored: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
    let mut cursor = Cursor::new(stored);
    let (total, block_size) =
        header(&mut cursor).map_err(|fault| DecodeError::Header { filter: FILTER, offset: 0, fault })?;
    if total != out.len() as u64 {
        let fault = Fault::Announced { found: total, expected: out.len() };
        return Err(DecodeError::Header { filter: FILTER, offset: 0, fault });
    }
    for (block, out) in out.chunks_mut(block_size).enumerate() {
        let offset = cursor.offset();
        decode_block(&mut cursor, out).map_err(|fault| DecodeError::Block { filter: FILTER, block, offset, fault })?;
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
    let mut out = vec![0; total as usize];
    decode(stored, &mut out)?;
    Ok(out)
}

/// Decoded bytes, and the block size.
fn header(cursor: &mut Cursor<'_>) -> Result<(u64, usize), Fault> {
    let (total, block_size) = (cursor.take_u64()?, cursor.take_u32()?);
    if block_size == 0 && total != 0 { Err(Fault::BlockSize(0)) } else { Ok((total, block_size.max(1) as usize)) }
}

fn decode_block(cursor: &mut Cursor<'_>, out: &mut [u8]) -> Result<(), Fault> {
    let stored = cursor.take_u32()? as usize;
    let block = cursor.take(stored)?;
    if stored == out.len() {
        out.copy_from_slice(block);
        return Ok(());
    }
    if lz4::expand(block, out) { Ok(()) } else { Err(Fault::Corrupt { codec: "LZ4", expected: out.len() }) }
}
