//! From a point in the detector's frame to a point in the laboratory.

/// The three rotations of a PONI file, applied as R3·R2·R1 (domain: rot1 about axis 1 and rot2
/// about axis 2 are left-handed, rot3 about the beam is right-handed).
///
/// The products are written out and taken in pyFAI's order, so that single-precision corners
/// round as pyFAI's do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rotation {
    sin: [f64; 3],
    cos: [f64; 3],
}

/// A point in the laboratory: y up, x horizontal, z along the beam, metres from the sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LabPoint {
    pub(crate) y: f64,
    pub(crate) x: f64,
    pub(crate) z: f64,
}

impl Rotation {
    /// Angles in radians.
    pub(crate) fn new(rot1: f64, rot2: f64, rot3: f64) -> Self {
        let angles = [rot1, rot2, rot3];
        Self { sin: angles.map(f64::sin), cos: angles.map(f64::cos) }
    }

    /// Turns (p1, p2, p3): offsets from the point of normal incidence along the slow and the fast
    /// axis, and the distance from the sample along the normal.
    #[inline]
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
    /// Distance from the beam, metres.
    #[inline]
    pub(crate) fn radius(self) -> f64 {
        (self.y * self.y + self.x * self.x).sqrt()
    }

    /// Distance from the sample, metres.
    #[inline]
    pub(crate) fn distance(self) -> f64 {
        (self.y * self.y + self.x * self.x + self.z * self.z).sqrt()
    }

    /// Scattering angle, radians.
    #[inline]
    pub(crate) fn two_theta(self) -> f64 {
        self.radius().atan2(self.z)
    }

    /// Azimuth from the horizontal axis, radians in [-π, π].
    #[inline]
    pub(crate) fn chi(self) -> f64 {
        self.y.atan2(self.x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One rotation after the other, as the definition has it.
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
}
