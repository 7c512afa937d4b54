//! Reads the patterns of parts and final files block by block. Rows are not verified here: the
//! callers have checksums of each row, or of the whole file.

use std::ops::Range;

use crate::compress::{CakeDecoder, has_cake_storage};
use crate::h5::{self, Dataset, Hdf5Error, Result};
use crate::row_blocks;

/// Datasets of intensities and errors, with the block of rows that was read last.
pub(crate) struct StoredPatterns {
    intensity: PatternDataset,
    errors: Option<PatternDataset>,
    /// Numbers of the rows in `intensities` and `error_values`.
    block: Range<usize>,
    intensities: Vec<f32>,
    error_values: Vec<f32>,
}

impl StoredPatterns {
    /// Creates a reader of two datasets with one row per frame; `errors` is `None` without an error
    /// model.
    ///
    /// # Errors
    /// Fails if the storage of the datasets can't be read.
    pub fn new(intensity: Dataset, errors: Option<Dataset>) -> Result<Self> {
        Ok(Self {
            intensity: PatternDataset::new(intensity)?,
            errors: errors.map(PatternDataset::new).transpose()?,
            block: 0..0,
            intensities: Vec::new(),
            error_values: Vec::new(),
        })
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
        let shape = self.intensity.dataset.shape()?;
        if first >= shape[0] {
            return Err(format!("row {first} of {}", shape[0]).into());
        }
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
        self.intensity.read(block.clone(), &mut self.intensities)?;
        if let Some(errors) = &mut self.errors {
            errors.read(block.clone(), &mut self.error_values)?;
        }
        self.block = block;
        Ok(())
    }
}

/// A dataset with one row per frame.
struct PatternDataset {
    dataset: Dataset,
    /// Shape of the cakes and their decoder, if they are stored as azpipe writes them. The HDF5
    /// library, which reads all else, inflates more slowly.
    cakes: Option<([usize; 2], CakeDecoder)>,
}

impl PatternDataset {
    fn new(dataset: Dataset) -> Result<Self> {
        let mut cakes = None;
        if let [_, lines, width] = dataset.shape()?[..]
            && dataset.is_native::<f32>()?
            && let Some(compression) = dataset.compression()?
            && has_cake_storage::<f32>(&dataset, [lines, width], compression)?
        {
            cakes = Some(([lines, width], CakeDecoder::new(compression)));
        }
        Ok(Self { dataset, cakes })
    }

    /// Replaces `values` by those of a block of rows. What the decoder of cakes can't read, the HDF5
    /// library is asked for, which tells why.
    fn read(&mut self, block: Range<usize>, values: &mut Vec<f32>) -> Result<()> {
        if !self.read_cakes(block.clone(), values)? {
            *values = self.dataset.rows_unverified(block)?;
        }
        Ok(())
    }

    /// Replaces `values` by those of a block of cakes. Returns whether all could be decoded.
    fn read_cakes(&mut self, block: Range<usize>, values: &mut Vec<f32>) -> Result<bool> {
        let Some((cake, decoder)) = &mut self.cakes else { return Ok(false) };
        let width = row_blocks::width_of(&cake[..]).max(1);
        let all = width.saturating_mul(block.len());
        h5::check_size(all, size_of::<f32>(), "a cake")?;
        values.resize(all, 0.0);
        let mut rows = block.zip(values.chunks_exact_mut(width));
        Ok(rows.all(|(row, values)| decoder.read(&self.dataset, row, *cake, values)))
    }
}
