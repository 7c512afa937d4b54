//! The bit planes of one block, and what they tell of a tile before any pixel is known.

use std::ops::Range;

use super::lane::{Lane, Width};
use super::rule::{PlaneRange, PlaneRule};
use super::source::Place;
use crate::backend::Steps;
use crate::bitmap::Bitmap;
use crate::lz4::{Decoded, Room};
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
    /// How many planes may have a bit set.
    occupied: usize,
    /// How many planes are written, all or some; the others are like the last of these.
    written: usize,
}

impl Planes {
    /// Has `expand` decompress a block of `len` bytes in `planes` planes into the room, from where planes on that are
    /// all alike it may leave out all but the first; it returns `None` where the block is not sound. Whether it is.
    pub(crate) fn load(
        &mut self,
        len: usize,
        planes: usize,
        expand: impl FnOnce(&mut Room) -> Option<Decoded>,
    ) -> bool {
        (self.len, self.stride) = (len, len / planes);
        let decoded = expand(&mut self.room);
        let Decoded { zero_from, repeats_from } = decoded.unwrap_or(Decoded::whole(0));
        (self.occupied, self.written) = match repeats_from {
            Some(start) => (planes, start / self.stride + 1),
            None => (zero_from.min(len).div_ceil(self.stride), planes),
        };
        decoded.is_some()
    }

    /// Writes as many planes, the lowest ones, that were left out.
    fn write(&mut self, planes: usize) {
        if self.written < planes {
            self.room.repeat((self.written - 1) * self.stride, self.stride, planes * self.stride);
            self.written = planes;
        }
    }

    /// The block.
    pub(crate) fn block(&mut self) -> &[u8] {
        self.write(self.len / self.stride);
        &self.room.bytes()[..self.len]
    }

    /// Pixels of the block.
    pub(crate) fn pixels(&self) -> usize {
        self.stride * 8
    }

    /// These planes, of such as are alike maybe fewer.
    fn of(&self, planes: Range<usize>) -> &[u8] {
        let (start, end) = (planes.start.min(self.written - 1), planes.end.min(self.written));
        &self.room.bytes()[start * self.stride..end * self.stride]
    }

    /// Eight planes.
    fn eight(&mut self, first: usize) -> &[u8] {
        self.write(first + 8);
        self.of(first..first + 8)
    }

    /// Reads a whole tile, which starts at pixel `start` of the block, into a lane: finds the invalid pixels and takes them out, and unshuffles as many bits as the others need. Gaps
    /// fill pixels without entries with ones; they must not force the slow width.
    ///
    /// False where pixels are negative or do not fit in 16 bits; then the lane is still to be filled, without the invalid ones,
    /// which are zero now.
    pub(crate) fn read_tile<B: Steps>(
        &mut self,
        backend: B,
        start: usize,
        place: Place<'_>,
        rule: &PlaneRule,
        lane: &mut Lane,
    ) -> bool {
        let Place { number, unused, dense, .. } = place;
        let (from, total, occupied) = (start / 8, self.len / self.stride, self.occupied);
        let has_any =
            |planes: &Planes, range: Range<usize>| backend.has_any(planes.of(range), planes.stride, from, unused);
        // Mostly one look is enough.
        let wide = occupied > 8 && has_any(self, 8..occupied);
        for range in rule.ranges.iter().filter(|range| range.planes.end <= occupied) {
            let top = range.planes.end - 1;
            if (wide || top < 8) && has_any(self, top..top + 1) {
                self.take_invalid(backend, from, number, unused, range, lane);
            }
        }
        if rule.signed && occupied == total && (wide || total == 8) && has_any(self, total - 1..total) {
            return false;
        }
        if wide && occupied > 16 && has_any(self, 16..occupied) {
            return false;
        }
        let middle = wide && has_any(self, 8..occupied.min(16));
        lane.width = if middle { Width::Middle } else { Width::Narrow };
        if middle {
            let stride = self.stride;
            backend.unshuffle(self.eight(8), stride, from, &mut lane.high);
        } else if dense {
            (lane.lit, lane.bright) = (Bitmap::FULL, Bitmap::FULL);
        } else {
            let union =
                |planes: &Planes, range: Range<usize>| backend.union(planes.of(range), planes.stride, from, unused);
            lane.bright = union(self, 1..occupied.clamp(1, 8));
            lane.lit = union(self, 0..occupied.min(1)).zip(&lane.bright, |one, more| one | more);
            if lane.lit.is_empty() {
                lane.width = Width::Zero;
                return true;
            }
        }
        let stride = self.stride;
        backend.unshuffle(self.eight(0), stride, from, &mut lane.low);
        true
    }

    /// Native pixels, as many as `out` holds, from pixel `start` of the block on; eights of pixels.
    pub(crate) fn untranspose<B: Steps>(&mut self, backend: B, start: usize, out: &mut [u8]) {
        let stride = self.stride;
        backend.untranspose(self.block(), stride, start / 8, out);
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
        for plane in self.room.bytes_mut(self.written * self.stride).chunks_exact_mut(self.stride) {
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
        let bit = |plane: usize| u64::from(self.of(plane..plane + 1)[pixel / 8] >> (pixel % 8) & 1);
        (0..self.len / self.stride).map(|plane| bit(plane) << plane).sum()
    }
}
