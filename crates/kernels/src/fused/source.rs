//! Where one frame's pixels come from, tile by tile.

use std::cell::OnceCell;

use super::lane::{Lane, Width};
use super::planes::Planes;
use super::rule::PlaneRule;
use crate::backend::Steps;
use crate::bitmap::Bitmap;
use crate::decode::DecodeError;
use crate::decode::bitshuffle::{Bitshuffle, Blocks, Codec};
use crate::invalid::InvalidOf;
use crate::order::TILE;
use crate::pixel::Pixel;
use crate::ways::Ways;

/// What a source needs to know of the tile that it reads.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    /// The tile's number in the frame.
    pub(crate) number: usize,
    /// Pixels of the frame.
    pub(crate) pixels: usize,
    /// The pixels without entries.
    pub(crate) unused: &'a Bitmap,
    /// Whether so many pixels of the first frame are bright that all are summed: which are in the others needs not be found.
    pub(crate) dense: bool,
    /// 0 for pixels without entries; made where pixels come as they are.
    pub(crate) used: &'a OnceCell<[u8; TILE]>,
}

impl Place<'_> {
    /// 0 for pixels without entries, 1 for the others.
    pub(crate) fn used(&self) -> &[u8; TILE] {
        self.used.get_or_init(|| Bitmap::FULL.without(self.unused).bytes())
    }
}

/// The rules that a source may need, of one pixel type.
pub(crate) struct Rules<T> {
    pub(crate) native: InvalidOf<T>,
    pub(crate) planes: Option<PlaneRule>,
}

/// One frame's pixels.
pub(crate) enum Source<'a> {
    /// Bitshuffled blocks.
    Blocks(BlockSource<'a>),
    /// A whole frame of native pixels.
    Native(&'a [u8]),
}

/// Bitshuffled blocks, decompressed one at a time.
pub(crate) struct BlockSource<'a> {
    blocks: Blocks<'a>,
    codec: Codec,
    /// Decoded bytes so far.
    decoded: usize,
    /// Whether tiles are read from bit planes as they are: no tile lies in two blocks.
    by_planes: bool,
}

/// Memory of a source that outlives the frame.
#[derive(Default)]
pub(crate) struct Buffers {
    planes: Planes,
    /// Native pixels, where blocks and tiles do not match, and for the last tile.
    staged: Vec<u8>,
    /// Bytes of `staged` that were read.
    taken: usize,
}

impl<'a> BlockSource<'a> {
    pub(crate) fn open(bitshuffle: Bitshuffle, stored: &'a [u8], frame_bytes: usize) -> Result<Self, DecodeError> {
        let blocks = Blocks::open(bitshuffle, stored, frame_bytes)?;
        let by_planes = blocks.block_bytes % (TILE * bitshuffle.element) == 0 || blocks.block_bytes >= blocks.shuffled;
        Ok(BlockSource { blocks, codec: bitshuffle.codec, decoded: 0, by_planes })
    }

    /// Decompresses the next block into the planes.
    fn next<B: Steps>(&mut self, backend: B, planes: &mut Planes, element: usize) -> Result<(), DecodeError> {
        let len = self.blocks.block_bytes.min(self.blocks.shuffled - self.decoded);
        self.decoded += len;
        let codec = self.codec;
        self.blocks.next_with(len, |block| {
            planes.load(len, 8 * element, |room| match codec {
                Codec::Lz4 => backend.expand(block, room, len, len / (8 * element)),
                Codec::None | Codec::Zstd => codec.expand(block, room, len),
            })
        })
    }
}

impl Source<'_> {
    /// The way that one frame takes from here.
    pub(crate) fn way<T>(&self, rules: &Rules<T>) -> Ways {
        match self {
            Source::Blocks(source) if source.by_planes && rules.planes.is_some() => {
                Ways { planes: 1, ..Ways::default() }
            }
            Source::Blocks(_) => Ways { unshuffled: 1, ..Ways::default() },
            Source::Native(_) => Ways { native: 1, ..Ways::default() },
        }
    }

    /// Reads the next tile into a lane.
    pub(crate) fn read<T: Pixel, B: Steps>(
        &mut self,
        backend: B,
        place: Place<'_>,
        rules: &Rules<T>,
        buffers: &mut Buffers,
        lane: &mut Lane,
    ) -> Result<(), DecodeError> {
        lane.width = Width::Zero;
        let start = place.number * TILE;
        let len = TILE.min(place.pixels - start);
        match self {
            Source::Native(frame) => {
                let pixels = &frame[start * T::SIZE..(start + len) * T::SIZE];
                backend.read_native(lane, pixels, place, &rules.native);
            }
            Source::Blocks(source) => match &rules.planes {
                Some(rule) if source.by_planes => source.read_planes(backend, place, rule, rules, buffers, lane)?,
                _ => source.read_staged(backend, place, rules, buffers, lane)?,
            },
        }
        Ok(())
    }
}

impl BlockSource<'_> {
    /// Reads a tile from the planes of the block that it lies in.
    fn read_planes<T: Pixel, B: Steps>(
        &mut self,
        backend: B,
        place: Place<'_>,
        rule: &PlaneRule,
        rules: &Rules<T>,
        buffers: &mut Buffers,
        lane: &mut Lane,
    ) -> Result<(), DecodeError> {
        let tile_start = place.number * TILE;
        let in_block = tile_start % (self.blocks.block_bytes / T::SIZE);
        if in_block == 0 && self.decoded < self.blocks.shuffled {
            self.next(backend, &mut buffers.planes, T::SIZE)?;
        }
        let in_planes = in_block + TILE <= buffers.planes.pixels() && tile_start + TILE <= self.decoded / T::SIZE;
        if in_planes && buffers.planes.read_tile(backend, in_block, place, rule, lane) {
            return Ok(());
        }
        let staged = &mut buffers.staged;
        if in_planes {
            staged.resize(TILE * T::SIZE, 0);
            buffers.planes.untranspose(backend, in_block, staged);
        } else {
            // The last tile: what is left of the last block, and the elements behind it.
            let left = self.decoded - tile_start * T::SIZE;
            staged.resize((place.pixels - tile_start) * T::SIZE, 0);
            let (shuffled, behind) = staged.split_at_mut(left);
            if left > 0 {
                buffers.planes.untranspose(backend, in_block, shuffled);
            }
            self.blocks.finish(behind)?;
        }
        backend.read_native(lane, staged, place, &rules.native);
        Ok(())
    }

    /// Reads a tile from native pixels, into which blocks are unshuffled until there are enough.
    fn read_staged<T: Pixel, B: Steps>(
        &mut self,
        backend: B,
        place: Place<'_>,
        rules: &Rules<T>,
        buffers: &mut Buffers,
        lane: &mut Lane,
    ) -> Result<(), DecodeError> {
        let Buffers { planes, staged, taken } = buffers;
        if place.number == 0 {
            staged.clear();
            *taken = 0;
        }
        let wanted = TILE.min(place.pixels - place.number * TILE) * T::SIZE;
        while staged.len() < *taken + wanted {
            staged.drain(..*taken);
            *taken = 0;
            let behind = staged.len();
            if self.decoded < self.blocks.shuffled {
                self.next(backend, planes, T::SIZE)?;
                staged.resize(behind + planes.block().len(), 0);
                planes.untranspose(backend, 0, &mut staged[behind..]);
            } else {
                staged.resize(wanted, 0);
                self.blocks.finish(&mut staged[behind..])?;
            }
        }
        backend.read_native(lane, &staged[*taken..*taken + wanted], place, &rules.native);
        *taken += wanted;
        Ok(())
    }
}
