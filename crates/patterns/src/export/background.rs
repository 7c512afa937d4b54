//! [`Background`]: the mean pattern of a final file that is to be subtracted from others, and how
//! it is scaled to each frame.

use std::fmt;
use std::path::Path;

use records::Spans;

use super::absolute::{Transmission, describe_counters, transmissions};
use super::{ExportError, FrameValue};
use crate::Status;
use crate::normalize::Normalizer;
use crate::output::{AverageMethod, OutputError, OutputFile};
use crate::rounding::NAN64;
use crate::solid_angle::reference_solid_angle;

/// The mean pattern of the frames of a final file.
pub struct Background {
    /// The final file.
    pub(super) output: OutputFile,
    /// Mean intensity of each bin.
    pub(super) intensity: Vec<f64>,
    /// Error of each bin's mean; empty without an error model.
    pub(super) errors: Vec<f64>,
    /// Number of frames in the mean.
    pub(super) frames: usize,
    /// Frames that have a pattern, but no value of the scale or transmission; they are not part of the
    /// mean.
    pub without_terms: Spans,
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
            let (intensity, errors) = rows.pattern(frame)?;
            let ratio = mean.add(frame, &intensity, errors.as_deref());
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
        let scale_unit = if scale.is_counter() { sums.0 / sums.2 } else { 1.0 };
        let transmission = sums.1 / sums.2;
        let (intensity, errors) = mean.finish()?;
        let scale = scale.clone();
        Ok(Self {
            output,
            intensity,
            errors,
            frames,
            without_terms,
            scale,
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
            ExportError::Reduction { path, why: format!("can't be subtracted: it {why}") }
        })?;
        let values = self.scale.values(output)?;
        let solid_angle = self.relative_solid_angle(output)?;
        Ok(values.into_iter().map(|value| value / self.scale_unit * solid_angle).collect())
    }

    /// Returns the solid angle to which the patterns of another final file refer, relative to that of
    /// the background. It is 1 if neither detector moves: both then have the same geometry, or the
    /// factor of the scale takes account of their distances.
    fn relative_solid_angle(&self, output: &OutputFile) -> Result<f64, ExportError> {
        if ![&self.output, output].iter().any(|one| one.recipe.has_moving_geometry()) {
            return Ok(1.0);
        }
        let solid_angle = |output: &OutputFile| {
            let (recipe, scan) = (&output.recipe, &output.task.acquisition);
            reference_solid_angle(recipe, scan).map_err(|why| ExportError::Reduction {
                path: output.path.clone(),
                why: format!("its PONI file: {why}"),
            })
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

    /// Checks that the patterns of another final file are of the same quantity and over the same
    /// bins; otherwise returns the difference and what to do.
    fn check_comparable(&self, output: &OutputFile) -> Result<(), String> {
        let (own, other) = (&self.output.recipe, &output.recipe);
        if self.output.shared.axes != output.shared.axes
            || (&own.radial_edges, &own.azimuth_edges)
                != (&other.radial_edges, &other.azimuth_edges)
        {
            return Err("has other bins; integrate both with the same --unit, --radial-range and \
                        --npt, or the same --radial-edges"
                .to_owned());
        }
        if (own.solid_angle, own.polarization) != (other.solid_angle, other.polarization) {
            return Err("is corrected in another way for solid angle or polarization; integrate \
                        both with the same corrections"
                .to_owned());
        }
        if own.monitor != other.monitor {
            return Err(
                "is divided by another monitor; integrate both with the same --monitor".to_owned()
            );
        }
        if self.output.reference != output.reference {
            return Err(format!(
                "is divided by its monitor relative to {}, and this one relative to {}; integrate \
                 both with the same number as --monitor-reference",
                self.output.reference, output.reference
            ));
        }
        if Normalizer::new(own).has_errors() != Normalizer::new(other).has_errors() {
            return Err("only one of both has errors; integrate both with the same --error-model"
                .to_owned());
        }
        Ok(())
    }
}

/// The mean of patterns of a final file.
///
/// With the ratio g of a frame's monitor to its reference, intensity I and error σ, the mean is
/// Σ g I / Σ g, as if the counts of all frames were added, with the error √(Σ (g σ)²) / Σ g. If the
/// file has an average of the same frames, that is taken, whose error assumes at least one photon in
/// all frames together, and not in each. Frames of a detector that moves need that average.
pub(super) struct MeanPattern<'a> {
    output: &'a OutputFile,
    normalizer: Normalizer,
    signal: Vec<f64>,
    variance: Vec<f64>,
    weight: Vec<f64>,
    /// Number of frames.
    pub frames: usize,
}

impl<'a> MeanPattern<'a> {
    /// Creates the mean of no frame of a final file.
    pub fn new(output: &'a OutputFile) -> Self {
        let nothing = vec![0.0; output.shared.axes.bins()];
        let normalizer = Normalizer::new(&output.recipe);
        let (signal, variance, weight) = (nothing.clone(), nothing.clone(), nothing);
        Self { output, normalizer, signal, variance, weight, frames: 0 }
    }

    /// Adds the pattern of a frame, and returns its weight. Bins that are NaN take no part.
    pub fn add(&mut self, frame: usize, intensity: &[f32], errors: Option<&[f32]>) -> f64 {
        let monitor = self.output.monitor.get(frame).copied().unwrap_or(NAN64);
        let ratio = self.normalizer.scale(monitor, self.output.reference).unwrap_or(1.0);
        let sums = self.signal.iter_mut().zip(&mut self.variance).zip(&mut self.weight);
        for (bin, (((signal, variance), weight), value)) in sums.zip(intensity).enumerate() {
            let value = f64::from(*value);
            if value.is_nan() {
                continue;
            }
            let error = errors.and_then(|errors| errors.get(bin)).map_or(NAN64, |e| f64::from(*e));
            *signal += ratio * value;
            *variance += (ratio * error).powi(2);
            *weight += ratio;
        }
        self.frames = self.frames.saturating_add(1);
        ratio
    }

    /// Returns the mean and its error; no errors without an error model.
    ///
    /// # Errors
    /// Fails if the file's own average can't be read, or if there is none of several frames of a
    /// detector that moves: their bins have weights of their own, by which patterns are averaged.
    pub fn finish(self) -> Result<(Vec<f64>, Vec<f64>), ExportError> {
        if let Some(averaged) = &self.output.averaged
            && averaged.average.method == AverageMethod::Mean
            && averaged.frames[..] == [self.frames as u64]
        {
            let path = || self.output.path.clone();
            let read = averaged.pattern(0);
            if let Some(pattern) = read.map_err(|why| ExportError::Hdf5 { path: path(), why })? {
                return Ok((pattern.intensity, pattern.errors.unwrap_or_default()));
            }
        }
        if self.frames > 1 && self.output.recipe.has_moving_geometry() {
            return Err(ExportError::Reduction {
                path: self.output.path.clone(),
                why: format!(
                    "has frames of several geometries, whose mean needs the weights of each, and no \
                     average of the same {} frames; run gather --average mean for it first",
                    self.frames
                ),
            });
        }
        let mean = self.signal.iter().zip(&self.weight).map(|(sum, weight)| sum / weight);
        let has_errors = self.normalizer.has_errors();
        let errors = self.variance.iter().zip(&self.weight).map(|(sum, by)| sum.sqrt() / by);
        Ok((mean.collect(), if has_errors { errors.collect() } else { Vec::new() }))
    }
}
