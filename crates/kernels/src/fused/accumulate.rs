//! The innermost loop: applies a tile of the matrix to many frames at once.
//!
//! SIMD lanes are frames, so every frame has the one order of summation. The loops have no
//! intrinsics: compiled for an instruction set (see [`crate::simd`]) they become vector
//! instructions as good as hand-written ones. On a Zen 5 with 16 frames a pixel takes some 12
//! cycles, limited by loading and storing its eight rows of 64 bytes.

use super::accumulators::Accumulators;
use super::interleaved_tile::InterleavedTile;
use crate::bitmap::Bitmap;
use crate::simd::{Kernel, Simd};
use crate::summation_order::{STREAM_PIXELS, STREAMS};
use crate::tiled_csc::{CscTile, ExtraEntry};

/// The pixels of a tile to add. Pixels outside the selection would add zero.
#[derive(Clone, Copy)]
pub(super) enum PixelSelection<'a> {
    /// All pixels are added to the signal and to the Poisson excess.
    All,
    /// Only the pixels in the bitmap are added.
    NonZero(&'a Bitmap),
    /// All pixels are added to the signal, and those in the bitmap to the Poisson excess.
    AboveOne(&'a Bitmap),
}

/// Adds a tile's pixels to the signals and, if the plan has a Poisson variance, to the Poisson
/// excesses.
///
/// Each loop is a kernel of its own: a function with few live values, which all stay in registers.
pub(super) fn accumulate_tile<S: Simd, const L: usize, C: InterleavedTile<L>>(
    simd: S,
    accumulators: &mut Accumulators<L>,
    tile: CscTile<'_>,
    pixels: C,
    selection: PixelSelection<'_>,
) {
    let has_variance = accumulators.has_variance();
    let rows = accumulators.rows();
    match (selection, has_variance) {
        (PixelSelection::All, true) => add_all_pixels(simd, rows, tile, pixels, SignalAndExcess),
        (PixelSelection::NonZero(selected), true) => {
            add_selected_pixels(simd, rows, tile, pixels, selected, SignalAndExcess);
        }
        (PixelSelection::AboveOne(selected), true) => {
            add_all_pixels(simd, rows, tile, pixels, SignalRow);
            add_selected_pixels(simd, rows, tile, pixels, selected, ExcessRow);
        }
        (PixelSelection::All | PixelSelection::AboveOne(_), false) => {
            add_all_pixels(simd, rows, tile, pixels, SignalAlone);
        }
        (PixelSelection::NonZero(selected), false) => {
            add_selected_pixels(simd, rows, tile, pixels, selected, SignalAlone);
        }
    }
}

/// The layout of a bin's accumulator rows, and which of them a pass over the pixels adds to.
trait AccumulatedRows: Copy {
    /// How many rows a bin has.
    const ROWS: usize;
    const SIGNAL: bool;
    const EXCESS: bool;
}

macro_rules! accumulated_rows {
    ($($name:ident: $rows:literal, $signal:literal, $excess:literal;)*) => {$(
        #[derive(Clone, Copy)]
        struct $name;

        impl AccumulatedRows for $name {
            const ROWS: usize = $rows;
            const SIGNAL: bool = $signal;
            const EXCESS: bool = $excess;
        }
    )*};
}

accumulated_rows! {
    SignalAndExcess: 2, true, true;
    SignalRow: 2, true, false;
    ExcessRow: 2, false, true;
    SignalAlone: 1, true, false;
}

/// Adds all pixels of a tile in the order of summation.
fn add_all_pixels<S: Simd, const L: usize, Q: AccumulatedRows, C: InterleavedTile<L>>(
    simd: S,
    rows: &mut [[f64; L]],
    tile: CscTile<'_>,
    pixels: C,
    quantities: Q,
) {
    simd.run(AddAllPairs { rows: &mut *rows, tile, pixels, quantities });
    simd.run(AddExtraEntries { rows, tile, pixels, quantities });
}

/// Adds the selected pixels of a tile in the order of summation.
fn add_selected_pixels<S: Simd, const L: usize, Q: AccumulatedRows, C: InterleavedTile<L>>(
    simd: S,
    rows: &mut [[f64; L]],
    tile: CscTile<'_>,
    pixels: C,
    selected: &Bitmap,
    quantities: Q,
) {
    simd.run(AddSelectedPairs { rows: &mut *rows, tile, pixels, selected, quantities });
    simd.run(AddExtraEntries { rows, tile, pixels, quantities });
}

/// Adds each pixel of a tile to its first bin and the next.
struct AddAllPairs<'a, const L: usize, Q, C> {
    rows: &'a mut [[f64; L]],
    tile: CscTile<'a>,
    pixels: C,
    quantities: Q,
}

impl<const L: usize, Q: AccumulatedRows, C: InterleavedTile<L>> Kernel
    for AddAllPairs<'_, L, Q, C>
{
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let AddAllPairs { rows, tile, pixels, quantities } = self;
        for i in 0..STREAM_PIXELS {
            for stream in 0..STREAMS {
                add_pair::<S, L, Q, C>(rows, tile, pixels, stream * STREAM_PIXELS + i, quantities);
            }
        }
    }
}

/// Adds each selected pixel of a tile to its first bin and the next.
struct AddSelectedPairs<'a, const L: usize, Q, C> {
    rows: &'a mut [[f64; L]],
    tile: CscTile<'a>,
    pixels: C,
    selected: &'a Bitmap,
    quantities: Q,
}

impl<const L: usize, Q: AccumulatedRows, C: InterleavedTile<L>> Kernel
    for AddSelectedPairs<'_, L, Q, C>
{
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let AddSelectedPairs { rows, tile, pixels, selected, quantities } = self;
        selected.for_each_in_order(|pixel| {
            add_pair::<S, L, Q, C>(rows, tile, pixels, pixel, quantities)
        });
    }
}

/// Adds a pixel to its first bin and the next.
///
/// Where the product of weight and pixel is exact and the instruction set has it, a fused
/// multiply-add is used: the result has the same bits.
#[inline(always)]
fn add_pair<S: Simd, const L: usize, Q: AccumulatedRows, C: InterleavedTile<L>>(
    rows: &mut [[f64; L]],
    tile: CscTile<'_>,
    pixels: C,
    pixel: usize,
    _: Q,
) {
    let x = pixels.lanes(pixel);
    let first = tile.first_bin[pixel] as usize * Q::ROWS;
    let pair = &mut rows[first..first + 2 * Q::ROWS];
    let [here, next] = tile.pair_weights[pixel].map(f64::from);
    if Q::SIGNAL {
        add_weighted(&mut pair[0], here, &x, S::HAS_FMA && C::EXACT);
        add_weighted(&mut pair[Q::ROWS], next, &x, S::HAS_FMA && C::EXACT);
    }
    if Q::EXCESS {
        let excess = poisson_excess(&x);
        add_weighted(&mut pair[1], here * here, &excess, false);
        add_weighted(&mut pair[Q::ROWS + 1], next * next, &excess, false);
    }
}

/// Adds a tile's extra entries: those beyond a pixel's first bin and the next.
struct AddExtraEntries<'a, const L: usize, Q, C> {
    rows: &'a mut [[f64; L]],
    tile: CscTile<'a>,
    pixels: C,
    quantities: Q,
}

impl<const L: usize, Q: AccumulatedRows, C: InterleavedTile<L>> Kernel
    for AddExtraEntries<'_, L, Q, C>
{
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let AddExtraEntries { rows, tile, pixels, quantities } = self;
        for entry in tile.extra {
            add_extra_entry(rows, entry, pixels, quantities);
        }
    }
}

/// Adds a pixel to a bin beyond its pair.
#[inline(always)]
fn add_extra_entry<const L: usize, Q: AccumulatedRows, C: InterleavedTile<L>>(
    rows: &mut [[f64; L]],
    entry: &ExtraEntry,
    pixels: C,
    _: Q,
) {
    let x = pixels.lanes(entry.pixel as usize);
    let (first, weight) = (entry.bin as usize * Q::ROWS, f64::from(entry.weight));
    if Q::SIGNAL {
        add_weighted(&mut rows[first], weight, &x, false);
    }
    if Q::EXCESS {
        add_weighted(&mut rows[first + 1], weight * weight, &poisson_excess(&x), false);
    }
}

/// Returns `max(x, 1) - 1`: how much the Poisson variance of a pixel exceeds 1.
#[inline(always)]
fn poisson_excess<const L: usize>(x: &[f64; L]) -> [f64; L] {
    x.map(|x| x.max(1.) - 1.)
}

#[inline(always)]
fn add_weighted<const L: usize>(row: &mut [f64; L], weight: f64, x: &[f64; L], fuse: bool) {
    for (sum, &x) in row.iter_mut().zip(x) {
        *sum = if fuse { weight.mul_add(x, *sum) } else { *sum + weight * x };
    }
}
