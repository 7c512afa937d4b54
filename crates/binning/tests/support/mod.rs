//! Detectors at random places, and the exact area of a polygon in a rectangle.

// Each test takes what it needs.
#![allow(dead_code, clippy::unwrap_used)]

use std::f64::consts::TAU;

use geometry::{Detector, Geometry, Poni};

/// Numbers at random, the same in every run (SplitMix64).
pub struct TestRandom(pub u64);

impl TestRandom {
    /// Between `low` and `high`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let unit = ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64;
        low + unit * (high - low)
    }

    /// A whole number from `low` up to but not `high`.
    pub fn whole(&mut self, low: usize, high: usize) -> usize {
        (self.between(low as f64, high as f64) as usize).min(high - 1)
    }
}

/// A place of the detector: where the beam's normal meets it (pixels), its distance (m), rotations (rad), orientation.
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
    /// Flat on the beam, which meets it at pixel coordinate `poni` = (row, column).
    pub fn flat(shape: [usize; 2], poni: [f64; 2]) -> Self {
        Self { shape, poni, dist: 0.05, rot: [0.0; 3], orientation: 3 }
    }

    /// With the beam on or off the detector, tilted or not.
    pub fn random(random: &mut TestRandom) -> Self {
        let shape = [random.whole(20, 60), random.whole(20, 60)];
        let on = random.between(0.0, 1.0) < 0.5;
        let (low, high) = if on { (0.0, 1.0) } else { (-2.0, 3.0) };
        let poni = shape.map(|pixels| pixels as f64 * random.between(low, high));
        let rot = [random.between(-0.4, 0.4), random.between(-0.4, 0.4), random.between(-3.0, 3.0)];
        Self { shape, poni, dist: random.between(0.003, 0.03), rot, orientation: random.whole(1, 5) }
    }

    pub fn pixels(&self) -> usize {
        self.shape[0] * self.shape[1]
    }

    /// The geometry, wavelength 1 ångström.
    pub fn geometry(&self) -> Geometry {
        self.geometry_of("Wavelength: 1e-10\n")
    }

    pub fn geometry_of(&self, wavelength: &str) -> Geometry {
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

/// The corners of a pixel as a polygon without a jump of chi; none for a pixel that holds the beam centre.
pub fn polygon(corners: &[[f32; 2]; 4]) -> Option<[[f64; 2]; 4]> {
    let mut polygon = corners.map(|corner| corner.map(f64::from));
    let first = polygon[0][1];
    for corner in &mut polygon[1..] {
        corner[1] -= TAU * ((corner[1] - first) / TAU).round();
    }
    let chi = polygon.map(|corner| corner[1]);
    let span = chi.iter().copied().fold(f64::MIN, f64::max) - chi.iter().copied().fold(f64::MAX, f64::min);
    (span < 2.0).then_some(polygon)
}

/// The exact signed area of the part of a polygon in a rectangle, by Green's theorem: the integral along its edges of
/// height above the rectangle's bottom, cut off at its top. No polygon is clipped.
pub fn area_within(polygon: &[[f64; 2]], [left, right]: [f64; 2], [bottom, top]: [f64; 2]) -> f64 {
    let edges = polygon.iter().zip(polygon.iter().cycle().skip(1));
    -edges.map(|(from, to)| height_integral(*from, *to, [left, right], [bottom, top])).sum::<f64>()
}

fn height_integral(from: [f64; 2], to: [f64; 2], [left, right]: [f64; 2], [bottom, top]: [f64; 2]) -> f64 {
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
    cuts.windows(2).map(|pair| 0.5 * (pair[1] - pair[0]) * (height(pair[0]) + height(pair[1]))).sum()
}

/// A rectangle without top and bottom, for strips: high enough for any polygon of chi.
pub const ALL_CHI: [f64; 2] = [-20.0, 20.0];
