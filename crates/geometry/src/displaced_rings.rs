//! [`DetectorPlane`]: how the rings on a flat detector move when it, or the beam, is displaced.

use crate::rotation::{LabPoint, Rotation};
use crate::{Poni, Unit, quantity};

/// The plane of a detector that a PONI file places. The detector's pixels, and the correction of
/// parallax, have no part in it.
#[derive(Clone, Copy, Debug)]
pub struct DetectorPlane {
    rotation: Rotation,
    dist: f64,
}

impl DetectorPlane {
    /// Makes the plane of a PONI file.
    pub fn new(poni: &Poni) -> Self {
        Self { rotation: Rotation::new(poni.rot1, poni.rot2, poni.rot3), dist: poni.dist }
    }

    /// Returns the true scattering angle at the point of the detector to which the PONI file gives
    /// `two_theta` and `chi`, and its derivatives by the components of `displacement`. Angles are in
    /// radians. `None` if the ray of these angles does not meet the plane.
    ///
    /// `displacement` is the true `poni1`, `poni2` and `dist` less those of the file, in metres; the
    /// rotations are true. A point at t in the laboratory is then truly at t + R (−δ1, −δ2, δL), with
    /// the rotation R of the PONI file. The gradient of 2θ at a distance |t| from the sample is e/|t|,
    /// where e is the unit vector in which 2θ grows: (cos 2θ sin χ, cos 2θ cos χ, −sin 2θ) in the
    /// order y, x, z.
    pub fn true_two_theta(
        &self,
        two_theta: f64,
        chi: f64,
        displacement: [f64; 3],
    ) -> Option<(f64, [f64; 3])> {
        let [y, x, z] = unit_ray(two_theta, chi);
        let columns = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
            .map(|[p1, p2, p3]| self.rotation.rotate(p1, p2, p3));
        // The inverse of a rotation is its transpose.
        let [p1, p2, p3] = columns.map(|column| dot([y, x, z], column));
        if p3 <= 1e-6 {
            return None;
        }
        let scale = self.dist / p3;
        let [d1, d2, dl] = displacement;
        let point = self.rotation.rotate(p1 * scale - d1, p2 * scale - d2, self.dist + dl);
        let (angle, chi, length) = (point.two_theta(), point.chi(), point.distance());
        let (sin, cos) = angle.sin_cos();
        let gradient = [cos * chi.sin(), cos * chi.cos(), -sin].map(|part| part / length);
        let [by_1, by_2, by_l] = columns.map(|column| dot(gradient, column));
        Some((angle, [-by_1, -by_2, by_l]))
    }
}

/// Returns the unit vector y, x, z of a scattered ray.
fn unit_ray(two_theta: f64, chi: f64) -> [f64; 3] {
    let ((sin, cos), (sin_chi, cos_chi)) = (two_theta.sin_cos(), chi.sin_cos());
    [sin * sin_chi, sin * cos_chi, cos]
}

fn dot([y, x, z]: [f64; 3], point: LabPoint) -> f64 {
    y * point.y + x * point.x + z * point.z
}

impl Unit {
    /// Returns the scattering angle in radians of a position in this unit; `None` if the quantity
    /// is not one of 2θ, q, d*² and d, which depend on no other angle, or if no ray has the position.
    /// `wavelength` is in metres.
    pub fn two_theta(self, position: f64, wavelength: f64) -> Option<f64> {
        let value = position / self.scale();
        let quantity = self.quantity();
        // λ / 2d, by q = 2π / d and d*² = 1 / d², which are per nanometre.
        let sine = match () {
            () if *quantity == quantity::TWO_THETA => return Some(value),
            () if *quantity == quantity::Q => {
                value * 1e9 * wavelength / (4.0 * std::f64::consts::PI)
            }
            () if *quantity == quantity::RECIPROCAL_SPACING_SQUARED => {
                value.sqrt() * 1e9 * wavelength / 2.0
            }
            () if *quantity == quantity::SPACING => wavelength / (2.0 * value),
            () => return None,
        };
        (sine.abs() <= 1.0).then(|| 2.0 * sine.asin())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Detector, Geometry};

    const PONI: &str = "poni_version: 2.1\nDetector: Pilatus100k\nDetector_config: {\"orientation\": 3}\n\
                        Wavelength: 1e-10\n";

    fn poni([poni1, poni2, dist]: [f64; 3]) -> Poni {
        let place = format!("Distance: {dist}\nPoni1: {poni1}\nPoni2: {poni2}\n");
        Poni::parse(&format!("{PONI}{place}Rot1: 0.2\nRot2: -0.3\nRot3: 0.4\n")).unwrap()
    }

    #[test]
    fn the_angles_are_those_of_a_displaced_detector() {
        let (nominal, displacement) = ([0.01, 0.02, 0.15], [3e-4, -5e-4, 7e-4]);
        let displaced = std::array::from_fn(|axis| nominal[axis] + displacement[axis]);
        let angles = |place| {
            let poni = poni(place);
            let detector = Detector::from_poni(&poni).unwrap();
            let geometry = Geometry::new(&poni, &detector, [195, 487]).unwrap();
            let two_theta = geometry.radial_centers(Unit::parse("2th_rad").unwrap()).unwrap();
            (two_theta, geometry.chi_centers())
        };
        let ((seen, chi), (expected, _)) = (angles(nominal), angles(displaced));
        let plane = DetectorPlane::new(&poni(nominal));
        let of = |pixel: usize, by| plane.true_two_theta(seen[pixel], chi[pixel], by).unwrap();
        for pixel in (0..seen.len()).step_by(997) {
            let (angle, slopes) = of(pixel, displacement);
            assert!((angle - expected[pixel]).abs() < 1e-14, "{pixel}");
            for axis in 0..3 {
                let moved = |step: f64| {
                    let mut by = displacement;
                    by[axis] += step;
                    of(pixel, by).0
                };
                let slope = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                assert!((slope - slopes[axis]).abs() < 1e-6, "{pixel} {axis}: {slope}");
            }
        }
        assert!(plane.true_two_theta(3.0, 0.0, [0.0; 3]).is_none(), "a ray back to the source");
    }

    #[test]
    fn positions_of_all_units_but_those_of_other_angles_are_angles() {
        let poni = poni([0.01, 0.02, 0.15]);
        let detector = Detector::from_poni(&poni).unwrap();
        let geometry = Geometry::new(&poni, &detector, [195, 487]).unwrap();
        let angles = geometry.radial_centers(Unit::parse("2th_rad").unwrap()).unwrap();
        for unit in Unit::all() {
            let positions = geometry.radial_centers(unit).unwrap();
            let angle = unit.two_theta(positions[4321], 1e-10);
            if ["r", "qip", "qoop"].contains(&unit.axis_name()) {
                assert_eq!(angle, None, "{unit}");
            } else {
                assert!((angle.unwrap() - angles[4321]).abs() < 1e-12, "{unit}");
            }
        }
        assert_eq!(Unit::default().two_theta(1e3, 1e-10), None);
    }
}
