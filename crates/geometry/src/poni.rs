//! PONI files: the geometry of an experiment as pyFAI writes it, as text (versions 1 to 3) or JSON.

mod config;
mod fields;
mod value;

use std::f64::consts::TAU;

use serde_json::Value;

pub use config::{DetectorConfig, DetectorSpec};
use fields::PoniFields;

use crate::ParallaxSensor;

/// Longest usual distance in metres: the longest instruments for small angles have 40.
const USUAL_DISTANCE: f64 = 50.0;
/// Longest usual coordinate of the point of normal incidence, in metres: a detector of half a metre
/// that is turned by 85 degrees at a distance of a metre has 11.
const USUAL_PONI: f64 = 20.0;

/// The contents of a PONI file. Lengths are in metres, angles in radians.
#[derive(Clone, Debug, PartialEq)]
pub struct Poni {
    /// Orthogonal distance from the sample to the detector's plane.
    pub dist: f64,
    /// Position of the point of normal incidence along the slow axis, from the detector's corner.
    pub poni1: f64,
    /// Position of the point of normal incidence along the fast axis, from the detector's corner.
    pub poni2: f64,
    /// First rotation, about axis 1 (vertical), left-handed.
    pub rot1: f64,
    /// Second rotation, about axis 2 (horizontal), left-handed.
    pub rot2: f64,
    /// Third rotation, about the beam, right-handed.
    pub rot3: f64,
    /// Wavelength, if the file gives one.
    pub wavelength: Option<f64>,
    /// Name and settings of the detector.
    pub detector: DetectorSpec,
    /// Sensor by which parallax is corrected; `None` if it is not to be corrected.
    pub parallax: Option<ParallaxSensor>,
    /// Keys that no version of the format has; [`Poni::remarks`] names them.
    pub ignored: Vec<String>,
}

/// A PONI file can't be parsed, or needs something that is not supported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoniError {
    /// The version of the format is not known.
    #[error("poni_version {0}: expected 1, 2, 2.1 or 3")]
    Version(String),
    /// The text has none of the keys of a PONI file.
    #[error(
        "not a PONI file: it has no line with Distance, Poni1 or Poni2; \
         expected the geometry that pyFAI-calib2 saves after a calibration"
    )]
    NotPoni,
    /// A mandatory key is missing.
    #[error("the PONI file has no {0}; save the geometry again with pyFAI")]
    Missing(&'static str),
    /// The value of a key is out of range or has the wrong type.
    #[error("{key}: {value}: expected {expected}")]
    Value {
        /// Key, as the format spells it.
        key: String,
        /// Value found.
        value: String,
        /// Description of valid values.
        expected: &'static str,
    },
    /// The correction of parallax is switched on, and something that it needs is missing.
    #[error("Parallax: True: {0}")]
    Parallax(String),
    /// The distortion of the detector is given by a spline file.
    #[error(
        "splineFile: {0}: distortion by a spline is not supported; \
         save the detector with pyFAI as a NeXus detector file and name that file as the detector"
    )]
    Spline(String),
    /// The JSON value is not an object.
    #[error("geometry: expected a JSON object with dist, poni1, poni2")]
    NotAnObject,
}

impl Poni {
    /// Parses the text of a PONI file. The case of keys does not matter. pyFAI appends each
    /// calibration to the file, so the last line with a key counts.
    ///
    /// # Errors
    /// A key is missing, a value is invalid, or the file needs something that is not supported
    /// ([`PoniError`]).
    pub fn parse(text: &str) -> Result<Self, PoniError> {
        let mut fields = PoniFields::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some((key, value)) = line.split_once(':') {
                fields.set(key.trim(), Value::String(value.trim().to_owned()));
            }
        }
        if fields.has_placement() { fields.into_poni() } else { Err(PoniError::NotPoni) }
    }

    /// Reads the JSON form, whose key `dist` stands for `Distance`: the object itself, or one that
    /// holds it under `poni` as pyFAI's integration configuration does.
    ///
    /// # Errors
    /// As for [`Poni::parse`], or `json` is not an object.
    pub fn from_json(json: &Value) -> Result<Self, PoniError> {
        let object = json.as_object().ok_or(PoniError::NotAnObject)?;
        if let Some(inner @ Value::Object(_)) = object.get("poni") {
            return Self::from_json(inner);
        }
        let mut fields = PoniFields::default();
        for (key, value) in object.iter().filter(|(_, value)| !value.is_null()) {
            fields.set(key, value.clone());
        }
        fields.into_poni()
    }

    /// Returns what is accepted and may be a mistake: values that look like those of another unit,
    /// and keys that no version of the format has.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        for (key, metres, usual) in [
            ("Distance", self.dist, USUAL_DISTANCE),
            ("Poni1", self.poni1, USUAL_PONI),
            ("Poni2", self.poni2, USUAL_PONI),
        ] {
            if metres.abs() > usual {
                remarks.push(format!(
                    "{key}: {metres}: more than {usual} metres; write {} if that is in millimetres",
                    metres / 1000.0
                ));
            }
        }
        for (key, radians) in [("Rot1", self.rot1), ("Rot2", self.rot2), ("Rot3", self.rot3)] {
            if radians.abs() > TAU {
                remarks.push(format!(
                    "{key}: {radians}: more than a full turn in radians; write {:.6} if that is in degrees",
                    radians.to_radians()
                ));
            }
        }
        let unknown = |key: &String| format!("`{key}` is no key of a PONI file, and has no effect");
        remarks.extend(self.ignored.iter().map(unknown));
        remarks
    }
}

#[cfg(test)]
mod tests;
