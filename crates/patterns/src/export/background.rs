//! [`Background`]: the mean pattern of a final file that is to be subtracted from others, and how
//! it is scaled to each frame.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;

use super::ExportError;
use crate::Status;
use crate::normalize::{NAN64, Normalizer};
use crate::output::{AverageMethod, OutputError, OutputFile};

/// Factor of a background at each frame: a value of `gather --subtract-scale`.
#[derive(Clone, Debug, PartialEq)]
pub enum BackgroundScale {
    /// A number that all frames have in common.
    Number(f64),
    /// A counter, or the ratio of two, divided by its mean over the background's frames.
    Counter {
        /// Name of the counter.
        name: String,
        /// Name of the counter that it is divided by.
        divisor: Option<String>,
    },
}

impl Default for BackgroundScale {
    fn default() -> Self {
        Self::Number(1.0)
    }
}

impl FromStr for BackgroundScale {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected a number above 0, a counter, or the ratio of two counters, as in diode/monitor";
        if let Ok(number) = text.trim().parse::<f64>() {
            let is_usable = number.is_finite() && number > 0.0;
            return if is_usable { Ok(Self::Number(number)) } else { Err(EXPECTED) };
        }
        let names: Vec<&str> = text.split('/').map(str::trim).collect();
        match names[..] {
            [name] if !name.is_empty() => {
                Ok(Self::Counter { name: name.to_owned(), divisor: None })
            }
            [name, divisor] if !name.is_empty() && !divisor.is_empty() => {
                Ok(Self::Counter { name: name.to_owned(), divisor: Some(divisor.to_owned()) })
            }
            _ => Err(EXPECTED),
        }
    }
}

impl fmt::Display for BackgroundScale {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Counter { name, divisor: None } => f.write_str(name),
            Self::Counter { name, divisor: Some(divisor) } => write!(f, "{name}/{divisor}"),
        }
    }
}

impl BackgroundScale {
    /// Returns the number, or the value of the counters, at each frame; NaN where it is missing or
    /// not above 0.
    fn values(&self, output: &OutputFile) -> Result<Vec<f64>, OutputError> {
        let frames = output.status.len();
        let mut values = match self {
            Self::Number(number) => vec![*number; frames],
            Self::Counter { name, divisor } => {
                let mut values = output.frame_numbers(name)?.values;
                if let Some(divisor) = divisor {
                    let divisors = output.frame_numbers(divisor)?.values;
                    values.truncate(divisors.len());
                    values.iter_mut().zip(divisors).for_each(|(value, by)| *value /= by);
                }
                values
            }
        };
        // Of a scan that is running, frames may come before their readings.
        values.resize(frames, NAN64);
        for value in &mut values {
            if !value.is_finite() || *value <= 0.0 {
                *value = NAN64;
            }
        }
        Ok(values)
    }
}

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
    scale: BackgroundScale,
    /// Value of the scale that belongs to the mean pattern; 1 for a number.
    scale_unit: f64,
}

impl Background {
    /// Reads the frames of a final file, and computes their mean.
    ///
    /// With the ratio g of a frame's monitor to its reference, intensity I and error σ, the mean is
    /// Σ g I / Σ g, as if the counts of all frames were added, with the error √(Σ (g σ)²) / Σ g. If
    /// the file has an average of all frames, that is taken, whose error assumes at least one photon
    /// in all frames together, and not in each.
    ///
    /// # Errors
    /// Fails if the file can't be read or is damaged, or if no frame has a pattern, or none that
    /// has one has a value of the scale.
    pub fn open(path: &Path, scale: &BackgroundScale) -> Result<Self, ExportError> {
        let output = OutputFile::open(path)?;
        let values = scale.values(&output)?;
        let mut mean = MeanPattern::new(&output);
        let mut rows = output.rows()?;
        let (mut sum, mut weight) = (0.0, 0.0);
        for (frame, value) in values.iter().enumerate().filter(|(_, value)| value.is_finite()) {
            if output.status.get(frame) != Some(&Status::Ok) {
                continue;
            }
            let (intensity, errors) = rows.pattern(frame)?;
            let ratio = mean.add(frame, &intensity, errors.as_deref());
            sum += ratio * value;
            weight += ratio;
        }
        drop(rows);
        if mean.frames == 0 {
            let what = match scale {
                BackgroundScale::Number(_) => String::new(),
                scale => format!(" and a value of {scale} above 0"),
            };
            return Err(ExportError::Background {
                path: path.to_owned(),
                why: format!(
                    "no frame has a pattern{what}; expected the final file of a background"
                ),
            });
        }
        let frames = mean.frames;
        let scale_unit = if let BackgroundScale::Number(_) = scale { 1.0 } else { sum / weight };
        let (mut intensity, mut errors) = mean.finish();
        if let Some(averaged) = &output.averaged
            && averaged.average.method == AverageMethod::Mean
            && averaged.frames[..] == [frames as u64]
        {
            let read = averaged.pattern(0);
            let read = read.map_err(|why| ExportError::Hdf5 { path: path.to_owned(), why })?;
            if let Some(pattern) = read {
                (intensity, errors) = (pattern.intensity, pattern.errors.unwrap_or_default());
            }
        }
        Ok(Self { output, intensity, errors, frames, scale: scale.clone(), scale_unit })
    }

    /// Returns the path of the final file.
    pub fn path(&self) -> &Path {
        &self.output.path
    }

    /// Returns the digest of the final file's data.
    pub fn data_digest(&self) -> &str {
        &self.output.data_digest
    }

    /// Returns the factors at each frame of another final file, if the background can be subtracted
    /// from it.
    ///
    /// # Errors
    /// Fails if both have other bins, corrections or monitors, or if a counter of the scale is
    /// unknown or has no value per frame.
    pub(super) fn comparable_factors(&self, output: &OutputFile) -> Result<Vec<f64>, ExportError> {
        self.check_comparable(output).map_err(|why| {
            let path = self.path().to_owned();
            ExportError::Background { path, why: format!("can't be subtracted: it {why}") }
        })?;
        let values = self.scale.values(output)?;
        Ok(values.into_iter().map(|value| value / self.scale_unit).collect())
    }

    /// Returns the mean of the factors of frames that have a pattern, with the weights that the
    /// frames have in their mean pattern.
    ///
    /// # Errors
    /// Fails if a factor is not known.
    pub(super) fn mean_factor(
        &self,
        output: &OutputFile,
        factors: &[f64],
        frames: Range<u64>,
    ) -> Result<f64, ExportError> {
        let normalizer = Normalizer::new(&output.recipe);
        let (mut sum, mut weight) = (0.0, 0.0);
        for frame in frames.start as usize..frames.end as usize {
            if output.status.get(frame) != Some(&Status::Ok) {
                continue;
            }
            let factor = factors.get(frame).copied().unwrap_or(NAN64);
            if factor.is_nan() {
                return Err(ExportError::Background {
                    path: self.path().to_owned(),
                    why: format!(
                        "can't be subtracted from an average: {} has no value of {} above 0 at frame {frame}",
                        output.path.display(),
                        self.scale
                    ),
                });
            }
            let monitor = output.monitor.get(frame).copied().unwrap_or(NAN64);
            let ratio = normalizer.scale(monitor, output.reference).unwrap_or(1.0);
            sum += ratio * factor;
            weight += ratio;
        }
        Ok(sum / weight)
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

    /// Returns the scale as text.
    pub(super) fn describe_scale(&self) -> String {
        self.scale.to_string()
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

/// The mean of patterns, each weighted by the ratio of its monitor to the reference.
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
    pub fn finish(self) -> (Vec<f64>, Vec<f64>) {
        let mean = self.signal.iter().zip(&self.weight).map(|(sum, weight)| sum / weight);
        let has_errors = self.normalizer.has_errors();
        let errors = self.variance.iter().zip(&self.weight).map(|(sum, by)| sum.sqrt() / by);
        (mean.collect(), if has_errors { errors.collect() } else { Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_is_a_number_a_counter_or_a_ratio() {
        for text in ["1", "0.95", "1e-3", "diode", "diode/monitor", "p3:roi1"] {
            let scale: BackgroundScale = text.parse().unwrap();
            assert_eq!(scale.to_string().parse(), Ok(scale));
        }
        assert_eq!("2.5".parse(), Ok(BackgroundScale::Number(2.5)));
        let ratio = BackgroundScale::Counter { name: "a".into(), divisor: Some("b".into()) };
        assert_eq!("a / b".parse(), Ok(ratio));
        for wrong in ["", "0", "-1", "nan", "inf", "a/", "/b", "a/b/c", " "] {
            assert!(wrong.parse::<BackgroundScale>().is_err(), "{wrong}");
        }
    }
}
