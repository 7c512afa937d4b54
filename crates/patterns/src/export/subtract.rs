//! Subtracts a background from the patterns of a scan, and writes them as a NeXus file.
//!
//! ```text
//! /entry                  NXentry    title, start_time, end_time; process (program, version, date, final_file,
//!                                    background_file, background_digest, background_frames, scale)
//!   subtracted            NXdata     intensity, intensity_errors (points[, chi], radial), frame_status, factor (points)
//!   mean                  NXdata     the mean over the frames: intensity, intensity_errors ([chi,] radial)
//!   background            NXdata     what was subtracted, before it was scaled
//! ```
//!
//! With the factor k of the background B at a frame, intensity I and errors σ:
//!
//! > I − k B, √(σ² + (k σ_B)²)
//!
//! The error of the background is in each frame's, and does not become smaller in a mean of frames.
//! In the mean, frames are weighted by the ratio g of their monitor to its reference, as if their
//! counts were added: Σ g I / Σ g − k̄ B with k̄ = Σ g k / Σ g.

use std::path::PathBuf;

use records::Spans;
use system::ownership::ReplacePolicy;

use super::ExportError;
use super::background::{Background, MeanPattern};
use super::hdf5_file::{Hdf5Export, WriteError, write_entry, write_hdf5_file, write_pattern_axes};
use crate::Status;
use crate::h5::{self, Group};
use crate::normalize::{NAN32, to_f32};
use crate::output::{OutputFile, create_nexus_group, write_statuses};
use crate::row_writer::RowWriter;

/// Name of the dataset of frame numbers.
const POINTS: &str = "points";

/// A file of subtracted patterns that was written.
#[derive(Debug)]
pub struct WrittenSubtraction {
    /// Path of the file.
    pub path: PathBuf,
    /// Frames that have a pattern, but no factor of the background; they are NaN.
    pub without_factor: Spans,
}

/// Writes the patterns of a final file minus a background, beside it. A file that exists is
/// replaced if azpipe wrote it, or if `policy` allows it.
///
/// # Errors
/// Fails if both have other bins, corrections or monitors, if a counter of the background's scale is
/// unknown or has no value per frame, if a file of somebody else has the path, or if a file can't be
/// read or written.
pub fn write_subtracted(
    output: &OutputFile,
    background: &Background,
    policy: &ReplacePolicy,
) -> Result<WrittenSubtraction, ExportError> {
    let factors = background.comparable_factors(output)?;
    let is_without = |(status, factor): (&Status, &f64)| *status == Status::Ok && factor.is_nan();
    let frames = output.status.iter().zip(&factors).enumerate();
    let without_factor =
        frames.filter(|(_, of)| is_without(*of)).map(|(frame, _)| frame as u64).collect();
    let export = Hdf5Export { extension: "subtracted.h5", mark: "process/program" };
    let subtraction = Subtraction { output, background, factors: &factors };
    let mut paths = write_hdf5_file(&export, output, policy, |file| subtraction.write(file))?;
    Ok(WrittenSubtraction { path: paths.pop().unwrap_or_default(), without_factor })
}

/// The sources of a file of subtracted patterns.
struct Subtraction<'a> {
    output: &'a OutputFile,
    background: &'a Background,
    /// Factor of the background at each frame; NaN where it is not known.
    factors: &'a [f64],
}

/// A pattern in double precision: intensities, and errors if there is an error model.
type WidePattern = (Vec<f64>, Vec<f64>);

impl Subtraction<'_> {
    fn write(&self, file: &Group) -> Result<(), WriteError> {
        let (entry, process) = write_entry(file, self.output, "subtracted")?;
        process.write_text("background_file", &self.background.path().to_string_lossy())?;
        process.write_text("background_digest", self.background.data_digest())?;
        process.write_scalar("background_frames", self.background.frames as u64)?;
        process.write_text("scale", &self.background.describe_scale())?;
        let (mean, factor) = self.write_frames(&entry)?;
        let mean = self.background.subtract(&mean.0, &mean.1, factor);
        self.write_pattern(&entry, "mean", &mean)?;
        let Background { intensity, errors, .. } = self.background;
        self.write_pattern(&entry, "background", &(intensity.clone(), errors.clone()))?;
        Ok(())
    }

    /// Writes the patterns of all frames, and returns the mean of the patterns before the
    /// subtraction, and the mean factor.
    fn write_frames(&self, entry: &Group) -> Result<(WidePattern, f64), WriteError> {
        let group = create_nexus_group(entry, "subtracted", "NXdata")?;
        let frames = self.output.status.len();
        self.describe(&group, &[POINTS])?;
        let points: Vec<u64> = (0..frames as u64).collect();
        group.write_list(POINTS, &points)?.set_text("long_name", "frame")?;
        let factor = group.write_list("factor", self.factors)?;
        factor.set_text("long_name", "factor of the background")?;
        write_statuses(&group, &self.output.status)?;
        let row = self.output.shared.axes.shape();
        let table = |name| RowWriter::<f32>::with_rows(&group, name, frames, &row);
        let mut intensity = table("intensity")?;
        let mut errors = self.has_errors().then(|| table("intensity_errors")).transpose()?;
        let title = format!("{} - background", self.output.intensity_label()?);
        group.dataset("intensity")?.set_text("long_name", &title)?;

        let mut mean = MeanPattern::new(self.output);
        let (mut sum, mut weight) = (0.0, 0.0);
        let mut rows = self.output.rows()?;
        let nothing = vec![NAN32; self.output.shared.axes.bins()];
        for (frame, (status, factor)) in self.output.status.iter().zip(self.factors).enumerate() {
            if *status != Status::Ok || factor.is_nan() {
                intensity.push(nothing.iter().copied())?;
                errors.as_mut().map_or(Ok(()), |errors| errors.push(nothing.iter().copied()))?;
                continue;
            }
            let (values, sigmas) = rows.pattern(frame)?;
            let ratio = mean.add(frame, &values, sigmas.as_deref());
            sum += ratio * factor;
            weight += ratio;
            let wide = |values: &[f32]| values.iter().map(|value| f64::from(*value)).collect();
            let values: Vec<f64> = wide(&values);
            let sigmas: Vec<f64> = wide(sigmas.as_deref().unwrap_or_default());
            let (values, sigmas) = self.background.subtract(&values, &sigmas, *factor);
            intensity.push(values.into_iter().map(to_f32))?;
            if let Some(errors) = &mut errors {
                errors.push(sigmas.into_iter().map(to_f32))?;
            }
        }
        intensity.flush()?;
        errors.iter_mut().try_for_each(RowWriter::flush)?;
        Ok((mean.finish(), sum / weight))
    }

    /// Writes one pattern as a group of its own.
    fn write_pattern(&self, entry: &Group, name: &str, pattern: &WidePattern) -> h5::Result<()> {
        let group = create_nexus_group(entry, name, "NXdata")?;
        self.describe(&group, &[])?;
        let shape = self.output.shared.axes.shape();
        group.write_array("intensity", &pattern.0, &shape)?;
        if self.has_errors() {
            group.write_array("intensity_errors", &pattern.1, &shape)?;
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
