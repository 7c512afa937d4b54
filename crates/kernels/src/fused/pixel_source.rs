//! Where one frame's pixels come from, tile by tile.

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

/// What a source needs to know of the tile that it reads.
#[derive(Clone, Copy)]
pub(crate) struct TileContext<'a> {
    /// The tile's number in the frame.
    pub(crate) tile_index: usize,
    /// Pixels of the frame.
    pub(crate) pixels: usize,
    /// The pixels without entries.
    pub(crate) unused: &'a Bitmap,
    /// Whether so many pixels of the first frame are bright that all are summed: which are in the others needs not be found.
    pub(crate) is_dense: bool,
    /// 0 for pixels without entries; made where pixels come as they are.
    pub(crate) used_mask: &'a OnceCell<[u8; TILE]>,
}

impl TileContext<'_> {
    /// 0 for pixels without entries, 1 for the others.
    pub(crate) fn used(&self) -> &[u8; TILE] {
        self.used_mask.get_or_init(|| Bitmap::FULL.without(self.unused).bytes())
    }
}

/// The rules that a source may need, of one pixel type.
pub(crate) struct InvalidRules<T> {
    pub(crate) native: InvalidRanges<T>,
    pub(crate) planes: Option<PlaneInvalidRule>,
}

/// One frame's pixels.
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
    /// Decoded bytes so far.
    decoded: usize,
    /// Whether tiles are read from bit planes as they are: no tile lies in two blocks.
    reads_planes: bool,
}

/// Memory of a source that outlives the frame.
#[derive(Default)]
pub(crate) struct SourceBuffers {
    planes: BitPlanes,
    /// Native pixels, where blocks and tiles do not match, and for the last tile.
    native_pixels: Vec<u8>,
    /// Bytes of `staged` that were read.
    consumed: usize,
}

impl<'a> BlockSource<'a> {
    pub(crate) fn open(bitshuffle: Bitshuffle, stored: &'a [u8], frame_bytes: usize) -> Result<Self, DecodeError> {
        let blocks = BlockReader::open(bitshuffle, stored, frame_bytes)?;
        let by_planes =
            blocks.block_bytes % (TILE * bitshuffle.element_size) == 0 || blocks.block_bytes >= blocks.shuffled_bytes;
        Ok(BlockSource { blocks, codec: bitshuffle.codec, decoded: 0, reads_planes: by_planes })
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
            planes.load(len, 8 * element, |room| match codec {
                Codec::Lz4 => backend.decompress(block, room, len, len / (8 * element)),
                Codec::None | Codec::Zstd => codec.decompress(block, room, len),
            })
        })
    }
}

impl PixelSource<'_> {
    /// The way that one frame takes from here.
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
        place: TileContext<'_>,
        rules: &InvalidRules<T>,
        buffers: &mut SourceBuffers,
        lane: &mut Lane,
    ) -> Result<(), DecodeError> {
        lane.width = PixelWidth::Zero;
        let start = place.tile_index * TILE;
        let len = TILE.min(place.pixels - start);
        match self {
            PixelSource::Native(frame) => {
                let pixels = &frame[start * T::SIZE..(start + len) * T::SIZE];
                backend.read_native_tile(lane, pixels, place, &rules.native);
            }
            PixelSource::Blocks(source) => match &rules.planes {
                Some(rule) if source.reads_planes => source.read_planes(backend, place, rule, rules, buffers, lane)?,
                _ => source.read_via_native(backend, place, rules, buffers, lane)?,
            },
        }
        Ok(())
    }
}

impl BlockSource<'_> {
    /// Reads a tile from the planes of the block that it lies in.
    fn read_planes<T: Pixel, B: SimdBackend>(
        &mut self,
        backend: B,
        place: TileContext<'_>,
        rule: &PlaneInvalidRule,
        rules: &InvalidRules<T>,
        buffers: &mut SourceBuffers,
        lane: &mut Lane,
    ) -> Result<(), DecodeError> {
        let tile_start = place.tile_index * TILE;
        let in_block = tile_start % (self.blocks.block_bytes / T::SIZE);
        if in_block == 0 && self.decoded < self.blocks.shuffled_bytes {
            self.decompress_next(backend, &mut buffers.planes, T::SIZE)?;
        }
        let in_planes = in_block + TILE <= buffers.planes.pixel_count() && tile_start + TILE <= self.decoded / T::SIZE;
        if in_planes && buffers.planes.read_tile(backend, in_block, place, rule, lane) {
            return Ok(());
        }
        let staged = &mut buffers.native_pixels;
        if in_planes {
            staged.resize(TILE * T::SIZE, 0);
            buffers.planes.bitunshuffle(backend, in_block, staged);
        } else {
            // The last tile: what is left of the last block, and the elements behind it.
            let left = self.decoded - tile_start * T::SIZE;
            staged.resize((place.pixels - tile_start) * T::SIZE, 0);
            let (shuffled, behind) = staged.split_at_mut(left);
            if left > 0 {
                buffers.planes.bitunshuffle(backend, in_block, shuffled);
            }
            self.blocks.read_tail(behind)?;
        }
        backend.read_native_tile(lane, staged, place, &rules.native);
        Ok(())
    }

    /// Reads a tile from native pixels, into which blocks are unshuffled until there are enough.
    fn read_via_native<T: Pixel, B: SimdBackend>(
        &mut self,
        backend: B,
        place: TileContext<'_>,
        rules: &InvalidRules<T>,
        buffers: &mut SourceBuffers,
        lane: &mut Lane,
    ) -> Result<(), DecodeError> {
        let SourceBuffers { planes, native_pixels: staged, consumed: taken } = buffers;
        if place.tile_index == 0 {
            staged.clear();
            *taken = 0;
        }
        let wanted = TILE.min(place.pixels - place.tile_index * TILE) * T::SIZE;
        while staged.len() < *taken + wanted {
            staged.drain(..*taken);
            *taken = 0;
            let behind = staged.len();
            if self.decoded < self.blocks.shuffled_bytes {
                self.decompress_next(backend, planes, T::SIZE)?;
                staged.resize(behind + planes.block().len(), 0);
                planes.bitunshuffle(backend, 0, &mut staged[behind..]);
            } else {
                staged.resize(wanted, 0);
                self.blocks.read_tail(&mut staged[behind..])?;
            }
        }
        backend.read_native_tile(lane, &staged[*taken..*taken + wanted], place, &rules.native);
        *taken += wanted;
        Ok(())
    }
}
