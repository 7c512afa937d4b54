//! The innermost loop: a tile of the matrix applied to many frames at once.
//!
//! Lanes are frames, so each frame sees the one order of summation. Written without intrinsics: compiled for an
//! instruction set (see [`crate::backend`]) the loops over lanes become vector instructions, as good as by hand. On a
//! Zen 5 with 16 frames a pixel takes some 12 cycles, bounded by loading and storing its eight rows of 64 bytes.

use super::column::Column;
use super::table::Table;
use crate::bitmap::Bitmap;
use crate::matrix::Tile;
use crate::order::{STREAM, STREAMS};

/// Which pixels of a tile to add; the others would add zero.
#[derive(Clone, Copy)]
pub(crate) enum Selection<'a> {
    /// All to everything.
    All,
    /// Only these.
    Lit(&'a Bitmap),
    /// All to the signals, only these to the excesses.
    Bright(&'a Bitmap),
}

/// Adds a tile's pixels to the signals, and to the excesses where there is an error model.
///
/// `FUSE` allows a fused multiply-add where it can't be told from two roundings.
#[inline(always)]
pub(crate) fn accumulate<const L: usize, const FUSE: bool, C: Column<L>>(
    table: &mut Table<L>,
    tile: Tile<'_>,
    column: &C,
    selection: Selection<'_>,
) {
    match (selection, table.has_variance()) {
        (Selection::All, true) => sweep::<L, Both, FUSE, C>(table.rows(), tile, column),
        (Selection::Lit(pixels), true) => visit::<L, Both, FUSE, C>(table.rows(), tile, column, pixels),
        (Selection::Bright(pixels), true) => {
            sweep::<L, SignalOfBoth, FUSE, C>(table.rows(), tile, column);
            visit::<L, ExcessOfBoth, FUSE, C>(table.rows(), tile, column, pixels);
        }
        (Selection::All | Selection::Bright(_), false) => sweep::<L, Signal, FUSE, C>(table.rows(), tile, column),
        (Selection::Lit(pixels), false) => visit::<L, Signal, FUSE, C>(table.rows(), tile, column, pixels),
    }
}

/// Which of a bin's rows are added to.
trait Quantities {
    /// Rows of a bin.
    const ROWS: usize;
    const SIGNAL: bool;
    const EXCESS: bool;
}

macro_rules! quantities {
    ($($name:ident: $rows:literal, $signal:literal, $excess:literal;)*) => {$(
        struct $name;

        impl Quantities for $name {
            const ROWS: usize = $rows;
            const SIGNAL: bool = $signal;
            const EXCESS: bool = $excess;
        }
    )*};
}

quantities! {
    Both: 2, true, true;
    SignalOfBoth: 2, true, false;
    ExcessOfBoth: 2, false, true;
    Signal: 1, true, false;
}

/// Adds all pixels of a tile.
#[inline(always)]
fn sweep<const L: usize, Q: Quantities, const FUSE: bool, C: Column<L>>(
    rows: &mut [[f64; L]],
    tile: Tile<'_>,
    column: &C,
) {
    for i in 0..STREAM {
        for stream in 0..STREAMS {
            add_pair::<L, Q, FUSE, C>(rows, tile, column, stream * STREAM + i);
        }
    }
    add_rest::<L, Q, C>(rows, tile, column);
}

/// Adds some pixels of a tile.
#[inline(always)]
fn visit<const L: usize, Q: Quantities, const FUSE: bool, C: Column<L>>(
    rows: &mut [[f64; L]],
    tile: Tile<'_>,
    column: &C,
    pixels: &Bitmap,
) {
    pixels.in_order(|pixel| add_pair::<L, Q, FUSE, C>(rows, tile, column, pixel));
    add_rest::<L, Q, C>(rows, tile, column);
}

/// Adds a pixel to its first bin and the next.
#[inline(always)]
fn add_pair<const L: usize, Q: Quantities, const FUSE: bool, C: Column<L>>(
    rows: &mut [[f64; L]],
    tile: Tile<'_>,
    column: &C,
    pixel: usize,
) {
    let x = column.lanes(pixel);
    let first = tile.first[pixel] as usize * Q::ROWS;
    let pair = &mut rows[first..first + 2 * Q::ROWS];
    let [here, next] = tile.pair[pixel].map(f64::from);
    if Q::SIGNAL {
        add(&mut pair[0], here, &x, FUSE && C::EXACT);
        add(&mut pair[Q::ROWS], next, &x, FUSE && C::EXACT);
    }
    if Q::EXCESS {
        let excess = excess_of(&x);
        add(&mut pair[1], here * here, &excess, false);
        add(&mut pair[Q::ROWS + 1], next * next, &excess, false);
    }
}

/// Adds a tile's entries beyond the pairs.
#[inline(always)]
fn add_rest<const L: usize, Q: Quantities, C: Column<L>>(rows: &mut [[f64; L]], tile: Tile<'_>, column: &C) {
    for entry in tile.rest {
        let x = column.lanes(entry.pixel as usize);
        let (first, weight) = (entry.bin as usize * Q::ROWS, f64::from(entry.weight));
        if Q::SIGNAL {
            add(&mut rows[first], weight, &x, false);
        }
        if Q::EXCESS {
            add(&mut rows[first + 1], weight * weight, &excess_of(&x), false);
        }
    }
}

/// `max(x, 1) - 1`.
#[inline(always)]
fn excess_of<const L: usize>(x: &[f64; L]) -> [f64; L] {
    x.map(|x| x.max(1.) - 1.)
}

#[inline(always)]
fn add<const L: usize>(row: &mut [f64; L], weight: f64, x: &[f64; L], fuse: bool) {
    for (sum, &x) in row.iter_mut().zip(x) {
        *sum = if fuse { weight.mul_add(x, *sum) } else { *sum + weight * x };
    }
}
