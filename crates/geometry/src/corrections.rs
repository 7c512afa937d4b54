//! What a pixel's place does to its count: solid angle and polarization.

use crate::Geometry;
use crate::detector::Pixels;
use crate::rotation::Point;

impl Geometry {
    /// The solid angle of each pixel relative to one at the point of normal incidence: cos³ of the
    /// angle of incidence, one power for the pixel's tilt and two for its distance.
    pub fn solid_angle(&self) -> Vec<f64> {
        let place = &self.place;
        match &self.pixels {
            Pixels::Corners(corners) if !corners.flat() => {
                let [rows, columns] = self.shape();
                (0..rows * columns)
                    .map(|pixel| {
                        let [z, y, x] = corners.center(pixel);
                        let ends = corners.of(pixel).map(|[z, y, x]| place.lab(y, x, z));
                        cos_to_normal(place.lab(y, x, z), ends).powi(3)
                    })
                    .collect()
            }
            // Rotations leave the angle of incidence on a flat detector as it is.
            _ => {
                let dist = place.dist;
                self.centers(move |point| {
                    let Point { y, x, z } = point;
                    (dist / (y * y + x * x + z * z).sqrt()).powi(3)
                })
            }
        }
    }

    /// The part of the scattered intensity that polarization leaves in each pixel:
    /// ½ (1 + cos²2θ − factor · cos 2(χ + offset) · (1 − cos²2θ)).
    ///
    /// `factor` is (horizontal − vertical) / (horizontal + vertical), 1 for a beam polarized in the
    /// horizontal plane; `offset` is the angle in radians from the horizontal axis to that plane.
    pub fn polarization(&self, factor: f64, offset: f64) -> Vec<f64> {
        self.centers(|point| {
            let cos2 = point.two_theta().cos().powi(2);
            0.5 * (1.0 + cos2 - factor * (2.0 * (point.chi() + offset)).cos() * (1.0 - cos2))
        })
    }
}

/// The cosine of the angle between the way to a pixel's middle and its normal, which is that of its
/// diagonals.
fn cos_to_normal(middle: Point, [a, b, c, d]: [Point; 4]) -> f64 {
    let between = |from: Point, to: Point| [to.z - from.z, to.y - from.y, to.x - from.x];
    let (first, second) = (between(a, c), between(b, d));
    let normal = [
        first[1] * second[2] - first[2] * second[1],
        first[2] * second[0] - first[0] * second[2],
        first[0] * second[1] - first[1] * second[0],
    ];
    let way = [middle.z, middle.y, middle.x];
    let dot = |a: [f64; 3], b: [f64; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    dot(way, normal) / (dot(way, way) * dot(normal, normal)).sqrt()
}
