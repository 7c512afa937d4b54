//! [`PixelSource`], which reads one frame's pixels tile by tile from native pixels or from
//! bitshuffled blocks.

use super::bit_planes::BitPlanes;
use super::lane::Lane;
use super::native::ReadNativeTile;
use super::plane_rule::PlaneInvalidRule;
use super::tile_context::TileContext;
use crate::codec::bitshuffle::{Bitshuffle, BlockReader, Codec};
use crate::codec::{DecodeError, Pipeline};
use crate::decode_paths::DecodePathCounts;
use crate::encoded_frame::EncodedFrame;
use crate::invalid_values::{InvalidValues, TypedInvalidRanges, with_ranges};
use crate::pixel::{PixelType, PixelWidth};
use crate::simd::Simd;
use crate::summation_order::TILE;

/// The rule for invalid pixels of one pixel type, for native pixels and, if they are integers, for bit
/// planes.
pub(crate) struct InvalidRules {
    pub(crate) native: TypedInvalidRanges,
    planes: Option<PlaneInvalidRule>,
    /// Bytes per pixel.
    element_size: usize,
}

impl InvalidRules {
    /// Makes the rule for pixels of a type.
    pub(crate) fn new(invalid: &InvalidValues, dtype: PixelType) -> InvalidRules {
        let native = TypedInvalidRanges::new(invalid, dtype);
        let planes = dtype
            .is_integer()
            .then(|| with_ranges!(&native, |ranges| PlaneInvalidRule::new(ranges)));
        InvalidRules { native, planes, element_size: dtype.size() }
    }

    /// Reads the native pixels of a tile into a lane.
    fn read_native<S: Simd>(
        &self,
        simd: S,
        context: TileContext<'_>,
        pixels: &[u8],
        lane: &mut Lane,
    ) {
        with_ranges!(&self.native, |rule| simd.run(ReadNativeTile { lane, pixels, context, rule }));
    }
}

/// The source of one frame's pixels.
pub(crate) enum PixelSource<'a> {
    /// Bitshuffled blocks.
    Blocks(BlockSource<'a>),
    /// A whole frame of native pixels.
    Native(&'a [u8]),
}

/// Bitshuffled blocks, decompressed one at a time.
pub(crate) struct BlockSource<'a> {
    blocks: BlockReader<'a>,
    codec: Codec,
    /// How many bytes are decoded so far.
    decoded: usize,
    /// True if every tile lies in one block, so that tiles can be read from bit planes.
    reads_planes: bool,
}

/// The memory of a source, reused from frame to frame.
#[derive(Default)]
pub(crate) struct SourceBuffers {
    planes: BitPlanes,
    /// Unshuffled pixels: of the last tile, and of all blocks if tiles cross their borders.
    native_pixels: Vec<u8>,
    /// How many bytes of `native_pixels` are read already.
    consumed: usize,
}

impl<'a> BlockSource<'a> {
    /// Reads and checks the header of a stream that must decode to `frame_bytes`.
    fn open(
        bitshuffle: Bitshuffle,
        stored: &'a [u8],
        frame_bytes: usize,
    ) -> Result<Self, DecodeError> {
        let blocks = BlockReader::open(bitshuffle, stored, frame_bytes)?;
        let reads_planes = blocks.block_bytes % (TILE * bitshuffle.element_size) == 0
            || blocks.block_bytes >= blocks.shuffled_bytes;
        Ok(BlockSource { blocks, codec: bitshuffle.codec, decoded: 0, reads_planes })
    }

    /// Decompresses the next block into the planes.
    fn decompress_next<S: Simd>(
        &mut self,
        simd: S,
        planes: &mut BitPlanes,
        element: usize,
    ) -> Result<(), DecodeError> {
        let len = self.blocks.block_bytes.min(self.blocks.shuffled_bytes - self.decoded);
        self.decoded += len;
        let codec = self.codec;
        self.blocks.decompress_next(len, |block| {
            planes.load(len, 8 * element, |buffer| {
                codec.decompress(simd, block, buffer, len, len / (8 * element))
            })
        })
    }
}

impl<'a> PixelSource<'a> {
    /// Returns whether a frame can be read tile by tile: it is stored as native pixels or in
    /// bitshuffled blocks.
    pub(crate) fn can_open(pipeline: &Pipeline, stored: &EncodedFrame<'_>) -> bool {
        pipeline.is_native(stored.filter_mask)
            || pipeline.only_bitshuffle(stored.filter_mask).is_some()
                && cfg!(target_endian = "little")
    }

    /// Opens a frame for which [`PixelSource::can_open`] holds, and checks the header and the
    /// length.
    pub(crate) fn open(
        pipeline: &Pipeline,
        stored: &EncodedFrame<'a>,
        frame_bytes: usize,
    ) -> Result<PixelSource<'a>, DecodeError> {
        match pipeline.only_bitshuffle(stored.filter_mask) {
            Some(bitshuffle) => {
                BlockSource::open(bitshuffle, stored.bytes, frame_bytes).map(PixelSource::Blocks)
            }
            None if stored.bytes.len() == frame_bytes => Ok(PixelSource::Native(stored.bytes)),
            None => Err(DecodeError::Length {
                filter: "raw",
                found: stored.bytes.len(),
                expected: frame_bytes,
            }),
        }
    }

    /// Returns the counts of one frame that takes the decode path of this source.
    pub(crate) fn decode_path(&self, rules: &InvalidRules) -> DecodePathCounts {
        match self {
            PixelSource::Blocks(source) if source.reads_planes && rules.planes.is_some() => {
                DecodePathCounts { planes: 1, ..DecodePathCounts::default() }
            }
            PixelSource::Blocks(_) => {
                DecodePathCounts { unshuffled: 1, ..DecodePathCounts::default() }
            }
            PixelSource::Native(_) => DecodePathCounts { native: 1, ..DecodePathCounts::default() },
        }
    }

    /// Reads the next tile into a lane.
    pub(crate) fn read<S: Simd>(
        &mut self,
        simd: S,
        context: TileContext<'_>,
        rules: &InvalidRules,
        buffers: &mut SourceBuffers,
        lane: &mut Lane,
    ) -> Result<(), DecodeError> {
        lane.width = PixelWidth::Zero;
        let start = context.tile_index * TILE;
        let len = TILE.min(context.pixels - start);
        match self {
            PixelSource::Native(frame) => {
                let size = rules.element_size;
                let pixels = &frame[start * size..(start + len) * size];
                rules.read_native(simd, context, pixels, lane);
            }
            PixelSource::Blocks(source) => match &rules.planes {
                Some(rule) if source.reads_planes => {
                    source.read_planes(simd, context, rule, rules, buffers, lane)?
                }
                _ => source.read_via_native(simd, context, rules, buffers, lane)?,
            },
        }
        Ok(())
    }
}

impl BlockSource<'_> {
    /// Reads a tile from the bit planes of its block. Falls back to unshuffled pixels if the values
    /// are too large, and for a short last tile.
    fn read_planes<S: Simd>(
        &mut self,
        simd: S,
        context: TileContext<'_>,
        rule: &PlaneInvalidRule,
        rules: &InvalidRules,
        buffers: &mut SourceBuffers,
        lane: &mut Lane,
    ) -> Result<(), DecodeError> {
        let (tile_start, size) = (context.tile_index * TILE, rules.element_size);
        let in_block = tile_start % (self.blocks.block_bytes / size);
        if in_block == 0 && self.decoded < self.blocks.shuffled_bytes {
            self.decompress_next(simd, &mut buffers.planes, size)?;
        }
        let in_planes = in_block + TILE <= buffers.planes.pixel_count()
            && tile_start + TILE <= self.decoded / size;
        if in_planes && buffers.planes.read_tile(simd, in_block, context, rule, lane) {
            return Ok(());
        }
        let pixels = &mut buffers.native_pixels;
        if in_planes {
            pixels.resize(TILE * size, 0);
            buffers.planes.bitunshuffle(simd, in_block, pixels);
        } else {
            // The last tile: the rest of the last block, and the unshuffled elements after it.
            let left = self.decoded - tile_start * size;
            pixels.resize((context.pixels - tile_start) * size, 0);
            let (shuffled, tail) = pixels.split_at_mut(left);
            if left > 0 {
                buffers.planes.bitunshuffle(simd, in_block, shuffled);
            }
            self.blocks.read_tail(tail)?;
        }
        rules.read_native(simd, context, pixels, lane);
        Ok(())
    }

    /// Reads a tile from unshuffled pixels; unshuffles further blocks until there are enough.
    fn read_via_native<S: Simd>(
        &mut self,
        simd: S,
        context: TileContext<'_>,
        rules: &InvalidRules,
        buffers: &mut SourceBuffers,
        lane: &mut Lane,
    ) -> Result<(), DecodeError> {
        let SourceBuffers { planes, native_pixels: pixels, consumed } = buffers;
        let size = rules.element_size;
        if context.tile_index == 0 {
            pixels.clear();
            *consumed = 0;
        }
        let tile_bytes = TILE.min(context.pixels - context.tile_index * TILE) * size;
        while pixels.len() < *consumed + tile_bytes {
            pixels.drain(..*consumed);
            *consumed = 0;
            let end = pixels.len();
            if self.decoded < self.blocks.shuffled_bytes {
                self.decompress_next(simd, planes, size)?;
                pixels.resize(end + planes.block().len(), 0);
                planes.bitunshuffle(simd, 0, &mut pixels[end..]);
            } else {
                pixels.resize(tile_bytes, 0);
                self.blocks.read_tail(&mut pixels[end..])?;
            }
        }
        let pixels = &pixels[*consumed..*consumed + tile_bytes];
        rules.read_native(simd, context, pixels, lane);
        *consumed += tile_bytes;
        Ok(())
    }
}
