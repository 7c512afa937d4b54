//! The detector section of a PONI file.

use std::path::Path;

use serde_json::{Map, Value};

use super::PoniError;
use super::value::{parse_number, value_error, value_text};
use crate::Orientation;

/// Largest plausible pixel size in metres; anything larger was written in another unit.
const MAX_PIXEL_SIZE: f64 = 0.1;

/// The detector that a PONI file names and configures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DetectorSpec {
    /// Class name or alias in pyFAI, or path of a NeXus detector file. `None` if a file of version
    /// 1 gives only pixel sizes.
    pub name: Option<String>,
    /// Settings of the detector.
    pub config: DetectorConfig,
    /// True for a file of version 1, where pixel sizes turn any detector without a fixed pixel size
    /// into a generic grid.
    pub(crate) is_version_1: bool,
}

/// The settings in `Detector_config` that affect pixel positions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DetectorConfig {
    /// Size of a pixel along the slow axis, in metres.
    pub pixel1: Option<f64>,
    /// Size of a pixel along the fast axis, in metres.
    pub pixel2: Option<f64>,
    /// Rows and columns of the unbinned detector.
    pub max_shape: Option<[usize; 2]>,
    /// Orientation, if given.
    pub orientation: Option<Orientation>,
    /// Path of the detector file of a `NexusDetector`.
    pub filename: Option<String>,
    /// Sensor, which has an effect only if parallax is corrected.
    pub(crate) sensor: Option<Value>,
    /// Keys of unknown settings. They may affect positions, so a detector with any of them is
    /// refused.
    pub unknown: Vec<String>,
}

impl DetectorSpec {
    pub(super) fn parse_version_1(
        name: Option<String>,
        [pixel1, pixel2]: [Option<f64>; 2],
    ) -> Self {
        let config = DetectorConfig { pixel1, pixel2, ..DetectorConfig::default() };
        Self { name, config, is_version_1: true }
    }

    pub(super) fn parse_version_2(name: String, config: &Value) -> Result<Self, PoniError> {
        let config = match config {
            Value::Null => DetectorConfig::default(),
            Value::Object(settings) => DetectorConfig::from_json(settings)?,
            other => {
                return Err(value_error(
                    "Detector_config",
                    other,
                    "a JSON object, as in {\"orientation\": 3}",
                ));
            }
        };
        Ok(Self { name: Some(name), config, is_version_1: false })
    }

    /// Returns whether the PONI file has version 1.
    pub fn is_version_1(&self) -> bool {
        self.is_version_1
    }

    /// Returns the path of the NeXus detector file that describes the detector; `None` if it is
    /// known by name.
    pub fn file(&self) -> Option<&Path> {
        if let Some(file) = &self.config.filename {
            return Some(Path::new(file));
        }
        let name = self.name.as_deref()?;
        let suffix = Path::new(name).extension().and_then(|suffix| suffix.to_str());
        let is_file =
            name.contains('/') || matches!(suffix, Some("h5" | "hdf5" | "nxs" | "nx" | "hdf"));
        is_file.then(|| Path::new(name))
    }
}

impl DetectorConfig {
    fn from_json(settings: &Map<String, Value>) -> Result<Self, PoniError> {
        let mut config = Self::default();
        for (key, value) in settings.iter().filter(|(_, value)| !value.is_null()) {
            match key.to_lowercase().as_str() {
                "pixel1" => config.pixel1 = Some(pixel_size(key, value)?),
                "pixel2" => config.pixel2 = Some(pixel_size(key, value)?),
                "max_shape" | "shape" => config.max_shape = Some(shape(key, value)?),
                "orientation" => config.orientation = orientation(key, value)?,
                "filename" => config.filename = Some(value_text(value)),
                "sensor" => config.sensor = Some(value.clone()),
                "splinefile" => return Err(PoniError::Spline(value_text(value))),
                _ => config.unknown.push(key.clone()),
            }
        }
        Ok(config)
    }
}

pub(super) fn pixel_size(key: &str, value: &Value) -> Result<f64, PoniError> {
    let is_plausible = |size: &f64| *size > 0.0 && *size <= MAX_PIXEL_SIZE;
    parse_number(value)
        .filter(is_plausible)
        .ok_or_else(|| value_error(key, value_text(value), "metres, above 0 and up to 0.1"))
}

fn shape(key: &str, value: &Value) -> Result<[usize; 2], PoniError> {
    let sides: Option<Vec<usize>> = value.as_array().and_then(|sides| {
        sides
            .iter()
            .map(|side| usize::try_from(side.as_u64().filter(|&side| side > 0)?).ok())
            .collect()
    });
    sides
        .and_then(|sides| sides.try_into().ok())
        .ok_or_else(|| value_error(key, value, "[rows, columns]"))
}

/// Parses an orientation; pyFAI writes 0 for the detector's default.
fn orientation(key: &str, value: &Value) -> Result<Option<Orientation>, PoniError> {
    match value.as_u64() {
        Some(0) => Ok(None),
        Some(number) if Orientation::from_number(number).is_some() => {
            Ok(Orientation::from_number(number))
        }
        _ => Err(value_error(key, value, "1, 2, 3 or 4")),
    }
}
