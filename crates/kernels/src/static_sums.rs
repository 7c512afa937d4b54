//! The sums of each bin that do not depend on the frame, in twice the precision of a double.

use std::sync::Arc;

use crate::double_double::DoubleDouble;
use crate::simd::{Kernel, Simd};
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

/// Computes the sums of all bins over all pixels except `invalid`: a frame's invalid pixels that
/// have entries, in rising order.
pub(crate) struct StaticSumsWithout<'a> {
    /// The sums over all pixels.
    pub(crate) bin_sums: &'a [BinStaticSums],
    pub(crate) terms: StaticTerms<'a>,
    pub(crate) invalid: &'a [u32],
}

impl Kernel for StaticSumsWithout<'_> {
    type Output = StaticSums;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> StaticSums {
        let mut bin_sums = self.bin_sums.to_vec();
        for &pixel in self.invalid {
            for (bin, weight) in self.terms.matrix.entries(pixel as usize) {
                let term = self.terms.term(pixel as usize, weight);
                bin_sums[bin].subtract(term, self.terms.dark.is_some());
            }
        }
        StaticSums::from_bins(&bin_sums, self.terms.dark.is_some())
    }
}

/// The arrays from which the terms of [`BinStaticSums`] are computed.
#[derive(Clone, Copy)]
pub(crate) struct StaticTerms<'a> {
    pub(crate) matrix: TiledCscRef<'a>,
    pub(crate) normalization: &'a [f64],
    pub(crate) dark: Option<&'a [f64]>,
    pub(crate) variance: Option<&'a [f64]>,
}

impl StaticTerms<'_> {
    /// Returns the term of a pixel in a bin in which it has this weight.
    #[inline(always)]
    pub(crate) fn term(self, pixel: usize, weight: f32) -> BinStaticSums {
        let (n, w) = (self.normalization[pixel], f64::from(weight));
        let norm = DoubleDouble::two_product(w, n);
        let dark = self
            .dark
            .map_or(DoubleDouble::default(), |dark| DoubleDouble::two_product(w, dark[pixel]));
        BinStaticSums {
            norm,
            norm_sq: norm * norm,
            count: w.into(),
            base_variance: match self.variance {
                Some(variance) => DoubleDouble::two_product(w * w, variance[pixel]),
                None => DoubleDouble::two_product(w, w),
            },
            dark,
            dark_sq: dark * dark,
            norm_dark: norm * dark,
            entries: 1,
        }
    }
}

impl BinStaticSums {
    /// Subtracts the term of one pixel. A bin without entries is set to exactly zero, whatever the
    /// rounding.
    #[inline(always)]
    fn subtract(&mut self, term: BinStaticSums, has_dark: bool) {
        self.norm -= term.norm;
        self.norm_sq -= term.norm_sq;
        self.count -= term.count;
        self.base_variance -= term.base_variance;
        if has_dark {
            self.dark -= term.dark;
            self.dark_sq -= term.dark_sq;
            self.norm_dark -= term.norm_dark;
        }
        self.entries -= term.entries;
        if self.entries == 0 {
            *self = BinStaticSums::default();
        }
    }
}
