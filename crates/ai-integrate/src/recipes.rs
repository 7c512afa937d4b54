//! The recipes of a run and their integrators, which all tasks share.

use std::collections::HashMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use filter::Filter;
use integrator::{Integrator, IntegratorError, PixelType};
use memory_model::MAX_EXPOSURE_TIMES;
use patterns::{FrameGeometry, SharedBins};
use recipe::Recipe;
use records::{FrameLayout, Task};

use crate::bins::{bins_without_weights, pattern_axes};
use crate::error::TaskError;
use crate::matrix_cache::{MatrixCache, MatrixOrigin};
use crate::positions::{PositionCache, PositionKey};

/// A recipe, checked against the task's digest, and its integrator for frames of one format.
pub struct LoadedRecipe {
    /// The resolved recipe that the integrators are made for.
    pub recipe: Recipe,
    format: FrameFormat,
    integrator: OnceLock<Result<Arc<Integrator>, TaskError>>,
    /// The recipe without geometries of its own; `None` if all frames have one geometry.
    without_geometries: Option<Recipe>,
    /// The integrators of frames of detectors that move, of all recipes.
    positions: Arc<PositionCache>,
    /// True once the first frame has been checked for warnings.
    pub has_been_checked: AtomicBool,
    /// True once a warning said that the recipe rejects no pixels.
    pub has_no_pixels_been_said: AtomicBool,
}

/// The layout and pixel type of frames.
#[derive(Clone, PartialEq, Eq, Hash)]
struct FrameFormat {
    framing: FrameLayout,
    dtype: String,
}

/// Explains why a recipe can't be applied to frames.
#[derive(Debug, thiserror::Error)]
enum BuildError {
    #[error("frames: {0}")]
    PixelType(<PixelType as FromStr>::Err),
    #[error(transparent)]
    Integrator(#[from] IntegratorError),
}

impl From<BuildError> for TaskError {
    fn from(why: BuildError) -> Self {
        let retryable = matches!(&why, BuildError::Integrator(why) if why.is_retryable());
        Self { why: why.to_string(), retryable }
    }
}

type RecipeSlot = Arc<OnceLock<Result<Arc<LoadedRecipe>, TaskError>>>;

/// The loaded recipes of a run. The first thread that needs a recipe loads it, while other threads
/// that need it wait.
#[derive(Default)]
pub struct RecipeCache {
    recipes: Mutex<HashMap<(PathBuf, String, FrameFormat), RecipeSlot>>,
    positions: Arc<PositionCache>,
}

impl RecipeCache {
    /// Returns the recipe of a task, loaded on first use.
    ///
    /// # Errors
    /// Fails if the recipe or a file that it names can't be read or has changed.
    pub fn get_or_load(&self, task: &Task) -> Result<Arc<LoadedRecipe>, TaskError> {
        let format = FrameFormat {
            framing: task.acquisition.frame_layout(),
            dtype: task.acquisition.dtype.clone(),
        };
        let key = (task.recipe.to_path_buf(), task.recipe_digest.clone(), format.clone());
        let slot = {
            let mut recipes = self.recipes.lock().unwrap_or_else(PoisonError::into_inner);
            if !recipes.contains_key(&key) {
                recipes.retain(|_, slot| !is_unused(slot, LoadedRecipe::is_moving));
                let is_left = |slot: &RecipeSlot| is_unused(slot, LoadedRecipe::has_exposure_time);
                if recipes.values().filter(|slot| is_left(slot)).count() >= MAX_EXPOSURE_TIMES {
                    recipes.retain(|_, slot| !is_left(slot));
                }
            }
            recipes.entry(key).or_default().clone()
        };
        let refused = |why: recipe::RecipeError| {
            let retryable = matches!(why, recipe::RecipeError::Io { .. });
            TaskError { why: why.to_string(), retryable }
        };
        let load = || Recipe::load(&task.recipe, &task.recipe_digest).map_err(refused);
        let loaded = |recipe: Recipe| {
            let is_moving = recipe.has_moving_geometry();
            Arc::new(LoadedRecipe {
                without_geometries: is_moving.then(|| recipe.with_geometries(Vec::new())),
                recipe,
                format,
                integrator: OnceLock::new(),
                positions: Arc::clone(&self.positions),
                has_been_checked: AtomicBool::new(false),
                has_no_pixels_been_said: AtomicBool::new(false),
            })
        };
        slot.get_or_init(|| load().map(loaded)).clone()
    }
}

/// Returns whether a recipe is of a kind of which each scan may have its own, and no task in hand uses
/// it.
fn is_unused(slot: &RecipeSlot, is_of_scan: fn(&LoadedRecipe) -> bool) -> bool {
    let Some(Ok(loaded)) = slot.get() else { return false };
    is_of_scan(loaded) && Arc::strong_count(slot) == 1 && Arc::strong_count(loaded) == 1
}

impl LoadedRecipe {
    /// Returns whether the detector or the sample moves: the recipe has a geometry for each frame of a
    /// scan.
    fn is_moving(&self) -> bool {
        self.without_geometries.is_some()
    }

    /// Returns whether the recipe is for one exposure time, which scans share.
    fn has_exposure_time(&self) -> bool {
        self.recipe.exposure_time.is_some()
    }

    /// Returns the integrator, built or mapped on first use: a run that finds all frames done needs
    /// none.
    ///
    /// # Errors
    /// Fails if the recipe can't be applied to frames of this format.
    pub fn integrator(
        &self,
        cache: &MatrixCache<'_>,
        filter: &Filter,
    ) -> Result<Arc<Integrator>, TaskError> {
        self.integrator
            .get_or_init(|| {
                let built = self.build_integrator(&self.recipe, cache, filter);
                built.map(Arc::new).map_err(TaskError::from)
            })
            .clone()
    }

    /// Returns the integrator of frames with this geometry: one that was used lately, or one that is
    /// built or mapped now. `None` if no pixel is in the range.
    ///
    /// # Errors
    /// Fails if the recipe can't be applied to frames of this format.
    pub fn integrator_at(
        &self,
        geometry: &FrameGeometry,
        cache: &MatrixCache<'_>,
        filter: &Filter,
    ) -> Result<Option<Arc<Integrator>>, TaskError> {
        let base = self.without_geometries.as_ref().unwrap_or(&self.recipe);
        let FrameGeometry { poni, poni_file, incident_angle } = geometry;
        let recipe = base.at_geometry(poni, poni_file, *incident_angle);
        let dtype: PixelType = self.format.dtype.parse().map_err(BuildError::PixelType)?;
        let key = PositionKey::new(&recipe, &recipe.framing(&self.format.framing), dtype);
        if let Some(known) = self.positions.get(&key) {
            return Ok(Some(known));
        }
        let integrator = match self.build_integrator(&recipe, cache, filter) {
            Ok(integrator) => Arc::new(integrator),
            Err(BuildError::Integrator(IntegratorError::NoPixels(_))) => return Ok(None),
            Err(why) => return Err(why.into()),
        };
        self.positions.add(key, &integrator);
        Ok(Some(integrator))
    }

    /// Returns the axes, which follow from the recipe, and weights of 0: each frame of a detector
    /// that moves has weights of its own.
    ///
    /// # Errors
    /// Fails if the recipe has no range, or frames have a pixel type that is not known.
    pub fn bins_without_weights(&self) -> Result<SharedBins, TaskError> {
        let axes = || {
            self.format.dtype.parse::<PixelType>().map_err(BuildError::PixelType)?;
            Ok::<_, BuildError>(integrator::recipe_axes(&self.recipe)?)
        };
        let (radial, chi) = axes()?;
        Ok(bins_without_weights(pattern_axes(&radial, chi.as_ref())))
    }

    fn build_integrator(
        &self,
        recipe: &Recipe,
        cache: &MatrixCache<'_>,
        filter: &Filter,
    ) -> Result<Integrator, BuildError> {
        let began = Instant::now();
        let dtype: PixelType = self.format.dtype.parse().map_err(BuildError::PixelType)?;
        let framing = recipe.framing(&self.format.framing);
        let found = cache.integrator(recipe, &framing, dtype)?;
        found.warnings.iter().for_each(|why| filter.warn(why));
        let (bytes, seconds) =
            (found.integrator.memory_bytes() >> 20, began.elapsed().as_secs_f64());
        filter.note(1, || match &found.origin {
            MatrixOrigin::Built => format!("matrix: {bytes} MiB, built in {seconds:.3} s"),
            MatrixOrigin::Mapped(path) => {
                format!("matrix: {bytes} MiB, mapped in {seconds:.3} s from {}", path.display())
            }
        });
        Ok(found.integrator)
    }
}

#[cfg(test)]
mod tests {
    use recipe::{PoniRange, Settings, Time};
    use records::RawPath;

    use super::*;

    const GEOMETRY: &str = "Detector: Pilatus100k\nDistance: 0.2\nPoni1: 0\nPoni2: 0\n";

    /// A cache, and the directory of the recipes that it loads.
    struct Recipes {
        directory: tempfile::TempDir,
        cache: RecipeCache,
    }

    impl Recipes {
        fn new() -> Self {
            Self { directory: tempfile::tempdir().unwrap(), cache: RecipeCache::default() }
        }

        fn load(&self, recipe: &Recipe) -> Arc<LoadedRecipe> {
            let path = self.directory.path().join(recipe.digest());
            std::fs::write(&path, recipe.to_toml()).unwrap();
            let recipe_digest = recipe.digest();
            let task = Task { recipe: path.into(), recipe_digest, ..Task::default() };
            self.cache.get_or_load(&task).unwrap()
        }

        fn known(&self) -> usize {
            self.cache.recipes.lock().unwrap().len()
        }
    }

    fn fixed_recipe(settings: Settings) -> Recipe {
        let (geometry, radial_range) = (Some(GEOMETRY.to_owned()), Some([1.0, 20.0]));
        Recipe::resolve(&Settings { geometry, radial_range, ..settings }).unwrap()
    }

    #[test]
    fn moving_recipes_are_dropped_once_no_task_uses_them() {
        let fixed = fixed_recipe(Settings::default());
        let (poni, poni_file) = (GEOMETRY.to_owned(), RawPath::default());
        let range = PoniRange { first: 0, last: 0, poni, poni_file, incident_angle: None };
        let moving = |last| fixed.with_geometries(vec![PoniRange { last, ..range.clone() }]);
        let recipes = Recipes::new();
        recipes.load(&fixed);
        let first = recipes.load(&moving(1));
        drop(recipes.load(&moving(2)));
        assert_eq!(recipes.known(), 3);
        recipes.load(&moving(3));
        assert_eq!(recipes.known(), 3, "the second was dropped");
        assert!(Arc::ptr_eq(&recipes.load(&moving(1)), &first));
        drop(first);
        recipes.load(&moving(4));
        assert_eq!(recipes.known(), 2, "the fixed recipe and the last");
    }

    #[test]
    fn few_recipes_of_other_exposure_times_are_kept_and_all_that_are_in_use() {
        let dead_time = "120ns".parse().ok();
        let recipe = fixed_recipe(Settings { dead_time, ..Settings::default() });
        let at = |seconds: u32| recipe.with_exposure_time(Time::new(seconds.into()).unwrap());
        let recipes = Recipes::new();
        let in_use: Vec<_> = (1..4).map(|seconds| recipes.load(&at(seconds))).collect();
        let mut most = 0;
        for seconds in 4..40 {
            recipes.load(&at(seconds));
            most = most.max(recipes.known());
        }
        assert_eq!(most, in_use.len() + MAX_EXPOSURE_TIMES);
        for (seconds, used) in (1..4).zip(&in_use) {
            assert!(Arc::ptr_eq(&recipes.load(&at(seconds)), used), "{seconds} s");
        }
    }
}
