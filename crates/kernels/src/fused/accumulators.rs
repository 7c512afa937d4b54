//! [`Accumulators`], the sums of up to `L` frames while their tiles are added.

use crate::photon_sums::{PhotonQuantities, PhotonSums};
use crate::spare_lists::SpareLists;

/// The accumulators of `L` frames: `(nbins + 1) x quantities x L` f64.
///
/// Every pixel adds to its first bin and to the next one, with a weight of 0 if it doesn't overlap
/// the next one. The extra bin after the last takes these zeros of pixels whose first bin is the
/// last.
#[derive(Default)]
pub(crate) struct Accumulators<const L: usize> {
    memory: Vec<f64>,
    /// The index at which the rows start in `memory`: on a cache line, so that no vector straddles
    /// two lines.
    start: usize,
    quantities: PhotonQuantities,
}

/// How many bins are transposed at a time, so that their rows stay in the first-level cache.
const BINS_PER_CACHE_BLOCK: usize = 64;

/// How many doubles a cache line holds.
const DOUBLES_PER_CACHE_LINE: usize = 8;

impl<const L: usize> Accumulators<L> {
    /// Resizes to `nbins` and sets all accumulators to +0.
    pub(crate) fn reset(&mut self, nbins: usize, quantities: PhotonQuantities) {
        self.quantities = quantities;
        self.memory.clear();
        self.memory.resize((nbins + 1) * quantities.count() * L + DOUBLES_PER_CACHE_LINE, 0.);
        self.start = self
            .memory
            .as_ptr()
            .align_offset(DOUBLES_PER_CACHE_LINE * size_of::<f64>())
            .min(DOUBLES_PER_CACHE_LINE);
        self.memory.truncate(self.memory.len() - DOUBLES_PER_CACHE_LINE + self.start);
    }

    /// Returns the quantities of which each bin has a row.
    pub(crate) fn quantities(&self) -> PhotonQuantities {
        self.quantities
    }

    /// Returns all rows by bin, in the order of the quantities.
    #[inline(always)]
    pub(crate) fn rows(&mut self) -> &mut [[f64; L]] {
        self.memory[self.start..].as_chunks_mut().0
    }

    /// Returns the sums of each of the first `frames` frames. Transposes for all frames at once,
    /// because with many bins the accumulators exceed the caches, and should not be read once per
    /// frame.
    pub(crate) fn to_frame_sums(&self, frames: usize, spare: &mut SpareLists) -> Vec<PhotonSums> {
        let (rows, rows_per_bin) =
            (self.memory[self.start..].as_chunks::<L>().0, self.quantities.count());
        let bins = rows.len() / rows_per_bin - 1;
        // The products, which are third, are used up before they leave the kernels.
        let mut allocate = |index| match index {
            0 | 1 if index < rows_per_bin => spare.take(bins),
            _ => Vec::with_capacity(if index < rows_per_bin { bins } else { 0 }),
        };
        let mut lists: Vec<[Vec<f64>; PhotonQuantities::MAX]> =
            (0..frames).map(|_| std::array::from_fn(&mut allocate)).collect();
        for some in rows[..bins * rows_per_bin].chunks(BINS_PER_CACHE_BLOCK * rows_per_bin) {
            for (lane, lists) in lists.iter_mut().enumerate() {
                for (index, list) in lists.iter_mut().enumerate().take(rows_per_bin) {
                    let mut column = [0.; BINS_PER_CACHE_BLOCK];
                    let bins = some.len() / rows_per_bin;
                    for (value, bin) in column.iter_mut().zip(some.chunks_exact(rows_per_bin)) {
                        *value = bin[index][lane];
                    }
                    list.extend_from_slice(&column[..bins]);
                }
            }
        }
        lists.into_iter().map(|lists| PhotonSums::new(self.quantities, lists)).collect()
    }
}
