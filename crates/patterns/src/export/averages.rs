//! [`Averages`]: the average patterns of a final file, for formats of patterns with one dimension.

use std::ops::Range;

use super::reduction::{FrameTerms, Terms};
use super::{ExportError, PatternReduction};
use crate::output::{AverageMethod, AveragePattern, AveragedPatterns, OutputFile};

/// Average patterns of a final file. Each has one dimension.
pub(super) struct Averages<'a> {
    output: &'a OutputFile,
    averaged: &'a AveragedPatterns,
    /// Reduction of the patterns, with its terms at each frame.
    reduction: Option<(PatternReduction<'a>, FrameTerms)>,
    /// Range of frames of each pattern.
    pub ranges: Vec<Range<u64>>,
}

impl<'a> Averages<'a> {
    /// Finds the average patterns of a final file, to which `reduction` is applied. `format` is the
    /// name of the format that needs them.
    ///
    /// # Errors
    /// Fails if there are none, if they are cakes, or if they can't be reduced.
    pub fn new(
        output: &'a OutputFile,
        reduction: Option<PatternReduction<'a>>,
        format: &'static str,
    ) -> Result<Self, ExportError> {
        let path = || output.path.clone();
        let averaged =
            output.averaged.as_ref().ok_or_else(|| ExportError::NoAverage { path: path() })?;
        if let [azimuthal, radial] = output.shared.axes.shape()[..] {
            return Err(ExportError::Cake { path: path(), format, azimuthal, radial });
        }
        if averaged.frames.iter().all(|frames| *frames == 0) {
            return Err(ExportError::NoPattern { path: path() });
        }
        let mut ranges = averaged.average.ranges(output.task.acquisition.frames);
        ranges.truncate(averaged.frames.len());
        if reduction.is_some_and(|reduction| reduction.units().is_some())
            && averaged.average.method == AverageMethod::Sum
        {
            return Err(ExportError::Reduction {
                path: path(),
                why: "a sum of frames has no absolute units; use --average mean".to_owned(),
            });
        }
        let with_terms = |reduction: PatternReduction<'a>| {
            Ok::<_, ExportError>((reduction, reduction.frame_terms(output)?))
        };
        let reduction = reduction.map(with_terms).transpose()?;
        Ok(Self { output, averaged, reduction, ranges })
    }

    /// Returns the numbers of the patterns that are averages of frames; the others are of ranges without
    /// any.
    pub fn indices(&self) -> impl Iterator<Item = usize> {
        let frames = self.averaged.frames.iter().enumerate();
        frames.filter(|(_, frames)| **frames > 0).map(|(index, _)| index)
    }

    /// Returns the reduction of the patterns.
    pub fn reduction(&self) -> Option<PatternReduction<'a>> {
        self.reduction.as_ref().map(|(reduction, _)| *reduction)
    }

    /// Returns the mean terms of the reduction of a pattern; `None` without a reduction.
    ///
    /// # Errors
    /// Fails if a frame of the average has none.
    pub fn terms(&self, index: usize) -> Result<Option<Terms>, ExportError> {
        let Some((reduction, terms)) = &self.reduction else { return Ok(None) };
        reduction.mean_terms(self.output, terms, self.ranges[index].clone()).map(Some)
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
        if let (Some(reduction), Some(mut terms)) = (self.reduction(), self.terms(index)?) {
            if self.averaged.average.method == AverageMethod::Sum {
                terms.factor *= pattern.frames as f64;
            }
            let errors = pattern.errors.take().unwrap_or_default();
            let (intensity, errors) = reduction.apply(&pattern.intensity, &errors, terms);
            pattern.intensity = intensity;
            pattern.errors = Some(errors).filter(|errors| !errors.is_empty());
        }
        Ok(pattern)
    }

    /// Describes a pattern, such as `mean of 60 frames`.
    pub fn describe(&self, pattern: &AveragePattern) -> String {
        let plural = if pattern.frames == 1 { "" } else { "s" };
        let reduced = self.reduction().map(PatternReduction::describe).unwrap_or_default();
        format!(
            "{} of {} frame{plural}{reduced}",
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
