//! Builds axes and matrix from a geometry, a mask and a request.

use geometry::{Geometry, Unit};

use crate::axis::{self, ChiAxis, RadialAxis};
use crate::bin_edges::BinEdges;
use crate::cake::{CakeGrid, CutScratch};
use crate::csc::Csc;
use crate::error::{BinningError, Limits};
use crate::pattern;
use crate::periodic_bins::PeriodicBins;
use crate::positions::Positions;
use crate::request::{AzimuthRequest, BinningRequest, BinsRequest, PatternRequest, PixelSplitting};
use crate::sector::{AzimuthRange, Sector, parse_azimuth_range};

/// The axes of a pattern or cake, and the weights of all pixels in its bins.
#[derive(Clone, Debug, PartialEq)]
pub struct Binning {
    /// Radial axis.
    pub axis: RadialAxis,
    /// Azimuthal axis of a cake; `None` for a pattern.
    pub chi: Option<ChiAxis>,
    /// Weights of pixels in bins. The bin number of a cake is azimuthal index * number of radial
    /// bins + radial index.
    pub matrix: Csc,
}

/// Builds the bins of a pattern with equal radial bins. `mask` is row-major and true for pixels to
/// leave out.
///
/// # Errors
/// As for [`bin_pixels`].
pub fn bin_pattern(
    geometry: &Geometry,
    mask: &[bool],
    request: &PatternRequest,
) -> Result<Binning, BinningError> {
    bin_pixels(geometry, mask, &request.into())
}

/// Builds the bins of any pattern or cake. `mask` is row-major and true for pixels to leave out.
///
/// # Errors
/// The mask has another number of pixels, there are no bins or too many, limits or edges do not
/// rise, the unit needs a wavelength and there is none, or no unmasked pixel lies in the range.
pub fn bin_pixels(
    geometry: &Geometry,
    mask: &[bool],
    request: &BinningRequest,
) -> Result<Binning, BinningError> {
    let [rows, columns] = geometry.shape();
    if mask.len() != rows * columns {
        return Err(BinningError::MaskShape { found: mask.len(), expected: [rows, columns] });
    }
    let (radial, azimuthal) = request.bin_counts();
    if radial.saturating_mul(azimuthal) > u32::MAX as usize {
        return Err(BinningError::TooManyBins { radial, azimuthal });
    }
    let unit = request.unit;
    let azimuth = AzimuthBinning::resolve(&request.azimuth)?;
    // Wrong limits are refused before positions are computed, which takes longer.
    axis::radial_bins(&request.radial, unit, (0.0, 1.0))?;

    let positions = Positions::compute(
        geometry,
        unit,
        request.split,
        !matches!(azimuth, AzimuthBinning::FullCircle),
    )?;
    let extended_mask: Vec<bool>;
    let mask = if unit.diverges() {
        extended_mask = mask
            .iter()
            .enumerate()
            .map(|(pixel, masked)| *masked || !positions.has_position(pixel))
            .collect();
        &extended_mask
    } else {
        mask
    };
    let extent = positions.radial_extent(mask).ok_or(BinningError::AllMasked(mask.len()))?;
    let radial = axis::radial_bins(&request.radial, unit, extent)?;
    let axis = RadialAxis::new(&radial, unit);

    let (chi, matrix) = match azimuth {
        AzimuthBinning::FullCircle => (None, pattern_matrix(&positions, mask, &radial, None)),
        AzimuthBinning::Sector(sector) => {
            (None, pattern_matrix(&positions, mask, &radial, Some(sector)))
        }
        AzimuthBinning::Cake(azimuthal, chi) => {
            (Some(chi), cake_matrix(&positions, mask, &CakeGrid { radial, azimuthal }))
        }
    };
    if matrix.bins.is_empty() {
        return Err(nothing_in_range_error(unit, &axis, &request.azimuth, &positions, mask));
    }
    Ok(Binning { axis, chi, matrix })
}

/// Returns the axes of a request with radial limits or edges, which don't depend on the pixels.
///
/// # Errors
/// There are no bins or no radial limits, or limits or edges do not rise.
pub fn axes(request: &BinningRequest) -> Result<(RadialAxis, Option<ChiAxis>), BinningError> {
    if matches!(request.radial, BinsRequest::Uniform { range: None, .. }) {
        let range = Limits(f64::NAN, f64::NAN);
        return Err(BinningError::Range { axis: "radial", range });
    }
    let radial = axis::radial_bins(&request.radial, request.unit, (0.0, 1.0))?;
    let chi = match AzimuthBinning::resolve(&request.azimuth)? {
        AzimuthBinning::Cake(_, chi) => Some(chi),
        AzimuthBinning::FullCircle | AzimuthBinning::Sector(_) => None,
    };
    Ok((RadialAxis::new(&radial, request.unit), chi))
}

/// Checks a request without building the full matrix. If the request gives limits, the centres of
/// pixels usually suffice to decide whether any pixel is within them.
///
/// # Errors
/// As for [`bin_pixels`].
pub fn check_request(
    geometry: &Geometry,
    mask: &[bool],
    request: &BinningRequest,
) -> Result<(), BinningError> {
    let has_no_limits = matches!(request.radial, BinsRequest::Uniform { npt: 1.., range: None })
        && matches!(
            request.azimuth,
            AzimuthRequest::Sum(None)
                | AzimuthRequest::Bins(BinsRequest::Uniform { npt: 1.., range: None })
        );
    if has_no_limits {
        return if mask.contains(&false) {
            Ok(())
        } else {
            Err(BinningError::AllMasked(mask.len()))
        };
    }
    let without_splitting = BinningRequest { split: PixelSplitting::No, ..request.clone() };
    // A corner may lie in the range even if no centre does.
    bin_pixels(geometry, mask, &without_splitting)
        .or_else(|_| bin_pixels(geometry, mask, request))
        .map(drop)
}

/// A validated [`AzimuthRequest`].
enum AzimuthBinning {
    FullCircle,
    Sector(Sector),
    Cake(PeriodicBins, ChiAxis),
}

impl AzimuthBinning {
    fn resolve(azimuth: &AzimuthRequest) -> Result<Self, BinningError> {
        match azimuth {
            AzimuthRequest::Sum(None) => Ok(Self::FullCircle),
            AzimuthRequest::Sum(Some((lower, upper))) => {
                match parse_azimuth_range(*lower, *upper) {
                    AzimuthRange::FullCircle => Ok(Self::FullCircle),
                    AzimuthRange::Sector(sector) => Ok(Self::Sector(sector)),
                    AzimuthRange::Empty => {
                        Err(BinningError::Range { axis: "azimuth", range: Limits(*lower, *upper) })
                    }
                }
            }
            AzimuthRequest::Bins(bins) => {
                axis::azimuthal_bins(bins).map(|(bins, chi)| Self::Cake(bins, chi))
            }
        }
    }
}

fn pattern_matrix(
    positions: &Positions,
    mask: &[bool],
    radial: &BinEdges,
    sector: Option<Sector>,
) -> Csc {
    let sector = sector.as_ref();
    let (pixels, nbins, bin_edges) = (mask.len(), radial.bin_count(), radial);
    let is_outside_sector = |interval: Option<(f64, f64)>| match (sector, interval) {
        (Some(sector), Some((min, max))) => !sector.overlaps(min, max),
        _ => false,
    };
    match positions {
        Positions::Centers { radial, chi } => {
            Csc::build(pixels, nbins, |pixel, (): &mut (), entries| {
                if !mask[pixel]
                    && !is_outside_sector(chi.as_ref().map(|chi| (chi[pixel], chi[pixel])))
                {
                    pattern::no_split(bin_edges, radial[pixel], entries);
                }
            })
        }
        Positions::Boxes { radial, chi } => {
            Csc::build(pixels, nbins, |pixel, (): &mut (), entries| {
                if !mask[pixel] && !is_outside_sector(chi.as_ref().map(|chi| chi.interval(pixel))) {
                    pattern::bbox_split(bin_edges, radial.interval(pixel), entries);
                }
            })
        }
        Positions::Corners(corners) => Csc::build(pixels, nbins, |pixel, areas, entries| {
            if !mask[pixel] {
                pattern::full_split(bin_edges, sector, &corners[pixel], areas, entries);
            }
        }),
    }
}

fn cake_matrix(positions: &Positions, mask: &[bool], grid: &CakeGrid) -> Csc {
    let needed = "positions of a cake include azimuths";
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
            Csc::build(mask.len(), grid.bin_count(), |pixel, scratch: &mut CutScratch, entries| {
                if !mask[pixel] {
                    grid.full_split(&corners[pixel], scratch, entries);
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
        AzimuthRequest::Sum(range) | AzimuthRequest::Bins(BinsRequest::Uniform { range, .. }) => {
            *range
        }
        AzimuthRequest::Bins(BinsRequest::Edges(edges)) => {
            edges.first().copied().zip(edges.last().copied())
        }
    };
    let covered = positions.radial_extent(mask).unwrap_or_default();
    let degrees =
        |(min, max): (f64, f64)| Limits(min.to_degrees().max(-180.0), max.to_degrees().min(180.0));
    BinningError::NothingInRange {
        unit,
        wanted: Limits(axis.lower, axis.upper),
        wanted_chi: wanted_chi.map(|(lower, upper)| Limits(lower, upper)),
        covered: Limits(covered.0 * unit.scale(), covered.1 * unit.scale()),
        covered_chi: wanted_chi.and_then(|_| positions.chi_extent(mask)).map(degrees),
    }
}
