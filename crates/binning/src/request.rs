//! Requests: the bins of a pattern or cake that the caller wants.

use geometry::Unit;

/// The method that splits a pixel among the bins that it overlaps, named as in pyFAI. Crate
/// `integrator` translates the recipe's `Split` into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PixelSplitting {
    /// No splitting: the whole pixel counts in the bin of its centre.
    No,
    /// Splitting by bounding box: the pixel is spread evenly over centre ± delta, the distance of
    /// its farthest corner.
    BBox,
    /// Full splitting: the pixel is spread over the polygon of its corners in the plane of radius
    /// and azimuth.
    Full,
}

/// A request for a pattern with equal radial bins, the most common case.
#[derive(Clone, Debug, PartialEq)]
pub struct PatternRequest {
    /// Unit of the axis.
    pub unit: Unit,
    /// Number of bins.
    pub npt: usize,
    /// Lower and upper limit in `unit`; `None` for the range that the unmasked pixels cover.
    pub radial_range: Option<(f64, f64)>,
    /// Sector in degrees, which may cross the discontinuity (170 to 190); `None` for the full
    /// circle.
    pub azimuth_range: Option<(f64, f64)>,
    /// Pixel splitting.
    pub split: PixelSplitting,
}

/// A request for any pattern or cake.
#[derive(Clone, Debug, PartialEq)]
pub struct BinningRequest {
    /// Unit of the radial axis.
    pub unit: Unit,
    /// Radial bins, in `unit`.
    pub radial: BinsRequest,
    /// Azimuthal range of a pattern, or azimuthal bins of a cake.
    pub azimuth: AzimuthRequest,
    /// Pixel splitting.
    pub split: PixelSplitting,
}

/// The azimuthal part of a [`BinningRequest`], in degrees. Angles that differ by 360 are
/// equivalent.
#[derive(Clone, Debug, PartialEq)]
pub enum AzimuthRequest {
    /// A pattern: pixels of all azimuths, or of a sector, are summed. A pixel of the sector is not
    /// cut at its limits: without splitting it counts if its centre is inside, with splitting if
    /// any part of it is.
    Sum(Option<(f64, f64)>),
    /// A cake: bins of azimuth, from -180 to 180 if no range is given.
    Bins(BinsRequest),
}

/// A request for the bins along one axis.
#[derive(Clone, Debug, PartialEq)]
pub enum BinsRequest {
    /// Bins of equal width.
    Uniform {
        /// Number of bins.
        npt: usize,
        /// Lower and upper limit; `None` for the default range of the axis.
        range: Option<(f64, f64)>,
    },
    /// Bins between rising edges. The last bin includes its upper edge.
    Edges(Vec<f64>),
}

impl BinningRequest {
    /// Returns the number of radial bins and the number of azimuthal bins, which is 1 for a
    /// pattern.
    pub(crate) fn bin_counts(&self) -> (usize, usize) {
        let azimuthal = match &self.azimuth {
            AzimuthRequest::Sum(_) => 1,
            AzimuthRequest::Bins(bins) => bins.count(),
        };
        (self.radial.count(), azimuthal)
    }
}

impl BinsRequest {
    /// Returns the number of bins.
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
