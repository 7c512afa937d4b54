//! Recipe groups: the recipes that integrate the same frames in one group.

use integrator::MultiIntegrator;
use patterns::MonitorValues;

use crate::batches::{Batches, RecipeIndex};
use crate::recipe_task::{RecipeTask, Resources};

/// The recipes that integrate the same frames in one group.
pub struct RecipeGroup<'a> {
    /// The recipes, in ascending order.
    pub recipes: &'a [RecipeIndex],
    /// The integrators, in the order of `recipes`.
    pub integrators: MultiIntegrator<'a>,
    /// The monitors, in the order of `recipes`.
    pub monitors: Vec<&'a MonitorValues>,
}

impl<'a> RecipeGroup<'a> {
    /// Creates one group for each recipe set of the batches.
    pub fn for_batches(recipe_tasks: &'a [RecipeTask], batches: &'a Batches) -> Vec<Self> {
        let group = |recipes: &'a Vec<RecipeIndex>| {
            let resources = |recipe: &RecipeIndex| {
                recipe_tasks[recipe.0]
                    .resources
                    .as_ref()
                    .expect("a recipe with frames to do has its resources")
            };
            let all: Vec<&Resources> = recipes.iter().map(resources).collect();
            let integrators =
                MultiIntegrator::new(all.iter().map(|resources| &*resources.integrator).collect());
            Self {
                recipes,
                integrators,
                monitors: all.into_iter().map(|resources| &*resources.monitor).collect(),
            }
        };
        batches.recipe_sets().iter().map(group).collect()
    }
}
