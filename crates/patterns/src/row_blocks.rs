//! Sizes of the blocks in which datasets with one row per frame are read and written.

use std::ops::Range;

/// Approximate size of a block that is read or written at once.
const READ_BLOCK_BYTES: usize = 1 << 20;

/// Returns the number of rows of this shape that are read at once.
pub(crate) fn rows_per_block<T>(row: &[usize]) -> usize {
    rows_in::<T>(READ_BLOCK_BYTES, width_of(row))
}

/// Returns the number of rows of `width` values that fit into `bytes`, and at least 1.
pub(crate) fn rows_in<T>(bytes: usize, width: usize) -> usize {
    bytes.checked_div(size_of::<T>().saturating_mul(width)).unwrap_or(bytes).max(1)
}

/// Returns the range of one row's values in a block of rows. The row is in the block.
pub(crate) fn values_of(row: usize, block: &Range<usize>, width: usize) -> Range<usize> {
    let start = row.saturating_sub(block.start).saturating_mul(width);
    start..start.saturating_add(width)
}

/// Returns the number of values of a row. If it saturates, no row of this shape fits into memory.
pub(crate) fn width_of(row: &[usize]) -> usize {
    row.iter().fold(1, |width: usize, extent| width.saturating_mul(*extent))
}
