//! Pixels of 8 frames interleaved as 16-bit counts, with an overflow list per frame for pixels that
//! don't fit.

use super::tile_lanes::{INTERLEAVED_FRAMES, TileLanes};
use system::huge_pages::HugePageBuffer;

use crate::codec::DecodeError;
use crate::fused::{InvalidRules, Lane, PixelSource, TileContext};
use crate::pixel::{Pixel, PixelWidth};
use crate::plan::IntegrationPlan;
use crate::simd::Simd;
use crate::summation_order::TILE;

/// Marks a pixel whose value is in the overflow list: an invalid pixel, or a value that is no
/// integer from 0 to 65534.
pub(crate) const OVERFLOW: u16 = u16::MAX;

/// Pixels of all lanes per pixel that may be in the overflow lists. With more overflow, the lists
/// are slower than [`PerFrameReduction`](super::per_frame::PerFrameReduction).
pub(super) const MAX_OVERFLOW_DIVISOR: usize = 256;

/// The pixels of [`INTERLEAVED_FRAMES`] frames, 16 bytes for each pixel position.
#[derive(Default)]
pub(crate) struct InterleavedPixels {
    /// See [`InterleavedPixels::rows`]. A bin's pixels are all over the frame.
    rows: HugePageBuffer,
    /// For each lane, the index and the value of all pixels with matrix entries that are
    /// [`OVERFLOW`], by ascending index. The value of an invalid pixel is NaN.
    overflow: [Vec<(u32, f64)>; INTERLEAVED_FRAMES],
    tile_lanes: TileLanes,
}

impl InterleavedPixels {
    /// Returns the bytes of memory that the pixels of a plan's frames take.
    pub(super) fn memory_bytes(plan: &IntegrationPlan) -> usize {
        plan.unused.len() * TILE * size_of::<[u16; INTERLEAVED_FRAMES]>()
    }

    /// Returns one row per pixel of the frames that were read, with one element per frame, and maybe
    /// more. Rows of pixels without matrix entries may hold any value.
    pub(super) fn rows(&self) -> &[[u16; INTERLEAVED_FRAMES]] {
        bytemuck::cast_slice(self.rows.as_bytes())
    }

    /// Reads up to [`INTERLEAVED_FRAMES`] frames for a plan.
    ///
    /// A source that fails is replaced by its error; its lane then holds arbitrary values. Returns
    /// false if too many pixels overflow. The sources are then consumed, and the contents of `self`
    /// must not be used.
    ///
    /// # Errors
    /// Fails if there is too little memory.
    pub(super) fn read<T: Pixel, S: Simd>(
        &mut self,
        simd: S,
        plan: &IntegrationPlan,
        rules: &InvalidRules<T>,
        sources: &mut [Result<PixelSource<'_>, DecodeError>],
    ) -> Result<bool, DecodeError> {
        let max_overflow = plan.pixels() * INTERLEAVED_FRAMES / MAX_OVERFLOW_DIVISOR;
        let bytes = Self::memory_bytes(plan);
        self.rows.grow(bytes).map_err(|why| DecodeError::Memory(why.to_string()))?;
        let rows: &mut [[u16; INTERLEAVED_FRAMES]] =
            bytemuck::cast_slice_mut(&mut self.rows.as_bytes_mut()[..bytes]);
        self.overflow.iter_mut().for_each(Vec::clear);
        self.tile_lanes.start();
        for (tile_index, tile) in rows.as_chunks_mut().0.iter_mut().enumerate() {
            let overflow = &mut self.overflow;
            self.tile_lanes.read(simd, plan, tile_index, rules, sources, |index, lane, tile| {
                fit_to_u16(lane, tile, &mut overflow[index]);
            });
            if self.overflow.iter().map(Vec::len).sum::<usize>() > max_overflow {
                return Ok(false);
            }
            if !self.tile_lanes.interleave(simd, tile) {
                tile.fill([0; INTERLEAVED_FRAMES]);
            }
        }
        Ok(true)
    }

    /// Returns the value of a pixel of one frame, NaN if it is invalid. `stored` is its element of
    /// [`InterleavedPixels::rows`].
    #[inline(always)]
    pub(super) fn value(&self, pixel: u32, lane: usize, stored: u16) -> f64 {
        if stored == OVERFLOW { self.overflow_value(pixel, lane) } else { f64::from(stored) }
    }

    /// Looks a pixel up in the overflow list of a lane.
    #[cold]
    fn overflow_value(&self, pixel: u32, lane: usize) -> f64 {
        let list = &self.overflow[lane];
        list.binary_search_by_key(&pixel, |(pixel, _)| *pixel)
            .map_or(f64::NAN, |found| list[found].1)
    }
}

/// Converts the pixels of a lane to 16 bits. Pixels that don't fit become [`OVERFLOW`] and are
/// appended to `overflow`.
fn fit_to_u16(lane: &mut Lane, tile: TileContext<'_>, overflow: &mut Vec<(u32, f64)>) {
    let (first, overflow_before) = (tile.tile_index * TILE, overflow.len());
    let Lane { low_bytes: low, high_bytes: high, .. } = lane;
    let pixels = low.iter_mut().zip(high.iter_mut());
    match lane.width {
        PixelWidth::Zero | PixelWidth::U8 => {}
        PixelWidth::U16 => {
            let overflows = |low: u8, high: u8| low & high == u8::MAX;
            if low
                .iter()
                .zip(high.iter())
                .fold(false, |any, (&low, &high)| any | overflows(low, high))
            {
                // Pixels in detector gaps overflow, too, but they have no matrix entries and need
                // no value.
                let used = tile.used().iter().map(|&used| used != 0);
                let wide = low.iter().zip(high.iter()).zip(used).enumerate();
                let wide =
                    wide.filter(|(_, ((low, high), used))| overflows(**low, **high) && *used);
                overflow
                    .extend(wide.map(|(pixel, _)| ((first + pixel) as u32, f64::from(u16::MAX))));
            }
        }
        PixelWidth::F64 => {
            for ((pixel, (low, high)), &value) in pixels.enumerate().zip(&lane.f64_pixels) {
                let fits = (0. ..f64::from(OVERFLOW)).contains(&value) && value.fract() == 0.;
                [*low, *high] = if fits { value as u16 } else { OVERFLOW }.to_le_bytes();
                if !fits {
                    overflow.push(((first + pixel) as u32, value));
                }
            }
            lane.width = PixelWidth::U16;
        }
    }
    if !lane.invalid.is_empty() {
        lane.widen_to(PixelWidth::U16);
        for pixel in lane.invalid.drain(..) {
            let in_tile = pixel as usize - first;
            (lane.low_bytes[in_tile], lane.high_bytes[in_tile]) = (u8::MAX, u8::MAX);
            overflow.push((pixel, f64::NAN));
        }
        overflow[overflow_before..].sort_unstable_by_key(|(pixel, _)| *pixel);
    }
}
