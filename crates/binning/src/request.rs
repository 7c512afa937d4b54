//! What to bin a detector's pixels into.

use geometry::Unit;

/// How a pixel that lies across several bins is shared among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PixelSplitting {
    /// Not: it counts whole in the bin of its centre.
    No,
    /// Evenly over the interval from its centre minus to its centre plus the distance to its farthest corner.
    BBox,
    /// By the area of its outline: the polygon of its corners in the plane of radius and azimuth.
    Full,
}

/// A pattern of equal radial bins, as most users want it.
#[derive(Clone, Debug, PartialEq)]
pub struct PatternRequest {
    /// The unit of the axis.
    pub unit: Unit,
    /// The number of bins.
    pub npt: usize,
    /// Lower and upper limit in `unit`; by default what the unmasked pixels cover.
    pub radial_range: Option<(f64, f64)>,
    /// The sector to use, degrees; by default all. May cross the discontinuity: 170 to 190.
    pub azimuth_range: Option<(f64, f64)>,
    /// How pixels are shared among bins.
    pub split: PixelSplitting,
}

/// Any pattern or cake.
#[derive(Clone, Debug, PartialEq)]
pub struct BinningRequest {
    /// The unit of the radial axis.
    pub unit: Unit,
    /// Radial bins, in `unit`.
    pub radial: BinsRequest,
    /// What becomes of the azimuth.
    pub azimuth: AzimuthRequest,
    /// How pixels are shared among bins.
    pub split: PixelSplitting,
}

/// The azimuthal part of a [`BinningRequest`]. Angles are degrees, of any turn.
#[derive(Clone, Debug, PartialEq)]
pub enum AzimuthRequest {
    /// A pattern: all azimuths, or a sector of them, are summed. Pixels of the sector count whole: those whose centre is
    /// in it without splitting, and those that overlap it at all with splitting.
    Sum(Option<(f64, f64)>),
    /// A cake: bins of azimuth, from -180 to 180 if no range is given.
    Bins(BinsRequest),
}

/// Bins along one axis.
#[derive(Clone, Debug, PartialEq)]
pub enum BinsRequest {
    /// Bins of one width.
    Uniform {
        /// How many.
        npt: usize,
        /// Lower and upper limit.
        range: Option<(f64, f64)>,
    },
    /// Bins between rising edges. The last bin holds its upper edge too.
    Edges(Vec<f64>),
}

impl BinningRequest {
    /// The numbers of radial and of azimuthal bins; one of the latter for a pattern.
    pub(crate) fn bins(&self) -> (usize, usize) {
        let azimuthal = match &self.azimuth {
            AzimuthRequest::Sum(_) => 1,
            AzimuthRequest::Bins(bins) => bins.count(),
        };
        (self.radial.count(), azimuthal)
    }
}

impl BinsRequest {
    fn count(&self) -> usize {
        match self {
            Self::Uniform { npt, .. } => *npt,
            Self::Edges(edges) => edges.len().saturating_sub(1),
        }
    }
}

impl From<&PatternRequest> for BinningRequest {
    fn from(request: &PatternRequest) -> Self {
        Self {
            unit: request.unit,
            radial: BinsRequest::Uniform { npt: request.npt, range: request.radial_range },
            azimuth: AzimuthRequest::Sum(request.azimuth_range),
            split: request.split,
        }
    }
}
