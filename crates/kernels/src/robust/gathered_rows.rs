//! [`gather_rows`], which copies the rows of a bin's pixels, which lie all over the frame.

use super::csr::PixelsFromBin;
use super::interleaved_pixels::{InterleavedPixels, InterleavedRows};
use super::row_terms::{LaneSums, RowSums, SignalByNorm, UnitWeights};
use super::tile_lanes::INTERLEAVED_FRAMES;
use crate::simd::prefetch_value;

/// Number of rows that are gathered before their maximum and sums are taken.
const GATHERED_ROWS: usize = 64;

/// Number of squares up to [`LARGEST_SQUARED`]² whose sum is exact in f64.
const MAX_SQUARES: usize = 1 << 27;

/// The largest count of [`GATHERED_ROWS`] rows whose squares fit in 32 bits together.
const LARGEST_SQUARED: u16 = 8191;

/// The sums of gathered rows that are wanted.
#[derive(Clone, Copy)]
pub(super) enum GatheredSums<'a> {
    Nothing,
    Counts,
    /// The counts, their squares and their products with n, which is given.
    CountsAndMoments(&'a [f64]),
}

/// Maxima and sums of gathered rows.
pub(super) struct GatheredRows {
    /// The maximum of each lane.
    pub(super) largest: [u16; INTERLEAVED_FRAMES],
    /// The sum of each lane, if it was asked for. In f64 it is exact, in any order.
    pub(super) counts: LaneSums,
    /// The sums of s² and s n of each lane, if they were asked for and are known.
    pub(super) moments: Option<[LaneSums; 2]>,
}

/// Copies the rows of the first `count` pixels of `indices` to `rows`, as 16-bit counts, and adds up
/// what is asked for. Only the first `frames` lanes are used. Prefetches the rows of the indices that
/// follow.
#[inline(always)]
pub(super) fn gather_rows(
    interleaved: &InterleavedPixels,
    frames: usize,
    indices: PixelsFromBin<'_>,
    count: usize,
    sums: GatheredSums<'_>,
    rows: &mut Vec<[u16; INTERLEAVED_FRAMES]>,
) -> GatheredRows {
    rows.resize(count, [0; INTERLEAVED_FRAMES]);
    match interleaved.rows() {
        InterleavedRows::Wide(pixels) => gather(pixels, indices, sums, rows),
        InterleavedRows::Narrow(pixels) => {
            let mut gathered = gather(pixels, indices, sums, rows);
            if gathered.largest[..frames].contains(&u8::MAX.into()) {
                widen(interleaved, frames, indices, rows, &mut gathered);
            }
            gathered
        }
    }
}

/// Copies rows of counts of any width.
#[inline(always)]
fn gather<C: Copy + Default + Ord + Into<u16> + Into<u32>>(
    pixels: &[[C; INTERLEAVED_FRAMES]],
    indices: PixelsFromBin<'_>,
    sums: GatheredSums<'_>,
    rows: &mut [[u16; INTERLEAVED_FRAMES]],
) -> GatheredRows {
    let mut largest_of_all = [0; INTERLEAVED_FRAMES];
    let (mut counts, mut squares) = ([0.; INTERLEAVED_FRAMES], [0.; INTERLEAVED_FRAMES]);
    let mut products = RowSums::default();
    let mut as_stored = [[C::default(); INTERLEAVED_FRAMES]; GATHERED_ROWS];
    for (number, rows) in rows.chunks_mut(GATHERED_ROWS).enumerate() {
        // In registers: that of all rows is in memory.
        let mut largest = [C::default(); INTERLEAVED_FRAMES];
        let first = number * GATHERED_ROWS;
        let as_stored = &mut as_stored[..rows.len()];
        for (entry, row) in as_stored.iter_mut().enumerate() {
            prefetch_value(&pixels[indices.pixel_ahead(first + entry)]);
            *row = pixels[indices.pixel(first + entry)];
            for lane in 0..INTERLEAVED_FRAMES {
                largest[lane] = largest[lane].max(row[lane]);
            }
        }
        // Loops of their own, which the compiler turns into vectors.
        for (wide, &narrow) in rows.as_flattened_mut().iter_mut().zip(as_stored.as_flattened()) {
            *wide = narrow.into();
        }
        for (all, largest) in largest_of_all.iter_mut().zip(largest) {
            *all = (*all).max(largest.into());
        }
        if !matches!(sums, GatheredSums::Nothing) {
            let mut sums = [0_u32; INTERLEAVED_FRAMES];
            for row in &*as_stored {
                for lane in 0..INTERLEAVED_FRAMES {
                    sums[lane] += Into::<u32>::into(row[lane]);
                }
            }
            for (all, count) in counts.iter_mut().zip(sums) {
                *all += f64::from(count);
            }
        }
        if let GatheredSums::CountsAndMoments(norms) = sums {
            let mut sums = [0_u32; INTERLEAVED_FRAMES];
            for row in &*as_stored {
                for lane in 0..INTERLEAVED_FRAMES {
                    let count: u32 = row[lane].into();
                    // Counts that are too large are found below.
                    sums[lane] = sums[lane].wrapping_add(count.wrapping_mul(count));
                }
            }
            for (all, squares) in squares.iter_mut().zip(sums) {
                *all += f64::from(squares);
            }
            products.add(first, rows, &SignalByNorm { signal: UnitWeights, norms });
        }
    }
    let has_moments = matches!(sums, GatheredSums::CountsAndMoments(_))
        && largest_of_all.iter().all(|largest| *largest <= LARGEST_SQUARED)
        && rows.len() <= MAX_SQUARES;
    let moments = has_moments.then(|| [squares, products.totals()]);
    GatheredRows { largest: largest_of_all, counts, moments }
}

/// Replaces the counts of narrow rows that stand for others, in the rows and in what is known of them.
#[cold]
fn widen(
    interleaved: &InterleavedPixels,
    frames: usize,
    indices: PixelsFromBin<'_>,
    rows: &mut [[u16; INTERLEAVED_FRAMES]],
    gathered: &mut GatheredRows,
) {
    let is_narrow_overflow = |count: u16| count == u8::MAX.into();
    gathered.moments = None;
    for (entry, row) in rows.iter_mut().enumerate() {
        // Of all lanes at once, as nearly all rows have none.
        if !row.iter().fold(false, |any, &count| any | is_narrow_overflow(count)) {
            continue;
        }
        for (lane, count) in row[..frames].iter_mut().enumerate() {
            if is_narrow_overflow(*count) {
                let wide = interleaved.wide_count(indices.pixel(entry) as u32, lane);
                gathered.counts[lane] += f64::from(wide - *count);
                gathered.largest[lane] = gathered.largest[lane].max(wide);
                *count = wide;
            }
        }
    }
}
