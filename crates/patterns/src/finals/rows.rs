//! The rows of a final.

use super::tree::name;
use super::{Error, Final};
use crate::Row;
use crate::exceptions::Exceptions;
use crate::finish::Pattern;
use crate::h5::{self, Dataset};
use crate::stored::Patterns;
use crate::table::read_rows;

impl Final {
    /// Begins to read rows.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn rows(&self) -> Result<Rows<'_>, Error> {
        let begin = || -> h5::Result<Rows<'_>> {
            let optional = |name| self.integrated.dataset_if_there(name);
            Ok(Rows {
                of: self,
                patterns: Patterns::new(self.integrated.dataset(name::INTENSITY)?, optional(name::ERRORS)?),
                signal: if self.has_sums { optional(name::SIGNAL)? } else { None },
                variance: if self.has_sums { optional(name::VARIANCE)? } else { None },
                exceptions: self.has_sums.then(|| Exceptions::open(&self.integrated)).transpose()?,
            })
        };
        begin().map_err(Error::hdf5(&self.path))
    }
}

/// The rows of a final.
pub struct Rows<'a> {
    of: &'a Final,
    patterns: Patterns,
    signal: Option<Dataset>,
    variance: Option<Dataset>,
    exceptions: Option<Exceptions>,
}

impl Rows<'_> {
    /// Intensity and errors of a frame.
    ///
    /// # Errors
    /// The file can't be read; they are not as they were written.
    pub fn pattern(&mut self, frame: usize) -> Result<Pattern, Error> {
        let of = self.of;
        let (intensity, errors) = self.stored(frame).map_err(Error::hdf5(&of.path))?;
        if !of.is_as_written(frame, intensity, errors) {
            return Err(Error::content(
                &of.path,
                format!("damaged: the pattern of frame {frame} is not as it was written"),
            ));
        }
        Ok((intensity.to_vec(), errors.map(<[f32]>::to_vec)))
    }

    pub(super) fn stored(&mut self, frame: usize) -> h5::Result<(&[f32], Option<&[f32]>)> {
        self.patterns.row(frame)
    }

    /// The sums of a frame, where they are kept.
    pub(super) fn sums(&mut self, frame: usize) -> Result<Option<Row>, Error> {
        let Some(signal) = &self.signal else { return Ok(None) };
        let only = frame..frame.saturating_add(1);
        let mut row = || -> h5::Result<Row> {
            let variance = self.variance.as_ref().map(|dataset| read_rows(dataset, only.clone())).transpose()?;
            let signal: Vec<f64> = read_rows(signal, only.clone())?;
            let exceptions = self.exceptions.as_mut();
            let own = exceptions.map(|all| all.of(frame as u64, &self.of.shared.weights)).transpose()?;
            Ok(Row {
                frame: frame as u64,
                status: self.of.status[frame],
                stored_digest: self.of.stored_digest[frame],
                monitor: self.of.monitor[frame],
                signal: if signal.iter().all(|sum| sum.is_nan()) { Vec::new() } else { signal },
                variance,
                exception: own.flatten(),
            })
        };
        row().map(Some).map_err(Error::hdf5(&self.of.path))
    }
}
