//! Reads the rows of an open part.

use std::ops::Range;
use std::sync::Arc;

use system::untrusted_file;

use super::{EncodedPattern, Part, PartError, read_user_block, row_dataset};
use crate::FrameRow;
use crate::compress::read_cake;
use crate::h5::{self, Dataset};
use crate::normalize::Pattern;
use crate::row_blocks;
use crate::row_digest::row_digest;
use crate::row_writer::read_rows;
use crate::sparse_pixels::{SparseFrame, SparseReader};
use crate::stored_patterns::StoredPatterns;
use crate::weight_overrides::WeightOverrides;

/// An open part, whose rows can be read.
pub struct PartRows<'a> {
    part: &'a Part,
    signal: Option<Dataset>,
    variance: Option<Dataset>,
    weight_overrides: WeightOverrides,
    /// Patterns, if each depends on its own frame alone.
    patterns: Option<StoredPatterns>,
    /// Datasets of encoded cakes: intensities and errors.
    cakes: Option<(Dataset, Option<Dataset>)>,
    sparse: Option<SparseReader>,
    /// Rows that were read last, with sums in `signals` and `variances`.
    block: Range<usize>,
    signals: Vec<f64>,
    variances: Option<Vec<f64>>,
    /// The file. It is the last field so that its datasets are closed before it.
    _file: h5::Hdf5File,
}

impl Part {
    /// Opens the file to read rows.
    ///
    /// # Errors
    /// Fails if the file can't be read, or is another part by now.
    pub fn open(&self) -> Result<PartRows<'_>, PartError> {
        if read_user_block(&self.path)?.xxh3 != self.digest {
            return Err(PartError::Replaced { path: self.path.clone() });
        }
        let begin = || -> h5::Result<PartRows<'_>> {
            // Its checksum is the one that was verified, and it was renamed into place whole.
            let file = untrusted_file::open(&self.path).map_err(h5::Hdf5Error::Io)?;
            let file = h5::Hdf5File::from_verified_file(&self.path, file)?;
            let errors = file.dataset_if_there(row_dataset::ERRORS)?;
            let patterns = file
                .dataset_if_there(row_dataset::INTENSITY)?
                .map(|intensity| StoredPatterns::new(intensity, errors))
                .transpose()?;
            let cakes = || -> h5::Result<_> {
                let errors = file.dataset_if_there(row_dataset::ERRORS)?;
                Ok((file.dataset(row_dataset::INTENSITY)?, errors))
            };
            Ok(PartRows {
                part: self,
                signal: self.has_sums.then(|| file.dataset(row_dataset::SIGNAL)).transpose()?,
                variance: self
                    .has_variance
                    .then(|| file.dataset(row_dataset::VARIANCE))
                    .transpose()?,
                weight_overrides: WeightOverrides::open(&file)?,
                patterns,
                cakes: self.compression.map(|_| cakes()).transpose()?,
                sparse: self
                    .sparse
                    .as_ref()
                    .map(|index| SparseReader::open(&file, index))
                    .transpose()?,
                block: 0..0,
                signals: Vec::new(),
                variances: None,
                _file: file,
            })
        };
        begin().map_err(PartError::hdf5(&self.path))
    }
}

impl PartRows<'_> {
    /// Reads the sums of a row; the signal is empty if the part has none. The following rows are
    /// read at the same time, up to the size of a block.
    ///
    /// # Errors
    /// Fails if the file can't be read.
    pub fn row(&mut self, row: usize) -> Result<FrameRow, PartError> {
        let hdf5 = PartError::hdf5(&self.part.path);
        if !self.block.contains(&row) && self.signal.is_some() {
            self.read(row).map_err(&hdf5)?;
        }
        let (part, bins) = (self.part, self.part.shared.axes.bins());
        let values = row_blocks::values_of(row, &self.block, bins);
        // All sums of a frame without sums are stored as NaN.
        let sums = self.signals.get(values.clone());
        let sums = sums.filter(|sums| !sums.iter().all(|sum| sum.is_nan()));
        Ok(FrameRow {
            frame: part.frames[row],
            status: part.status[row],
            stored_digest: part.stored_digest[row],
            monitor: part.monitor[row],
            signal: sums.map(<[f64]>::to_vec).unwrap_or_default(),
            variance: self
                .variances
                .as_ref()
                .filter(|_| sums.is_some())
                .map(|variances| variances[values].to_vec()),
            weight_override: self
                .weight_overrides
                .for_frame(part.frames[row], &part.shared.weights)
                .map_err(&hdf5)?
                .map(Arc::new),
            sparse: None,
        })
    }

    /// Reads the sparse pixels of a row; `None` if the part has none of it.
    ///
    /// # Errors
    /// Fails if the file can't be read.
    pub(crate) fn sparse(&self, row: usize) -> Result<Option<SparseFrame>, PartError> {
        let read = self.sparse.as_ref().map_or(Ok(None), |all| all.frame(row));
        read.map_err(PartError::hdf5(&self.part.path))
    }

    /// Reads the pattern of a row. The errors are `None` without an error model. The pattern is
    /// `None` if it depends on more than its own frame, in which case the part holds no patterns.
    ///
    /// # Errors
    /// Fails if the file can't be read, or if a cake differs from its digest.
    pub fn pattern(&mut self, row: usize) -> Result<Option<Pattern>, PartError> {
        let Some(patterns) = &mut self.patterns else { return Ok(None) };
        let (intensity, errors) = patterns.row(row).map_err(PartError::hdf5(&self.part.path))?;
        let part = self.part;
        if part.compression.is_some()
            && row_digest(part.status[row], intensity, errors) != part.row_digest[row]
        {
            let frame = part.frames[row];
            return Err(PartError::content(
                &part.path,
                format!("damaged: the pattern of frame {frame}"),
            ));
        }
        Ok(Some((intensity.to_vec(), errors.map(<[f32]>::to_vec))))
    }

    /// Reads a cake as it is stored. `None` if the part has patterns of one dimension, or no
    /// patterns.
    ///
    /// # Errors
    /// Fails if the file can't be read.
    pub(crate) fn encoded(&mut self, row: usize) -> Result<Option<EncodedPattern>, PartError> {
        let Some((intensity, errors)) = &self.cakes else { return Ok(None) };
        let axes = &self.part.shared.axes;
        let Some(chi) = &axes.chi else { return Ok(None) };
        let cake = [chi.centers.len(), axes.radial.centers.len()];
        let read = || -> h5::Result<EncodedPattern> {
            let errors = errors.as_ref().map(|errors| read_cake::<f32>(errors, row, cake));
            Ok(EncodedPattern {
                intensity: read_cake::<f32>(intensity, row, cake)?,
                errors: errors.transpose()?,
                digest: self.part.row_digest[row],
            })
        };
        read().map(Some).map_err(PartError::hdf5(&self.part.path))
    }

    fn read(&mut self, first: usize) -> h5::Result<()> {
        let end =
            first.saturating_add(row_blocks::rows_per_block::<f64>(&self.part.shared.axes.shape()));
        let block = first..end.min(self.part.frames.len());
        self.block = 0..0;
        let signal = self.signal.as_ref().map(|dataset| read_rows(dataset, block.clone()));
        self.signals = signal.transpose()?.unwrap_or_default();
        self.variances =
            self.variance.as_ref().map(|dataset| read_rows(dataset, block.clone())).transpose()?;
        self.block = block;
        Ok(())
    }
}
