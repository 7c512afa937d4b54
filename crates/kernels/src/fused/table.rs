//! Accumulators of many frames side by side.

/// The accumulators of a group of `L` frames: for each bin a row of signals, and with an error model a row of excesses
/// (see [`crate::order`]). A bin beyond the last takes the zero terms of pixels whose last bin is the last.
#[derive(Default)]
pub(crate) struct Table<const L: usize> {
    memory: Vec<f64>,
    /// Where the rows start in the memory: on a cache line, which no vector must straddle.
    start: usize,
    quantities: usize,
}

/// Doubles in a cache line.
const LINE: usize = 8;

impl<const L: usize> Table<L> {
    /// Sets all to +0.
    pub(crate) fn reset(&mut self, nbins: usize, variance: bool) {
        self.quantities = if variance { 2 } else { 1 };
        self.memory.clear();
        self.memory.resize((nbins + 1) * self.quantities * L + LINE, 0.);
        self.start = self.memory.as_ptr().align_offset(LINE * size_of::<f64>()).min(LINE);
        self.memory.truncate(self.memory.len() - LINE + self.start);
    }

    /// Whether there are excesses.
    pub(crate) fn has_variance(&self) -> bool {
        self.quantities == 2
    }

    /// All rows, by bin, the signal first.
    #[inline(always)]
    pub(crate) fn rows(&mut self) -> &mut [[f64; L]] {
        self.memory[self.start..].as_chunks_mut().0
    }

    /// One frame's signals by bin.
    pub(crate) fn signal(&self, lane: usize) -> Vec<f64> {
        self.column(lane, 0)
    }

    /// One frame's excesses by bin; empty without an error model.
    pub(crate) fn excess(&self, lane: usize) -> Vec<f64> {
        if self.has_variance() { self.column(lane, 1) } else { Vec::new() }
    }

    fn column(&self, lane: usize, quantity: usize) -> Vec<f64> {
        let rows = self.memory[self.start..].as_chunks::<L>().0;
        let bins = rows.len() / self.quantities - 1;
        rows.iter().skip(quantity).step_by(self.quantities).take(bins).map(|row| row[lane]).collect()
    }
}
