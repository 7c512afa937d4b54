//! [`FrameBinSums`], the result of a reduction for one frame.

use std::sync::Arc;

use super::BinSums;
use crate::plan::IntegrationPlan;
use crate::rejected_pixels::RejectedPixels;
use crate::sums::Sums;
use crate::variance_model::VarianceModel;
use crate::weight_override::WeightOverride;

/// A frame's sums of all bins.
pub(crate) struct FrameBinSums {
    pub(super) signal: Vec<f64>,
    pub(super) variance: Vec<f64>,
    pub(super) weights: WeightOverride,
}

impl FrameBinSums {
    pub(super) fn zeros(plan: &IntegrationPlan) -> FrameBinSums {
        let zeros = || vec![0.; plan.nbins()];
        let weights = WeightOverride { norm: zeros(), norm_sq: zeros(), count: zeros() };
        FrameBinSums { signal: zeros(), variance: zeros(), weights }
    }

    pub(super) fn set_bin(&mut self, bin: usize, sums: BinSums) {
        self.signal[bin] = sums.signal;
        self.variance[bin] = sums.variance;
        self.weights.norm[bin] = sums.norm;
        self.weights.norm_sq[bin] = sums.norm_sq;
        self.weights.count[bin] = sums.count;
    }

    /// Returns the sums of the frame. The variance is left out if the model has none, the weights
    /// if they are the plan's.
    pub(super) fn into_sums(
        self,
        variance_model: VarianceModel,
        plan: &IntegrationPlan,
        rejected: Option<RejectedPixels>,
    ) -> Sums {
        let weights = &self.weights;
        let equals_plan = weights.norm == plan.norm()
            && weights.norm_sq == plan.norm_sq()
            && weights.count == plan.count();
        Sums {
            signal: self.signal,
            variance: variance_model.has_variance().then_some(self.variance),
            weight_override: (!equals_plan).then(|| Arc::new(self.weights)),
            rejected,
        }
    }
}
