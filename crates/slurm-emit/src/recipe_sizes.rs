//! The sizes of the recipes of a plan, from which memory and walltime follow.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use memory_model::MAX_CACHED_POSITIONS;
use recipe::{Recipe, SpreadUse};
use records::RawPath;

use crate::error::EmitError;
use crate::task_plan::TaskPlan;

/// The sizes of a recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipeSize {
    /// Bins of a pattern.
    pub bins: u64,
    /// Values that mean "no measurement", as the recipe has them.
    pub dummy: String,
    /// Positions of a detector or a sample that moves; 0 if all frames have one geometry.
    pub positions: u64,
    /// True if it is for one exposure time, which only some scans may have.
    pub has_exposure_time: bool,
    /// True if it rejects pixels, which `ai-integrate --sparse` keeps.
    pub clips: bool,
    /// True if it rejects pixels or takes means between quantiles, for which it has its matrix by bin,
    /// too.
    pub needs_all_pixels: bool,
    /// True if errors follow from the spread of the pixels in a bin, and no pixels are rejected.
    pub has_plain_azimuthal_errors: bool,
}

impl RecipeSize {
    fn new(recipe: &Recipe) -> Self {
        let positions: HashSet<(&str, Option<u64>)> = recipe
            .poni_table
            .iter()
            .map(|range| (range.poni.as_str(), range.incident_angle.map(f64::to_bits)))
            .collect();
        Self {
            bins: recipe.npt.saturating_mul(recipe.npt_azim),
            dummy: recipe.dummy.to_string(),
            positions: positions.len() as u64,
            has_exposure_time: recipe.exposure_time.is_some(),
            clips: recipe.sigma_clip.is_some(),
            needs_all_pixels: recipe.needs_all_pixels(),
            has_plain_azimuthal_errors: recipe.sigma_clip.is_none()
                && recipe.error_model.spread_use() == SpreadUse::ClippingAndResult,
        }
    }
}

/// The sizes of the recipes of a plan, by their files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecipeSizes(HashMap<RawPath, RecipeSize>);

impl RecipeSizes {
    /// Reads all recipes of a plan, one after the other: each scan may have one of its own, with a
    /// geometry for each frame.
    ///
    /// # Errors
    /// Fails if a recipe can't be read.
    pub fn read(plan: &TaskPlan) -> Result<Self, EmitError> {
        let read = |(path, digest): (&std::path::Path, &str)| {
            let recipe = Recipe::load(path, digest).map_err(|why| EmitError::Recipe { why })?;
            Ok((path.into(), RecipeSize::new(&recipe)))
        };
        plan.recipes().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// Iterates over the sizes of all recipes.
    pub fn all(&self) -> impl Iterator<Item = &RecipeSize> {
        self.0.values()
    }

    /// Iterates over the sizes of some recipes.
    pub fn sizes_of<'a>(&'a self, recipes: &'a [RawPath]) -> impl Iterator<Item = &'a RecipeSize> {
        recipes.iter().filter_map(|path| self.0.get(path))
    }

    /// Returns how many matrices a process may build for positions of detectors that move while it
    /// integrates these tasks. The matrix of one position of many is kept on disk from its second use
    /// on; those that are never kept are built again by each task.
    pub fn position_builds(&self, plan: &TaskPlan, tasks: Range<usize>) -> u64 {
        let mut by_recipe: HashMap<&RawPath, (u64, u64)> = HashMap::new();
        for (frames, recipes) in plan.frames_and_recipes(tasks) {
            for path in recipes {
                let (sum, tasks) = by_recipe.entry(path).or_default();
                (*sum, *tasks) = (sum.saturating_add(frames), *tasks + 1);
            }
        }
        let builds = |(path, (frames, tasks)): (&RawPath, (u64, u64))| {
            let positions = self.0.get(path).map_or(0, |size| size.positions);
            let times = match positions {
                0..=1 => 1,
                // A task may come back to a position that is not in memory any more.
                _ if positions <= MAX_CACHED_POSITIONS as u64 => 2,
                _ => tasks,
            };
            positions.saturating_mul(times).min(frames)
        };
        by_recipe.into_iter().map(builds).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use recipe::{IncidentAngle, PoniRange, Settings, Time};
    use records::{Span, Task};

    use super::*;

    /// Creates a plan of tasks with `frames` frames, two for each of `scans` scans, whose recipes each
    /// have as many `positions`, and the sizes of the recipes.
    pub(crate) fn moving_plan(
        task: &Task,
        scans: u64,
        frames: u64,
        positions: u64,
    ) -> (TaskPlan, RecipeSizes) {
        plan_of(Settings::default(), task, scans, frames, positions)
    }

    /// Creates such a plan with these settings of the recipe. With a dead time, each scan has another
    /// exposure time.
    pub(crate) fn plan_of(
        settings: Settings,
        task: &Task,
        scans: u64,
        frames: u64,
        positions: u64,
    ) -> (TaskPlan, RecipeSizes) {
        let directory = tempfile::tempdir().unwrap();
        let geometry = "Detector: Pilatus100k\nDistance: 0.2\nPoni1: 0\nPoni2: 0\n";
        let settings = Settings {
            geometry: Some(geometry.to_owned()),
            radial_range: Some([1.0, 20.0]),
            ..settings
        };
        let fixed = Recipe::resolve(&settings).unwrap();
        let mut plan = TaskPlan::default();
        for scan in 0..scans {
            let range = |first: u64| PoniRange {
                first,
                last: first,
                poni: format!("{geometry}Rot1: {}\n", (first % positions.max(1)) as f64 / 1e3),
                poni_file: RawPath::default(),
                incident_angle: None,
            };
            // The same positions, of other frames.
            let table = (0..2 * positions + scan).filter(|_| positions > 0).map(range).collect();
            let recipe = match fixed.needs_exposure_time() {
                true => fixed.with_exposure_time(Time::new(1.0 + scan as f64).unwrap()),
                false => fixed.with_geometries(table),
            };
            let path = directory.path().join(recipe.digest());
            std::fs::write(&path, recipe.to_toml()).unwrap();
            for first in [0, frames] {
                assert!(plan.push(Task {
                    id: format!("{scan}:{first}"),
                    scan: scan.to_string(),
                    range: Span::new(first, first + frames).into(),
                    recipe: path.clone().into(),
                    recipe_digest: recipe.digest(),
                    ..task.clone()
                }));
            }
        }
        let sizes = RecipeSizes::read(&plan).unwrap();
        (plan, sizes)
    }

    #[test]
    fn matrices_are_built_for_positions_and_at_most_one_for_a_frame() {
        let builds = |scans, frames, positions, tasks| {
            let (plan, sizes) = moving_plan(&Task::default(), scans, frames, positions);
            sizes.position_builds(&plan, tasks)
        };
        assert_eq!(builds(1, 100, 0, 0..2), 0, "one geometry");
        assert_eq!(builds(1, 100, 3, 0..1), 6);
        assert_eq!(builds(1, 100, 3, 0..2), 6, "kept from the second use on");
        assert_eq!(builds(2, 100, 3, 0..4), 12, "of two scans");
        assert_eq!(builds(1, 100, 1, 0..2), 1, "kept at once");
        assert_eq!(builds(1, 1000, 70, 0..2), 140, "too many to be kept");
        assert_eq!(builds(1, 10, 70, 0..2), 20, "one for each frame");
    }

    #[test]
    fn angles_of_a_sample_are_positions() {
        let settings = Settings {
            geometry: Some("Distance: 0.2\nPoni1: 0\nPoni2: 0\n".to_owned()),
            incident_angle: Some(IncidentAngle::Motor("th".to_owned())),
            unit: "qip_nm^-1".parse().ok(),
            radial_range: Some([1.0, 20.0]),
            ..Settings::default()
        };
        let range = |(first, angle)| PoniRange {
            first,
            last: first,
            poni: String::new(),
            poni_file: RawPath::default(),
            incident_angle: Some(angle),
        };
        let recipe = Recipe::resolve(&settings).unwrap();
        let recipe = recipe.with_geometries([(0, 0.1), (1, 0.2), (2, 0.1)].map(range).to_vec());
        assert_eq!(RecipeSize::new(&recipe).positions, 2);
    }
}
