//! A bin without the pixels that some frames agree to be invalid: dead ones.

use super::BinSums;
use super::bin_entries::{BinEntries, PixelVariance};
use super::interleaved_pixels::{INTERLEAVED_FRAMES, InterleavedPixels, OVERFLOW};
use super::partial_sums::{sum, sum_by};

/// Memory of a thread: the entries of a bin that are left, as in [`BinEntries`].
#[derive(Default)]
pub(super) struct WithoutMasked {
    kept: Vec<u32>,
    pixel: Vec<u32>,
    weight: Vec<f32>,
    norm: Vec<f64>,
    dark: Vec<f64>,
    variance: Vec<f64>,
}

impl WithoutMasked {
    /// Takes the pixels that are invalid in all of the first `frames` lanes from a bin and from its columns, and says again what is
    /// the largest in each lane.
    pub(super) fn drop_masked<'a>(
        &'a mut self,
        bin: &BinEntries<'a>,
        columns: &InterleavedPixels,
        column: &mut Vec<[u16; INTERLEAVED_FRAMES]>,
        frames: usize,
        largest: &mut [u16; INTERLEAVED_FRAMES],
    ) -> BinEntries<'a> {
        let is_dead = |pixel: u32, column: &[u16; INTERLEAVED_FRAMES]| {
            column[..frames].iter().all(|&column| column == OVERFLOW)
                && (0..frames).all(|lane| columns.value(pixel, lane, OVERFLOW).is_nan())
        };
        self.kept.clear();
        for (entry, (&pixel, column)) in (0..).zip(bin.pixels.iter().zip(&*column)) {
            if !is_dead(pixel, column) {
                self.kept.push(entry);
            }
        }
        if self.kept.len() == column.len() {
            return *bin;
        }
        *largest = [0; INTERLEAVED_FRAMES];
        for (to, &from) in self.kept.iter().enumerate() {
            column[to] = column[from as usize];
            for lane in 0..INTERLEAVED_FRAMES {
                largest[lane] = largest[lane].max(column[to][lane]);
            }
        }
        column.truncate(self.kept.len());
        let WithoutMasked { kept, pixel, weight, norm, dark, variance } = self;
        gather_kept(kept, bin.pixels, pixel);
        gather_kept(kept, bin.norms, norm);
        let mut of = BinEntries { pixels: pixel, norms: norm, ..*bin };
        if let Some(all) = bin.weights {
            gather_kept(kept, all, weight);
            of.weights = Some(weight);
        }
        if let Some(all) = bin.dark {
            gather_kept(kept, all, dark);
            of.dark = Some(dark);
        }
        if let PixelVariance::Given(all) = bin.variance {
            gather_kept(kept, all, variance);
            of.variance = PixelVariance::Given(variance);
        }
        let norms: Vec<f64> = (0..kept.len()).map(|entry| of.weight(entry) * of.norms[entry]).collect();
        of.full_sums = BinSums {
            norm: sum(&norms, |norm| norm),
            norm_sq: sum(&norms, |norm| norm * norm),
            count: of.weights.map_or(kept.len() as f64, |weight| sum_by(weight, |&w| f64::from(w))),
            ..BinSums::default()
        };
        of
    }
}

fn gather_kept<T: Copy>(kept: &[u32], all: &[T], into: &mut Vec<T>) {
    into.clear();
    into.extend(kept.iter().map(|&entry| all[entry as usize]));
}
