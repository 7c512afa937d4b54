//! The recipes of a run and their integrators, which all tasks share.

use std::collections::HashMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use filter::Filter;
use integrator::{Integrator, IntegratorError, PixelType};
use recipe::Recipe;
use records::{FrameLayout, Task};

use crate::error::TaskError;
use crate::matrix_cache::{MatrixCache, MatrixOrigin};

/// A recipe, checked against the task's digest, and its integrator for frames of one format.
pub struct LoadedRecipe {
    /// The resolved recipe that the integrators are made for.
    pub recipe: Recipe,
    format: FrameFormat,
    integrator: OnceLock<Result<Arc<Integrator>, TaskError>>,
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
                has_been_checked: AtomicBool::new(false),
                has_no_pixels_been_said: AtomicBool::new(false),
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
        let refused = |why: BuildError| {
            let retryable = matches!(&why, BuildError::Integrator(why) if why.is_retryable());
            TaskError { why: why.to_string(), retryable }
        };
        self.integrator
            .get_or_init(|| self.build_integrator(cache, filter).map(Arc::new).map_err(refused))
            .clone()
    }

    fn build_integrator(
        &self,
        cache: &MatrixCache<'_>,
        filter: &Filter,
    ) -> Result<Integrator, BuildError> {
        let began = Instant::now();
        let dtype: PixelType = self.format.dtype.parse().map_err(BuildError::PixelType)?;
        let framing = self.recipe.framing(&self.format.framing);
        let found = cache.integrator(&self.recipe, &framing, dtype)?;
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
