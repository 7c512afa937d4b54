//! What the kernels give for a frame: sums by bin, still to be divided.

use crate::plan::{IntegrationPlan, StaticSums, VarianceModel};

/// A frame's sums by bin. With the plan's norm W, norm² W₂ (or the exception's): intensity = signal / W,
/// sem = √variance / W, std = √(variance / W₂).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sums {
    /// Σ w (raw - dark) over the valid pixels, counts.
    pub signal: Vec<f64>,
    /// Σ w² v over the valid pixels, where v is max(raw, 1) or given; absent without an error model.
    pub variance: Option<Vec<f64>>,
    /// The norms of this frame, where it invalidates pixels that the plan counts.
    pub weight_override: Option<WeightOverride>,
}

/// The plan's sums, without the pixels that a frame invalidates. Exactly zero in a bin that has no pixel left.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WeightOverride {
    /// Σ w n.
    pub norm: Vec<f64>,
    /// Σ w² n².
    pub norm_sq: Vec<f64>,
    /// Σ w.
    pub count: Vec<f64>,
}

impl Sums {
    /// Completes the sums over photons (Σ w raw and Σ w² (max(raw, 1) - 1)) with the plan's: every kernel ends here.
    /// `without_masked` are the plan's sums without the pixels that the frame invalidates, if there are such.
    pub(crate) fn from_photon_sums(
        plan: &IntegrationPlan,
        mut signal: Vec<f64>,
        mut excess: Vec<f64>,
        without: Option<&StaticSums>,
    ) -> Sums {
        let totals = without.unwrap_or(plan.static_sums());
        if plan.dark().is_some() {
            for (signal, dark) in signal.iter_mut().zip(&totals.dark) {
                *signal -= dark;
            }
        }
        for (excess, floor) in excess.iter_mut().zip(&totals.base_variance) {
            *excess += floor;
        }
        let variance = match plan.variance_model() {
            VarianceModel::None | VarianceModel::Azimuthal => None,
            VarianceModel::Poisson | VarianceModel::Hybrid => Some(excess),
            VarianceModel::Given => Some(totals.base_variance.clone()),
        };
        let exception = without.map(|totals| WeightOverride {
            norm: totals.norm.clone(),
            norm_sq: totals.norm_sq.clone(),
            count: totals.count.clone(),
        });
        Sums { signal, variance, weight_override: exception }
    }
}
