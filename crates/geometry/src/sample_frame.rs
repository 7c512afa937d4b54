//! The frame of a sample with a surface or a fiber axis, for grazing-incidence and fiber
//! scattering.

use std::f64::consts::PI;

/// The orientation of a sample, as in pyFAI's `FiberIntegrator`. The default is a sample in the
/// laboratory's frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleFrame {
    /// Sine and cosine of the incident angle, by which the sample is turned towards the beam, about
    /// the horizontal axis.
    incident: (f64, f64),
    /// Sine and cosine of the tilt angle, by which the sample is turned about the beam.
    tilt: (f64, f64),
    /// Orientation of the image: 1 to 8, as in EXIF.
    orientation: u8,
}

/// The orientation of an image is not one of EXIF's.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}: expected 1 to 8, as in EXIF")]
pub struct UnknownOrientation(pub u64);

impl SampleFrame {
    /// Makes the frame of a sample from incident angle and tilt angle in degrees and the
    /// orientation of the image: 1 leaves it as it is, 2 flips it horizontally, 3 turns it by 180
    /// degrees, 4 flips it vertically, and 5 to 8 exchange the axes.
    ///
    /// # Errors
    /// The orientation is not 1 to 8.
    pub fn new(
        incident_angle: f64,
        tilt_angle: f64,
        orientation: u64,
    ) -> Result<Self, UnknownOrientation> {
        let known = u8::try_from(orientation).ok().filter(|known| (1..=8).contains(known));
        Ok(Self {
            incident: incident_angle.to_radians().sin_cos(),
            tilt: tilt_angle.to_radians().sin_cos(),
            orientation: known.ok_or(UnknownOrientation(orientation))?,
        })
    }

    /// Returns the scattering vector of a point (y up, x horizontal, z along the beam, in metres
    /// from the sample), per nanometre: its components along the beam in the sample's surface,
    /// across the beam in the surface, and along the normal of the surface, which is the fiber's
    /// axis. The steps and their order are pyFAI's.
    pub fn scattering_vector(&self, [y, x, z]: [f64; 3], wavelength: f64) -> [f64; 3] {
        let [x, y] = match self.orientation {
            1 => [x, y],
            2 => [-x, y],
            3 => [-x, -y],
            4 => [x, -y],
            5 => [-y, -x],
            6 => [-y, x],
            7 => [y, x],
            _ => [y, -x],
        };
        let distance = (x * x + y * y + z * z).sqrt();
        let wavenumber = 2.0e-9 / wavelength * PI;
        let beam = wavenumber * (z / distance - 1.0);
        let horizontal = wavenumber * (x / distance);
        let vertical = wavenumber * (y / distance);
        let ((sin_incident, cos_incident), (sin_tilt, cos_tilt)) = (self.incident, self.tilt);
        [
            cos_incident * beam + sin_incident * vertical,
            cos_tilt * horizontal - sin_tilt * sin_incident * beam
                + sin_tilt * cos_incident * vertical,
            -sin_tilt * horizontal - cos_tilt * sin_incident * beam
                + cos_tilt * cos_incident * vertical,
        ]
    }
}

impl Default for SampleFrame {
    fn default() -> Self {
        Self { incident: (0.0, 1.0), tilt: (0.0, 1.0), orientation: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINT: [f64; 3] = [0.05, 0.03, 0.2];

    fn vector(incident: f64, tilt: f64, orientation: u64) -> [f64; 3] {
        SampleFrame::new(incident, tilt, orientation).unwrap().scattering_vector(POINT, 1e-10)
    }

    fn assert_near(found: [f64; 3], expected: [f64; 3]) {
        let is_near =
            found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-12);
        assert!(is_near, "{found:?} for {expected:?}");
    }

    #[test]
    fn quarter_turns_exchange_axes() {
        let [beam, horizontal, vertical] = vector(0.0, 0.0, 1);
        assert!(beam < 0.0 && horizontal > 0.0 && vertical > horizontal);
        assert_near(vector(90.0, 0.0, 1), [vertical, horizontal, -beam]);
        assert_near(vector(0.0, 90.0, 1), [beam, vertical, -horizontal]);
    }

    #[test]
    fn orientations_are_those_of_exif() {
        let [beam, h, v] = vector(0.0, 0.0, 1);
        let expected = [[h, v], [-h, v], [-h, -v], [h, -v], [-v, -h], [-v, h], [v, h], [v, -h]];
        for (orientation, [horizontal, vertical]) in (1..).zip(expected) {
            assert_near(vector(0.0, 0.0, orientation), [beam, horizontal, vertical]);
        }
        for wrong in [0, 9, 300] {
            let message = SampleFrame::new(0.0, 0.0, wrong).unwrap_err().to_string();
            assert_eq!(message, format!("{wrong}: expected 1 to 8, as in EXIF"));
        }
    }
}
