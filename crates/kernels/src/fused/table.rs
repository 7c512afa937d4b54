//! Accumulators of many frames side by side.

/// One quantity of one bin, of `L` frames.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Row<const L: usize>(pub(crate) [f64; L]);

/// The accumulators of a group of frames: for each bin a row of signals, and with an error model a row of excesses
/// (see [`crate::order`]). A bin beyond the last takes the zero terms of pixels whose last bin is the last.
#[derive(Default)]
pub(crate) struct Table<const L: usize> {
    rows: Vec<Row<L>>,
    quantities: usize,
}

impl<const L: usize> Table<L> {
    /// Sets all to +0.
    pub(crate) fn reset(&mut self, nbins: usize, variance: bool) {
        self.quantities = if variance { 2 } else { 1 };
        self.rows.clear();
        self.rows.resize((nbins + 1) * self.quantities, Row([0.; L]));
    }

    /// Whether there are excesses.
    pub(crate) fn has_variance(&self) -> bool {
        self.quantities == 2
    }

    /// All rows, by bin, the signal first.
    #[inline(always)]
    pub(crate) fn rows(&mut self) -> &mut [Row<L>] {
        &mut self.rows
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
        let bins = self.rows.len() / self.quantities - 1;
        self.rows.iter().skip(quantity).step_by(self.quantities).take(bins).map(|row| row.0[lane]).collect()
    }
}
