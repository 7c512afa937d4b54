//! Statistics that need all pixels of a bin at once: sigma clipping and quantile means.
//!
//! [`CsrMatrix`] holds a plan's matrix in CSR form: the entries of each bin, one bin after the
//! other. Frames are reduced in one of three ways:
//!
//! - `interleaved` (with `interleaved_pixels` and `interleaved_quantiles`) reduces 8 frames at once;
//!   SIMD lanes are frames. It needs frames that are decoded block by block.
//! - `tile_clip` clips 8 frames at once, tile by tile, and stores no pixels. It is for Poisson errors
//!   without pixel splitting and dark.
//! - `per_frame` (with `bin_buffer`) reduces one decoded frame after the other, with any codec and
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
//! The sums of a bin are f64. They run over the pixels that are valid and selected, in the order of
//! the frame, and are added in the order of [`partial_sums`]. So they depend on those pixels alone.

mod among_zeros;
mod bin_buffer;
mod bin_entries;
mod bin_lane;
mod by_plan;
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
mod quantile_candidates;
mod quantile_hints;
mod rejected;
mod retries;
mod row_terms;
mod sigma_clip;
mod tile_clip;
mod tile_lanes;
mod unsplit_bins;
mod without_masked;

use crate::invalid_values::InvalidRanges;
use crate::pixel::Pixel;
use crate::simd::Simd;
use crate::variance_model::VarianceModel;

use bin_buffer::BinBuffer;
use bin_entries::BinEntries;
pub use csr::CsrMatrix;
pub(crate) use integrate::{CsrIntegration, CsrScratch};
pub use rejected::MAX_REJECTED_DIVISOR;
use rejected::RejectedShares;

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
struct RawPixels<'a, T> {
    bin: &'a BinEntries<'a>,
    /// One pixel per entry of the bin.
    raw: &'a [T],
    rule: &'a InvalidRanges<T>,
}

/// The rule that reduces the pixels of a bin to sums.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reduction {
    pub(crate) statistic: Statistic,
    pub(crate) variance_model: VarianceModel,
}

impl Reduction {
    /// Returns the sums over the pixels of a bin that are valid and selected.
    ///
    /// If sums to clip by are known, as [`sigma_clip::sums_to_clip_by`] returns them, clipping begins
    /// with them, and all pixels must be valid.
    #[inline(always)]
    fn reduce_raw<T: Pixel, S: Simd>(
        &self,
        simd: S,
        pixels: &RawPixels<'_, T>,
        unclipped: Option<BinSums>,
        buffer: &mut BinBuffer,
    ) -> BinSums {
        let RawPixels { bin, raw, rule } = *pixels;
        debug_assert!(unclipped.is_none() || !rule.any_invalid(raw), "sums of invalid pixels");
        let with_intensities = matches!(self.statistic, Statistic::QuantileMean { .. });
        buffer.load(bin, raw, with_intensities);
        let all_valid = unclipped.is_some() || !buffer.drop_invalid(raw, rule);
        self.reduce(simd, buffer, all_valid.then_some(bin), unclipped)
    }

    /// Returns the sums as [`Reduction::reduce_raw`] does, and adds the pixels that clipping rejects
    /// to `rejected`, if that is wanted.
    #[inline(always)]
    fn reduce_and_collect<T: Pixel, S: Simd>(
        &self,
        simd: S,
        pixels: &RawPixels<'_, T>,
        unclipped: Option<BinSums>,
        buffer: &mut BinBuffer,
        rejected: Option<&mut RejectedShares>,
    ) -> BinSums {
        let Some(rejected) = rejected else {
            return self.reduce_raw(simd, pixels, unclipped, buffer);
        };
        buffer.clip_steps = Some(Vec::new());
        let sums = self.reduce_raw(simd, pixels, unclipped, buffer);
        let steps = buffer.clip_steps.take().unwrap_or_default();
        let RawPixels { bin, raw, rule } = *pixels;
        rejected.add_bin(bin, raw, rule, &steps);
        sums
    }

    /// Returns the sums over the selected pixels in `buffer`. `whole` is the bin if all its pixels
    /// are valid. Then its weights are used instead of new sums, because they are more exact and
    /// equal to those of other frames. `unclipped` are the sums that clipping begins with, if they
    /// are known.
    #[inline(always)]
    fn reduce<S: Simd>(
        &self,
        simd: S,
        buffer: &mut BinBuffer,
        whole: Option<&BinEntries<'_>>,
        unclipped: Option<BinSums>,
    ) -> BinSums {
        let full_sums = whole.map(|bin| bin.full_sums);
        match self.statistic {
            _ if buffer.is_empty() => BinSums::default(),
            Statistic::SigmaClip { threshold, max_iter } => {
                let model = self.variance_model;
                let sums = unclipped
                    .unwrap_or_else(|| sigma_clip::sums_to_clip_by(buffer, full_sums, model));
                sigma_clip::sigma_clip(buffer, sums, model, threshold, max_iter)
            }
            Statistic::QuantileMean { low, high } => {
                buffer.mean_between_quantiles(simd, whole, low, high)
            }
        }
    }
}
