//! [`Averages`]: the average patterns of a final file, for formats of patterns with one dimension.

use std::ops::Range;

use super::ExportError;
use crate::output::{AveragePattern, AveragedPatterns, OutputFile};

/// Average patterns of a final file. Each has one dimension.
pub(super) struct Averages<'a> {
    output: &'a OutputFile,
    averaged: &'a AveragedPatterns,
    /// Range of frames of each pattern.
    pub ranges: Vec<Range<u64>>,
}

impl<'a> Averages<'a> {
    /// Finds the average patterns of a final file. `format` is the name of the format that needs
    /// them.
    ///
    /// # Errors
    /// Fails if there are none, or if they are cakes.
    pub fn new(output: &'a OutputFile, format: &'static str) -> Result<Self, ExportError> {
        let path = || output.path.clone();
        let averaged =
            output.averaged.as_ref().ok_or_else(|| ExportError::NoAverage { path: path() })?;
        if let [azimuthal, radial] = output.shared.axes.shape()[..] {
            return Err(ExportError::Cake { path: path(), format, azimuthal, radial });
        }
        let mut ranges = averaged.average.ranges(output.task.acquisition.frames);
        ranges.truncate(averaged.frames.len());
        Ok(Self { output, averaged, ranges })
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
        pattern.ok_or_else(|| ExportError::Damaged { path: path(), index })
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

/// Describes an average pattern, such as `mean of 60 frames`.
pub(super) fn describe_average(output: &OutputFile, pattern: &AveragePattern) -> String {
    let method = output.averaged.as_ref().map_or("", |averaged| averaged.average.method.name());
    let plural = if pattern.frames == 1 { "" } else { "s" };
    format!("{method} of {} frame{plural}", pattern.frames)
}
