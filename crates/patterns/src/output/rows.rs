//! Reads the rows of an open final file.

use std::sync::Arc;

use super::schema::name;
use super::{OutputError, OutputFile};
use crate::FrameRow;
use crate::h5::{self, Dataset};
use crate::normalize::Pattern;
use crate::row_writer::read_rows;
use crate::sparse_pixels::{SparseFrame, SparseReader};
use crate::stored_patterns::StoredPatterns;
use crate::weight_overrides::WeightOverrides;

impl OutputFile {
    /// Opens the datasets of the rows.
    ///
    /// # Errors
    /// Fails if the file can't be read.
    pub fn rows(&self) -> Result<OutputRows<'_>, OutputError> {
        let begin = || -> h5::Result<OutputRows<'_>> {
            let optional = |name| self.integrated.dataset_if_there(name);
            Ok(OutputRows {
                output: self,
                patterns: StoredPatterns::new(
                    self.integrated.dataset(name::INTENSITY)?,
                    optional(name::ERRORS)?,
                )?,
                signal: if self.has_sums { optional(name::SIGNAL)? } else { None },
                variance: if self.has_sums { optional(name::VARIANCE)? } else { None },
                weight_overrides: self
                    .has_sums
                    .then(|| WeightOverrides::open(&self.integrated))
                    .transpose()?,
                sparse: self
                    .sparse
                    .as_ref()
                    .map(|index| SparseReader::open(&self.process, index))
                    .transpose()?,
            })
        };
        begin().map_err(OutputError::hdf5(&self.path))
    }
}

/// Rows of an open final file.
pub struct OutputRows<'a> {
    output: &'a OutputFile,
    patterns: StoredPatterns,
    signal: Option<Dataset>,
    variance: Option<Dataset>,
    weight_overrides: Option<WeightOverrides>,
    sparse: Option<SparseReader>,
}

impl OutputRows<'_> {
    /// Reads the intensity and errors of a frame, and verifies the checksums of its row. Both are
    /// NaN if the frame's status is not [`Ok`](crate::Status::Ok).
    ///
    /// # Errors
    /// Fails if the file can't be read, or if the row is damaged.
    pub fn pattern(&mut self, frame: usize) -> Result<Pattern, OutputError> {
        let of = self.output;
        let (intensity, errors) =
            self.read_unverified(frame).map_err(OutputError::hdf5(&of.path))?;
        if !of.matches_digest(frame, intensity, errors) {
            return Err(OutputError::content(
                &of.path,
                format!("damaged: the pattern of frame {frame} is not as it was written"),
            ));
        }
        Ok((intensity.to_vec(), errors.map(<[f32]>::to_vec)))
    }

    /// Reads the sparse pixels of a frame; `None` if the file has none of it.
    ///
    /// # Errors
    /// Fails if the file can't be read, or is damaged there.
    pub(super) fn sparse(&self, frame: usize) -> Result<Option<SparseFrame>, OutputError> {
        let read = self.sparse.as_ref().map_or(Ok(None), |all| all.frame(frame));
        read.map_err(OutputError::hdf5(&self.output.path))
    }

    pub(super) fn read_unverified(&mut self, frame: usize) -> h5::Result<(&[f32], Option<&[f32]>)> {
        self.patterns.row(frame)
    }

    /// Reads the sums of a frame, if the final file has sums.
    pub(crate) fn sums(&mut self, frame: usize) -> Result<Option<FrameRow>, OutputError> {
        let Some(signal) = &self.signal else { return Ok(None) };
        let only = frame..frame.saturating_add(1);
        let mut row = || -> h5::Result<FrameRow> {
            let variance = self
                .variance
                .as_ref()
                .map(|dataset| read_rows(dataset, only.clone()))
                .transpose()?;
            let signal: Vec<f64> = read_rows(signal, only.clone())?;
            let weight_overrides = self.weight_overrides.as_mut();
            let own = weight_overrides
                .map(|all| all.for_frame(frame as u64, &self.output.shared.weights))
                .transpose()?;
            Ok(FrameRow {
                frame: frame as u64,
                status: self.output.status[frame],
                stored_digest: self.output.stored_digest[frame],
                monitor: self.output.monitor[frame],
                signal: if signal.iter().all(|sum| sum.is_nan()) { Vec::new() } else { signal },
                variance,
                weight_override: own.flatten().map(Arc::new),
                sparse: None,
            })
        };
        row().map(Some).map_err(OutputError::hdf5(&self.output.path))
    }
}
