//! Patterns as parts and finals hold them, read block by block. Whoever reads them has a checksum of each, or of all.

use std::ops::Range;

use crate::h5::{Dataset, Result};
use crate::row_writer;

/// Intensity, its errors where there are some, and the rows that were read last.
pub(crate) struct StoredPatterns {
    intensity: Dataset,
    errors: Option<Dataset>,
    block: Range<usize>,
    intensities: Vec<f32>,
    error_values: Vec<f32>,
}

impl StoredPatterns {
    /// Those of two datasets of one row a frame.
    pub fn new(intensity: Dataset, errors: Option<Dataset>) -> Self {
        Self { intensity, errors, block: 0..0, intensities: Vec::new(), error_values: Vec::new() }
    }

    /// A row's intensity and errors. Those behind it that one read may well take are read with it.
    pub fn row(&mut self, row: usize) -> Result<(&[f32], Option<&[f32]>)> {
        if !self.block.contains(&row) {
            self.read(row)?;
        }
        let bins = self.intensities.len().checked_div(self.block.len()).unwrap_or_default();
        let values = row_writer::values_of(row, &self.block, bins);
        let errors = self.errors.as_ref().map(|_| &self.error_values[values.clone()]);
        Ok((&self.intensities[values], errors))
    }

    fn read(&mut self, first: usize) -> Result<()> {
        let shape = self.intensity.shape();
        let end = first.saturating_add(row_writer::rows_per_block::<f32>(&shape[1..]));
        let block = first..end.min(shape[0]);
        self.block = 0..0;
        self.intensities = self.intensity.rows_unverified(block.clone())?;
        if let Some(errors) = &self.errors {
            self.error_values = errors.rows_unverified(block.clone())?;
        }
        self.block = block;
        Ok(())
    }
}
