//! [`Averages`]: the average patterns of a final file, for formats of patterns with one dimension.

use std::ops::Range;

use super::{Background, ExportError};
use crate::output::{AverageMethod, AveragePattern, AveragedPatterns, OutputFile};

/// Average patterns of a final file. Each has one dimension.
pub(super) struct Averages<'a> {
    output: &'a OutputFile,
    averaged: &'a AveragedPatterns,
    /// Background that is subtracted, with its factor at each frame.
    background: Option<(&'a Background, Vec<f64>)>,
    /// Range of frames of each pattern.
    pub ranges: Vec<Range<u64>>,
}

impl<'a> Averages<'a> {
    /// Finds the average patterns of a final file, from which `background` is subtracted. `format` is the name of the format that needs
    /// them.
    ///
    /// # Errors
    /// Fails if there are none, if they are cakes, or if the background can't be subtracted.
    pub fn new(
        output: &'a OutputFile,
        background: Option<&'a Background>,
        format: &'static str,
    ) -> Result<Self, ExportError> {
        let path = || output.path.clone();
        let averaged =
            output.averaged.as_ref().ok_or_else(|| ExportError::NoAverage { path: path() })?;
        if let [azimuthal, radial] = output.shared.axes.shape()[..] {
            return Err(ExportError::Cake { path: path(), format, azimuthal, radial });
        }
        let mut ranges = averaged.average.ranges(output.task.acquisition.frames);
        ranges.truncate(averaged.frames.len());
        let background = background.map(|background| {
            Ok::<_, ExportError>((background, background.comparable_factors(output)?))
        });
        Ok(Self { output, averaged, background: background.transpose()?, ranges })
    }

    /// Returns whether each pattern is of some frames, and not one pattern of all.
    pub fn are_of_ranges(&self) -> bool {
        self.averaged.average.every.is_some()
    }

    /// Reads a pattern.
    ///
    /// # Errors
    /// Fails if the pattern is damaged, or the file can't be read.
    pub fn read(&self, index: usize) -> Result<AveragePattern, ExportError> {
        let path = || self.output.path.clone();
        let pattern =
            self.averaged.pattern(index).map_err(|why| ExportError::Hdf5 { path: path(), why })?;
        let mut pattern = pattern.ok_or_else(|| ExportError::Damaged { path: path(), index })?;
        if let Some((background, factors)) = &self.background {
            let frames = self.ranges[index].clone();
            let factor = background.mean_factor(self.output, factors, frames)?;
            let is_sum = self.averaged.average.method == AverageMethod::Sum;
            let factor = if is_sum { factor * pattern.frames as f64 } else { factor };
            let errors = pattern.errors.take().unwrap_or_default();
            let (intensity, errors) = background.subtract(&pattern.intensity, &errors, factor);
            pattern.intensity = intensity;
            pattern.errors = Some(errors).filter(|errors| !errors.is_empty());
        }
        Ok(pattern)
    }

    /// Describes a pattern, such as `mean of 60 frames`.
    pub fn describe(&self, pattern: &AveragePattern) -> String {
        let plural = if pattern.frames == 1 { "" } else { "s" };
        let minus = if self.background.is_some() { " minus background" } else { "" };
        format!(
            "{} of {} frame{plural}{minus}",
            self.averaged.average.method.name(),
            pattern.frames
        )
    }
}

/// Returns the numbers of a range of frames as they stand in names of files: `00000-00099`, or
/// `00007` for one frame.
pub(super) fn format_range(range: &Range<u64>) -> String {
    match range.end.saturating_sub(range.start) {
        1 => format!("{:05}", range.start),
        _ => format!("{:05}-{:05}", range.start, range.end.saturating_sub(1)),
    }
}
