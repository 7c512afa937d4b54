//! The sums of a frame by the recipes of a group, or the cakes that were made of them while the
//! kernels handed them on.

use std::sync::Arc;

use integrator::{DecodeError, Sums, SumsBlock, SumsConsumer, WeightOverride};
use patterns::Status;
use patterns::part::{PatternBuilder, RowEncoder};

use crate::recipe_group::{GroupMember, RecipeGroup};

/// A frame as the kernels integrated it, by each recipe of its group.
pub enum IntegratedFrame {
    /// Sums in lists.
    Sums(Vec<Sums>),
    /// Cakes, whose parts keep no sums.
    Cakes(Vec<CakeOfFrame>),
}

/// A cake that was made of blocks of sums.
pub struct CakeOfFrame {
    /// The value of the frame's monitor.
    pub monitor: f64,
    /// The status that follows from it.
    pub status: Status,
    /// The pattern, whole once all blocks came.
    pub pattern: PatternBuilder,
    /// The frame's own weights.
    pub weight_override: Option<Arc<WeightOverride>>,
}

/// Makes the cakes of a batch of frames from blocks of sums.
pub struct CakeCollector {
    /// For each frame, its cake by each member of the group.
    frames: Vec<Vec<CakeOfFrame>>,
}

impl CakeCollector {
    /// Returns whether the rows of a group's frames can be made without their sums: no part keeps
    /// them, no method needs more than blocks, and no recipe waits for a frame to be checked. All
    /// recipes of a group share the decoding of frames, so that one that needs lists decides.
    pub fn suits(group: &RecipeGroup<'_>, encoders: &[Option<RowEncoder>]) -> bool {
        let is_suitable = |member: &GroupMember<'_>| {
            let encoder = encoders[member.recipe.0].as_ref();
            member.is_checked()
                && member.own_weights.is_none()
                && encoder.is_some_and(RowEncoder::needs_no_sums)
        };
        let has_members = !group.members.is_empty();
        has_members && group.integrators.gives_blocks() && group.members.iter().all(is_suitable)
    }

    /// Creates a collector for the frames with these numbers. `spare` is memory for their patterns.
    pub fn new(
        members: &[GroupMember<'_>],
        encoders: &[Option<RowEncoder>],
        frames: &[u64],
        spare: &mut Vec<Vec<f32>>,
    ) -> Self {
        let mut begin = |member: &GroupMember<'_>, frame: u64| {
            let monitor = member.monitor.value(frame);
            let status = member.monitor.status(monitor);
            let encoder = encoders[member.recipe.0].as_ref();
            let encoder = encoder.expect("a recipe with frames to do has a part");
            let pattern = encoder.begin_pattern(status, monitor, spare);
            CakeOfFrame { monitor, status, pattern, weight_override: None }
        };
        let of_frame = |&frame| members.iter().map(|member| begin(member, frame)).collect();
        let frames = frames.iter().map(of_frame).collect();
        Self { frames }
    }

    /// Returns the cakes of each frame, or why it can't be decoded.
    pub fn finish(
        self,
        results: Vec<Result<(), DecodeError>>,
    ) -> Vec<Result<IntegratedFrame, DecodeError>> {
        let pairs = results.into_iter().zip(self.frames);
        pairs.map(|(result, cakes)| result.map(|()| IntegratedFrame::Cakes(cakes))).collect()
    }
}

impl SumsConsumer for CakeCollector {
    fn take(&mut self, frame: usize, plan: usize, block: SumsBlock<'_>) {
        let cake = &mut self.frames[frame][plan];
        if block.bins.start == 0 {
            cake.weight_override = block.weight_override.cloned();
        }
        let own_norms = block.weight_override.map(|own| [&own.norm[..], &own.norm_sq]);
        cake.pattern.extend(block.signal, block.variance, own_norms);
    }
}
