//! Reads the patterns of parts and final files block by block. Rows are not verified here: the
//! callers have checksums of each row, or of the whole file.

use std::ops::Range;

use crate::h5::{Dataset, Hdf5Error, Result};
use crate::row_blocks;

/// Datasets of intensities and errors, with the block of rows that was read last.
pub(crate) struct StoredPatterns {
    intensity: Dataset,
    errors: Option<Dataset>,
    /// Numbers of the rows in `intensities` and `error_values`.
    block: Range<usize>,
    intensities: Vec<f32>,
    error_values: Vec<f32>,
}

impl StoredPatterns {
    /// Creates a reader of two datasets with one row per frame; `errors` is `None` without an error
    /// model.
    pub fn new(intensity: Dataset, errors: Option<Dataset>) -> Self {
        Self { intensity, errors, block: 0..0, intensities: Vec::new(), error_values: Vec::new() }
    }

    /// Returns the intensity and errors of a row. The following rows are read at the same time, up
    /// to the size of a block.
    pub fn row(&mut self, row: usize) -> Result<(&[f32], Option<&[f32]>)> {
        if !self.block.contains(&row) {
            self.read(row)?;
        }
        let bins = self.intensities.len().checked_div(self.block.len()).unwrap_or_default();
        let values = row_blocks::values_of(row, &self.block, bins);
        let errors = self.errors.as_ref().map(|_| &self.error_values[values.clone()]);
        Ok((&self.intensities[values], errors))
    }

    fn read(&mut self, first: usize) -> Result<()> {
        let shape = self.intensity.shape()?;
        let end = first.saturating_add(row_blocks::rows_per_block::<f32>(&shape[1..]));
        let block = first..end.min(shape[0]);
        match self.read_block(block.clone()) {
            // A row that can't be decoded is no reason to lose those before it.
            Err(Hdf5Error::Library(_) | Hdf5Error::Damaged(_)) if block.len() > 1 => {
                self.read_block(first..first.saturating_add(1))
            }
            read => read,
        }
    }

    fn read_block(&mut self, block: Range<usize>) -> Result<()> {
        self.block = 0..0;
        self.intensities = self.intensity.rows_unverified(block.clone())?;
        if let Some(errors) = &self.errors {
            self.error_values = errors.rows_unverified(block.clone())?;
        }
        self.block = block;
        Ok(())
    }
}
