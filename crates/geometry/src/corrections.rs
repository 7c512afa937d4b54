//! What a pixel's place does to its count: solid angle, polarization, and the way through the sensor.

use rayon::prelude::*;

use crate::Geometry;
use crate::detector::PixelPositions;

impl Geometry {
    /// The solid angle of each pixel relative to one at the point of normal incidence: cos³ of the
    /// angle of incidence, one power for the pixel's tilt and two for its distance.
    pub fn solid_angle(&self) -> Vec<f64> {
        self.map_cos_incidence(|cosine| cosine.powi(3))
    }

    /// The share of the photons that the sensor absorbs in each pixel, relative to that at normal incidence:
    /// (1 − exp(−depth / cos α)) / (1 − exp(−depth)), with the angle of incidence α.
    ///
    /// `depth` is the sensor's thickness times its linear attenuation coefficient.
    pub fn sensor_absorption(&self, depth: f64) -> Vec<f64> {
        let normal = -(-depth).exp_m1();
        self.map_cos_incidence(|cosine| -(-depth / cosine.abs()).exp_m1() / normal)
    }

    /// A value for each pixel of the cosine of the angle between the way from the sample and the pixel's normal.
    fn map_cos_incidence(&self, value: impl Fn(f64) -> f64 + Sync) -> Vec<f64> {
        let place = &self.placement;
        match &self.pixels {
            PixelPositions::Corners(corners) if !corners.flat() => {
                let [rows, columns] = self.shape();
                let cosine = |pixel| {
                    let [z, y, x] = corners.center(pixel);
                    cos_to_normal([place.dist + z, y - place.poni1, x - place.poni2], corners.corners_of(pixel))
                };
                (0..rows * columns).into_par_iter().map(|pixel| value(cosine(pixel))).collect()
            }
            // Rotations leave the way from the sample as long as it is.
            _ => self.map_centers(|point| value(place.dist / point.distance())),
        }
    }

    /// The part of the scattered intensity that polarization leaves in each pixel:
    /// ½ (1 + cos²2θ − factor · cos 2(χ + offset) · (1 − cos²2θ)).
    ///
    /// `factor` is (horizontal − vertical) / (horizontal + vertical), 1 for a beam polarized in the
    /// horizontal plane; `offset` is the angle in radians from the horizontal axis to that plane.
    pub fn polarization(&self, factor: f64, offset: f64) -> Vec<f64> {
        self.map_centers(|point| {
            let cos2 = point.two_theta().cos().powi(2);
            0.5 * (1.0 + cos2 - factor * (2.0 * (point.chi() + offset)).cos() * (1.0 - cos2))
        })
    }
}

/// The cosine of the angle between the way from the sample to a pixel and the pixel's normal, which is
/// that of its diagonals. All in the detector's frame, as [z, y, x].
fn cos_to_normal(way: [f64; 3], [a, b, c, d]: [[f64; 3]; 4]) -> f64 {
    let between = |from: [f64; 3], to: [f64; 3]| [0, 1, 2].map(|axis| to[axis] - from[axis]);
    let dot = |a: [f64; 3], b: [f64; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    let (first, second) = (between(a, c), between(b, d));
    let normal = [
        first[1] * second[2] - first[2] * second[1],
        first[2] * second[0] - first[0] * second[2],
        first[0] * second[1] - first[1] * second[0],
    ];
    dot(way, normal) / (dot(way, way) * dot(normal, normal)).sqrt()
}
