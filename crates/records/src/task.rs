//! Task records: a frame range of one scan, and the recipes to integrate it by.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::FieldError;
use crate::valid::{check_absolute, check_id};
use crate::{Acquisition, IdHasher, RawPath, Span, Spans};

/// A task record: a frame range of one scan to integrate by one recipe, or by several in one pass.
/// Its `type` is `task`. It repeats its scan record, reduced to the sources of its range, so that
/// the line can be processed anywhere on its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The digest of scan, recipes and frame range.
    pub id: String,
    /// The id of the scan.
    pub scan: String,
    /// The frames to integrate, in ascending order.
    pub range: Spans,
    /// The path of the resolved recipe, absolute.
    pub recipe: RawPath,
    /// The digest of the resolved recipe.
    pub recipe_digest: String,
    /// The output root, absolute.
    pub out: RawPath,
    /// The part's path below `out`.
    pub part: RawPath,
    /// The final's path below `out`.
    #[serde(rename = "final")]
    pub final_file: RawPath,
    /// The recipes beyond the first: each frame is decoded once, and integrated by all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more: Vec<TaskRecipe>,
    /// The readings of the recipe's monitor over all frames of the scan, if the monitor is divided
    /// by its mean. ai-integrate adds them so that parts and finals hold them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitor_readings: Option<MonitorReadings>,
    /// The cost of the task: the stored bytes of its range.
    pub bytes: u64,
    /// The fields of the scan, with only the sources of `range`.
    #[serde(flatten)]
    pub acquisition: Acquisition,
}

/// The readings of a monitor over a scan's frames, with or without a pattern. Only readings from
/// 1e-280 to 1e280 count, because no others can be divided by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MonitorReadings {
    /// The sum of the readings.
    pub sum: f64,
    /// The number of readings.
    pub count: u64,
}

impl FromIterator<f64> for MonitorReadings {
    /// Sums the valid readings in their order.
    fn from_iter<I: IntoIterator<Item = f64>>(readings: I) -> Self {
        let valid = readings.into_iter().filter(|reading| Self::VALID.contains(reading));
        valid.fold(Self::default(), |all, reading| Self {
            sum: all.sum + reading,
            count: all.count.saturating_add(1),
        })
    }
}

impl MonitorReadings {
    /// Sizes of readings that can be divided by: no sum of 2^64 of them overflows, and none has lost
    /// digits by being close to the least number of an f64.
    pub const VALID: RangeInclusive<f64> = 1e-280..=1e280;

    /// Returns the mean reading; NaN if there are no readings.
    pub fn mean(&self) -> f64 {
        self.sum / self.count as f64
    }

    /// Returns the readings of both.
    pub fn combined_with(self, other: Self) -> Self {
        Self { sum: self.sum + other.sum, count: self.count.saturating_add(other.count) }
    }
}

/// One recipe of a task, and the paths of its results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskRecipe {
    /// The path of the resolved recipe, absolute.
    pub recipe: RawPath,
    /// The digest of the resolved recipe.
    pub recipe_digest: String,
    /// The part's path below the task's `out`.
    pub part: RawPath,
    /// The final's path below the task's `out`.
    #[serde(rename = "final")]
    pub final_file: RawPath,
}

impl Task {
    pub(crate) fn check(&self) -> Result<(), FieldError> {
        check_id("scan", &self.scan)?;
        check_absolute("out", &self.out)?;
        check_absolute("recipe", &self.recipe)?;
        self.more.iter().try_for_each(|more| check_absolute("recipe", &more.recipe))?;
        check_id("recipe_digest", &self.recipe_digest)?;
        self.more.iter().try_for_each(|more| check_id("recipe_digest", &more.recipe_digest))?;
        self.acquisition.check()
    }

    /// Computes a task's id.
    pub fn compute_id<'a>(
        scan: &str,
        recipe_digests: impl IntoIterator<Item = &'a str>,
        range: &Spans,
    ) -> String {
        let range = serde_json::to_string(range).expect("numbers always serialize");
        let of_scan = IdHasher::new("task").add_text(scan);
        recipe_digests
            .into_iter()
            .fold(of_scan, |digest, recipe| digest.add_text(recipe))
            .add_text(&range)
            .to_short_hex()
    }

    /// Returns all recipes of the task in order; there is at least one.
    pub fn recipes(&self) -> impl Iterator<Item = TaskRecipe> {
        let first = TaskRecipe {
            recipe: self.recipe.clone(),
            recipe_digest: self.recipe_digest.clone(),
            part: self.part.clone(),
            final_file: self.final_file.clone(),
        };
        std::iter::once(first).chain(self.more.iter().cloned())
    }

    /// Returns the task with these recipes in place of its own; `None` if there are none.
    pub fn with_recipes(self, recipes: impl IntoIterator<Item = TaskRecipe>) -> Option<Self> {
        let mut recipes = recipes.into_iter();
        let TaskRecipe { recipe, recipe_digest, part, final_file } = recipes.next()?;
        Some(Self { recipe, recipe_digest, part, final_file, more: recipes.collect(), ..self })
    }

    /// Splits the task into one task per recipe, each with the id of the whole: frames, parts and
    /// finals are tracked by recipe.
    pub fn split_by_recipe(self) -> Vec<Self> {
        let alone = |task: Self, recipe| task.with_recipes([recipe]).expect("a recipe was given");
        let recipes: Vec<TaskRecipe> = self.recipes().collect();
        let Some((last, others)) = recipes.split_last() else { return Vec::new() };
        let mut tasks: Vec<Self> =
            others.iter().map(|recipe| alone(self.clone(), recipe.clone())).collect();
        tasks.push(alone(self, last.clone()));
        tasks
    }

    /// Returns the path below the output root of the part with the frames of `range`. The parts of
    /// a scan and a recipe share a directory and are named by their frames, so that equal work gets
    /// the same file.
    pub fn part_path(scan: &str, recipe_digest: &str, range: &Spans) -> RawPath {
        let recipe: String = recipe_digest.chars().take(16).collect();
        let range = range.to_sorted();
        let spans = range.as_slice();
        let (first, end) =
            (spans.first().map_or(0, Span::start), spans.last().map_or(1, Span::stop));
        let name = if first.checked_add(range.count()) == Some(end) {
            format!("{first:08}-{:08}.h5", end.saturating_sub(1))
        } else {
            // The frames are hashed one by one, because different spans may list the same frames.
            let frames: Spans = range.iter().collect();
            let wire = serde_json::to_string(&frames).expect("numbers always serialize");
            format!("{first:08}-{}.h5", IdHasher::new("range").add_text(&wire).to_short_hex())
        };
        PathBuf::from(".azpipe/parts").join(scan).join(recipe).join(name).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_of_records_that_say_nonsense_do_not_overflow() {
        let many = MonitorReadings { sum: f64::MAX, count: u64::MAX };
        assert_eq!(many.combined_with(MonitorReadings { sum: f64::MAX, count: 1 }).count, u64::MAX);
    }

    #[test]
    fn parts_are_named_by_their_frames() {
        let part = |spans: Spans| {
            Task::part_path("5c", "0123456789abcdef99", &spans).to_str().unwrap().to_owned()
        };
        assert_eq!(
            part(Span::new(500, 1000).into()),
            ".azpipe/parts/5c/0123456789abcdef/00000500-00000999.h5"
        );
        let interleaved = part(Span::strided(0, 4, 2).into());
        assert!(interleaved.starts_with(".azpipe/parts/5c/0123456789abcdef/00000000-"));
        assert_ne!(interleaved, part(Span::strided(0, 5, 2).into()));
    }

    #[test]
    fn a_task_of_several_recipes_is_one_of_each() {
        let recipe =
            |digest: &str| TaskRecipe { recipe_digest: digest.to_owned(), ..TaskRecipe::default() };
        let task = Task { id: "7a".to_owned(), ..Task::default() }
            .with_recipes(["a", "b", "c"].map(recipe))
            .unwrap();
        assert_eq!((task.recipe_digest.as_str(), task.more.len()), ("a", 2));
        let alone = task.clone().split_by_recipe();
        let told: Vec<_> =
            alone.iter().map(|task| (task.id.as_str(), task.recipe_digest.as_str())).collect();
        assert_eq!(told, [("7a", "a"), ("7a", "b"), ("7a", "c")]);
        assert!(alone.iter().all(|task| task.more.is_empty()));
        assert_eq!(task.clone().with_recipes(task.recipes()).unwrap(), task);
        assert_eq!(task.with_recipes([]), None);
    }

    #[test]
    fn the_id_is_of_all_recipes_in_their_order() {
        let id =
            |recipes: &[&str]| Task::compute_id("5c", recipes.iter().copied(), &Spans::first_n(3));
        assert_ne!(id(&["a"]), id(&["a", "b"]));
        assert_ne!(id(&["b", "a"]), id(&["a", "b"]));
    }

    #[test]
    fn equal_frames_have_one_name_however_they_are_told() {
        let part = |json| Task::part_path("5c", "00", &serde_json::from_str(json).unwrap());
        assert_eq!(part("[[3,5],[0,3]]"), part("[[0,5]]"));
        assert_eq!(part("[[0,9,2],[1,10,2]]"), part("[[0,10]]"));
        assert_eq!(part("[[0,1],[2,3],[4,5]]"), part("[[0,5,2]]"));
        assert_eq!(part("[]"), part("[[7,7]]"));
    }
}
