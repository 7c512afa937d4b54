//! [`VarianceModel`], the two choices from which the errors of bins follow.

/// The variance of the sums of a bin: where the variance of a pixel comes from, and where the
/// spread of the pixels in a bin takes the place of their variances. The choices are independent:
/// the loops over pixels match on one or the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VarianceModel {
    /// The variance that a pixel has by itself.
    pub pixel: PixelVarianceModel,
    /// Where the spread of the pixels in a bin is used.
    pub spread: SpreadRole,
}

/// The source of the variance that a pixel has by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PixelVarianceModel {
    /// A pixel has none.
    None,
    /// max(counts, 1), as in pyFAI, with or without a dark.
    Counts,
    /// A given value, equal in all frames; see [`crate::IntegrationPlan::with_variance`].
    Given,
}

/// The place where the spread of the pixels in a bin is used as their variance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpreadRole {
    /// In no place: errors follow from the variances of pixels.
    Unused,
    /// The limits of sigma clipping, but not the result.
    Clipping,
    /// The limits of sigma clipping, and the result.
    ClippingAndResult,
}

impl VarianceModel {
    /// No errors; [`crate::Sums::variance`] is `None`.
    pub const NONE: Self = Self { pixel: PixelVarianceModel::None, spread: SpreadRole::Unused };
    /// Counting statistics.
    pub const POISSON: Self =
        Self { pixel: PixelVarianceModel::Counts, spread: SpreadRole::Unused };
    /// The spread of the pixels in a bin.
    pub const AZIMUTHAL: Self =
        Self { pixel: PixelVarianceModel::None, spread: SpreadRole::ClippingAndResult };
    /// Sigma clipping by the spread, and counting statistics of the pixels that remain.
    pub const HYBRID: Self =
        Self { pixel: PixelVarianceModel::Counts, spread: SpreadRole::Clipping };
    /// A given variance of each pixel.
    pub const GIVEN: Self = Self { pixel: PixelVarianceModel::Given, spread: SpreadRole::Unused };

    /// Returns whether sums have a variance.
    pub(crate) fn has_variance(self) -> bool {
        self.pixel != PixelVarianceModel::None || self.is_spread_in_result()
    }

    /// Returns whether sigma clipping measures distances from the mean by the spread of the pixels.
    #[inline(always)]
    pub(crate) fn is_spread_in_clipping(self) -> bool {
        self.spread != SpreadRole::Unused
    }

    /// Returns whether the variance of the result is the spread of the pixels.
    #[inline(always)]
    pub(crate) fn is_spread_in_result(self) -> bool {
        self.spread == SpreadRole::ClippingAndResult
    }
}
