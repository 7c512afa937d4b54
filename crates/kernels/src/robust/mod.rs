//! Sums of the pixels of a bin that are chosen by looking at all of them: sigma clipping, the mean between two
//! quantiles; and errors from the spread within a bin, which take two passes over it.
//!
//! [`ByBin`] has a plan's entries by bin. Frames go through it side by side, lanes being frames (`interleaved_pixels`, `interleaved`), or one
//! after another (`per_frame`, `bin_buffer`): the plain way, and what the other gives to the bit. What comes out is [`crate::Sums`]
//! whose weights are those of the chosen pixels, so that they merge as all others do.
//!
//! With weight w, normalization n, signal s = raw - dark and variance v of a pixel in a bin:
//! mean m = Σ w s / Σ w n, V = Σ w² v or, azimuthal, Σ w² (s - m n)², std = √(V / Σ w² n²). The definitions are those of
//! pyFAI 2026.9 (`sigma_clip_ng`, `medfilt1d_ng` of its python engine), but where pixels are split: there each share of
//! a pixel is judged by its own bin.
//!
//! Each bin's sums are f64 in an order of their own ([`partial_sums`]) over those pixels, in the order of the frame, that are valid and
//! left; it depends on these alone.

mod bin_buffer;
mod bin_entries;
mod csr;
mod interleaved;
mod interleaved_pixels;
mod logarithm;
pub(crate) mod partial_sums;
mod per_frame;
pub(crate) mod quantile;
mod sigma_clip;
mod without_masked;

use crate::invalid_values::InvalidRanges;
use crate::pixel::Pixel;
use crate::plan::VarianceModel;
use crate::simd::SimdBackend;

use bin_buffer::BinBuffer;
use bin_entries::BinEntries;
pub use csr::CsrMatrix;
pub(crate) use csr::CsrScratch;
pub(crate) use interleaved::InterleavedReduction;
pub(crate) use per_frame::PerFrameReduction;

/// Which pixels of a bin count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// All.
    Mean,
    /// Those that are left when outliers are dropped again and again.
    SigmaClip {
        /// More standard deviations from the mean than this make an outlier, unless Chauvenet's criterion says more.
        threshold: f64,
        /// How often outliers are dropped at the most.
        max_iter: u32,
    },
    /// Those between two quantiles of s / n, which are weighted by w n; the pixels that they fall on are among them.
    QuantileMean {
        /// 0 to 1.
        low: f64,
        /// Not below `low`, up to 1.
        high: f64,
    },
}

/// The sums over some pixels of one bin.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct BinSums {
    /// Σ w s.
    pub(crate) signal: f64,
    /// V; 0 without an error model.
    pub(crate) variance: f64,
    /// Σ w n.
    pub(crate) norm: f64,
    /// Σ w² n².
    pub(crate) norm_sq: f64,
    /// Σ w.
    pub(crate) count: f64,
}

/// How a bin becomes its sums.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reduction {
    pub(crate) statistic: Statistic,
    pub(crate) variance_model: VarianceModel,
}

impl Reduction {
    /// The sums of those raw pixels of a bin that are valid and count.
    #[inline(always)]
    fn reduce_raw<T: Pixel, S: SimdBackend>(
        &self,
        steps: S,
        bin: &BinEntries<'_>,
        raw: &[T],
        rule: &InvalidRanges<T>,
        work: &mut BinBuffer,
    ) -> BinSums {
        let sorts = matches!(self.statistic, Statistic::QuantileMean { .. });
        let is_whole = work.load_valid(bin, raw, rule, sorts);
        self.reduce(steps, work, is_whole.then_some(bin.full_sums))
    }

    /// The sums of the pixels in `bin_buffer` that count. `whole` has the weights of the bin where all its pixels are valid:
    /// they are more exact than sums made here, and those that other frames have.
    #[inline(always)]
    fn reduce<S: SimdBackend>(&self, steps: S, work: &mut BinBuffer, whole: Option<BinSums>) -> BinSums {
        match self.statistic {
            _ if work.is_empty() => BinSums::default(),
            Statistic::Mean => {
                let sums = work.sums(whole);
                BinSums { variance: self.variance(work, &sums), ..sums }
            }
            Statistic::SigmaClip { threshold, max_iter: rounds } => {
                sigma_clip::sigma_clip(work, whole, self.variance_model, threshold, rounds)
            }
            Statistic::QuantileMean { low, high } => work.mean_between(steps, whole, low, high),
        }
    }

    #[inline(always)]
    fn variance(&self, work: &BinBuffer, sums: &BinSums) -> f64 {
        match self.variance_model {
            VarianceModel::None => 0.,
            VarianceModel::Azimuthal => work.azimuthal_variance(sums.signal / sums.norm),
            VarianceModel::Poisson | VarianceModel::Hybrid | VarianceModel::Given => work.variance(),
        }
    }
}
