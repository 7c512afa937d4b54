//! Why pixels can't be binned as asked.

use std::fmt;

use geometry::{GeometryError, Unit};

/// Why [`crate::bin`] or [`crate::bin_pixels`] refused.
#[derive(Debug, thiserror::Error)]
pub enum BinningError {
    /// A pattern without bins.
    #[error("no {0} bins: at least 1 is needed")]
    NoBins(&'static str),
    /// More bins than a matrix can number.
    #[error("{radial} radial times {azimuthal} azimuthal bins: at most {} are possible", u32::MAX)]
    TooManyBins {
        /// Radial bins asked for.
        radial: usize,
        /// Azimuthal bins asked for.
        azimuthal: usize,
    },
    /// Limits that enclose nothing.
    #[error("{axis} range {range}: the lower limit must be below the upper one, and both finite")]
    Range {
        /// `radial_bins` or `azimuth`.
        axis: &'static str,
        /// What was asked for.
        range: Limits,
    },
    /// Edges that don't rise, or fewer than two, or more than a turn of azimuth.
    #[error("{axis} edges: {why}")]
    Edges {
        /// `radial_bins` or `azimuth`.
        axis: &'static str,
        /// What is wrong with them.
        why: String,
    },
    /// The mask is of another detector.
    #[error("mask of {found} pixels: the detector has {} x {} = {}", expected[0], expected[1], expected[0] * expected[1])]
    MaskShape {
        /// Pixels in the mask.
        found: usize,
        /// Rows and columns of the detector.
        expected: [usize; 2],
    },
    /// No pixel is left.
    #[error("all {0} pixels are masked")]
    AllMasked(usize),
    /// Pixels are left, but elsewhere.
    #[error(
        "no pixel in radial range {wanted} {unit}{}: unmasked pixels cover {covered} {unit}{}",
        AzimuthSuffix(wanted_chi),
        AzimuthSuffix(covered_chi)
    )]
    NothingInRange {
        /// The radial unit.
        unit: Unit,
        /// The radial range asked for.
        wanted: Limits,
        /// The sector asked for, degrees.
        wanted_chi: Option<Limits>,
        /// What the unmasked pixels cover.
        covered: Limits,
        /// The azimuth that the unmasked pixels cover, degrees in -180 to 180.
        covered_chi: Option<Limits>,
    },
    /// Positions in this unit can't be computed.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
}

/// A range, printed as `0.5..12.25` with six digits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits(pub f64, pub f64);

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounded = |x: f64| format!("{x:.5e}").parse().unwrap_or(x);
        write!(f, "{}..{}", rounded(self.0), rounded(self.1))
    }
}

/// Prints an azimuthal range after a radial one, if there is one.
struct AzimuthSuffix<'a>(&'a Option<Limits>);

impl fmt::Display for AzimuthSuffix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |limits| write!(f, " and azimuth {limits} deg"))
    }
}
