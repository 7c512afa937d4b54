//! Sigma clipping.

use super::BinSums;
use super::bin_buffer::BinBuffer;
use super::logarithm::ln;
use crate::plan::VarianceModel;

/// Drops outliers until none is left, or the rounds are over, and sums what is left.
///
/// The errors that outliers are measured by are azimuthal in the hybrid model too, whose result has those of the
/// pixels.
#[inline(always)]
pub(super) fn sigma_clip(
    work: &mut BinBuffer,
    whole: Option<BinSums>,
    errors: VarianceModel,
    threshold: f64,
    rounds: u32,
) -> BinSums {
    let is_spread = matches!(errors, VarianceModel::Azimuthal | VarianceModel::Hybrid);
    let mut sums = with_variance(work, work.sums(whole), is_spread);
    for _ in 0..rounds {
        if !work.drop_outliers(sums.signal / sums.norm, outlier_limit(&sums, threshold)) {
            break;
        }
        if work.is_empty() {
            return BinSums::default();
        }
        sums = with_variance(work, work.sums(None), is_spread);
    }
    if errors == VarianceModel::Hybrid {
        sums.variance = work.variance();
    }
    sums
}

#[inline(always)]
fn with_variance(work: &BinBuffer, sums: BinSums, is_spread: bool) -> BinSums {
    let variance = if is_spread { work.azimuthal_variance(sums.signal / sums.norm) } else { work.variance() };
    BinSums { variance, ..sums }
}

/// How far off the mean makes an outlier.
#[inline(always)]
pub(super) fn outlier_limit(sums: &BinSums, threshold: f64) -> f64 {
    let std = (sums.variance / sums.norm_sq).sqrt();
    threshold.max(chauvenet_factor(sums.count)) * std
}

/// Chauvenet's criterion: how many standard deviations off one of `count` pixels may be by chance. At least three
/// pixels are taken to be there.
fn chauvenet_factor(count: f64) -> f64 {
    (2. * ln(count.max(3.) / std::f64::consts::TAU.sqrt())).sqrt()
}
