//! Reduces the patterns of a scan, and writes them as a NeXus file: `NAME.subtracted.h5`, or
//! `NAME.absolute.h5` in absolute units.
//!
//! ```text
//! /entry                  NXentry    title, start_time, end_time; process (program, version, date, final_file, and if they
//!                                    are used background_file, background_digest, background_counters_digest,
//!                                    background_frames, scale, transmission, thickness, calibration_factor,
//!                                    calibration_factor_error)
//!   subtracted, absolute  NXdata     intensity, intensity_errors (points[, chi], radial), frame_status, and factor and
//!                                    transmission (points)
//!   mean                  NXdata     the mean over the frames: intensity, intensity_errors ([chi,] radial)
//!   background            NXdata     what was subtracted, before it was scaled
//! ```
//!
//! [`PatternReduction`] has the formulas. The errors of the background are in each frame's, and do not
//! become smaller in a mean of frames. The error of the calibration factor is not in them: it is
//! that of all intensities together, and stands by itself. In the mean, frames are weighted by the
//! ratio g of their monitor to its reference, as if their counts were added. Frames without a factor
//! or transmission have the status `monitor`.

use std::path::PathBuf;

use records::Spans;
use system::ownership::ReplacePolicy;

use super::background::Background;
use super::hdf5_file::{Hdf5Export, WriteError, write_entry, write_hdf5_file, write_pattern_axes};
use super::mean_pattern::MeanPattern;
use super::reduction::{FrameTerms, MeanTerms, Terms};
use super::{ExportError, PatternReduction};
use crate::Status;
use crate::compression::Compression;
use crate::h5::{self, Group};
use crate::output::{OutputFile, create_nexus_group, write_statuses};
use crate::rounding::{NAN32, to_f32};
use crate::row_writer::RowWriter;

/// Name of the dataset of frame numbers.
const POINTS: &str = "points";

/// Ends of the names of files of reduced patterns: of subtracted and of absolute ones.
pub(super) const EXTENSIONS: [&str; 2] = ["subtracted.h5", "absolute.h5"];

/// A file of reduced patterns that was written.
#[derive(Debug)]
pub struct WrittenPatterns {
    /// Name of the file's kind, `subtracted` or `absolute`.
    pub name: &'static str,
    /// Path of the file.
    pub path: PathBuf,
    /// Frames that have a pattern, but no factor of the background or no transmission; they are NaN.
    pub without_terms: Spans,
}

/// Writes the patterns of a final file, reduced, beside it. A file that exists is replaced if azpipe
/// wrote it, or if `policy` allows it.
///
/// # Errors
/// Fails if the background has other bins, corrections or monitors, if intensities can't be put in
/// absolute units, if a counter is unknown or has no value per frame, if a file of somebody else has
/// the path, or if a file can't be read or written.
pub fn write_reduced(
    output: &OutputFile,
    reduction: PatternReduction,
    policy: &ReplacePolicy,
) -> Result<WrittenPatterns, ExportError> {
    let terms = reduction.frame_terms(output)?;
    let is_without =
        |(frame, status): &(usize, &Status)| **status == Status::Ok && terms.at(*frame).is_none();
    let frames = output.status.iter().enumerate().filter(is_without);
    let without_terms = frames.map(|(frame, _)| frame as u64).collect();
    let name = reduction.name();
    let extension = EXTENSIONS[usize::from(reduction.absolute.is_some())];
    let export = Hdf5Export { extension, mark: "process/program" };
    let patterns = ReducedPatterns { output, reduction, terms: &terms };
    let mut paths = write_hdf5_file(&export, output, policy, |file| patterns.write(file))?;
    Ok(WrittenPatterns { name, path: paths.pop().unwrap_or_default(), without_terms })
}

/// The sources of a file of reduced patterns.
struct ReducedPatterns<'a> {
    output: &'a OutputFile,
    reduction: PatternReduction<'a>,
    terms: &'a FrameTerms,
}

/// A pattern in double precision: intensities, and errors if there is an error model.
type WidePattern = (Vec<f64>, Vec<f64>);

impl ReducedPatterns<'_> {
    fn write(&self, file: &Group) -> Result<(), WriteError> {
        let (entry, process) = write_entry(file, self.output, self.reduction.name())?;
        self.describe_process(&process)?;
        let (mean, terms) = self.write_frames(&entry)?;
        let mean = self.reduction.apply(&mean.0, &mean.1, terms);
        let title = self.reduction.title(&self.output.intensity_label()?);
        let group = self.write_pattern(&entry, "mean", &mean)?;
        group.dataset("intensity")?.set_text("long_name", &title)?;
        self.set_units(&group)?;
        if self.reduction.transmission.is_some() {
            group.write_scalar("transmission", terms.transmission)?;
        }
        if let Some(Background { intensity, errors, .. }) = self.reduction.background {
            self.write_pattern(&entry, "background", &(intensity.clone(), errors.clone()))?;
        }
        Ok(())
    }

    fn describe_process(&self, process: &Group) -> h5::Result<()> {
        let PatternReduction { background, transmission, absolute } = self.reduction;
        if let Some(background) = background {
            let path = background.path();
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            process.write_text("background_file", &path.to_string_lossy())?;
            process.write_text("background_digest", background.data_digest())?;
            if let Some(digest) = &background.numbers_digest {
                process.write_text("background_counters_digest", digest)?;
            }
            process.write_scalar("background_frames", background.frames as u64)?;
            let lost = background.without_pattern.count();
            process.write_scalar("background_frames_without_pattern", lost)?;
            process.write_text("scale", &background.scale.to_string())?;
        }
        if let Some(transmission) = transmission {
            process.write_text("transmission", &transmission.to_string())?;
            if let Some(background) = background {
                process.write_scalar("background_transmission", background.transmission)?;
            }
        }
        if let Some(absolute) = absolute {
            process.write_scalar("thickness", absolute.thickness.0)?.set_text("units", "cm")?;
            process.write_scalar("calibration_factor", absolute.factor.value)?;
            if let Some(error) = absolute.factor.error {
                process.write_scalar("calibration_factor_error", error)?;
            }
        }
        Ok(())
    }

    /// Writes the patterns of all frames, and returns their mean before the reduction, and the mean
    /// terms.
    fn write_frames(&self, entry: &Group) -> Result<(WidePattern, Terms), WriteError> {
        let group = create_nexus_group(entry, self.reduction.name(), "NXdata")?;
        let frames = self.output.status.len();
        self.describe(&group, &[POINTS])?;
        let points: Vec<u64> = (0..frames as u64).collect();
        group.write_list(POINTS, &points)?.set_text("long_name", "frame")?;
        if self.reduction.background.is_some() {
            let factor = group.write_list("factor", &self.terms.factors)?;
            factor.set_text("long_name", "factor of the background")?;
        }
        if self.reduction.transmission.is_some() {
            let transmission = group.write_list("transmission", &self.terms.transmissions)?;
            transmission.set_text("long_name", "transmission")?;
        }
        write_statuses(&group, &self.statuses())?;
        let row = self.output.shared.axes.shape();
        let table =
            |name| RowWriter::<f32>::with_rows(&group, name, frames, &row, Compression::Gzip);
        let mut intensity = table("intensity")?;
        let mut errors = self.has_errors().then(|| table("intensity_errors")).transpose()?;
        let title = self.reduction.title(&self.output.intensity_label()?);
        group.dataset("intensity")?.set_text("long_name", &title)?;
        self.set_units(&group)?;

        let mut mean = MeanPattern::new(self.output);
        let mut mean_terms = MeanTerms::default();
        let mut rows = self.output.rows()?;
        let nothing = vec![NAN32; self.output.shared.axes.bins()];
        for (frame, status) in self.output.status.iter().enumerate() {
            let terms = self.terms.at(frame).filter(|_| *status == Status::Ok);
            let Some(terms) = terms else {
                intensity.push(nothing.iter().copied())?;
                errors.as_mut().map_or(Ok(()), |errors| errors.push(nothing.iter().copied()))?;
                continue;
            };
            let pattern = rows.pattern(frame)?;
            mean_terms.add(terms, mean.add(frame, &pattern, &mut rows)?);
            let (values, sigmas) = pattern;
            let wide = |values: &[f32]| values.iter().map(|value| f64::from(*value)).collect();
            let values: Vec<f64> = wide(&values);
            let sigmas: Vec<f64> = wide(sigmas.as_deref().unwrap_or_default());
            let (values, sigmas) = self.reduction.apply(&values, &sigmas, terms);
            intensity.push(values.into_iter().map(to_f32))?;
            if let Some(errors) = &mut errors {
                errors.push(sigmas.into_iter().map(to_f32))?;
            }
        }
        intensity.flush()?;
        errors.iter_mut().try_for_each(RowWriter::flush)?;
        Ok((mean.finish()?, mean_terms.finish()))
    }

    /// Returns the status of each frame; of a pattern without terms, that of one without a monitor.
    fn statuses(&self) -> Vec<Status> {
        let status = |(frame, status): (usize, &Status)| match (status, self.terms.at(frame)) {
            (Status::Ok, None) => Status::Monitor,
            _ => *status,
        };
        self.output.status.iter().enumerate().map(status).collect()
    }

    /// Writes one pattern as a group of its own.
    fn write_pattern(&self, entry: &Group, name: &str, pattern: &WidePattern) -> h5::Result<Group> {
        let group = create_nexus_group(entry, name, "NXdata")?;
        self.describe(&group, &[])?;
        let shape = self.output.shared.axes.shape();
        group.write_array("intensity", &pattern.0, &shape)?;
        if self.has_errors() {
            group.write_array("intensity_errors", &pattern.1, &shape)?;
        }
        Ok(group)
    }

    /// Writes the units of intensities and errors, if they are absolute.
    fn set_units(&self, group: &Group) -> h5::Result<()> {
        let Some(units) = self.reduction.units() else { return Ok(()) };
        for name in ["intensity", "intensity_errors"] {
            group
                .dataset_if_there(name)?
                .map_or(Ok(()), |dataset| dataset.set_text("units", units))?;
        }
        Ok(())
    }

    /// Writes the axes of a group, of which `first` come before those of the patterns.
    fn describe(&self, group: &Group, first: &[&str]) -> h5::Result<()> {
        group.set_text("signal", "intensity")?;
        write_pattern_axes(group, first, &self.output.shared.axes)
    }

    fn has_errors(&self) -> bool {
        crate::Normalizer::new(&self.output.recipe).has_errors()
    }
}
