//! Writes and reads datasets with one row per frame, block by block.

use std::ops::Range;

use crate::compress::{self, CompressedElement};
use crate::compression::Compression;
use crate::h5::{Dataset, DatasetElement, DatasetStorage, Group, Result};
use crate::row_blocks::{rows_in, rows_per_block, width_of};

/// Approximate size of a block that is compressed on all CPUs.
const COMPRESS_BLOCK_BYTES: usize = 1 << 25;
/// Number of entries per block of a list, which is small because most lists stay empty.
const LIST_BLOCK_ENTRIES: usize = 4096;

/// A dataset that is being written, and the rows of its next block.
pub(crate) struct RowWriter<T> {
    dataset: Dataset,
    /// Shape of a row: the shape of a pattern, or empty for a list of numbers.
    row: Vec<usize>,
    width: usize,
    kind: RowStorage,
    rows_of_block: usize,
    written: usize,
    pending: Vec<T>,
}

/// Storage of a dataset.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowStorage {
    /// Contiguous; the number of rows is known in advance.
    Contiguous,
    /// Chunked; the dataset grows with the rows.
    Chunked,
    /// Compressed chunks of cakes of the shape `[chi, radial]`.
    Compressed([usize; 2], Compression),
}

impl<T: CompressedElement> RowWriter<T> {
    /// Creates an empty chunked dataset that grows to at most about `expected` rows.
    pub fn chunked(group: &Group, name: &str, expected: usize, row: &[usize]) -> Result<Self> {
        let rows_of_block = rows_per_block::<T>(row).min(expected).max(1);
        let dataset = group.create_dataset::<T>(
            name,
            &shape(0, row),
            &DatasetStorage::Chunked(rows_of_block),
        )?;
        Ok(Self::new(dataset, row, RowStorage::Chunked, rows_of_block))
    }

    /// Creates an empty list of numbers, of any length.
    pub fn list(group: &Group, name: &str) -> Result<Self> {
        Self::chunked(group, name, LIST_BLOCK_ENTRIES, &[])
    }

    /// Creates a dataset of `rows` rows: in chunks of this compression if the rows are cakes,
    /// otherwise contiguous.
    pub fn with_rows(
        group: &Group,
        name: &str,
        rows: usize,
        row: &[usize],
        compression: Compression,
    ) -> Result<Self> {
        if let (&[lines, width], true) = (row, rows > 0) {
            let cake = [lines, width];
            let dataset = compress::create_compressed::<T>(group, name, rows, cake, compression)?;
            let rows_of_block = rows_in::<T>(COMPRESS_BLOCK_BYTES, lines.saturating_mul(width));
            return Ok(Self::new(
                dataset,
                row,
                RowStorage::Compressed(cake, compression),
                rows_of_block,
            ));
        }
        let dataset =
            group.create_dataset::<T>(name, &shape(rows, row), &DatasetStorage::Contiguous)?;
        Ok(Self::new(dataset, row, RowStorage::Contiguous, rows_per_block::<T>(row)))
    }

    /// Creates a dataset for at most `expected` cakes that are [encoded](Self::push_encoded)
    /// elsewhere; [`truncate`](Self::truncate) removes the rest.
    pub fn encoded(
        group: &Group,
        name: &str,
        expected: usize,
        cake: [usize; 2],
        compression: Compression,
    ) -> Result<Self> {
        let storage = compress::cake_storage::<T>(cake, compression, true);
        let dataset = group.create_dataset::<T>(name, &shape(expected, &cake), &storage)?;
        Ok(Self::new(dataset, &cake, RowStorage::Compressed(cake, compression), 1))
    }

    fn new(dataset: Dataset, row: &[usize], kind: RowStorage, rows_of_block: usize) -> Self {
        let width = width_of(row);
        Self {
            dataset,
            row: row.to_vec(),
            width,
            kind,
            rows_of_block,
            written: 0,
            pending: Vec::new(),
        }
    }

    /// Appends one row.
    pub fn push(&mut self, row: impl IntoIterator<Item = T>) -> Result<()> {
        self.pending.extend(row);
        if self.pending.len() >= self.rows_of_block.saturating_mul(self.width) {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Appends one cake, given as the stored bytes of its chunks in this dataset's compression.
    pub fn push_encoded(&mut self, chunks: &[Vec<u8>]) -> Result<()> {
        self.flush()?;
        if let RowStorage::Compressed(cake, _) = self.kind {
            compress::write_cake::<T>(&self.dataset, self.written, chunks, cake)?;
        }
        self.written = self.written.saturating_add(1);
        Ok(())
    }

    /// Removes the rows of a dataset of [encoded](Self::encoded) cakes that were not written.
    pub fn truncate(&mut self) -> Result<()> {
        match self.kind {
            RowStorage::Compressed(..) => self.dataset.resize(self.written, &self.row),
            RowStorage::Contiguous | RowStorage::Chunked => Ok(()),
        }
    }

    /// Writes the rows that are still in memory.
    pub fn flush(&mut self) -> Result<()> {
        let rows = self.pending.len().checked_div(self.width).unwrap_or_default();
        let (from, to) = (self.written, self.written.saturating_add(rows));
        if from == to {
            return Ok(());
        }
        if let RowStorage::Compressed(cake, compression) = self.kind {
            compress::write_compressed(&self.dataset, from, &self.pending, cake, compression)?;
        } else {
            if self.kind == RowStorage::Chunked {
                self.dataset.resize(to, &self.row)?;
            }
            self.dataset.write_rows(from, &self.pending, &self.row)?;
        }
        self.written = to;
        self.pending.clear();
        Ok(())
    }
}

/// Reads consecutive rows, one after the other.
pub(crate) fn read_rows<T: DatasetElement>(
    dataset: &Dataset,
    range: Range<usize>,
) -> Result<Vec<T>> {
    dataset.rows(range)
}

fn shape(rows: usize, row: &[usize]) -> Vec<usize> {
    std::iter::once(rows).chain(row.iter().copied()).collect()
}
