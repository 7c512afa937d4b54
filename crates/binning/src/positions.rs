//! Positions of all pixels, in the form that each kind of pixel splitting needs.

use geometry::{BLOCK, CornerValues, Geometry, IntervalBlock, PixelIntervals, Unit};
use multiversion::multiversion;
use rayon::prelude::*;

use crate::BinningError;
use crate::outline::Outline;
use crate::request::PixelSplitting;
use crate::split_block::CornerBlock;

/// The positions of all pixels, row-major: radius in a base unit and chi in radians. As in pyFAI,
/// centres are f64 and corners are f32, so that pixels fall in the same bins.
pub(crate) enum Positions {
    /// Centres, for no splitting.
    Centers { radial: Vec<f64>, chi: Option<Vec<f64>> },
    /// Intervals, for splitting by bounding box.
    Boxes { radial: PixelIntervals, chi: Option<PixelIntervals> },
    /// Corners A, B, C, D as [radius, chi], for full splitting.
    Corners(CornerValues<[f32; 2]>),
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
                radial.centers[pixel].is_finite() && radial.half_width(pixel).is_finite()
            }
            Self::Corners(corners) => Outline::new(&corners.of_pixel(pixel))
                .is_some_and(|outline| !outline.contains_beam_center()),
        }
    }

    /// Returns the smallest and the largest radius of unmasked pixels; `None` if all are masked.
    pub fn radial_extent(&self, mask: &[bool]) -> Option<(f64, f64)> {
        match self {
            Self::Centers { radial, .. } => extent(mask, |pixel| (radial[pixel], radial[pixel])),
            Self::Boxes { radial, .. } => extent_of_blocks(mask, |pixels| radial.of_pixels(pixels)),
            Self::Corners(corners) => extent_of_blocks(mask, |pixels| {
                let mut of_block = [[[0.0; 2]; BLOCK]; 4];
                corners.copy_corners(pixels, &mut of_block);
                corner_extents(&of_block)
            }),
        }
    }

    /// Returns the smallest and the largest chi of unmasked pixels in radians; `None` if all are
    /// masked or azimuths were not computed.
    pub fn chi_extent(&self, mask: &[bool]) -> Option<(f64, f64)> {
        extent(mask, |pixel| match self {
            Self::Centers { chi, .. } => {
                chi.as_ref().map_or(EMPTY_EXTENT, |chi| (chi[pixel], chi[pixel]))
            }
            Self::Boxes { chi, .. } => chi.as_ref().map_or(EMPTY_EXTENT, |chi| chi.interval(pixel)),
            Self::Corners(corners) => Outline::new(&corners.of_pixel(pixel))
                .map_or(EMPTY_EXTENT, |outline| outline.chi_extent()),
        })
    }
}

const EMPTY_EXTENT: (f64, f64) = (f64::INFINITY, f64::NEG_INFINITY);

/// Number of pixels of which one thread finds the extent at a time.
const PIXELS_PER_THREAD: usize = 1 << 14;

/// Returns the radii that the corners of each pixel of a block cover; NaN radii are ignored.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw", "x86_64+avx2"))]
fn corner_extents(corners: &CornerBlock) -> IntervalBlock {
    let mut block = IntervalBlock { min: [EMPTY_EXTENT.0; BLOCK], max: [EMPTY_EXTENT.1; BLOCK] };
    for corner in corners {
        for (index, [radius, _]) in corner.iter().enumerate() {
            let radius = f64::from(*radius);
            let extent = extend((block.min[index], block.max[index]), (radius, radius));
            (block.min[index], block.max[index]) = extent;
        }
    }
    block
}

/// As [`extent`], of intervals that are computed block by block.
fn extent_of_blocks(
    mask: &[bool],
    intervals: impl Fn(&[usize]) -> IntervalBlock + Sync,
) -> Option<(f64, f64)> {
    let of_pixels = |(first, mask): (usize, &[bool])| {
        let mut sum = IntervalBlock { min: [EMPTY_EXTENT.0; BLOCK], max: [EMPTY_EXTENT.1; BLOCK] };
        let first = first * PIXELS_PER_THREAD;
        for (block, mask) in mask.chunks(BLOCK).enumerate() {
            let start = first + block * BLOCK;
            let numbers: [usize; BLOCK] = std::array::from_fn(|index| start + index);
            let intervals = intervals(&numbers[..mask.len()]);
            for (index, masked) in mask.iter().enumerate() {
                let (min, max) = match masked {
                    true => EMPTY_EXTENT,
                    false => (intervals.min[index], intervals.max[index]),
                };
                (sum.min[index], sum.max[index]) =
                    extend((sum.min[index], sum.max[index]), (min, max));
            }
        }
        sum.min.into_iter().zip(sum.max).fold(EMPTY_EXTENT, extend)
    };
    let blocks = mask.par_chunks(PIXELS_PER_THREAD).enumerate();
    let (min, max) = blocks.map(of_pixels).reduce(|| EMPTY_EXTENT, extend);
    (min <= max).then_some((min, max))
}

/// Returns the smallest interval that contains the intervals of all unmasked pixels; NaN limits are
/// ignored.
fn extent(mask: &[bool], interval: impl Fn(usize) -> (f64, f64) + Sync) -> Option<(f64, f64)> {
    let of_block = |(block, mask): (usize, &[bool])| {
        let mut extent = EMPTY_EXTENT;
        for (index, masked) in mask.iter().enumerate() {
            if !masked {
                extent = extend(extent, interval(block * PIXELS_PER_THREAD + index));
            }
        }
        extent
    };
    let blocks = mask.par_chunks(PIXELS_PER_THREAD).enumerate();
    let (min, max) = blocks.map(of_block).reduce(|| EMPTY_EXTENT, extend);
    (min <= max).then_some((min, max))
}

/// Extends an interval to contain another one, whose limits are ignored where they are NaN.
#[inline]
fn extend((min, max): (f64, f64), (lower, upper): (f64, f64)) -> (f64, f64) {
    // Comparisons with NaN are false. `f64::min` costs more: it also expects NaN on its left.
    (if lower < min { lower } else { min }, if upper > max { upper } else { max })
}
