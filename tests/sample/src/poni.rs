//! The geometry that frames are drawn with: where a pixel is, and the PONI file that says so.

use crate::Detector;

/// 37.1 keV, in angstrom.
pub(crate) const WAVELENGTH: f64 = 12.398_419_84 / 37.1;
/// A detector that hangs a little askew, in rad.
const ROTATIONS: [f64; 3] = [0.0121, -0.0083, 0.0];

/// The PONI file of a detector.
pub(crate) fn text(detector: &Detector) -> String {
    let [row, column] = detector.centre();
    let [rot1, rot2, rot3] = ROTATIONS;
    format!(
        "# Geometry of a synthetic dataset\nponi_version: 2.1\nDetector: {}\n\
         Detector_config: {{\"pixel1\": {pixel:e}, \"pixel2\": {pixel:e}, \"orientation\": 3}}\nDistance: {}\n\
         Poni1: {}\nPoni2: {}\nRot1: {rot1}\nRot2: {rot2}\nRot3: {rot3}\nWavelength: {:e}\n",
        detector.class,
        detector.distance,
        row * detector.pixel,
        column * detector.pixel,
        WAVELENGTH * 1e-10,
        pixel = detector.pixel,
    )
}

/// The scattering angle 2θ in rad at a pixel's centre, and the solid angle of the pixel beside that
/// of one at the point of normal incidence.
pub(crate) fn view(detector: &Detector, row: usize, column: usize) -> (f64, f64) {
    let centre = detector.centre();
    let offset = |index: usize, axis: usize| (index as f64 + 0.5 - centre[axis]) * detector.pixel;
    let (up, across, along) = (offset(row, 0), offset(column, 1), detector.distance);
    let cosine = along / (up * up + across * across + along * along).sqrt();

    // rot1 turns about the vertical axis, rot2 about the horizontal one; rot3 is 0.
    let [(sin1, cos1), (sin2, cos2)] = [ROTATIONS[0].sin_cos(), ROTATIONS[1].sin_cos()];
    let (across, along) = (across * cos1 + along * sin1, along * cos1 - across * sin1);
    let (up, along) = (up * cos2 - along * sin2, up * sin2 + along * cos2);
    (up.hypot(across).atan2(along), cosine.powi(3))
}
