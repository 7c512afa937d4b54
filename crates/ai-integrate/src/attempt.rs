//! [`Attempt`] to integrate a task, and its [`TaskOutcome`].

use std::collections::BTreeMap;
use std::time::Instant;

use memory_model::interleaved_sources;
use patterns::part::PartWriter;
use records::Spans;

use crate::batches::{Batches, RecipeIndex, batch_size};
use crate::error::TaskError;
use crate::pixel_statistics::{StatisticsTask, TaskStatistics};
use crate::recipe_task::RecipeTask;
use crate::segments::differ_in_geometry;
use crate::sources::FrameLoss;
use crate::stats::TaskStats;

/// The outcome of an attempt to integrate a task.
pub enum TaskOutcome {
    /// The statistics of the task, the part of each recipe with all its rows, and the statistics of
    /// the pixels.
    Done(Box<TaskStats>, Vec<Option<PartWriter>>, Vec<Option<TaskStatistics>>),
    /// The device returned wrong sums; no row is kept.
    WrongDevice,
    /// These sources changed while they were read, or could not be checked; no row is kept.
    SourcesChanged(BTreeMap<usize, FrameLoss>),
    /// This recipe can't be applied to the frames of a position of the detector; no row is kept.
    Refused(RecipeIndex, TaskError),
}

/// A task whose recipes are to integrate, without those that were refused.
pub struct Attempt {
    /// The time at which the task was begun.
    pub began: Instant,
    /// The recipes, with the frames that each is to integrate.
    pub recipe_tasks: Vec<RecipeTask>,
    /// The statistics of the pixels that are to be made.
    pub statistics: Vec<StatisticsTask>,
    /// The frames that the progress counts as found done.
    pub found: u64,
}

/// The smallest batch, and that of recipes with methods that integrate 8 frames side by side.
const SMALLEST_BATCHES: [usize; 2] = [4, 8];

impl Attempt {
    /// Divides the frames that any recipe, or any statistics of the pixels, have `todo` into batches
    /// of at most `largest` frames of each source: fewer if that occupies more `threads`, unless a
    /// device integrates them.
    pub fn divide(
        &self,
        todo: &[Spans],
        threads: usize,
        largest: usize,
        has_device: bool,
    ) -> Batches {
        let scan = &self.recipe_tasks[0].task.acquisition;
        let needs_all_pixels = |recipe_task: &RecipeTask| recipe_task.recipe().needs_all_pixels();
        let smallest =
            SMALLEST_BATCHES[usize::from(self.recipe_tasks.iter().any(needs_all_pixels))];
        let frames = Spans::union_all(todo).count() as usize / interleaved_sources(scan);
        let size = match has_device {
            true => largest,
            false => batch_size(frames, threads, smallest, largest),
        };
        Batches::with_breaks(scan, todo, size, |one, other| {
            differ_in_geometry(&self.recipe_tasks, one, other)
        })
    }
}
