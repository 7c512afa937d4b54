//! Why there is no export.

use std::path::PathBuf;

use crate::{h5, output};

/// Why there is no export.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The final can't be read.
    #[error(transparent)]
    Final(#[from] output::OutputError),
    /// The final has no patterns of many frames.
    #[error("{}: no average to export", path.display())]
    NoAverage {
        /// The final.
        path: PathBuf,
    },
    /// A pattern is not as it was written.
    #[error("{}: damaged: average {index} is not as it was written", path.display())]
    Damaged {
        /// The final.
        path: PathBuf,
        /// Which pattern.
        index: usize,
    },
    /// A cake in a format of patterns.
    #[error(
        "{}: a cake of {azimuthal} by {radial} bins: texts have a place for patterns alone; --export nxazint takes cakes",
        path.display()
    )]
    Cake {
        /// The final.
        path: PathBuf,
        /// Azimuthal bins.
        azimuthal: usize,
        /// Radial bins.
        radial: usize,
    },
    /// A format that has no place for the axis.
    #[error("{}: an axis of {axis}: {format} expects {expected}", path.display())]
    Axis {
        /// The final.
        path: PathBuf,
        /// What its axis counts.
        axis: String,
        /// The format.
        format: &'static str,
        /// What it has a place for.
        expected: &'static str,
    },
    /// A format that says more than the PONI file.
    #[error("{}: {format} needs the wavelength: {why}", path.display())]
    Wavelength {
        /// The final.
        path: PathBuf,
        /// The format.
        format: &'static str,
        /// What is wrong with the PONI file.
        why: String,
    },
    /// The HDF5 library refused.
    #[error("{}: {why}", path.display())]
    Hdf5 {
        /// The file.
        path: PathBuf,
        /// What it said.
        why: h5::Hdf5Error,
    },
    /// The file can't be written.
    #[error("{}: {why}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the file system said.
        why: std::io::Error,
    },
}

impl ExportError {
    /// Returns the error of the file system, where it is one.
    pub fn io_error(&self) -> Option<&std::io::Error> {
        match self {
            Self::Final(why) => why.io_error(),
            Self::Io { why, .. } => Some(why),
            _ => None,
        }
    }
}
