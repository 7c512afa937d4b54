//! HDF5 filter 32008, bitshuffle, with LZ4 or Zstandard: encodes and decodes whole chunks, on any CPU.
//!
//! ```text
//! length of the decoded chunk           u64
//! length of a decoded block             u32
//! per block: length, compressed bytes   u32, bytes
//! up to 7 elements that fill no byte    bytes, as they are
//! ```
//!
//! Numbers are big-endian. A block has 8 KiB, the last one what remains in groups of 8 elements. In
//! a decoded block all lowest bits stand first, then all second ones, and so on: eight elements a
//! byte, the first in the lowest bit. Source: `bitshuffle_core.c` and `bshuf_h5filter.c` of
//! <https://github.com/kiyo-masui/bitshuffle>.
//!
//! `kernels` decodes detector frames by code of its own, which is made for each instruction set.

use std::io;

use lz4_flex::block::CompressTable;
use multiversion::multiversion;
use zstd::bulk::{Compressor, Decompressor};

use crate::shuffle::{shuffle, unshuffle};

/// Number of the filter.
pub const ID: u32 = 32008;

/// Bytes of a decoded block: those that bitshuffle chooses by itself.
const BLOCK_BYTES: usize = 8192;
/// Maximum bytes of a decoded block. A larger one is damage, and is not allocated.
const MAX_BLOCK_BYTES: usize = 1 << 26;
/// Version of bitshuffle's format, which the filter's parameters begin with.
const VERSION: [u32; 2] = [0, 4];
/// Level of Zstandard. Level 3 takes a fifth more time, and saves nothing in bit planes of noise.
const ZSTD_LEVEL: i32 = 1;

/// Compression of the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockCodec {
    /// LZ4 blocks.
    Lz4,
    /// Zstandard frames.
    Zstd,
}

/// Reason why a chunk can't be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a bitshuffle chunk of the expected length")]
pub struct InvalidChunk;

impl BlockCodec {
    /// Returns the codec that the parameters of the filter name; `None` for one that is not
    /// supported.
    pub fn from_parameters(parameters: &[u32]) -> Option<Self> {
        match parameters.get(4)? {
            2 => Some(Self::Lz4),
            3 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Returns the parameters of the filter, `cd_values`, for elements of `size` bytes.
    pub fn parameters(self, size: u32) -> Vec<u32> {
        let [major, minor] = VERSION;
        let common = [major, minor, size, 0];
        match self {
            Self::Lz4 => [&common[..], &[2]].concat(),
            Self::Zstd => [&common[..], &[3, ZSTD_LEVEL as u32]].concat(),
        }
    }
}

/// Encodes chunks; its buffers are reused from chunk to chunk.
pub struct Encoder {
    codec: BlockCodec,
    transposer: Transposer,
    planes: Vec<u8>,
    packed: Vec<u8>,
    stored: Vec<u8>,
    lz4: CompressTable,
    zstd: Option<Compressor<'static>>,
}

impl Encoder {
    /// Creates an encoder.
    ///
    /// # Errors
    /// Fails if there is no memory for Zstandard's tables.
    pub fn new(codec: BlockCodec) -> io::Result<Self> {
        let zstd = match codec {
            BlockCodec::Lz4 => None,
            BlockCodec::Zstd => Some(Compressor::new(ZSTD_LEVEL)?),
        };
        let most = match codec {
            BlockCodec::Lz4 => lz4_flex::block::get_maximum_output_size(BLOCK_BYTES),
            BlockCodec::Zstd => zstd::zstd_safe::compress_bound(BLOCK_BYTES),
        };
        Ok(Self {
            codec,
            transposer: Transposer::default(),
            planes: vec![0; BLOCK_BYTES],
            packed: vec![0; most],
            stored: Vec::new(),
            lz4: CompressTable::small(),
            zstd,
        })
    }

    /// Returns the stored bytes of a chunk of elements of `size` bytes, 1 to 8.
    ///
    /// # Errors
    /// Fails if there is no memory.
    pub fn encode(&mut self, bytes: &[u8], size: usize) -> io::Result<Vec<u8>> {
        let out = &mut self.stored;
        out.clear();
        let block_bytes = block_bytes(size);
        out.extend((bytes.len() as u64).to_be_bytes());
        out.extend((block_bytes as u32).to_be_bytes());
        let (blocks, rest) = bytes.split_at(bytes.len() - bytes.len() % (8 * size));
        for block in blocks.chunks(block_bytes) {
            let planes = &mut self.planes[..block.len()];
            self.transposer.write_planes(block, size, planes);
            let length = match (self.codec, &mut self.zstd) {
                (BlockCodec::Zstd, Some(zstd)) => {
                    zstd.compress_to_buffer(planes, &mut self.packed[..])?
                }
                _ => {
                    let (packed, table) = (&mut self.packed[..], &mut self.lz4);
                    lz4_flex::block::compress_into_with_table(planes, packed, table)
                        .map_err(io::Error::other)?
                }
            };
            out.extend((length as u32).to_be_bytes());
            out.extend_from_slice(&self.packed[..length]);
        }
        out.extend_from_slice(rest);
        // Chunks wait to be written: each has no more memory than it needs.
        Ok(out.clone())
    }
}

/// Decodes a chunk of elements of `size` bytes, 1 to 8, into `out`, which it must fill.
///
/// # Errors
/// The chunk is damaged, or decodes to another length.
pub fn decode(
    codec: BlockCodec,
    stored: &[u8],
    size: usize,
    out: &mut [u8],
) -> Result<(), InvalidChunk> {
    let (length, stored) = stored.split_first_chunk().ok_or(InvalidChunk)?;
    let (block_bytes, mut stored) = stored.split_first_chunk().ok_or(InvalidChunk)?;
    if u64::from_be_bytes(*length) != out.len() as u64 || !(1..=8).contains(&size) {
        return Err(InvalidChunk);
    }
    let block_bytes = match u32::from_be_bytes(*block_bytes) as usize {
        0 => self::block_bytes(size),
        given => given,
    };
    if block_bytes % (8 * size) != 0 || block_bytes > MAX_BLOCK_BYTES {
        return Err(InvalidChunk);
    }
    let rest = out.len() % (8 * size);
    let (blocks, left) = out.split_at_mut(out.len() - rest);
    let mut planes = vec![0; block_bytes.min(blocks.len())];
    let mut transposer = Transposer::default();
    let mut zstd = match codec {
        BlockCodec::Lz4 => None,
        BlockCodec::Zstd => Some(Decompressor::new().map_err(|_| InvalidChunk)?),
    };
    for block in blocks.chunks_mut(block_bytes) {
        let (length, behind) = stored.split_first_chunk().ok_or(InvalidChunk)?;
        let packed = u32::from_be_bytes(*length) as usize;
        let (packed, behind) = behind.split_at_checked(packed).ok_or(InvalidChunk)?;
        let planes = &mut planes[..block.len()];
        let decoded = match &mut zstd {
            Some(zstd) => zstd.decompress_to_buffer(packed, planes).ok(),
            None => lz4_flex::block::decompress_into(packed, planes).ok(),
        };
        if decoded != Some(block.len()) {
            return Err(InvalidChunk);
        }
        transposer.write_elements(planes, size, block);
        stored = behind;
    }
    if stored.len() != left.len() {
        return Err(InvalidChunk);
    }
    left.copy_from_slice(stored);
    Ok(())
}

/// Returns the length of a block of elements of `size` bytes: whole groups of 8 elements.
fn block_bytes(size: usize) -> usize {
    BLOCK_BYTES / (8 * size) * (8 * size)
}

/// Transposes the bits of blocks; its buffers are reused from block to block.
#[derive(Default)]
struct Transposer {
    /// The bytes of a block, shuffled.
    columns: Vec<u8>,
    /// Eight elements' bytes of a column in each number.
    groups: Vec<u64>,
}

impl Transposer {
    /// Writes the bit planes of a block, whose number of elements is a multiple of 8.
    fn write_planes(&mut self, block: &[u8], size: usize, planes: &mut [u8]) {
        let elements = block.len() / size;
        self.columns.resize(block.len(), 0);
        self.groups.resize(elements / 8, 0);
        shuffle(block, size, &mut self.columns);
        let columns = self.columns.chunks_exact(elements.max(1));
        for (column, planes) in columns.zip(planes.chunks_exact_mut(elements.max(1))) {
            column_to_planes(column, &mut self.groups, planes);
        }
    }

    /// Writes the elements of bit planes.
    fn write_elements(&mut self, planes: &[u8], size: usize, block: &mut [u8]) {
        let elements = block.len() / size;
        self.columns.resize(block.len(), 0);
        let columns = self.columns.chunks_exact_mut(elements.max(1));
        for (column, planes) in columns.zip(planes.chunks_exact(elements.max(1))) {
            planes_to_column(planes, column);
        }
        unshuffle(&self.columns, size, block);
    }
}

/// Writes the eight bit planes of a column of bytes, one after the other. `groups` are a buffer of as
/// many numbers as a plane has bytes.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw", "x86_64+avx2"))]
fn column_to_planes(column: &[u8], groups: &mut [u64], planes: &mut [u8]) {
    for (group, bytes) in groups.iter_mut().zip(column.as_chunks::<8>().0) {
        *group = transpose(u64::from_le_bytes(*bytes));
    }
    for (bit, plane) in planes.chunks_exact_mut(groups.len().max(1)).enumerate() {
        for (to, group) in plane.iter_mut().zip(&*groups) {
            *to = (group >> (8 * bit)) as u8;
        }
    }
}

/// Writes the column of bytes that eight bit planes hold.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw", "x86_64+avx2"))]
fn planes_to_column(planes: &[u8], column: &mut [u8]) {
    let plane = column.len() / 8;
    let planes: [&[u8]; 8] = std::array::from_fn(|bit| &planes[bit * plane..(bit + 1) * plane]);
    for (at, bytes) in column.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let of_plane = |(bit, plane): (usize, &&[u8])| u64::from(plane[at]) << (8 * bit);
        let group = planes.iter().enumerate().map(of_plane).fold(0, |all, byte| all | byte);
        *bytes = transpose(group).to_le_bytes();
    }
}

/// Transposes 8 rows of 8 bits: bit i of byte k becomes bit k of byte i (Hacker's Delight, 7-3).
#[inline(always)]
fn transpose(mut bits: u64) -> u64 {
    for (shift, mask) in
        [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0x0000_0000_f0f0_f0f0)]
    {
        let swapped = (bits ^ (bits >> shift)) & mask;
        bits ^= swapped ^ (swapped << shift);
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODECS: [BlockCodec; 2] = [BlockCodec::Lz4, BlockCodec::Zstd];

    /// Numbers between which neighbours differ in low bits, as in patterns.
    fn bytes(length: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u8 & if state >> 62 == 0 { 0xff } else { 0x03 }
        };
        (0..length).map(next).collect()
    }

    #[test]
    fn a_bit_goes_to_its_plane() {
        // Element 3 of 8 has bit 9 set: byte 1, bit 1 of it, in the place of element 3.
        let mut block = [0; 16];
        block[3 * 2 + 1] = 0b10;
        let mut expected = [0; 16];
        expected[9] = 1 << 3;
        let mut planes = [0; 16];
        Transposer::default().write_planes(&block, 2, &mut planes);
        assert_eq!(planes, expected);
    }

    #[test]
    fn each_bit_goes_to_its_plane() {
        for (size, elements) in [(1, 8), (3, 16), (4, 2048), (4, 24), (8, 1024), (8, 8)] {
            let block = bytes(size * elements);
            let mut planes = vec![0; block.len()];
            Transposer::default().write_planes(&block, size, &mut planes);
            for (element, bytes) in block.chunks_exact(size).enumerate() {
                for bit in 0..8 * size {
                    let found = planes[bit * elements / 8 + element / 8] >> (element % 8) & 1;
                    assert_eq!(found, bytes[bit / 8] >> (bit % 8) & 1, "bit {bit} of {element}");
                }
            }
        }
    }

    #[test]
    fn chunks_of_any_length_and_element_decode_to_what_they_were() {
        for codec in CODECS {
            let mut encoder = Encoder::new(codec).expect("memory");
            for size in 1..=8 {
                for elements in [0, 1, 7, 8, 9, 15, 16, 17, 24, 1024, 2049, 3001, 8200] {
                    let chunk = bytes(elements * size);
                    let stored = encoder.encode(&chunk, size).expect("memory");
                    let mut found = vec![0; chunk.len()];
                    decode(codec, &stored, size, &mut found).expect("a chunk");
                    assert_eq!(found, chunk, "{codec:?}, {elements} elements of {size} bytes");
                }
            }
        }
    }

    #[test]
    fn blocks_of_a_damaged_length_are_refused_before_they_are_allocated() {
        for codec in CODECS {
            let chunk = bytes(640);
            let mut stored = Encoder::new(codec).and_then(|mut all| all.encode(&chunk, 4)).unwrap();
            for (length, is_decoded) in
                [(1 << 13, true), (1 << 26, true), (1 << 27, false), (1 << 31, false)]
            {
                stored[8..12].copy_from_slice(&u32::to_be_bytes(length));
                let decoded = decode(codec, &stored, 4, &mut [0; 640]);
                assert_eq!(decoded.is_ok(), is_decoded, "{codec:?}, blocks of {length} bytes");
            }
        }
    }

    #[test]
    fn damaged_chunks_are_errors_or_other_values_and_never_panic() {
        for codec in CODECS {
            let chunk = bytes(3 * BLOCK_BYTES + 4);
            let stored = Encoder::new(codec).and_then(|mut all| all.encode(&chunk, 4));
            let stored = stored.expect("memory");
            let mut found = vec![0; chunk.len()];
            for length in (0..stored.len()).step_by(97) {
                assert_eq!(decode(codec, &stored[..length], 4, &mut found), Err(InvalidChunk));
            }
            for at in (0..stored.len()).step_by(13).chain(0..16) {
                let mut damaged = stored.clone();
                damaged[at] ^= 0x90;
                let _ = decode(codec, &damaged, 4, &mut found);
            }
            assert_eq!(decode(codec, &stored, 4, &mut found[1..]), Err(InvalidChunk));
            assert_eq!(decode(codec, &stored, 0, &mut found), Err(InvalidChunk));
        }
    }

    #[test]
    fn parameters_name_the_codec() {
        for codec in CODECS {
            assert_eq!(BlockCodec::from_parameters(&codec.parameters(4)), Some(codec));
        }
        assert_eq!(BlockCodec::from_parameters(&[0, 4, 4, 0, 0]), None);
        assert_eq!(BlockCodec::from_parameters(&[]), None);
    }
}
