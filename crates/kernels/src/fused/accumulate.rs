//! The innermost loop: a tile of the matrix applied to many frames at once.
//!
//! Lanes are frames, so each frame sees the one order of summation. Written without intrinsics: compiled for an
//! instruction set (see [`crate::simd`]) the loops over lanes become vector instructions, as good as by hand. On a
//! Zen 5 with 16 frames a pixel takes some 12 cycles, bounded by loading and storing its eight rows of 64 bytes.

use super::accumulators::Accumulators;
use super::interleaved_tile::InterleavedTile;
use crate::bitmap::Bitmap;
use crate::summation_order::{STREAM_PIXELS, STREAMS};
use crate::tiled_csc::CscTile;

/// Which pixels of a tile to add; the others would add zero.
#[derive(Clone, Copy)]
pub(crate) enum PixelSelection<'a> {
    /// All to everything.
    All,
    /// Only these.
    NonZero(&'a Bitmap),
    /// All to the signals, only these to the excesses.
    AboveOne(&'a Bitmap),
}

/// Adds a tile's pixels to the signals, and to the excesses where there is an error model.
///
/// `FUSE` allows a fused multiply-add where it can't be told from two roundings.
#[inline(always)]
pub(crate) fn accumulate_tile<const L: usize, const FUSE: bool, C: InterleavedTile<L>>(
    table: &mut Accumulators<L>,
    tile: CscTile<'_>,
    column: &C,
    selection: PixelSelection<'_>,
) {
    match (selection, table.has_variance()) {
        (PixelSelection::All, true) => add_all_pixels::<L, SignalAndExcess, FUSE, C>(table.rows(), tile, column),
        (PixelSelection::NonZero(pixels), true) => {
            add_selected_pixels::<L, SignalAndExcess, FUSE, C>(table.rows(), tile, column, pixels)
        }
        (PixelSelection::AboveOne(pixels), true) => {
            add_all_pixels::<L, SignalRow, FUSE, C>(table.rows(), tile, column);
            add_selected_pixels::<L, ExcessRow, FUSE, C>(table.rows(), tile, column, pixels);
        }
        (PixelSelection::All | PixelSelection::AboveOne(_), false) => {
            add_all_pixels::<L, SignalAlone, FUSE, C>(table.rows(), tile, column)
        }
        (PixelSelection::NonZero(pixels), false) => {
            add_selected_pixels::<L, SignalAlone, FUSE, C>(table.rows(), tile, column, pixels)
        }
    }
}

/// Which of a bin's rows are added to.
trait AccumulatedRows {
    /// Rows of a bin.
    const ROWS: usize;
    const SIGNAL: bool;
    const EXCESS: bool;
}

macro_rules! accumulated_rows {
    ($($name:ident: $rows:literal, $signal:literal, $excess:literal;)*) => {$(
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

/// Adds all pixels of a tile.
#[inline(always)]
fn add_all_pixels<const L: usize, Q: AccumulatedRows, const FUSE: bool, C: InterleavedTile<L>>(
    rows: &mut [[f64; L]],
    tile: CscTile<'_>,
    column: &C,
) {
    for i in 0..STREAM_PIXELS {
        for stream in 0..STREAMS {
            add_pair::<L, Q, FUSE, C>(rows, tile, column, stream * STREAM_PIXELS + i);
        }
    }
    add_extra_entries::<L, Q, C>(rows, tile, column);
}

/// Adds some pixels of a tile.
#[inline(always)]
fn add_selected_pixels<const L: usize, Q: AccumulatedRows, const FUSE: bool, C: InterleavedTile<L>>(
    rows: &mut [[f64; L]],
    tile: CscTile<'_>,
    column: &C,
    pixels: &Bitmap,
) {
    pixels.for_each_in_order(|pixel| add_pair::<L, Q, FUSE, C>(rows, tile, column, pixel));
    add_extra_entries::<L, Q, C>(rows, tile, column);
}

/// Adds a pixel to its first bin and the next.
#[inline(always)]
fn add_pair<const L: usize, Q: AccumulatedRows, const FUSE: bool, C: InterleavedTile<L>>(
    rows: &mut [[f64; L]],
    tile: CscTile<'_>,
    column: &C,
    pixel: usize,
) {
    let x = column.lanes(pixel);
    let first = tile.first_bin[pixel] as usize * Q::ROWS;
    let pair = &mut rows[first..first + 2 * Q::ROWS];
    let [here, next] = tile.pair_weights[pixel].map(f64::from);
    if Q::SIGNAL {
        add_weighted(&mut pair[0], here, &x, FUSE && C::EXACT);
        add_weighted(&mut pair[Q::ROWS], next, &x, FUSE && C::EXACT);
    }
    if Q::EXCESS {
        let excess = poisson_excess(&x);
        add_weighted(&mut pair[1], here * here, &excess, false);
        add_weighted(&mut pair[Q::ROWS + 1], next * next, &excess, false);
    }
}

/// Adds a tile's entries beyond the pairs.
#[inline(always)]
fn add_extra_entries<const L: usize, Q: AccumulatedRows, C: InterleavedTile<L>>(
    rows: &mut [[f64; L]],
    tile: CscTile<'_>,
    column: &C,
) {
    for entry in tile.extra {
        let x = column.lanes(entry.pixel as usize);
        let (first, weight) = (entry.bin as usize * Q::ROWS, f64::from(entry.weight));
        if Q::SIGNAL {
            add_weighted(&mut rows[first], weight, &x, false);
        }
        if Q::EXCESS {
            add_weighted(&mut rows[first + 1], weight * weight, &poisson_excess(&x), false);
        }
    }
}

/// `max(x, 1) - 1`.
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
