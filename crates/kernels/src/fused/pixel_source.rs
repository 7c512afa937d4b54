//! [`PixelSource`], which reads one frame's pixels tile by tile from native pixels or from bitshuffled blocks.

use std::cell::OnceCell;

use super::bit_planes::BitPlanes;
use super::lane::{Lane, PixelWidth};
use super::plane_rule::PlaneInvalidRule;
use crate::bitmap::Bitmap;
use crate::codec::DecodeError;
use crate::codec::bitshuffle::{Bitshuffle, BlockReader, Codec};
use crate::decode_paths::DecodePathCounts;
use crate::invalid_values::InvalidRanges;
use crate::pixel::Pixel;
use crate::simd::SimdBackend;
use crate::summation_order::TILE;

/// The tile to read, and facts about it that all frames share.
#[derive(Clone, Copy)]
pub(crate) struct TileContext<'a> {
    /// The tile's index in the frame.
    pub(crate) tile_index: usize,
    /// How many pixels the frame has.
    pub(crate) pixels: usize,
    /// The pixels without matrix entries.
    pub(crate) unused: &'a Bitmap,
    /// True if all pixels are summed anyway, because the first frame has many that are above 1. For the other frames
    /// the zero pixels need not be found.
    pub(crate) is_dense: bool,
    /// The cache of [`TileContext::used`], which only native pixels need.
    pub(crate) used_mask: &'a OnceCell<[u8; TILE]>,
}

impl TileContext<'_> {
    /// Returns one byte per pixel of the tile: 0 for pixels without entries, 1 for the others.
    pub(crate) fn used(&self) -> &[u8; TILE] {
        self.used_mask.get_or_init(|| Bitmap::FULL.without(self.unused).bytes())
    }
}

/// The rule for invalid pixels of one pixel type, for native pixels and, if possible, for bit planes.
pub(crate) struct InvalidRules<T> {
    pub(crate) native: InvalidRanges<T>,
    pub(crate) planes: Option<PlaneInvalidRule>,
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
    pub(crate) fn open(bitshuffle: Bitshuffle, stored: &'a [u8], frame_bytes: usize) -> Result<Self, DecodeError> {
        let blocks = BlockReader::open(bitshuffle, stored, frame_bytes)?;
        let reads_planes =
            blocks.block_bytes % (TILE * bitshuffle.element_size) == 0 || blocks.block_bytes >= blocks.shuffled_bytes;
        Ok(BlockSource { blocks, codec: bitshuffle.codec, decoded: 0, reads_planes })
    }

    /// Decompresses the next block into the planes.
    fn decompress_next<B: SimdBackend>(
        &mut self,
        backend: B,
        planes: &mut BitPlanes,
        element: usize,
    ) -> Result<(), DecodeError> {
        let len = self.blocks.block_bytes.min(self.blocks.shuffled_bytes - self.decoded);
        self.decoded += len;
        let codec = self.codec;
        self.blocks.decompress_next(len, |block| {
            planes.load(len, 8 * element, |buffer| match codec {
                Codec::Lz4 => backend.decompress(block, buffer, len, len / (8 * element)),
                Codec::None | Codec::Zstd => codec.decompress(block, buffer, len),
            })
        })
    }
}

impl PixelSource<'_> {
    /// Returns the counts of one frame that takes the decode path of this source.
    pub(crate) fn decode_path<T>(&self, rules: &InvalidRules<T>) -> DecodePathCounts {
        match self {
            PixelSource::Blocks(source) if source.reads_planes && rules.planes.is_some() => {
                DecodePathCounts { planes: 1, ..DecodePathCounts::default() }
            }
            PixelSource::Blocks(_) => DecodePathCounts { unshuffled: 1, ..DecodePathCounts::default() },
            PixelSource::Native(_) => DecodePathCounts { native: 1, ..DecodePathCounts::default() },
        }
    }

    /// Reads the next tile into a lane.
    pub(crate) fn read<T: Pixel, B: SimdBackend>(
        &mut self,
        backend: B,
        context: TileContext<'_>,
        rules: &InvalidRules<T>,
        buffers: &mut SourceBuffers,
        lane: &mut Lane,
    ) -> Result<(), DecodeError> {
        lane.width = PixelWidth::Zero;
        let start = context.tile_index * TILE;
        let len = TILE.min(context.pixels - start);
        match self {
            PixelSource::Native(frame) => {
                let pixels = &frame[start * T::SIZE..(start + len) * T::SIZE];
                backend.read_native_tile(lane, pixels, context, &rules.native);
            }
            PixelSource::Blocks(source) => match &rules.planes {
                Some(rule) if source.reads_planes => {
                    source.read_planes(backend, context, rule, rules, buffers, lane)?
                }
                _ => source.read_via_native(backend, context, rules, buffers, lane)?,
            },
        }
        Ok(())
    }
}

impl BlockSource<'_> {
    /// Reads a tile from the bit planes of its block. Falls back to unshuffled pixels if the values are too large, and
    /// for a short last tile.
    fn read_planes<T: Pixel, B: SimdBackend>(
        &mut self,
        backend: B,
        context: TileContext<'_>,
        rule: &PlaneInvalidRule,
        rules: &InvalidRules<T>,
        buffers: &mut SourceBuffers,
        lane: &mut Lane,
    ) -> Result<(), DecodeError> {
        let tile_start = context.tile_index * TILE;
        let in_block = tile_start % (self.blocks.block_bytes / T::SIZE);
        if in_block == 0 && self.decoded < self.blocks.shuffled_bytes {
            self.decompress_next(backend, &mut buffers.planes, T::SIZE)?;
        }
        let in_planes = in_block + TILE <= buffers.planes.pixel_count() && tile_start + TILE <= self.decoded / T::SIZE;
        if in_planes && buffers.planes.read_tile(backend, in_block, context, rule, lane) {
            return Ok(());
        }
        let pixels = &mut buffers.native_pixels;
        if in_planes {
            pixels.resize(TILE * T::SIZE, 0);
            buffers.planes.bitunshuffle(backend, in_block, pixels);
        } else {
            // The last tile: the rest of the last block, and the unshuffled elements after it.
            let left = self.decoded - tile_start * T::SIZE;
            pixels.resize((context.pixels - tile_start) * T::SIZE, 0);
            let (shuffled, tail) = pixels.split_at_mut(left);
            if left > 0 {
                buffers.planes.bitunshuffle(backend, in_block, shuffled);
            }
            self.blocks.read_tail(tail)?;
        }
        backend.read_native_tile(lane, pixels, context, &rules.native);
        Ok(())
    }

    /// Reads a tile from unshuffled pixels; unshuffles further blocks until there are enough.
    fn read_via_native<T: Pixel, B: SimdBackend>(
        &mut self,
        backend: B,
        context: TileContext<'_>,
        rules: &InvalidRules<T>,
        buffers: &mut SourceBuffers,
        lane: &mut Lane,
    ) -> Result<(), DecodeError> {
        let SourceBuffers { planes, native_pixels: pixels, consumed } = buffers;
        if context.tile_index == 0 {
            pixels.clear();
            *consumed = 0;
        }
        let tile_bytes = TILE.min(context.pixels - context.tile_index * TILE) * T::SIZE;
        while pixels.len() < *consumed + tile_bytes {
            pixels.drain(..*consumed);
            *consumed = 0;
            let end = pixels.len();
            if self.decoded < self.blocks.shuffled_bytes {
                self.decompress_next(backend, planes, T::SIZE)?;
                pixels.resize(end + planes.block().len(), 0);
                planes.bitunshuffle(backend, 0, &mut pixels[end..]);
            } else {
                pixels.resize(tile_bytes, 0);
                self.blocks.read_tail(&mut pixels[end..])?;
            }
        }
        backend.read_native_tile(lane, &pixels[*consumed..*consumed + tile_bytes], context, &rules.native);
        *consumed += tile_bytes;
        Ok(())
    }
}
