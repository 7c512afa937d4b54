//! Positions of all pixels, in the form that each kind of pixel splitting needs.

use geometry::{Geometry, PixelIntervals, Unit};
use rayon::prelude::*;

use crate::BinningError;
use crate::outline::Outline;
use crate::request::PixelSplitting;

/// The positions of all pixels, row-major: radius in a base unit and chi in radians. As in pyFAI,
/// centres are f64 and corners are f32, so that pixels fall in the same bins.
pub(crate) enum Positions {
    /// Centres, for no splitting.
    Centers { radial: Vec<f64>, chi: Option<Vec<f64>> },
    /// Intervals, for splitting by bounding box.
    Boxes { radial: PixelIntervals, chi: Option<PixelIntervals> },
    /// Corners A, B, C, D as [radius, chi], for full splitting.
    Corners(Vec<[[f32; 2]; 4]>),
}

impl Positions {
    /// Computes the positions that `split` needs. Azimuths of centres and boxes are computed only
    /// `with_chi`.
    pub fn compute(
        geometry: &Geometry,
        unit: Unit,
        split: PixelSplitting,
        with_chi: bool,
    ) -> Result<Self, BinningError> {
        let base = unit.base();
        Ok(match split {
            PixelSplitting::No => Self::Centers {
                radial: geometry.radial_centers(base)?,
                chi: with_chi.then(|| geometry.chi_centers()),
            },
            PixelSplitting::BBox => Self::Boxes {
                radial: geometry.radial_intervals(base)?,
                chi: with_chi.then(|| geometry.chi_intervals()),
            },
            PixelSplitting::Full => Self::Corners(geometry.corners(base)?),
        })
    }

    /// Returns whether a pixel has a position on an axis that diverges at the beam: it must not
    /// contain or touch the beam centre.
    pub fn has_position(&self, pixel: usize) -> bool {
        match self {
            Self::Centers { radial, .. } => radial[pixel].is_finite(),
            Self::Boxes { radial, .. } => {
                radial.centers[pixel].is_finite() && radial.deltas[pixel].is_finite()
            }
            Self::Corners(corners) => {
                Outline::new(&corners[pixel]).is_some_and(|outline| !outline.contains_beam_center())
            }
        }
    }

    /// Returns the smallest and the largest radius of unmasked pixels; `None` if all are masked.
    pub fn radial_extent(&self, mask: &[bool]) -> Option<(f64, f64)> {
        extent(mask, |pixel| match self {
            Self::Centers { radial, .. } => (radial[pixel], radial[pixel]),
            Self::Boxes { radial, .. } => radial.interval(pixel),
            Self::Corners(corners) => corner_extent(&corners[pixel]),
        })
    }

    /// Returns the smallest and the largest chi of unmasked pixels in radians; `None` if all are
    /// masked or azimuths were not computed.
    pub fn chi_extent(&self, mask: &[bool]) -> Option<(f64, f64)> {
        extent(mask, |pixel| match self {
            Self::Centers { chi, .. } => {
                chi.as_ref().map_or(EMPTY_EXTENT, |chi| (chi[pixel], chi[pixel]))
            }
            Self::Boxes { chi, .. } => chi.as_ref().map_or(EMPTY_EXTENT, |chi| chi.interval(pixel)),
            Self::Corners(corners) => {
                Outline::new(&corners[pixel]).map_or(EMPTY_EXTENT, |outline| outline.chi_extent())
            }
        })
    }
}

const EMPTY_EXTENT: (f64, f64) = (f64::INFINITY, f64::NEG_INFINITY);

fn corner_extent(corners: &[[f32; 2]; 4]) -> (f64, f64) {
    corners.iter().fold(EMPTY_EXTENT, |(min, max), corner| {
        (min.min(corner[0].into()), max.max(corner[0].into()))
    })
}

/// Returns the smallest interval that contains the intervals of all unmasked pixels; NaN limits are
/// ignored.
fn extent(mask: &[bool], interval: impl Fn(usize) -> (f64, f64) + Sync) -> Option<(f64, f64)> {
    let hull = |a: (f64, f64), b: (f64, f64)| (a.0.min(b.0), a.1.max(b.1));
    let (min, max) = mask
        .par_iter()
        .enumerate()
        .with_min_len(1 << 14)
        .filter(|(_, masked)| !**masked)
        .map(|(pixel, _)| interval(pixel))
        .reduce(|| EMPTY_EXTENT, hull);
    (min <= max).then_some((min, max))
}
