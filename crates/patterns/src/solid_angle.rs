//! The solid angle to which the sums of a recipe refer.

use geometry::{Detector, PixelMapping, Poni};
use recipe::Recipe;
use records::Acquisition;

/// Returns the solid angle of a pixel at normal incidence, pixel area / distance², in steradian; 1
/// without the solid-angle correction. The sums of a detector that moves refer to the distance in
/// the recipe's PONI text.
///
/// # Errors
/// The PONI text or its detector is invalid; the error says why.
pub fn reference_solid_angle(recipe: &Recipe, scan: &Acquisition) -> Result<f64, String> {
    if !recipe.solid_angle {
        return Ok(1.0);
    }
    let poni = Poni::parse(&recipe.poni).map_err(|why| why.to_string())?;
    let area =
        match (&poni.detector.config.pixel1, &poni.detector.config.pixel2, poni.detector.file()) {
            (Some(pixel1), Some(pixel2), Some(_)) => pixel1 * pixel2,
            (_, _, Some(_)) => 1.0,
            (_, _, None) => {
                let framing = recipe.framing(&scan.frame_layout());
                let view = Detector::from_poni(&poni)
                    .and_then(|detector| PixelMapping::new(&detector, &framing));
                let detector = view.map_err(|why| why.to_string())?.detector;
                detector.pixel1 * detector.pixel2
            }
        };
    Ok(area / (poni.dist * poni.dist))
}
