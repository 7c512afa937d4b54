//! Keys and values of a PONI file, collected first and then validated together.

use std::collections::BTreeMap;

use serde_json::Value;

use super::value::{number_error, parse_number, value_error, value_text};
use super::{DetectorSpec, Poni, PoniError};
use crate::sensor::UnknownMaterial;
use crate::{ParallaxSensor, SensorMaterial};

/// Keys of all versions of the format, in lower case.
const KNOWN_KEYS: [&str; 15] = [
    "poni_version",
    "detector",
    "detector_config",
    "pixelsize1",
    "pixelsize2",
    "splinefile",
    "distance",
    "dist",
    "poni1",
    "poni2",
    "rot1",
    "rot2",
    "rot3",
    "wavelength",
    "parallax",
];

const EXPECTED_SENSOR: &str = "\"sensor\": {\"material\": \"Si\", \"thickness\": 0.00032}";
/// Plausible thicknesses of a sensor in metres.
const THICKNESS_RANGE: std::ops::RangeInclusive<f64> = 1e-9..=1.0;

const EXPECTED_NUMBER: &str = "a finite number";

/// Plausible distances in metres; anything larger was written in another unit.
const DISTANCE_RANGE: std::ops::RangeInclusive<f64> = 1e-6..=200.0;
/// Largest plausible coordinate of the point of normal incidence, in metres.
const MAX_PONI: f64 = 1000.0;
/// Largest plausible rotation in radians: a refinement may return an angle with some full turns.
const MAX_ROTATION: f64 = 100.0;
/// Plausible wavelengths of X-rays and neutrons, in metres.
const WAVELENGTH_RANGE: std::ops::RangeInclusive<f64> = 1e-13..=1e-7;

/// The last value of each key; keys are in lower case.
#[derive(Default)]
pub(super) struct PoniFields(BTreeMap<String, Value>);

impl PoniFields {
    pub(super) fn set(&mut self, key: &str, value: Value) {
        self.0.insert(key.to_lowercase(), value);
    }

    /// Returns whether any key says where the detector is, as in every PONI file.
    pub(super) fn has_placement(&self) -> bool {
        ["distance", "dist", "poni1", "poni2"].iter().any(|key| self.0.contains_key(*key))
    }

    pub(super) fn into_poni(self) -> Result<Poni, PoniError> {
        let version = self.version()?;
        let wavelength = self.number("wavelength")?;
        if let Some(wavelength) =
            wavelength.filter(|wavelength| !WAVELENGTH_RANGE.contains(wavelength))
        {
            return Err(number_error("Wavelength", wavelength, "metres, from 1e-13 to 1e-7"));
        }
        let distance = match self.number("distance")? {
            Some(distance) => distance,
            None => self.number("dist")?.ok_or(PoniError::Missing("Distance"))?,
        };
        if !DISTANCE_RANGE.contains(&distance) {
            return Err(number_error("Distance", distance, "metres, from 1e-6 to 200"));
        }
        let poni = |key: &'static str| {
            let metres = self.number(&key.to_lowercase())?.ok_or(PoniError::Missing(key))?;
            if metres.abs() > MAX_PONI {
                return Err(number_error(key, metres, "metres, from -1000 to 1000"));
            }
            Ok(metres)
        };
        let rotation = |key: &'static str| {
            let radians = self.number(&key.to_lowercase())?.unwrap_or(0.0);
            if radians.abs() > MAX_ROTATION {
                return Err(number_error(key, radians, "radians, from -100 to 100"));
            }
            Ok(radians)
        };
        let detector =
            if version < 2.0 { self.parse_version_1()? } else { self.parse_version_2()? };
        Ok(Poni {
            parallax: self.parallax(version, wavelength, detector.config.sensor.as_ref())?,
            dist: distance,
            poni1: poni("Poni1")?,
            poni2: poni("Poni2")?,
            rot1: rotation("Rot1")?,
            rot2: rotation("Rot2")?,
            rot3: rotation("Rot3")?,
            wavelength,
            detector,
            ignored: self.0.into_keys().filter(|key| !KNOWN_KEYS.contains(&key.as_str())).collect(),
        })
    }

    /// Returns the version that the file claims, or 2 if its keys imply at least that.
    fn version(&self) -> Result<f64, PoniError> {
        let claimed = match self.0.get("poni_version") {
            None => 1.0,
            Some(value) => {
                parse_number(value).ok_or_else(|| PoniError::Version(value_text(value)))?
            }
        };
        if !(1.0..=3.0).contains(&claimed) {
            return Err(PoniError::Version(claimed.to_string()));
        }
        let implied = if self.0.contains_key("detector_config") { 2.0 } else { 1.0 };
        Ok(claimed.max(implied))
    }

    /// Returns the sensor by which parallax is to be corrected. `sensor` is that of
    /// `Detector_config`.
    fn parallax(
        &self,
        version: f64,
        wavelength: Option<f64>,
        sensor: Option<&Value>,
    ) -> Result<Option<ParallaxSensor>, PoniError> {
        let refuse = |why: String| Err(PoniError::Parallax(why));
        match self.0.get("parallax") {
            None | Some(Value::Bool(false)) => return Ok(None),
            Some(Value::String(text)) if !text.eq_ignore_ascii_case("true") => return Ok(None),
            Some(_) => (),
        }
        if version < 3.0 {
            return refuse(
                "has no effect before `poni_version: 3`; expected that version, or False"
                    .to_owned(),
            );
        }
        let Some(wavelength) = wavelength else {
            return refuse(
                "needs a wavelength; add `Wavelength: METRES`, or write False".to_owned(),
            );
        };
        let Some(sensor) = sensor else {
            return refuse(format!(
                "needs the sensor; add it to Detector_config, as in {EXPECTED_SENSOR}, or write False"
            ));
        };
        let entry = |key| sensor.get(key).filter(|value| !value.is_null());
        let Some(material) = entry("material").and_then(Value::as_str) else {
            return refuse(format!("sensor {sensor}: expected {EXPECTED_SENSOR}"));
        };
        let material: SensorMaterial = material
            .parse()
            .map_err(|why: UnknownMaterial| PoniError::Parallax(why.to_string()))?;
        let thickness = entry("thickness").map(|value| {
            parse_number(value).filter(|metres| THICKNESS_RANGE.contains(metres)).ok_or_else(|| {
                let why = format!("sensor {sensor}: thickness: expected metres, from 1e-9 to 1");
                PoniError::Parallax(why)
            })
        });
        let attenuation = material
            .pyfai_attenuation_coefficient(wavelength)
            .map_err(|why| PoniError::Parallax(format!("{}: {why}", material.name())))?;
        Ok(Some(ParallaxSensor { material, thickness: thickness.transpose()?, attenuation }))
    }

    /// Reads the detector of a file of version 1, whose keys `Detector`, `PixelSize1` and
    /// `PixelSize2` are optional.
    fn parse_version_1(&self) -> Result<DetectorSpec, PoniError> {
        match self.text("splinefile")? {
            Some(file) if !file.eq_ignore_ascii_case("none") => {
                return Err(PoniError::Spline(file));
            }
            _ => {}
        }
        let size = |key: &'static str| {
            let value = self.0.get(&key.to_lowercase());
            value.map(|value| super::config::pixel_size(key, value)).transpose()
        };
        let sizes = [size("PixelSize1")?, size("PixelSize2")?];
        Ok(DetectorSpec::parse_version_1(self.text("detector")?, sizes))
    }

    /// Reads the detector of a file of version 2 or later: its name and `Detector_config`, a JSON
    /// object on one line.
    fn parse_version_2(&self) -> Result<DetectorSpec, PoniError> {
        let name = self.text("detector")?.ok_or(PoniError::Missing("Detector"))?;
        let config = match self.0.get("detector_config") {
            None => Value::Null,
            Some(Value::String(text)) => serde_json::from_str(text).map_err(|_| {
                value_error("Detector_config", text, "a JSON object, as in {\"orientation\": 3}")
            })?,
            Some(value) => value.clone(),
        };
        DetectorSpec::parse_version_2(name, &config)
    }

    fn text(&self, key: &str) -> Result<Option<String>, PoniError> {
        match self.0.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(value_error(key, value_text(other), "a string")),
        }
    }

    fn number(&self, key: &str) -> Result<Option<f64>, PoniError> {
        let Some(value) = self.0.get(key) else { return Ok(None) };
        match parse_number(value) {
            Some(number) => Ok(Some(number)),
            None => Err(value_error(key, value_text(value), EXPECTED_NUMBER)),
        }
    }
}
