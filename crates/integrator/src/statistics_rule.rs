//! [`StatisticsRule`]: of which pixels there are statistics, and which values they leave out.

use kernels::{PixelStatistics, PixelType};
use recipe::Recipe;
use records::Acquisition;

use crate::IntegratorError;
use crate::invalid_values::no_measurement_values;

/// The type of a scan's pixels, and the values that the statistics of a recipe leave out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatisticsRule {
    /// Type of the pixels.
    pub dtype: PixelType,
    /// Values that mean "no measurement": ranges with both ends, in ascending order.
    pub invalid: Vec<[i64; 2]>,
}

/// Reason why a scan has no statistics of its pixels by a recipe.
#[derive(Debug, thiserror::Error)]
pub enum StatisticsRuleError {
    /// There are no statistics of pixels of this type.
    #[error("the pixels are {dtype}; expected integers of at most 32 bits")]
    PixelType {
        /// Type of the pixels.
        dtype: String,
    },
    /// The recipe can't be applied to the scan.
    #[error(transparent)]
    Recipe(#[from] IntegratorError),
}

impl StatisticsRule {
    /// Finds out by which rule the pixels of a scan are added up for a recipe.
    ///
    /// # Errors
    /// Fails if there are no statistics of pixels of this type, or if the recipe's detector can't be
    /// read or doesn't fit the frames.
    pub fn new(scan: &Acquisition, recipe: &Recipe) -> Result<Self, StatisticsRuleError> {
        let dtype = scan.dtype.parse().ok().filter(|dtype| PixelStatistics::supports(*dtype));
        let dtype =
            dtype.ok_or_else(|| StatisticsRuleError::PixelType { dtype: scan.dtype.clone() })?;
        let layout = recipe.framing(&scan.frame_layout());
        Ok(Self { dtype, invalid: no_measurement_values(recipe, &layout, dtype)? })
    }
}
