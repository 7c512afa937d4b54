//! Points in blocks, with an array for each coordinate: formulas over them become vector
//! instructions.

use multiversion::multiversion;

use crate::rotation::LabPoint;

/// Number of points, or of pixels, in a block: formulas over their arrays become vector instructions.
pub const BLOCK: usize = 64;

/// Points in the detector's frame: metres along the slow and the fast axis from the detector's
/// corner, and metres behind its plane, away from the sample. After fewer than [`BLOCK`] points were
/// set, the others are points of before, whose values nobody takes.
pub(crate) struct DetectorPoints {
    pub(crate) p1: [f64; BLOCK],
    pub(crate) p2: [f64; BLOCK],
    pub(crate) p3: [f64; BLOCK],
}

/// Points in the laboratory's frame, whose coordinates are those of [`LabPoint`].
pub(crate) struct LabPoints {
    pub(crate) y: [f64; BLOCK],
    pub(crate) x: [f64; BLOCK],
    pub(crate) z: [f64; BLOCK],
}

impl DetectorPoints {
    /// Makes a block of equal points, at the detector's corner.
    pub(crate) fn new() -> Self {
        Self { p1: [0.0; BLOCK], p2: [0.0; BLOCK], p3: [0.0; BLOCK] }
    }

    /// Sets the points to those at `p1` on the slow axis and at each of `p2` on the fast axis, at
    /// most [`BLOCK`].
    pub(crate) fn set_row(&mut self, p1: f64, p2: &[f64]) {
        self.p1 = [p1; BLOCK];
        self.p2[..p2.len()].copy_from_slice(p2);
    }

    /// Sets the points to those given as [z, y, x], at most [`BLOCK`].
    pub(crate) fn set(&mut self, points: impl Iterator<Item = [f64; 3]>) {
        for (index, [z, y, x]) in points.enumerate() {
            (self.p1[index], self.p2[index], self.p3[index]) = (y, x, z);
        }
    }

    /// Applies `to_lab` to each point.
    #[inline(always)]
    pub(crate) fn map(&self, to_lab: impl Fn(f64, f64, f64) -> LabPoint) -> LabPoints {
        map_to_lab(self, to_lab)
    }
}

impl LabPoints {
    /// Writes to `values` the value of each point, of as many as there are values.
    #[inline(always)]
    pub(crate) fn map_into(&self, values: &mut [f64], value: impl Fn(LabPoint) -> f64) {
        map_into(self, values, value);
    }

    /// Writes to `values` the azimuth of each point, of as many as there are values.
    pub(crate) fn chi(&self, values: &mut [f64]) {
        self.map_into(values, LabPoint::chi);
    }
}

/// As [`DetectorPoints::map`].
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw", "x86_64+avx2"))]
fn map_to_lab<F: Fn(f64, f64, f64) -> LabPoint>(points: &DetectorPoints, to_lab: F) -> LabPoints {
    let mut lab = LabPoints { y: [0.0; BLOCK], x: [0.0; BLOCK], z: [0.0; BLOCK] };
    for index in 0..BLOCK {
        let point = to_lab(points.p1[index], points.p2[index], points.p3[index]);
        (lab.y[index], lab.x[index], lab.z[index]) = (point.y, point.x, point.z);
    }
    lab
}

/// As [`LabPoints::map_into`].
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw", "x86_64+avx2"))]
fn map_into<F: Fn(LabPoint) -> f64>(points: &LabPoints, values: &mut [f64], value: F) {
    for (((out, &y), &x), &z) in values.iter_mut().zip(&points.y).zip(&points.x).zip(&points.z) {
        *out = value(LabPoint { y, x, z });
    }
}
