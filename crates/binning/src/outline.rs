//! The outline of a pixel in the plane of radius and azimuth, for full pixel splitting.

use std::f64::consts::{PI, TAU};

use crate::bin_edges::{BinEdges, BinSpan};

/// The outline of one pixel: its corners joined by straight lines in (radius, chi), with chi
/// continuous along them.
///
/// Around the corners of a pixel that contains the beam centre, chi changes by 2π, so the lines do
/// not close. Such an outline is closed along radius zero: it encloses the area from the centre to
/// the corners, over the full circle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Outline {
    points: [[f64; 2]; 7],
    len: usize,
    /// Origin of chi in `points`. Relative angles are small, so areas lose no precision by
    /// cancellation.
    chi: f64,
}

impl Outline {
    /// Makes the outline from the corners A, B, C, D of a pixel, each [radius in the base unit, chi
    /// in radians]; chi may be off by multiples of 2π. `None` if a corner is not finite.
    pub fn new(corners: &[[f32; 2]; 4]) -> Option<Self> {
        let corners = corners.map(|corner| corner.map(f64::from));
        if !corners.as_flattened().iter().all(|x| x.is_finite()) {
            return None;
        }
        let mut points = [[0.0; 2]; 7];
        let mut chi = 0.0;
        for (i, corner) in corners.iter().enumerate() {
            points[i] = [corner[0], chi];
            // An edge that does not pass through the beam centre spans less than π.
            chi += wrap_to_pi(corners[(i + 1) % 4][1] - corner[1]);
        }
        let mut outline = Self { points, len: 4, chi: corners[0][1] };
        if chi.abs() > PI {
            outline.points[4] = [corners[0][0], chi];
            outline.points[5] = [0.0, chi];
            outline.points[6] = [0.0, 0.0];
            outline.len = 7;
        }
        Some(outline)
    }

    /// Returns whether the pixel contains the beam centre.
    pub fn contains_beam_center(&self) -> bool {
        self.len > 4
    }

    /// Returns the points of the outline in order, as [radius, chi relative to [`Self::chi`]].
    pub fn points(&self) -> &[[f64; 2]] {
        &self.points[..self.len]
    }

    /// Returns the azimuth in radians to which the points are relative.
    pub fn chi(&self) -> f64 {
        self.chi
    }

    /// Returns the smallest and the largest radius.
    pub fn radial_extent(&self) -> (f64, f64) {
        extent(self.points().iter().map(|point| point[0]))
    }

    /// Returns the smallest and the largest chi in radians, each at most 2π from the first
    /// corner's.
    pub fn chi_extent(&self) -> (f64, f64) {
        let (min, max) = extent(self.points().iter().map(|point| point[1]));
        (self.chi + min, self.chi + max)
    }

    /// Returns the bins that the outline touches; `None` if it is outside the axis.
    pub fn bins_touched(&self, bin_edges: &BinEdges) -> Option<OutlineBins> {
        // An outline has four points but for the pixel at the beam centre.
        let mut positions = [0.0; 7];
        for (position, point) in positions.iter_mut().zip(self.points()) {
            *position = bin_edges.position(point[0]);
        }
        let (first, last) = extent(positions[..self.len].iter().copied());
        Some(OutlineBins { span: bin_edges.bins_between(first, last)?, positions })
    }

    /// Writes to `areas` the signed area of the outline in each bin of its span. All areas have the
    /// same sign, unless the pixel is so close to the beam centre that its outline crosses itself.
    pub fn bin_areas(&self, bin_edges: &BinEdges, bins: &OutlineBins, areas: &mut Vec<f64>) {
        let OutlineBins { span, positions } = bins;
        areas.clear();
        areas.resize(span.last - span.first + 1, 0.0);
        for from in 0..self.len {
            let to = if from + 1 < self.len { from + 1 } else { 0 };
            let (inner, outer, sign) = if self.points[from][0] < self.points[to][0] {
                (from, to, 1.0)
            } else {
                (to, from, -1.0)
            };
            let (low, high) = (self.points[inner], self.points[outer]);
            // Within each bin, a trapezium lies below the edge. An edge of constant radius has
            // none, whatever its slope.
            let Some(crossed) = bin_edges.bins_between(positions[inner], positions[outer]) else {
                continue;
            };
            let slope = (high[1] - low[1]) / (high[0] - low[0]);
            for bin in crossed.first..=crossed.last {
                let (left, right) =
                    (low[0].max(bin_edges.edge(bin)), high[0].min(bin_edges.edge(bin + 1)));
                if right > left {
                    let height = low[1] + slope * (0.5 * (left + right) - low[0]);
                    areas[bin - span.first] += sign * (right - left) * height;
                }
            }
        }
    }
}

/// The bins that an outline touches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutlineBins {
    /// The bins.
    pub span: BinSpan,
    /// The position of each of the outline's points on the axis, in units of bins.
    positions: [f64; 7],
}

/// Wraps a difference of angles to [-π, π].
fn wrap_to_pi(difference: f64) -> f64 {
    // Nearly all differences are small, and rounding takes long.
    if difference.abs() < 3.0 {
        return difference;
    }
    difference - TAU * (difference / TAU).round()
}

fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), x| (min.min(x), max.max(x)))
}
