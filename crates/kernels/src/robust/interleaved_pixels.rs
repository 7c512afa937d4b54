//! Some frames side by side: pixel by pixel, the counts of all of them.

use std::cell::OnceCell;

use crate::codec::DecodeError;
use crate::fused::lane::{Lane, PixelWidth};
use crate::fused::pixel_source::{SourceBuffers, TileContext};
use crate::fused::{InvalidRules, PixelSource};
use crate::pixel::Pixel;
use crate::plan::IntegrationPlan;
use crate::simd::LaneBackend;
use crate::summation_order::TILE;

/// Frames side by side.
pub(crate) const INTERLEAVED_FRAMES: usize = 8;

/// Stands for what has no place among 16 bits: invalid pixels, and any that are no smaller count.
pub(crate) const OVERFLOW: u16 = u16::MAX;

/// Of the pixels of all lanes, this part may be elsewhere; more make the lists a slow way.
const MAX_OVERFLOW_DIVISOR: usize = 256;

/// The pixels of [`INTERLEAVED_FRAMES`] frames: 16 bytes for each pixel of a frame.
pub(crate) struct InterleavedPixels {
    /// Pixels without entries hold anything.
    pub(super) pixels: Vec<[u16; INTERLEAVED_FRAMES]>,
    /// By lane: the pixels with entries that are elsewhere, rising, and what they are: NaN where they are invalid.
    overflow: [Vec<(u32, f64)>; INTERLEAVED_FRAMES],
    lanes: Vec<Lane>,
    buffers: Vec<SourceBuffers>,
    low: TileBytes,
    high: TileBytes,
}

/// A tile's bytes of one significance, by pixel.
type TileBytes = Box<[[u8; INTERLEAVED_FRAMES]; TILE]>;

impl Default for InterleavedPixels {
    fn default() -> InterleavedPixels {
        let bytes = || -> TileBytes {
            let zeros = vec![[0; INTERLEAVED_FRAMES]; TILE].into_boxed_slice();
            zeros.try_into().unwrap_or_else(|_| unreachable!("the length is TILE"))
        };
        InterleavedPixels {
            pixels: Vec::new(),
            overflow: Default::default(),
            lanes: (0..INTERLEAVED_FRAMES).map(|_| Lane::default()).collect(),
            buffers: (0..INTERLEAVED_FRAMES).map(|_| SourceBuffers::default()).collect(),
            low: bytes(),
            high: bytes(),
        }
    }
}

impl InterleavedPixels {
    /// Bytes of the pixels of a plan's frames.
    pub(super) fn memory_bytes(plan: &IntegrationPlan) -> usize {
        plan.unused.len() * TILE * size_of::<[u16; INTERLEAVED_FRAMES]>()
    }

    /// Reads as many as [`INTERLEAVED_FRAMES`] frames for a plan. A source that fails leaves its error, and anything in its lane.
    /// False where too many pixels have no place here; then the sources are used up, and nothing is read.
    pub(super) fn read<T: Pixel, B: LaneBackend<INTERLEAVED_FRAMES>>(
        &mut self,
        backend: B,
        plan: &IntegrationPlan,
        rules: &InvalidRules<T>,
        sources: &mut [Result<PixelSource<'_>, DecodeError>],
    ) -> bool {
        let few = plan.pixels() * INTERLEAVED_FRAMES / MAX_OVERFLOW_DIVISOR;
        self.pixels.resize(plan.unused.len() * TILE, [0; INTERLEAVED_FRAMES]);
        self.overflow.iter_mut().for_each(Vec::clear);
        for lane in &mut self.lanes {
            (lane.width, lane.invalid) = (PixelWidth::Zero, Vec::new());
        }
        for (number, unused) in plan.unused.iter().enumerate() {
            // All lit pixels are taken, bright or not.
            let place = TileContext {
                tile_index: number,
                pixels: plan.pixels(),
                unused,
                is_dense: true,
                used_mask: &OnceCell::new(),
            };
            let lanes = self.lanes.iter_mut().zip(&mut self.buffers).zip(&mut self.overflow);
            for (source, ((lane, buffers), elsewhere)) in sources.iter_mut().zip(lanes) {
                let Ok(opened) = source else { continue };
                match opened.read(backend, place, rules, buffers, lane) {
                    Ok(()) => fit_to_u16(lane, place, elsewhere),
                    Err(error) => {
                        lane.width = PixelWidth::Zero;
                        *source = Err(error);
                    }
                }
            }
            if self.overflow.iter().map(Vec::len).sum::<usize>() > few {
                return false;
            }
            self.store_tile(backend, number);
        }
        true
    }

    /// Puts the tile that the lanes hold among the pixels.
    fn store_tile<B: LaneBackend<INTERLEAVED_FRAMES>>(&mut self, backend: B, number: usize) {
        let InterleavedPixels { pixels, lanes, low, high, .. } = self;
        let pixels = &mut pixels[number * TILE..][..TILE];
        let width = lanes.iter().map(|lane| lane.width).max().unwrap_or_default();
        for lane in lanes.iter_mut() {
            lane.widen_to(width);
        }
        let lanes: [&Lane; INTERLEAVED_FRAMES] = std::array::from_fn(|lane| &lanes[lane]);
        if width == PixelWidth::Zero {
            pixels.fill([0; INTERLEAVED_FRAMES]);
            return;
        }
        backend.interleave(lanes.map(|lane| &lane.low_bytes), low);
        if width == PixelWidth::U8 {
            for (pixel, low) in pixels.iter_mut().zip(low.iter()) {
                *pixel = low.map(u16::from);
            }
            return;
        }
        backend.interleave(lanes.map(|lane| &lane.high_bytes), high);
        for (pixel, (low, high)) in pixels.iter_mut().zip(low.iter().zip(high.iter())) {
            *pixel = std::array::from_fn(|lane| u16::from_le_bytes([low[lane], high[lane]]));
        }
    }

    /// A pixel of a frame as a number, given what stands in its column: NaN where it is invalid.
    #[inline(always)]
    pub(super) fn value(&self, pixel: u32, lane: usize, column: u16) -> f64 {
        if column == OVERFLOW { self.overflow_value(pixel, lane) } else { f64::from(column) }
    }

    #[cold]
    fn overflow_value(&self, pixel: u32, lane: usize) -> f64 {
        let list = &self.overflow[lane];
        list.binary_search_by_key(&pixel, |(pixel, _)| *pixel).map_or(f64::NAN, |found| list[found].1)
    }
}

/// Makes a lane's pixels fit in 16 bits, those that do not being elsewhere.
fn fit_to_u16(lane: &mut Lane, place: TileContext<'_>, elsewhere: &mut Vec<(u32, f64)>) {
    let (first, known) = (place.tile_index * TILE, elsewhere.len());
    let Lane { low_bytes: low, high_bytes: high, .. } = lane;
    let pixels = low.iter_mut().zip(high.iter_mut());
    match lane.width {
        PixelWidth::Zero | PixelWidth::U8 => {}
        PixelWidth::U16 => {
            let is_elsewhere = |low: u8, high: u8| low & high == u8::MAX;
            if low.iter().zip(high.iter()).fold(false, |any, (&low, &high)| any | is_elsewhere(low, high)) {
                // Gaps, too, are such pixels, but nobody looks at them.
                let used = place.used().iter().map(|&used| used != 0);
                let wide = low.iter().zip(high.iter()).zip(used).enumerate();
                let wide = wide.filter(|(_, ((low, high), used))| is_elsewhere(**low, **high) && *used);
                elsewhere.extend(wide.map(|(pixel, _)| ((first + pixel) as u32, f64::from(u16::MAX))));
            }
        }
        PixelWidth::F64 => {
            for ((pixel, (low, high)), &value) in pixels.enumerate().zip(&lane.f64_pixels) {
                let fits = (0. ..f64::from(OVERFLOW)).contains(&value) && value.fract() == 0.;
                [*low, *high] = if fits { value as u16 } else { OVERFLOW }.to_le_bytes();
                if !fits {
                    elsewhere.push(((first + pixel) as u32, value));
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
            elsewhere.push((pixel, f64::NAN));
        }
        elsewhere[known..].sort_unstable_by_key(|(pixel, _)| *pixel);
    }
}
