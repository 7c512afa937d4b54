//! Which share of each pixel falls in which bin of a pattern or of a cake.
//!
//! [`bin_pattern`] and [`bin_pixels`] turn a geometry, a static mask and a request into an axis and a sparse matrix by pixel. They
//! are done once a recipe; every frame is then a product with that matrix.
//!
//! # Axes
//! Limits that are not asked for come from the unmasked pixels: their centres without splitting, centre plus or minus
//! delta by bounding box, corners by full splitting; never below zero. The upper limit, asked for or not, is multiplied by
//! 1 + 2^-23, so that bins closed below and open above hold it too. Bins decide in the base unit, in f64. All this is as
//! in pyFAI 2026.9, so that axes agree to rounding and pixels fall in the same bins.
//!
//! # Shares
//! | splitting | a pixel's share in a bin |
//! |---|---|
//! | [`PixelSplitting::No`] | 1 in the bin of its centre |
//! | [`PixelSplitting::BBox`] | the overlap of the bin with centre ± delta, over 2 delta; what lies outside the axis is lost |
//! | [`PixelSplitting::Full`] | the area in the bin of its corners' polygon in (radius, chi), over that on the axis |
//!
//! In a cake, bounding boxes and polygons are cut along both axes. Shares are computed in f64 and kept as f32.
//!
//! A spacing d has no end toward the beam: the pixel that holds the beam, or touches it, has no place on such an axis.
//!
//! # Where pyFAI differs
//! - Below a lower limit that the user gave, pyFAI's sparse engines keep one more bin's worth of pixels in the first
//!   bin, and with bounding boxes both end bins keep the truncated parts of their pixels. Here the ends of an axis are
//!   where the user put them. Only below a limit of zero are truncated parts kept, as there: a radius is not negative.
//! - A sector may cross the discontinuity of chi, and has all its pixels. Those across the discontinuity itself belong
//!   to the sectors, and to the bins of a cake, on both its sides; pyFAI keeps them on one.
//! - A pixel that holds the beam centre has every azimuth, and reaches from the centre to its corners. In pyFAI it is the
//!   polygon of its corners, which lacks the centre.
//! - In a full-split cake, pieces are cut exactly. pyFAI fills bins in the order of their azimuth by the mean height of
//!   an edge, which moves up to a fifth of a pixel to a neighbouring bin; the sum over azimuth is the same.
//!
//! ```
//! use binning::{PatternRequest, PixelSplitting, bin_pattern};
//! use geometry::{Detector, Geometry, Poni, Unit};
//! let poni = Poni::parse(
//!     "poni_version: 2.1\nDetector: Pilatus100k\nDetector_config: {\"orientation\": 3}\n\
//!      Distance: 0.2\nPoni1: 0.01677\nPoni2: 0.0\nRot1: 0\nRot2: 0\nRot3: 0\nWavelength: 1e-10\n",
//! )?;
//! let detector = Detector::from_poni(&poni)?;
//! let geometry = Geometry::new(&poni, &detector, [195, 487])?;
//! let mask = vec![false; 195 * 487];
//! let request =
//!     PatternRequest { unit: Unit::QNm, npt: 100, radial_range: None, azimuth_range: None, split: PixelSplitting::BBox };
//! let binning = bin_pattern(&geometry, &mask, &request)?;
//! assert_eq!(binning.axis.centers.len(), 100);
//! let (bins, weights) = binning.matrix.entries_of_pixel(0);
//! assert_eq!(bins.len(), weights.len());
//! assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-6);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod axis;
mod bin_edges;
mod bin_pixels;
mod cake;
mod csc;
mod error;
mod outline;
mod pattern;
mod periodic_bins;
mod polygon;
mod positions;
mod request;
mod sector;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod support;

pub use axis::{ChiAxis, RadialAxis};
pub use bin_pixels::{Binning, bin_pattern, bin_pixels};
pub use csc::Csc;
pub use error::{BinningError, Limits};
pub use request::{AzimuthRequest, BinningRequest, BinsRequest, PatternRequest, PixelSplitting};
