//! The sums of a frame by the recipes of a group, or the cakes that were made of them while the
//! kernels handed them on.

use std::sync::Arc;

use integrator::{DecodeError, Sums, SumsBlock, SumsConsumer};
use patterns::part::{GrowingPattern, RowEncoder};
use patterns::{BinWeights, Status};

use crate::bins::LastWeights;
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
    pub pattern: GrowingPattern,
    /// The frame's own weights.
    pub weights: Option<Arc<BinWeights>>,
}

/// Makes the cakes of a batch of frames from blocks of sums.
pub struct CakeCollector<'a> {
    members: &'a [GroupMember<'a>],
    /// The last weights of each recipe's frames.
    weights: &'a mut [LastWeights],
    /// For each frame, its cake by each member.
    frames: Vec<Vec<CakeOfFrame>>,
}

impl<'a> CakeCollector<'a> {
    /// Returns whether the rows of a group's frames can be made without their sums: no part keeps
    /// them, no method needs more than blocks, and no recipe waits for a frame to be checked.
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

    /// Creates a collector for the frames with these numbers.
    pub fn new(
        members: &'a [GroupMember<'a>],
        encoders: &mut [Option<RowEncoder>],
        weights: &'a mut [LastWeights],
        frames: &[u64],
    ) -> Self {
        let mut begin = |member: &GroupMember<'_>, frame: u64| {
            let monitor = member.monitor.value(frame);
            let status = member.monitor.status(monitor);
            let encoder = encoders[member.recipe.0].as_mut();
            let encoder = encoder.expect("a recipe with frames to do has a part");
            let pattern = encoder.begin_pattern(status, monitor);
            CakeOfFrame { monitor, status, pattern, weights: None }
        };
        let of_frame = |&frame| members.iter().map(|member| begin(member, frame)).collect();
        let frames = frames.iter().map(of_frame).collect();
        Self { members, weights, frames }
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

impl SumsConsumer for CakeCollector<'_> {
    fn take(&mut self, frame: usize, plan: usize, block: SumsBlock<'_>) {
        let cake = &mut self.frames[frame][plan];
        if let (0, Some(own)) = (block.bins.start, block.weight_override) {
            let last = &mut self.weights[self.members[plan].recipe.0];
            cake.weights = Some(last.convert(Arc::clone(own), |weights| weights));
        }
        cake.pattern.extend(block.signal, block.variance, cake.weights.as_deref());
    }
}
