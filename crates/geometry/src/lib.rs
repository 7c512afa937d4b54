//! Computes where each pixel of a detector lies in a scattering experiment: radial position,
//! azimuth and pixel width, and the corrections that depend on them. Crate `binning` turns the
//! result into bins and an integration matrix.
//!
//! 1. [`Poni::parse`] or [`Poni::from_json`] reads a PONI file (pyFAI's calibration of distance,
//!    point of normal incidence, rotations and wavelength).
//! 2. [`Detector::from_poni`] or [`Detector::by_name`] makes the detector: shape, pixel size, gaps,
//!    dummy values. The table of [`known_detectors`] is generated from pyFAI.
//!    [`Detector::from_nexus`] makes one that a NeXus detector file describes.
//! 3. [`PixelMapping`] maps the pixels of frames that were binned, flipped, rotated or cut when
//!    they were saved to the detector's pixels.
//! 4. [`Geometry`] gives what pixels have: [`Geometry::radial_centers`] in any [`Unit`],
//!    [`Geometry::radial_intervals`] and [`Geometry::corners`] in base units,
//!    [`Geometry::chi_centers`], [`Geometry::chi_intervals`], and the corrections
//!    [`Geometry::solid_angle`], [`Geometry::polarization`] and [`Geometry::sensor_absorption`].
//!
//! Conventions are those of pyFAI 2026.9. Axis 1 is the slow axis of the image and points up, axis
//! 2 is the fast axis and is horizontal, axis 3 runs along the beam. The orthogonal distance `dist`
//! from the sample to the detector's plane, the point of normal incidence (`poni1`, `poni2`) and
//! three rotations place the detector. Lengths are in metres and angles in radians, except in the
//! [`Unit`] of a pattern's axis. Arrays are row-major.
//!
//! ```
//! use geometry::{Detector, Geometry, Poni, Unit};
//! let poni = Poni::parse(
//!     "poni_version: 2.1\nDetector: Pilatus100k\nDetector_config: {\"orientation\": 3}\n\
//!      Distance: 0.2\nPoni1: 0.01677\nPoni2: 0.0\nRot1: 0\nRot2: 0\nRot3: 0\nWavelength: 1e-10\n",
//! )?;
//! let detector = Detector::from_poni(&poni)?;
//! let geometry = Geometry::new(&poni, &detector, [195, 487])?;
//! let two_theta = geometry.radial_centers(Unit::parse("2th_deg")?)?;
//! assert_eq!(two_theta.len(), 195 * 487);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arctangent;
mod corner_values;
mod corrections;
mod detector;
mod detector_error;
mod displaced_rings;
mod dummy;
mod gaps;
mod geometry;
pub mod known_detectors;
mod nexus;
mod number_text;
mod orientation;
mod parallax;
mod pixel_corners;
mod pixel_grid;
mod pixel_mapping;
mod points;
mod poni;
pub mod quantity;
mod rotation;
mod sample_frame;
mod sensor;
mod unit;

pub use corner_values::{CornerValues, IntervalBlock, PixelIntervals};
pub use detector::Detector;
pub use detector_error::DetectorError;
pub use displaced_rings::DetectorPlane;
pub use dummy::DummyRule;
pub use geometry::{Geometry, GeometryError};
pub use nexus::NexusDetector;
pub use number_text::format_number;
pub use orientation::Orientation;
pub use parallax::ParallaxSensor;
pub use pixel_corners::PixelCorners;
pub use pixel_mapping::PixelMapping;
pub use points::BLOCK;
pub use poni::{DetectorConfig, DetectorSpec, Poni, PoniError};
pub use quantity::RadialQuantity;
pub use sample_frame::{SampleFrame, UnknownOrientation};
pub use sensor::{EnergyNotTabulated, SensorMaterial, UnknownMaterial};
pub use unit::{Unit, UnknownUnit};
