//! A pixel as a polygon in the plane of radius and azimuth, for full splitting.

use std::f64::consts::{PI, TAU};

use crate::bin_edges::{BinEdges, BinSpan};

/// The outline of one pixel: its corners joined by straight lines in (radius, chi), chi without a jump.
///
/// A pixel that holds the beam centre has no such polygon: going round its corners, chi grows by a turn. It is closed
/// along radius zero, so that it is the area below its corners, from the centre outward over the whole turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Outline {
    points: [[f64; 2]; 7],
    len: usize,
    /// Added to chi of `points` to be that of the pixel: the points' own chi is small, which keeps areas exact.
    chi: f64,
}

impl Outline {
    /// From the corners A, B, C, D of a pixel as [radius in the base unit, chi in rad], chi in any turn. None if one
    /// of them is not finite.
    pub fn new(corners: &[[f32; 2]; 4]) -> Option<Self> {
        let corners = corners.map(|corner| corner.map(f64::from));
        if !corners.as_flattened().iter().all(|x| x.is_finite()) {
            return None;
        }
        let mut points = [[0.0; 2]; 7];
        let mut chi = 0.0;
        for (i, corner) in corners.iter().enumerate() {
            points[i] = [corner[0], chi];
            // An edge that does not pass through the beam centre spans less than half a turn.
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

    /// Whether the beam centre is in the pixel.
    pub fn contains_beam_center(&self) -> bool {
        self.len > 4
    }

    /// The corners in order, chi relative to [`Self::chi`].
    pub fn points(&self) -> &[[f64; 2]] {
        &self.points[..self.len]
    }

    /// Where chi of the points counts from (rad).
    pub fn chi(&self) -> f64 {
        self.chi
    }

    /// The smallest and largest radius.
    pub fn radial_extent(&self) -> (f64, f64) {
        extent(self.points().iter().map(|point| point[0]))
    }

    /// The smallest and largest chi, at most a turn from that of the first corner.
    pub fn chi_extent(&self) -> (f64, f64) {
        let (min, max) = extent(self.points().iter().map(|point| point[1]));
        (self.chi + min, self.chi + max)
    }

    /// The signed areas of the pixel's strips in the bins of `bins_touched`, all of one sign but for a pixel so close to the
    /// beam centre that its outline crosses itself.
    pub fn bin_areas(&self, ruler: &BinEdges, span: BinSpan, areas: &mut Vec<f64>) {
        areas.clear();
        areas.resize(span.last - span.first + 1, 0.0);
        let points = self.points();
        for (i, &from) in points.iter().enumerate() {
            let to = points[(i + 1) % points.len()];
            let (low, high, sign) = if from[0] < to[0] { (from, to, 1.0) } else { (to, from, -1.0) };
            let slope = (high[1] - low[1]) / (high[0] - low[0]);
            // Below this edge, within each bin, lies a trapezium. An edge along chi has none, whatever its slope.
            let Some(crossed) = ruler.bins_touched(low[0], high[0]) else { continue };
            for bin in crossed.first..=crossed.last {
                let (left, right) = (low[0].max(ruler.edge(bin)), high[0].min(ruler.edge(bin + 1)));
                if right > left {
                    let height = low[1] + slope * (0.5 * (left + right) - low[0]);
                    areas[bin - span.first] += sign * (right - left) * height;
                }
            }
        }
    }
}

/// An angle's difference, by whole turns to [-pi, pi].
fn wrap_to_pi(difference: f64) -> f64 {
    difference - TAU * (difference / TAU).round()
}

fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), x| (min.min(x), max.max(x)))
}
