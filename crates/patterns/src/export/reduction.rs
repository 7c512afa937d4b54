//! [`PatternReduction`]: what is done to patterns that are written beside a final file: a background is
//! subtracted, and intensities are divided by transmissions and put in absolute units.
//!
//! With the intensity I, error σ and transmission T of a frame or average, its background factor k,
//! and c = C / t ([`AbsoluteScale`]), or 1:
//!
//! > c / T (I − k B), c / T √(σ² + (k σ_B)²)
//!
//! With the transmission T_B of the background and the factor s of `gather --subtract-scale`,
//! k = s T / T_B. An average of frames has the means of T and k with the weights that the frames
//! have in it, as if the counts and the transmitted flux of all frames were added.

use std::ops::Range;

use super::absolute::{self, AbsoluteScale, CalibrationFactor, Thickness, Transmission};
use super::{Background, ExportError, FrameValue};
use crate::Status;
use crate::normalize::Normalizer;
use crate::output::OutputFile;
use crate::rounding::NAN64;

/// Steps that patterns of final files go through before they are written beside them.
#[derive(Clone, Copy, Debug, Default)]
pub struct PatternReduction<'a> {
    /// Background that is subtracted.
    pub background: Option<&'a Background>,
    /// Transmissions that intensities are divided by.
    pub transmission: Option<&'a Transmission>,
    /// Scale of intensities in 1/cm.
    pub absolute: Option<AbsoluteScale>,
}

/// Transmission of a frame, or mean of some frames, and factor of their background.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub transmission: f64,
    pub factor: f64,
}

/// Terms of each frame of a final file; both are NaN where one of them is not known.
pub(super) struct FrameTerms {
    pub transmissions: Vec<f64>,
    pub factors: Vec<f64>,
}

impl<'a> PatternReduction<'a> {
    /// Returns the reduction that intensities of a standard are calibrated with: the factor is 1.
    pub(super) fn uncalibrated(self, thickness: Thickness) -> Self {
        let absolute = Some(AbsoluteScale { thickness, factor: CalibrationFactor::ONE });
        Self { absolute, ..self }
    }

    /// Returns the word for such patterns in names of files and groups.
    pub(super) fn name(self) -> &'static str {
        if self.absolute.is_some() { "absolute" } else { "subtracted" }
    }

    /// Returns the units of intensities, if they are absolute.
    pub(super) fn units(self) -> Option<&'static str> {
        self.absolute.map(|_| absolute::UNITS)
    }

    /// Returns the title of intensities that have the title `label` in the final file.
    pub(super) fn title(self, label: &str) -> String {
        if self.absolute.is_some() {
            return absolute::TITLE.to_owned();
        }
        let by = if self.transmission.is_some() { " / transmission" } else { "" };
        let minus = if self.background.is_some() { " - background" } else { "" };
        format!("{label}{by}{minus}")
    }

    /// Describes what is done, to be added to the name of an average, as in `mean of 60 frames
    /// over transmission minus background, in 1/cm`.
    pub(super) fn describe(self) -> String {
        let by = if self.transmission.is_some() { " over transmission" } else { "" };
        let minus = if self.background.is_some() { " minus background" } else { "" };
        let units = self.units().map(|units| format!(", in {units}")).unwrap_or_default();
        format!("{by}{minus}{units}")
    }

    /// Returns the terms of each frame of a final file.
    ///
    /// # Errors
    /// Fails if the background can't be subtracted from it, if intensities can't be put in absolute
    /// units, if a counter is unknown or has no value per frame, if the monitor is a counter behind
    /// the sample, if most frames transmit more than what enters, or if intensities would leave the
    /// range of single precision.
    pub(super) fn frame_terms(self, output: &OutputFile) -> Result<FrameTerms, ExportError> {
        if self.absolute.is_some() && !Normalizer::new(&output.recipe).needs_only_own_frame() {
            return Err(ExportError::Reduction {
                path: output.path.clone(),
                why:
                    "can't be put in absolute units: it is divided by its monitor relative to the \
                      mean of the scan, which no calibration factor holds for; integrate with a \
                      number as --monitor-reference"
                        .to_owned(),
            });
        }
        self.check_monitor(output)?;
        let frames = output.status.len();
        let mut transmissions = match self.transmission {
            Some(transmission) => absolute::transmissions(&transmission.sample, output)?,
            None => vec![1.0; frames],
        };
        let mut factors = match self.background {
            Some(background) => background.comparable_factors(output)?,
            None => vec![0.0; frames],
        };
        let of_background = self.background.map_or(1.0, |background| background.transmission);
        for (transmission, factor) in transmissions.iter_mut().zip(&mut factors) {
            *factor *= *transmission / of_background;
            if factor.is_nan() {
                (*transmission, *factor) = (NAN64, NAN64);
            }
        }
        let terms = FrameTerms { transmissions, factors };
        self.check_scales(output, &terms)?;
        Ok(terms)
    }

    /// Checks that patterns are not divided by the counter behind the sample already.
    fn check_monitor(self, output: &OutputFile) -> Result<(), ExportError> {
        let Some(FrameValue::Counter { name, .. }) =
            self.transmission.map(|transmission| &transmission.sample)
        else {
            return Ok(());
        };
        let is_monitor = |monitor: &recipe::Monitor| matches!(&monitor.quantity, recipe::Quantity::Counter(of) if of == name);
        if !output.recipe.monitor.iter().any(is_monitor) {
            return Ok(());
        }
        Err(ExportError::Reduction {
            path: output.path.clone(),
            why: format!(
                "is divided by its monitor {name} already, and --transmission would divide by it \
                 once more; integrate with a monitor before the sample, or leave out --transmission"
            ),
        })
    }

    /// Checks that intensities stay in the range of single precision.
    fn check_scales(self, output: &OutputFile, terms: &FrameTerms) -> Result<(), ExportError> {
        let usable = absolute::SCALES;
        for (frame, status) in output.status.iter().enumerate() {
            let Some(of_frame) = terms.at(frame).filter(|_| *status == Status::Ok) else {
                continue;
            };
            let scale = self.scale(of_frame);
            let of_background = scale * of_frame.factor;
            if usable.contains(&scale) && of_background <= *usable.end() {
                continue;
            }
            let (least, most) = (usable.start(), usable.end());
            return Err(ExportError::Reduction {
                path: output.path.clone(),
                why: format!(
                    "the intensities of frame {frame} would be multiplied by {scale:e}, and those of \
                     its background by {of_background:e}; expected {least:e} to {most:e}: check \
                     --thickness, --calibration-factor, --transmission and --subtract-scale"
                ),
            });
        }
        Ok(())
    }

    /// Returns what intensities are multiplied by.
    fn scale(self, terms: Terms) -> f64 {
        self.absolute.map_or(1.0, AbsoluteScale::conversion) / terms.transmission
    }

    /// Returns the mean terms of the frames of an average that have a pattern, with the weights that
    /// they have in their mean pattern.
    ///
    /// # Errors
    /// Fails if a term is not known.
    pub(super) fn mean_terms(
        self,
        output: &OutputFile,
        terms: &FrameTerms,
        frames: Range<u64>,
    ) -> Result<Terms, ExportError> {
        let normalizer = Normalizer::new(&output.recipe);
        let mut mean = MeanTerms::default();
        for frame in frames.start as usize..frames.end as usize {
            if output.status.get(frame) != Some(&Status::Ok) {
                continue;
            }
            let Some(of_frame) = terms.at(frame) else {
                return Err(ExportError::Reduction {
                    path: output.path.clone(),
                    why: format!(
                        "has no value of {} at frame {frame}, which is part of an average",
                        self.describe_counters()
                    ),
                });
            };
            let monitor = output.monitor.get(frame).copied().unwrap_or(NAN64);
            mean.add(of_frame, normalizer.scale(monitor, output.reference).unwrap_or(1.0));
        }
        Ok(mean.finish())
    }

    /// Reduces a pattern: intensities, and errors if there are any.
    pub(super) fn apply(
        self,
        intensity: &[f64],
        errors: &[f64],
        terms: Terms,
    ) -> (Vec<f64>, Vec<f64>) {
        let (mut values, mut sigmas) = match self.background {
            Some(background) => background.subtract(intensity, errors, terms.factor),
            None => (intensity.to_vec(), errors.to_vec()),
        };
        let scale = self.scale(terms);
        values.iter_mut().chain(&mut sigmas).for_each(|value| *value *= scale);
        (values, sigmas)
    }

    /// Names the flags whose counters have a value per frame, with the values that are usable.
    pub fn describe_counters(self) -> String {
        let scale = self.background.map(|background| &background.scale);
        absolute::describe_counters(
            scale,
            self.transmission.map(|transmission| &transmission.sample),
        )
    }
}

impl FrameTerms {
    /// Returns the terms of a frame; `None` if they are not known.
    pub fn at(&self, frame: usize) -> Option<Terms> {
        let (transmission, factor) = (*self.transmissions.get(frame)?, *self.factors.get(frame)?);
        (!factor.is_nan()).then_some(Terms { transmission, factor })
    }
}

/// Sums for the mean of the terms of frames.
#[derive(Default)]
pub(super) struct MeanTerms {
    transmission: f64,
    factor: f64,
    weight: f64,
}

impl MeanTerms {
    /// Adds the terms of a frame with its weight in the mean pattern.
    pub fn add(&mut self, terms: Terms, weight: f64) {
        self.transmission += weight * terms.transmission;
        self.factor += weight * terms.factor;
        self.weight += weight;
    }

    /// Returns the means; NaN of no frame.
    pub fn finish(self) -> Terms {
        Terms { transmission: self.transmission / self.weight, factor: self.factor / self.weight }
    }
}
