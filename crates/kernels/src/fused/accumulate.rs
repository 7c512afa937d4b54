//! The innermost loop: applies a tile of the matrix to many frames at once.
//!
//! SIMD lanes are frames, so every frame has the one order of summation. The loops have no
//! intrinsics: compiled for an instruction set (see [`crate::simd`]) they become vector
//! instructions as good as hand-written ones. On a Zen 5 with 16 frames a pixel takes some 12
//! cycles, limited by loading and storing its eight rows of 64 bytes.

use super::accumulators::Accumulators;
use super::interleaved_tile::{CorrectedCounts, InterleavedTile};
use super::spread_factors::SpreadFactors;
use crate::bitmap::Bitmap;
use crate::dead_time::DeadTime;
use crate::photon_sums::PhotonQuantities;
use crate::simd::{Kernel, Simd};
use crate::summation_order::{STREAM_PIXELS, STREAMS};
use crate::tiled_csc::{CscTile, ExtraEntry};

/// The pixels of a tile to add. Pixels outside the selection would add zero.
#[derive(Clone, Copy)]
pub(super) enum PixelSelection<'a> {
    /// All pixels are added to all sums.
    All,
    /// Only the pixels in the bitmap are added.
    NonZero(&'a Bitmap),
    /// All pixels are added, but only those in the bitmap to the Poisson excess.
    AboveOne(&'a Bitmap),
}

/// How the pixels of a tile become terms of sums.
#[derive(Clone, Copy)]
pub(super) struct TileTerms<'a> {
    pub(super) selection: PixelSelection<'a>,
    pub(super) factors: SpreadFactors<'a>,
    /// The dead time that counts are corrected for before they are added.
    pub(super) dead_time: DeadTime,
}

/// Adds a tile's pixels to the sums of the plan's quantities.
pub(super) fn accumulate_tile<S: Simd, const L: usize, C: InterleavedTile<L>>(
    simd: S,
    accumulators: &mut Accumulators<L>,
    tile: CscTile<'_>,
    counts: C,
    terms: TileTerms<'_>,
) {
    let dead_time = terms.dead_time;
    if dead_time.is_zero() {
        add_tile(simd, accumulators, tile, counts, terms);
    } else {
        add_tile(simd, accumulators, tile, CorrectedCounts { counts, dead_time }, terms);
    }
}

/// Adds a tile's pixels, whose counts are corrected.
///
/// Each loop is a kernel of its own: a function with few live values, which all stay in registers.
fn add_tile<S: Simd, const L: usize, C: InterleavedTile<L>>(
    simd: S,
    accumulators: &mut Accumulators<L>,
    tile: CscTile<'_>,
    pixels: C,
    TileTerms { selection, factors, .. }: TileTerms<'_>,
) {
    use PhotonQuantities::{Signal, SignalAndExcess, SignalAndSpread};
    use PixelSelection::{AboveOne, All, NonZero};
    let quantities = accumulators.quantities();
    let rows = accumulators.rows();
    match (quantities, selection) {
        (Signal, All | AboveOne(_)) => add_all_pixels(simd, rows, tile, pixels, SignalAlone),
        (Signal, NonZero(selected)) => {
            add_selected_pixels(simd, rows, tile, pixels, selected, SignalAlone);
        }
        (SignalAndExcess, All) => add_all_pixels(simd, rows, tile, pixels, SignalExcess),
        (SignalAndExcess, NonZero(selected)) => {
            add_selected_pixels(simd, rows, tile, pixels, selected, SignalExcess);
        }
        (SignalAndExcess, AboveOne(selected)) => {
            add_all_pixels(simd, rows, tile, pixels, SignalRow);
            add_selected_pixels(simd, rows, tile, pixels, selected, ExcessRow);
        }
        (SignalAndSpread, All | AboveOne(_)) => {
            add_all_pixels(simd, rows, tile, pixels, SignalSpread(factors));
        }
        (SignalAndSpread, NonZero(selected)) => {
            add_selected_pixels(simd, rows, tile, pixels, selected, SignalSpread(factors));
        }
    }
}

/// The layout of a bin's accumulator rows, and which of them a pass over the pixels adds to.
trait AccumulatedRows: Copy {
    /// How many rows a bin has.
    const ROWS: usize;
    const SIGNAL: bool = false;
    const EXCESS: bool = false;
    const SPREAD: bool = false;

    /// Returns n and d of a pixel, if its spread is added.
    #[inline(always)]
    fn factors(&self, _pixel: usize) -> (f64, f64) {
        (0., 0.)
    }
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
    SignalExcess: 2, true, true;
    SignalRow: 2, true, false;
    ExcessRow: 2, false, true;
    SignalAlone: 1, true, false;
}

/// Rows of the signal, the squares and the products, which are all added to.
#[derive(Clone, Copy)]
struct SignalSpread<'a>(SpreadFactors<'a>);

impl AccumulatedRows for SignalSpread<'_> {
    const ROWS: usize = 3;
    const SIGNAL: bool = true;
    const SPREAD: bool = true;

    #[inline(always)]
    fn factors(&self, pixel: usize) -> (f64, f64) {
        self.0.pixel(pixel)
    }
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
    quantities: Q,
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
        let excess = pixels.poisson_excess(&x);
        add_weighted(&mut pair[1], here * here, &excess, false);
        add_weighted(&mut pair[Q::ROWS + 1], next * next, &excess, false);
    }
    if Q::SPREAD {
        let (norm, dark) = quantities.factors(pixel);
        let (squares, here_sq, next_sq) = (squares::<L, C>(&x, dark), here * here, next * next);
        add_weighted(&mut pair[1], here_sq, &squares, false);
        add_weighted(&mut pair[Q::ROWS + 1], next_sq, &squares, false);
        add_weighted(&mut pair[2], here_sq * norm, &x, false);
        add_weighted(&mut pair[Q::ROWS + 2], next_sq * norm, &x, false);
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
    quantities: Q,
) {
    let x = pixels.lanes(entry.pixel as usize);
    let (first, weight) = (entry.bin as usize * Q::ROWS, f64::from(entry.weight));
    if Q::SIGNAL {
        add_weighted(&mut rows[first], weight, &x, false);
    }
    if Q::EXCESS {
        add_weighted(&mut rows[first + 1], weight * weight, &pixels.poisson_excess(&x), false);
    }
    if Q::SPREAD {
        let (norm, dark) = quantities.factors(entry.pixel as usize);
        let weight_sq = weight * weight;
        add_weighted(&mut rows[first + 1], weight_sq, &squares::<L, C>(&x, dark), false);
        add_weighted(&mut rows[first + 2], weight_sq * norm, &x, false);
    }
}

/// Returns `x (x - 2 d)`, at most the greatest double: an infinity would be NaN in bins in which the
/// pixel has no weight.
#[inline(always)]
fn squares<const L: usize, C: InterleavedTile<L>>(x: &[f64; L], dark: f64) -> [f64; L] {
    let twice_dark = 2. * dark;
    x.map(|x| {
        let square = x * (x - twice_dark);
        if C::EXACT { square } else { square.min(f64::MAX) }
    })
}

#[inline(always)]
fn add_weighted<const L: usize>(row: &mut [f64; L], weight: f64, x: &[f64; L], fuse: bool) {
    for (sum, &x) in row.iter_mut().zip(x) {
        *sum = if fuse { weight.mul_add(x, *sum) } else { *sum + weight * x };
    }
}
