//! The bit planes of one block, and what they tell of a tile before any pixel is known.

use std::ops::Range;

use super::lane::{Lane, PixelWidth};
use super::pixel_source::TileContext;
use super::plane_rule::{InvalidPlaneRange, PlaneInvalidRule};
use crate::bitmap::Bitmap;
use crate::lz4_block::{BlockBuffer, DecodedBlock};
use crate::simd::SimdBackend;
use crate::summation_order::TILE;

/// Bytes of a plane that hold a tile.
const TILE_BYTES: usize = TILE / 8;

/// A decompressed block: planes of equal length, least significant bits first.
#[derive(Default)]
pub(crate) struct BitPlanes {
    buffer: BlockBuffer,
    /// Bytes of the block.
    len: usize,
    /// Bytes of a plane.
    stride: usize,
    /// How many planes may have a bit set.
    occupied_planes: usize,
    /// How many planes are written, all or some; the others are like the last of these.
    written_planes: usize,
}

impl BitPlanes {
    /// Has `decompress` decompress a block of `len` bytes in `bit_planes` planes into the room, from where planes on that are
    /// all alike it may leave out all but the first; it returns `None` where the block is not sound. Whether it is.
    pub(crate) fn load(
        &mut self,
        len: usize,
        planes: usize,
        expand: impl FnOnce(&mut BlockBuffer) -> Option<DecodedBlock>,
    ) -> bool {
        (self.len, self.stride) = (len, len / planes);
        let decoded = expand(&mut self.buffer);
        let DecodedBlock { zero_from, repeats_from } = decoded.unwrap_or(DecodedBlock::fully_written(0));
        (self.occupied_planes, self.written_planes) = match repeats_from {
            Some(start) => (planes, start / self.stride + 1),
            None => (zero_from.min(len).div_ceil(self.stride), planes),
        };
        decoded.is_some()
    }

    /// Writes as many planes, the lowest ones, that were left out.
    fn materialize(&mut self, planes: usize) {
        if self.written_planes < planes {
            self.buffer.repeat_period((self.written_planes - 1) * self.stride, self.stride, planes * self.stride);
            self.written_planes = planes;
        }
    }

    /// The block.
    pub(crate) fn block(&mut self) -> &[u8] {
        self.materialize(self.len / self.stride);
        &self.buffer.bytes()[..self.len]
    }

    /// Pixels of the block.
    pub(crate) fn pixel_count(&self) -> usize {
        self.stride * 8
    }

    /// These planes, of such as are alike maybe fewer.
    fn plane_range(&self, planes: Range<usize>) -> &[u8] {
        let (start, end) = (planes.start.min(self.written_planes - 1), planes.end.min(self.written_planes));
        &self.buffer.bytes()[start * self.stride..end * self.stride]
    }

    /// Eight planes.
    fn eight_planes(&mut self, first: usize) -> &[u8] {
        self.materialize(first + 8);
        self.plane_range(first..first + 8)
    }

    /// Reads a whole tile, which starts at pixel `start` of the block, into a lane: finds the invalid pixels and takes them out, and unshuffles as many bits as the others need. Gaps
    /// fill pixels without entries with ones; they must not force the slow width.
    ///
    /// False where pixels are negative or do not fit in 16 bits; then the lane is still to be filled, without the invalid ones,
    /// which are zero now.
    pub(crate) fn read_tile<B: SimdBackend>(
        &mut self,
        backend: B,
        start: usize,
        place: TileContext<'_>,
        rule: &PlaneInvalidRule,
        lane: &mut Lane,
    ) -> bool {
        let TileContext { tile_index: number, unused, is_dense: dense, .. } = place;
        let (from, total, occupied) = (start / 8, self.len / self.stride, self.occupied_planes);
        let has_any = |planes: &BitPlanes, range: Range<usize>| {
            backend.any_bit_set(planes.plane_range(range), planes.stride, from, unused)
        };
        // Mostly one look is enough.
        let wide = occupied > 8 && has_any(self, 8..occupied);
        for range in rule.ranges.iter().filter(|range| range.planes.end <= occupied) {
            let top = range.planes.end - 1;
            if (wide || top < 8) && has_any(self, top..top + 1) {
                self.extract_invalid(backend, from, number, unused, range, lane);
            }
        }
        if rule.signed && occupied == total && (wide || total == 8) && has_any(self, total - 1..total) {
            return false;
        }
        if wide && occupied > 16 && has_any(self, 16..occupied) {
            return false;
        }
        let middle = wide && has_any(self, 8..occupied.min(16));
        lane.width = if middle { PixelWidth::U16 } else { PixelWidth::U8 };
        if middle {
            let stride = self.stride;
            backend.bitunshuffle_tile(self.eight_planes(8), stride, from, &mut lane.high_bytes);
        } else if dense {
            (lane.nonzero, lane.above_one) = (Bitmap::FULL, Bitmap::FULL);
        } else {
            let union = |planes: &BitPlanes, range: Range<usize>| {
                backend.or_planes(planes.plane_range(range), planes.stride, from, unused)
            };
            lane.above_one = union(self, 1..occupied.clamp(1, 8));
            lane.nonzero = union(self, 0..occupied.min(1)).zip(&lane.above_one, |one, more| one | more);
            if lane.nonzero.is_empty() {
                lane.width = PixelWidth::Zero;
                return true;
            }
        }
        let stride = self.stride;
        backend.bitunshuffle_tile(self.eight_planes(0), stride, from, &mut lane.low_bytes);
        true
    }

    /// Native pixels, as many as `out` holds, from pixel `start` of the block on; eights of pixels.
    pub(crate) fn bitunshuffle<B: SimdBackend>(&mut self, backend: B, start: usize, out: &mut [u8]) {
        let stride = self.stride;
        backend.bitunshuffle(self.block(), stride, start / 8, out);
    }

    /// Records the invalid pixels of a tile, and clears their bits.
    fn extract_invalid<B: SimdBackend>(
        &mut self,
        backend: B,
        from: usize,
        number: usize,
        unused: &Bitmap,
        range: &InvalidPlaneRange,
        lane: &mut Lane,
    ) {
        let planes = self.plane_range(range.planes.clone());
        let mut invalid = backend.and_planes(planes, self.stride, from).without(unused);
        if !range.exact {
            let candidates = invalid;
            for pixel in candidates.iter_ones() {
                if !range.contains(self.pixel_bits(from * 8 + pixel)) {
                    invalid.0[pixel / 64] &= !(1 << (pixel % 64));
                }
            }
        }
        if invalid.is_empty() {
            return;
        }
        lane.invalid.extend(invalid.iter_ones().map(|pixel| (number * TILE + pixel) as u32));
        for plane in self.buffer.bytes_mut(self.written_planes * self.stride).chunks_exact_mut(self.stride) {
            let tile = &mut plane[from..from + TILE_BYTES];
            for (byte, word) in tile.chunks_exact_mut(8).zip(invalid.0) {
                for (byte, clear) in byte.iter_mut().zip(word.to_le_bytes()) {
                    *byte &= !clear;
                }
            }
        }
    }

    /// The bits of one pixel.
    fn pixel_bits(&self, pixel: usize) -> u64 {
        let bit = |plane: usize| u64::from(self.plane_range(plane..plane + 1)[pixel / 8] >> (pixel % 8) & 1);
        (0..self.len / self.stride).map(|plane| bit(plane) << plane).sum()
    }
}
