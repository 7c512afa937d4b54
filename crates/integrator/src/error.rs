//! What keeps a recipe from being applied.

use std::path::PathBuf;

/// Why frames can't be integrated by a recipe.
#[derive(Debug, thiserror::Error)]
pub enum IntegratorError {
    /// The PONI text, its detector, or the unit.
    #[error("{}: {why}", poni.display())]
    Geometry {
        /// The PONI file, as the recipe names it.
        poni: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A mask, dark, flat or detector file can't be read as an image.
    #[error("{role} {name}: {why}")]
    Image {
        /// `mask`, `dark`, `flat` or `detector file`.
        role: &'static str,
        /// The file, and the dataset in it.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// An image of another shape than the frames.
    #[error("{role} {name}: {} x {} pixels, expected {} x {} as the frames have; name a {role} of their shape", found[0], found[1], expected[0], expected[1])]
    Shape {
        /// `mask`, `dark`, `flat`.
        role: &'static str,
        /// The file, and the dataset in it.
        name: String,
        /// Its rows and columns.
        found: [usize; 2],
        /// The frames' rows and columns.
        expected: [usize; 2],
    },
    /// No bins: an empty range, all pixels masked.
    #[error("binning: {0}")]
    Binning(String),
    /// The frames' type or coding is not one that can be decoded.
    #[error("{0}")]
    Coding(String),
    /// No pixel can be a measurement, whatever the detector counts.
    #[error("no value of {dtype} pixels is valid: {settings} exclude all of them; expected some to be left")]
    NothingValid {
        /// The frames' type.
        dtype: String,
        /// The settings that exclude values, each with its own.
        settings: String,
    },
    /// A setting that this version has no way to apply.
    #[error("{0}")]
    Unsupported(String),
}
