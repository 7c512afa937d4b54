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

mod corrections;
mod detector;
mod dummy;
mod gaps;
mod geometry;
pub mod known_detectors;
mod nexus;
mod orientation;
mod pixel_corners;
mod pixel_grid;
mod pixel_mapping;
mod poni;
mod rotation;
mod sensor;
mod unit;

pub use detector::{Detector, DetectorError};
pub use dummy::DummyRule;
pub use geometry::{Geometry, GeometryError};
pub use nexus::NexusDetector;
pub use orientation::Orientation;
pub use pixel_corners::PixelCorners;
pub use pixel_mapping::PixelMapping;
pub use poni::{DetectorConfig, DetectorSpec, Poni, PoniError};
pub use sensor::{EnergyNotTabulated, SensorMaterial, UnknownMaterial};
pub use unit::{Unit, UnknownUnit};
