//! The passes over a task's frames: which recipes a frame goes through together.

use integrator::Together;

use crate::job::{Job, Means};
use crate::monitor::Monitor;
use crate::work::Windows;

/// The recipes that some frames are integrated by, all in one pass.
pub struct Pass<'a> {
    /// Which of the task's recipes, rising.
    pub recipes: &'a [usize],
    /// Their integrators, in that order.
    pub together: Together<'a>,
    /// The monitor of each.
    pub monitors: Vec<&'a Monitor>,
}

impl<'a> Pass<'a> {
    /// A pass for each of the windows' sets of recipes.
    pub fn all(jobs: &'a [Job], windows: &'a Windows) -> Vec<Self> {
        let pass = |recipes: &'a Vec<usize>| {
            let means = |recipe: &usize| jobs[*recipe].means.as_ref().expect("a recipe with frames to do has means");
            let all: Vec<&Means> = recipes.iter().map(means).collect();
            let together = Together::new(all.iter().map(|means| &*means.integrator).collect());
            Self { recipes, together, monitors: all.into_iter().map(|means| &means.monitor).collect() }
        };
        windows.sets().iter().map(pass).collect()
    }
}
