//! A dataset of one row a frame, written and read block by block.

use std::ops::Range;

use crate::compress::{self, ShuffleElement};
use crate::h5::{Dataset, DatasetElement, DatasetStorage, Group, Result};

/// Bytes of a block, about.
const READ_BLOCK_BYTES: usize = 1 << 20;
/// Bytes of a block that is compressed on all CPUs, about.
const COMPRESS_BLOCK_BYTES: usize = 1 << 25;
/// Entries of a block of a list that may well stay empty.
const LIST_BLOCK_ENTRIES: usize = 4096;

/// A dataset being written, and the rows of its block that is being filled.
pub(crate) struct RowWriter<T> {
    dataset: Dataset,
    /// The shape of a row: that of a pattern, or nothing in a list of numbers.
    row: Vec<usize>,
    width: usize,
    kind: RowStorage,
    rows_of_block: usize,
    written: usize,
    pending: Vec<T>,
}

/// How a dataset is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowStorage {
    /// In one piece.
    Contiguous,
    /// In chunks, as many as there are rows.
    Chunked,
    /// In compressed chunks of cakes.
    Compressed([usize; 2]),
}

impl<T: ShuffleElement> RowWriter<T> {
    /// An empty dataset that is to have `expected` rows, or fewer, in chunks.
    pub fn chunked(group: &Group, name: &str, expected: usize, row: &[usize]) -> Result<Self> {
        let rows_of_block = rows_per_block::<T>(row).min(expected).max(1);
        let dataset = group.create_dataset::<T>(name, &shape(0, row), &DatasetStorage::Chunked(rows_of_block))?;
        Ok(Self::new(dataset, row, RowStorage::Chunked, rows_of_block))
    }

    /// An empty list of numbers, of which there may be none or many.
    pub fn list(group: &Group, name: &str) -> Result<Self> {
        Self::chunked(group, name, LIST_BLOCK_ENTRIES, &[])
    }

    /// A dataset of `part_rows` rows: in one piece, or compressed where rows are cakes.
    pub fn with_rows(group: &Group, name: &str, rows: usize, row: &[usize]) -> Result<Self> {
        if let (&[lines, width], true) = (row, rows > 0) {
            let dataset = compress::create_compressed::<T>(group, name, rows, [lines, width])?;
            let rows_of_block = rows_in::<T>(COMPRESS_BLOCK_BYTES, lines.saturating_mul(width));
            return Ok(Self::new(dataset, row, RowStorage::Compressed([lines, width]), rows_of_block));
        }
        let dataset = group.create_dataset::<T>(name, &shape(rows, row), &DatasetStorage::Contiguous)?;
        Ok(Self::new(dataset, row, RowStorage::Contiguous, rows_per_block::<T>(row)))
    }

    fn new(dataset: Dataset, row: &[usize], kind: RowStorage, rows_of_block: usize) -> Self {
        let width = width_of(row);
        Self { dataset, row: row.to_vec(), width, kind, rows_of_block, written: 0, pending: Vec::new() }
    }

    /// Adds one row.
    pub fn push(&mut self, row: impl IntoIterator<Item = T>) -> Result<()> {
        self.pending.extend(row);
        if self.pending.len() >= self.rows_of_block.saturating_mul(self.width) { self.flush() } else { Ok(()) }
    }

    /// Writes the rows that are not yet written.
    pub fn flush(&mut self) -> Result<()> {
        let rows = self.pending.len().checked_div(self.width).unwrap_or_default();
        let (from, to) = (self.written, self.written.saturating_add(rows));
        if from == to {
            return Ok(());
        }
        if let RowStorage::Compressed(cake) = self.kind {
            compress::write_compressed(&self.dataset, from, &self.pending, cake)?;
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

/// Rows that one read may well take at once.
pub(crate) fn rows_per_block<T>(row: &[usize]) -> usize {
    rows_in::<T>(READ_BLOCK_BYTES, width_of(row))
}

/// Returns how many rows of so many values there are room for in so many bytes: one at the least.
pub(crate) fn rows_in<T>(bytes: usize, width: usize) -> usize {
    bytes.checked_div(size_of::<T>().saturating_mul(width)).unwrap_or(bytes).max(1)
}

/// Returns which values of a block of rows are those of one of them, which is in the block.
pub(crate) fn values_of(row: usize, block: &Range<usize>, width: usize) -> Range<usize> {
    let start = row.saturating_sub(block.start).saturating_mul(width);
    start..start.saturating_add(width)
}

/// The number of values of a row: where it saturates, no memory holds one.
fn width_of(row: &[usize]) -> usize {
    row.iter().fold(1, |width: usize, extent| width.saturating_mul(*extent))
}

/// Reads consecutive rows of a dataset, one after the other.
pub(crate) fn read_rows<T: DatasetElement>(dataset: &Dataset, range: Range<usize>) -> Result<Vec<T>> {
    dataset.rows(range)
}

fn shape(rows: usize, row: &[usize]) -> Vec<usize> {
    std::iter::once(rows).chain(row.iter().copied()).collect()
}
