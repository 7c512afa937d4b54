//! The outline of a pixel in the plane of radius and azimuth, for full pixel splitting.

use std::f64::consts::{PI, TAU};
use std::ops::Deref;

use crate::bin_edges::{BinEdges, BinSpan};

/// The outline of one pixel: its corners joined by straight lines in (radius, chi), with chi
/// continuous along them.
///
/// Around the corners of a pixel that contains the beam centre, chi changes by 2π, so the lines do
/// not close. Such an outline is closed along radius zero: it encloses the area from the centre to
/// the corners, over the full circle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Outline {
    /// The corners as [radius, chi relative to `chi`].
    corners: [[f64; 2]; 4],
    /// The change of chi once around the corners: 0, or ±2π around the beam centre.
    turn: f64,
    /// Origin of chi. Relative angles are small, so areas lose no precision by cancellation.
    chi: f64,
}

/// The points of an outline in order, as [radius, chi relative to [`Outline::chi`]].
pub(crate) struct OutlinePoints {
    points: [[f64; 2]; 7],
    len: usize,
}

impl Deref for OutlinePoints {
    type Target = [[f64; 2]];

    fn deref(&self) -> &[[f64; 2]] {
        &self.points[..self.len]
    }
}

impl Outline {
    /// Makes the outline from the corners A, B, C, D of a pixel, each [radius in the base unit, chi
    /// in radians]; chi may be off by multiples of 2π. `None` if a corner is not finite.
    #[inline]
    pub fn new(corners: &[[f32; 2]; 4]) -> Option<Self> {
        if !corners.as_flattened().iter().all(|x| x.is_finite()) {
            return None;
        }
        let mut corners = corners.map(|corner| corner.map(f64::from));
        let origin = corners[0][1];
        let (mut chi, mut turn) = (origin, 0.0);
        for next in [1, 2, 3, 0] {
            // The side before `next`. One that does not pass through the beam centre spans less
            // than π.
            let absolute = if next == 0 { origin } else { corners[next][1] };
            corners[(next + 3) % 4][1] = turn;
            turn += wrap_to_pi(absolute - chi);
            chi = absolute;
        }
        Some(Self { corners, turn, chi: origin })
    }

    /// Returns whether the pixel contains the beam centre.
    #[inline]
    pub fn contains_beam_center(&self) -> bool {
        self.turn.abs() > PI
    }

    /// Returns the points of the outline: the corners and, around the beam centre, the way back
    /// along radius zero.
    pub fn points(&self) -> OutlinePoints {
        let [a, b, c, d] = self.corners;
        let closing = [[a[0], self.turn], [0.0, self.turn], [0.0, 0.0]];
        let points = [a, b, c, d, closing[0], closing[1], closing[2]];
        OutlinePoints { points, len: if self.contains_beam_center() { 7 } else { 4 } }
    }

    /// Returns the azimuth in radians to which the points are relative.
    pub fn chi(&self) -> f64 {
        self.chi
    }

    /// Returns the smallest and the largest radius.
    #[inline]
    pub fn radial_extent(&self) -> (f64, f64) {
        let [a, b, c, d] = self.corners.map(|corner| corner[0]);
        let (min, max) =
            (smaller(smaller(a, b), smaller(c, d)), larger(larger(a, b), larger(c, d)));
        match self.contains_beam_center() {
            // Radii such as q_oop may all be negative.
            true => (smaller(min, 0.0), larger(max, 0.0)),
            false => (min, max),
        }
    }

    /// Returns the smallest and the largest chi in radians, each at most 2π from the first
    /// corner's.
    pub fn chi_extent(&self) -> (f64, f64) {
        let (min, max) = extent(self.points().iter().map(|point| point[1]));
        (self.chi + min, self.chi + max)
    }

    /// Returns the bins that the outline touches; `None` if it is outside the axis.
    #[inline]
    pub fn bins_touched(&self, bin_edges: &BinEdges) -> Option<BinSpan> {
        let (min, max) = self.radial_extent();
        bin_edges.bins_touched(min, max)
    }

    /// Sets `areas` to the signed areas of the outline in the bins from `first` on. All have the
    /// same sign, unless the pixel is so close to the beam centre that its outline crosses itself.
    #[inline(always)]
    pub fn bin_areas(&self, bin_edges: &BinEdges, first: usize, areas: &mut [f64]) {
        if self.contains_beam_center() {
            return Sides::new(&self.points().points).bin_areas(bin_edges, first, areas);
        }
        Sides::new(&self.corners).bin_areas(bin_edges, first, areas);
    }
}

/// The sides of an outline with `N` points.
struct Sides<const N: usize> {
    /// The radius and the azimuth at which each side begins.
    radii: [f64; N],
    azimuths: [f64; N],
    /// The change of azimuth with radius along each side; 0 for sides of constant radius, below
    /// which there is no area.
    slopes: [f64; N],
}

impl<const N: usize> Sides<N> {
    #[inline(always)]
    fn new(points: &[[f64; 2]; N]) -> Self {
        let mut sides = Self { radii: [0.0; N], azimuths: [0.0; N], slopes: [0.0; N] };
        for side in 0..N {
            let ([radius, azimuth], next) = (points[side], points[(side + 1) % N]);
            (sides.radii[side], sides.azimuths[side]) = (radius, azimuth);
            let width = next[0] - radius;
            sides.slopes[side] = if width == 0.0 { 0.0 } else { (next[1] - azimuth) / width };
        }
        sides
    }

    #[inline(always)]
    fn bin_areas(&self, bin_edges: &BinEdges, first: usize, areas: &mut [f64]) {
        let mut left = bin_edges.edge(first);
        for (bin, area) in (first..).zip(areas) {
            let right = bin_edges.edge(bin + 1);
            *area = self.area_between(left, right);
            left = right;
        }
    }

    /// Returns the signed area between two radii: the sum of the trapezia below the sides, negative
    /// where a side runs inwards.
    #[inline(always)]
    fn area_between(&self, left: f64, right: f64) -> f64 {
        let within = self.radii.map(|radius| smaller(larger(radius, left), right));
        let mut area = 0.0;
        for side in 0..N {
            let (from, to) = (within[side], within[(side + 1) % N]);
            let middle = 0.5 * (from + to) - self.radii[side];
            area += (to - from) * (self.azimuths[side] + self.slopes[side] * middle);
        }
        area
    }
}

/// A difference of angles below this is within [-π, π] as it is.
pub(crate) const NEVER_WRAPPED: f64 = 3.0;

/// Wraps a difference of angles to [-π, π].
#[inline]
fn wrap_to_pi(difference: f64) -> f64 {
    // Nearly all differences are small, and rounding takes long.
    if difference.abs() < NEVER_WRAPPED {
        return difference;
    }
    difference - TAU * (difference / TAU).round()
}

/// Returns the smaller of two numbers, none of which is NaN: `f64::min`, which allows for NaN, takes
/// several times as long.
#[inline(always)]
pub(crate) fn smaller(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

/// Returns the larger of two numbers, none of which is NaN.
#[inline(always)]
pub(crate) fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), x| (min.min(x), max.max(x)))
}
