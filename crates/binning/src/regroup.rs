//! From a geometry, a mask and a request to the axis and the matrix.

use geometry::{Geometry, Unit};

use crate::axis::{self, Axis, ChiAxis};
use crate::cake::{Grid, Pieces};
use crate::csc::Csc;
use crate::error::{Error, Limits};
use crate::pattern;
use crate::positions::Positions;
use crate::request::{Azimuth, Bins, Regroup, Request};
use crate::ruler::Ruler;
use crate::sector::{Sector, Sweep, sweep};
use crate::turn::Turn;

/// The bins, and which share of each pixel falls in which.
#[derive(Clone, Debug, PartialEq)]
pub struct Binning {
    /// The radial axis.
    pub axis: Axis,
    /// The azimuthal axis of a cake; none for a pattern.
    pub chi: Option<ChiAxis>,
    /// Pixels to bins; those of a cake are numbered azimuthal index * radial bins + radial index.
    pub matrix: Csc,
}

/// Bins a detector's pixels for a pattern. `mask` is true where a pixel is not to be used, row-major.
///
/// # Errors
/// As [`regroup`].
pub fn bin(geometry: &Geometry, mask: &[bool], request: &Request) -> Result<Binning, Error> {
    regroup(geometry, mask, &request.into())
}

/// Bins a detector's pixels for any pattern or cake. `mask` is true where a pixel is not to be used, row-major.
///
/// # Errors
/// A mask of another shape, no bins, limits or edges that don't rise, a unit that needs a wavelength where there is
/// none, no unmasked pixels, or none in the range.
pub fn regroup(geometry: &Geometry, mask: &[bool], request: &Regroup) -> Result<Binning, Error> {
    let [rows, columns] = geometry.shape();
    if mask.len() != rows * columns {
        return Err(Error::MaskShape { found: mask.len(), expected: [rows, columns] });
    }
    let (radial, azimuthal) = request.bins();
    if radial.saturating_mul(azimuthal) > u32::MAX as usize {
        return Err(Error::TooManyBins { radial, azimuthal });
    }
    let unit = request.unit;
    let azimuth = Target::of(&request.azimuth)?;
    // Refuses bad limits before the positions are computed.
    axis::radial(&request.radial, unit, (0.0, 1.0))?;

    let positions = Positions::of(geometry, unit, request.split, !matches!(azimuth, Target::Circle))?;
    let placed: Vec<bool>;
    let mask = if unit.diverges() {
        placed = mask.iter().enumerate().map(|(pixel, masked)| *masked || !positions.is_placed(pixel)).collect();
        &placed
    } else {
        mask
    };
    let extent = positions.radial_extent(mask).ok_or(Error::AllMasked(mask.len()))?;
    let ruler = axis::radial(&request.radial, unit, extent)?;
    let axis = Axis::new(&ruler, unit);

    let (chi, matrix) = match azimuth {
        Target::Circle => (None, pattern_matrix(&positions, mask, &ruler, None)),
        Target::Sector(sector) => (None, pattern_matrix(&positions, mask, &ruler, Some(sector))),
        Target::Cake(turn, chi) => (Some(chi), cake_matrix(&positions, mask, &Grid { radial: ruler, azimuthal: turn })),
    };
    if matrix.bins.is_empty() {
        return Err(nothing_in_range(unit, &axis, &request.azimuth, &positions, mask));
    }
    Ok(Binning { axis, chi, matrix })
}

/// What is to be done about the azimuth, its limits checked.
enum Target {
    Circle,
    Sector(Sector),
    Cake(Turn, ChiAxis),
}

impl Target {
    fn of(azimuth: &Azimuth) -> Result<Self, Error> {
        match azimuth {
            Azimuth::Sum(None) => Ok(Self::Circle),
            Azimuth::Sum(Some((lower, upper))) => match sweep(*lower, *upper) {
                Sweep::Circle => Ok(Self::Circle),
                Sweep::Sector(sector) => Ok(Self::Sector(sector)),
                Sweep::Empty => Err(Error::Range { axis: "azimuth", range: Limits(*lower, *upper) }),
            },
            Azimuth::Bins(bins) => axis::azimuthal(bins).map(|(turn, chi)| Self::Cake(turn, chi)),
        }
    }
}

fn pattern_matrix(positions: &Positions, mask: &[bool], ruler: &Ruler, sector: Option<Sector>) -> Csc {
    let sector = sector.as_ref();
    let misses = |interval: Option<(f64, f64)>| match (sector, interval) {
        (Some(sector), Some((min, max))) => !sector.overlaps(min, max),
        _ => false,
    };
    match positions {
        Positions::Centers { radial, chi } => Csc::build(mask.len(), ruler.bins(), |pixel, (): &mut (), entries| {
            if !mask[pixel] && !misses(chi.as_ref().map(|chi| (chi[pixel], chi[pixel]))) {
                pattern::whole(ruler, radial[pixel], entries);
            }
        }),
        Positions::Boxes { radial, chi } => Csc::build(mask.len(), ruler.bins(), |pixel, (): &mut (), entries| {
            if !mask[pixel] && !misses(chi.as_ref().map(|chi| chi.interval(pixel))) {
                pattern::bounding_box(ruler, radial.interval(pixel), entries);
            }
        }),
        Positions::Corners(corners) => Csc::build(mask.len(), ruler.bins(), |pixel, areas, entries| {
            if !mask[pixel] {
                pattern::full(ruler, sector, &corners[pixel], areas, entries);
            }
        }),
    }
}

fn cake_matrix(positions: &Positions, mask: &[bool], grid: &Grid) -> Csc {
    let needed = "a cake asks for azimuths";
    match positions {
        Positions::Centers { radial, chi } => {
            let chi = chi.as_ref().expect(needed);
            Csc::build(mask.len(), grid.bins(), |pixel, (): &mut (), entries| {
                if !mask[pixel] {
                    grid.whole(radial[pixel], chi[pixel], entries);
                }
            })
        }
        Positions::Boxes { radial, chi } => {
            let chi = chi.as_ref().expect(needed);
            Csc::build(mask.len(), grid.bins(), |pixel, (): &mut (), entries| {
                if !mask[pixel] {
                    grid.bounding_box(radial.interval(pixel), chi.interval(pixel), entries);
                }
            })
        }
        Positions::Corners(corners) => Csc::build(mask.len(), grid.bins(), |pixel, room: &mut Pieces, entries| {
            if !mask[pixel] {
                grid.full(&corners[pixel], room, entries);
            }
        }),
    }
}

fn nothing_in_range(unit: Unit, axis: &Axis, azimuth: &Azimuth, positions: &Positions, mask: &[bool]) -> Error {
    let wanted_chi = match azimuth {
        Azimuth::Sum(range) | Azimuth::Bins(Bins::Even { range, .. }) => *range,
        Azimuth::Bins(Bins::Edges(edges)) => edges.first().copied().zip(edges.last().copied()),
    };
    let covered = positions.radial_extent(mask).unwrap_or_default();
    let degrees = |(min, max): (f64, f64)| Limits(min.to_degrees().max(-180.0), max.to_degrees().min(180.0));
    Error::NothingInRange {
        unit,
        wanted: Limits(axis.lower, axis.upper),
        wanted_chi: wanted_chi.map(|(lower, upper)| Limits(lower, upper)),
        covered: Limits(covered.0 * unit.scale(), covered.1 * unit.scale()),
        covered_chi: wanted_chi.and_then(|_| positions.chi_extent(mask)).map(degrees),
    }
}
