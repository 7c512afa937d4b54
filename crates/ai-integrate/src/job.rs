//! One recipe of a task: what of it is done already, and what the rest is integrated with.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use filter::Filter;
use integrator::Integrator;
use patterns::coverage::Index;
use patterns::part::{self, PartHead, PartWriter};
use patterns::{Axes, Axis, Finish, Row, Shared, Weights};
use records::{Absent, RawPath, Spans, Task};

use crate::advice;
use crate::args::Args;
use crate::matrix_cache::MatrixCache;
use crate::monitor::MonitorValues;
use crate::recipes::{LoadedRecipe, RecipeCache};
use crate::task_runner::TaskError;

/// A task of one recipe.
pub struct Job {
    /// The task, with this recipe alone.
    pub task: Task,
    /// Frames that are known to be absent.
    pub absent: Vec<Absent>,
    /// Frames that earlier runs have integrated.
    pub covered: Spans,
    /// The others, rising.
    pub todo: Spans,
    /// What they are integrated with; none is needed where there is nothing to do.
    pub resources: Option<Resources>,
    loaded_recipe: Arc<LoadedRecipe>,
}

/// What a recipe's frames are integrated with.
pub struct Resources {
    /// The recipe's integrator.
    pub integrator: Arc<Integrator>,
    /// The monitor of each frame.
    pub monitor: MonitorValues,
}

impl Job {
    /// What there is to do of a task of one recipe, made ready. What is done is looked up in `index`; with `--force`, nothing
    /// counts as done.
    ///
    /// # Errors
    /// The recipe or a file of it can't be read, or has changed; it can't be applied to the frames; a monitor
    /// that the scan does not have.
    pub fn new(
        task: &Task,
        methods: &RecipeCache,
        index: &Index,
        args: &Args,
        filter: &Filter,
    ) -> Result<Self, TaskError> {
        let mut task = task.clone();
        let method = methods.get_or_load(&task)?;
        let absent = task.acquisition.absent_within(&task.range);
        let there = absent.iter().fold(task.range.clone(), |there, absent| there.difference(&absent.range));
        let covered = match args.force {
            true => Spans::default(),
            false => covered_frames(&task, index, filter).intersection(&there),
        };
        let todo = there.difference(&covered);
        let directory = args.matrix_cache_dir(&task.out);
        let cache = MatrixCache::new(directory.as_deref());
        let means = match todo.is_empty() {
            true => {
                cache.remove_leftovers();
                None
            }
            false => {
                let monitor = MonitorValues::read(&task, &method.recipe.monitor)?;
                if !Finish::of(&method.recipe).is_framewise() {
                    task.monitor_readings = monitor.readings(task.acquisition.frames);
                }
                let integrator = method.integrator(&cache, filter)?;
                Some(Resources { integrator, monitor })
            }
        };
        Ok(Self { task, absent, covered, todo, resources: means, loaded_recipe: method })
    }

    /// Warns of a recipe that does not suit the frame, the first that is integrated by it in this run.
    pub fn check_first_frame(&self, row: &Row, filter: &Filter) {
        let Some(means) =
            self.resources.as_ref().filter(|_| row.has_sums() && !self.loaded_recipe.has_been_checked.load(Relaxed))
        else {
            return;
        };
        if !self.loaded_recipe.has_been_checked.swap(true, Relaxed) {
            let shared = shared_bins(&means.integrator).weights;
            advice::check_frame(&self.loaded_recipe.recipe, row, &shared).iter().for_each(|why| filter.warn(why));
        }
    }

    /// A part for the frames that are to be integrated now.
    ///
    /// # Errors
    /// It can't be created.
    pub fn create_part(&self, integrator: &Integrator, frames: &Spans) -> Result<PartWriter, part::Error> {
        let path = Task::part_path(&self.task.scan, &self.task.recipe_digest, frames);
        let head = PartHead { task: self.task.clone(), recipe: self.loaded_recipe.recipe.clone() };
        PartWriter::create(&self.task.out, &path, &head, &shared_bins(integrator))
    }

    /// The name of a part that lacks frames that were to be in it: that of the frames that are `done`, lest it
    /// replaces a better one of another run; where there is none, of those that were `lost`.
    pub fn partial_part_name(&self, done: &Spans, lost: &Spans) -> OsString {
        let name = |frames: &Spans| {
            let path: RawPath = Task::part_path(&self.task.scan, &self.task.recipe_digest, frames);
            path.file_name().map_or(OsString::new(), OsString::from)
        };
        if done.is_empty() {
            let mut of_lost = OsString::from("lost-");
            of_lost.push(name(lost));
            return of_lost;
        }
        name(done)
    }
}

/// The frames of the task that earlier runs have integrated.
fn covered_frames(task: &Task, index: &Index, filter: &Filter) -> Spans {
    let found = index.find(&task.out, task);
    found.unusable.iter().for_each(|why| filter.warn(why));
    found.done()
}

fn shared_bins(integrator: &Integrator) -> Shared {
    let axis = |axis: &integrator::BinAxis| Axis {
        name: axis.name.to_owned(),
        units: axis.units.to_owned(),
        centers: axis.centers.clone(),
    };
    let plan = integrator.plan();
    let weights =
        Weights { norm: plan.norm().to_vec(), norm_sq: plan.norm_sq().to_vec(), count: plan.count().to_vec() };
    Shared { axes: Axes { radial: axis(integrator.radial()), chi: integrator.chi().map(axis) }, weights }
}
