//! The rows of a final.

use super::schema::name;
use super::{OutputError, OutputFile};
use crate::FrameRow;
use crate::h5::{self, Dataset};
use crate::normalize::Pattern;
use crate::row_writer::read_rows;
use crate::stored_patterns::StoredPatterns;
use crate::weight_overrides::WeightOverrides;

impl OutputFile {
    /// Begins to read rows.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn rows(&self) -> Result<OutputRows<'_>, OutputError> {
        let begin = || -> h5::Result<OutputRows<'_>> {
            let optional = |name| self.integrated.dataset_if_there(name);
            Ok(OutputRows {
                output: self,
                patterns: StoredPatterns::new(self.integrated.dataset(name::INTENSITY)?, optional(name::ERRORS)?),
                signal: if self.has_sums { optional(name::SIGNAL)? } else { None },
                variance: if self.has_sums { optional(name::VARIANCE)? } else { None },
                exceptions: self.has_sums.then(|| WeightOverrides::open(&self.integrated)).transpose()?,
            })
        };
        begin().map_err(OutputError::hdf5(&self.path))
    }
}

/// The rows of a final.
pub struct OutputRows<'a> {
    output: &'a OutputFile,
    patterns: StoredPatterns,
    signal: Option<Dataset>,
    variance: Option<Dataset>,
    exceptions: Option<WeightOverrides>,
}

impl OutputRows<'_> {
    /// Intensity and errors of a frame.
    ///
    /// # Errors
    /// The file can't be read; they are not as they were written.
    pub fn pattern(&mut self, frame: usize) -> Result<Pattern, OutputError> {
        let of = self.output;
        let (intensity, errors) = self.read_unverified(frame).map_err(OutputError::hdf5(&of.path))?;
        if !of.matches_digest(frame, intensity, errors) {
            return Err(OutputError::content(
                &of.path,
                format!("damaged: the pattern of frame {frame} is not as it was written"),
            ));
        }
        Ok((intensity.to_vec(), errors.map(<[f32]>::to_vec)))
    }

    pub(super) fn read_unverified(&mut self, frame: usize) -> h5::Result<(&[f32], Option<&[f32]>)> {
        self.patterns.row(frame)
    }

    /// The sums of a frame, where they are kept.
    pub(super) fn sums(&mut self, frame: usize) -> Result<Option<FrameRow>, OutputError> {
        let Some(signal) = &self.signal else { return Ok(None) };
        let only = frame..frame.saturating_add(1);
        let mut row = || -> h5::Result<FrameRow> {
            let variance = self.variance.as_ref().map(|dataset| read_rows(dataset, only.clone())).transpose()?;
            let signal: Vec<f64> = read_rows(signal, only.clone())?;
            let exceptions = self.exceptions.as_mut();
            let own = exceptions.map(|all| all.for_frame(frame as u64, &self.output.shared.weights)).transpose()?;
            Ok(FrameRow {
                frame: frame as u64,
                status: self.output.status[frame],
                stored_digest: self.output.stored_digest[frame],
                monitor: self.output.monitor[frame],
                signal: if signal.iter().all(|sum| sum.is_nan()) { Vec::new() } else { signal },
                variance,
                weight_override: own.flatten(),
            })
        };
        row().map(Some).map_err(OutputError::hdf5(&self.output.path))
    }
}
