//! [`FrameRemarks`], what is told of frames that have rows, and not all that a user would expect of them.

use filter::Filter;
use patterns::FrameRow;
use patterns::sparse_pixels::SparseFrame;
use records::{Spans, format_frames};

use crate::batches::RecipeIndex;
use crate::error::MAX_RANGES_IN_MESSAGE;
use crate::recipe_task::RecipeTask;

/// The frames of a task that its recipes have something to say of.
pub struct FrameRemarks {
    /// The frames that have too many rejected pixels for `--sparse`, by any recipe.
    not_sparse: Spans,
    /// For each recipe, the frames without a valid pixel.
    without_pixels: Vec<Spans>,
}

impl FrameRemarks {
    /// Creates the remarks of as many recipes, without any.
    pub fn new(recipes: usize) -> Self {
        Self { not_sparse: Spans::default(), without_pixels: vec![Spans::default(); recipes] }
    }

    /// Adds the row of a frame.
    pub fn add(&mut self, recipe: RecipeIndex, row: &FrameRow) {
        if let Some(SparseFrame::TooMany { .. }) = row.sparse {
            self.not_sparse.push(row.frame);
        }
        let own = row.weight_override.as_ref();
        if own.is_some_and(|own| own.count.iter().all(|&count| count == 0.)) {
            self.without_pixels[recipe.0].push(row.frame);
        }
    }

    /// Warns of the frames of a task.
    pub fn warn(&self, task: &str, recipe_tasks: &[RecipeTask], filter: &Filter) {
        if !self.not_sparse.is_empty() {
            filter.warn(&describe_too_many(task, &self.not_sparse.to_sorted()));
        }
        for (frames, recipe_task) in self.without_pixels.iter().zip(recipe_tasks) {
            if !frames.is_empty() {
                let of_several =
                    (recipe_tasks.len() > 1).then(|| recipe_task.task.final_file.display());
                let about = of_several.map_or_else(|| task.to_owned(), |file| file.to_string());
                filter.warn(&describe_without_pixels(&about, &frames.to_sorted()));
            }
        }
    }
}

fn describe_too_many(about: &str, frames: &Spans) -> String {
    let frames = format_frames(frames, MAX_RANGES_IN_MESSAGE);
    format!("{about}: no sparse pixels of {frames}: clipping rejects more than 1 in 16")
}

fn describe_without_pixels(about: &str, frames: &Spans) -> String {
    let frames = format_frames(frames, MAX_RANGES_IN_MESSAGE);
    format!(
        "{about}: no valid pixel in {frames}: patterns of NaN; each pixel has a value that stands for no measurement, or one \
         beyond a limit (plan-split --dummy, --valid-min, --valid-max)"
    )
}
