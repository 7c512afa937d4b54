//! HDF5 filter 32008: bits of equal significance side by side, block by block, each block compressed.
//!
//! Layout with a codec, big-endian: u64 decoded bytes, u32 block size in bytes; then for each block u32 stored bytes
//! and the compressed block. Without a codec the blocks follow one another, with no header. All blocks have the block
//! size but for the last, which holds the remaining elements rounded down to a multiple of 8; the elements after it
//! (fewer than 8) stand as they are. Inside a block of `k` elements each byte of the element has 8 planes of `k / 8`
//! bytes, least significant bit first; bit `i` of byte `j` of a plane belongs to element `8 j + i`.

use super::error::{Cursor, DecodeError, Fault};
use super::{lz4, zstandard};

const FILTER: &str = "bitshuffle";

/// What follows the transposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    None,
    Lz4,
    Zstd,
}

/// The filter's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bitshuffle {
    /// Bytes of an element.
    pub(crate) element: usize,
    /// Elements in a block, as the client values say; a codec's header has its own say.
    pub(crate) block: usize,
    pub(crate) codec: Codec,
}

impl Bitshuffle {
    /// From HDF5's client values: (major, minor, element size, block size in elements, codec, …), what is missing
    /// being 0; or just (block size, codec) as the program asked for it. An element size of 0 is that of the pixels.
    pub(super) fn new(id: u32, values: &[u32], pixel: usize) -> Result<Bitshuffle, DecodeError> {
        let at = |i: usize| values.get(i).copied().unwrap_or(0) as usize;
        let (element, block, codec) = if values.len() <= 2 { (0, at(0), at(1)) } else { (at(2), at(3), at(4)) };
        let refuse = |expected| DecodeError::ClientValues { id, values: values.to_vec(), expected };
        let codec = match codec {
            0 => Codec::None,
            2 => Codec::Lz4,
            3 => Codec::Zstd,
            _ => return Err(refuse("codec 0 (none), 2 (LZ4) or 3 (Zstd)")),
        };
        let element = if element == 0 { pixel } else { element };
        if element > 1 << 16 {
            return Err(refuse("an element of at most 65536 bytes"));
        }
        if block % 8 != 0 {
            return Err(refuse("a block of a multiple of 8 elements"));
        }
        let block = if block == 0 { default_block(element) } else { block };
        Ok(Bitshuffle { element, block, codec })
    }

    /// Decodes into `out`, which the stream must fill exactly.
    pub(super) fn decode(&self, stored: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
        if self.codec == Codec::None && stored.len() != out.len() {
            return Err(DecodeError::Length { filter: FILTER, found: stored.len(), expected: out.len() });
        }
        let mut cursor = Cursor::new(stored);
        let block_bytes = self.header(&mut cursor, out.len()).map_err(|fault| DecodeError::Header {
            filter: FILTER,
            offset: 0,
            fault,
        })?;
        let shuffled = out.len() / (8 * self.element) * (8 * self.element);
        let (whole, tail) = out.split_at_mut(shuffled);
        let mut planes = vec![0; block_bytes.min(shuffled)];
        for (block, out) in whole.chunks_mut(block_bytes).enumerate() {
            let (offset, planes) = (cursor.offset(), &mut planes[..out.len()]);
            self.expand(&mut cursor, planes).map_err(|fault| DecodeError::Block {
                filter: FILTER,
                block,
                offset,
                fault,
            })?;
            untranspose(planes, self.element, out);
        }
        let (offset, block) = (cursor.offset(), shuffled.div_ceil(block_bytes));
        let raw = cursor.take(tail.len());
        tail.copy_from_slice(raw.map_err(|fault| DecodeError::Block { filter: FILTER, block, offset, fault })?);
        Ok(())
    }

    /// How many bytes a stream claims to decode to.
    pub(super) fn decoded_length(&self, stored: &[u8]) -> usize {
        match self.codec {
            Codec::None => stored.len(),
            _ => Cursor::new(stored).take_u64().map_or(0, |total| usize::try_from(total).unwrap_or(usize::MAX)),
        }
    }

    /// Bytes of a block.
    fn header(&self, cursor: &mut Cursor<'_>, expected: usize) -> Result<usize, Fault> {
        if self.codec == Codec::None {
            return Ok(self.block * self.element);
        }
        let (total, block_bytes) = (cursor.take_u64()?, cursor.take_u32()? as usize);
        if total != expected as u64 {
            return Err(Fault::Announced { found: total, expected });
        }
        match block_bytes {
            0 => Ok(default_block(self.element) * self.element),
            _ if block_bytes % (8 * self.element) != 0 => Err(Fault::BlockSize(block_bytes as u64)),
            _ => Ok(block_bytes),
        }
    }

    /// Reads the next block's planes.
    fn expand(&self, cursor: &mut Cursor<'_>, planes: &mut [u8]) -> Result<(), Fault> {
        if self.codec == Codec::None {
            planes.copy_from_slice(cursor.take(planes.len())?);
            return Ok(());
        }
        let stored = cursor.take_u32()? as usize;
        let block = cursor.take(stored)?;
        match self.codec {
            Codec::Zstd => match zstandard::expand(block, planes) {
                Ok(written) if written == planes.len() => Ok(()),
                _ => Err(Fault::Corrupt { codec: "Zstd", expected: planes.len() }),
            },
            _ => lz4::expand(block, planes),
        }
    }
}

/// Bitshuffle's own choice of elements in a block: 8 KiB of them, in eights, but at least 128.
pub(super) fn default_block(element: usize) -> usize {
    (8192 / element / 8 * 8).max(128)
}

/// From the planes of a block to its elements.
fn untranspose(planes: &[u8], element: usize, out: &mut [u8]) {
    let stride = planes.len() / (8 * element);
    for byte in 0..element {
        let planes = &planes[byte * 8 * stride..(byte + 1) * 8 * stride];
        for (j, out) in out.chunks_exact_mut(8 * element).enumerate() {
            let mut bits = 0;
            for plane in (0..8).rev() {
                bits = bits << 8 | u64::from(planes[plane * stride + j]);
            }
            for (pixel, value) in transpose(bits).to_le_bytes().into_iter().enumerate() {
                out[pixel * element + byte] = value;
            }
        }
    }
}

/// Transposes a matrix of 8 × 8 bits, byte `i` being row `i`. After Hacker's Delight, 7-3.
fn transpose(mut bits: u64) -> u64 {
    for (shift, mask) in [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0x0000_0000_f0f0_f0f0)] {
        let swap = (bits ^ bits >> shift) & mask;
        bits ^= swap ^ swap << shift;
    }
    bits
}
