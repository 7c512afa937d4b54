//! Sigma clipping, as pyFAI's `sigma_clip_ng`.

use super::BinSums;
use super::bin_buffer::BinBuffer;
use super::logarithm::ln;
use crate::variance_model::VarianceModel;

/// Drops outliers until none remain, at most `max_iter` times, and returns the sums over the
/// remaining pixels. `sums` are those over all pixels, with the variance to clip by, as
/// [`sums_to_clip_by`] returns them.
///
/// If the spread of the pixels is used for clipping alone, the returned variance is the pixels'
/// own.
#[inline(always)]
pub(super) fn sigma_clip(
    buffer: &mut BinBuffer,
    mut sums: BinSums,
    variance_model: VarianceModel,
    threshold: f64,
    max_iter: u32,
) -> BinSums {
    for _ in 0..max_iter {
        if !buffer.drop_outliers(sums.signal / sums.norm, outlier_limit(&sums, threshold)) {
            break;
        }
        if buffer.is_empty() {
            return BinSums::default();
        }
        sums = sums_to_clip_by(buffer, None, variance_model);
    }
    if variance_model.is_spread_in_clipping() && !variance_model.is_spread_in_result() {
        sums.variance = buffer.variance();
    }
    sums
}

/// Returns the sums over the buffered pixels, with the variance that outliers are found by. Weights
/// are taken from `full_sums` if given.
#[inline(always)]
pub(super) fn sums_to_clip_by(
    buffer: &BinBuffer,
    full_sums: Option<BinSums>,
    variance_model: VarianceModel,
) -> BinSums {
    let sums = buffer.sums(full_sums);
    let variance = if variance_model.is_spread_in_clipping() {
        buffer.azimuthal_variance(sums.signal / sums.norm)
    } else {
        buffer.variance()
    };
    BinSums { variance, ..sums }
}

/// Returns the distance of s / n from the mean beyond which a pixel is an outlier.
#[inline(always)]
pub(super) fn outlier_limit(sums: &BinSums, threshold: f64) -> f64 {
    let std = (sums.variance / sums.norm_sq).sqrt();
    threshold.max(chauvenet_factor(sums.count)) * std
}

/// Returns Chauvenet's criterion: by how many standard deviations one of `count` pixels may deviate
/// by chance. Counts below three are taken as three.
fn chauvenet_factor(count: f64) -> f64 {
    (2. * ln(count.max(3.) / std::f64::consts::TAU.sqrt())).sqrt()
}
