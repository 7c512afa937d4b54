//! What to bin a detector's pixels into.

use geometry::Unit;

/// How a pixel that lies across several bins is shared among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Split {
    /// Not: it counts whole in the bin of its centre.
    No,
    /// Evenly over the interval from its centre minus to its centre plus the distance to its farthest corner.
    BBox,
    /// By the area of its outline: the polygon of its corners in the plane of radius and azimuth.
    Full,
}

/// A pattern of equal radial bins, as most users want it.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The unit of the axis.
    pub unit: Unit,
    /// The number of bins.
    pub npt: usize,
    /// Lower and upper limit in `unit`; by default what the unmasked pixels cover.
    pub radial_range: Option<(f64, f64)>,
    /// The sector to use, degrees; by default all. May cross the discontinuity: 170 to 190.
    pub azimuth_range: Option<(f64, f64)>,
    /// How pixels are shared among bins.
    pub split: Split,
}

/// Any pattern or cake.
#[derive(Clone, Debug, PartialEq)]
pub struct Regroup {
    /// The unit of the radial axis.
    pub unit: Unit,
    /// Radial bins, in `unit`.
    pub radial: Bins,
    /// What becomes of the azimuth.
    pub azimuth: Azimuth,
    /// How pixels are shared among bins.
    pub split: Split,
}

/// The azimuthal part of a [`Regroup`]. Angles are degrees, of any turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Azimuth {
    /// A pattern: all azimuths, or a sector of them, are summed. Pixels of the sector count whole: those whose centre is
    /// in it without splitting, and those that overlap it at all with splitting.
    Sum(Option<(f64, f64)>),
    /// A cake: bins of azimuth, from -180 to 180 if no range is given.
    Bins(Bins),
}

/// Bins along one axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Bins {
    /// Bins of one width.
    Even {
        /// How many.
        npt: usize,
        /// Lower and upper limit.
        range: Option<(f64, f64)>,
    },
    /// Bins between rising edges. The last bin holds its upper edge too.
    Edges(Vec<f64>),
}

impl Regroup {
    /// The numbers of radial and of azimuthal bins; one of the latter for a pattern.
    pub(crate) fn bins(&self) -> (usize, usize) {
        let azimuthal = match &self.azimuth {
            Azimuth::Sum(_) => 1,
            Azimuth::Bins(bins) => bins.count(),
        };
        (self.radial.count(), azimuthal)
    }
}

impl Bins {
    fn count(&self) -> usize {
        match self {
            Self::Even { npt, .. } => *npt,
            Self::Edges(edges) => edges.len().saturating_sub(1),
        }
    }
}

impl From<&Request> for Regroup {
    fn from(request: &Request) -> Self {
        Self {
            unit: request.unit,
            radial: Bins::Even { npt: request.npt, range: request.radial_range },
            azimuth: Azimuth::Sum(request.azimuth_range),
            split: request.split,
        }
    }
}
