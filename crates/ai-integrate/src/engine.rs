//! What the tasks of a run share: the integrators, one a recipe and kind of frames.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use integrator::{Integrator, PixelType};
use recipe::Recipe;
use records::Task;

/// A recipe and the integrator that it makes of frames of one kind.
pub struct Ready {
    /// The recipe, checked against the task's digest.
    pub recipe: Recipe,
    /// What integrates by it.
    pub integrator: Integrator,
}

/// The recipe, and the frames' rows, columns and type.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    recipe: PathBuf,
    digest: String,
    shape: [u64; 2],
    dtype: String,
}

type Slot = Arc<OnceLock<Result<Arc<Ready>, String>>>;

/// The integrators of a run. Each is made once, whichever thread asks first; the others wait.
#[derive(Default)]
pub struct Integrators(Mutex<HashMap<Key, Slot>>);

impl Integrators {
    /// The integrator for a task.
    ///
    /// # Errors
    /// The recipe or a file of it has changed, or can't be applied to the task's frames: in one line.
    pub fn of(&self, task: &Task) -> Result<Arc<Ready>, String> {
        let scan = &task.acquisition;
        let key = Key {
            recipe: task.recipe.to_path_buf(),
            digest: task.recipe_digest.clone(),
            shape: scan.shape,
            dtype: scan.dtype.clone(),
        };
        let slot = self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone();
        slot.get_or_init(|| prepare(task).map(Arc::new)).clone()
    }
}

fn prepare(task: &Task) -> Result<Ready, String> {
    let scan = &task.acquisition;
    let recipe = Recipe::load(&task.recipe, &task.recipe_digest).map_err(|why| why.to_string())?;
    let dtype: PixelType = scan.dtype.parse().map_err(|why| format!("frames: {why}"))?;
    let shape = scan.shape.map(|length| length as usize);
    let integrator = Integrator::new(&recipe, shape, dtype).map_err(|why| why.to_string())?;
    Ok(Ready { recipe, integrator })
}
