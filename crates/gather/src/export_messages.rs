//! Warnings about numbers in exports that a reader could take for better than they are.

use std::path::Path;

use patterns::export::{Calibration, Standard};
use recipe::RecipeError;
use records::{Spans, format_frames};

use crate::messages::MAX_RANGES;

/// Warns that a format needs errors, and the patterns have none.
pub fn no_errors(path: &Path, format: &str, instead: &str) -> String {
    format!(
        "{}: has no errors (--error-model no): --export {format} {instead}; integrate with another --error-model for errors",
        path.display()
    )
}

/// Warns that averages are of no frame.
pub fn averages_of_nothing(path: &Path, frames: &Spans) -> String {
    format!(
        "{}: no pattern of {}: their averages are not exported",
        path.display(),
        format_frames(frames, MAX_RANGES)
    )
}

/// Warns that a calibration factor has a large error.
pub fn imprecise_factor(path: &Path, standard: &Standard, calibration: &Calibration) -> String {
    let percent = 100.0 * calibration.measured_relative_error();
    format!(
        "{}: its calibration factor from {standard} is known to {percent:.0} % only, and so are all intensities in 1/cm: \
         measure the standard for longer, or choose a wider --calibration-range",
        path.display()
    )
}

/// Warns that files of a recipe may not be known by their newest paths. `why` names the recipe.
pub fn recipe_not_read(why: &RecipeError) -> String {
    format!(
        "images that were moved since the final file was made may be written over by exports of this run: {why}"
    )
}

#[cfg(test)]
mod tests {
    use patterns::export::CalibrationFactor;

    use super::*;

    #[test]
    fn every_message() {
        let path = Path::new("/out/s_scan0001_p3.h5");
        let water = Standard::open(Path::new("water")).unwrap();
        let calibration = Calibration {
            factor: CalibrationFactor { value: 0.02, error: Some(0.005) },
            standard_relative_error: Some(0.15),
            chi2: Some(1.1),
            bins: 30,
            range: [2.0, 5.0],
        };
        assert_eq!(
            [
                no_errors(path, "fxye", "has an error of 1 at each point"),
                imprecise_factor(path, &water, &calibration),
                averages_of_nothing(path, &Spans::first_n(10)),
                recipe_not_read(&RecipeError::NewerVersion {
                    path: "/out/r.toml".into(),
                    found: 9
                }),
            ],
            [
                "/out/s_scan0001_p3.h5: has no errors (--error-model no): --export fxye has an error of 1 at each point; \
                 integrate with another --error-model for errors",
                "/out/s_scan0001_p3.h5: its calibration factor from water is known to 20 % only, and so are all intensities \
                 in 1/cm: measure the standard for longer, or choose a wider --calibration-range",
                "/out/s_scan0001_p3.h5: no pattern of frames 0 to 9: their averages are not exported",
                "images that were moved since the final file was made may be written over by exports of this run: \
                 /out/r.toml: recipe has version 9, and this azpipe reads up to version 1; update azpipe",
            ]
        );
    }
}
