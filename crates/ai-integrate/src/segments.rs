//! Segments: the batches of a task whose frames have one geometry by each recipe, which are
//! integrated by the same matrices.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use filter::Filter;
use integrator::Integrator;
use memory_model::MAX_CACHED_POSITIONS;
use patterns::{BinWeights, FrameGeometry, Status};

use crate::batches::{Batches, RecipeIndex};
use crate::bins::bin_weights;
use crate::error::TaskError;
use crate::matrix_cache::{KeptFrom, MatrixCache};
use crate::recipe_task::RecipeTask;

/// Consecutive batches whose frames have one geometry by each recipe.
#[derive(Debug, PartialEq, Eq)]
pub struct Segment {
    /// The batches, by their index.
    pub batches: Range<usize>,
    /// A frame of the segment.
    frame: u64,
}

/// How a recipe integrates the frames of a segment.
pub enum SegmentRecipe {
    /// The recipe has no frame of the segment to integrate in this run.
    Idle,
    /// By this integrator. Frames of a moving detector each have their own weights of the bins.
    Ready(Arc<Integrator>, Option<OwnWeights>),
    /// The frames have no geometry, and get no pattern for the reason of this status.
    NoGeometry(Status),
}

/// The weights of the bins of frames with the same geometry, if no pixel is left out.
pub struct OwnWeights {
    /// The weights, with the factor.
    pub weights: Arc<BinWeights>,
    /// The factor of the weights: the relative solid angle.
    pub factor: f64,
}

impl OwnWeights {
    /// Applies the factor to weights that some pixels are left out of.
    pub fn scale(&self, weights: BinWeights) -> BinWeights {
        scale_weights(weights, self.factor)
    }
}

fn scale_weights(mut weights: BinWeights, factor: f64) -> BinWeights {
    if factor != 1.0 {
        weights.norm.iter_mut().for_each(|norm| *norm *= factor);
        weights.norm_sq.iter_mut().for_each(|norm_sq| *norm_sq *= factor * factor);
    }
    weights
}

/// Returns whether two frames have another geometry by any recipe.
pub fn differ_in_geometry(recipe_tasks: &[RecipeTask], one: u64, other: u64) -> bool {
    recipe_tasks
        .iter()
        .any(|recipe_task| geometry(recipe_task, one) != geometry(recipe_task, other))
}

/// Returns the geometry of a frame by a recipe whose detector moves.
fn geometry(recipe_task: &RecipeTask, frame: u64) -> Option<&FrameGeometry> {
    recipe_task.resources.as_ref()?.geometries.as_ref()?.geometry(frame)
}

/// Divides batches, each of which has one geometry, into segments.
pub fn find_segments(recipe_tasks: &[RecipeTask], batches: &Batches) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    for index in 0..batches.len() {
        let frame = batches.locations_of(index)[0].frame;
        match segments.last_mut() {
            Some(last) if !differ_in_geometry(recipe_tasks, last.frame, frame) => {
                last.batches.end = index + 1;
            }
            _ => segments.push(Segment { batches: index..index + 1, frame }),
        }
    }
    segments
}

impl Segment {
    /// Returns how each recipe integrates the frames. Matrices are built for recipes only that have
    /// frames of the segment to do.
    ///
    /// # Errors
    /// Fails if a recipe can't be applied to the frames; the error has the recipe.
    pub fn prepare(
        &self,
        recipe_tasks: &[RecipeTask],
        batches: &Batches,
        cache_of: impl Fn(&RecipeTask) -> Option<std::path::PathBuf>,
        filter: &Filter,
    ) -> Result<Vec<SegmentRecipe>, (RecipeIndex, TaskError)> {
        let locations = self.batches.clone().flat_map(|index| batches.locations_of(index));
        let sets: BTreeSet<usize> = locations.map(|location| location.recipe_set).collect();
        let has_frames =
            |recipe| sets.iter().any(|&set| batches.recipe_sets()[set].contains(&recipe));
        let prepare = |(index, recipe_task): (usize, &RecipeTask)| {
            if !has_frames(RecipeIndex(index)) {
                return Ok(SegmentRecipe::Idle);
            }
            let Some(resources) = &recipe_task.resources else { return Ok(SegmentRecipe::Idle) };
            let Some(geometries) = &resources.geometries else {
                let integrator = resources.integrator.as_ref();
                let integrator = integrator.expect("a recipe of one geometry has its integrator");
                return Ok(SegmentRecipe::Ready(Arc::clone(integrator), None));
            };
            let Some(geometry) = geometries.geometry(self.frame) else {
                return Ok(SegmentRecipe::NoGeometry(Status::Geometry));
            };
            let directory =
                cache_of(recipe_task).filter(|_| geometries.positions() <= MAX_CACHED_POSITIONS);
            let kept_from = match geometries.positions() {
                ..=1 => KeptFrom::FirstUse,
                _ => KeptFrom::SecondUse,
            };
            let integrator = recipe_task
                .integrator_at(
                    geometry,
                    &MatrixCache::new(
                        directory.as_deref(),
                        kept_from,
                        &recipe_task.task.recipe_digest,
                    ),
                    filter,
                )
                .map_err(|why| (RecipeIndex(index), why))?;
            let Some(integrator) = integrator else {
                return Ok(SegmentRecipe::NoGeometry(Status::OutOfRange));
            };
            let factor = geometries
                .relative_solid_angle(geometry)
                .map_err(|why| (RecipeIndex(index), TaskError::geometry(why)))?;
            let weights = Arc::new(scale_weights(bin_weights(&integrator), factor));
            Ok(SegmentRecipe::Ready(integrator, Some(OwnWeights { weights, factor })))
        };
        recipe_tasks.iter().enumerate().map(prepare).collect()
    }
}
