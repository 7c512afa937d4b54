//! [`ColumnWriter`], which writes and checks the columns of a block of the matrix.

use super::{ExtraEntry, MatrixError};
use crate::summation_order::{TILE, position_in_order};

/// The entries of a block that are not in its pixels' pairs.
#[derive(Debug, Default)]
pub struct BlockExtra {
    /// The entries, tile by tile, each tile in the order of summation.
    pub(super) entries: Vec<ExtraEntry>,
    /// The end of each tile in `entries`.
    pub(super) tile_ends: Vec<usize>,
}

/// Writes the columns of a block, one after the other.
pub(super) struct ColumnWriter<'a> {
    nbins: usize,
    /// Number of the block's first pixel.
    start: usize,
    first_bin: &'a mut [u32],
    pair_weights: &'a mut [[f32; 2]],
    /// Number of columns that are written.
    pub(super) index: usize,
    /// The first bin of the last column that has entries: for columns without, as a bin whose
    /// accumulators are in the cache. `None` before any.
    neighbour: Option<u32>,
    tile_extra: Vec<ExtraEntry>,
    extra: BlockExtra,
}

impl<'a> ColumnWriter<'a> {
    /// Begins with the pixel of number `start`. The arrays are those of the block.
    pub(super) fn new(
        nbins: usize,
        start: usize,
        first_bin: &'a mut [u32],
        pair_weights: &'a mut [[f32; 2]],
    ) -> ColumnWriter<'a> {
        let (tile_extra, extra) = (Vec::new(), BlockExtra::default());
        ColumnWriter {
            nbins,
            start,
            first_bin,
            pair_weights,
            index: 0,
            neighbour: None,
            tile_extra,
            extra,
        }
    }

    /// Returns whether weights in a bin and the next are valid, the first not zero.
    #[inline]
    pub(super) fn is_pair(&self, first: u32, [weight, next]: [f32; 2]) -> bool {
        weight > 0.
            && weight.is_finite()
            && next >= 0.
            && next.is_finite()
            && (first as usize) < self.nbins - usize::from(next > 0.)
    }

    /// Writes the column of a pixel with a valid pair and other entries (bin, weight).
    #[inline]
    pub(super) fn write_paired(
        &mut self,
        first: u32,
        pair: [f32; 2],
        others: impl Iterator<Item = (u32, f32)>,
    ) -> Result<(), MatrixError> {
        let mut column = self.column(Some(first.saturating_add(1)));
        for (bin, weight) in others {
            column.check(bin, weight)?;
            self.push_extra(bin, weight);
        }
        // Zero without a sign, as in a column that is written entry by entry.
        self.end_column(Some(first), [pair[0], pair[1] + 0.]);
        Ok(())
    }

    /// Writes the column of a pixel with these entries (bin, weight).
    #[inline]
    pub(super) fn write_column(
        &mut self,
        entries: impl Iterator<Item = (u32, f32)>,
    ) -> Result<(), MatrixError> {
        let mut column = self.column(None);
        let (mut first, mut pair) = (None, [0.; 2]);
        for (bin, weight) in entries {
            column.check(bin, weight)?;
            if weight == 0. {
                continue;
            }
            match bin - *first.get_or_insert(bin) {
                offset @ 0..=1 => pair[offset as usize] = weight,
                _ => self.push_extra(bin, weight),
            }
        }
        self.end_column(first, pair);
        Ok(())
    }

    /// Returns the column that is to be written, whose next bin is to be above `last`.
    #[inline]
    fn column(&self, last: Option<u32>) -> Column {
        Column { nbins: self.nbins, pixel: self.start + self.index, last }
    }

    /// Adds an entry that is not in the pair, unless its weight is zero.
    #[inline]
    fn push_extra(&mut self, bin: u32, weight: f32) {
        if weight != 0. {
            let pixel = (self.index % TILE) as u32;
            self.tile_extra.push(ExtraEntry { pixel, bin, weight });
        }
    }

    #[inline]
    fn end_column(&mut self, first: Option<u32>, pair: [f32; 2]) {
        if let (Some(first), None) = (first, self.neighbour) {
            self.first_bin[..self.index].fill(first);
        }
        self.neighbour = first.or(self.neighbour);
        self.first_bin[self.index] = self.neighbour.unwrap_or(0);
        self.pair_weights[self.index] = pair;
        self.index += 1;
        if self.index.is_multiple_of(TILE) {
            self.end_tile();
        }
    }

    #[inline(never)]
    fn end_tile(&mut self) {
        self.extra.end_tile(&self.tile_extra);
        self.tile_extra.clear();
    }

    /// Returns the entries that are not in pairs, after all columns are written.
    pub(super) fn finish(mut self) -> BlockExtra {
        if !self.index.is_multiple_of(TILE) {
            self.end_tile();
        }
        self.first_bin[self.index..].fill(self.neighbour.unwrap_or(0));
        self.extra
    }
}

/// A column whose entries are checked.
struct Column {
    nbins: usize,
    pixel: usize,
    last: Option<u32>,
}

impl Column {
    /// Checks the next entry.
    #[inline]
    fn check(&mut self, bin: u32, weight: f32) -> Result<(), MatrixError> {
        let Column { nbins, pixel, last } = *self;
        if bin as usize >= nbins || last >= Some(bin) {
            return Err(MatrixError::Bin { pixel, bin, nbins });
        }
        if !weight.is_finite() || weight < 0. {
            return Err(MatrixError::Weight { pixel, weight });
        }
        self.last = Some(bin);
        Ok(())
    }
}

impl BlockExtra {
    /// Appends the entries of a tile, given by pixel, in the order of summation.
    fn end_tile(&mut self, by_pixel: &[ExtraEntry]) {
        let start = self.entries.len();
        if !by_pixel.is_empty() {
            // The next free place of each pixel's entries, by its position in the order.
            let mut places = [start; TILE + 1];
            for e in by_pixel {
                places[position_in_order(e.pixel as usize) + 1] += 1;
            }
            for position in 1..TILE {
                places[position] += places[position - 1] - start;
            }
            self.entries
                .resize(start + by_pixel.len(), ExtraEntry { pixel: 0, bin: 0, weight: 0. });
            for e in by_pixel {
                let place = &mut places[position_in_order(e.pixel as usize)];
                self.entries[*place] = *e;
                *place += 1;
            }
        }
        self.tile_ends.push(self.entries.len());
    }
}
