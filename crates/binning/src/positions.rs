//! Where the pixels lie, in the form that each kind of splitting needs.

use geometry::{Geometry, Unit};
use rayon::prelude::*;

use crate::BinningError;
use crate::outline::Outline;
use crate::request::PixelSplitting;

/// The pixels' positions: radius in a base unit (m, rad, nm^-1, nm^-2) and chi in rad; row-major. Those of centres are
/// f64 and those of corners f32 in pyFAI; the geometry keeps to that, and so bins decide alike.
pub(crate) enum Positions {
    Centers { radial: Vec<f64>, chi: Option<Vec<f64>> },
    Boxes { radial: PixelIntervals, chi: Option<PixelIntervals> },
    Corners(Vec<[[f32; 2]; 4]>),
}

/// Centres, and the largest distance of a corner from each.
pub(crate) struct PixelIntervals {
    pub centers: Vec<f64>,
    pub deltas: Vec<f64>,
}

impl Positions {
    /// Computes what `split` needs; azimuths only `with_chi`.
    pub fn compute(
        geometry: &Geometry,
        unit: Unit,
        split: PixelSplitting,
        with_chi: bool,
    ) -> Result<Self, BinningError> {
        let base = unit.base();
        Ok(match split {
            PixelSplitting::No => {
                Self::Centers { radial: geometry.radial_centers(base)?, chi: with_chi.then(|| geometry.chi_centers()) }
            }
            PixelSplitting::BBox => Self::Boxes {
                radial: PixelIntervals {
                    centers: geometry.radial_centers(base)?,
                    deltas: geometry.radial_deltas(base)?,
                },
                chi: with_chi
                    .then(|| PixelIntervals { centers: geometry.chi_centers(), deltas: geometry.chi_deltas() }),
            },
            PixelSplitting::Full => Self::Corners(geometry.corners(base)?),
        })
    }

    /// Whether a pixel has a place on an axis without an end at the beam: not so where it holds the beam or touches it.
    pub fn has_position(&self, pixel: usize) -> bool {
        match self {
            Self::Centers { radial, .. } => radial[pixel].is_finite(),
            Self::Boxes { radial, .. } => radial.centers[pixel].is_finite() && radial.deltas[pixel].is_finite(),
            Self::Corners(corners) => {
                Outline::new(&corners[pixel]).is_some_and(|outline| !outline.contains_beam_center())
            }
        }
    }

    /// The smallest and largest radius of unmasked pixels; none if there is none.
    pub fn radial_extent(&self, mask: &[bool]) -> Option<(f64, f64)> {
        extent(mask, |pixel| match self {
            Self::Centers { radial, .. } => (radial[pixel], radial[pixel]),
            Self::Boxes { radial, .. } => radial.interval(pixel),
            Self::Corners(corners) => corner_extent(&corners[pixel]),
        })
    }

    /// The smallest and largest chi of unmasked pixels (rad); none if there is none, or if azimuths were not computed.
    pub fn chi_extent(&self, mask: &[bool]) -> Option<(f64, f64)> {
        extent(mask, |pixel| match self {
            Self::Centers { chi, .. } => chi.as_ref().map_or(EMPTY_EXTENT, |chi| (chi[pixel], chi[pixel])),
            Self::Boxes { chi, .. } => chi.as_ref().map_or(EMPTY_EXTENT, |chi| chi.interval(pixel)),
            Self::Corners(corners) => {
                Outline::new(&corners[pixel]).map_or(EMPTY_EXTENT, |outline| outline.chi_extent())
            }
        })
    }
}

impl PixelIntervals {
    /// From the centre of a pixel minus its delta to the centre plus it.
    #[inline]
    pub fn interval(&self, pixel: usize) -> (f64, f64) {
        (self.centers[pixel] - self.deltas[pixel], self.centers[pixel] + self.deltas[pixel])
    }
}

const EMPTY_EXTENT: (f64, f64) = (f64::INFINITY, f64::NEG_INFINITY);

fn corner_extent(corners: &[[f32; 2]; 4]) -> (f64, f64) {
    corners.iter().fold(EMPTY_EXTENT, |(min, max), corner| (min.min(corner[0].into()), max.max(corner[0].into())))
}

/// The union of the unmasked pixels' intervals. NaN limits are passed over.
fn extent(mask: &[bool], interval: impl Fn(usize) -> (f64, f64) + Sync) -> Option<(f64, f64)> {
    let join = |a: (f64, f64), b: (f64, f64)| (a.0.min(b.0), a.1.max(b.1));
    let (min, max) = mask
        .par_iter()
        .enumerate()
        .with_min_len(1 << 14)
        .filter(|(_, masked)| !**masked)
        .map(|(pixel, _)| interval(pixel))
        .reduce(|| EMPTY_EXTENT, join);
    (min <= max).then_some((min, max))
}
