//! [`ExportError`]: why a final file can't be exported.

use std::path::PathBuf;

use crate::{h5, output};

/// Reason why a final file can't be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The final file can't be read.
    #[error(transparent)]
    Final(#[from] output::OutputError),
    /// The format needs average patterns, and the final file has none.
    #[error("{}: has no average pattern to export; run gather with --average mean", path.display())]
    NoAverage {
        /// Path of the final file.
        path: PathBuf,
    },
    /// No frame has a pattern, so that each average is of nothing.
    #[error("{}: no frame has a pattern: there is no average to export", path.display())]
    NoPattern {
        /// Path of the final file.
        path: PathBuf,
    },
    /// An average pattern is damaged.
    #[error("{}: damaged: average pattern {index} was changed after writing; run gather again", path.display())]
    Damaged {
        /// Path of the final file.
        path: PathBuf,
        /// Index of the pattern.
        index: usize,
    },
    /// The format takes patterns with one dimension, and the final file has cakes.
    #[error(
        "{}: has cakes of {azimuthal} x {radial} bins, which --export {format} can't hold; use --export nxazint",
        path.display()
    )]
    Cake {
        /// Path of the final file.
        path: PathBuf,
        /// Name of the format.
        format: &'static str,
        /// Number of azimuthal bins.
        azimuthal: usize,
        /// Number of radial bins.
        radial: usize,
    },
    /// A format or the calibration does not support the radial axis.
    #[error("{}: the axis is {axis}; {wanted_by} expects {expected}: run plan-split with another --unit", path.display())]
    Axis {
        /// Path of the final file.
        path: PathBuf,
        /// Quantity and unit of the axis.
        axis: String,
        /// Flag that needs another axis.
        wanted_by: String,
        /// Axes that it supports.
        expected: &'static str,
    },
    /// The format needs the wavelength, and the PONI file has none.
    #[error("{}: --export {format} needs the wavelength: {why}; add it to the PONI file, or run plan-split with --unit 2th_deg", path.display())]
    Wavelength {
        /// Path of the final file.
        path: PathBuf,
        /// Name of the format.
        format: &'static str,
        /// Reason why there is no wavelength.
        why: String,
    },
    /// The background can't be subtracted, or intensities can't be put in absolute units.
    #[error("{}: {why}", path.display())]
    Reduction {
        /// Path of the final file, or of the background's.
        path: PathBuf,
        /// Reason, and what was expected.
        why: String,
    },
    /// The pixels have no statistics that can be shown.
    #[error("{}: {why}", path.display())]
    PixelStatistics {
        /// Path of the final file.
        path: PathBuf,
        /// Reason, and what to do.
        why: String,
    },
    /// The frames can't be put on a map.
    #[error("{}: {why}", path.display())]
    Map {
        /// Path of the final file.
        path: PathBuf,
        /// Reason, and what was expected.
        why: String,
    },
    /// An export has the name of a final file.
    #[error(
        "{}: is the final file of another recipe or scan, which is never overwritten, not even with --overwrite; \
         move it away, or plan one of both with another --recipe-name",
        path.display()
    )]
    IsFinal {
        /// Path of the final file that is there.
        path: PathBuf,
    },
    /// The drift can't be measured.
    #[error("{}: {why}", path.display())]
    Drift {
        /// Path of the final file.
        path: PathBuf,
        /// Reason, and what was expected.
        why: String,
    },
    /// The HDF5 library failed.
    #[error("{}: {why}", path.display())]
    Hdf5 {
        /// Path of the file.
        path: PathBuf,
        /// Error of the library.
        why: h5::Hdf5Error,
    },
    /// A system call failed.
    #[error("{}: {why}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        why: std::io::Error,
    },
}

impl ExportError {
    /// Returns the system's error if a system call failed.
    pub fn io_error(&self) -> Option<&std::io::Error> {
        match self {
            Self::Final(why) => why.io_error(),
            Self::Io { why, .. } | Self::Hdf5 { why: h5::Hdf5Error::Io(why), .. } => Some(why),
            _ => None,
        }
    }
}
