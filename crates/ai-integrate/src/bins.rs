//! The axes and weights of bins, as patterns have them.

use std::sync::Arc;

use integrator::{BinAxis, Integrator, WeightOverride};
use patterns::{BinWeights, PatternAxes, PatternAxis, SharedBins};

/// Returns the axes, and the weights of the bins if no pixel is left out.
pub fn shared_bins(integrator: &Integrator) -> SharedBins {
    SharedBins {
        axes: pattern_axes(integrator.radial(), integrator.chi()),
        weights: bin_weights(integrator),
    }
}

/// Returns the axes as patterns have them.
pub fn pattern_axes(radial: &BinAxis, chi: Option<&BinAxis>) -> PatternAxes {
    let axis = |axis: &BinAxis| PatternAxis {
        name: axis.name.to_owned(),
        units: axis.units.to_owned(),
        centers: axis.centers.clone(),
    };
    PatternAxes { radial: axis(radial), chi: chi.map(axis) }
}

/// Returns the weights of the bins if no pixel is left out.
pub fn bin_weights(integrator: &Integrator) -> BinWeights {
    let plan = integrator.plan();
    BinWeights {
        norm: plan.norm().to_vec(),
        norm_sq: plan.norm_sq().to_vec(),
        count: plan.count().to_vec(),
    }
}

/// The last weights of a recipe's frames that were shared between frames, as rows have them: consecutive
/// frames mostly have the same invalid pixels.
#[derive(Default)]
pub struct LastWeights(Option<(Arc<WeightOverride>, Arc<BinWeights>)>);

impl LastWeights {
    /// Returns a frame's own weights as its row has them. `scale` is applied to them, always the same.
    pub fn convert(
        &mut self,
        own: Arc<WeightOverride>,
        scale: impl Fn(BinWeights) -> BinWeights,
    ) -> Arc<BinWeights> {
        let convert = |WeightOverride { norm, norm_sq, count }| {
            Arc::new(scale(BinWeights { norm, norm_sq, count }))
        };
        let own = match Arc::try_unwrap(own) {
            Ok(of_one_frame) => return convert(of_one_frame),
            Err(shared) => shared,
        };
        let last = self.0.take().filter(|(last, _)| Arc::ptr_eq(last, &own));
        let last = last.unwrap_or_else(|| (Arc::clone(&own), convert((*own).clone())));
        Arc::clone(&self.0.insert(last).1)
    }
}

/// Returns axes with weights of 0: each frame of a detector that moves has weights of its own.
pub fn bins_without_weights(axes: PatternAxes) -> SharedBins {
    let zeros = vec![0.0; axes.bins()];
    let weights = BinWeights { norm: zeros.clone(), norm_sq: zeros.clone(), count: zeros };
    SharedBins { axes, weights }
}
