//! [`Sums`], the result of the kernels for a frame: sums by bin, before the division.

use std::sync::Arc;

use crate::photon_sums::PhotonSums;
use crate::plan::IntegrationPlan;
use crate::rejected_pixels::RejectedPixels;
use crate::static_sums::StaticSums;
use crate::variance_model::PixelVarianceModel;
use crate::weight_override::WeightOverride;

/// A frame's sums by bin. With W = norm and W₂ = norm_sq of the plan, or of `weight_override` if it
/// is set: intensity = signal / W, sem = √variance / W, std = √(variance / W₂).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sums {
    /// Σ w (raw - dark) over the valid pixels, in counts, where w is a pixel's weight in the bin.
    /// One value per bin; a cake's bins are in the order (chi, radial).
    pub signal: Vec<f64>,
    /// Σ w² v over the valid pixels, in counts², where v is max(raw, 1), given, or the square of the
    /// pixel's distance from the mean of its bin; `None` without a variance model.
    pub variance: Option<Vec<f64>>,
    /// The frame's own weights, if pixels that the plan uses are invalid in this frame. Consecutive
    /// frames with the same invalid pixels share them.
    pub weight_override: Option<Arc<WeightOverride>>,
    /// The pixels that sigma clipping rejected above the mean; `None` if they were not asked for.
    pub rejected: Option<RejectedPixels>,
}

impl Sums {
    /// Completes the sums over photons with the plan's sums. The scalar kernel and those of OpenCL end
    /// with this function; those of `fused` do the same block by block. `without_masked` are the plan's sums without the frame's invalid pixels,
    /// if it has any.
    pub(crate) fn from_photon_sums(
        plan: &IntegrationPlan,
        photons: PhotonSums,
        without_masked: Option<&StaticSums>,
    ) -> Sums {
        let static_sums = without_masked.unwrap_or(plan.static_sums());
        let (signal, variance) = photons.complete(static_sums);
        let variance = variance.or_else(|| match plan.variance_model().pixel {
            PixelVarianceModel::None | PixelVarianceModel::Counts => None,
            PixelVarianceModel::Given => Some(static_sums.base_variance.clone()),
        });
        let weight_override = without_masked.map(|sums| Arc::clone(&sums.weights));
        Sums { signal, variance, weight_override, rejected: None }
    }

    /// Returns by how much the variance V of each bin may be off because it is the spread of the
    /// pixels, a difference of sums of squares; empty if it is not. Sums of equal pixels in another
    /// order, whose spread is zero, may have that much.
    ///
    /// The sums are at most 2 V + 3 m² W₂ + 3 Σ w² d² with the mean m, as raw = (s - m n) + m n + d.
    pub fn spread_rounding(&self, plan: &IntegrationPlan) -> Vec<f64> {
        if !plan.sums_spread() {
            return Vec::new();
        }
        let all = plan.static_sums();
        let own = self.weight_override.as_ref();
        let norm = own.map_or(plan.norm(), |own| &own.norm);
        let norm_sq = own.map_or(plan.norm_sq(), |own| &own.norm_sq);
        let of_bin = |(bin, &signal): (usize, &f64)| {
            if norm[bin] == 0. {
                return 0.;
            }
            let variance = self.variance.as_ref().map_or(0., |variance| variance[bin]);
            let of_mean = (signal / norm[bin]).powi(2) * norm_sq[bin];
            let of_dark = all.dark_sq.get(bin).copied().unwrap_or(0.);
            2. * all.least_spread(bin) * (2. * variance + 3. * of_mean + 3. * of_dark)
        };
        self.signal.iter().enumerate().map(of_bin).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TiledCsc, VarianceModel};

    #[test]
    fn the_rounding_of_spreads_is_that_of_the_squares_of_raw_counts() {
        let starts: Vec<u64> = (0..=1000).collect();
        let plan = |model, dark: Option<&[f64]>| {
            let matrix = TiledCsc::new(&starts, &[0; 1000], &[1.; 1000], 2).expect("a matrix");
            IntegrationPlan::new(matrix, vec![0.5; 1000], model, dark).expect("norms")
        };
        let least = 1000. * 2_f64.powi(-53);
        let is = |found: f64, expected: f64| (found / expected - 1.).abs() < 1e-12;
        // A million counts per pixel, whose squares are 1e15 together.
        let sums = Sums { signal: vec![1e9, 0.], ..Sums::default() };
        let found = sums.spread_rounding(&plan(VarianceModel::AZIMUTHAL, None));
        assert!(is(found[0], 6e15 * least) && found[1] == 0., "{found:?}");
        let with_dark = sums.spread_rounding(&plan(VarianceModel::AZIMUTHAL, Some(&[2e6; 1000])));
        assert!(is(with_dark[0], (6e15 + 24e15) * least), "{with_dark:?}");
        // Half of the pixels are invalid: the mean is twice as large.
        let own =
            WeightOverride { norm: vec![250., 0.], norm_sq: vec![125., 0.], count: vec![500., 0.] };
        let halved = Sums { weight_override: Some(Arc::new(own)), ..sums.clone() };
        let halved = halved.spread_rounding(&plan(VarianceModel::AZIMUTHAL, None));
        assert!(is(halved[0], 12e15 * least), "{halved:?}");
        assert_eq!(sums.spread_rounding(&plan(VarianceModel::POISSON, None)), []);
    }
}
