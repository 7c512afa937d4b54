//! Statistics that need all pixels of a bin at once: sigma clipping and quantile means.
//!
//! [`CsrMatrix`] holds a plan's matrix in CSR form: the entries of each bin, one bin after the
//! other. Frames are reduced in one of three ways:
//!
//! - `interleaved` (with `interleaved_pixels` and `interleaved_quantiles`) reduces 8 frames at once;
//!   SIMD lanes are frames. It needs frames that are decoded block by block.
//! - `tile_clip` clips 8 frames at once, tile by tile, and stores no pixels. It is for Poisson errors
//!   without pixel splitting and dark.
//! - `per_frame` (with `clip_buffer` and `quantile_buffer`) reduces one decoded frame after the other, with any codec and
//!   pixel type. It is the reference: the others give the same bytes.
//!
//! All return [`crate::Sums`] with the weights of the pixels that were selected, so these sums
//! merge like all others.
//!
//! With weight w, normalization n, signal s = raw - dark and variance v of a pixel in a bin: mean m
//! = Σ w s / Σ w n, V = Σ w² v or, azimuthal, Σ w² (s - m n)², std = √(V / Σ w² n²). The
//! definitions are those of pyFAI 2026.9 (`sigma_clip_ng` and `medfilt1d_ng` of its Python engine),
//! except for split pixels: here each part of a split pixel is clipped or kept by the bin that it
//! falls into.
//!
//! The sums of a bin are f64, and are added in the order of [`partial_sums`]: those of quantile means over
//! the pixels that are valid and selected. Clipping adds up all pixels, with invalid ones as 0, and
//! subtracts what it removes by the rules of [`clipped_sums`].

mod among_zeros;
mod bin_entries;
mod bin_lane;
mod by_plan;
mod clip_buffer;
mod clipped_sums;
mod count_hints;
mod counted_medians;
mod csr;
mod frame_bin_sums;
mod gathered_rows;
mod integrate;
mod interleaved;
mod interleaved_pixels;
mod interleaved_quantiles;
mod lane_brackets;
mod lane_clip;
mod lane_regions;
mod lane_sample;
mod lane_segments;
mod lane_sort;
mod list_bits;
mod logarithm;
mod outlier_search;
mod partial_sums;
mod per_frame;
mod quantile;
mod quantile_buffer;
mod quantile_candidates;
mod quantile_hints;
mod rejected;
mod retries;
mod row_terms;
mod sigma_clip;
mod term_lists;
mod tile_clip;
mod tile_lanes;
mod unsplit_bins;
mod without_masked;

use crate::simd::Simd;
use crate::variance_model::VarianceModel;

use bin_entries::BinEntries;
use clip_buffer::ClipBuffer;
pub use csr::CsrMatrix;
pub(crate) use integrate::{CsrIntegration, CsrScratch};
use quantile_buffer::QuantileBuffer;
pub use rejected::MAX_REJECTED_DIVISOR;
use rejected::RejectedShares;
use sigma_clip::ClipRule;

/// The statistic that is computed over the pixels of a bin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// The mean of the pixels that remain after sigma clipping.
    SigmaClip {
        /// Distance from the mean, in standard deviations, beyond which a pixel is an outlier.
        /// Chauvenet's criterion is used instead where it allows a larger distance.
        threshold: f64,
        /// The maximum number of clipping iterations.
        max_iter: u32,
    },
    /// The mean of the pixels between two quantiles of s / n, weighted by w n. The pixels at the
    /// quantiles are included.
    QuantileMean {
        /// The lower quantile, from 0 to 1.
        low: f64,
        /// The upper quantile, from `low` to 1.
        high: f64,
    },
}

/// Sums over the selected pixels of one bin.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct BinSums {
    /// Σ w s.
    pub(crate) signal: f64,
    /// V; 0 without a variance model.
    pub(crate) variance: f64,
    /// Σ w n.
    pub(crate) norm: f64,
    /// Σ w² n².
    pub(crate) norm_sq: f64,
    /// Σ w.
    pub(crate) count: f64,
}

/// The pixels of a bin in a frame, before dark and weights are applied.
struct RawPixels<'a> {
    bin: &'a BinEntries<'a>,
    /// One pixel per entry of the bin; NaN is an invalid one.
    raw: &'a [f64],
}

impl RawPixels<'_> {
    /// Replaces the contents of `invalid` by the entries of invalid pixels, ascending.
    #[inline(always)]
    fn list_invalid(&self, invalid: &mut Vec<u32>) {
        invalid.clear();
        if self.raw.iter().fold(false, |any, raw| any | raw.is_nan()) {
            let is_invalid = |(_, raw): &(u32, &f64)| raw.is_nan();
            invalid.extend((0..).zip(self.raw).filter(is_invalid).map(|(entry, _)| entry));
        }
    }
}

/// Working memory for the bins of frames that are reduced one by one.
#[derive(Default)]
struct BinBuffers {
    clip: ClipBuffer,
    quantile: QuantileBuffer,
}

/// The rule that reduces the pixels of a bin to sums.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reduction {
    pub(crate) statistic: Statistic,
    pub(crate) variance_model: VarianceModel,
}

impl Reduction {
    /// Returns the sums over the pixels of a bin that are valid and selected. Adds those that clipping
    /// rejects to `rejected`, if that is wanted.
    #[inline(always)]
    fn reduce<S: Simd>(
        &self,
        simd: S,
        pixels: &RawPixels<'_>,
        buffers: &mut BinBuffers,
        rejected: Option<&mut RejectedShares>,
    ) -> BinSums {
        match self.statistic {
            Statistic::SigmaClip { threshold, max_iter } => {
                let rule = ClipRule { variance_model: self.variance_model, threshold, max_iter };
                buffers.clip.clip(rule, pixels, rejected)
            }
            Statistic::QuantileMean { low, high } => {
                buffers.quantile.mean_between_quantiles(simd, pixels, low, high)
            }
        }
    }
}
