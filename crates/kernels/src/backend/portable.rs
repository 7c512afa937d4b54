//! The steps in plain Rust: for processors without a backend of their own, and the pattern of the others.

use super::{Backend, Steps};
use crate::bitmap::Bitmap;
use crate::fused::column::Column;
use crate::fused::kernel::{self, Selection};
use crate::fused::lane::Lane;
use crate::fused::native;
use crate::fused::source::Place;
use crate::fused::table::Table;
use crate::invalid::InvalidOf;
use crate::lz4::{self, Decoded, Room};
use crate::matrix::Tile;
use crate::order::TILE;
use crate::pixel::Pixel;
use crate::plan::{Plan, Totals};
use crate::robust::{Alone, Beside, lanes, quantile};

/// Any processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

impl Steps for Portable {
    fn expand(self, block: &[u8], room: &mut Room, len: usize, _: usize) -> Option<Decoded> {
        lz4::expand_into(block, room, len)
    }

    fn expand_over(self, block: &[u8], out: &mut [u8], len: usize) -> bool {
        lz4::expand(block, &mut out[..len])
    }

    fn union(self, planes: &[u8], stride: usize, from: usize, unused: &Bitmap) -> Bitmap {
        union(planes, stride, from, unused)
    }

    fn has_any(self, planes: &[u8], stride: usize, from: usize, unused: &Bitmap) -> bool {
        !union(planes, stride, from, unused).is_empty()
    }

    fn intersection(self, planes: &[u8], stride: usize, from: usize) -> Bitmap {
        intersection(planes, stride, from)
    }

    fn unshuffle(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8; TILE]) {
        untranspose(planes, stride, from, out);
    }

    fn untranspose(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8]) {
        untranspose(planes, stride, from, out);
    }

    fn read_native<T: Pixel>(self, lane: &mut Lane, pixels: &[u8], place: Place<'_>, rule: &InvalidOf<T>) {
        native::read(lane, pixels, place, rule);
    }

    fn totals_without(self, plan: &Plan, invalid: &[u32]) -> Totals {
        plan.totals_without(invalid)
    }

    fn reduce_alone<T: Pixel>(self, frames: Alone<'_, T>) {
        frames.reduce(self);
    }

    fn reduce_beside(self, frames: Beside<'_>) {
        frames.reduce(self);
    }

    fn sum(self, numbers: &[f64]) -> f64 {
        lanes::sum(numbers, |number| number)
    }

    fn sum_below(self, intensity: &[f64], norm: &[f64], low: f64) -> f64 {
        quantile::sum_below(intensity, norm, low)
    }

    fn places_within(self, intensity: &[f64], low: f64, high: f64, places: &mut Vec<u32>) {
        quantile::places_within(intensity, low, high, places);
    }
}

impl<const L: usize> Backend<L> for Portable {
    fn interleave(self, lanes: [&[u8; TILE]; L], out: &mut [[u8; L]; TILE]) {
        interleave(&lanes, out);
    }

    fn interleave_reals(self, lanes: [&[f64; TILE]; L], out: &mut [[f64; L]; TILE]) {
        interleave(&lanes, out);
    }

    fn any(self, bitmaps: [&Bitmap; L], unused: &Bitmap) -> (Bitmap, u32) {
        any(&bitmaps, unused)
    }

    fn accumulate<C: Column<L>>(self, table: &mut Table<L>, tile: Tile<'_>, column: &C, selection: Selection<'_>) {
        kernel::accumulate::<L, false, C>(table, tile, column, selection);
    }
}

/// OR over planes, without some pixels.
#[inline(always)]
pub(super) fn union(planes: &[u8], stride: usize, from: usize, unused: &Bitmap) -> Bitmap {
    let any =
        planes.chunks_exact(stride).fold(Bitmap::EMPTY, |all, plane| all.zip(&tile_of(plane, from), |a, b| a | b));
    any.without(unused)
}

/// AND over planes.
#[inline(always)]
pub(super) fn intersection(planes: &[u8], stride: usize, from: usize) -> Bitmap {
    planes.chunks_exact(stride).fold(Bitmap::FULL, |all, plane| all.zip(&tile_of(plane, from), |a, b| a & b))
}

/// OR over bitmaps, without some pixels, and how many are set.
#[inline(always)]
pub(super) fn any<const L: usize>(bitmaps: &[&Bitmap; L], unused: &Bitmap) -> (Bitmap, u32) {
    let mut any = Bitmap::EMPTY;
    for (i, word) in any.0.iter_mut().enumerate() {
        *word = bitmaps.iter().fold(0, |all, bitmap| all | bitmap.0[i]) & !unused.0[i];
    }
    (any, any.count())
}

/// A tile's bits of a plane.
#[inline(always)]
fn tile_of(plane: &[u8], from: usize) -> Bitmap {
    let mut bits = Bitmap::EMPTY;
    for (word, bytes) in bits.0.iter_mut().zip(plane[from..from + TILE / 8].as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    bits
}

/// From values by frame to values by pixel.
#[inline(always)]
pub(super) fn interleave<V: Copy, const L: usize>(lanes: &[&[V; TILE]; L], out: &mut [[V; L]; TILE]) {
    for (pixel, out) in out.iter_mut().enumerate() {
        *out = lanes.map(|lane| lane[pixel]);
    }
}

/// Pixels of any number of bytes from their planes, eight at a time.
fn untranspose(planes: &[u8], stride: usize, from: usize, out: &mut [u8]) {
    let element = planes.len() / (8 * stride);
    for (byte, planes) in planes.chunks_exact(8 * stride).enumerate() {
        for (j, out) in out.chunks_mut(8 * element).enumerate() {
            let mut bits = 0;
            for plane in (0..8).rev() {
                bits = bits << 8 | u64::from(planes[plane * stride + from + j]);
            }
            for (out, value) in out.chunks_exact_mut(element).zip(transpose(bits).to_le_bytes()) {
                out[byte] = value;
            }
        }
    }
}

/// Transposes a matrix of 8 × 8 bits, byte `i` being row `i`. After Hacker's Delight, 7-3.
fn transpose(mut bits: u64) -> u64 {
    for (shift, mask) in [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0x0000_0000_f0f0_f0f0)] {
        let swap = (bits ^ bits >> shift) & mask;
        bits ^= swap ^ swap << shift;
    }
    bits
}
