//! Correction of parallax: photons that hit a thick sensor at an angle are absorbed beside the point
//! where they enter it, further out from the point of normal incidence.
//!
//! In a sensor of thickness T and linear attenuation coefficient μ, the path of a ray with angle of
//! incidence α has the length T / cos α. Photons are absorbed along it by the law of Beer and
//! Lambert, so that their mean distance from the point of entry, along the surface, is
//!
//! > d(α) = sin α / μ · (1 − t / (eᵗ − 1)), t = μ T / cos α
//!
//! and sin α / μ in a sensor of unknown thickness, which absorbs everything. A pixel at the radius r
//! from the point of normal incidence therefore shows what was scattered to the radius r₀ with
//! r₀ + d(α₀) = r, where tan α₀ = r₀ / distance. The same model, with the same coefficients, is in
//! pyFAI from version 2025.12 on, whose refinement of a geometry assumes it.

use std::f64::consts::FRAC_PI_2;

use crate::SensorMaterial;

/// Number of intervals of the table, which have equal widths in angle. Between its nodes, linear
/// interpolation is wrong by up to 3e-9 of 1 / μ, at any distance that is far above 1 / μ.
const INTERVALS: usize = 1 << 14;

/// Bisections that find r₀: each halves the interval, whose width at first is the largest d.
const BISECTIONS: usize = 54;

/// The sensor by which parallax is corrected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParallaxSensor {
    /// Material, by which recipes name it.
    pub material: SensorMaterial,
    /// Thickness in metres; `None` for a sensor that absorbs all photons.
    pub thickness: Option<f64>,
    /// Linear attenuation coefficient in 1/m, at the wavelength of the PONI file.
    pub attenuation: f64,
}

impl ParallaxSensor {
    /// Returns the mean distance in metres, along the surface, from where photons enter the sensor
    /// to where they are absorbed.
    fn displacement(&self, incidence: f64) -> f64 {
        let fraction = self.thickness.map_or(1.0, |thickness| {
            let depth = self.attenuation * thickness / incidence.cos();
            1.0 - depth / depth.exp_m1()
        });
        // At grazing incidence, depth / exp(depth) is a quotient of infinities.
        let fraction = if fraction.is_nan() { 1.0 } else { fraction };
        incidence.sin() / self.attenuation * fraction
    }
}

/// The correction of a detector at one distance from the sample.
pub(crate) struct ParallaxCorrection {
    /// Difference r₀ − r in metres for each angle of incidence of r, from 0 to 90 degrees.
    table: Vec<f64>,
}

impl ParallaxCorrection {
    /// Makes the correction for a flat detector at `distance` metres.
    pub fn new(sensor: &ParallaxSensor, distance: f64) -> Self {
        let largest = sensor.attenuation.recip();
        let difference = |node: usize| {
            if node == INTERVALS {
                return -largest;
            }
            let radius = distance * (FRAC_PI_2 * node as f64 / INTERVALS as f64).tan();
            let (mut low, mut high) = ((radius - largest).max(0.0), radius);
            for _ in 0..BISECTIONS {
                let middle = 0.5 * (low + high);
                let seen = middle + sensor.displacement((middle / distance).atan());
                if seen < radius { low = middle } else { high = middle }
            }
            high - radius
        };
        Self { table: (0..=INTERVALS).map(difference).collect() }
    }

    /// Returns where a pixel would be without parallax. `p1`, `p2` and `p3` are metres from the
    /// point of normal incidence along the slow and fast axes, and from the sample along the normal.
    #[inline]
    pub fn correct(&self, p1: f64, p2: f64, p3: f64) -> [f64; 2] {
        let radius = p1.hypot(p2);
        // Nothing is absorbed in a sensor from behind, and there is no direction in the middle.
        if radius == 0.0 || p3 <= 0.0 {
            return [p1, p2];
        }
        let place = radius.atan2(p3) / FRAC_PI_2 * INTERVALS as f64;
        let node = (place as usize).min(INTERVALS - 1);
        let (low, high) = (self.table[node], self.table[node + 1]);
        let scale = 1.0 + (low + (high - low) * (place - node as f64)) / radius;
        [p1 * scale, p2 * scale]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILICON: ParallaxSensor = ParallaxSensor {
        material: SensorMaterial::Si,
        thickness: Some(320e-6),
        attenuation: 1500.0,
    };

    /// Returns the mean distance of absorption by summing over slices of the sensor.
    fn summed_displacement(sensor: &ParallaxSensor, thickness: f64, incidence: f64) -> f64 {
        let slices = 100_000;
        let path = thickness / incidence.cos();
        let (mut distance, mut absorbed) = (0.0, 0.0);
        for slice in 0..slices {
            let along = path * (f64::from(slice) + 0.5) / f64::from(slices);
            let photons = (-sensor.attenuation * along).exp();
            distance += photons * along * incidence.sin();
            absorbed += photons;
        }
        distance / absorbed
    }

    #[test]
    fn the_displacement_is_the_mean_over_the_path() {
        for degrees in [0.0_f64, 0.1, 20.0, 45.0, 80.0] {
            let incidence = degrees.to_radians();
            let expected = summed_displacement(&SILICON, 320e-6, incidence);
            let found = SILICON.displacement(incidence);
            assert!((found - expected).abs() <= 1e-9 * expected, "{degrees}: {found} {expected}");
        }
        let thick = ParallaxSensor { thickness: None, ..SILICON };
        let limit = ParallaxSensor { thickness: Some(1.0), ..SILICON };
        assert_eq!(thick.displacement(0.5), limit.displacement(0.5));
        assert_eq!(limit.displacement(FRAC_PI_2), 1.0 / 1500.0);
    }

    #[test]
    fn a_corrected_pixel_is_seen_where_it_is() {
        for (distance, radius) in [(0.1, 0.1), (0.1, 1e-5), (1.0, 0.2), (0.02, 3.0)] {
            let [p1, p2] = ParallaxCorrection::new(&SILICON, distance).correct(
                radius * 0.6,
                radius * -0.8,
                distance,
            );
            assert!((p1 / 0.6 - p2 / -0.8).abs() <= 1e-15, "along the radius");
            let found = p1 / 0.6;
            let seen = found + SILICON.displacement((found / distance).atan());
            assert!(
                (seen - radius).abs() <= 3e-9 / SILICON.attenuation,
                "{distance} {radius}: {seen}"
            );
        }
    }

    #[test]
    fn pixels_at_the_point_of_normal_incidence_or_behind_the_sample_stay() {
        let correction = ParallaxCorrection::new(&SILICON, 0.1);
        assert_eq!(correction.correct(0.0, 0.0, 0.1), [0.0, 0.0]);
        assert_eq!(correction.correct(0.01, 0.02, -0.1), [0.01, 0.02]);
        assert!(correction.correct(1e9, 0.0, 0.1)[0] < 1e9);
    }
}
