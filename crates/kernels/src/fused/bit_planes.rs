//! [`BitPlanes`], a decompressed bitshuffle block, from which tiles are read.
//!
//! Planes tell much about a tile before any pixel is unshuffled: which pixels are zero, whether all
//! fit in 8 or 16 bits, and which are invalid ([`PlaneInvalidRule`]).

use std::ops::Range;

use super::lane::Lane;
use super::plane_rule::{InvalidPlaneRange, PlaneInvalidRule};
use super::tile_context::TileContext;
use crate::bitmap::Bitmap;
use crate::lz4_block::{BlockBuffer, DecodedBlock};
use crate::pixel::PixelWidth;
use crate::simd::Simd;
use crate::summation_order::TILE;

/// How many bytes of a plane hold a tile.
const TILE_BYTES: usize = TILE / 8;

/// A decompressed block: bit planes of equal length, least significant bits first.
#[derive(Default)]
pub(crate) struct BitPlanes {
    buffer: BlockBuffer,
    /// Bytes of the block.
    len: usize,
    /// Bytes of a plane.
    stride: usize,
    /// How many planes, from the lowest on, can have a bit set; the others are zero.
    occupied_planes: usize,
    /// How many planes, from the lowest on, are written; the others are identical to the last of
    /// them.
    written_planes: usize,
}

impl BitPlanes {
    /// Calls `expand` to decompress a block of `len` bytes, which are `planes` planes, into the
    /// buffer. Returns whether the block is valid.
    ///
    /// If the upper planes are identical, `expand` may write only the first of them. It returns
    /// `None` for an invalid block.
    pub(crate) fn load(
        &mut self,
        len: usize,
        planes: usize,
        expand: impl FnOnce(&mut BlockBuffer) -> Option<DecodedBlock>,
    ) -> bool {
        (self.len, self.stride) = (len, len / planes);
        let decoded = expand(&mut self.buffer);
        let DecodedBlock { zero_from, repeats_from } =
            decoded.unwrap_or(DecodedBlock::fully_written(0));
        (self.occupied_planes, self.written_planes) = match repeats_from {
            Some(start) => (planes, start / self.stride + 1),
            None => (zero_from.min(len).div_ceil(self.stride), planes),
        };
        decoded.is_some()
    }

    /// Writes the planes among the lowest `planes` that were left out because they equal the last
    /// stored one.
    fn materialize(&mut self, planes: usize) {
        if self.written_planes < planes {
            self.buffer.repeat_period(
                (self.written_planes - 1) * self.stride,
                self.stride,
                planes * self.stride,
            );
            self.written_planes = planes;
        }
    }

    /// Returns all bytes of the block.
    pub(crate) fn block(&mut self) -> &[u8] {
        self.materialize(self.len / self.stride);
        &self.buffer.bytes()[..self.len]
    }

    /// Returns how many pixels the block holds.
    pub(crate) fn pixel_count(&self) -> usize {
        self.stride * 8
    }

    /// Returns the planes in the range. Of trailing planes that are identical, only the first may
    /// be there.
    fn plane_range(&self, planes: Range<usize>) -> &[u8] {
        let (start, end) =
            (planes.start.min(self.written_planes - 1), planes.end.min(self.written_planes));
        &self.buffer.bytes()[start * self.stride..end * self.stride]
    }

    /// Returns the eight planes from `first` on.
    fn eight_planes(&mut self, first: usize) -> &[u8] {
        self.materialize(first + 8);
        self.plane_range(first..first + 8)
    }

    /// Reads a whole tile, which starts at pixel `start` of the block, into a lane: records the
    /// invalid pixels and sets them to zero, and unshuffles as many bits as the other pixels need.
    /// Pixels without entries are ignored, because gaps, whose bits are all ones, must not widen
    /// the tile.
    ///
    /// Returns false if pixels are negative or do not fit in 16 bits. Then only the invalid pixels
    /// are recorded and zeroed; the caller fills the lane from unshuffled pixels.
    pub(crate) fn read_tile<S: Simd>(
        &mut self,
        simd: S,
        start: usize,
        context: TileContext<'_>,
        rule: &PlaneInvalidRule,
        lane: &mut Lane,
    ) -> bool {
        let TileContext { tile_index, unused, is_dense, .. } = context;
        let (from, total, occupied) = (start / 8, self.len / self.stride, self.occupied_planes);
        let has_any =
            |planes: &BitPlanes, range: Range<usize>| planes.any_bit_set(simd, range, from, unused);
        // In most tiles no pixel exceeds 8 bits, and this is the only check of the upper planes.
        let wide = occupied > 8 && has_any(self, 8..occupied);
        // No pixel is looked at again that is found to be invalid.
        let (mut skipped, mut in_ranges) = (*unused, false);
        if rule.zero {
            let nonzero = simd.or_planes(self.plane_range(0..occupied), self.stride, from, unused);
            skipped = Bitmap::FULL.without(&nonzero);
        }
        for range in rule.ranges.iter().filter(|range| range.planes.end <= occupied) {
            let top = range.planes.end - 1;
            if (wide || top < 8) && self.any_bit_set(simd, top..top + 1, from, &skipped) {
                in_ranges |= self.find_invalid(simd, from, range, &mut skipped);
            }
        }
        if in_ranges || rule.zero {
            let invalid = skipped.without(unused);
            lane.invalid.add(tile_index, &invalid);
            if in_ranges {
                self.clear(from, &invalid);
            }
        }
        if rule.signed
            && occupied == total
            && (wide || total == 8)
            && has_any(self, total - 1..total)
        {
            return false;
        }
        if wide && occupied > 16 && has_any(self, 16..occupied) {
            return false;
        }
        let middle = wide && has_any(self, 8..occupied.min(16));
        lane.width = if middle { PixelWidth::U16 } else { PixelWidth::U8 };
        if middle {
            let stride = self.stride;
            simd.bitunshuffle_tile(self.eight_planes(8), stride, from, &mut lane.high_bytes);
        } else if is_dense {
            (lane.nonzero, lane.above_one) = (Bitmap::FULL, Bitmap::FULL);
        } else {
            let union = |planes: &BitPlanes, range: Range<usize>| {
                simd.or_planes(planes.plane_range(range), planes.stride, from, unused)
            };
            lane.above_one = union(self, 1..occupied.clamp(1, 8));
            lane.nonzero =
                union(self, 0..occupied.min(1)).zip(&lane.above_one, |one, more| one | more);
            if lane.nonzero.is_empty() {
                lane.width = PixelWidth::Zero;
                return true;
            }
        }
        let stride = self.stride;
        simd.bitunshuffle_tile(self.eight_planes(0), stride, from, &mut lane.low_bytes);
        true
    }

    /// Unshuffles native pixels into `out`, from pixel `start` of the block on; a multiple of 8
    /// pixels.
    pub(crate) fn bitunshuffle<S: Simd>(&mut self, simd: S, start: usize, out: &mut [u8]) {
        let stride = self.stride;
        simd.bitunshuffle(self.block(), stride, start / 8, out);
    }

    /// Returns whether any pixel of a tile but those to be `skipped` has a bit set in the planes.
    #[inline(always)]
    fn any_bit_set<S: Simd>(
        &self,
        simd: S,
        planes: Range<usize>,
        from: usize,
        skipped: &Bitmap,
    ) -> bool {
        simd.any_bit_set(self.plane_range(planes), self.stride, from, skipped)
    }

    /// Adds to the pixels of a tile that are `skipped` the others that are in a range of invalid values.
    /// Returns whether there are any.
    ///
    /// It is a function of its own as most tiles have none.
    #[inline(never)]
    fn find_invalid<S: Simd>(
        &mut self,
        simd: S,
        from: usize,
        range: &InvalidPlaneRange,
        skipped: &mut Bitmap,
    ) -> bool {
        let planes = self.plane_range(range.planes.clone());
        let mut found = simd.and_planes(planes, self.stride, from).without(skipped);
        if !range.exact && !found.is_empty() {
            self.materialize(self.occupied_planes);
            let planes = self.plane_range(0..self.occupied_planes);
            found = simd.patterns_within(planes, self.stride, from, &range.patterns, &found);
        }
        *skipped = skipped.zip(&found, |known, new| known | new);
        !found.is_empty()
    }

    /// Clears all bits of pixels of a tile.
    #[inline(never)]
    fn clear(&mut self, from: usize, pixels: &Bitmap) {
        let written = self.buffer.bytes_mut(self.written_planes * self.stride);
        for plane in written.chunks_exact_mut(self.stride) {
            let (words, _) = plane[from..from + TILE_BYTES].as_chunks_mut::<8>();
            for (bytes, clear) in words.iter_mut().zip(pixels.0) {
                *bytes = (u64::from_le_bytes(*bytes) & !clear).to_le_bytes();
            }
        }
    }
}
