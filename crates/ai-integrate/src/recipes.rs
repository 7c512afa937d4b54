//! What the tasks of a run share: the recipes, and the integrators that they make of frames.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use filter::Filter;
use integrator::{Integrator, PixelType};
use recipe::Recipe;
use records::{FrameLayout, Task};

use crate::matrix_cache::{MatrixCache, MatrixOrigin};
use crate::task_runner::TaskError;

/// A recipe, checked against the task's digest, and its integrator for frames of one kind.
pub struct LoadedRecipe {
    /// The recipe.
    pub recipe: Recipe,
    format: FrameFormat,
    integrator: OnceLock<Result<Arc<Integrator>, TaskError>>,
    /// Whether advice on its first frame was given.
    pub has_been_checked: AtomicBool,
}

/// Rows, columns and type of frames, and what was done to them.
#[derive(Clone, PartialEq, Eq, Hash)]
struct FrameFormat {
    framing: FrameLayout,
    dtype: String,
}

type RecipeSlot = Arc<OnceLock<Result<Arc<LoadedRecipe>, TaskError>>>;

/// The methods of a run. Each is made once, whichever thread asks first; the others wait.
#[derive(Default)]
pub struct RecipeCache(Mutex<HashMap<(PathBuf, String, FrameFormat), RecipeSlot>>);

impl RecipeCache {
    /// The method of a task.
    ///
    /// # Errors
    /// The recipe or a file of it can't be read, or has changed.
    pub fn get_or_load(&self, task: &Task) -> Result<Arc<LoadedRecipe>, TaskError> {
        let kind = FrameFormat { framing: task.acquisition.frame_layout(), dtype: task.acquisition.dtype.clone() };
        let key = (task.recipe.to_path_buf(), task.recipe_digest.clone(), kind.clone());
        let slot = self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone();
        let refused = |why: recipe::RecipeError| {
            let retryable = matches!(why, recipe::RecipeError::Io { .. });
            TaskError { why: why.to_string(), retryable }
        };
        let load = || Recipe::load(&task.recipe, &task.recipe_digest).map_err(refused);
        let method = |recipe| {
            Arc::new(LoadedRecipe {
                recipe,
                format: kind,
                integrator: OnceLock::new(),
                has_been_checked: AtomicBool::new(false),
            })
        };
        slot.get_or_init(|| load().map(method)).clone()
    }
}

impl LoadedRecipe {
    /// The integrator. Made when first asked for, or found in the cache: a run that finds all done needs none.
    ///
    /// # Errors
    /// The recipe can't be applied to such frames.
    pub fn integrator(&self, cache: &MatrixCache<'_>, filter: &Filter) -> Result<Arc<Integrator>, TaskError> {
        let refused = |why| TaskError { why, retryable: false };
        self.integrator.get_or_init(|| self.build_integrator(cache, filter).map(Arc::new).map_err(refused)).clone()
    }

    fn build_integrator(&self, cache: &MatrixCache<'_>, filter: &Filter) -> Result<Integrator, String> {
        let began = Instant::now();
        let dtype: PixelType = self.format.dtype.parse().map_err(|why| format!("frames: {why}"))?;
        let framing = self.recipe.framing(&self.format.framing);
        let found = cache.integrator(&self.recipe, &framing, dtype).map_err(|why| why.to_string())?;
        found.warnings.iter().for_each(|why| filter.warn(why));
        let (bytes, seconds) = (found.integrator.memory_bytes() >> 20, began.elapsed().as_secs_f64());
        filter.note(1, || match &found.origin {
            MatrixOrigin::Built => format!("matrix: {bytes} MiB, made in {seconds:.3} s"),
            MatrixOrigin::Mapped(path) => {
                format!("matrix: {bytes} MiB, mapped in {seconds:.3} s from {}", path.display())
            }
        });
        Ok(found.integrator)
    }
}
