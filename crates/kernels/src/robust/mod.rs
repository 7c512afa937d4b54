//! Sums of the pixels of a bin that are chosen by looking at all of them: sigma clipping, the mean between two
//! quantiles; and errors from the spread within a bin, which take two passes over it.
//!
//! [`ByBin`] has a plan's entries by bin. Frames go through it side by side, lanes being frames (`columns`, `beside`), or one
//! after another (`alone`, `work`): the plain way, and what the other gives to the bit. What comes out is [`crate::Sums`]
//! whose weights are those of the chosen pixels, so that they merge as all others do.
//!
//! With weight w, normalization n, signal s = raw - dark and variance v of a pixel in a bin:
//! mean m = Σ w s / Σ w n, V = Σ w² v or, azimuthal, Σ w² (s - m n)², std = √(V / Σ w² n²). The definitions are those of
//! pyFAI 2026.9 (`sigma_clip_ng`, `medfilt1d_ng` of its python engine), but where pixels are split: there each share of
//! a pixel is judged by its own bin.
//!
//! Each bin's sums are f64 in an order of their own ([`lanes`]) over those pixels, in the order of the frame, that are valid and
//! left; it depends on these alone.

mod alone;
mod beside;
mod bin;
mod by_bin;
mod clip;
mod columns;
pub(crate) mod lanes;
mod logarithm;
pub(crate) mod quantile;
mod without;
mod work;

use crate::backend::Steps;
use crate::invalid::InvalidOf;
use crate::pixel::Pixel;
use crate::plan::ErrorModel;

pub(crate) use alone::Alone;
pub(crate) use beside::Beside;
use bin::Bin;
pub use by_bin::ByBin;
pub(crate) use by_bin::Memory;
use work::Work;

/// Which pixels of a bin count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// All.
    Mean,
    /// Those that are left when outliers are dropped again and again.
    Clipped {
        /// More standard deviations from the mean than this make an outlier, unless Chauvenet's criterion says more.
        threshold: f64,
        /// How often outliers are dropped at the most.
        rounds: u32,
    },
    /// Those between two quantiles of s / n, which are weighted by w n; the pixels that they fall on are among them.
    Between {
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
    pub(crate) errors: ErrorModel,
}

impl Reduction {
    /// The sums of those raw pixels of a bin that are valid and count.
    #[inline(always)]
    fn reduce_raw<T: Pixel, S: Steps>(
        &self,
        steps: S,
        bin: &Bin<'_>,
        raw: &[T],
        rule: &InvalidOf<T>,
        work: &mut Work,
    ) -> BinSums {
        let sorts = matches!(self.statistic, Statistic::Between { .. });
        let is_whole = work.load(bin, raw, rule, sorts);
        self.reduce(steps, work, is_whole.then_some(bin.whole))
    }

    /// The sums of the pixels in `work` that count. `whole` has the weights of the bin where all its pixels are valid:
    /// they are more exact than sums made here, and those that other frames have.
    #[inline(always)]
    fn reduce<S: Steps>(&self, steps: S, work: &mut Work, whole: Option<BinSums>) -> BinSums {
        match self.statistic {
            _ if work.is_empty() => BinSums::default(),
            Statistic::Mean => {
                let sums = work.sums(whole);
                BinSums { variance: self.variance(work, &sums), ..sums }
            }
            Statistic::Clipped { threshold, rounds } => clip::reduce(work, whole, self.errors, threshold, rounds),
            Statistic::Between { low, high } => work.between(steps, whole, low, high),
        }
    }

    #[inline(always)]
    fn variance(&self, work: &Work, sums: &BinSums) -> f64 {
        match self.errors {
            ErrorModel::No => 0.,
            ErrorModel::Azimuthal => work.spread(sums.signal / sums.norm),
            ErrorModel::Poisson | ErrorModel::Hybrid | ErrorModel::Given => work.variance(),
        }
    }
}
