//! Intensity corrections that depend on a pixel's position: solid angle, polarization, and
//! absorption in the sensor.

use rayon::prelude::*;

use crate::Geometry;
use crate::detector::PixelPositions;
use crate::geometry::DetectorPlacement;
use crate::rotation::LabPoint;

impl Geometry {
    /// Returns the solid angle of each pixel relative to a pixel at the point of normal incidence:
    /// cos³ of the angle of incidence, one power for the pixel's tilt and two for its distance.
    pub fn solid_angle(&self) -> Vec<f64> {
        self.map_cos_incidence(|cosine| cosine * cosine * cosine)
    }

    /// Returns the fraction of photons that the sensor absorbs in each pixel, relative to normal
    /// incidence: (1 − exp(−depth / cos α)) / (1 − exp(−depth)), with the angle of incidence α.
    ///
    /// `depth` is the sensor's thickness times its linear attenuation coefficient.
    pub fn sensor_absorption(&self, depth: f64) -> Vec<f64> {
        let normal = -(-depth).exp_m1();
        self.map_cos_incidence(|cosine| -(-depth / cosine.abs()).exp_m1() / normal)
    }

    /// Applies `value` to the cosine of each pixel's angle of incidence: the angle between the ray
    /// from the sample and the pixel's normal.
    fn map_cos_incidence(&self, value: impl Fn(f64) -> f64 + Sync) -> Vec<f64> {
        let DetectorPlacement { dist, poni1, poni2, .. } = self.placement;
        match &self.pixels {
            PixelPositions::Corners(corners) if !corners.is_flat() => {
                let [rows, columns] = self.shape();
                let cosine = |pixel| {
                    let [z, y, x] = corners.center(pixel);
                    let ray = [dist + z, y - poni1, x - poni2];
                    cos_to_normal(ray, corners.corners_of(pixel))
                };
                (0..rows * columns).into_par_iter().map(|pixel| value(cosine(pixel))).collect()
            }
            // No rotation changes the length of the ray, and parallax moves no pixel.
            _ => self.map_points(|points, values| {
                for (((out, p1), p2), p3) in
                    values.iter_mut().zip(points.p1).zip(points.p2).zip(points.p3)
                {
                    let (p1, p2, p3) = (p1 - poni1, p2 - poni2, dist + p3);
                    *out = value(dist / (p1 * p1 + p2 * p2 + p3 * p3).sqrt());
                }
            }),
        }
    }

    /// Returns the polarization factor of each pixel, the fraction of the scattered intensity that
    /// remains: ½ (1 + cos²2θ − factor · cos 2(χ + offset) · (1 − cos²2θ)).
    ///
    /// `factor` is (horizontal − vertical) / (horizontal + vertical), 1 for a beam polarized in the
    /// horizontal plane; `offset` is the angle in radians from the horizontal axis to that plane.
    pub fn polarization(&self, factor: f64, offset: f64) -> Vec<f64> {
        let (sin_offset, cos_offset) = (2.0 * offset).sin_cos();
        self.map_centers(|points, values| {
            points.map_into(values, |LabPoint { y, x, z }| {
                // In coordinates, sin²2θ cos 2χ = (x² − y²) / (x² + y² + z²), and so for the others.
                let squared = y * y + x * x + z * z;
                let along = (x * x - y * y) * cos_offset - 2.0 * x * y * sin_offset;
                0.5 * (1.0 + (z * z - factor * along) / squared)
            });
        })
    }
}

/// Returns the cosine of the angle between the ray from the sample to a pixel and the normal of the
/// pixel, which is the cross product of the pixel's diagonals. Vectors are [z, y, x] in the
/// detector's frame.
fn cos_to_normal(ray: [f64; 3], [a, b, c, d]: [[f64; 3]; 4]) -> f64 {
    let difference = |from: [f64; 3], to: [f64; 3]| [0, 1, 2].map(|axis| to[axis] - from[axis]);
    let dot = |a: [f64; 3], b: [f64; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    let (first, second) = (difference(a, c), difference(b, d));
    let normal = [
        first[1] * second[2] - first[2] * second[1],
        first[2] * second[0] - first[0] * second[2],
        first[0] * second[1] - first[1] * second[0],
    ];
    dot(ray, normal) / (dot(ray, ray) * dot(normal, normal)).sqrt()
}
