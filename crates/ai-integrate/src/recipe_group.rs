//! Recipe groups: the recipes that integrate the same frames in one group.

use integrator::MultiIntegrator;

use crate::batches::Batches;
use crate::job::{Job, Resources};
use crate::monitor::MonitorValues;

/// The recipes that integrate the same frames in one group.
pub struct RecipeGroup<'a> {
    /// The indices of the recipes in the task, in ascending order.
    pub recipes: &'a [usize],
    /// The integrators, in the order of `recipes`.
    pub integrators: MultiIntegrator<'a>,
    /// The monitors, in the order of `recipes`.
    pub monitors: Vec<&'a MonitorValues>,
}

impl<'a> RecipeGroup<'a> {
    /// Creates one group for each recipe set of the batches.
    pub fn for_batches(jobs: &'a [Job], batches: &'a Batches) -> Vec<Self> {
        let group = |recipes: &'a Vec<usize>| {
            let means =
                |recipe: &usize| jobs[*recipe].resources.as_ref().expect("a recipe with frames to do has means");
            let all: Vec<&Resources> = recipes.iter().map(means).collect();
            let together = MultiIntegrator::new(all.iter().map(|means| &*means.integrator).collect());
            Self { recipes, integrators: together, monitors: all.into_iter().map(|means| &means.monitor).collect() }
        };
        batches.recipe_sets().iter().map(group).collect()
    }
}
