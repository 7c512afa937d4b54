//! HDF5 filter 32008: bits of equal significance side by side, block by block, each block compressed.
//!
//! Layout with a codec, big-endian: u64 decoded bytes, u32 block size in bytes; then for each block u32 stored bytes
//! and the compressed block. Without a codec the blocks follow one another, with no header. All blocks have the block
//! size but for the last, which holds the remaining elements rounded down to a multiple of 8; the elements after it
//! (fewer than 8) stand as they are. Inside a block of `k` elements each byte of the element has 8 planes of `k / 8`
//! bytes, least significant bit first; bit `i` of byte `j` of a plane belongs to element `8 j + i`.

use super::error::{ByteCursor, DecodeError, StreamFault};
use super::zstd;
use crate::lz4_block::{BlockBuffer, DecodedBlock};
use crate::simd;

const FILTER_NAME: &str = "bitshuffle";

/// Blocks differ in length: so many bytes more than the last one had are brought near.
const PREFETCH_MARGIN: usize = 256;

/// What follows the transposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    None,
    Lz4,
    Zstd,
}

impl Codec {
    /// Decompresses a block of `len` bytes; as [`Room::fill`].
    pub(crate) fn decompress(self, block: &[u8], room: &mut BlockBuffer, len: usize) -> Option<DecodedBlock> {
        let mut fill = |fill: &dyn Fn(&mut [u8]) -> bool| {
            room.decode_with(len, |out, dirty| {
                fill(&mut out[..len]).then_some(DecodedBlock::fully_written(dirty.max(len)))
            })
        };
        match self {
            Codec::Lz4 => simd::decompress(block, room, len),
            Codec::None => fill(&|out| {
                out.copy_from_slice(block);
                true
            }),
            Codec::Zstd => fill(&|out| zstd::decompress(block, out).is_ok_and(|written| written == len)),
        }
    }
}

/// The filter's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bitshuffle {
    /// Bytes of an element.
    pub(crate) element_size: usize,
    /// Elements in a block, as the client values say; a codec's header has its own say.
    block_elements: usize,
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
        let block = if block == 0 { default_block_elements(element) } else { block };
        Ok(Bitshuffle { element_size: element, block_elements: block, codec })
    }

    /// Decodes into `out`, which the stream must fill exactly.
    pub(super) fn decode(&self, stored: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
        let mut blocks = BlockReader::open(*self, stored, out.len())?;
        let (shuffled, tail) = out.split_at_mut(blocks.shuffled_bytes);
        let mut room = BlockBuffer::default();
        for out in shuffled.chunks_mut(blocks.block_bytes) {
            blocks.decompress_next(out.len(), |block| self.codec.decompress(block, &mut room, out.len()).is_some())?;
            simd::bitunshuffle(&room.bytes()[..out.len()], out.len() / (8 * self.element_size), 0, out);
        }
        blocks.read_tail(tail)
    }

    /// How many bytes a stream claims to decode to.
    pub(super) fn decoded_length(&self, stored: &[u8]) -> usize {
        match self.codec {
            Codec::None => stored.len(),
            _ => ByteCursor::new(stored).take_u64().map_or(0, |total| usize::try_from(total).unwrap_or(usize::MAX)),
        }
    }

    /// Reads the header: bytes of a block.
    fn read_header(&self, cursor: &mut ByteCursor<'_>, expected: usize) -> Result<usize, StreamFault> {
        if self.codec == Codec::None {
            return Ok(self.block_elements * self.element_size);
        }
        let (total, block_bytes) = (cursor.take_u64()?, cursor.take_u32()? as usize);
        if total != expected as u64 {
            return Err(StreamFault::Announced { found: total, expected });
        }
        match block_bytes {
            0 => Ok(default_block_elements(self.element_size) * self.element_size),
            _ if block_bytes % (8 * self.element_size) != 0 => Err(StreamFault::BlockSize(block_bytes as u64)),
            _ => Ok(block_bytes),
        }
    }
}

/// The blocks of one stream, read one after another.
pub(crate) struct BlockReader<'a> {
    cursor: ByteCursor<'a>,
    bitshuffle: Bitshuffle,
    /// Decoded bytes of every block but the last.
    pub(crate) block_bytes: usize,
    /// Decoded bytes of all blocks, without the elements that stand behind them as they are.
    pub(crate) shuffled_bytes: usize,
    next: usize,
}

impl<'a> BlockReader<'a> {
    /// Reads the header of a stream that must decode to `expected` bytes.
    pub(crate) fn open(
        bitshuffle: Bitshuffle,
        stored: &'a [u8],
        expected: usize,
    ) -> Result<BlockReader<'a>, DecodeError> {
        if bitshuffle.codec == Codec::None && stored.len() != expected {
            return Err(DecodeError::Length { filter: FILTER_NAME, found: stored.len(), expected });
        }
        let mut cursor = ByteCursor::new(stored);
        let header = bitshuffle.read_header(&mut cursor, expected);
        let block_bytes = header.map_err(|fault| DecodeError::Header { filter: FILTER_NAME, offset: 0, fault })?;
        let shuffled = expected / (8 * bitshuffle.element_size) * (8 * bitshuffle.element_size);
        Ok(BlockReader { cursor, bitshuffle, block_bytes, shuffled_bytes: shuffled, next: 0 })
    }

    /// Hands the next block's stored bytes to `decompress`, which says whether they hold `len` bytes.
    pub(crate) fn decompress_next(
        &mut self,
        len: usize,
        decompress: impl FnOnce(&'a [u8]) -> bool,
    ) -> Result<(), DecodeError> {
        let (block, offset) = (self.next, self.cursor.offset());
        self.next += 1;
        let read = self.read_block(len).and_then(|(stored, codec)| match decompress(stored) {
            true => {
                // The next block is likely to be as long.
                simd::prefetch_bytes(self.cursor.peek(stored.len() + PREFETCH_MARGIN));
                Ok(())
            }
            false => Err(StreamFault::Corrupt { codec, expected: len }),
        });
        read.map_err(|fault| DecodeError::Block { filter: FILTER_NAME, block, offset, fault })
    }

    /// The elements behind the last block, as they are.
    pub(crate) fn read_tail(&mut self, tail: &mut [u8]) -> Result<(), DecodeError> {
        let (block, offset) = (self.next, self.cursor.offset());
        let raw = self.cursor.take(tail.len());
        tail.copy_from_slice(raw.map_err(|fault| DecodeError::Block { filter: FILTER_NAME, block, offset, fault })?);
        Ok(())
    }

    /// The stored bytes of the next block, and the name of their codec.
    fn read_block(&mut self, len: usize) -> Result<(&'a [u8], &'static str), StreamFault> {
        let codec = match self.bitshuffle.codec {
            Codec::None => return Ok((self.cursor.take(len)?, "raw")),
            Codec::Lz4 => "LZ4",
            Codec::Zstd => "Zstd",
        };
        let stored = self.cursor.take_u32()? as usize;
        Ok((self.cursor.take(stored)?, codec))
    }
}

/// Where the compressed blocks of a stream are, and the elements behind the last.
#[derive(Clone, Debug)]
pub(crate) struct BlockOffsets {
    /// Decoded bytes of every block but the last.
    pub(crate) block_bytes: usize,
    /// Where each block's bytes start, behind their length, and where the elements behind the last block do.
    pub(crate) starts: Vec<u32>,
}

impl BlockOffsets {
    /// Reads the framing of a stream that must decode to `expected` bytes, and nothing else of it. Between the starts of two
    /// blocks lie the first one's bytes and four of the second one's length.
    pub(crate) fn scan(bitshuffle: Bitshuffle, stored: &[u8], expected: usize) -> Result<BlockOffsets, DecodeError> {
        let mut blocks = BlockReader::open(bitshuffle, stored, expected)?;
        let block_bytes = blocks.block_bytes;
        let mut starts = Vec::with_capacity(blocks.shuffled_bytes.div_ceil(block_bytes) + 1);
        for start in (0..blocks.shuffled_bytes).step_by(block_bytes) {
            let len = block_bytes.min(blocks.shuffled_bytes - start);
            let behind_length = blocks.cursor.offset() + 4;
            blocks.decompress_next(len, |_| true)?;
            starts.push(behind_length as u32);
        }
        if starts.is_empty() {
            // A frame of less than eight pixels has one block of none.
            starts.push(blocks.cursor.offset() as u32);
        }
        starts.push(blocks.cursor.offset() as u32);
        let mut tail = vec![0; expected - blocks.shuffled_bytes];
        blocks.read_tail(&mut tail)?;
        Ok(BlockOffsets { block_bytes, starts })
    }
}

/// Bitshuffle's own choice of elements in a block: 8 KiB of them, in eights, but at least 128.
pub(crate) fn default_block_elements(element: usize) -> usize {
    (8192 / element / 8 * 8).max(128)
}
