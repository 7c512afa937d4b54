//! The sensor of a detector: material and thickness.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::options::{SettingValue, impl_setting_text};

/// A sensor, written `CdTe,750um` as in pyFAI.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "String")]
pub struct Sensor {
    /// Material, such as `Si`. The known materials are those of `geometry::SensorMaterial`.
    pub material: String,
    /// Thickness in metres.
    pub thickness: f64,
}

/// Units of length, each with how many of it make a metre.
const LENGTH_UNITS: [(&str, f64); 6] =
    [("um", 1e6), ("µm", 1e6), ("μm", 1e6), ("mm", 1e3), ("cm", 1e2), ("m", 1.0)];

/// Valid thicknesses in metres.
const THICKNESS_RANGE: std::ops::RangeInclusive<f64> = 1e-9..=1.0;

impl_setting_text!(Sensor, "a material and its thickness, 1e-9 to 1 m, such as CdTe,750um or Si,0.32mm",
    text => parse_sensor(text),
    value => {
        // Rounding to nine digits after the point removes the error of the conversion, so that the
        // text parses back.
        let micrometres = (value.thickness * 1e15).round() / 1e9;
        format!("{},{micrometres}um", value.material) });

fn parse_sensor(text: &str) -> Option<Sensor> {
    let (material, thickness) = text.split_once(',')?;
    let material = material.trim().to_owned();
    Some(Sensor { material, thickness: parse_metres(thickness.trim())? })
        .filter(|sensor| !sensor.material.is_empty())
}

fn parse_metres(text: &str) -> Option<f64> {
    let (number, per_metre) = LENGTH_UNITS
        .iter()
        .find_map(|(unit, per_metre)| Some((text.strip_suffix(unit)?, per_metre)))?;
    let number: f64 = number.trim().parse().ok()?;
    Some(number / per_metre).filter(|metres| THICKNESS_RANGE.contains(metres))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thickness_is_one_length_in_any_unit() {
        for text in ["CdTe,750um", "CdTe, 750 µm", "CdTe,0.75mm", "CdTe,0.075cm", "CdTe,0.00075m"]
        {
            assert_eq!(text.parse::<Sensor>().unwrap().to_string(), "CdTe,750um", "{text}");
        }
        assert_eq!("Si,320um".parse::<Sensor>().unwrap().thickness, 320e-6);
    }

    #[test]
    fn invalid_sensors_are_refused() {
        for bad in [
            "CdTe",
            "CdTe,750",
            "CdTe,-1mm",
            ",1mm",
            "CdTe,mm",
            "CdTe,nanmm",
            "CdTe,1e308m",
            "CdTe,2m",
            "CdTe,1e-30m",
            "CdTe,infm",
        ] {
            assert!(bad.parse::<Sensor>().unwrap_err().contains("such as CdTe,750um"), "{bad}");
        }
    }
}
