//! Pixels of 8 frames interleaved as counts of 8 or 16 bits, with an overflow list per frame for
//! pixels that don't fit.

use super::retries::Retries;
use super::tile_lanes::{INTERLEAVED_FRAMES, TileBytes, TileCounts, TileLanes};
use system::huge_pages::HugePageBuffer;

use crate::codec::DecodeError;
use crate::fused::{InvalidRules, Lane, PixelSource, TileContext};
use crate::pixel::PixelWidth;
use crate::plan::IntegrationPlan;
use crate::simd::Simd;
use crate::summation_order::TILE;

/// Marks a pixel whose value is in the overflow list: an invalid pixel, or a value that is no
/// integer from 0 to 65534.
pub(crate) const OVERFLOW: u16 = u16::MAX;

/// Marks a pixel of narrow rows whose value is in the overflow list: an invalid pixel, or a value
/// that is no integer from 0 to 254.
const NARROW_OVERFLOW: u8 = u8::MAX;

/// Pixels of all lanes per pixel that may be in the overflow lists. With more overflow, the lists
/// are slower than [`PerFrameReduction`](super::per_frame::PerFrameReduction).
pub(super) const MAX_OVERFLOW_DIVISOR: usize = 256;

/// Pixels of all lanes per pixel that may be in the overflow lists of narrow rows. Each is looked up
/// for about as long as 16 wide rows are read; a pixel that is invalid in all frames, eight times.
const MAX_NARROW_OVERFLOW_DIVISOR: usize = 4096;

/// The pixels of [`INTERLEAVED_FRAMES`] frames, 8 or 16 bytes for each pixel position.
#[derive(Default)]
pub(crate) struct InterleavedPixels {
    /// See [`InterleavedPixels::rows`]. A bin's pixels are all over the frame.
    rows: HugePageBuffer,
    is_narrow: bool,
    /// For each lane, the index and the value of all pixels with matrix entries that are
    /// [`OVERFLOW`] or [`NARROW_OVERFLOW`], by ascending index. The value of an invalid pixel is NaN.
    overflow: [Vec<(u32, f64)>; INTERLEAVED_FRAMES],
    tile_lanes: TileLanes,
    /// The plans whose frames did not fit narrow rows lately.
    narrow_retries: Retries,
}

/// One row per pixel of the frames that were read, with one element per frame, and maybe more. Rows
/// of pixels without matrix entries may hold any value.
#[derive(Clone, Copy)]
pub(super) enum InterleavedRows<'a> {
    /// Counts or [`NARROW_OVERFLOW`].
    Narrow(&'a [[u8; INTERLEAVED_FRAMES]]),
    /// Counts or [`OVERFLOW`].
    Wide(&'a [[u16; INTERLEAVED_FRAMES]]),
}

impl InterleavedPixels {
    /// Returns the bytes of memory that the pixels of a plan's frames take at the most.
    pub(super) fn memory_bytes(plan: &IntegrationPlan) -> usize {
        plan.unused.len() * size_of::<TileCounts>()
    }

    /// Returns the pixels.
    #[inline(always)]
    pub(super) fn rows(&self) -> InterleavedRows<'_> {
        let bytes = self.rows.as_bytes();
        match self.is_narrow {
            true => InterleavedRows::Narrow(bytemuck::cast_slice(bytes)),
            false => InterleavedRows::Wide(bytemuck::cast_slice(bytes)),
        }
    }

    /// Reads up to [`INTERLEAVED_FRAMES`] frames for a plan.
    ///
    /// A source that fails is replaced by its error; its lane then holds arbitrary values. Returns
    /// false if too many pixels overflow. The sources are then consumed, and the contents of `self`
    /// must not be used.
    ///
    /// # Errors
    /// Fails if there is too little memory.
    pub(super) fn read<S: Simd>(
        &mut self,
        simd: S,
        plan: &IntegrationPlan,
        rules: &InvalidRules,
        sources: &mut [Result<PixelSource<'_>, DecodeError>],
    ) -> Result<bool, DecodeError> {
        let max_overflow = |divisor| plan.pixels() * INTERLEAVED_FRAMES / divisor;
        let bytes = Self::memory_bytes(plan);
        self.rows.grow(bytes).map_err(|why| DecodeError::Memory(why.to_string()))?;
        self.overflow.iter_mut().for_each(Vec::clear);
        self.is_narrow = self.narrow_retries.is_worth_trying(plan);
        self.tile_lanes.start();
        for tile_index in 0..plan.unused.len() {
            let Self { overflow, is_narrow, .. } = self;
            self.tile_lanes.read(simd, plan, tile_index, rules, sources, |index, lane, tile| {
                let overflow = &mut overflow[index];
                // Each call is compiled for its width.
                if *is_narrow {
                    fit(lane, tile, PixelWidth::U8, overflow);
                } else {
                    fit(lane, tile, PixelWidth::U16, overflow);
                }
            });
            self.write_tile(simd, tile_index);
            if self.is_narrow && self.count_overflow() > max_overflow(MAX_NARROW_OVERFLOW_DIVISOR) {
                self.widen(tile_index + 1);
                self.narrow_retries.remember_failure(plan);
            }
            if self.count_overflow() > max_overflow(MAX_OVERFLOW_DIVISOR) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the value of a pixel of one frame, NaN if it is invalid. `stored` is its 16-bit count
    /// or [`OVERFLOW`].
    #[inline(always)]
    pub(super) fn value(&self, pixel: u32, lane: usize, stored: u16) -> f64 {
        if stored == OVERFLOW { self.overflow_value(pixel, lane) } else { f64::from(stored) }
    }

    /// Returns the value of any pixel of one frame, NaN if it is invalid.
    pub(super) fn read_value(&self, pixel: u32, lane: usize) -> f64 {
        let stored = match self.rows() {
            InterleavedRows::Wide(rows) => rows[pixel as usize][lane],
            InterleavedRows::Narrow(rows) => match rows[pixel as usize][lane] {
                NARROW_OVERFLOW => OVERFLOW,
                count => count.into(),
            },
        };
        self.value(pixel, lane, stored)
    }

    /// Returns the 16-bit count or [`OVERFLOW`] of a pixel that is [`NARROW_OVERFLOW`].
    pub(super) fn wide_count(&self, pixel: u32, lane: usize) -> u16 {
        to_count(self.overflow_value(pixel, lane), OVERFLOW).unwrap_or(OVERFLOW)
    }

    /// Looks a pixel up in the overflow list of a lane.
    #[cold]
    fn overflow_value(&self, pixel: u32, lane: usize) -> f64 {
        let list = &self.overflow[lane];
        list.binary_search_by_key(&pixel, |(pixel, _)| *pixel)
            .map_or(f64::NAN, |found| list[found].1)
    }

    /// Returns the length of the overflow lists together.
    fn count_overflow(&self) -> usize {
        self.overflow.iter().map(Vec::len).sum()
    }

    /// Writes the tile that was read last to its rows.
    #[inline(always)]
    fn write_tile<S: Simd>(&mut self, simd: S, tile_index: usize) {
        let bytes = self.rows.as_bytes_mut();
        if self.is_narrow {
            let tiles: &mut [TileBytes] = bytemuck::cast_slice_mut(bytes);
            self.tile_lanes.interleave_bytes(simd, &mut tiles[tile_index]);
        } else {
            let tiles: &mut [TileCounts] = bytemuck::cast_slice_mut(bytes);
            let tile = &mut tiles[tile_index];
            if !self.tile_lanes.interleave(simd, tile) {
                tile.fill([0; INTERLEAVED_FRAMES]);
            }
        }
    }

    /// Turns narrow rows, of which the first `tiles` tiles were read, into wide ones.
    #[cold]
    fn widen(&mut self, tiles: usize) {
        let bytes = self.rows.as_bytes_mut();
        // From the end: the bytes of a wide tile are those of narrow ones that follow.
        for tile_index in (0..tiles).rev() {
            let narrow = bytemuck::cast_slice::<u8, TileBytes>(bytes)[tile_index];
            let wide = &mut bytemuck::cast_slice_mut::<u8, TileCounts>(bytes)[tile_index];
            for (count, &narrow) in wide.as_flattened_mut().iter_mut().zip(narrow.as_flattened()) {
                *count = u16::from(narrow);
            }
        }
        let rows: &mut [[u16; INTERLEAVED_FRAMES]] = bytemuck::cast_slice_mut(bytes);
        for (lane, overflow) in self.overflow.iter_mut().enumerate() {
            overflow.retain(|&(pixel, value)| {
                let count = to_count(value, OVERFLOW);
                rows[pixel as usize][lane] = count.unwrap_or(OVERFLOW);
                count.is_none()
            });
        }
        self.is_narrow = false;
    }
}

/// Returns the value as a count, if it is an integer from 0 to below `limit`.
fn to_count(value: f64, limit: u16) -> Option<u16> {
    let fits = (0. ..f64::from(limit)).contains(&value) && value.fract() == 0.;
    fits.then_some(value as u16)
}

/// Converts the pixels of a lane to `width`, 8 or 16 bits. Pixels that don't fit become
/// [`NARROW_OVERFLOW`] or [`OVERFLOW`] and are appended to `overflow`.
#[inline(always)]
fn fit(lane: &mut Lane, tile: TileContext<'_>, width: PixelWidth, overflow: &mut Vec<(u32, f64)>) {
    let overflow_before = overflow.len();
    let limit = if width == PixelWidth::U8 { NARROW_OVERFLOW.into() } else { OVERFLOW };
    let Lane { low_bytes: low, high_bytes: high, f64_pixels, .. } = lane;
    match lane.width {
        PixelWidth::U8 if width == PixelWidth::U8 => {
            let overflows = |pixel: usize| low[pixel] == NARROW_OVERFLOW;
            push_where(tile, overflows, |_| f64::from(NARROW_OVERFLOW), overflow);
        }
        PixelWidth::Zero | PixelWidth::U8 => {}
        PixelWidth::U16 => {
            let value = |pixel: usize| u16::from_le_bytes([low[pixel], high[pixel]]);
            let overflows = |pixel: usize| value(pixel) >= limit;
            push_where(tile, overflows, |pixel| f64::from(value(pixel)), overflow);
            for (low, high) in low.iter_mut().zip(high) {
                [*low, *high] = u16::from_le_bytes([*low, *high]).min(limit).to_le_bytes();
            }
        }
        PixelWidth::F64 => {
            let overflows = |pixel: usize| to_count(f64_pixels[pixel], limit).is_none();
            push_where(tile, overflows, |pixel| f64_pixels[pixel], overflow);
            for ((low, high), &value) in low.iter_mut().zip(high).zip(&*f64_pixels) {
                [*low, *high] = to_count(value, limit).unwrap_or(limit).to_le_bytes();
            }
        }
    }
    lane.width = lane.width.min(width);
    if lane.invalid.is_empty() {
        return;
    }
    lane.widen_to(width);
    for pixel in lane.invalid.pixels() {
        let in_tile = pixel - tile.tile_index * TILE;
        (lane.low_bytes[in_tile], lane.high_bytes[in_tile]) = (u8::MAX, u8::MAX);
        overflow.push((pixel as u32, f64::NAN));
    }
    lane.invalid.clear();
    overflow[overflow_before..].sort_unstable_by_key(|(pixel, _)| *pixel);
}

/// Appends the pixels of a tile that overflow. Those without matrix entries, such as the pixels in
/// the gaps of a detector, need no value.
#[inline(always)]
fn push_where(
    tile: TileContext<'_>,
    overflows: impl Fn(usize) -> bool,
    value: impl Fn(usize) -> f64,
    overflow: &mut Vec<(u32, f64)>,
) {
    // In steps, because the pixels of a gap are often few of a tile's, and each is looked at.
    for (step, unused) in tile.unused.0.iter().enumerate() {
        if !(0..64).fold(false, |any, bit| any | overflows(step * 64 + bit)) {
            continue;
        }
        for bit in (0..64).filter(|bit| unused >> bit & 1 == 0) {
            let in_tile = step * 64 + bit;
            if overflows(in_tile) {
                overflow.push(((tile.tile_index * TILE + in_tile) as u32, value(in_tile)));
            }
        }
    }
}
