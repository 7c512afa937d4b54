//! [`Background`]: the mean pattern of a final file that is to be subtracted from others, and how
//! it is scaled to each frame.

use std::fmt;
use std::path::Path;

use recipe::{Combination, Mismatches, Recipe};
use records::Spans;

use super::absolute::{Transmission, describe_counters, transmissions};
use super::mean_pattern::MeanPattern;
use super::{ExportError, FrameValue};
use crate::Status;
use crate::measurement_differences::{different_exposures, different_wavelengths};
use crate::normalize::Normalizer;
use crate::output::{OutputError, OutputFile, has_newer_scan};
use crate::solid_angle::reference_solid_angle;

/// The mean pattern of the frames of a final file.
pub struct Background {
    /// The final file.
    pub(super) output: OutputFile,
    /// Recipe of its frames; of a merged final file, that of a member, which has the monitor.
    recipe: Recipe,
    /// Mean intensity of each bin.
    pub(super) intensity: Vec<f64>,
    /// Error of each bin's mean; empty without an error model.
    pub(super) errors: Vec<f64>,
    /// Number of frames in the mean.
    pub(super) frames: usize,
    /// Frames that were taken and have no pattern; they are not part of the mean.
    pub without_pattern: Spans,
    /// Frames that have a pattern, but no value of the scale or transmission; they are not part of the
    /// mean.
    pub without_terms: Spans,
    /// True if it depends on counters, and counters or motors were written or corrected in the raw file
    /// since; or why that is not known.
    pub is_outdated: Result<bool, String>,
    /// Digest of the final file's counters and motors, if they scale it.
    pub(super) numbers_digest: Option<String>,
    /// Factor at each frame that it is subtracted from.
    pub(super) scale: FrameValue,
    /// Value of the scale that belongs to the mean pattern; 1 for a number.
    scale_unit: f64,
    /// Transmission of the mean pattern; 1 if it is not known.
    pub(super) transmission: f64,
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Background").field("path", &self.output.path).finish_non_exhaustive()
    }
}

impl Background {
    /// Reads the frames of a final file, and computes their mean.
    ///
    /// Frames without a value of the scale or of the transmission take no part.
    ///
    /// # Errors
    /// Fails if the file can't be read or is damaged, if no frame has a pattern, or none that has
    /// one has a value of the scale and of the transmission, or if frames transmit more than what
    /// enters.
    pub fn open(
        path: &Path,
        scale: &FrameValue,
        transmission: Option<&FrameValue>,
    ) -> Result<Self, ExportError> {
        let output = OutputFile::open(path).map_err(|why| match why {
            OutputError::NotOwned { path } => {
                let why = "not a final file of azpipe, or damaged beyond recognition; expected that \
                           of a background scan, and not one of subtracted or absolute patterns";
                ExportError::Reduction { path, why: why.to_owned() }
            }
            why => why.into(),
        })?;
        let mut values = [Some(scale), transmission].into_iter().flatten();
        let uses_counters = values.any(FrameValue::is_counter);
        let scales = scale.values(&output)?;
        let transmissions = match transmission {
            Some(transmission) => transmissions(transmission, &output)?,
            None => vec![1.0; output.status.len()],
        };
        let mut mean = MeanPattern::new(&output);
        let mut rows = output.rows()?;
        let mut sums = (0.0, 0.0, 0.0);
        let mut unknown = Vec::new();
        for (frame, values) in scales.iter().zip(&transmissions).enumerate() {
            let (scale, transmission) = values;
            if output.status.get(frame) != Some(&Status::Ok) {
                continue;
            }
            if !(scale.is_finite() && transmission.is_finite()) {
                unknown.push(frame as u64);
                continue;
            }
            let pattern = rows.pattern(frame)?;
            let ratio = mean.add(frame, &pattern, &mut rows)?;
            sums = (sums.0 + ratio * scale, sums.1 + ratio * transmission, sums.2 + ratio);
        }
        drop(rows);
        if mean.frames == 0 {
            let counters = [Some(scale), transmission].into_iter().flatten();
            let values = counters.filter(|value| value.is_counter());
            let values: String =
                values.map(|value| format!(" and a value of {value} above 0")).collect();
            return Err(ExportError::Reduction {
                path: path.to_owned(),
                why: format!(
                    "no frame has a pattern{values}; expected the final file of a background"
                ),
            });
        }
        let (frames, without_terms) = (mean.frames, unknown.into_iter().collect());
        let statuses = (0_u64..).zip(&output.status);
        let is_lost = |status: Status| !matches!(status, Status::Ok | Status::NeverTaken);
        let without_pattern =
            statuses.filter(|(_, status)| is_lost(**status)).map(|(frame, _)| frame).collect();
        let scale_unit = if scale.is_counter() { sums.0 / sums.2 } else { 1.0 };
        let transmission = sums.1 / sums.2;
        let (intensity, errors) = mean.finish()?;
        let recipe = output.recipe_of_frames()?;
        let is_outdated = match uses_counters || !recipe.monitor.is_empty() {
            true => has_newer_scan(&output.task, &output),
            false => Ok(false),
        };
        let numbers_digest = uses_counters.then(|| output.numbers_digest()).transpose()?;
        Ok(Self {
            output,
            numbers_digest,
            is_outdated,
            recipe,
            intensity,
            errors,
            frames,
            without_pattern,
            without_terms,
            scale: scale.clone(),
            scale_unit,
            transmission,
        })
    }

    /// Returns the path of the final file.
    pub fn path(&self) -> &Path {
        &self.output.path
    }

    /// Names the flags whose counters have a value per frame of the background, with the values that
    /// are usable.
    pub fn describe_counters(&self, transmission: Option<&Transmission>) -> String {
        describe_counters(Some(&self.scale), transmission.and_then(Transmission::of_background))
    }

    /// Returns the digest of the final file's data.
    pub fn data_digest(&self) -> &str {
        &self.output.data_digest
    }

    /// Returns the factors at each frame of another final file, if the background can be subtracted
    /// from it.
    ///
    /// # Errors
    /// Fails if both have other bins, corrections or monitors, if a counter of the scale is unknown or
    /// has no value per frame, or if the solid angle of a detector that moves is not known.
    pub(super) fn comparable_factors(&self, output: &OutputFile) -> Result<Vec<f64>, ExportError> {
        self.check_comparable(output).map_err(|why| {
            let path = self.path().to_owned();
            ExportError::Reduction { path, why: format!("can't be subtracted: {why}") }
        })?;
        let values = self.scale.values(output)?;
        let solid_angle = self.relative_solid_angle(output)?;
        Ok(values.into_iter().map(|value| value / self.scale_unit * solid_angle).collect())
    }

    /// Returns the solid angle to which the patterns of another final file refer, relative to that of
    /// the background: intensities are those of a pixel at the distance of their own geometry. It is
    /// 1 if both have one, and without the correction of the solid angle.
    fn relative_solid_angle(&self, output: &OutputFile) -> Result<f64, ExportError> {
        let solid_angle = |output: &OutputFile| {
            let (recipe, scan) = (&output.recipe, &output.task.acquisition);
            reference_solid_angle(recipe, scan).map_err(|why| invalid_poni(output, &why))
        };
        Ok(solid_angle(output)? / solid_angle(&self.output)?)
    }

    /// Subtracts the background times a factor from a pattern: intensities, and errors if there are
    /// any.
    pub(super) fn subtract(
        &self,
        intensity: &[f64],
        errors: &[f64],
        factor: f64,
    ) -> (Vec<f64>, Vec<f64>) {
        let values = intensity.iter().zip(&self.intensity).map(|(value, of)| value - factor * of);
        let errors = errors.iter().zip(&self.errors);
        let errors = errors.map(|(error, of)| error.hypot(factor * of));
        (values.collect(), errors.collect())
    }

    /// Returns warnings if the patterns of another final file, from which the background can be
    /// subtracted, are made from other pixels, or measured with another detector, wavelength or exposure
    /// time.
    ///
    /// # Errors
    /// Fails if a PONI file is invalid.
    pub fn warnings(&self, output: &OutputFile) -> Result<Vec<String>, ExportError> {
        let mut differences = Vec::new();
        let mismatches = self.mismatches(output);
        if !mismatches.is_empty() {
            differences.push(mismatches.describe(&"it", &output.path.display()));
        }
        differences.extend(self.describe_instruments(output)?);
        let path = self.path().display();
        let warning = |why| format!("{path}: subtracted, although {why}, unless that is meant");
        Ok(differences.into_iter().map(warning).collect())
    }

    /// Describes the detectors, wavelengths and exposure times of the background and of another final file, if
    /// they differ: detectors count different shares of the photons, and samples scatter and absorb
    /// differently at another wavelength. Neither is in the axes.
    fn describe_instruments(&self, output: &OutputFile) -> Result<Option<String>, ExportError> {
        let mut differences = Vec::new();
        let detectors = [&self.output, output].map(|file| &file.task.acquisition.detector);
        // Merged final files may have several detectors.
        let is_merged = self.output.is_merged() || output.is_merged();
        if !is_merged && detectors[0] != detectors[1] {
            differences.push(detectors.map(|name| format!("the detector {name}")));
        }
        let scans = [&self.output, output].map(|file| &file.task.acquisition);
        let measurements = [(scans[0], &self.recipe), (scans[1], &output.recipe)];
        let wavelengths =
            different_wavelengths(measurements).map_err(|why| invalid_poni(output, &why))?;
        if let Some(wavelengths) = wavelengths {
            differences.push(wavelengths.map(|metres| format!("a wavelength of {metres:e} m")));
        }
        // A scale or a transmission may make up for it.
        if matches!(self.scale, FrameValue::Number(1.0))
            && let Some(exposures) = different_exposures(measurements)
        {
            differences
                .push(exposures.map(|seconds| format!("{seconds} s of exposure and no monitor")));
        }
        if differences.is_empty() {
            return Ok(None);
        }
        let describe = |file: usize| {
            let of_file = differences.iter().map(|values| values[file].as_str());
            of_file.collect::<Vec<_>>().join(" and ")
        };
        Ok(Some(format!(
            "it was measured with {}, and {} with {}; subtract a background that was measured as \
             the sample was",
            describe(0),
            output.path.display(),
            describe(1)
        )))
    }

    /// Returns the settings in which the recipe of another final file differs from that of the
    /// background.
    fn mismatches(&self, output: &OutputFile) -> Mismatches {
        self.recipe.mismatches(&output.recipe, Combination::Difference)
    }

    /// Checks that the patterns of another final file are of the same quantity and over the same
    /// bins; otherwise returns the difference and what to do.
    fn check_comparable(&self, output: &OutputFile) -> Result<(), String> {
        if !self.output.shared.axes.agrees_with(&output.shared.axes) {
            return Err(
                "it has other bins; integrate both with the same --unit, --npt and --radial-range, and cakes with the \
                 same --npt-azim and --azimuth-range, or with the same edges"
                    .to_owned(),
            );
        }
        let mismatches = self.mismatches(output);
        if mismatches.are_refused() {
            return Err(mismatches.describe(&"it", &"the sample"));
        }
        let without_pixels = |file: &OutputFile| -> Vec<bool> {
            file.shared.weights.count.iter().map(|&count| count == 0.0).collect()
        };
        let is_zero = Normalizer::new(&self.recipe).empty_value() == 0.0;
        if is_zero && without_pixels(&self.output) != without_pixels(output) {
            return Err("other bins of it have no pixel, and --empty 0 wrote them as if they were measured; \
                        integrate both with --empty nan, or with the same masks"
                .to_owned());
        }
        let is_by_mean = !Normalizer::new(&self.recipe).needs_only_own_frame();
        if is_by_mean && self.output.reference != output.reference {
            return Err(format!(
                "it is divided by its monitor relative to {}, and the sample relative to {}; \
                 integrate both with the same number as --monitor-reference",
                self.output.reference, output.reference
            ));
        }
        Ok(())
    }
}

/// Returns the error of a final file whose PONI file is invalid.
fn invalid_poni(output: &OutputFile, why: &dyn fmt::Display) -> ExportError {
    ExportError::Reduction { path: output.path.clone(), why: format!("its PONI file: {why}") }
}
