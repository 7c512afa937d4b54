//! Detectors at random positions, and the exact area of a polygon in a rectangle.

// Each test file uses only a part of this module.
#![allow(dead_code, clippy::unwrap_used)]

use std::f64::consts::TAU;

use geometry::{Detector, Geometry, Poni, Unit};

/// Returns the unit of this name.
pub fn unit(name: &str) -> Unit {
    Unit::parse(name).unwrap()
}

/// A reproducible random number generator (SplitMix64).
pub struct TestRandom(pub u64);

impl TestRandom {
    /// Returns a number between `low` and `high`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let unit = ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64;
        low + unit * (high - low)
    }

    /// Returns an integer from `low` to `high`, excluding `high`.
    pub fn whole(&mut self, low: usize, high: usize) -> usize {
        (self.between(low as f64, high as f64) as usize).min(high - 1)
    }
}

/// The placement of a test detector: point of normal incidence in pixels, distance in m, rotations
/// in rad, orientation.
#[derive(Clone, Copy, Debug)]
pub struct TestPlacement {
    pub shape: [usize; 2],
    pub poni: [f64; 2],
    pub dist: f64,
    pub rot: [f64; 3],
    pub orientation: usize,
}

pub const PIXEL: f64 = 1e-4;

impl TestPlacement {
    /// Makes a detector perpendicular to the beam, which hits it at `poni` = (row, column) in
    /// pixels.
    pub fn flat(shape: [usize; 2], poni: [f64; 2]) -> Self {
        Self { shape, poni, dist: 0.05, rot: [0.0; 3], orientation: 3 }
    }

    /// Makes a tilted detector at a random position, with the beam on or off the detector.
    pub fn random(random: &mut TestRandom) -> Self {
        let shape = [random.whole(20, 60), random.whole(20, 60)];
        let on = random.between(0.0, 1.0) < 0.5;
        let (low, high) = if on { (0.0, 1.0) } else { (-2.0, 3.0) };
        let poni = shape.map(|pixels| pixels as f64 * random.between(low, high));
        let rot = [random.between(-0.4, 0.4), random.between(-0.4, 0.4), random.between(-3.0, 3.0)];
        Self {
            shape,
            poni,
            dist: random.between(0.003, 0.03),
            rot,
            orientation: random.whole(1, 5),
        }
    }

    pub fn pixels(&self) -> usize {
        self.shape[0] * self.shape[1]
    }

    /// Returns the geometry for a wavelength of 1 ångström.
    pub fn geometry(&self) -> Geometry {
        self.geometry_with("Wavelength: 1e-10\n")
    }

    /// Returns the corners A, B, C, D of each pixel as [radius in the base unit, chi in radians].
    pub fn corners(&self, unit: Unit) -> Vec<[[f32; 2]; 4]> {
        let corners = self.geometry().corners(unit).unwrap();
        (0..self.pixels()).map(|pixel| corners.of_pixel(pixel)).collect()
    }

    /// Returns the geometry of a PONI file that ends in `wavelength`, a line or nothing.
    pub fn geometry_with(&self, wavelength: &str) -> Geometry {
        let [rows, columns] = self.shape;
        let text = format!(
            "poni_version: 2.1\nDetector: Detector\n\
             Detector_config: {{\"pixel1\": {PIXEL}, \"pixel2\": {PIXEL}, \"max_shape\": [{rows}, {columns}], \
             \"orientation\": {}}}\nDistance: {}\nPoni1: {}\nPoni2: {}\nRot1: {}\nRot2: {}\nRot3: {}\n{wavelength}",
            self.orientation,
            self.dist,
            self.poni[0] * PIXEL,
            self.poni[1] * PIXEL,
            self.rot[0],
            self.rot[1],
            self.rot[2],
        );
        let poni = Poni::parse(&text).unwrap();
        let detector = Detector::from_poni(&poni).unwrap();
        Geometry::new(&poni, &detector, self.shape).unwrap()
    }
}

/// Returns the corners of a pixel as a polygon with continuous chi; `None` for a pixel that
/// contains the beam centre.
pub fn polygon(corners: &[[f32; 2]; 4]) -> Option<[[f64; 2]; 4]> {
    let mut polygon = corners.map(|corner| corner.map(f64::from));
    let first = polygon[0][1];
    for corner in &mut polygon[1..] {
        corner[1] -= TAU * ((corner[1] - first) / TAU).round();
    }
    let chi = polygon.map(|corner| corner[1]);
    let span =
        chi.iter().copied().fold(f64::MIN, f64::max) - chi.iter().copied().fold(f64::MAX, f64::min);
    (span < 2.0).then_some(polygon)
}

/// Returns the exact signed area of the part of a polygon in a rectangle, by Green's theorem: the
/// integral along the polygon's edges of the height above the rectangle's bottom, limited to its
/// top. Unlike the crate, it clips no polygon.
pub fn area_within(polygon: &[[f64; 2]], [left, right]: [f64; 2], [bottom, top]: [f64; 2]) -> f64 {
    let edges = polygon.iter().zip(polygon.iter().cycle().skip(1));
    -edges.map(|(from, to)| height_integral(*from, *to, [left, right], [bottom, top])).sum::<f64>()
}

fn height_integral(
    from: [f64; 2],
    to: [f64; 2],
    [left, right]: [f64; 2],
    [bottom, top]: [f64; 2],
) -> f64 {
    if from[0] == to[0] {
        return 0.0;
    }
    if from[0] > to[0] {
        return -height_integral(to, from, [left, right], [bottom, top]);
    }
    let slope = (to[1] - from[1]) / (to[0] - from[0]);
    let height = |x: f64| (from[1] + slope * (x - from[0])).clamp(bottom, top) - bottom;
    let crossing = |y: f64| from[0] + (y - from[1]) / slope;
    let (start, end) = (from[0].max(left), to[0].min(right));
    if start >= end {
        return 0.0;
    }
    let mut cuts = vec![start, end];
    cuts.extend([crossing(bottom), crossing(top)].into_iter().filter(|x| *x > start && *x < end));
    cuts.sort_by(f64::total_cmp);
    cuts.windows(2)
        .map(|pair| 0.5 * (pair[1] - pair[0]) * (height(pair[0]) + height(pair[1])))
        .sum()
}

/// Bottom and top of a rectangle that is high enough for any polygon in chi.
pub const ALL_CHI: [f64; 2] = [-20.0, 20.0];
