//! HDF5 filter 32001: Blosc, which divides a chunk into blocks, shuffles each, and compresses it by
//! one of several codecs.
//!
//! Layout, little-endian: a header of 16 bytes (u8 format version, u8 version of the codec, u8
//! flags, u8 element size, u32 decoded bytes, u32 block size in bytes, u32 stored bytes with the
//! header); an i32 offset of each block from the start of the chunk; the blocks. A block consists
//! of one stream, or of one per byte of an element (`streams_per_block`), each after an i32 with
//! its stored length. A stream whose stored length equals its decoded length is not compressed. If
//! the flag `MEMCPYED` is set, the plain data follow the header.
//!
//! Source: README_CHUNK_FORMAT.rst of c-blosc 1.21. Snappy, which c-blosc need not be built with,
//! is refused; so is Blosc2, which has an HDF5 filter of its own.

use std::borrow::Cow;
use std::sync::Arc;

use hdf5_filters::shuffle;

use super::error::{ByteCursor, DecodeError, StreamFault, zeroed};
use super::filter::{FilterDecoder, SupportedFilter};
use super::{deflate, lz4, zstd};
use crate::lz4_block::SLACK;
use crate::simd::{Isa, Kernel, Simd};

const ID: u32 = 32001;
const FILTER_NAME: &str = hdf5_filters::filter_name(ID).expect("a filter with a name");

pub(super) const FILTER: SupportedFilter =
    SupportedFilter { id: ID, decoder: |_, _| Ok(Arc::new(Blosc)) };

const HEADER_BYTES: usize = 16;

/// Newest version of the format: Blosc2 has greater ones.
const MAX_VERSION: u8 = 2;

const BYTES_SHUFFLED: u8 = 0x01;
const MEMCPYED: u8 = 0x02;
const BITS_SHUFFLED: u8 = 0x04;
const NOT_SPLIT: u8 = 0x10;

/// Maximum element size of blocks with one stream per byte of an element.
const MAX_STREAMS: usize = 16;

/// Minimum number of elements of such a block.
const MIN_SPLIT_ELEMENTS: usize = 128;

/// Decodes Blosc's chunks. Their headers have all parameters that the dataset's client values have.
#[derive(Debug)]
struct Blosc;

impl FilterDecoder for Blosc {
    fn decode_into(&self, stored: &[u8], out: &mut [u8], len: usize) -> Result<(), DecodeError> {
        let header = Header::read(stored)?;
        if header.decoded_bytes != len {
            return Err(header_fault(StreamFault::DeclaredLength {
                found: header.decoded_bytes as u64,
                expected: len,
            }));
        }
        header.decode(stored, &mut out[..len])
    }

    fn decode_up_to<'a>(
        &self,
        stored: Cow<'a, [u8]>,
        limit: usize,
    ) -> Result<Cow<'a, [u8]>, DecodeError> {
        let len = Header::read(&stored)?.decoded_bytes;
        if len > limit {
            return Err(header_fault(StreamFault::DeclaredLength {
                found: len as u64,
                expected: limit,
            }));
        }
        self.decode_to_length(stored, len)
    }
}

/// The compression of the streams of a chunk.
#[derive(Clone, Copy, Debug)]
enum StreamCodec {
    BloscLz,
    Lz4,
    Zlib,
    Zstd,
}

impl StreamCodec {
    /// Returns the codec in the upper bits of the flags.
    fn from_flags(flags: u8) -> Result<Self, DecodeError> {
        match flags >> 5 {
            0 => Ok(Self::BloscLz),
            1 => Ok(Self::Lz4),
            3 => Ok(Self::Zlib),
            4 => Ok(Self::Zstd),
            2 => Err(invalid(
                "compressed with Snappy; expected BloscLZ, LZ4, zlib or Zstd: rewrite the file",
            )),
            _ => Err(invalid(
                "compressed with an unknown codec; expected BloscLZ, LZ4, zlib or Zstd",
            )),
        }
    }

    /// Returns the name for messages.
    fn name(self) -> &'static str {
        match self {
            Self::BloscLz => "BloscLZ",
            Self::Lz4 => "LZ4",
            Self::Zlib => "zlib",
            Self::Zstd => "Zstd",
        }
    }

    /// Decompresses a stream into the first `len` bytes of `out`, and returns whether it has as
    /// many. Up to [`SLACK`] bytes after them may be overwritten.
    fn decompress(self, stream: &[u8], out: &mut [u8], len: usize) -> bool {
        match self {
            Self::BloscLz => decompress_blosclz(stream, &mut out[..len]).is_some(),
            Self::Lz4 => lz4::decompress_block(stream, out, len),
            Self::Zlib => deflate::decode(stream, &mut out[..len]).is_ok(),
            Self::Zstd => {
                zstd::decompress(stream, &mut out[..len]).is_ok_and(|written| written == len)
            }
        }
    }
}

/// The header of a chunk.
struct Header {
    flags: u8,
    element_size: usize,
    decoded_bytes: usize,
    /// Decoded bytes of each block but the last.
    block_bytes: usize,
}

impl Header {
    /// Reads the header, of which only the version is checked.
    fn read(stored: &[u8]) -> Result<Header, DecodeError> {
        let mut cursor = ByteCursor::new(stored);
        let [version, _, flags, element_size] = cursor.take_array().map_err(header_fault)?;
        let mut take_number = || cursor.take_array().map(u32::from_le_bytes).map_err(header_fault);
        let [decoded_bytes, block_bytes, _stored_bytes] =
            [take_number()?, take_number()?, take_number()?];
        if version > MAX_VERSION {
            return Err(invalid(&format!(
                "version {version} of the format; expected at most {MAX_VERSION}"
            )));
        }
        Ok(Header {
            flags,
            element_size: usize::from(element_size),
            decoded_bytes: decoded_bytes as usize,
            block_bytes: block_bytes as usize,
        })
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Decodes the chunk into `out`, which has `decoded_bytes`.
    fn decode(&self, stored: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
        if self.has(MEMCPYED) {
            let data = ByteCursor::new(&stored[HEADER_BYTES..]).take(out.len());
            out.copy_from_slice(data.map_err(|fault| block_fault(0, HEADER_BYTES, fault))?);
            return Ok(());
        }
        let codec = StreamCodec::from_flags(self.flags)?;
        if self.block_bytes == 0 || self.element_size == 0 {
            return Err(invalid("blocks or elements of no bytes"));
        }
        let block_bytes = self.block_bytes.min(out.len());
        let mut shuffled = zeroed(block_bytes + SLACK)?;
        let mut offsets = ByteCursor::new(&stored[HEADER_BYTES..]);
        for (block, out) in out.chunks_mut(block_bytes.max(1)).enumerate() {
            let offset = offsets.take_array().map(u32::from_le_bytes);
            let offset = offset
                .map_err(|fault| block_fault(block, HEADER_BYTES + offsets.offset(), fault))?
                as usize;
            let streams = self.streams_per_block(out.len());
            let decoded = stored
                .get(offset..)
                .ok_or(StreamFault::Truncated { needed: offset, left: stored.len() });
            decoded
                .and_then(|stored| {
                    decompress_streams(codec, stored, streams, &mut shuffled, out.len())
                })
                .map_err(|fault| block_fault(block, offset, fault))?;
            self.unshuffle(&shuffled[..out.len()], out);
        }
        Ok(())
    }

    /// Returns the number of streams in a block of `len` decoded bytes: one per byte of an element,
    /// unless the block is the last and shorter one, or is not split.
    fn streams_per_block(&self, len: usize) -> usize {
        let is_split = !self.has(NOT_SPLIT)
            && self.element_size <= MAX_STREAMS
            && self.block_bytes / self.element_size >= MIN_SPLIT_ELEMENTS
            && len == self.block_bytes;
        if is_split { self.element_size } else { 1 }
    }

    /// Undoes the shuffle of a block. Bits are shuffled only in blocks of a multiple of eight
    /// elements.
    fn unshuffle(&self, shuffled: &[u8], out: &mut [u8]) {
        let elements = out.len() / self.element_size;
        if self.has(BYTES_SHUFFLED) && self.element_size > 1 {
            shuffle::unshuffle(shuffled, self.element_size, out);
        } else if self.has(BITS_SHUFFLED) && elements > 0 && elements.is_multiple_of(8) {
            let (planes, tail) = shuffled.split_at(elements * self.element_size);
            let (pixels, out_tail) = out.split_at_mut(planes.len());
            Isa::fastest().run(UnshuffleBits { planes, stride: elements / 8, out: pixels });
            out_tail.copy_from_slice(tail);
        } else {
            out.copy_from_slice(shuffled);
        }
    }
}

/// Transposes bit planes of `stride` bytes to elements; see [`Simd::bitunshuffle`].
struct UnshuffleBits<'a> {
    planes: &'a [u8],
    stride: usize,
    out: &'a mut [u8],
}

impl Kernel for UnshuffleBits<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        simd.bitunshuffle(self.planes, self.stride, 0, self.out);
    }
}

/// Decompresses the streams of a block, which begin at `stored`, into the first `len` bytes of
/// `out`. The [`SLACK`] bytes after them are overwritten.
fn decompress_streams(
    codec: StreamCodec,
    stored: &[u8],
    streams: usize,
    out: &mut [u8],
    len: usize,
) -> Result<(), StreamFault> {
    let mut cursor = ByteCursor::new(stored);
    let stream_bytes = len / streams;
    for start in (0..streams).map(|stream| stream * stream_bytes) {
        let stream_len = u32::from_le_bytes(cursor.take_array()?) as usize;
        let stream = cursor.take(stream_len)?;
        let out = &mut out[start..];
        if stream_len == stream_bytes {
            out[..stream_bytes].copy_from_slice(stream);
        } else if !codec.decompress(stream, out, stream_bytes) {
            return Err(StreamFault::Corrupt { codec: codec.name(), expected: stream_bytes });
        }
    }
    Ok(())
}

/// Distance from which on a match has 16 more bits of distance.
const FAR_DISTANCE: usize = 8191;

/// Decompresses a stream of BloscLZ, a descendant of FastLZ, which must fill `out`. Returns `None`
/// if it doesn't.
///
/// Each instruction begins with a byte `c`; the upper three bits of the first are a mark. Below 32,
/// `c + 1` literals follow. Above, the upper three bits are the length of a match, less 2; if they
/// are all set, bytes are added to it up to one that is not 255. The lower five bits and a further
/// byte are its distance, less 1; if they are all set, two more bytes are added to it.
fn decompress_blosclz(stream: &[u8], out: &mut [u8]) -> Option<()> {
    let mut rest = stream;
    let mut filled = 0;
    let mut instruction = take_byte(&mut rest)? & 31;
    loop {
        if instruction < 32 {
            let literals = usize::from(instruction) + 1;
            let (run, after) = rest.split_at_checked(literals)?;
            out.get_mut(filled..filled + literals)?.copy_from_slice(run);
            rest = after;
            filled += literals;
        } else {
            let mut length = usize::from(instruction >> 5) + 2;
            if instruction >> 5 == 7 {
                loop {
                    let more = take_byte(&mut rest)?;
                    length += usize::from(more);
                    if more != 255 {
                        break;
                    }
                }
            }
            let mut distance =
                usize::from(instruction & 31) << 8 | usize::from(take_byte(&mut rest)?);
            if distance == FAR_DISTANCE {
                distance +=
                    usize::from(take_byte(&mut rest)?) << 8 | usize::from(take_byte(&mut rest)?);
            }
            copy_match(out, filled, distance + 1, length)?;
            filled += length;
        }
        match take_byte(&mut rest) {
            Some(next) => instruction = next,
            None => return (filled == out.len()).then_some(()),
        }
    }
}

fn take_byte(rest: &mut &[u8]) -> Option<u8> {
    let (&first, after) = rest.split_first()?;
    *rest = after;
    Some(first)
}

/// Copies `length` bytes from `distance` before `filled` to `filled`. The two ranges may overlap,
/// and the bytes then repeat.
fn copy_match(out: &mut [u8], filled: usize, distance: usize, length: usize) -> Option<()> {
    let from = filled.checked_sub(distance)?;
    let end = filled.checked_add(length).filter(|&end| end <= out.len())?;
    let mut copied = filled;
    while copied < end {
        // All bytes up to `copied` are set, and repeat with the distance as their period.
        let run = (copied - from).min(end - copied);
        out.copy_within(from..from + run, copied);
        copied += run;
    }
    Some(())
}

fn header_fault(fault: StreamFault) -> DecodeError {
    DecodeError::Header { filter: FILTER_NAME, offset: 0, fault }
}

fn block_fault(block: usize, offset: usize, fault: StreamFault) -> DecodeError {
    DecodeError::Block { filter: FILTER_NAME, block, offset, fault }
}

fn invalid(why: &str) -> DecodeError {
    DecodeError::Library { filter: FILTER_NAME, message: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a chunk with these flags, elements and blocks, whose streams are not compressed.
    fn plain_chunk(
        flags: u8,
        element_size: u8,
        decoded: u32,
        block_bytes: u32,
        blocks: &[&[&[u8]]],
    ) -> Vec<u8> {
        let mut chunk = vec![2, 1, flags, element_size];
        for number in [decoded, block_bytes, 0] {
            chunk.extend(number.to_le_bytes());
        }
        let mut body = Vec::new();
        for streams in blocks {
            let offset = HEADER_BYTES + 4 * blocks.len() + body.len();
            chunk.extend((offset as u32).to_le_bytes());
            for stream in *streams {
                body.extend((stream.len() as u32).to_le_bytes());
                body.extend(*stream);
            }
        }
        chunk.extend(body);
        chunk
    }

    fn decode(chunk: &[u8], len: usize) -> Result<Vec<u8>, DecodeError> {
        let mut out = vec![0xee; len];
        Blosc.decode_into(chunk, &mut out, len).map(|()| out)
    }

    #[test]
    fn streams_that_are_not_compressed_are_copied() {
        let (low, high) = ([1; 128], [2; 128]);
        let chunk =
            plain_chunk(BYTES_SHUFFLED, 2, 262, 256, &[&[&low, &high], &[&[1, 3, 5, 2, 4, 6]]]);
        let expected = [[1, 2].repeat(128), vec![1, 2, 3, 4, 5, 6]].concat();
        assert_eq!(
            decode(&chunk, 262),
            Ok(expected),
            "the last block has one stream, since it is shorter"
        );
        let chunk = plain_chunk(BITS_SHUFFLED, 1, 5, 5, &[&[&[1, 2, 3, 4, 5]]]);
        assert_eq!(decode(&chunk, 5), Ok(vec![1, 2, 3, 4, 5]), "five elements have no planes");
    }

    #[test]
    fn plain_data_follow_the_header() {
        let mut chunk = plain_chunk(MEMCPYED | BYTES_SHUFFLED, 2, 4, 4, &[]);
        chunk.extend([1, 2, 3, 4]);
        assert_eq!(decode(&chunk, 4), Ok(vec![1, 2, 3, 4]));
        let error = decode(&chunk[..18], 4).unwrap_err().to_string();
        assert_eq!(error, "blosc: block 0 at byte 16: truncated: 4 bytes needed, 2 left");
    }

    #[test]
    fn another_codec_or_version_is_named() {
        for (flags, why) in [(2 << 5, "Snappy"), (5 << 5, "unknown codec")] {
            let error = decode(&plain_chunk(flags, 1, 8, 8, &[]), 8).unwrap_err().to_string();
            assert!(error.starts_with("blosc: compressed with") && error.contains(why), "{error}");
        }
        let mut chunk = plain_chunk(MEMCPYED, 1, 0, 8, &[]);
        chunk[0] = 5;
        assert_eq!(
            decode(&chunk, 0).unwrap_err().to_string(),
            "blosc: version 5 of the format; expected at most 2"
        );
    }

    #[test]
    fn hostile_numbers_are_refused_before_anything_is_allocated() {
        let huge = u32::MAX;
        assert!(decode(&plain_chunk(0, 1, huge, huge, &[]), 8).is_err(), "decoded bytes");
        assert!(Blosc.decode_up_to(plain_chunk(0, 1, huge, huge, &[]).into(), 1 << 20).is_err());
        assert!(
            decode(&plain_chunk(0, 0, 8, 8, &[&[&[0; 8]]]), 8).is_err(),
            "elements of no bytes"
        );
        assert!(decode(&plain_chunk(0, 1, 8, 0, &[&[&[0; 8]]]), 8).is_err(), "blocks of no bytes");
        assert!(decode(&plain_chunk(0, 1, 8, 1, &[&[&[0]]]), 8).is_err(), "one of eight blocks");
        assert_eq!(
            decode(&plain_chunk(0, 1, 8, huge, &[&[&[7; 8]]]), 8),
            Ok(vec![7; 8]),
            "a block larger than the chunk"
        );
        for offset in [17_u32, 28, huge] {
            let mut chunk = plain_chunk(0, 1, 8, 8, &[&[&[0; 8]]]);
            chunk[HEADER_BYTES..HEADER_BYTES + 4].copy_from_slice(&offset.to_le_bytes());
            assert!(decode(&chunk, 8).is_err(), "a block at {offset}");
        }
    }

    #[test]
    fn blosclz_has_literals_and_matches_near_and_far() {
        let decompress = |stream: &[u8], len: usize| {
            let mut out = vec![0; len];
            decompress_blosclz(stream, &mut out).map(|()| out)
        };
        // The first three bits are a mark: two literals, then four bytes at distance two, then one
        // literal.
        assert_eq!(decompress(&[0xe1, 7, 8, 2 << 5, 1, 0, 9], 7), Some(vec![7, 8, 7, 8, 7, 8, 9]));
        // A run of one byte, whose length has two more bytes: 7 + 2 + 255 + 3.
        assert_eq!(decompress(&[0, 7, 7 << 5, 255, 3, 0], 268), Some(vec![7; 268]));
        // A distance of 8191 + 0x0102 + 1.
        let fill = 8191 + 0x0102;
        let mut far = vec![0, 1, 7 << 5];
        far.extend([255; 33]);
        far.extend([(fill - 9 - 33 * 255) as u8, 0]);
        far.extend([31 | 1 << 5, 255, 1, 2]);
        assert_eq!(decompress(&far, fill + 4), Some(vec![1; fill + 4]));
        assert_eq!(decompress(&far[..far.len() - 1], fill + 4), None, "truncated");
        assert_eq!(decompress(&[1, 7, 8, 2 << 5, 2], 6), None, "before the first byte");
        assert_eq!(decompress(&[1, 7, 8], 3), None, "too few bytes");
        assert_eq!(decompress(&[1, 7, 8], 1), None, "too many bytes");
        assert_eq!(decompress(&[], 0), None);
    }
}
