//! Builds the integration matrix: the weight of each detector pixel in each bin of a pattern (1-D)
//! or a cake (2-D).
//!
//! A [`PixelBinner`] is made of a [`geometry::Geometry`], a static mask and a request. It has the
//! radial axis and the azimuthal axis of a cake, and computes columns of a sparse matrix
//! ([`PairedColumns`]), one per pixel. [`bin_pattern`] and [`bin_pixels()`] return all of it as a
//! [`Binning`]. This is done once per recipe and detector; integrating a frame is then a product
//! with the matrix (crate `kernels`).
//!
//! 1. Positions of all pixels are computed in the base unit: centres, half widths or corners, as
//!    the splitting needs.
//! 2. The axes follow from the request and, if it gives no limits, from the unmasked pixels.
//! 3. Each pixel is split over the bins that it overlaps, which depends on no other pixel: columns
//!    can be computed in blocks, by any number of threads.
//!
//! # Axes
//! Limits that the request leaves out come from the unmasked pixels: their centres without
//! splitting, centre ± delta with bounding boxes, corners with full splitting, and never below
//! zero. The upper limit, requested or not, is multiplied by 1 + 2^-23, because bins are closed
//! below and open above and the last one must hold the limit. Pixels are assigned to bins in the
//! base unit, in f64. All of this is as in pyFAI 2026.9: axes agree to rounding, and pixels fall in
//! the same bins.
//!
//! # Weights
//! | splitting | weight of a pixel in a bin |
//! |---|---|
//! | [`PixelSplitting::No`] | 1 in the bin of its centre |
//! | [`PixelSplitting::BBox`] | overlap of the bin with centre ± delta, divided by 2 delta; parts outside the axis are lost |
//! | [`PixelSplitting::Full`] | area of the pixel's polygon in (radius, chi) inside the bin, divided by its area on the axis |
//!
//! In a cake, bounding boxes and polygons are cut along both axes. Weights are computed in f64 and
//! stored as f32.
//!
//! The spacing d diverges at the beam, so a pixel that contains or touches the beam centre has no
//! position on such an axis and no weight.
//!
//! # Differences from pyFAI
//! - With a lower limit given by the user, pyFAI's sparse engines also put pixels up to one bin
//!   width below the limit into the first bin, and with bounding boxes both end bins keep the
//!   truncated parts of their pixels. Here an axis ends at its limits. Only at a lower limit of
//!   zero are truncated parts kept, as in pyFAI: a radius is not negative.
//! - A sector may cross the discontinuity of chi and holds all its pixels. A pixel across the
//!   discontinuity belongs to the sectors, and to the bins of a cake, on both sides of it; pyFAI
//!   keeps it on one side.
//! - A pixel that contains the beam centre has every azimuth and reaches from the centre to its
//!   corners. In pyFAI it is the polygon of its corners, which lacks the centre.
//! - In a cake with full splitting, polygons are cut exactly. pyFAI fills bins in order of azimuth
//!   by the mean height of an edge, which moves up to a fifth of a pixel to a neighbouring bin; the
//!   sum over azimuth is equal.
//!
//! # Example
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
//!     PatternRequest { unit: Unit::default(), npt: 100, radial_range: None, azimuth_range: None, split: PixelSplitting::BBox };
//! let binning = bin_pattern(&geometry, &mask, &request)?;
//! assert_eq!(binning.axis.centers.len(), 100);
//! let (bins, weights) = binning.matrix.entries_of_column(0);
//! assert_eq!(bins.len(), weights.len());
//! assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-6);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod axis;
mod bin_edges;
mod bin_pixels;
mod cake;
mod error;
mod outline;
mod paired_columns;
mod pattern;
mod periodic_bins;
mod pixel_binner;
mod polygon;
mod positions;
mod request;
mod sector;
mod split_block;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod support;

pub use axis::{ChiAxis, RadialAxis};
pub use bin_pixels::{Binning, bin_pattern, bin_pixels, check_request};
pub use error::{BinningError, Limits};
pub use paired_columns::PairedColumns;
pub use pixel_binner::{PixelBinner, axes};
pub use request::{AzimuthRequest, BinningRequest, BinsRequest, PatternRequest, PixelSplitting};
