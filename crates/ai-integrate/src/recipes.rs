//! The recipes of a run and their integrators, which all tasks share.

use std::collections::HashMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use filter::Filter;
use integrator::{Integrator, IntegratorError, PixelType};
use memory_model::MAX_POSITION_BYTES;
use patterns::{FrameGeometry, SharedBins};
use recipe::Recipe;
use records::{FrameLayout, Task};

use crate::bins::{bins_without_weights, pattern_axes};
use crate::error::TaskError;
use crate::matrix_cache::{MatrixCache, MatrixOrigin};

/// A recipe, checked against the task's digest, and its integrator for frames of one format.
pub struct LoadedRecipe {
    /// The resolved recipe that the integrators are made for.
    pub recipe: Recipe,
    format: FrameFormat,
    integrator: OnceLock<Result<Arc<Integrator>, TaskError>>,
    /// The integrators of frames of a detector that moves.
    positions: PositionCache,
    /// True once the first frame has been checked for warnings.
    pub has_been_checked: AtomicBool,
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

impl BuildError {
    fn into_task_error(self) -> TaskError {
        let retryable = matches!(&self, Self::Integrator(why) if why.is_retryable());
        TaskError { why: self.to_string(), retryable }
    }
}

/// The integrators of a detector's positions that were used last, as far as they fit into
/// [`MAX_POSITION_BYTES`].
#[derive(Default)]
struct PositionCache(Mutex<Vec<(FrameGeometry, Arc<Integrator>)>>);

impl PositionCache {
    fn get(&self, geometry: &FrameGeometry) -> Option<Arc<Integrator>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = known.iter().position(|(other, _)| other.poni == geometry.poni)?;
        let found = known.remove(at);
        let integrator = Arc::clone(&found.1);
        known.push(found);
        Some(integrator)
    }

    /// Adds an integrator, and drops those that were not used for the longest time.
    fn add(&self, geometry: &FrameGeometry, integrator: &Arc<Integrator>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(other, _)| other.poni != geometry.poni);
        known.push((geometry.clone(), Arc::clone(integrator)));
        let mut bytes = 0;
        let fit = known.iter().rev().take_while(|(_, integrator)| {
            bytes += integrator.memory_bytes() as u64;
            bytes <= MAX_POSITION_BYTES
        });
        let dropped = known.len() - fit.count();
        known.drain(..dropped);
    }
}

type RecipeSlot = Arc<OnceLock<Result<Arc<LoadedRecipe>, TaskError>>>;

/// The loaded recipes of a run. The first thread that needs a recipe loads it, while other threads
/// that need it wait.
#[derive(Default)]
pub struct RecipeCache(Mutex<HashMap<(PathBuf, String, FrameFormat), RecipeSlot>>);

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
        let slot =
            self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone();
        let refused = |why: recipe::RecipeError| {
            let retryable = matches!(why, recipe::RecipeError::Io { .. });
            TaskError { why: why.to_string(), retryable }
        };
        let load = || Recipe::load(&task.recipe, &task.recipe_digest).map_err(refused);
        let loaded = |recipe| {
            Arc::new(LoadedRecipe {
                recipe,
                format,
                integrator: OnceLock::new(),
                positions: PositionCache::default(),
                has_been_checked: AtomicBool::new(false),
            })
        };
        slot.get_or_init(|| load().map(loaded)).clone()
    }
}

impl LoadedRecipe {
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
                built.map(Arc::new).map_err(BuildError::into_task_error)
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
        if let Some(known) = self.positions.get(geometry) {
            return Ok(Some(known));
        }
        let recipe = self.recipe.at_geometry(&geometry.poni, &geometry.poni_file);
        let integrator = match self.build_integrator(&recipe, cache, filter) {
            Ok(integrator) => Arc::new(integrator),
            Err(BuildError::Integrator(IntegratorError::Binning(_))) => return Ok(None),
            Err(why) => return Err(why.into_task_error()),
        };
        self.positions.add(geometry, &integrator);
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
        let (radial, chi) = axes().map_err(BuildError::into_task_error)?;
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
