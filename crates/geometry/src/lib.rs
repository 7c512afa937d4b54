//! Where each pixel of a detector lies in an experiment: PONI files, detectors, units, positions.
//!
//! The conventions are those of pyFAI 2026.9. Axis 1 is the slow one of the image and points up,
//! axis 2 is the fast one and is horizontal, axis 3 runs along the beam. A detector is placed by
//! the orthogonal distance `dist` from the sample to its plane, by the point of normal incidence
//! (`poni1`, `poni2`) on it, and by three rotations. Lengths are metres and angles radians
//! throughout; a [`Unit`] is what a user reads on the axis of a pattern.
//!
//! ```
//! use geometry::{Detector, Geometry, Poni, Unit};
//! let poni = Poni::parse(
//!     "poni_version: 2.1\nDetector: Pilatus100k\nDetector_config: {\"orientation\": 3}\n\
//!      Distance: 0.2\nPoni1: 0.01677\nPoni2: 0.0\nRot1: 0\nRot2: 0\nRot3: 0\nWavelength: 1e-10\n",
//! )?;
//! let detector = Detector::from_poni(&poni)?;
//! let geometry = Geometry::new(&poni, &detector, [195, 487])?;
//! let two_theta = geometry.radial_centers(Unit::TthDeg)?;
//! assert_eq!(two_theta.len(), 195 * 487);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod corners;
mod corrections;
mod detector;
pub mod detectors;
mod dummy;
mod gaps;
mod geometry;
mod lattice;
mod nexus;
mod orientation;
mod poni;
mod rotation;
mod sensor;
mod unit;
mod view;

pub use corners::PixelCorners;
pub use detector::{Detector, Error as DetectorError};
pub use dummy::DummyRule;
pub use geometry::{Error as GeometryError, Geometry};
pub use nexus::NexusDetector;
pub use orientation::Orientation;
pub use poni::{DetectorConfig, DetectorSpec, Error as PoniError, Poni};
pub use sensor::{Material, NotTabulated, UnknownMaterial};
pub use unit::{Unit, UnknownUnit};
pub use view::View;
