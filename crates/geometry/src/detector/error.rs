//! Why a detector can't be had.

use std::path::PathBuf;

use crate::known_detectors::UnknownDetector;
use crate::pixel_corners::CornersLengthError;

/// Why a detector can't be had, or can't be the one that the frames come from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DetectorError {
    /// There is no detector of this name.
    #[error(transparent)]
    Unknown(#[from] UnknownDetector),
    /// The detector is not a flat grid of rectangles.
    #[error(
        "detector {name}: {why}: only flat rectangular grids are known by name; \
         save it with pyFAI as a NeXus detector file and name that file as the detector"
    )]
    Refused {
        /// Its class name.
        name: String,
        /// What it is instead.
        why: &'static str,
    },
    /// A setting in `Detector_config` that is not known.
    #[error(
        "detector {name}: {key} in Detector_config is not supported; \
         expected pixel1, pixel2, max_shape, orientation, sensor or filename"
    )]
    Setting {
        /// Its class name.
        name: String,
        /// The setting.
        key: String,
    },
    /// The detector is described in a file, which this crate can't read.
    #[error("detector {0}: a NeXus detector file, which must be read first")]
    File(PathBuf),
    /// Neither the PONI file nor the detector's name says how large a pixel is.
    #[error("detector {0}: no size of pixels; expected pixel1 and pixel2 in metres")]
    NoPixelSize(String),
    /// A detector file says nothing about its shape.
    #[error("detector {0}: no shape; expected shape, max_shape or pixel_corners in the detector file")]
    NoShape(String),
    /// The pixels of this detector have their size, and no other.
    #[error("detector {name}: pixels of {found:?} m; expected {own:?}")]
    Pixel {
        /// Its class name.
        name: String,
        /// What was asked for.
        found: [f64; 2],
        /// What it has.
        own: [f64; 2],
    },
    /// Frames of another shape.
    #[error(
        "detector {name} has {} x {} pixels, the frames {} x {}",
        detector[0], detector[1], frames[0], frames[1]
    )]
    Shape {
        /// Its name.
        name: String,
        /// Rows and columns of the detector.
        detector: [usize; 2],
        /// Rows and columns of the frames.
        frames: [usize; 2],
    },
    /// What was done to the images does not go with the frames or the detector.
    #[error("detector {name}: frames {operation}: {why}")]
    Operation {
        /// Its name.
        name: String,
        /// What was done.
        operation: String,
        /// What is wrong with it.
        why: String,
    },
    /// A mask in a detector file that is not one of the detector.
    #[error("detector {name}: a mask of {found} pixels; expected {} x {}", shape[0], shape[1])]
    Mask {
        /// Its name.
        name: String,
        /// Pixels of the mask.
        found: usize,
        /// Rows and columns of the detector.
        shape: [usize; 2],
    },
    /// Corners in a detector file that are not those of the detector.
    #[error(transparent)]
    Corners(#[from] CornersLengthError),
    /// An orientation that there is none of.
    #[error("detector {name}: orientation {number}; expected 1, 2, 3 or 4")]
    Orientation {
        /// Its name.
        name: String,
        /// What the file says.
        number: u64,
    },
    /// Corners place pixels as they are stored; turning them has no agreed meaning.
    #[error("detector {name}: orientation {number} with pixel_corners is not defined; expected 3")]
    OrientedCorners {
        /// Its name.
        name: String,
        /// The orientation asked for.
        number: u8,
    },
}
