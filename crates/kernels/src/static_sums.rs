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
    /// Rounds the sums of all bins, in order.
    pub(crate) fn from_bins(
        bins: impl ExactSizeIterator<Item = BinStaticSums>,
        has_dark: bool,
    ) -> StaticSums {
        let zeros = vec![0.; bins.len()];
        let zeros_if_dark = if has_dark { zeros.clone() } else { Vec::new() };
        let sums = StaticSums {
            weights: Arc::new(WeightOverride {
                norm: zeros.clone(),
                norm_sq: zeros.clone(),
                count: zeros.clone(),
            }),
            base_variance: zeros,
            entries: vec![0; bins.len()],
            dark: zeros_if_dark.clone(),
            dark_sq: zeros_if_dark.clone(),
            norm_dark: zeros_if_dark,
        };
        sums.with(bins.enumerate())
    }

    /// Returns the sums with those of some bins replaced.
    #[inline(always)]
    pub(crate) fn with(mut self, bins: impl Iterator<Item = (usize, BinStaticSums)>) -> StaticSums {
        let weights = Arc::make_mut(&mut self.weights);
        let has_dark = !self.dark.is_empty();
        for (bin, sums) in bins {
            weights.norm[bin] = sums.norm.to_f64();
            weights.norm_sq[bin] = sums.norm_sq.to_f64();
            weights.count[bin] = sums.count.to_f64();
            self.base_variance[bin] = sums.base_variance.to_f64();
            self.entries[bin] = sums.entries;
            if has_dark {
                self.dark[bin] = sums.dark.to_f64();
                self.dark_sq[bin] = sums.dark_sq.to_f64();
                self.norm_dark[bin] = sums.norm_dark.to_f64();
            }
        }
        self
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
