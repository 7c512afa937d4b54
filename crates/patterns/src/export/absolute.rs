//! Absolute units: the transmission and thickness of a sample, and the calibration factor.
//!
//! With the intensity I, transmission T and thickness t of a sample, the background B with its
//! transmission T_B, and the calibration factor C, the differential scattering cross-section per
//! volume is
//!
//! > dΣ/dΩ = C / t (I / T − B / T_B) in 1/cm
//!
//! where I and B are divided by the flux before the sample. C is what a standard of known
//! cross-section gives ([`super::calibrate`]).

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::{ExportError, FrameValue};
use crate::Status;
use crate::output::OutputFile;
use crate::rounding::NAN64;
use records::{Spans, format_ranges};

/// Units of intensities on the absolute scale, per steradian.
pub(super) const UNITS: &str = "1/cm";
/// Title of intensities on the absolute scale.
pub(super) const TITLE: &str = "dΣ/dΩ (cm⁻¹)";

/// Largest transmission that counters may show. Those of a sample that absorbs next to nothing
/// scatter about 1.
const MAX_MEASURED_TRANSMISSION: f64 = 1.05;
/// Thicknesses in centimetres that a sample can have.
const THICKNESSES: RangeInclusive<f64> = 1e-7..=1e4;
/// Calibration factors that a standard can give.
pub(super) const FACTORS: RangeInclusive<f64> = 1e-30..=1e30;
/// Numbers by which intensities can be multiplied, and stay in the range of single precision.
pub(super) const SCALES: RangeInclusive<f64> = 1e-25..=1e25;
/// Largest number of ranges of frames in a message.
const MAX_RANGES: usize = 8;

/// Transmissions of a sample and of its background: a value of `gather --transmission`.
#[derive(Clone, Debug, PartialEq)]
pub struct Transmission {
    /// Transmission of the sample.
    pub sample: FrameValue,
    /// Transmission of the background, if it is named.
    background: Option<FrameValue>,
}

impl FromStr for Transmission {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected counters, as in diode/monitor/0.83, or numbers above 0 and \
                                at most 1 of sample and background, as in 0.62,0.95";
        let parse = |text: &str| match text.parse() {
            Ok(FrameValue::Number(number)) if number > 1.0 => Err(EXPECTED),
            Ok(value) => Ok(value),
            Err(_) => Err(EXPECTED),
        };
        let (sample, background) = match text.split_once(',') {
            Some((_, background)) if background.contains(',') => {
                return Err(
                    "expected at most two values, of sample and background, as in 0.62,0.95",
                );
            }
            Some((sample, background)) => (sample, Some(parse(background)?)),
            None => (text, None),
        };
        Ok(Self { sample: parse(sample)?, background })
    }
}

impl fmt::Display for Transmission {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.sample.fmt(f)?;
        self.background.as_ref().map_or(Ok(()), |background| write!(f, ",{background}"))
    }
}

impl Transmission {
    /// Returns the transmission of the background: its own, or the counters of the sample. `None`
    /// if only a number of the sample is known.
    pub fn of_background(&self) -> Option<&FrameValue> {
        self.background.as_ref().or(Some(&self.sample).filter(|sample| sample.is_counter()))
    }

    /// Returns whether the background has a transmission of its own.
    pub fn names_background(&self) -> bool {
        self.background.is_some()
    }
}

/// Returns the transmission at each frame of a final file; NaN where it is missing, not above 0, or
/// more than what enters.
///
/// # Errors
/// Fails if a counter is unknown, or if most frames transmit more than what enters.
pub(super) fn transmissions(
    value: &FrameValue,
    output: &OutputFile,
) -> Result<Vec<f64>, ExportError> {
    let mut values = value.values(output)?;
    let is_above = |frame: &usize| {
        output.status[*frame] == Status::Ok && values[*frame] > MAX_MEASURED_TRANSMISSION
    };
    let above: Vec<usize> = (0..values.len()).filter(is_above).collect();
    let known = (0..values.len())
        .filter(|frame| output.status[*frame] == Status::Ok && values[*frame].is_finite());
    if above.len() > known.count() / 2 {
        let frames: Spans = above.iter().map(|frame| *frame as u64).collect();
        let largest = above.iter().map(|frame| values[*frame]).fold(0.0, f64::max);
        return Err(ExportError::Reduction {
            path: output.path.clone(),
            why: format!(
                "its transmission {value} is up to {largest:.4} at frames {}; expected at most 1: \
                 divide by its value without a sample, as in diode/monitor/0.83",
                format_ranges(&frames, MAX_RANGES)
            ),
        });
    }
    above.into_iter().for_each(|frame| values[frame] = NAN64);
    Ok(values)
}

/// Names the flags that have counters, with the values that are usable.
pub(super) fn describe_counters(
    scale: Option<&FrameValue>,
    transmission: Option<&FrameValue>,
) -> String {
    let scale = scale.filter(|scale| scale.is_counter());
    let scale = scale.map(|scale| format!("--subtract-scale {scale} above 0"));
    let most = MAX_MEASURED_TRANSMISSION;
    let transmission = transmission.filter(|transmission| transmission.is_counter());
    let transmission = transmission
        .map(|transmission| format!("--transmission {transmission} above 0 and at most {most}"));
    scale.into_iter().chain(transmission).collect::<Vec<_>>().join(" and ")
}

/// Thickness of a sample in centimetres: a value of `gather --thickness`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thickness(pub(super) f64);

impl FromStr for Thickness {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected a length above 0 with its unit, mm, cm or um, as in 1.5mm";
        /// Units with their number in a centimetre. Both signs for micro are in use.
        const UNITS: [(&str, f64); 5] =
            [("mm", 10.0), ("cm", 1.0), ("um", 1e4), ("µm", 1e4), ("μm", 1e4)];
        let text = text.trim();
        let cut = |(unit, per_cm)| Some((text.strip_suffix(unit)?, per_cm));
        let (number, per_cm) = UNITS.into_iter().find_map(cut).ok_or(EXPECTED)?;
        let number: f64 = number.trim_end().parse().map_err(|_| EXPECTED)?;
        let centimetres = number / per_cm;
        if THICKNESSES.contains(&centimetres) { Ok(Self(centimetres)) } else { Err(EXPECTED) }
    }
}

/// Factor from measured intensities to 1/cm: a value of `gather --calibration-factor`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CalibrationFactor {
    /// The factor.
    pub value: f64,
    /// Its standard error, if it is known.
    pub error: Option<f64>,
}

impl CalibrationFactor {
    /// The factor of intensities that are not calibrated.
    pub(super) const ONE: Self = Self { value: 1.0, error: None };
}

impl FromStr for CalibrationFactor {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected a number above 0, and its error after a comma if it is known, as in 0.0123,0.0004";
        let number =
            |text: &str| text.trim().parse().ok().filter(|number: &f64| number.is_finite());
        let (value, error) = match text.split_once(',') {
            Some((value, error)) => (value, Some(number(error).ok_or(EXPECTED)?)),
            None => (text, None),
        };
        let value = number(value).filter(|value| FACTORS.contains(value)).ok_or(EXPECTED)?;
        let is_usable = error.is_none_or(|error| error >= 0.0);
        if is_usable { Ok(Self { value, error }) } else { Err(EXPECTED) }
    }
}

/// Thickness and calibration factor, which make cross-sections of intensities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AbsoluteScale {
    /// Thickness of the sample.
    pub thickness: Thickness,
    /// Calibration factor.
    pub factor: CalibrationFactor,
}

impl AbsoluteScale {
    /// Returns the factor to 1/cm of intensities that are divided by the transmission.
    pub(super) fn conversion(self) -> f64 {
        self.factor.value / self.thickness.0
    }

    /// Returns the relative error that all intensities have in common, if it is known.
    pub(super) fn relative_error(self) -> Option<f64> {
        Some(self.factor.error? / self.factor.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thickness_has_a_unit() {
        let lengths = ["1.5mm", "0.15cm", "1500um", "1500 µm", " 1500 μm ", "1.5e-1 cm"];
        for text in lengths {
            let thickness = text.parse::<Thickness>().unwrap().0;
            assert!((thickness - 0.15).abs() < 1e-15, "{text}: {thickness}");
        }
        for wrong in [
            "1.5", "mm", "0mm", "-1mm", "nanmm", "infcm", "1.5m", "1.5nm", "1e-320mm", "1e300cm",
            "",
        ] {
            assert!(wrong.parse::<Thickness>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_factor_may_have_an_error() {
        let factor = |value, error| Ok(CalibrationFactor { value, error });
        assert_eq!("2.5".parse(), factor(2.5, None));
        assert_eq!("2.5, 0.1".parse(), factor(2.5, Some(0.1)));
        assert_eq!("2.5,0".parse(), factor(2.5, Some(0.0)));
        for wrong in ["", "0", "-1", "nan", "1,nan", "1,-1", "1,", "1,2,3", "1e-320", "1e31"] {
            assert!(wrong.parse::<CalibrationFactor>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn transmissions_are_counters_or_numbers_of_both() {
        let parse = |text: &str| text.parse::<Transmission>();
        let both = parse("0.62, 0.95").unwrap();
        assert_eq!(both.of_background(), Some(&FrameValue::Number(0.95)));
        assert_eq!(parse("0.62").unwrap().of_background(), None);
        let counters = parse("diode/monitor").unwrap();
        assert_eq!(counters.of_background(), Some(&counters.sample));
        for text in ["0.62,0.95", "1", "diode", "diode/monitor/0.5,0.9", "t1,t2"] {
            assert_eq!(parse(text).unwrap().to_string().parse(), parse(text));
        }
        for wrong in ["0", "1.2", "-1", "0.5,1.1", "0.5,", ",0.5", "62", "nan"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
