//! The sums of each bin that do not depend on the frame, in twice the precision of a double.

use std::sync::Arc;

use crate::double_double::DoubleDouble;
use crate::tiled_csc::TiledCscRef;
use crate::weight_override::WeightOverride;

/// The sums by bin that do not depend on the photons of a frame, rounded to doubles. See
/// [`BinStaticSums`].
#[derive(Clone, Debug, Default)]
pub(crate) struct StaticSums {
    pub(crate) weights: Arc<WeightOverride>,
    pub(crate) base_variance: Vec<f64>,
    /// How many pixels have an entry in each bin.
    pub(crate) entries: Vec<u64>,
    /// These three are empty without a dark.
    pub(crate) dark: Vec<f64>,
    pub(crate) dark_sq: Vec<f64>,
    pub(crate) norm_dark: Vec<f64>,
}

impl StaticSums {
    pub(crate) fn from_bins(bin_sums: &[BinStaticSums], has_dark: bool) -> StaticSums {
        let by_bin = |value: fn(&BinStaticSums) -> f64| bin_sums.iter().map(value).collect();
        let by_bin_if_dark =
            |value: fn(&BinStaticSums) -> f64| if has_dark { by_bin(value) } else { Vec::new() };
        StaticSums {
            weights: Arc::new(WeightOverride {
                norm: by_bin(|s| s.norm.to_f64()),
                norm_sq: by_bin(|s| s.norm_sq.to_f64()),
                count: by_bin(|s| s.count.to_f64()),
            }),
            base_variance: by_bin(|s| s.base_variance.to_f64()),
            entries: bin_sums.iter().map(|s| s.entries).collect(),
            dark: by_bin_if_dark(|s| s.dark.to_f64()),
            dark_sq: by_bin_if_dark(|s| s.dark_sq.to_f64()),
            norm_dark: by_bin_if_dark(|s| s.norm_dark.to_f64()),
        }
    }
}

/// The sums of one bin that do not depend on the photons of a frame.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct BinStaticSums {
    pub(crate) norm: DoubleDouble,
    pub(crate) norm_sq: DoubleDouble,
    pub(crate) count: DoubleDouble,
    /// Σ w², the Poisson variance if no pixel exceeds 1; Σ w² v if variances v are given.
    pub(crate) base_variance: DoubleDouble,
    /// Σ w d.
    pub(crate) dark: DoubleDouble,
    /// Σ w² d².
    pub(crate) dark_sq: DoubleDouble,
    /// Σ w² n d.
    pub(crate) norm_dark: DoubleDouble,
    /// How many pixels have an entry in the bin.
    pub(crate) entries: u64,
}

/// The arrays from which the terms of [`BinStaticSums`] are computed.
#[derive(Clone, Copy)]
pub(crate) struct StaticTerms<'a> {
    pub(crate) matrix: TiledCscRef<'a>,
    pub(crate) normalization: &'a [f64],
    pub(crate) dark: Option<&'a [f64]>,
    pub(crate) variance: Option<&'a [f64]>,
}

impl BinStaticSums {
    /// Returns the sums without those over some of the pixels. A bin without entries has exactly zero,
    /// whatever the rounding.
    #[inline(always)]
    pub(crate) fn minus(mut self, some: BinStaticSums) -> BinStaticSums {
        self.entries -= some.entries;
        if self.entries == 0 {
            return BinStaticSums::default();
        }
        self.norm -= some.norm;
        self.norm_sq -= some.norm_sq;
        self.count -= some.count;
        self.base_variance -= some.base_variance;
        self.dark -= some.dark;
        self.dark_sq -= some.dark_sq;
        self.norm_dark -= some.norm_dark;
        self
    }
}
