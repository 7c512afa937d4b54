//! One recipe of a task: the frames that are done, the frames to do, and the resources to integrate
//! them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use filter::Filter;
use integrator::Integrator;
use patterns::coverage::{Coverage, CoverageIndex};
use patterns::part::{self, PartMetadata, PartStorage, PartWriter};
use patterns::{
    FrameGeometries, FrameGeometry, FrameRow, MonitorError, MonitorValues, SharedBins, Status,
};
use recipe::Recipe;
use records::{Absent, RawPath, Spans, Task, format_ranges};

use crate::args::Args;
use crate::bins::shared_bins;
use crate::error::{MAX_RANGES_IN_MESSAGE, TaskError};
use crate::matrix_cache::{KeptFrom, MatrixCache};
use crate::monitor_cache::MonitorCache;
use crate::recipe_warnings;
use crate::recipes::{LoadedRecipe, RecipeCache};
use crate::sparse;

/// A task that is reduced to one recipe.
pub struct RecipeTask {
    /// The task, with this recipe as its only one.
    pub task: Task,
    /// Frames that are known to be absent.
    pub absent: Vec<Absent>,
    /// Frames that earlier runs have integrated. With `--sparse`, those that lack their pixels are in
    /// `todo`, too.
    pub covered: Spans,
    /// Frames among those covered that have no pattern and can't have one, with reasons. This run
    /// reports them, too.
    pub covered_without_pattern: BTreeMap<Status, Spans>,
    /// The remaining frames, in ascending order.
    pub todo: Spans,
    /// True if a part that has sparse pixels may be replaced by that of these frames.
    pub replaces_sparse: bool,
    /// The resources to integrate the remaining frames; `None` if no frame remains.
    pub resources: Option<Resources>,
    loaded_recipe: Arc<LoadedRecipe>,
}

/// The integrator, the bins and the monitor of a recipe.
pub struct Resources {
    /// The recipe's integrator; `None` if the detector moves.
    pub integrator: Option<Arc<Integrator>>,
    /// The geometry of each frame, if the detector moves.
    pub geometries: Option<FrameGeometries>,
    /// The axes and weights that all frames have in common.
    bins: SharedBins,
    /// The monitor of each frame.
    pub monitor: Arc<MonitorValues>,
}

impl RecipeTask {
    /// Prepares a task of one recipe. Looks up in `index` which frames are done; with `--force`, no
    /// frame counts as done. A frame whose monitor was corrected since is integrated again.
    ///
    /// # Errors
    /// Fails if the recipe or a file that it names can't be read or has changed, if the recipe
    /// can't be applied to the frames, and if the scan lacks a monitor.
    pub fn new(
        task: &Task,
        recipes: &RecipeCache,
        monitors: &MonitorCache,
        index: &CoverageIndex,
        args: &Args,
        filter: &Filter,
    ) -> Result<Self, TaskError> {
        let mut task = task.clone();
        let loaded_recipe = recipes.get_or_load(&task)?;
        let clips = sparse::is_written_by(&loaded_recipe.recipe);
        match (args.sparse, clips) {
            (true, true) => sparse::check_frames(&task, &loaded_recipe.recipe)?,
            (true, false) if !loaded_recipe.has_no_pixels_been_said.swap(true, Relaxed) => {
                filter.warn(&sparse::describe_no_clipping(&task));
            }
            _ => (),
        }
        let monitor = monitors.read(&task, &loaded_recipe.recipe);
        let coverage = match args.force {
            true => Coverage::default(),
            false => find_coverage(&task, monitor.as_deref().ok(), index, filter),
        };
        let covered = coverage.covered_frames();
        let lacking_pixels = match args.sparse && clips && !covered.is_empty() {
            true => {
                let with_pixels =
                    index.find_sparse_coverage(&task.out, &task, monitor.as_deref().ok());
                covered.difference(&with_pixels.covered_frames())
            }
            false => Spans::default(),
        };
        let mut absent = task.acquisition.absent_within(&task.range);
        let away = Spans::union_all(absent.iter().map(|absent| &absent.range));
        let without_raw_data = lacking_pixels.intersection(&away);
        if !without_raw_data.is_empty() {
            filter.warn(&sparse::describe_without_raw_data(&task, &without_raw_data));
        }
        // A frame that has a pattern is not lost, though its file is away now.
        absent.iter_mut().for_each(|absent| absent.range = absent.range.difference(&covered));
        absent.retain(|absent| !absent.range.is_empty());
        let there =
            absent.iter().fold(task.range.clone(), |there, absent| there.difference(&absent.range));
        let covered = covered.intersection(&there);
        let mut covered_without_pattern = coverage.without_pattern();
        covered_without_pattern
            .values_mut()
            .for_each(|frames| *frames = frames.intersection(&there));
        let todo = there.difference(&covered).union(&lacking_pixels.difference(&away));
        let replaces_sparse = clips
            && !args.sparse
            && sparse::check_frames(&task, &loaded_recipe.recipe).is_ok()
            && index.may_have_sparse_parts(&task.out, &task, &todo);
        let directory = args.matrix_cache_dir(&task.out);
        let cache = MatrixCache::new(directory.as_deref(), KeptFrom::FirstUse, &task.recipe_digest);
        let resources = match todo.is_empty() {
            true => {
                cache.remove_leftovers();
                if let Err(why) = &monitor {
                    filter.warn(&describe_unchecked_monitor(&task, why));
                }
                None
            }
            false => {
                let monitor = monitor?;
                task.monitor_readings = monitor.readings();
                let geometries =
                    FrameGeometries::new(&loaded_recipe.recipe).map_err(TaskError::geometry)?;
                let (integrator, bins) = match geometries {
                    Some(_) => (None, loaded_recipe.bins_without_weights()?),
                    None => {
                        let integrator = loaded_recipe.integrator(&cache, filter)?;
                        let bins = shared_bins(&integrator);
                        (Some(integrator), bins)
                    }
                };
                Some(Resources { integrator, geometries, bins, monitor })
            }
        };
        Ok(Self {
            task,
            absent,
            covered,
            covered_without_pattern,
            todo,
            replaces_sparse,
            resources,
            loaded_recipe,
        })
    }

    /// Returns the settings by which the frames are integrated.
    pub fn recipe(&self) -> &Recipe {
        &self.loaded_recipe.recipe
    }

    /// Returns whether frames are to be integrated that differ in their geometry.
    pub fn has_moving_geometry(&self) -> bool {
        self.resources.as_ref().is_some_and(|resources| resources.geometries.is_some())
    }

    /// Returns the integrator of frames with this geometry; `None` if no pixel is in the range.
    ///
    /// # Errors
    /// Fails if the recipe can't be applied to the frames.
    pub fn integrator_at(
        &self,
        geometry: &FrameGeometry,
        cache: &MatrixCache<'_>,
        filter: &Filter,
    ) -> Result<Option<Arc<Integrator>>, TaskError> {
        self.loaded_recipe.integrator_at(geometry, cache, filter)
    }

    /// Returns the flag that [`check_first_frame`](Self::check_first_frame) sets once it has seen sums
    /// of the recipe.
    pub fn checked_flag(&self) -> &AtomicBool {
        &self.loaded_recipe.has_been_checked
    }

    /// Warns if the recipe does not suit its frames, judged by `row`, the first frame that the
    /// recipe integrates in this run.
    pub fn check_first_frame(&self, row: &FrameRow, filter: &Filter) {
        let Some(resources) = self
            .resources
            .as_ref()
            .filter(|_| row.has_sums() && !self.loaded_recipe.has_been_checked.load(Relaxed))
        else {
            return;
        };
        if !self.loaded_recipe.has_been_checked.swap(true, Relaxed) {
            recipe_warnings::check_frame(&self.loaded_recipe.recipe, row, &resources.bins.weights)
                .iter()
                .for_each(|why| filter.warn(why));
        }
    }

    /// Creates a part for the frames that are to be integrated in this run.
    ///
    /// # Errors
    /// Fails if the file can't be created.
    pub fn create_part(
        &self,
        resources: &Resources,
        frames: &Spans,
        storage: PartStorage,
    ) -> Result<PartWriter, part::PartError> {
        let path = Task::part_path(&self.task.scan, &self.task.recipe_digest, frames);
        let storage = PartStorage {
            sparse: storage.sparse && sparse::is_written_by(self.recipe()),
            ..storage
        };
        let head =
            PartMetadata { task: self.task.clone(), recipe: self.loaded_recipe.recipe.clone() };
        PartWriter::create(&self.task.out, &path, &head, &resources.bins, storage)
    }

    /// Returns the name of a part that lacks some of its intended frames. It is the name for the
    /// frames that are `done`, so that it does not replace a more complete part of another run; if
    /// none is done, a name for the `lost` frames.
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

/// Returns what earlier runs have done of the task, and warns of files that can't be used.
fn find_coverage(
    task: &Task,
    monitors: Option<&MonitorValues>,
    index: &CoverageIndex,
    filter: &Filter,
) -> Coverage {
    let found = index.find_coverage(&task.out, task, monitors);
    found.unusable.iter().for_each(|file| filter.warn(&file.to_string()));
    found
}

/// Describes that it is not known whether the monitor of frames that are done was corrected since.
pub(crate) fn describe_unchecked_monitor(task: &Task, why: &MonitorError) -> String {
    let (entry, range) =
        (&task.acquisition.entry, format_ranges(&task.range, MAX_RANGES_IN_MESSAGE));
    format!(
        "entry {entry}, frames {range}: earlier patterns are kept, but their monitor can't be compared: {why}"
    )
}
