//! The passes over a task's frames: which recipes a frame goes through together.

use integrator::MultiIntegrator;

use crate::batches::Batches;
use crate::job::{Job, Resources};
use crate::monitor::MonitorValues;

/// The recipes that some frames are integrated by, all in one pass.
pub struct RecipeGroup<'a> {
    /// Which of the task's recipes, rising.
    pub recipes: &'a [usize],
    /// Their integrators, in that order.
    pub integrators: MultiIntegrator<'a>,
    /// The monitor of each.
    pub monitors: Vec<&'a MonitorValues>,
}

impl<'a> RecipeGroup<'a> {
    /// A pass for each of the windows' sets of recipes.
    pub fn for_batches(jobs: &'a [Job], windows: &'a Batches) -> Vec<Self> {
        let pass = |recipes: &'a Vec<usize>| {
            let means =
                |recipe: &usize| jobs[*recipe].resources.as_ref().expect("a recipe with frames to do has means");
            let all: Vec<&Resources> = recipes.iter().map(means).collect();
            let together = MultiIntegrator::new(all.iter().map(|means| &*means.integrator).collect());
            Self { recipes, integrators: together, monitors: all.into_iter().map(|means| &means.monitor).collect() }
        };
        windows.recipe_sets().iter().map(pass).collect()
    }
}
