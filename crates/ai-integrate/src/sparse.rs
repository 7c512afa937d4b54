//! Sparse pixels of the frames of a task, for `--sparse`.

use integrator::RejectedPixels;
use patterns::sparse_pixels::{self, SparseFrame, SparsePixels};
use recipe::Recipe;
use records::{Spans, Task, format_frames};

use crate::error::{MAX_RANGES_IN_MESSAGE, TaskError};

/// Returns whether a recipe rejects pixels that can be written.
pub fn is_written_by(recipe: &Recipe) -> bool {
    recipe.sigma_clip.is_some()
}

/// Checks that the frames of a task can have sparse pixels.
///
/// # Errors
/// The frames are too large, or of a type that can't be written.
pub fn check_frames(task: &Task, recipe: &Recipe) -> Result<(), TaskError> {
    sparse_pixels::check_frames(&task.acquisition, recipe)
        .map_err(|why| TaskError { why: format!("--sparse: {why}"), retryable: false })
}

/// Describes that `--sparse` adds nothing to the results of a recipe.
pub fn describe_no_clipping(task: &Task) -> String {
    format!(
        "{}: the recipe rejects no pixels, and its results have none: --sparse is for recipes with \
         sigma clipping (plan-split --sigma-clip)",
        task.recipe.display()
    )
}

/// Describes the frames whose pixels can't be added to their patterns.
pub fn describe_without_raw_data(task: &Task, frames: &Spans) -> String {
    let frames = format_frames(frames, MAX_RANGES_IN_MESSAGE);
    format!(
        "{}: {frames}: earlier patterns are kept; their raw data are away, so --sparse can't add \
         their pixels",
        task.final_file.display()
    )
}

/// Describes the frames of a task that have no sparse pixels because there are too many.
pub fn describe_too_many(task: &str, frames: &Spans) -> String {
    let frames = format_frames(frames, MAX_RANGES_IN_MESSAGE);
    format!("{task}: no sparse pixels of {frames}: clipping rejects more than 1 in 16")
}

/// Returns the sparse pixels of a frame as a part stores them.
pub fn sparse_frame(rejected: RejectedPixels) -> SparseFrame {
    match rejected {
        RejectedPixels::TooMany { shares } => SparseFrame::TooMany { shares },
        RejectedPixels::Few { pixels, values, other_shares } => {
            SparseFrame::Pixels(SparsePixels { pixels, values, other_shares })
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn pixels_are_as_few_as_the_memory_model_expects() {
        assert_eq!(integrator::MAX_REJECTED_DIVISOR as u64, memory_model::SPARSE_DIVISOR);
    }
}
