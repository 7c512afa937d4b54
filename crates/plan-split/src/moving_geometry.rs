//! Checks a recipe whose geometry differs between frames.

use std::io::ErrorKind;
use std::path::Path;

use geometry::{Detector, Poni};
use recipe::{FileRef, Recipe, RecipeError};

use crate::plan_error::PlanError;

/// Checks that all geometries of a recipe have the detector and the wavelength of the first, and
/// that none corrects parallax.
///
/// # Errors
/// A PONI file can't be parsed, or is of another detector or wavelength.
pub fn check(recipe: &Recipe) -> Result<(), PlanError> {
    let Some(first) = recipe.poni_table.first() else { return Ok(()) };
    let parse = |range: &recipe::PoniRange| {
        let wrong = |why: String| PlanError::Geometry { poni: range.poni_file.to_path_buf(), why };
        let poni = Poni::parse(&range.poni).map_err(|why| wrong(why.to_string()))?;
        if poni.parallax.is_some() {
            let why = "Parallax: True: not supported for a detector that moves; switch it off";
            return Err(wrong(why.to_owned()));
        }
        let detector = match poni.detector.file() {
            Some(name) => {
                // A file of that name beside this PONI file may be that of another detector.
                let beside = range.poni_file.parent().unwrap_or(Path::new("")).join(name);
                match FileRef::resolve(&beside.into(), Path::new("")) {
                    Ok(beside) => beside.sha256,
                    Err(RecipeError::Io { why, .. }) if why.kind() == ErrorKind::NotFound => recipe
                        .detector_file
                        .as_ref()
                        .map_or(String::new(), |file| file.sha256.clone()),
                    Err(why) => return Err(why.into()),
                }
            }
            None => describe_detector(
                &Detector::from_poni(&poni).map_err(|why| wrong(why.to_string()))?,
            ),
        };
        Ok((poni, detector))
    };
    let (first_poni, first_detector) = parse(first)?;
    for range in &recipe.poni_table[1..] {
        let (poni, detector) = parse(range)?;
        let wrong = |what: &str, found: String, expected: &str| PlanError::Geometry {
            poni: range.poni_file.to_path_buf(),
            why: format!(
                "{what} {found}; expected {expected} as for the first frames: all positions of a table have one {what}"
            ),
        };
        if poni.wavelength != first_poni.wavelength {
            let [found, expected] = [&poni, &first_poni].map(|poni| match poni.wavelength {
                Some(wavelength) => format!("{wavelength:e} m"),
                None => "none".to_owned(),
            });
            return Err(wrong("wavelength", found, &expected));
        }
        if detector != first_detector {
            return Err(wrong("detector", detector, &first_detector));
        }
    }
    Ok(())
}

fn describe_detector(detector: &Detector) -> String {
    let shape = match detector.shape {
        Some([rows, columns]) => format!("{rows} x {columns} "),
        None => String::new(),
    };
    format!(
        "{} of {shape}pixels of {:?} x {:?} m, orientation {}",
        detector.name,
        detector.pixel1,
        detector.pixel2,
        detector.orientation.number()
    )
}
