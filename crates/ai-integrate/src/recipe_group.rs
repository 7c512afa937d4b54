//! Recipe groups: the recipes that integrate the same frames in one group.

use integrator::{MultiIntegrator, PixelType};
use patterns::MonitorValues;

use crate::batches::{Batches, RecipeIndex};
use crate::recipe_task::{RecipeTask, Resources};

/// The recipes that integrate the same frames in one group; none for frames of which only the
/// statistics of the pixels are to do.
pub struct RecipeGroup<'a> {
    /// The recipes, in ascending order.
    pub recipes: &'a [RecipeIndex],
    /// The integrators, in the order of `recipes`.
    pub integrators: MultiIntegrator<'a>,
    /// The monitors, in the order of `recipes`.
    pub monitors: Vec<&'a MonitorValues>,
    /// The statistics of the pixels to which the frames are added, by their index.
    pub statistics: Vec<usize>,
}

impl<'a> RecipeGroup<'a> {
    /// Creates one group for each recipe set of the batches. The numbers after those of the recipes
    /// stand for the statistics of the pixels. With `writes_sparse`, the pixels that recipes reject are
    /// collected.
    pub fn for_batches(
        recipe_tasks: &'a [RecipeTask],
        batches: &'a Batches,
        writes_sparse: bool,
    ) -> Vec<Self> {
        let scan = &recipe_tasks[0].task.acquisition;
        let shape = scan.shape.map(|length| length as usize);
        let without_integrators = || {
            let dtype: PixelType = scan.dtype.parse().expect("statistics are of a known type");
            MultiIntegrator::without_integrators(shape, dtype)
        };
        let group = |set: &'a Vec<RecipeIndex>| {
            let (recipes, statistics) =
                set.split_at(set.partition_point(|index| index.0 < recipe_tasks.len()));
            let resources = |recipe: &RecipeIndex| {
                recipe_tasks[recipe.0]
                    .resources
                    .as_ref()
                    .expect("a recipe with frames to do has its resources")
            };
            let all: Vec<&Resources> = recipes.iter().map(resources).collect();
            let integrators = match &all[..] {
                [] => without_integrators(),
                all => MultiIntegrator::new(
                    all.iter().map(|resources| &*resources.integrator).collect(),
                )
                .collecting_rejected(writes_sparse),
            };
            Self {
                recipes,
                integrators,
                monitors: all.into_iter().map(|resources| &*resources.monitor).collect(),
                statistics: statistics.iter().map(|index| index.0 - recipe_tasks.len()).collect(),
            }
        };
        batches.recipe_sets().iter().map(group).collect()
    }
}
