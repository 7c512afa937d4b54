//! Rotation from the detector's frame to the laboratory's.

use crate::arctangent::atan2;

/// The three rotations of a PONI file, applied as R3·R2·R1: rot1 about axis 1 and rot2 about axis 2
/// are left-handed, rot3 about the beam is right-handed.
///
/// The product is written out and evaluated in pyFAI's order, so that corners round to the same
/// single-precision values as pyFAI's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rotation {
    sin: [f64; 3],
    cos: [f64; 3],
}

/// A point in the laboratory frame, in metres from the sample: y up, x horizontal, z along the
/// beam.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LabPoint {
    pub(crate) y: f64,
    pub(crate) x: f64,
    pub(crate) z: f64,
}

impl Rotation {
    /// Makes the rotation by three angles in radians.
    pub(crate) fn new(rot1: f64, rot2: f64, rot3: f64) -> Self {
        let angles = [rot1, rot2, rot3];
        Self { sin: angles.map(f64::sin), cos: angles.map(f64::cos) }
    }

    /// Rotates a point of the detector: `p1`, `p2` are offsets from the point of normal incidence
    /// along the slow and the fast axis, `p3` is the distance from the sample along the detector's
    /// normal.
    #[inline(always)]
    pub(crate) fn rotate(&self, p1: f64, p2: f64, p3: f64) -> LabPoint {
        let [s1, s2, s3] = self.sin;
        let [c1, c2, c3] = self.cos;
        LabPoint {
            y: p1 * c2 * c3 + p2 * (c3 * s1 * s2 - c1 * s3) - p3 * (c1 * c3 * s2 + s1 * s3),
            x: p1 * c2 * s3 + p2 * (c1 * c3 + s1 * s2 * s3) - p3 * (c1 * s2 * s3 - c3 * s1),
            z: p1 * s2 - p2 * c2 * s1 + p3 * c1 * c2,
        }
    }
}

impl LabPoint {
    /// Returns the distance from the beam in metres.
    #[inline(always)]
    pub(crate) fn radius(self) -> f64 {
        (self.y * self.y + self.x * self.x).sqrt()
    }

    /// Returns the distance from the sample in metres.
    #[inline(always)]
    pub(crate) fn distance(self) -> f64 {
        (self.y * self.y + self.x * self.x + self.z * self.z).sqrt()
    }

    /// Returns the scattering angle 2θ in radians.
    #[inline(always)]
    pub(crate) fn two_theta(self) -> f64 {
        atan2(self.radius(), self.z)
    }

    /// Returns sin θ, the sine of half the scattering angle, from tan θ = r / (d + z) with the
    /// distances r from the beam and d from the sample. It is as exact as the coordinates for every
    /// angle, and needs no trigonometric function.
    #[inline(always)]
    pub(crate) fn sin_theta(self) -> f64 {
        let squared_radius = self.y * self.y + self.x * self.x;
        let longer = self.distance() + self.z.abs();
        let squared_longer = longer * longer;
        // Towards the source, where d + z is a difference, tan θ = (d − z) / r.
        let opposite = if self.z < 0.0 { squared_longer } else { squared_radius };
        let hypotenuse = squared_radius + squared_longer;
        // A point at the sample has no angle: as 2θ does, it gives 0.
        (opposite / if hypotenuse == 0.0 { 1.0 } else { hypotenuse }).sqrt()
    }

    /// Returns the azimuth from the horizontal axis, in radians within [-π, π].
    #[inline(always)]
    pub(crate) fn chi(self) -> f64 {
        atan2(self.y, self.x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies one rotation after the other, as the definition says.
    fn stepwise(angles: [f64; 3], [p1, p2, p3]: [f64; 3]) -> [f64; 3] {
        let [(s1, c1), (s2, c2), (s3, c3)] = angles.map(f64::sin_cos);
        let (p2, p3) = (p2 * c1 + p3 * s1, -p2 * s1 + p3 * c1);
        let (p1, p3) = (p1 * c2 - p3 * s2, p1 * s2 + p3 * c2);
        [p1 * c3 - p2 * s3, p1 * s3 + p2 * c3, p3]
    }

    #[test]
    fn the_product_is_one_rotation_after_the_other() {
        for angles in [[0.3, 0.0, 0.0], [0.0, -0.4, 0.0], [0.0, 0.0, 2.1], [0.7, -1.2, 2.9]] {
            let point = Rotation::new(angles[0], angles[1], angles[2]).rotate(0.12, -0.34, 0.56);
            let expected = stepwise(angles, [0.12, -0.34, 0.56]);
            for (got, expected) in [point.y, point.x, point.z].into_iter().zip(expected) {
                assert!((got - expected).abs() < 1e-15, "{angles:?}: {got} {expected}");
            }
        }
    }
    #[test]
    fn the_sine_of_theta_is_that_of_half_the_angle() {
        for degrees in [0.0, 1e-7, 1e-3, 0.1, 30.0, 89.999, 90.0, 90.001, 150.0, 179.9, 180.0_f64] {
            for (radius, azimuth) in [(1e-5, 0.3_f64), (0.7, 2.0), (1e3, -1.0)] {
                let (sin, cos) = degrees.to_radians().sin_cos();
                let (y, x) = (sin * azimuth.sin(), sin * azimuth.cos());
                let point = LabPoint { y: radius * y, x: radius * x, z: radius * cos };
                let expected = (point.two_theta() * 0.5).sin();
                let difference = (point.sin_theta() - expected).abs();
                assert!(difference <= 1e-15 * expected, "{degrees}: {difference:e} of {expected}");
            }
        }
        let at_sample = LabPoint { y: 0.0, x: 0.0, z: 0.0 };
        assert_eq!((at_sample.sin_theta(), at_sample.two_theta()), (0.0, 0.0));
        let nowhere = LabPoint { y: f64::NAN, x: 0.0, z: 1.0 };
        assert!(nowhere.sin_theta().is_nan());
    }
}
