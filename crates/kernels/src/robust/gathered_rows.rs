//! [`gather_rows`], which copies the rows of a bin's pixels, which lie all over the frame.

use super::csr::PixelsFromBin;
use super::interleaved_pixels::{InterleavedPixels, InterleavedRows};
use super::row_terms::LaneSums;
use super::tile_lanes::INTERLEAVED_FRAMES;
use crate::simd::prefetch_value;

/// Number of rows that are gathered before their maximum is taken.
const GATHERED_ROWS: usize = 64;

/// Maxima and sums of gathered rows.
pub(super) struct GatheredRows {
    /// The maximum of each lane.
    pub(super) largest: [u16; INTERLEAVED_FRAMES],
    /// The sum of each lane, if it was asked for. In f64 it is exact, in any order.
    pub(super) counts: LaneSums,
}

/// Copies the rows of the first `count` pixels of `indices` to `rows`, as 16-bit counts, and adds up
/// the counts if `sums_counts`. Only the first `frames` lanes are used. Prefetches the rows of the
/// indices that follow.
#[inline(always)]
pub(super) fn gather_rows(
    interleaved: &InterleavedPixels,
    frames: usize,
    indices: PixelsFromBin<'_>,
    count: usize,
    sums_counts: bool,
    rows: &mut Vec<[u16; INTERLEAVED_FRAMES]>,
) -> GatheredRows {
    rows.resize(count, [0; INTERLEAVED_FRAMES]);
    match interleaved.rows() {
        InterleavedRows::Wide(pixels) => gather(pixels, indices, sums_counts, rows),
        InterleavedRows::Narrow(pixels) => {
            let mut gathered = gather(pixels, indices, sums_counts, rows);
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
    sums_counts: bool,
    rows: &mut [[u16; INTERLEAVED_FRAMES]],
) -> GatheredRows {
    let mut all =
        GatheredRows { largest: [0; INTERLEAVED_FRAMES], counts: [0.; INTERLEAVED_FRAMES] };
    let mut as_stored = [[C::default(); INTERLEAVED_FRAMES]; GATHERED_ROWS];
    for (number, rows) in rows.chunks_mut(GATHERED_ROWS).enumerate() {
        // In registers: `all` is in memory.
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
        for (all, largest) in all.largest.iter_mut().zip(largest) {
            *all = (*all).max(largest.into());
        }
        if sums_counts {
            let mut counts = [0_u32; INTERLEAVED_FRAMES];
            for row in &*as_stored {
                for lane in 0..INTERLEAVED_FRAMES {
                    counts[lane] += Into::<u32>::into(row[lane]);
                }
            }
            for (all, count) in all.counts.iter_mut().zip(counts) {
                *all += f64::from(count);
            }
        }
    }
    all
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
