//! Errors of making a detector, or of fitting frames to it.

use std::path::PathBuf;

use crate::known_detectors::UnknownDetector;
use crate::pixel_corners::CornersLengthError;

/// A detector can't be made, or the frames can't come from it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DetectorError {
    /// No known detector has this name.
    #[error(transparent)]
    Unknown(#[from] UnknownDetector),
    /// The detector is not a flat grid of rectangular pixels, so its name alone does not place its
    /// pixels.
    #[error(
        "detector {name}: {why}; only flat grids of rectangular pixels can be used by name: \
         save the detector with pyFAI as a NeXus detector file and name that file as the detector"
    )]
    Refused {
        /// Class name of the detector.
        name: String,
        /// Property that rules the detector out, such as `hexagonal pixels`.
        why: &'static str,
    },
    /// `Detector_config` has a setting that is not known. The setting may move pixels, so it can't
    /// be ignored.
    #[error(
        "detector {name}: {key} in Detector_config is not supported; \
         expected pixel1, pixel2, max_shape, orientation, sensor or filename"
    )]
    Setting {
        /// Class name of the detector.
        name: String,
        /// Key of the setting.
        key: String,
    },
    /// The detector is described by a NeXus detector file, which this crate does not read.
    #[error(
        "detector {0}: expected a detector known by name, found a NeXus detector file that was not read"
    )]
    File(PathBuf),
    /// Neither the PONI file nor the detector's name gives the pixel size.
    #[error(
        "detector {0}: no pixel size; expected pixel1 and pixel2 in metres in Detector_config, \
         or pixel_size in the detector file"
    )]
    NoPixelSize(String),
    /// The shape of the detector is needed and not known.
    #[error(
        "detector {0}: no shape; expected max_shape in Detector_config, \
         or shape, max_shape or pixel_corners in the detector file"
    )]
    NoShape(String),
    /// A pixel size is given that this detector can't have.
    #[error(
        "detector {name}: pixel size {} x {} m; expected {} x {} m, the only size that its pixels have",
        found[0], found[1], expected[0], expected[1]
    )]
    Pixel {
        /// Class name of the detector.
        name: String,
        /// Pixel size asked for, in metres along the slow and the fast axis.
        found: [f64; 2],
        /// Pixel size of the detector, in metres along the slow and the fast axis.
        expected: [f64; 2],
    },
    /// Frames have a shape that the detector can't have.
    #[error(
        "detector {name} has {} x {} pixels, the frames {} x {}",
        detector[0], detector[1], frames[0], frames[1]
    )]
    Shape {
        /// Name of the detector.
        name: String,
        /// Rows and columns of the detector.
        detector: [usize; 2],
        /// Rows and columns of the frames.
        frames: [usize; 2],
    },
    /// The image operation of the frames contradicts itself, the frames or the detector.
    #[error("detector {name}: frames {operation}: {why}")]
    Operation {
        /// Name of the detector.
        name: String,
        /// The image operation in words, such as `binned 2 x 2, turned by 90 degrees`.
        operation: String,
        /// The contradiction, and what was expected.
        why: String,
    },
    /// The mask in a detector file does not have the detector's shape.
    #[error("detector {name}: mask has {found} pixels; expected {} x {}", shape[0], shape[1])]
    Mask {
        /// Name of the detector.
        name: String,
        /// Number of pixels in the mask.
        found: usize,
        /// Rows and columns of the detector.
        shape: [usize; 2],
    },
    /// The corners in a detector file do not have the detector's shape.
    #[error(transparent)]
    Corners(#[from] CornersLengthError),
    /// The orientation is no number from 1 to 4.
    #[error("detector {name}: orientation {number}; expected 1, 2, 3 or 4")]
    Orientation {
        /// Name of the detector.
        name: String,
        /// Orientation in the detector file.
        number: u64,
    },
    /// An orientation other than 3 is given for a detector with `pixel_corners`, which place pixels
    /// as they are stored.
    #[error(
        "detector {name}: orientation {number} is not defined for a detector with pixel_corners; expected 3"
    )]
    OrientedCorners {
        /// Name of the detector.
        name: String,
        /// Orientation asked for.
        number: u8,
    },
}
