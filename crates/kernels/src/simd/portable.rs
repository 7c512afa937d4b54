//! The operations in plain Rust: the reference for all backends, and the fallback for processors without one.

use super::{LaneBackend, SimdBackend};
use crate::bitmap::Bitmap;
use crate::fused::accumulate::{self, PixelSelection};
use crate::fused::accumulators::Accumulators;
use crate::fused::interleaved_tile::InterleavedTile;
use crate::fused::lane::Lane;
use crate::fused::native;
use crate::fused::pixel_source::TileContext;
use crate::invalid_values::InvalidRanges;
use crate::lz4_block::{self, BlockBuffer, DecodedBlock};
use crate::pixel::Pixel;
use crate::plan::{IntegrationPlan, StaticSums};
use crate::robust::{InterleavedReduction, PerFrameReduction, partial_sums, quantile};
use crate::summation_order::TILE;
use crate::tiled_csc::CscTile;

/// The backend that runs on any processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

impl SimdBackend for Portable {
    fn decompress(self, block: &[u8], buffer: &mut BlockBuffer, len: usize, _: usize) -> Option<DecodedBlock> {
        lz4_block::decompress_into_buffer(block, buffer, len)
    }

    fn decompress_with_slack(self, block: &[u8], out: &mut [u8], len: usize) -> bool {
        lz4_block::decompress(block, &mut out[..len])
    }

    fn or_planes(self, planes: &[u8], stride: usize, from: usize, unused: &Bitmap) -> Bitmap {
        or_planes(planes, stride, from, unused)
    }

    fn any_bit_set(self, planes: &[u8], stride: usize, from: usize, unused: &Bitmap) -> bool {
        !or_planes(planes, stride, from, unused).is_empty()
    }

    fn and_planes(self, planes: &[u8], stride: usize, from: usize) -> Bitmap {
        and_planes(planes, stride, from)
    }

    fn bitunshuffle_tile(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8; TILE]) {
        bitunshuffle(planes, stride, from, out);
    }

    fn bitunshuffle(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8]) {
        bitunshuffle(planes, stride, from, out);
    }

    fn read_native_tile<T: Pixel>(
        self,
        lane: &mut Lane,
        pixels: &[u8],
        context: TileContext<'_>,
        rule: &InvalidRanges<T>,
    ) {
        native::read_tile(lane, pixels, context, rule);
    }

    fn static_sums_without(self, plan: &IntegrationPlan, invalid: &[u32]) -> StaticSums {
        plan.static_sums_without(invalid)
    }

    fn reduce_per_frame<T: Pixel>(self, frames: PerFrameReduction<'_, T>) {
        frames.reduce(self);
    }

    fn reduce_interleaved(self, frames: InterleavedReduction<'_>) {
        frames.reduce(self);
    }

    fn sum(self, numbers: &[f64]) -> f64 {
        partial_sums::sum(numbers, |number| number)
    }

    fn sum_below(self, intensity: &[f64], norm: &[f64], low: f64) -> f64 {
        quantile::sum_below(intensity, norm, low)
    }

    fn indices_within(self, intensity: &[f64], low: f64, high: f64, indices: &mut Vec<u32>) {
        quantile::indices_within(intensity, low, high, indices);
    }
}

impl<const L: usize> LaneBackend<L> for Portable {
    fn interleave(self, lanes: [&[u8; TILE]; L], out: &mut [[u8; L]; TILE]) {
        interleave(&lanes, out);
    }

    fn interleave_f64(self, lanes: [&[f64; TILE]; L], out: &mut [[f64; L]; TILE]) {
        interleave(&lanes, out);
    }

    fn or_bitmaps(self, bitmaps: [&Bitmap; L], unused: &Bitmap) -> (Bitmap, u32) {
        or_bitmaps(&bitmaps, unused)
    }

    fn accumulate<C: InterleavedTile<L>>(
        self,
        accumulators: &mut Accumulators<L>,
        tile: CscTile<'_>,
        pixels: &C,
        selection: PixelSelection<'_>,
    ) {
        accumulate::accumulate_tile::<L, false, C>(accumulators, tile, pixels, selection);
    }
}

/// Returns the OR over the planes of a tile, without the `unused` pixels.
#[inline(always)]
pub(super) fn or_planes(planes: &[u8], stride: usize, from: usize, unused: &Bitmap) -> Bitmap {
    let any =
        planes.chunks_exact(stride).fold(Bitmap::EMPTY, |all, plane| all.zip(&tile_bits(plane, from), |a, b| a | b));
    any.without(unused)
}

/// Returns the AND over the planes of a tile.
#[inline(always)]
pub(super) fn and_planes(planes: &[u8], stride: usize, from: usize) -> Bitmap {
    planes.chunks_exact(stride).fold(Bitmap::FULL, |all, plane| all.zip(&tile_bits(plane, from), |a, b| a & b))
}

/// Returns the OR over bitmaps, without the `unused` pixels, and the number of pixels that are set.
#[inline(always)]
pub(super) fn or_bitmaps<const L: usize>(bitmaps: &[&Bitmap; L], unused: &Bitmap) -> (Bitmap, u32) {
    let mut any = Bitmap::EMPTY;
    for (i, word) in any.0.iter_mut().enumerate() {
        *word = bitmaps.iter().fold(0, |all, bitmap| all | bitmap.0[i]) & !unused.0[i];
    }
    (any, any.count())
}

/// Returns the bits of a tile from one plane.
#[inline(always)]
fn tile_bits(plane: &[u8], from: usize) -> Bitmap {
    let mut bits = Bitmap::EMPTY;
    for (word, bytes) in bits.0.iter_mut().zip(plane[from..from + TILE / 8].as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    bits
}

/// Transposes a tile from one array per frame to one row per pixel.
#[inline(always)]
pub(super) fn interleave<V: Copy, const L: usize>(lanes: &[&[V; TILE]; L], out: &mut [[V; L]; TILE]) {
    for (pixel, out) in out.iter_mut().enumerate() {
        *out = lanes.map(|lane| lane[pixel]);
    }
}

/// Transposes bit planes to pixels of any number of bytes, eight pixels at a time.
fn bitunshuffle(planes: &[u8], stride: usize, from: usize, out: &mut [u8]) {
    let element = planes.len() / (8 * stride);
    for (byte, planes) in planes.chunks_exact(8 * stride).enumerate() {
        for (j, out) in out.chunks_mut(8 * element).enumerate() {
            let mut bits = 0;
            for plane in (0..8).rev() {
                bits = bits << 8 | u64::from(planes[plane * stride + from + j]);
            }
            for (out, value) in out.chunks_exact_mut(element).zip(transpose_bits_8x8(bits).to_le_bytes()) {
                out[byte] = value;
            }
        }
    }
}

/// Transposes a matrix of 8 × 8 bits; byte `i` is row `i`. The algorithm is that of Hacker's Delight, section 7-3.
fn transpose_bits_8x8(mut bits: u64) -> u64 {
    for (shift, mask) in [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0x0000_0000_f0f0_f0f0)] {
        let swap = (bits ^ bits >> shift) & mask;
        bits ^= swap ^ swap << shift;
    }
    bits
}
