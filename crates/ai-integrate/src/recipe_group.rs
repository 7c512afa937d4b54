//! Recipe groups: the recipes that integrate the same frames in one group.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use integrator::{MultiIntegrator, PixelType};
use patterns::{MonitorValues, Status};

use crate::batches::{Batches, RecipeIndex};
use crate::recipe_task::RecipeTask;
use crate::segments::{OwnWeights, SegmentRecipe};

/// The recipes that integrate the same frames in one group; none for frames of which only the
/// statistics of the pixels are to do, or that have no geometry.
pub struct RecipeGroup<'a> {
    /// The recipes that integrate, in ascending order.
    pub members: Vec<GroupMember<'a>>,
    /// The integrators, in the order of `members`.
    pub integrators: MultiIntegrator<'a>,
    /// The recipes by which the frames have no geometry.
    pub without_geometry: Vec<WithoutGeometry<'a>>,
    /// The statistics of the pixels to which the frames are added, by their index.
    pub statistics: Vec<usize>,
}

/// A recipe that integrates the frames of a group.
pub struct GroupMember<'a> {
    /// Its position among the task's recipes.
    pub recipe: RecipeIndex,
    /// The monitor of each frame.
    pub monitor: &'a MonitorValues,
    /// The weights of these frames, if the detector moves.
    pub own_weights: Option<&'a OwnWeights>,
    has_been_checked: &'a AtomicBool,
}

impl GroupMember<'_> {
    /// Returns whether a frame was checked for what does not suit the recipe, which needs its sums.
    pub fn is_checked(&self) -> bool {
        self.has_been_checked.load(Relaxed)
    }
}

/// A recipe by which the frames of a group have no geometry.
pub struct WithoutGeometry<'a> {
    /// Its position among the task's recipes.
    pub recipe: RecipeIndex,
    /// The reason.
    pub status: Status,
    /// The monitor of each frame.
    pub monitor: &'a MonitorValues,
}

impl<'a> RecipeGroup<'a> {
    /// Creates one group for each recipe set of the batches, of recipes that integrate as
    /// `segment_recipes` says. The numbers after those of the recipes stand for the statistics of
    /// the pixels. With `writes_sparse`, the pixels that recipes reject are collected.
    pub fn for_batches(
        recipe_tasks: &'a [RecipeTask],
        segment_recipes: &'a [SegmentRecipe],
        batches: &Batches,
        writes_sparse: bool,
    ) -> Vec<Self> {
        let scan = &recipe_tasks[0].task.acquisition;
        let shape = scan.shape.map(|length| length as usize);
        let without_integrators = || {
            let dtype: PixelType = scan.dtype.parse().expect("frames to do are of a known type");
            MultiIntegrator::without_integrators(shape, dtype)
        };
        let group = |set: &Vec<RecipeIndex>| {
            let (recipes, statistics) =
                set.split_at(set.partition_point(|index| index.0 < recipe_tasks.len()));
            let (mut members, mut integrators, mut without_geometry) =
                (Vec::new(), Vec::new(), Vec::new());
            for &recipe in recipes {
                let resources = recipe_tasks[recipe.0].resources.as_ref();
                let monitor =
                    &*resources.expect("a recipe with frames to do has its resources").monitor;
                match &segment_recipes[recipe.0] {
                    SegmentRecipe::Ready(integrator, own_weights) => {
                        integrators.push(&**integrator);
                        let own_weights = own_weights.as_ref();
                        let has_been_checked = recipe_tasks[recipe.0].checked_flag();
                        members.push(GroupMember {
                            recipe,
                            monitor,
                            own_weights,
                            has_been_checked,
                        });
                    }
                    SegmentRecipe::NoGeometry(status) => {
                        let status = *status;
                        without_geometry.push(WithoutGeometry { recipe, status, monitor });
                    }
                    // No frame of the segment has this recipe set.
                    SegmentRecipe::Idle => (),
                }
            }
            let integrators = match integrators.is_empty() {
                true => without_integrators(),
                false => MultiIntegrator::new(integrators).collecting_rejected(writes_sparse),
            };
            let statistics = statistics.iter().map(|index| index.0 - recipe_tasks.len()).collect();
            Self { members, integrators, without_geometry, statistics }
        };
        batches.recipe_sets().iter().map(group).collect()
    }

    /// Iterates over all recipes of the group, each with its monitor.
    pub fn recipes(&self) -> impl Iterator<Item = (RecipeIndex, &'a MonitorValues)> {
        let members = self.members.iter().map(|member| (member.recipe, member.monitor));
        let others = self.without_geometry.iter().map(|other| (other.recipe, other.monitor));
        members.chain(others)
    }
}
