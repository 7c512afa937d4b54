//! Accumulators of many frames side by side.

/// The accumulators of a group of `L` frames: for each bin a row of signals, and with an error model a row of excesses
/// (see [`crate::summation_order`]). A bin beyond the last takes the zero terms of pixels whose last bin is the last.
#[derive(Default)]
pub(crate) struct Accumulators<const L: usize> {
    memory: Vec<f64>,
    /// Where the rows start in the memory: on a cache line, which no vector must straddle.
    start: usize,
    rows_per_bin: usize,
}

/// Bins whose rows stay in the first-level cache while their columns are taken.
const BINS_PER_CACHE_BLOCK: usize = 64;

/// Doubles in a cache line.
const DOUBLES_PER_CACHE_LINE: usize = 8;

impl<const L: usize> Accumulators<L> {
    /// Sets all to +0.
    pub(crate) fn reset(&mut self, nbins: usize, variance: bool) {
        self.rows_per_bin = if variance { 2 } else { 1 };
        self.memory.clear();
        self.memory.resize((nbins + 1) * self.rows_per_bin * L + DOUBLES_PER_CACHE_LINE, 0.);
        self.start =
            self.memory.as_ptr().align_offset(DOUBLES_PER_CACHE_LINE * size_of::<f64>()).min(DOUBLES_PER_CACHE_LINE);
        self.memory.truncate(self.memory.len() - DOUBLES_PER_CACHE_LINE + self.start);
    }

    /// Whether there are excesses.
    pub(crate) fn has_variance(&self) -> bool {
        self.rows_per_bin == 2
    }

    /// All rows, by bin, the signal first.
    #[inline(always)]
    pub(crate) fn rows(&mut self) -> &mut [[f64; L]] {
        self.memory[self.start..].as_chunks_mut().0
    }

    /// The signals and excesses by bin of the first frames; excesses are empty without an error model. All frames at
    /// once, for with many bins the table is larger than the caches and must not be read for each.
    pub(crate) fn to_frame_sums(&self, frames: usize) -> Vec<[Vec<f64>; 2]> {
        let rows = self.memory[self.start..].as_chunks::<L>().0;
        let bins = rows.len() / self.rows_per_bin - 1;
        let with_room = |quantity: usize| Vec::with_capacity(if quantity < self.rows_per_bin { bins } else { 0 });
        let mut columns: Vec<[Vec<f64>; 2]> = (0..frames).map(|_| [0, 1].map(with_room)).collect();
        for some in rows[..bins * self.rows_per_bin].chunks(BINS_PER_CACHE_BLOCK * self.rows_per_bin) {
            for (lane, columns) in columns.iter_mut().enumerate() {
                for (quantity, column) in columns.iter_mut().enumerate().take(self.rows_per_bin) {
                    column.extend(some.iter().skip(quantity).step_by(self.rows_per_bin).map(|row| row[lane]));
                }
            }
        }
        columns
    }
}
