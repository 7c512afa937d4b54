//! Sigma clipping, as pyFAI's `sigma_clip_ng`: the rules that all ways to clip share.

use super::BinSums;
use super::clipped_sums::ClippedSums;
use super::logarithm::ln;
use crate::variance_model::VarianceModel;

/// Relative distance from the mean that counts as zero. Rounding alone moves a pixel that far from
/// the mean.
const MEAN_TOLERANCE: f64 = 1e-12;

/// How a bin is clipped.
#[derive(Clone, Copy)]
pub(super) struct ClipRule {
    pub(super) variance_model: VarianceModel,
    pub(super) threshold: f64,
    pub(super) max_iter: u32,
}

/// A step of clipping: the pixels that are farther than `limit` from `mean` are removed.
#[derive(Clone, Copy)]
pub(super) struct ClipStep {
    pub(super) mean: f64,
    pub(super) limit: f64,
}

impl ClipRule {
    /// Returns the step that follows from the sums over the remaining pixels, with the variance that
    /// outliers are found by.
    #[inline(always)]
    pub(super) fn step(&self, sums: &BinSums) -> ClipStep {
        let mean = sums.signal / sums.norm;
        let std = (sums.variance / sums.norm_sq).sqrt();
        let limit = self.threshold.max(chauvenet_factor(sums.count)) * std;
        // A pixel at a distance that rounding explains is no outlier.
        ClipStep { mean, limit: limit + MEAN_TOLERANCE * mean.abs() }
    }

    /// Returns the result. If the spread of the pixels is used for clipping alone, its variance is the
    /// pixels' own.
    #[inline(always)]
    pub(super) fn result(&self, clipped: &ClippedSums) -> BinSums {
        match self.variance_model.is_spread_in_result() {
            true => clipped.with_clip_variance(),
            false => clipped.with_pixel_variance(),
        }
    }
}

impl ClipStep {
    /// Returns whether a pixel is an outlier, given its w s and w n.
    #[inline(always)]
    pub(super) fn rejects(self, signal: f64, norm: f64) -> bool {
        (signal - self.mean * norm).abs() > self.limit * norm.abs()
    }

    /// Returns whether s / n of a pixel is above the mean.
    #[inline(always)]
    pub(super) fn is_above(self, signal: f64, norm: f64) -> bool {
        let distance = signal - self.mean * norm;
        if norm < 0. { distance < 0. } else { distance > 0. }
    }
}

/// Returns Chauvenet's criterion: by how many standard deviations one of `count` pixels may deviate
/// by chance. Counts below three are taken as three.
fn chauvenet_factor(count: f64) -> f64 {
    (2. * ln(count.max(3.) / std::f64::consts::TAU.sqrt())).sqrt()
}
