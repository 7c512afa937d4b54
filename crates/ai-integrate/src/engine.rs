//! What the tasks of a run share: the recipes, and the integrators that they make of frames.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use integrator::{Integrator, PixelType};
use manners::Filter;
use recipe::Recipe;
use records::{Framing, Task};

use crate::cache::{Cache, Origin};
use crate::task::Refusal;

/// A recipe, checked against the task's digest, and its integrator for frames of one kind.
pub struct Method {
    /// The recipe.
    pub recipe: Recipe,
    kind: Kind,
    integrator: OnceLock<Result<Arc<Integrator>, Refusal>>,
    /// Whether advice on its first frame was given.
    pub advised: AtomicBool,
}

/// Rows, columns and type of frames, and what was done to them.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Kind {
    framing: Framing,
    dtype: String,
}

type Slot = Arc<OnceLock<Result<Arc<Method>, Refusal>>>;

/// The methods of a run. Each is made once, whichever thread asks first; the others wait.
#[derive(Default)]
pub struct Methods(Mutex<HashMap<(PathBuf, String, Kind), Slot>>);

impl Methods {
    /// The method of a task.
    ///
    /// # Errors
    /// The recipe or a file of it can't be read, or has changed.
    pub fn of(&self, task: &Task) -> Result<Arc<Method>, Refusal> {
        let kind = Kind { framing: task.acquisition.framing(), dtype: task.acquisition.dtype.clone() };
        let key = (task.recipe.to_path_buf(), task.recipe_digest.clone(), kind.clone());
        let slot = self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone();
        let refused = |why: recipe::RecipeError| {
            let retryable = matches!(why, recipe::RecipeError::Io { .. });
            Refusal { why: why.to_string(), retryable }
        };
        let load = || Recipe::load(&task.recipe, &task.recipe_digest).map_err(refused);
        let method =
            |recipe| Arc::new(Method { recipe, kind, integrator: OnceLock::new(), advised: AtomicBool::new(false) });
        slot.get_or_init(|| load().map(method)).clone()
    }
}

impl Method {
    /// The integrator. Made when first asked for, or found in the cache: a run that finds all done needs none.
    ///
    /// # Errors
    /// The recipe can't be applied to such frames.
    pub fn integrator(&self, cache: &Cache<'_>, filter: &Filter) -> Result<Arc<Integrator>, Refusal> {
        let refused = |why| Refusal { why, retryable: false };
        self.integrator.get_or_init(|| self.make(cache, filter).map(Arc::new).map_err(refused)).clone()
    }

    fn make(&self, cache: &Cache<'_>, filter: &Filter) -> Result<Integrator, String> {
        let began = Instant::now();
        let dtype: PixelType = self.kind.dtype.parse().map_err(|why| format!("frames: {why}"))?;
        let framing = self.recipe.framing(&self.kind.framing);
        let found = cache.integrator(&self.recipe, &framing, dtype).map_err(|why| why.to_string())?;
        found.warnings.iter().for_each(|why| filter.warn(why));
        let (bytes, seconds) = (found.integrator.bytes() >> 20, began.elapsed().as_secs_f64());
        filter.note(1, || match &found.origin {
            Origin::Made => format!("matrix: {bytes} MiB, made in {seconds:.3} s"),
            Origin::Mapped(path) => format!("matrix: {bytes} MiB, mapped in {seconds:.3} s from {}", path.display()),
        });
        Ok(found.integrator)
    }
}
