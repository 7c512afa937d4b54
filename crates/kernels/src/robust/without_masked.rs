//! Removes the pixels of a bin that are invalid in all interleaved frames, such as dead pixels that
//! no mask names.

use super::BinSums;
use super::bin_entries::{BinEntries, LeftOut, PixelVariance};
use super::clipped_sums::{ClippedSums, TermSums, weight_terms};
use super::interleaved_pixels::{InterleavedPixels, OVERFLOW};
use super::partial_sums::{sum, sum_by};
use super::tile_lanes::INTERLEAVED_FRAMES;

/// Working memory of a thread: the remaining entries of a bin, in lists like those of
/// [`BinEntries`].
#[derive(Default)]
pub(super) struct WithoutMasked {
    kept: Vec<u32>,
    /// The entries that are not kept.
    left_out: Vec<u32>,
    pixel: Vec<u32>,
    weight: Vec<f32>,
    norm: Vec<f64>,
    dark: Vec<f64>,
    variance: Vec<f64>,
}

impl WithoutMasked {
    /// Removes the pixels that are invalid in all of the first `frames` lanes from the bin's
    /// `rows`, and returns the remaining entries. Updates `largest`, the maximum of each lane over
    /// `rows`.
    pub(super) fn drop_masked<'a>(
        &'a mut self,
        bin: &'a BinEntries<'a>,
        interleaved: &InterleavedPixels,
        rows: &mut Vec<[u16; INTERLEAVED_FRAMES]>,
        frames: usize,
        largest: &mut [u16; INTERLEAVED_FRAMES],
    ) -> BinEntries<'a> {
        self.find_masked(bin, interleaved, rows, frames);
        if self.left_out.is_empty() {
            return *bin;
        }
        for (to, &from) in self.kept.iter().enumerate() {
            rows[to] = rows[from as usize];
        }
        rows.truncate(self.kept.len());
        *largest = largest_counts(rows);
        let WithoutMasked { kept, left_out, pixel, weight, norm, dark, variance } = self;
        gather_kept(kept, bin.pixels, pixel);
        gather_kept(kept, bin.norms, norm);
        let left_out = Some(LeftOut { whole: bin, entries: left_out });
        let mut remaining = BinEntries { pixels: pixel, norms: norm, left_out, ..*bin };
        if let Some(all) = bin.weights {
            gather_kept(kept, all, weight);
            remaining.weights = Some(weight);
        }
        if let Some(all) = bin.dark {
            gather_kept(kept, all, dark);
            remaining.dark = Some(dark);
        }
        if let PixelVariance::Given(all) = bin.variance {
            gather_kept(kept, all, variance);
            remaining.variance = PixelVariance::Given(variance);
        }
        let norms: Vec<f64> =
            (0..kept.len()).map(|entry| remaining.weight(entry) * remaining.norms[entry]).collect();
        remaining.full_sums = BinSums {
            norm: sum(&norms, |norm| norm),
            norm_sq: sum(&norms, |norm| norm * norm),
            count: remaining
                .weights
                .map_or(kept.len() as f64, |weight| sum_by(weight, |&w| f64::from(w))),
            ..BinSums::default()
        };
        remaining
    }

    /// Sets the pixels that are invalid in all of the first `frames` lanes to 0 in the bin's `rows`,
    /// and returns the bin with a weight of 0 for those that are left out, and the sums of the other
    /// weights. Updates `largest`, the maximum of each lane over `rows`.
    pub(super) fn zero_masked<'a>(
        &'a mut self,
        bin: &'a BinEntries<'a>,
        interleaved: &InterleavedPixels,
        rows: &mut [[u16; INTERLEAVED_FRAMES]],
        frames: usize,
        largest: &mut [u16; INTERLEAVED_FRAMES],
    ) -> (BinEntries<'a>, ClippedSums) {
        self.find_masked(bin, interleaved, rows, frames);
        let mut clipped = ClippedSums::new(bin.full_sums, rows.len());
        if self.left_out.is_empty() {
            return (*bin, clipped);
        }
        let WithoutMasked { left_out, weight, variance, .. } = self;
        weight.clear();
        weight
            .extend((0..rows.len()).map(|entry| bin.weights.map_or(1., |weights| weights[entry])));
        let mut masked = TermSums::default();
        for &entry in &*left_out {
            let entry = entry as usize;
            masked.add(entry, &weight_terms(bin.term(entry, 0.)));
            rows[entry] = [0; INTERLEAVED_FRAMES];
            weight[entry] = 0.;
        }
        *largest = largest_counts(rows);
        let mut remaining = BinEntries { weights: Some(weight), ..*bin };
        clipped.subtract(&masked, false, |_| {
            let mut sums = TermSums::default();
            for entry in (0..rows.len()).filter(|&entry| remaining.weight(entry) != 0.) {
                sums.add(entry, &weight_terms(remaining.term(entry, 0.)));
            }
            sums
        });
        if let PixelVariance::Given(all) = bin.variance {
            variance.clear();
            variance.extend_from_slice(all);
            left_out.iter().for_each(|&entry| variance[entry as usize] = 0.);
            remaining.variance = PixelVariance::Given(variance);
        }
        remaining.left_out = Some(LeftOut { whole: bin, entries: left_out });
        (remaining, clipped)
    }

    /// Lists the entries that are invalid in all of the first `frames` lanes, and the others.
    fn find_masked(
        &mut self,
        bin: &BinEntries<'_>,
        interleaved: &InterleavedPixels,
        rows: &[[u16; INTERLEAVED_FRAMES]],
        frames: usize,
    ) {
        let is_dead = |pixel: u32, row: &[u16; INTERLEAVED_FRAMES]| {
            row[..frames].iter().all(|&value| value == OVERFLOW)
                && (0..frames).all(|lane| interleaved.value(pixel, lane, OVERFLOW).is_nan())
        };
        self.kept.clear();
        self.left_out.clear();
        for (entry, (&pixel, row)) in (0..).zip(bin.pixels.iter().zip(rows)) {
            let list = if is_dead(pixel, row) { &mut self.left_out } else { &mut self.kept };
            list.push(entry);
        }
    }
}

/// Returns the maximum of each lane.
fn largest_counts(rows: &[[u16; INTERLEAVED_FRAMES]]) -> [u16; INTERLEAVED_FRAMES] {
    let mut largest = [0; INTERLEAVED_FRAMES];
    for row in rows {
        for lane in 0..INTERLEAVED_FRAMES {
            largest[lane] = largest[lane].max(row[lane]);
        }
    }
    largest
}

fn gather_kept<T: Copy>(kept: &[u32], all: &[T], into: &mut Vec<T>) {
    into.clear();
    into.extend(kept.iter().map(|&entry| all[entry as usize]));
}
