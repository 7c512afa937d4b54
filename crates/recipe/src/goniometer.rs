//! pyFAI's goniometer files: the geometry as expressions of parameters and motors.

use std::ops::RangeInclusive;
use std::path::Path;

use records::{IdHasher, RawPath};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::RecipeError;
use crate::expression::Expression;

/// Keys of the expressions, and of the numbers in a PONI file that they give.
const EXPRESSIONS: [(&str, &str); 6] = [
    ("dist_expr", "Distance"),
    ("poni1_expr", "Poni1"),
    ("poni2_expr", "Poni2"),
    ("rot1_expr", "Rot1"),
    ("rot2_expr", "Rot2"),
    ("rot3_expr", "Rot3"),
];

/// The other keys of a transformation.
const OTHER_KEYS: [&str; 5] =
    ["wavelength_expr", "content", "param_names", "pos_names", "constants"];

/// Values of `content`, by which pyFAI recognizes its files.
const CONTENTS: [&str; 2] = ["Goniometer calibration v2", "Goniometer calibration v1.1"];

/// Constants that pyFAI defines: π, and in newer files hc in keV Å and the charge of the electron.
const CONSTANTS: [(&str, f64); 3] =
    [("pi", std::f64::consts::PI), ("hc", 12.398_419_843_320_026), ("q", 1.602_176_634e-19)];

/// The most names of parameters, positions and constants.
const MAX_NAMES: usize = 256;

/// Distances in metres to which the solid angle of all frames may refer.
const REFERENCE_DISTANCES: RangeInclusive<f64> = 1e-3..=1e3;

/// Settings of a detector that files of version 1.1 have beside its name.
const DETECTOR_KEYS: [&str; 4] = ["pixel1", "pixel2", "max_shape", "orientation"];

/// The goniometer file of a recipe, and the motors of the scan that it was applied to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoniometerFile {
    /// Absolute path of the file. Not part of the digest.
    pub path: RawPath,
    /// SHA-256 of the file in hexadecimal digits.
    pub sha256: String,
    /// Motors of the scan, in the order of the positions that the file names.
    pub motors: Vec<String>,
}

/// A goniometer: the geometry for each position of its motors.
#[derive(Clone, Debug)]
pub struct Goniometer {
    expressions: [Option<Expression>; 6],
    /// Parameters and constants, with NaN in place of the positions.
    values: Vec<f64>,
    /// Index of each position in `values`.
    positions: Vec<usize>,
    position_names: Vec<String>,
    wavelength: Option<f64>,
    detector: String,
    detector_config: Value,
}

impl Goniometer {
    /// Reads a goniometer file, for motors that may have other names than the file's positions: each
    /// of `motors` is `MOTOR` if there is one position, or `POSITION=MOTOR`.
    ///
    /// # Errors
    /// The file can't be read, or is not a goniometer file that can be applied.
    pub fn read(path: &Path, motors: &[String]) -> Result<(Self, GoniometerFile), RecipeError> {
        let text = system::untrusted_file::read_text(path)
            .map_err(|why| RecipeError::Io { path: path.to_path_buf(), why })?;
        let goniometer = Self::parse(&text)
            .map_err(|why| RecipeError::Syntax { path: path.to_path_buf(), why })?;
        let motors = goniometer
            .name_motors(motors)
            .map_err(|why| RecipeError::Setting { key: "motor", why })?;
        let absolute = std::path::absolute(path)
            .map_err(|why| RecipeError::Io { path: path.to_path_buf(), why })?;
        let sha256 = IdHasher::sha256_hex(text.as_bytes());
        Ok((goniometer, GoniometerFile { path: absolute.into(), sha256, motors }))
    }

    /// Reads the file of a recipe again.
    ///
    /// # Errors
    /// The file can't be read, or has changed.
    pub fn load(file: &GoniometerFile) -> Result<Self, RecipeError> {
        let (goniometer, found) = Self::read(&file.path, &[])?;
        if found.sha256 == file.sha256 {
            return Ok(goniometer);
        }
        Err(RecipeError::Changed {
            path: file.path.to_path_buf(),
            found: found.sha256,
            expected: file.sha256.clone(),
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let file: Map<String, Value> = serde_json::from_str(text)
            .map_err(|why| format!("expected the JSON of a pyFAI goniometer: {why}"))?;
        let content = file.get("content").and_then(Value::as_str).unwrap_or_default();
        if !CONTENTS.contains(&content) {
            return Err(format!(
                "content: {content:?}: expected {:?}, as pyFAI's Goniometer.save writes it",
                CONTENTS[0]
            ));
        }
        let transformation = file
            .get("trans_function")
            .and_then(Value::as_object)
            .ok_or("trans_function: missing; expected the expressions of the geometry")?;
        let kind = transformation.get("content").and_then(Value::as_str);
        if !matches!(
            kind,
            None | Some(
                "GeometryTransformation" | "GeometryTranslation" | "ExtendedTransformation"
            )
        ) {
            return Err(format!(
                "trans_function.content: {:?}: expected GeometryTransformation or ExtendedTransformation",
                kind.unwrap_or_default()
            ));
        }
        let parameters = texts(transformation, "param_names")?.unwrap_or_default();
        let position_names =
            texts(transformation, "pos_names")?.unwrap_or_else(|| vec!["pos".to_owned()]);
        let given = numbers(&file)?;
        if given.len() != parameters.len() {
            return Err(format!(
                "param: {} numbers for {} param_names; expected one for each",
                given.len(),
                parameters.len()
            ));
        }
        let mut constants: Vec<(String, f64)> = Vec::new();
        for (name, value) in
            transformation.get("constants").and_then(Value::as_object).into_iter().flatten()
        {
            let value =
                value.as_f64().ok_or_else(|| format!("constants: {name}: expected a number"))?;
            constants.push((name.clone(), value));
        }
        for (name, value) in CONSTANTS {
            let is_known = constants.iter().any(|(known, _)| known == name)
                || parameters.iter().chain(&position_names).any(|known| known == name);
            if !is_known {
                constants.push((name.to_owned(), value));
            }
        }
        let first_position = parameters.len();
        let positions = (first_position..first_position + position_names.len()).collect();
        let names: Vec<&str> = parameters
            .iter()
            .chain(&position_names)
            .chain(constants.iter().map(|(name, _)| name))
            .map(String::as_str)
            .collect();
        if names.len() > MAX_NAMES {
            return Err(format!(
                "{} names of parameters, positions and constants; expected at most {MAX_NAMES}",
                names.len()
            ));
        }
        if let Some(twice) = (1..names.len()).find(|&index| names[..index].contains(&names[index]))
        {
            return Err(format!(
                "{}: named twice among param_names, pos_names and constants",
                names[twice]
            ));
        }
        let values = given
            .into_iter()
            .chain(position_names.iter().map(|_| f64::NAN))
            .chain(constants.iter().map(|(_, value)| *value))
            .collect();
        let parse = |key: &str| match transformation.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Expression::parse(text, &names)
                .map(Some)
                .map_err(|why| format!("{key}: {text:?}: {why}")),
            Some(other) => Err(format!("{key}: {other}: expected the text of an expression")),
        };
        let mut expressions: [Option<Expression>; 6] = Default::default();
        for (expression, (key, _)) in expressions.iter_mut().zip(EXPRESSIONS) {
            *expression = parse(key)?;
        }
        // One without its expression would count as 0: pyFAI requires all six, but of an extended
        // transformation, of which it leaves them out.
        let is_extended = kind == Some("ExtendedTransformation");
        for (expression, (key, _)) in expressions.iter().zip(EXPRESSIONS) {
            if expression.is_none() && (key == "dist_expr" || !is_extended) {
                return Err(format!("{key}: missing; expected an expression, such as \"0.0\""));
            }
        }
        let known = EXPRESSIONS.map(|(key, _)| key).into_iter().chain(OTHER_KEYS);
        let known: Vec<&str> = known.collect();
        if let Some(key) = transformation.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(format!("trans_function.{key}: unknown; known are {}", known.join(", ")));
        }
        let wavelength = parse("wavelength_expr")?;
        let detector =
            file.get("detector").and_then(Value::as_str).unwrap_or("Detector").to_owned();
        if detector.contains(char::is_control) {
            return Err(format!("detector: {detector:?}: expected the name of a detector"));
        }
        let detector_config = match file.get("detector_config") {
            Some(config @ Value::Object(_)) => config.clone(),
            _ => {
                let of_version_1 = DETECTOR_KEYS.into_iter().filter_map(|key| {
                    let value = file.get(key).filter(|value| !value.is_null())?;
                    Some((key.to_owned(), value.clone()))
                });
                Value::Object(of_version_1.collect())
            }
        };
        let mut read = Self {
            expressions,
            values,
            positions,
            position_names,
            wavelength: file.get("wavelength").and_then(Value::as_f64),
            detector,
            detector_config,
        };
        if let Some(expression) = wavelength {
            if read.positions.iter().any(|&position| expression.depends_on(position)) {
                return Err("wavelength_expr: depends on a motor, which is not supported; integrate scans of one \
                            wavelength"
                    .to_owned());
            }
            read.wavelength = Some(expression.evaluate(&read.values));
        }
        Ok(read)
    }

    /// Returns the motor of each position. Positions that `motors` does not name are motors
    /// themselves.
    fn name_motors(&self, motors: &[String]) -> Result<Vec<String>, String> {
        let mut named = self.position_names.clone();
        let mut given = vec![false; named.len()];
        for text in motors {
            let (position, motor) = match text.split_once('=') {
                Some((position, motor)) => {
                    let index = self.position_names.iter().position(|name| name == position);
                    (index, motor)
                }
                None => (Some(0).filter(|_| named.len() == 1), text.as_str()),
            };
            let Some(position) = position.filter(|_| !motor.is_empty()) else {
                return Err(format!(
                    "{text}: expected POSITION=MOTOR, with a position of the goniometer: {}",
                    self.position_names.join(", ")
                ));
            };
            if std::mem::replace(&mut given[position], true) {
                let name = &self.position_names[position];
                return Err(format!(
                    "{text}: a second motor for {name}, after {}; expected one",
                    named[position]
                ));
            }
            motor.clone_into(&mut named[position]);
        }
        Ok(named)
    }

    /// Returns the PONI text to which the solid angle of all frames refers: the geometry with all
    /// motors at 0, with a distance of 1 m if that gives none from 1 mm to 1 km.
    pub fn reference_poni(&self) -> String {
        let zeros = vec![0.0; self.positions.len()];
        let mut numbers =
            self.evaluate(&zeros).map(|value| if value.is_finite() { value } else { 0.0 });
        if !REFERENCE_DISTANCES.contains(&numbers[0]) {
            numbers[0] = 1.0;
        }
        let wavelength = match self.wavelength {
            Some(wavelength) => format!("Wavelength: {wavelength:?}\n"),
            None => String::new(),
        };
        format!(
            "poni_version: 2.1\nDetector: {}\nDetector_config: {}\n{}{wavelength}",
            self.detector,
            self.detector_config,
            poni_lines(&numbers)
        )
    }

    /// Returns the PONI text for these positions of the motors: `reference` with other numbers.
    /// `None` if a position or a number is not finite, or the distance is not positive.
    pub fn poni_at(&self, reference: &str, positions: &[f64]) -> Option<String> {
        let numbers = self.evaluate(positions);
        let is_usable = positions.iter().chain(&numbers).all(|value| value.is_finite());
        // The last line with a key counts.
        (is_usable && numbers[0] > 0.0).then(|| format!("{reference}{}", poni_lines(&numbers)))
    }

    fn evaluate(&self, positions: &[f64]) -> [f64; 6] {
        let mut values = self.values.clone();
        self.positions.iter().zip(positions).for_each(|(&index, &value)| values[index] = value);
        let number = |expression: &Option<Expression>| {
            expression.as_ref().map_or(0.0, |expression| expression.evaluate(&values))
        };
        self.expressions.each_ref().map(number)
    }
}

fn poni_lines(numbers: &[f64; 6]) -> String {
    let lines = EXPRESSIONS.iter().zip(numbers);
    // A zero has no sign, so that equal geometries have equal texts.
    lines.map(|((_, key), number)| format!("{key}: {:?}\n", number + 0.0)).collect()
}

/// Returns the texts of a list; `None` if it is absent.
fn texts(object: &Map<String, Value>, key: &str) -> Result<Option<Vec<String>>, String> {
    let wrong = || format!("trans_function.{key}: expected a list of names");
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(list)) => {
            let texts = list.iter().map(|text| text.as_str().map(str::to_owned));
            texts.collect::<Option<Vec<String>>>().map(Some).ok_or_else(wrong)
        }
        Some(_) => Err(wrong()),
    }
}

fn numbers(file: &Map<String, Value>) -> Result<Vec<f64>, String> {
    let list = file.get("param").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let numbers = list.iter().map(Value::as_f64).collect::<Option<Vec<f64>>>();
    numbers.ok_or_else(|| "param: expected a list of numbers".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{"content": "Goniometer calibration v2", "detector": "Pilatus 100k",
        "detector_config": {"orientation": 3}, "wavelength": 1e-10, "param": [0.1, 0.5, 2.0],
        "param_names": ["dist", "offset", "scale"], "pos_names": ["del", "nu"],
        "trans_function": {"content": "GeometryTransformation", "param_names": ["dist", "offset", "scale"],
            "pos_names": ["del", "nu"], "dist_expr": "dist", "poni1_expr": "nu * 1e-3", "poni2_expr": "0",
            "rot1_expr": "(del * scale + offset) * pi / 180", "rot2_expr": "-nu", "rot3_expr": "0.0",
            "constants": {"pi": 3.141592653589793}}}"#;

    #[test]
    fn the_geometry_follows_the_motors() {
        let goniometer = Goniometer::parse(FILE).unwrap();
        let reference = goniometer.reference_poni();
        let poni = geometry::Poni::parse(&reference).unwrap();
        assert_eq!(
            (poni.dist, poni.rot1, poni.wavelength),
            (0.1, 0.5_f64.to_radians(), Some(1e-10))
        );
        let moved = goniometer.poni_at(&reference, &[10.0, 2.0]).unwrap();
        let poni = geometry::Poni::parse(&moved).unwrap();
        assert_eq!((poni.dist, poni.poni1, poni.rot2), (0.1, 2e-3, -2.0));
        assert!((poni.rot1 - 20.5_f64.to_radians()).abs() < 1e-15);
        assert_eq!(goniometer.poni_at(&reference, &[f64::NAN, 0.0]), None);
        assert_eq!(
            goniometer.poni_at(&reference, &[1.0, -0.0]),
            goniometer.poni_at(&reference, &[1.0, 0.0])
        );
    }

    #[test]
    fn the_solid_angle_refers_to_a_distance_of_a_detector() {
        for (dist, expected) in [("1e-300", 1.0), ("1e9", 1.0), ("del - 1", 1.0), ("0.002", 0.002)]
        {
            let text =
                FILE.replace("\"dist_expr\": \"dist\"", &format!("\"dist_expr\": \"{dist}\""));
            let reference = Goniometer::parse(&text).unwrap().reference_poni();
            assert_eq!(geometry::Poni::parse(&reference).unwrap().dist, expected, "{dist}");
        }
    }

    #[test]
    fn motors_may_have_other_names() {
        let goniometer = Goniometer::parse(FILE).unwrap();
        let name = |motors: &[&str]| {
            goniometer
                .name_motors(&motors.iter().map(|&motor| motor.to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(name(&[]).unwrap(), ["del", "nu"]);
        assert_eq!(name(&["nu=tth"]).unwrap(), ["del", "tth"]);
        let expected = "expected POSITION=MOTOR, with a position of the goniometer: del, nu";
        for wrong in ["tth", "x=tth", "nu="] {
            assert_eq!(name(&[wrong]).unwrap_err(), format!("{wrong}: {expected}"));
        }
        let twice = name(&["nu=tth", "nu=chi"]).unwrap_err();
        assert_eq!(twice, "nu=chi: a second motor for nu, after tth; expected one");
    }

    #[test]
    fn what_can_not_be_applied_is_refused() {
        let refuse = |from: &str, to: &str| {
            assert!(FILE.contains(from));
            Goniometer::parse(&FILE.replace(from, to)).unwrap_err()
        };
        assert!(Goniometer::parse("{").unwrap_err().starts_with("expected the JSON of a pyFAI"));
        assert!(refuse("calibration v2", "v9").starts_with("content: \"Goniometer v9\": expected"));
        assert!(refuse("\"trans_function\"", "\"other\"").starts_with("trans_function: missing"));
        assert!(refuse("GeometryTransformation", "Mine").contains("\"Mine\": expected Geometry"));
        assert_eq!(
            refuse("0.1, 0.5, 2.0", "0.1"),
            "param: 1 numbers for 3 param_names; expected one for each"
        );
        assert!(
            refuse("-nu", "-my").starts_with("rot2_expr: \"-my\": unknown name `my`; known are")
        );
        assert!(refuse("-nu", "where(nu)").contains("unknown function `where`"));
        assert!(refuse("\"dist_expr\": \"dist\", ", "").starts_with("dist_expr: missing"));
        for (key, _) in EXPRESSIONS {
            let mistyped = refuse(key, "rot_expr");
            assert!(mistyped.starts_with(&format!("{key}: missing; expected")), "{mistyped}");
        }
        let extended = FILE.replace("GeometryTransformation", "ExtendedTransformation");
        let of_extended = |from: &str, to: &str| Goniometer::parse(&extended.replace(from, to));
        assert!(of_extended(", \"rot3_expr\": \"0.0\"", "").is_ok(), "as pyFAI leaves it out");
        let unknown = of_extended("rot3_expr", "rot3_exp").unwrap_err();
        assert!(unknown.starts_with("trans_function.rot3_exp: unknown; known are"), "{unknown}");
        assert!(refuse("{\"pi\"", "{\"nu\"").starts_with("nu: named twice"));
        let names: String = (0..300).map(|index| format!("\"c{index}\": 1,")).collect();
        let many = refuse("{\"pi\"", &format!("{{{names}\"pi\""));
        assert_eq!(many, "308 names of parameters, positions and constants; expected at most 256");
        assert_eq!(
            refuse("Pilatus 100k", "Pilatus\\nWavelength: 2e-10"),
            "detector: \"Pilatus\\nWavelength: 2e-10\": expected the name of a detector"
        );
        let varying = "\"rot3_expr\": \"0.0\", \"wavelength_expr\": \"1e-10 * nu\"";
        assert!(refuse("\"rot3_expr\": \"0.0\"", varying).starts_with("wavelength_expr: depends"));
    }
}
