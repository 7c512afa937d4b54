//! A dataset of one row a frame, written and read block by block.

use std::ops::Range;

use hdf5::{Dataset, Extent, Group, H5Type, Hyperslab, Result, SliceOrIndex};
use ndarray::{ArrayViewD, IxDyn};

use crate::pack::{self, Number};

/// Bytes of a block, about.
const BLOCK_BYTES: usize = 1 << 20;
/// Bytes of a block that is compressed on all CPUs, about.
const PACKED_BYTES: usize = 1 << 25;
/// Entries of a block of a list that may well stay empty.
const SHORT: usize = 4096;

/// A dataset being written, and the rows of its block that is being filled.
pub(crate) struct Table<T> {
    dataset: Dataset,
    /// The shape of a row: that of a pattern, or nothing in a list of numbers.
    row: Vec<usize>,
    width: usize,
    kind: Kind,
    rows_of_block: usize,
    written: usize,
    pending: Vec<T>,
}

/// How a dataset is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// In one piece.
    Whole,
    /// In chunks, as many as there are rows.
    Growing,
    /// In compressed chunks of cakes.
    Packed([usize; 2]),
}

impl<T: Number> Table<T> {
    /// An empty dataset that is to have `expected` rows, or fewer, in chunks.
    pub fn growing(group: &Group, name: &str, expected: usize, row: &[usize]) -> Result<Self> {
        let rows_of_block = rows_of_block::<T>(row).min(expected).max(1);
        let extents = std::iter::once(Extent::resizable(0)).chain(row.iter().map(|&size| Extent::fixed(size)));
        let dataset = group
            .new_dataset::<T>()
            .chunk(shape(rows_of_block, row))
            .obj_track_times(false)
            .shape(extents.collect::<Vec<_>>())
            .create(name)?;
        Ok(Self::new(dataset, row, Kind::Growing, rows_of_block))
    }

    /// An empty list of numbers, of which there may be none or many.
    pub fn list(group: &Group, name: &str) -> Result<Self> {
        Self::growing(group, name, SHORT, &[])
    }

    /// A dataset of `rows` rows: in one piece, or compressed where rows are cakes.
    pub fn fixed(group: &Group, name: &str, rows: usize, row: &[usize]) -> Result<Self> {
        if let (&[lines, width], true) = (row, rows > 0) {
            let dataset = pack::create::<T>(group, name, rows, [lines, width])?;
            let rows_of_block = (PACKED_BYTES / (size_of::<T>() * lines * width).max(1)).max(1);
            return Ok(Self::new(dataset, row, Kind::Packed([lines, width]), rows_of_block));
        }
        let dataset = group.new_dataset::<T>().obj_track_times(false).shape(shape(rows, row)).create(name)?;
        Ok(Self::new(dataset, row, Kind::Whole, rows_of_block::<T>(row)))
    }

    fn new(dataset: Dataset, row: &[usize], kind: Kind, rows_of_block: usize) -> Self {
        let width = row.iter().product();
        Self { dataset, row: row.to_vec(), width, kind, rows_of_block, written: 0, pending: Vec::new() }
    }

    /// Adds one row.
    pub fn push(&mut self, row: impl IntoIterator<Item = T>) -> Result<()> {
        self.pending.extend(row);
        if self.pending.len() >= self.rows_of_block * self.width { self.flush() } else { Ok(()) }
    }

    /// Writes the rows that are not yet written.
    pub fn flush(&mut self) -> Result<()> {
        let (from, to) = (self.written, self.written + self.pending.len() / self.width);
        if from == to {
            return Ok(());
        }
        if let Kind::Packed(cake) = self.kind {
            pack::write(&self.dataset, from, &self.pending, cake)?;
        } else {
            if self.kind == Kind::Growing {
                self.dataset.resize(shape(to, &self.row))?;
            }
            let block = ArrayViewD::from_shape(shape(to - from, &self.row), &self.pending)?;
            self.dataset.write_slice(block, rows(from..to, self.row.len()))?;
        }
        self.written = to;
        self.pending.clear();
        Ok(())
    }
}

/// Rows that one read may well take at once.
pub(crate) fn rows_of_block<T>(row: &[usize]) -> usize {
    (BLOCK_BYTES / (size_of::<T>() * row.iter().product::<usize>().max(1))).max(1)
}

/// Reads consecutive rows of a dataset, one after the other.
pub(crate) fn read_rows<T: H5Type>(dataset: &Dataset, range: Range<usize>) -> Result<Vec<T>> {
    let slab = dataset.read_slice::<T, _, IxDyn>(rows(range, dataset.ndim() - 1))?;
    Ok(slab.into_raw_vec_and_offset().0)
}

fn rows(range: Range<usize>, dimensions: usize) -> Hyperslab {
    let whole = std::iter::repeat_n(SliceOrIndex::from(..), dimensions);
    Hyperslab::from(std::iter::once(SliceOrIndex::from(range)).chain(whole).collect::<Vec<_>>())
}

fn shape(rows: usize, row: &[usize]) -> Vec<usize> {
    std::iter::once(rows).chain(row.iter().copied()).collect()
}
