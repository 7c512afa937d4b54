//! The dead time of a recipe, as a part of the exposure time.

use kernels::DeadTime;
use recipe::Recipe;

use crate::IntegratorError;

/// Returns the dead time for which the recipe corrects counts.
///
/// # Errors
/// The recipe needs the exposure time of a scan, or a single photon makes a pixel dead for most of it.
pub fn dead_time(recipe: &Recipe) -> Result<DeadTime, IntegratorError> {
    let Some(dead_time) = recipe.dead_time else { return Ok(DeadTime::ZERO) };
    let refuse =
        |why: &str| Err(IntegratorError::Unsupported(format!("dead-time {dead_time}: {why}")));
    let Some(exposure_time) = recipe.exposure_time else {
        return refuse("needs the exposure time of the frames; give exposure-time");
    };
    if dead_time.get() > DeadTime::MAX_DEAD_PART * exposure_time.get() {
        return refuse(&format!(
            "after a single photon a pixel is dead for more than nine tenths of the exposure time, {exposure_time}; expected the \
             dead time of a pixel after each count, such as 120ns"
        ));
    }
    Ok(DeadTime::new(dead_time.get(), exposure_time.get()))
}
