//! From a geometry, a mask and a request to the axis and the matrix.

use geometry::{Geometry, Unit};

use crate::axis::{self, ChiAxis, RadialAxis};
use crate::bin_edges::BinEdges;
use crate::cake::{CakeGrid, CutScratch};
use crate::csc::Csc;
use crate::error::{BinningError, Limits};
use crate::pattern;
use crate::periodic_bins::PeriodicBins;
use crate::positions::Positions;
use crate::request::{AzimuthRequest, BinningRequest, BinsRequest, PatternRequest};
use crate::sector::{AzimuthRange, Sector, parse_azimuth_range};

/// The bins, and which share of each pixel falls in which.
#[derive(Clone, Debug, PartialEq)]
pub struct Binning {
    /// The radial axis.
    pub axis: RadialAxis,
    /// The azimuthal axis of a cake; none for a pattern.
    pub chi: Option<ChiAxis>,
    /// Pixels to bins; those of a cake are numbered azimuthal index * radial bins + radial index.
    pub matrix: Csc,
}

/// Bins a detector's pixels for a pattern. `mask` is true where a pixel is not to be used, row-major.
///
/// # Errors
/// As [`bin_pixels`].
pub fn bin_pattern(geometry: &Geometry, mask: &[bool], request: &PatternRequest) -> Result<Binning, BinningError> {
    bin_pixels(geometry, mask, &request.into())
}

/// Bins a detector's pixels for any pattern or cake. `mask` is true where a pixel is not to be used, row-major.
///
/// # Errors
/// A mask of another shape, no bins, limits or edges that don't rise, a unit that needs a wavelength where there is
/// none, no unmasked pixels, or none in the range.
pub fn bin_pixels(geometry: &Geometry, mask: &[bool], request: &BinningRequest) -> Result<Binning, BinningError> {
    let [rows, columns] = geometry.shape();
    if mask.len() != rows * columns {
        return Err(BinningError::MaskShape { found: mask.len(), expected: [rows, columns] });
    }
    let (radial, azimuthal) = request.bins();
    if radial.saturating_mul(azimuthal) > u32::MAX as usize {
        return Err(BinningError::TooManyBins { radial, azimuthal });
    }
    let unit = request.unit;
    let azimuth = AzimuthBinning::resolve(&request.azimuth)?;
    // Refuses bad limits before the positions are computed.
    axis::radial_bins(&request.radial, unit, (0.0, 1.0))?;

    let positions = Positions::compute(geometry, unit, request.split, !matches!(azimuth, AzimuthBinning::FullCircle))?;
    let placed: Vec<bool>;
    let mask = if unit.diverges() {
        placed = mask.iter().enumerate().map(|(pixel, masked)| *masked || !positions.has_position(pixel)).collect();
        &placed
    } else {
        mask
    };
    let extent = positions.radial_extent(mask).ok_or(BinningError::AllMasked(mask.len()))?;
    let ruler = axis::radial_bins(&request.radial, unit, extent)?;
    let axis = RadialAxis::new(&ruler, unit);

    let (chi, matrix) = match azimuth {
        AzimuthBinning::FullCircle => (None, pattern_matrix(&positions, mask, &ruler, None)),
        AzimuthBinning::Sector(sector) => (None, pattern_matrix(&positions, mask, &ruler, Some(sector))),
        AzimuthBinning::Cake(turn, chi) => {
            (Some(chi), cake_matrix(&positions, mask, &CakeGrid { radial: ruler, azimuthal: turn }))
        }
    };
    if matrix.bins.is_empty() {
        return Err(nothing_in_range_error(unit, &axis, &request.azimuth, &positions, mask));
    }
    Ok(Binning { axis, chi, matrix })
}

/// What is to be done about the azimuth, its limits checked.
enum AzimuthBinning {
    FullCircle,
    Sector(Sector),
    Cake(PeriodicBins, ChiAxis),
}

impl AzimuthBinning {
    fn resolve(azimuth: &AzimuthRequest) -> Result<Self, BinningError> {
        match azimuth {
            AzimuthRequest::Sum(None) => Ok(Self::FullCircle),
            AzimuthRequest::Sum(Some((lower, upper))) => match parse_azimuth_range(*lower, *upper) {
                AzimuthRange::FullCircle => Ok(Self::FullCircle),
                AzimuthRange::Sector(sector) => Ok(Self::Sector(sector)),
                AzimuthRange::Empty => Err(BinningError::Range { axis: "azimuth", range: Limits(*lower, *upper) }),
            },
            AzimuthRequest::Bins(bins) => axis::azimuthal_bins(bins).map(|(turn, chi)| Self::Cake(turn, chi)),
        }
    }
}

fn pattern_matrix(positions: &Positions, mask: &[bool], ruler: &BinEdges, sector: Option<Sector>) -> Csc {
    let sector = sector.as_ref();
    let misses = |interval: Option<(f64, f64)>| match (sector, interval) {
        (Some(sector), Some((min, max))) => !sector.overlaps(min, max),
        _ => false,
    };
    match positions {
        Positions::Centers { radial, chi } => {
            Csc::build(mask.len(), ruler.bin_count(), |pixel, (): &mut (), entries| {
                if !mask[pixel] && !misses(chi.as_ref().map(|chi| (chi[pixel], chi[pixel]))) {
                    pattern::whole(ruler, radial[pixel], entries);
                }
            })
        }
        Positions::Boxes { radial, chi } => Csc::build(mask.len(), ruler.bin_count(), |pixel, (): &mut (), entries| {
            if !mask[pixel] && !misses(chi.as_ref().map(|chi| chi.interval(pixel))) {
                pattern::bounding_box(ruler, radial.interval(pixel), entries);
            }
        }),
        Positions::Corners(corners) => Csc::build(mask.len(), ruler.bin_count(), |pixel, areas, entries| {
            if !mask[pixel] {
                pattern::full(ruler, sector, &corners[pixel], areas, entries);
            }
        }),
    }
}

fn cake_matrix(positions: &Positions, mask: &[bool], grid: &CakeGrid) -> Csc {
    let needed = "a cake asks for azimuths";
    match positions {
        Positions::Centers { radial, chi } => {
            let chi = chi.as_ref().expect(needed);
            Csc::build(mask.len(), grid.bin_count(), |pixel, (): &mut (), entries| {
                if !mask[pixel] {
                    grid.no_split(radial[pixel], chi[pixel], entries);
                }
            })
        }
        Positions::Boxes { radial, chi } => {
            let chi = chi.as_ref().expect(needed);
            Csc::build(mask.len(), grid.bin_count(), |pixel, (): &mut (), entries| {
                if !mask[pixel] {
                    grid.bbox_split(radial.interval(pixel), chi.interval(pixel), entries);
                }
            })
        }
        Positions::Corners(corners) => {
            Csc::build(mask.len(), grid.bin_count(), |pixel, room: &mut CutScratch, entries| {
                if !mask[pixel] {
                    grid.full_split(&corners[pixel], room, entries);
                }
            })
        }
    }
}

fn nothing_in_range_error(
    unit: Unit,
    axis: &RadialAxis,
    azimuth: &AzimuthRequest,
    positions: &Positions,
    mask: &[bool],
) -> BinningError {
    let wanted_chi = match azimuth {
        AzimuthRequest::Sum(range) | AzimuthRequest::Bins(BinsRequest::Uniform { range, .. }) => *range,
        AzimuthRequest::Bins(BinsRequest::Edges(edges)) => edges.first().copied().zip(edges.last().copied()),
    };
    let covered = positions.radial_extent(mask).unwrap_or_default();
    let degrees = |(min, max): (f64, f64)| Limits(min.to_degrees().max(-180.0), max.to_degrees().min(180.0));
    BinningError::NothingInRange {
        unit,
        wanted: Limits(axis.lower, axis.upper),
        wanted_chi: wanted_chi.map(|(lower, upper)| Limits(lower, upper)),
        covered: Limits(covered.0 * unit.scale(), covered.1 * unit.scale()),
        covered_chi: wanted_chi.and_then(|_| positions.chi_extent(mask)).map(degrees),
    }
}
