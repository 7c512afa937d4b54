//! The bit planes of one block, and what they tell of a tile before any pixel is known.

use super::lane::{Lane, Width};
use super::rule::{PlaneRange, PlaneRule};
use crate::backend::Steps;
use crate::bitmap::Bitmap;
use crate::lz4::Room;
use crate::order::TILE;

/// Bytes of a plane that hold a tile.
const TILE_BYTES: usize = TILE / 8;

/// A decompressed block: planes of equal length, least significant bits first.
#[derive(Default)]
pub(crate) struct Planes {
    room: Room,
    /// Bytes of the block.
    len: usize,
    /// Bytes of a plane.
    stride: usize,
    /// All bytes of the block from here on are known to be zero.
    extent: usize,
}

impl Planes {
    /// Has `expand` decompress a block of `len` bytes in `planes` planes into the room; it returns how many leading
    /// bytes may be other than zero, or `None` where the block is not sound. Whether it is.
    pub(crate) fn load(&mut self, len: usize, planes: usize, expand: impl FnOnce(&mut Room) -> Option<usize>) -> bool {
        (self.len, self.stride) = (len, len / planes);
        let extent = expand(&mut self.room);
        self.extent = extent.unwrap_or(0);
        extent.is_some()
    }

    /// The block.
    pub(crate) fn block(&self) -> &[u8] {
        &self.room.bytes()[..self.len]
    }

    /// Pixels of the block.
    pub(crate) fn pixels(&self) -> usize {
        self.stride * 8
    }

    /// How many planes may have a bit set.
    fn occupied(&self) -> usize {
        self.extent.div_ceil(self.stride)
    }

    fn of(&self, planes: std::ops::Range<usize>) -> &[u8] {
        &self.room.bytes()[planes.start * self.stride..planes.end * self.stride]
    }

    /// Reads a whole tile, which starts at pixel `start` of the block and is number `number` of the frame, into a
    /// lane: finds the invalid pixels and takes them out, and unshuffles as many bits as the others need. `unused` are
    /// the tile's pixels without entries, which gaps fill with ones; they must not force the slow width.
    ///
    /// False where pixels are negative or do not fit in 16 bits; then the lane is still to be filled, without the invalid ones,
    /// which are zero now.
    pub(crate) fn read_tile<B: Steps>(
        &mut self,
        backend: B,
        start: usize,
        number: usize,
        unused: &Bitmap,
        rule: &PlaneRule,
        lane: &mut Lane,
    ) -> bool {
        let (from, total, occupied) = (start / 8, self.len / self.stride, self.occupied());
        let union = |planes: &Planes, range: std::ops::Range<usize>| {
            backend.union(planes.of(range), planes.stride, from).without(unused)
        };
        for range in rule.ranges.iter().filter(|range| range.planes.end <= occupied) {
            let top = range.planes.end - 1;
            if !union(self, top..top + 1).is_empty() {
                self.take_invalid(backend, from, number, unused, range, lane);
            }
        }
        if rule.signed && occupied == total && !union(self, total - 1..total).is_empty() {
            return false;
        }
        if occupied > 16 && !union(self, 16..occupied).is_empty() {
            return false;
        }
        let middle = occupied > 8 && !union(self, 8..occupied.min(16)).is_empty();
        lane.width = if middle { Width::Middle } else { Width::Narrow };
        if middle {
            backend.unshuffle(self.of(8..16), self.stride, from, &mut lane.high);
        } else {
            lane.bright = union(self, 1..occupied.clamp(1, 8));
            lane.lit = union(self, 0..occupied.min(1)).zip(&lane.bright, |one, more| one | more);
            if lane.lit.is_empty() {
                lane.width = Width::Zero;
                return true;
            }
        }
        backend.unshuffle(self.of(0..8), self.stride, from, &mut lane.low);
        true
    }

    /// Native pixels, as many as `out` holds, from pixel `start` of the block on; eights of pixels.
    pub(crate) fn untranspose<B: Steps>(&self, backend: B, start: usize, out: &mut [u8]) {
        backend.untranspose(self.block(), self.stride, start / 8, out);
    }

    /// Records the invalid pixels of a tile, and clears their bits.
    fn take_invalid<B: Steps>(
        &mut self,
        backend: B,
        from: usize,
        number: usize,
        unused: &Bitmap,
        range: &PlaneRange,
        lane: &mut Lane,
    ) {
        let planes = self.of(range.planes.clone());
        let mut invalid = backend.intersection(planes, self.stride, from).without(unused);
        if !range.exact {
            let candidates = invalid;
            for pixel in candidates.rising() {
                if !range.contains(self.pattern(from * 8 + pixel)) {
                    invalid.0[pixel / 64] &= !(1 << (pixel % 64));
                }
            }
        }
        if invalid.is_empty() {
            return;
        }
        lane.invalid.extend(invalid.rising().map(|pixel| (number * TILE + pixel) as u32));
        for plane in self.room.bytes_mut(self.len).chunks_exact_mut(self.stride) {
            let tile = &mut plane[from..from + TILE_BYTES];
            for (byte, word) in tile.chunks_exact_mut(8).zip(invalid.0) {
                for (byte, clear) in byte.iter_mut().zip(word.to_le_bytes()) {
                    *byte &= !clear;
                }
            }
        }
    }

    /// The bits of one pixel.
    fn pattern(&self, pixel: usize) -> u64 {
        let planes = self.block().chunks_exact(self.stride);
        planes.enumerate().map(|(i, plane)| u64::from(plane[pixel / 8] >> (pixel % 8) & 1) << i).sum()
    }
}
