//! [`IncidentAngle`]: the angle by which a sample is turned towards the beam.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::options::SettingValue;

/// The angle by which the sample is turned towards the beam: one for all frames, or one for each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SettingValue", into = "SettingValue")]
pub enum IncidentAngle {
    /// One angle for all frames, in degrees.
    Degrees(f64),
    /// The position of a motor or counter of the scan with this name, in each frame.
    Motor(String),
}

impl FromStr for IncidentAngle {
    type Err = String;

    /// Parses a number of degrees; any other text is the name of a motor.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().parse() {
            Ok(degrees) => Ok(Self::Degrees(degrees)),
            Err(_) if text.trim().is_empty() => {
                Err("expected a number of degrees, or the name of a motor".to_owned())
            }
            Err(_) => Ok(Self::Motor(text.to_owned())),
        }
    }
}

impl TryFrom<SettingValue> for IncidentAngle {
    type Error = String;

    fn try_from(value: SettingValue) -> Result<Self, String> {
        match value {
            SettingValue::Integer(degrees) => Ok(Self::Degrees(degrees as f64)),
            SettingValue::Float(degrees) => Ok(Self::Degrees(degrees)),
            SettingValue::Text(text) => text.parse(),
            SettingValue::Numbers(_) => {
                Err(format!("{value}: expected a number of degrees, or the name of a motor"))
            }
        }
    }
}

impl From<IncidentAngle> for SettingValue {
    fn from(angle: IncidentAngle) -> Self {
        match angle {
            IncidentAngle::Degrees(degrees) => Self::Float(degrees),
            IncidentAngle::Motor(motor) => Self::Text(motor),
        }
    }
}

impl fmt::Display for IncidentAngle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Degrees(degrees) => degrees.fmt(f),
            Self::Motor(motor) => f.write_str(motor),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_degrees_and_other_texts_are_motors() {
        let motor = |name: &str| Ok(IncidentAngle::Motor(name.to_owned()));
        assert_eq!("0.2".parse(), Ok(IncidentAngle::Degrees(0.2)));
        assert_eq!(" -1e-1 ".parse(), Ok(IncidentAngle::Degrees(-0.1)));
        assert_eq!("th".parse(), motor("th"));
        assert_eq!("0.2deg".parse(), motor("0.2deg"));
        let empty = "expected a number of degrees, or the name of a motor";
        assert_eq!(" ".parse::<IncidentAngle>(), Err(empty.to_owned()));
    }

    #[test]
    fn a_recipe_has_a_number_or_a_name() {
        #[derive(Debug, PartialEq, Deserialize, Serialize)]
        struct File {
            angle: IncidentAngle,
        }
        let parse = |text: &str| toml::from_str::<File>(text).map(|file| file.angle);
        for text in ["angle = 0.2", "angle = '0.2'"] {
            assert_eq!(parse(text).unwrap(), IncidentAngle::Degrees(0.2));
        }
        assert_eq!(parse("angle = 1").unwrap(), IncidentAngle::Degrees(1.0));
        assert_eq!(parse("angle = 'th'").unwrap(), IncidentAngle::Motor("th".to_owned()));
        for text in ["angle = ''", "angle = true", "angle = [1, 2]"] {
            assert!(parse(text).is_err(), "{text}");
        }
        // The digest of a recipe with a number is what it was.
        let json = |angle| serde_json::to_string(&File { angle }).unwrap();
        assert_eq!(json(IncidentAngle::Degrees(2.0)), r#"{"angle":2.0}"#);
        assert_eq!(json(IncidentAngle::Motor("th".to_owned())), r#"{"angle":"th"}"#);
    }
}
