//! [`Sums`], the result of the kernels for a frame: sums by bin, before the division.

use crate::plan::IntegrationPlan;
use crate::rejected_pixels::RejectedPixels;
use crate::static_sums::StaticSums;
use crate::variance_model::PixelVarianceModel;

/// A frame's sums by bin. With W = norm and W₂ = norm_sq of the plan, or of `weight_override` if it
/// is set: intensity = signal / W, sem = √variance / W, std = √(variance / W₂).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sums {
    /// Σ w (raw - dark) over the valid pixels, in counts, where w is a pixel's weight in the bin.
    /// One value per bin; a cake's bins are in the order (chi, radial).
    pub signal: Vec<f64>,
    /// Σ w² v over the valid pixels, in counts², where v is max(raw, 1) or given; `None` without a
    /// variance model.
    pub variance: Option<Vec<f64>>,
    /// The frame's own weights, if pixels that the plan uses are invalid in this frame.
    pub weight_override: Option<WeightOverride>,
    /// The pixels that sigma clipping rejected above the mean; `None` if they were not asked for.
    pub rejected: Option<RejectedPixels>,
}

/// A frame's own norm, norm_sq and count, which take the place of the plan's because pixels that
/// the plan uses are invalid in this frame. Exactly zero in a bin without valid pixels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WeightOverride {
    /// Σ w n, where n is the pixel's normalization (solid angle, polarization, flat field,
    /// absorption).
    pub norm: Vec<f64>,
    /// Σ w² n².
    pub norm_sq: Vec<f64>,
    /// Σ w.
    pub count: Vec<f64>,
}

impl Sums {
    /// Completes the sums over photons, `signal` = Σ w raw and `excess` = Σ w² (max(raw, 1) - 1),
    /// with the plan's sums. All kernels end with this function. `without_masked` are the plan's
    /// sums without the frame's invalid pixels, if it has any.
    pub(crate) fn from_photon_sums(
        plan: &IntegrationPlan,
        mut signal: Vec<f64>,
        mut excess: Vec<f64>,
        without_masked: Option<&StaticSums>,
    ) -> Sums {
        let static_sums = without_masked.unwrap_or(plan.static_sums());
        if plan.dark().is_some() {
            for (signal, dark) in signal.iter_mut().zip(&static_sums.dark) {
                *signal -= dark;
            }
        }
        for (excess, base_variance) in excess.iter_mut().zip(&static_sums.base_variance) {
            *excess += base_variance;
        }
        let variance = match plan.variance_model().pixel {
            PixelVarianceModel::None => None,
            PixelVarianceModel::Counts => Some(excess),
            PixelVarianceModel::Given => Some(static_sums.base_variance.clone()),
        };
        let weight_override = without_masked.map(|sums| WeightOverride {
            norm: sums.norm.clone(),
            norm_sq: sums.norm_sq.clone(),
            count: sums.count.clone(),
        });
        Sums { signal, variance, weight_override, rejected: None }
    }
}
