//! [`IntegratorError`], why a recipe can't be applied to frames.

use std::path::PathBuf;

use binning::BinningError;
use recipe::RecipeError;

/// Why a recipe can't be applied to frames.
#[derive(Debug, thiserror::Error)]
pub enum IntegratorError {
    /// The PONI file or its detector is invalid, or does not fit the frames.
    #[error("{}: {why}", poni.display())]
    Geometry {
        /// The PONI file, as the recipe names it.
        poni: PathBuf,
        /// The error of crate `geometry`.
        why: String,
    },
    /// A mask, dark, flat or detector file can't be read as an image.
    #[error("{role} {name}: {why}")]
    Image {
        /// `mask`, `dark`, `flat` or `detector file`.
        role: &'static str,
        /// The file, and the dataset in it.
        name: String,
        /// The reason.
        why: String,
    },
    /// The file system or the HDF5 worker failed for such a file, which may be readable later.
    #[error("{role} {name}: {why}")]
    Unreadable {
        /// `mask`, `dark`, `flat` or `detector file`.
        role: &'static str,
        /// The file, and the dataset in it.
        name: String,
        /// The reason.
        why: String,
    },
    /// An image has another shape than the frames.
    #[error(
        "{role} {name}: {} x {} pixels; expected {} x {} like the frames: give a {role} of this shape",
        found[0], found[1], expected[0], expected[1]
    )]
    Shape {
        /// `mask`, `dark`, `flat` or `variance`.
        role: &'static str,
        /// The file, and the dataset in it.
        name: String,
        /// The image's rows and columns.
        found: [usize; 2],
        /// The frames' rows and columns.
        expected: [usize; 2],
    },
    /// A file of the recipe has changed since the recipe was made, or can't be read any more.
    #[error(transparent)]
    File(#[from] RecipeError),
    /// The matrix can't be built: an invalid range or unit.
    #[error("binning: {0}")]
    Binning(String),
    /// No usable pixel is in the range, or all pixels are masked.
    #[error("binning: {0}")]
    NoPixels(String),
    /// The frames have another pixel type than the task says, or a coding that can't be decoded.
    #[error("{0}")]
    Coding(String),
    /// The limits and dummy values of the recipe exclude all values of the pixel type.
    #[error(
        "no value of {dtype} pixels is valid: {settings}; change these settings, which exclude all values"
    )]
    NothingValid {
        /// The frames' pixel type.
        dtype: String,
        /// The settings that exclude values, with their values.
        settings: String,
    },
    /// A setting can't be applied.
    #[error("{0}")]
    Unsupported(String),
}

impl IntegratorError {
    /// Returns whether another attempt may succeed.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unreadable { .. } | Self::File(RecipeError::Io { .. }))
    }
}

impl From<BinningError> for IntegratorError {
    fn from(why: BinningError) -> Self {
        match why {
            BinningError::AllMasked(_) | BinningError::NothingInRange { .. } => {
                Self::NoPixels(why.to_string())
            }
            _ => Self::Binning(why.to_string()),
        }
    }
}
