//! A bin without the pixels that some frames agree to be invalid: dead ones.

use super::BinSums;
use super::bin::{Bin, Variance};
use super::columns::{Columns, ELSEWHERE, LANES};
use super::lanes::{sum, sum_of_all};

/// Memory of a thread: the entries of a bin that are left, as in [`Bin`].
#[derive(Default)]
pub(super) struct Without {
    kept: Vec<u32>,
    pixel: Vec<u32>,
    weight: Vec<f32>,
    norm: Vec<f64>,
    dark: Vec<f64>,
    variance: Vec<f64>,
}

impl Without {
    /// Takes the pixels that are invalid in all of the first `frames` lanes from a bin and from its columns, and says again what is
    /// the largest in each lane.
    pub(super) fn dead<'a>(
        &'a mut self,
        bin: &Bin<'a>,
        columns: &Columns,
        column: &mut Vec<[u16; LANES]>,
        frames: usize,
        largest: &mut [u16; LANES],
    ) -> Bin<'a> {
        let is_dead = |pixel: u32, column: &[u16; LANES]| {
            column[..frames].iter().all(|&column| column == ELSEWHERE)
                && (0..frames).all(|lane| columns.value(pixel, lane, ELSEWHERE).is_nan())
        };
        self.kept.clear();
        for (entry, (&pixel, column)) in (0..).zip(bin.pixel.iter().zip(&*column)) {
            if !is_dead(pixel, column) {
                self.kept.push(entry);
            }
        }
        if self.kept.len() == column.len() {
            return *bin;
        }
        *largest = [0; LANES];
        for (to, &from) in self.kept.iter().enumerate() {
            column[to] = column[from as usize];
            for lane in 0..LANES {
                largest[lane] = largest[lane].max(column[to][lane]);
            }
        }
        column.truncate(self.kept.len());
        let Without { kept, pixel, weight, norm, dark, variance } = self;
        take(kept, bin.pixel, pixel);
        take(kept, bin.norm, norm);
        let mut of = Bin { pixel, norm, ..*bin };
        if let Some(all) = bin.weight {
            take(kept, all, weight);
            of.weight = Some(weight);
        }
        if let Some(all) = bin.dark {
            take(kept, all, dark);
            of.dark = Some(dark);
        }
        if let Variance::Given(all) = bin.variance {
            take(kept, all, variance);
            of.variance = Variance::Given(variance);
        }
        let norms: Vec<f64> = (0..kept.len()).map(|entry| of.weight(entry) * of.norm[entry]).collect();
        of.whole = BinSums {
            norm: sum(&norms, |norm| norm),
            norm_sq: sum(&norms, |norm| norm * norm),
            count: of.weight.map_or(kept.len() as f64, |weight| sum_of_all(weight, |&w| f64::from(w))),
            ..BinSums::default()
        };
        of
    }
}

fn take<T: Copy>(kept: &[u32], all: &[T], into: &mut Vec<T>) {
    into.clear();
    into.extend(kept.iter().map(|&entry| all[entry as usize]));
}
