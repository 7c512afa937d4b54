//! The axes of patterns and cakes: limits, as asked for or as the pixels have them, and bins between.

use std::f64::consts::{PI, TAU};

use geometry::Unit;

use crate::BinningError;
use crate::bin_edges::{BinEdges, exclusive_upper_limit};
use crate::error::Limits;
use crate::periodic_bins::PeriodicBins;
use crate::request::BinsRequest;
use crate::sector::{AzimuthRange, parse_azimuth_range, wrap_degrees_to_radians};

/// The most that a cake may span, degrees: a turn, and what is lost where limits are sums.
const MAX_SPAN_DEGREES: f64 = 360.0 + 1e-6;

/// The radial axis.
#[derive(Clone, Debug, PartialEq)]
pub struct RadialAxis {
    /// The unit of all numbers here.
    pub unit: Unit,
    /// The lower edge of the first bin.
    pub lower: f64,
    /// The upper edge of the last bin: the limit times 1 + 2^-23, as in pyFAI, so that the bin holds it.
    pub upper: f64,
    /// The middle of each bin.
    pub centers: Vec<f64>,
}

/// The azimuthal axis of a cake, degrees.
#[derive(Clone, Debug, PartialEq)]
pub struct ChiAxis {
    /// The lower edge of the first bin.
    pub lower: f64,
    /// The upper edge of the last bin, a little beyond the limit as that of [`RadialAxis`].
    pub upper: f64,
    /// The middle of each bin.
    pub centers: Vec<f64>,
}

/// Radial bins in the base unit. `extent` is what the pixels cover, and gives the limits that were not asked for.
pub(crate) fn radial_bins(bins: &BinsRequest, unit: Unit, extent: (f64, f64)) -> Result<BinEdges, BinningError> {
    let ruler = match bins {
        BinsRequest::Uniform { npt: 0, .. } => return Err(BinningError::NoBins("radial")),
        BinsRequest::Uniform { npt, range } => {
            let (lower, upper) = match *range {
                Some((lower, upper)) if lower < upper && lower.is_finite() && upper.is_finite() => {
                    (lower / unit.scale(), upper / unit.scale())
                }
                Some((lower, upper)) => {
                    return Err(BinningError::Range { axis: "radial", range: Limits(lower, upper) });
                }
                None if unit.is_positive() => (extent.0.max(0.0), extent.1.max(0.0)),
                None => extent,
            };
            // A single pixel at zero still gets an axis around it.
            BinEdges::uniform(lower, exclusive_upper_limit(upper).max(lower + f64::MIN_POSITIVE), *npt)
        }
        BinsRequest::Edges(edges) => {
            check_edges("radial", edges)?;
            BinEdges::from_edges(edges.iter().map(|edge| edge / unit.scale()).collect())
        }
    };
    Ok(if unit.is_positive() && ruler.lower() == 0.0 { ruler.bottomless() } else { ruler })
}

/// Azimuthal bins in rad, and their axis in the degrees of the turn that was asked for.
pub(crate) fn azimuthal_bins(bins: &BinsRequest) -> Result<(PeriodicBins, ChiAxis), BinningError> {
    let (first, ruler) = match bins {
        BinsRequest::Uniform { npt: 0, .. } => return Err(BinningError::NoBins("azimuthal")),
        BinsRequest::Uniform { npt, range } => {
            let (first, last) = range.unwrap_or((-180.0, 180.0));
            let (lower, upper) = match parse_azimuth_range(first, last) {
                AzimuthRange::FullCircle if last - first > MAX_SPAN_DEGREES => {
                    return Err(more_than_a_turn(first, last));
                }
                AzimuthRange::FullCircle => (wrap_degrees_to_radians(first), wrap_degrees_to_radians(first) + TAU),
                AzimuthRange::Sector(sector) => (sector.lower, sector.upper),
                AzimuthRange::Empty => return Err(BinningError::Range { axis: "azimuth", range: Limits(first, last) }),
            };
            (first, BinEdges::uniform(lower, exclusive_upper_limit(upper), *npt))
        }
        BinsRequest::Edges(edges) => {
            check_edges("azimuth", edges)?;
            let (first, last) = (edges[0], edges[edges.len() - 1]);
            if last - first > MAX_SPAN_DEGREES {
                return Err(more_than_a_turn(first, last));
            }
            let shift = wrap_degrees_to_radians(first) - first.to_radians();
            (first, BinEdges::from_edges(edges.iter().map(|edge| edge.to_radians() + shift).collect()))
        }
    };
    let degrees = 180.0 / PI;
    let turns = 360.0 * ((first - ruler.lower() * degrees) / 360.0).round();
    let axis = ChiAxis {
        lower: ruler.lower() * degrees + turns,
        upper: ruler.upper() * degrees + turns,
        centers: ruler.centers().iter().map(|center| center * degrees + turns).collect(),
    };
    Ok((PeriodicBins::new(ruler), axis))
}

impl RadialAxis {
    pub(crate) fn new(ruler: &BinEdges, unit: Unit) -> Self {
        let scale = unit.scale();
        Self {
            unit,
            lower: ruler.lower() * scale,
            upper: ruler.upper() * scale,
            centers: ruler.centers().iter().map(|center| center * scale).collect(),
        }
    }
}

fn more_than_a_turn(first: f64, last: f64) -> BinningError {
    BinningError::Edges { axis: "azimuth", why: format!("{first} to {last} deg is more than a turn") }
}

fn check_edges(axis: &'static str, edges: &[f64]) -> Result<(), BinningError> {
    let wrong = |why: String| Err(BinningError::Edges { axis, why });
    if edges.len() < 2 {
        return wrong(format!("{} given, at least 2 are needed", edges.len()));
    }
    if let Some(edge) = edges.iter().find(|edge| !edge.is_finite()) {
        return wrong(format!("{edge} is not finite"));
    }
    match edges.windows(2).find(|pair| pair[0] >= pair[1]) {
        Some(pair) => wrong(format!("{} is followed by {}, they must rise", pair[0], pair[1])),
        None => Ok(()),
    }
}
