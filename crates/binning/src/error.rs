//! Errors of building bins.

use std::fmt;

use geometry::{GeometryError, Unit};

/// A request for bins is invalid, or no pixel falls in them.
#[derive(Debug, thiserror::Error)]
pub enum BinningError {
    /// The number of bins along an axis (`radial` or `azimuthal`) is zero.
    #[error("0 {0} bins; expected at least 1")]
    NoBins(&'static str),
    /// A matrix can't number this many bins.
    #[error("{radial} radial x {azimuthal} azimuthal bins; expected at most {} in all", u32::MAX)]
    TooManyBins {
        /// Radial bins requested.
        radial: usize,
        /// Azimuthal bins requested.
        azimuthal: usize,
    },
    /// The limits of a range are not finite or not in rising order.
    #[error("{axis} range {range}; expected two finite numbers, the lower first")]
    Range {
        /// Axis of the range, `radial` or `azimuth`.
        axis: &'static str,
        /// Range requested.
        range: Limits,
    },
    /// Edges of bins are fewer than two, do not rise, or span more than a full circle of azimuth.
    #[error("{axis} edges: {why}")]
    Edges {
        /// Axis of the edges, `radial` or `azimuth`.
        axis: &'static str,
        /// Fault, and what was expected.
        why: String,
    },
    /// The mask does not have the shape of the detector.
    #[error("mask has {found} pixels; expected {} x {} = {}", expected[0], expected[1], expected[0] * expected[1])]
    MaskShape {
        /// Number of pixels in the mask.
        found: usize,
        /// Rows and columns of the detector.
        expected: [usize; 2],
    },
    /// Every pixel is masked.
    #[error("all {0} pixels are masked; check the mask files and masked regions")]
    AllMasked(usize),
    /// No unmasked pixel lies in the requested range.
    #[error(
        "no pixel in radial range {wanted} {unit}{}; unmasked pixels cover {covered} {unit}{}",
        AzimuthSuffix(wanted_chi),
        AzimuthSuffix(covered_chi)
    )]
    NothingInRange {
        /// Radial unit.
        unit: Unit,
        /// Radial range requested.
        wanted: Limits,
        /// Azimuthal range requested, in degrees.
        wanted_chi: Option<Limits>,
        /// Radial range that the unmasked pixels cover.
        covered: Limits,
        /// Azimuthal range that the unmasked pixels cover, in degrees within -180 to 180.
        covered_chi: Option<Limits>,
    },
    /// Positions in the requested unit can't be computed.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
}

/// A range, printed as `0.5 to 12.25` with at most six digits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits(pub f64, pub f64);

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounded = |x: f64| format!("{x:.5e}").parse().unwrap_or(x);
        write!(f, "{} to {}", rounded(self.0), rounded(self.1))
    }
}

/// Prints the azimuthal range that follows a radial range, if there is one.
struct AzimuthSuffix<'a>(&'a Option<Limits>);

impl fmt::Display for AzimuthSuffix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |limits| write!(f, " and azimuth {limits} deg"))
    }
}
