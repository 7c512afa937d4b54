//! [`Accumulators`], the sums of up to `L` frames while their tiles are added.

/// The accumulators of `L` frames: `(nbins + 1) x (signal[, poisson_excess]) x L` f64. There is a
/// row of Poisson excesses, Σ w² (max(pixel, 1) - 1), only if the plan has a Poisson variance.
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
    rows_per_bin: usize,
}

/// How many bins are transposed at a time, so that their rows stay in the first-level cache.
const BINS_PER_CACHE_BLOCK: usize = 64;

/// How many doubles a cache line holds.
const DOUBLES_PER_CACHE_LINE: usize = 8;

impl<const L: usize> Accumulators<L> {
    /// Resizes to `nbins` and sets all accumulators to +0.
    pub(crate) fn reset(&mut self, nbins: usize, variance: bool) {
        self.rows_per_bin = if variance { 2 } else { 1 };
        self.memory.clear();
        self.memory.resize((nbins + 1) * self.rows_per_bin * L + DOUBLES_PER_CACHE_LINE, 0.);
        self.start = self
            .memory
            .as_ptr()
            .align_offset(DOUBLES_PER_CACHE_LINE * size_of::<f64>())
            .min(DOUBLES_PER_CACHE_LINE);
        self.memory.truncate(self.memory.len() - DOUBLES_PER_CACHE_LINE + self.start);
    }

    /// Returns whether bins have a row of Poisson excesses.
    pub(crate) fn has_variance(&self) -> bool {
        self.rows_per_bin == 2
    }

    /// Returns all rows by bin, the signal first.
    #[inline(always)]
    pub(crate) fn rows(&mut self) -> &mut [[f64; L]] {
        self.memory[self.start..].as_chunks_mut().0
    }

    /// Returns `[signal, poisson_excess]` by bin for each of the first `frames` frames; the excess
    /// is empty if bins have no row of it. Transposes for all frames at once, because with many
    /// bins the accumulators exceed the caches, and should not be read once per frame.
    pub(crate) fn to_frame_sums(&self, frames: usize) -> Vec<[Vec<f64>; 2]> {
        let rows = self.memory[self.start..].as_chunks::<L>().0;
        let bins = rows.len() / self.rows_per_bin - 1;
        let allocate = |quantity: usize| {
            Vec::with_capacity(if quantity < self.rows_per_bin { bins } else { 0 })
        };
        let mut columns: Vec<[Vec<f64>; 2]> = (0..frames).map(|_| [0, 1].map(allocate)).collect();
        for some in
            rows[..bins * self.rows_per_bin].chunks(BINS_PER_CACHE_BLOCK * self.rows_per_bin)
        {
            for (lane, columns) in columns.iter_mut().enumerate() {
                for (quantity, column) in columns.iter_mut().enumerate().take(self.rows_per_bin) {
                    column.extend(
                        some.iter().skip(quantity).step_by(self.rows_per_bin).map(|row| row[lane]),
                    );
                }
            }
        }
        columns
    }
}
