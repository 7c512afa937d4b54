//! [`Attempt`] to integrate a task, and its [`TaskOutcome`].

use std::collections::BTreeMap;
use std::time::Instant;

use patterns::part::PartWriter;

use crate::batches::RecipeIndex;
use crate::error::TaskError;
use crate::pixel_statistics::{StatisticsTask, TaskStatistics};
use crate::recipe_task::RecipeTask;
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
