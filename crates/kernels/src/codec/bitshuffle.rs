//! HDF5 filter 32008, bitshuffle: transposes the bits of each block of elements to bit planes, then
//! compresses the block.
//!
//! Layout with a codec, big-endian: u64 decoded bytes, u32 block size in bytes; then for each block
//! u32 stored bytes and the compressed block. Without a codec there is no header, and the blocks
//! follow one another. All blocks have the block size except the last, which holds the remaining
//! elements rounded down to a multiple of 8; the elements after it (fewer than 8) are stored
//! unchanged. In a block of `k` elements each byte of the element has 8 planes of `k / 8` bytes,
//! least significant bit first; bit `i` of byte `j` of a plane belongs to element `8 j + i`.

use std::borrow::Cow;
use std::sync::Arc;

use super::error::{ByteCursor, DecodeError, StreamFault};
use super::filter::{FilterDecoder, SupportedFilter};
use super::zstd;
use crate::lz4_block::{BlockBuffer, DecodedBlock};
use crate::simd::{Isa, Kernel, Simd, prefetch_bytes};

pub(super) const ID: u32 = 32008;
const FILTER_NAME: &str = hdf5_filters::filter_name(ID).expect("a filter with a name");

pub(super) const FILTER: SupportedFilter = SupportedFilter {
    id: ID,
    decoder: |values, dtype| Ok(Arc::new(Bitshuffle::new(values, dtype.size())?)),
};

/// How many bytes beyond the last block's stored length are prefetched for the next block, because
/// blocks differ in length.
const PREFETCH_MARGIN: usize = 256;

/// The compression of a block after its bits are transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    None,
    Lz4,
    Zstd,
}

impl Codec {
    /// Decompresses a block of `len` bytes into the buffer; returns `None` if the block is invalid.
    /// See [`BlockBuffer::decode_with`], and [`Simd::decompress`] for `period`.
    pub(crate) fn decompress<S: Simd>(
        self,
        simd: S,
        block: &[u8],
        buffer: &mut BlockBuffer,
        len: usize,
        period: usize,
    ) -> Option<DecodedBlock> {
        let mut fill_whole = |fill: &dyn Fn(&mut [u8]) -> bool| {
            buffer.decode_with(len, |out, dirty| {
                fill(&mut out[..len]).then_some(DecodedBlock::fully_written(dirty.max(len)))
            })
        };
        match self {
            Codec::Lz4 => simd.decompress(block, buffer, len, period),
            Codec::None => fill_whole(&|out| {
                out.copy_from_slice(block);
                true
            }),
            Codec::Zstd => {
                fill_whole(&|out| zstd::decompress(block, out).is_ok_and(|written| written == len))
            }
        }
    }
}

/// The parameters of the bitshuffle filter of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bitshuffle {
    /// Bytes per element.
    pub(crate) element_size: usize,
    /// Elements per block by the client values. With a codec, each stream's header has the block
    /// size instead.
    block_elements: usize,
    pub(crate) codec: Codec,
}

impl Bitshuffle {
    /// Reads HDF5's client values: (major, minor, element size, block size in elements, codec,
    /// ...), or just (block size, codec) as the writing program passed them. Missing values are 0.
    /// `pixel` is the size of a pixel in bytes, and the element size if the client values give 0.
    pub(super) fn new(values: &[u32], pixel: usize) -> Result<Bitshuffle, DecodeError> {
        let at = |i: usize| values.get(i).copied().unwrap_or(0) as usize;
        let (element, block, codec) =
            if values.len() <= 2 { (0, at(0), at(1)) } else { (at(2), at(3), at(4)) };
        let error =
            |expected| DecodeError::ClientValues { id: ID, values: values.to_vec(), expected };
        let codec = match codec {
            0 => Codec::None,
            2 => Codec::Lz4,
            3 => Codec::Zstd,
            _ => return Err(error("codec 0 (none), 2 (LZ4) or 3 (Zstd)")),
        };
        let element = if element == 0 { pixel } else { element };
        if element > 1 << 16 {
            return Err(error("an element of at most 65536 bytes"));
        }
        if block % 8 != 0 {
            return Err(error("a block of a multiple of 8 elements"));
        }
        let block = if block == 0 { default_block_elements(element) } else { block };
        Ok(Bitshuffle { element_size: element, block_elements: block, codec })
    }

    /// Decodes into `out`, which the stream must fill exactly.
    fn decode(&self, stored: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
        Isa::fastest().run(DecodeStream { bitshuffle: *self, stored, out })
    }

    /// Returns how many bytes a stream decodes to by its header, which is not checked.
    fn decoded_length(&self, stored: &[u8]) -> usize {
        match self.codec {
            Codec::None => stored.len(),
            _ => ByteCursor::new(stored)
                .take_u64()
                .map_or(0, |total| usize::try_from(total).unwrap_or(usize::MAX)),
        }
    }

    /// Reads and checks the header; returns the decoded bytes per block.
    fn read_header(
        &self,
        cursor: &mut ByteCursor<'_>,
        expected: usize,
    ) -> Result<usize, StreamFault> {
        if self.codec == Codec::None {
            return Ok(self.block_elements * self.element_size);
        }
        let (total, block_bytes) = (cursor.take_u64()?, cursor.take_u32()? as usize);
        if total != expected as u64 {
            return Err(StreamFault::DeclaredLength { found: total, expected });
        }
        match block_bytes {
            0 => Ok(default_block_elements(self.element_size) * self.element_size),
            _ if block_bytes % (8 * self.element_size) != 0 => {
                Err(StreamFault::BlockSize(block_bytes as u64))
            }
            _ => Ok(block_bytes),
        }
    }
}

impl FilterDecoder for Bitshuffle {
    fn decode_into(&self, stored: &[u8], out: &mut [u8], len: usize) -> Result<(), DecodeError> {
        self.decode(stored, &mut out[..len])
    }

    fn decode_up_to<'a>(
        &self,
        stored: Cow<'a, [u8]>,
        limit: usize,
    ) -> Result<Cow<'a, [u8]>, DecodeError> {
        // Without a codec bitshuffle keeps the length; with one the header has the length, and
        // decoding checks it.
        let len = self.decoded_length(&stored).min(limit);
        self.decode_to_length(stored, len)
    }
}

/// Decodes a stream into `out`, which it must fill exactly.
struct DecodeStream<'a> {
    bitshuffle: Bitshuffle,
    stored: &'a [u8],
    out: &'a mut [u8],
}

impl Kernel for DecodeStream<'_> {
    type Output = Result<(), DecodeError>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Result<(), DecodeError> {
        let Bitshuffle { element_size, codec, .. } = self.bitshuffle;
        let mut blocks = BlockReader::open(self.bitshuffle, self.stored, self.out.len())?;
        let (shuffled, tail) = self.out.split_at_mut(blocks.shuffled_bytes);
        let mut buffer = BlockBuffer::default();
        for out in shuffled.chunks_mut(blocks.block_bytes) {
            let len = out.len();
            blocks.decompress_next(len, |block| {
                codec.decompress(simd, block, &mut buffer, len, 0).is_some()
            })?;
            simd.bitunshuffle(&buffer.bytes()[..len], len / (8 * element_size), 0, out);
        }
        blocks.read_tail(tail)
    }
}

/// Reads the blocks of one stream one after another.
pub(crate) struct BlockReader<'a> {
    cursor: ByteCursor<'a>,
    bitshuffle: Bitshuffle,
    /// Decoded bytes of every block except the last.
    pub(crate) block_bytes: usize,
    /// Decoded bytes of all blocks, without the unshuffled elements after the last block.
    pub(crate) shuffled_bytes: usize,
    /// The index of the next block.
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
        let block_bytes = header.map_err(|fault| DecodeError::Header {
            filter: FILTER_NAME,
            offset: 0,
            fault,
        })?;
        let shuffled = expected / (8 * bitshuffle.element_size) * (8 * bitshuffle.element_size);
        Ok(BlockReader { cursor, bitshuffle, block_bytes, shuffled_bytes: shuffled, next: 0 })
    }

    /// Calls `decompress` with the next block's stored bytes; it returns whether they decode to
    /// `len` bytes.
    pub(crate) fn decompress_next(
        &mut self,
        len: usize,
        decompress: impl FnOnce(&'a [u8]) -> bool,
    ) -> Result<(), DecodeError> {
        let (block, offset) = (self.next, self.cursor.offset());
        self.next += 1;
        let read = self.read_block(len).and_then(|(stored, codec)| match decompress(stored) {
            true => {
                // The next block is probably about as long as this one.
                prefetch_bytes(self.cursor.peek(stored.len() + PREFETCH_MARGIN));
                Ok(())
            }
            false => Err(StreamFault::Corrupt { codec, expected: len }),
        });
        read.map_err(|fault| DecodeError::Block { filter: FILTER_NAME, block, offset, fault })
    }

    /// Copies the unshuffled elements after the last block.
    pub(crate) fn read_tail(&mut self, tail: &mut [u8]) -> Result<(), DecodeError> {
        let (block, offset) = (self.next, self.cursor.offset());
        let raw = self.cursor.take(tail.len());
        tail.copy_from_slice(raw.map_err(|fault| DecodeError::Block {
            filter: FILTER_NAME,
            block,
            offset,
            fault,
        })?);
        Ok(())
    }

    /// Takes the stored bytes of the next block, and returns them with the name of their codec.
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

/// The offsets of the compressed blocks of a stream and of the elements after the last block. An
/// OpenCL device gets them with the stream, so that it can decode all blocks in parallel.
#[derive(Clone, Debug)]
pub(crate) struct BlockOffsets {
    /// Decoded bytes of every block except the last.
    pub(crate) block_bytes: usize,
    /// The offset of each block's bytes, after their length, and last the offset of the elements
    /// after the blocks.
    pub(crate) starts: Vec<u32>,
}

impl BlockOffsets {
    /// Reads the header and the block lengths of a stream that must decode to `expected` bytes; the
    /// blocks are not decoded. Between the starts of two blocks lie the bytes of the first and the
    /// four-byte length of the second.
    pub(crate) fn scan(
        bitshuffle: Bitshuffle,
        stored: &[u8],
        expected: usize,
    ) -> Result<BlockOffsets, DecodeError> {
        let mut blocks = BlockReader::open(bitshuffle, stored, expected)?;
        let block_bytes = blocks.block_bytes;
        let mut starts = Vec::with_capacity(blocks.shuffled_bytes.div_ceil(block_bytes) + 1);
        for start in (0..blocks.shuffled_bytes).step_by(block_bytes) {
            let len = block_bytes.min(blocks.shuffled_bytes - start);
            let after_length = blocks.cursor.offset() + 4;
            blocks.decompress_next(len, |_| true)?;
            starts.push(after_length as u32);
        }
        if starts.is_empty() {
            // A frame of fewer than eight pixels has one empty block.
            starts.push(blocks.cursor.offset() as u32);
        }
        starts.push(blocks.cursor.offset() as u32);
        let mut tail = vec![0; expected - blocks.shuffled_bytes];
        blocks.read_tail(&mut tail)?;
        Ok(BlockOffsets { block_bytes, starts })
    }
}

/// Returns the bitshuffle library's default number of elements per block: a multiple of 8 that
/// fills 8 KiB, at least 128.
pub(crate) fn default_block_elements(element: usize) -> usize {
    (8192 / element / 8 * 8).max(128)
}
