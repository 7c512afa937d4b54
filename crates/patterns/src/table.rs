//! A dataset of one row a frame that grows by whole chunks.

use hdf5::{Dataset, Extent, Group, H5Type, Result};
use ndarray::ArrayView2;

/// Bytes of a chunk, about.
const CHUNK_BYTES: usize = 1 << 20;

/// A growing dataset, and the rows of its chunk that is being filled.
pub(super) struct Table<T> {
    dataset: Dataset,
    bins: usize,
    rows_of_chunk: usize,
    written: usize,
    pending: Vec<T>,
}

impl<T: H5Type + Copy> Table<T> {
    /// An empty dataset that is to have `expected` rows, or fewer.
    pub fn create(group: &Group, name: &str, expected: usize, bins: usize) -> Result<Self> {
        let rows_of_chunk = (CHUNK_BYTES / (size_of::<T>() * bins)).min(expected).max(1);
        let dataset = group
            .new_dataset::<T>()
            .chunk((rows_of_chunk, bins))
            .obj_track_times(false)
            .shape((Extent::resizable(0), Extent::fixed(bins)))
            .create(name)?;
        Ok(Self { dataset, bins, rows_of_chunk, written: 0, pending: Vec::with_capacity(rows_of_chunk * bins) })
    }

    /// Adds a row of one value a bin.
    pub fn push(&mut self, row: impl IntoIterator<Item = T>) -> Result<()> {
        self.pending.extend(row);
        if self.pending.len() >= self.rows_of_chunk * self.bins { self.flush() } else { Ok(()) }
    }

    /// Writes the rows that are not yet written.
    pub fn flush(&mut self) -> Result<()> {
        let (from, to) = (self.written, self.written + self.pending.len() / self.bins);
        if from < to {
            let rows = ArrayView2::from_shape((to - from, self.bins), &self.pending)?;
            self.dataset.resize((to, self.bins))?;
            self.dataset.write_slice(rows, (from..to, ..))?;
            (self.written, _) = (to, self.pending.clear());
        }
        Ok(())
    }
}
