//! PONI files: the geometry of an experiment as pyFAI writes it, text of versions 1 to 3 and JSON.

mod config;
mod fields;

use serde_json::Value;

pub use config::{DetectorConfig, DetectorSpec};
use fields::PoniFields;

/// The geometry of an experiment. Lengths in metres, angles in radians.
#[derive(Clone, Debug, PartialEq)]
pub struct Poni {
    /// Orthogonal distance from the sample to the detector's plane.
    pub dist: f64,
    /// The point of normal incidence along the slow axis, from the detector's corner.
    pub poni1: f64,
    /// The point of normal incidence along the fast axis, from the detector's corner.
    pub poni2: f64,
    /// First rotation, about axis 1 (vertical), left-handed.
    pub rot1: f64,
    /// Second rotation, about axis 2 (horizontal), left-handed.
    pub rot2: f64,
    /// Third rotation, about the beam, right-handed.
    pub rot3: f64,
    /// Wavelength, where the file gives one.
    pub wavelength: Option<f64>,
    /// The detector, as the file names and configures it.
    pub detector: DetectorSpec,
    /// Keys that no version of the format knows: not used, and worth a warning.
    pub ignored: Vec<String>,
}

/// Why a PONI file was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoniError {
    /// The version is one that this code does not know.
    #[error("poni_version {0}: expected 1, 2, 2.1 or 3")]
    Version(String),
    /// A key that must be there is not.
    #[error("no {0} in the PONI file")]
    Missing(&'static str),
    /// A value that is not what its key asks for.
    #[error("{key}: {value}: expected {expected}")]
    Value {
        /// The key, as the format documents it.
        key: String,
        /// What was found.
        value: String,
        /// What would have been right.
        expected: &'static str,
    },
    /// The correction for the sensor's thickness is switched on.
    #[error("Parallax: True: the correction of parallax is not supported; expected False")]
    Parallax,
    /// A detector whose distortion is given by splines.
    #[error(
        "splineFile: {0}: distortion by a spline is not supported; \
         save the detector with pyFAI as a NeXus detector file and name that file as the detector"
    )]
    Spline(String),
    /// The text was to be JSON and is not.
    #[error("geometry: expected a JSON object with dist, poni1, poni2")]
    NotAnObject,
}

impl Poni {
    /// Reads the text of a PONI file. Keys are read whatever their case; of two lines with the same
    /// key the later one holds, for these files are appended to.
    pub fn parse(text: &str) -> Result<Self, PoniError> {
        let mut fields = PoniFields::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some((key, value)) = line.split_once(':') {
                fields.set(key.trim(), Value::String(value.trim().to_owned()));
            }
        }
        fields.into_poni()
    }

    /// Reads the JSON form, in which `dist` stands for `Distance`; also as the `poni` of pyFAI's
    /// integration configuration.
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
}

#[cfg(test)]
mod tests;
