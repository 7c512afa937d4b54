//! Axes of patterns and cakes: limits, requested or found from the pixels, and the bins between
//! them.

use std::f64::consts::{PI, TAU};

use geometry::Unit;

use crate::BinningError;
use crate::bin_edges::{BinEdges, exclusive_upper_limit};
use crate::error::Limits;
use crate::periodic_bins::PeriodicBins;
use crate::request::BinsRequest;
use crate::sector::{AzimuthRange, parse_azimuth_range, wrap_degrees_to_radians};

/// Largest azimuthal span of a cake in degrees: a full circle, plus a tolerance for limits that are
/// rounded sums.
const MAX_SPAN_DEGREES: f64 = 360.0 + 1e-6;

/// The bins of a radial axis: their unit, outer limits and centers.
#[derive(Clone, Debug, PartialEq)]
pub struct RadialAxis {
    /// Unit of all positions on the axis.
    pub unit: Unit,
    /// Lower edge of the first bin.
    pub lower: f64,
    /// Upper edge of the last bin: the upper limit times 1 + 2^-23, as in pyFAI, so that the bin
    /// holds the limit.
    pub upper: f64,
    /// Centre of each bin.
    pub centers: Vec<f64>,
}

/// The azimuthal axis of a cake, in degrees.
#[derive(Clone, Debug, PartialEq)]
pub struct ChiAxis {
    /// Lower edge of the first bin.
    pub lower: f64,
    /// Upper edge of the last bin, slightly above the upper limit as for [`RadialAxis`].
    pub upper: f64,
    /// Centre of each bin.
    pub centers: Vec<f64>,
}

/// Makes the radial bins in the base unit of `unit`. `extent`, the positions that the pixels cover,
/// gives the limits that the request leaves out.
pub(crate) fn radial_bins(
    bins: &BinsRequest,
    unit: Unit,
    extent: (f64, f64),
) -> Result<BinEdges, BinningError> {
    let bin_edges = match bins {
        BinsRequest::Uniform { npt: 0, .. } => return Err(BinningError::NoBins("radial")),
        BinsRequest::Uniform { npt, range } => {
            let (lower, upper) = match *range {
                Some((lower, upper)) if lower < upper && lower.is_finite() && upper.is_finite() => {
                    (lower / unit.scale(), upper / unit.scale())
                }
                Some((lower, upper)) => {
                    return Err(BinningError::Range {
                        axis: "radial",
                        range: Limits(lower, upper),
                    });
                }
                None if unit.is_positive() => (extent.0.max(0.0), extent.1.max(0.0)),
                None => extent,
            };
            // The axis has a width even if the only pixel lies at zero.
            BinEdges::uniform(
                lower,
                exclusive_upper_limit(upper).max(lower + f64::MIN_POSITIVE),
                *npt,
            )
        }
        BinsRequest::Edges(edges) => {
            check_edges("radial", edges)?;
            BinEdges::from_edges(edges.iter().map(|edge| edge / unit.scale()).collect())
        }
    };
    Ok(if unit.is_positive() && bin_edges.lower() == 0.0 {
        bin_edges.clamp_low()
    } else {
        bin_edges
    })
}

/// Makes the azimuthal bins in radians, and their axis in degrees. The axis keeps the requested
/// numbers: 170 to 190 is not wrapped to 170 to -170.
pub(crate) fn azimuthal_bins(bins: &BinsRequest) -> Result<(PeriodicBins, ChiAxis), BinningError> {
    let (first, bin_edges) = match bins {
        BinsRequest::Uniform { npt: 0, .. } => return Err(BinningError::NoBins("azimuthal")),
        BinsRequest::Uniform { npt, range } => {
            let (first, last) = range.unwrap_or((-180.0, 180.0));
            let (lower, upper) = match parse_azimuth_range(first, last) {
                AzimuthRange::FullCircle if last - first > MAX_SPAN_DEGREES => {
                    return Err(span_error(first, last));
                }
                AzimuthRange::FullCircle => {
                    (wrap_degrees_to_radians(first), wrap_degrees_to_radians(first) + TAU)
                }
                AzimuthRange::Sector(sector) => (sector.lower, sector.upper),
                AzimuthRange::Empty => {
                    return Err(BinningError::Range {
                        axis: "azimuth",
                        range: Limits(first, last),
                    });
                }
            };
            (first, BinEdges::uniform(lower, exclusive_upper_limit(upper), *npt))
        }
        BinsRequest::Edges(edges) => {
            check_edges("azimuth", edges)?;
            let (first, last) = (edges[0], edges[edges.len() - 1]);
            if last - first > MAX_SPAN_DEGREES {
                return Err(span_error(first, last));
            }
            let shift = wrap_degrees_to_radians(first) - first.to_radians();
            (
                first,
                BinEdges::from_edges(edges.iter().map(|edge| edge.to_radians() + shift).collect()),
            )
        }
    };
    let degrees = 180.0 / PI;
    let offset = 360.0 * ((first - bin_edges.lower() * degrees) / 360.0).round();
    let axis = ChiAxis {
        lower: bin_edges.lower() * degrees + offset,
        upper: bin_edges.upper() * degrees + offset,
        centers: bin_edges.centers().iter().map(|center| center * degrees + offset).collect(),
    };
    Ok((PeriodicBins::new(bin_edges), axis))
}

impl RadialAxis {
    /// Converts bin edges in the base unit to an axis in `unit`.
    pub(crate) fn new(bin_edges: &BinEdges, unit: Unit) -> Self {
        let scale = unit.scale();
        Self {
            unit,
            lower: bin_edges.lower() * scale,
            upper: bin_edges.upper() * scale,
            centers: bin_edges.centers().iter().map(|center| center * scale).collect(),
        }
    }
}

fn span_error(first: f64, last: f64) -> BinningError {
    let why = format!("{first} to {last} deg; expected at most a full circle, 360 deg");
    BinningError::Edges { axis: "azimuth", why }
}

/// Checks that there are at least two edges, all finite and rising.
fn check_edges(axis: &'static str, edges: &[f64]) -> Result<(), BinningError> {
    let refuse = |why: String| Err(BinningError::Edges { axis, why });
    if edges.len() < 2 {
        return refuse(format!("{} given; expected at least 2", edges.len()));
    }
    if let Some(edge) = edges.iter().find(|edge| !edge.is_finite()) {
        return refuse(format!("{edge}; expected finite numbers"));
    }
    match edges.windows(2).find(|pair| pair[0] >= pair[1]) {
        Some(pair) => {
            refuse(format!("{} is followed by {}; expected rising numbers", pair[0], pair[1]))
        }
        None => Ok(()),
    }
}
