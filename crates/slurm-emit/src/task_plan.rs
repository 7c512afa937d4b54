//! The plan: the tasks as they came, one line each.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use filter::{Filter, Input, Stop};
use records::{RawPath, Record, Task};

use crate::compressed_lines::CompressedLines;
use crate::error::EmitError;
use crate::frame_maxima::FrameMaxima;
use records::format_count;

/// The tasks in the order in which they came in, which is that of the scans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskPlan {
    lines: CompressedLines,
    stored_bytes: Vec<u64>,
    /// The frames of each task, and the index of its recipes in `recipe_sets`.
    frames: Vec<(u64, usize)>,
    /// The id of each task, and the index of its scan in `scans`.
    ids: Vec<(Box<str>, usize)>,
    scans: Vec<String>,
    scan_indices: HashMap<String, usize>,
    /// The digest of each recipe file.
    recipes: BTreeMap<RawPath, String>,
    /// The sets of recipe files that some task applies together.
    recipe_sets: Vec<Vec<RawPath>>,
    recipe_set_indices: HashMap<Vec<RawPath>, usize>,
    frame_maxima: FrameMaxima,
    known_ids: HashSet<Box<str>>,
    /// The hash of each record.
    known_lines: HashSet<u64>,
    /// The digest of the recipe of each final file.
    final_recipes: HashMap<PathBuf, Box<str>>,
}

impl TaskPlan {
    /// Reads tasks, and copies records of other types to stdout. A task that comes again unchanged
    /// is skipped, with a warning.
    ///
    /// # Errors
    /// Fails as [`Input::next`] does, and if a task comes again with other content.
    pub fn read(files: &[PathBuf], filter: &Filter) -> Result<Self, Stop> {
        let mut input = Input::open(files)?.with_expected_type("task");
        let mut plan = Self::default();
        let mut duplicates = 0;
        while let Some(record) = input.next(filter)? {
            match record {
                Record::Task(task) => {
                    let (id, is_known) =
                        (task.id.clone(), plan.known_ids.contains(task.id.as_str()));
                    match plan.push(*task) {
                        true if is_known => return Err(EmitError::TaskVersions { id }.into()),
                        true => (),
                        false => duplicates += 1,
                    }
                }
                other => filter.emit(&other)?,
            }
        }
        if duplicates > 0 {
            filter.warn(&duplicates_warning(duplicates));
        }
        Ok(plan)
    }

    /// Reads the plan of a scan that grows, with all versions of its tasks.
    ///
    /// # Errors
    /// Fails as [`Input::next`] does.
    pub fn read_versions(file: PathBuf, filter: &Filter) -> Result<Self, Stop> {
        let mut input = Input::open(&[file])?.with_expected_type("task");
        let mut plan = Self::default();
        while let Some(record) = input.next(filter)? {
            match record {
                Record::Task(task) => drop(plan.push(*task)),
                other => filter.emit(&other)?,
            }
        }
        Ok(plan)
    }

    /// Adds a task, or another version of it: while a scan is measured, a task comes again with
    /// more frames or with the end of the scan. Returns false, and adds nothing, if the plan has
    /// this version, as when the same records are added again.
    pub fn push(&mut self, task: Task) -> bool {
        let id: Box<str> = task.id.as_str().into();
        let frames = task.range.count();
        let (bytes, maxima, scan) =
            (task.bytes, self.frame_maxima.with_task(&task), self.scan_index(&task.scan));
        for recipe in task.recipes() {
            let digest = recipe.recipe_digest.into();
            self.final_recipes.insert(final_path(&task, &recipe.final_file), digest);
        }
        let recipes = task.recipes().filter(|recipe| !recipe.recipe.as_os_str().is_empty());
        let recipes: Vec<(RawPath, String)> =
            recipes.map(|recipe| (recipe.recipe, recipe.recipe_digest)).collect();
        let line = Record::from(task).to_line();
        let mut hasher = DefaultHasher::new();
        line.hash(&mut hasher);
        let hash = hasher.finish();
        if !self.known_lines.insert(hash) {
            return false;
        }
        self.known_ids.insert(id.clone());
        self.stored_bytes.push(bytes);
        self.frame_maxima = maxima;
        let recipe_set: Vec<RawPath> = recipes.iter().map(|(path, _)| path.clone()).collect();
        let recipe_set = self.recipe_set_index(recipe_set);
        self.frames.push((frames, recipe_set));
        self.recipes.extend(recipes);
        self.ids.push((id, scan));
        self.lines.push(&line);
        true
    }

    /// Returns a final file of the task that tasks of the plan write by another recipe.
    pub fn find_other_recipe(&self, task: &Task) -> Option<PathBuf> {
        task.recipes().find_map(|recipe| {
            let path = final_path(task, &recipe.final_file);
            let planned = self.final_recipes.get(&path)?;
            (**planned != *recipe.recipe_digest).then_some(path)
        })
    }

    fn scan_index(&mut self, scan: &str) -> usize {
        if let Some(index) = self.scan_indices.get(scan) {
            return *index;
        }
        self.scans.push(scan.to_owned());
        self.scan_indices.insert(scan.to_owned(), self.scans.len() - 1);
        self.scans.len() - 1
    }

    fn recipe_set_index(&mut self, recipe_set: Vec<RawPath>) -> usize {
        if let Some(index) = self.recipe_set_indices.get(&recipe_set) {
            return *index;
        }
        self.recipe_sets.push(recipe_set.clone());
        self.recipe_set_indices.insert(recipe_set, self.recipe_sets.len() - 1);
        self.recipe_sets.len() - 1
    }

    /// Returns the records of the tasks, one line each.
    pub fn lines(&self) -> &CompressedLines {
        &self.lines
    }

    /// Returns the bytes that each task reads, as they are stored.
    pub fn stored_bytes(&self) -> &[u64] {
        &self.stored_bytes
    }

    /// Iterates over some tasks, by their position in the plan: the number of frames, and the recipe
    /// files that are applied in one pass.
    pub fn frames_and_recipes(
        &self,
        tasks: Range<usize>,
    ) -> impl Iterator<Item = (u64, &[RawPath])> {
        let of_task = |&(frames, set): &(u64, usize)| (frames, self.recipe_sets[set].as_slice());
        self.frames[tasks].iter().map(of_task)
    }

    /// Iterates over the tasks: the id of each task, and the id of its scan.
    pub fn ids(&self) -> impl Iterator<Item = (&str, &str)> {
        self.ids.iter().map(|(id, scan)| (&**id, self.scans[*scan].as_str()))
    }

    /// Iterates over the scans, each as a range of consecutive tasks.
    pub fn scans(&self) -> impl Iterator<Item = Range<usize>> {
        let mut start = 0;
        self.ids.chunk_by(|one, next| one.1 == next.1).map(move |tasks| {
            start += tasks.len();
            start - tasks.len()..start
        })
    }

    /// Iterates over the files of the resolved recipes, each with its digest.
    pub fn recipes(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.recipes.iter().map(|(path, digest)| (path.as_path(), digest.as_str()))
    }

    /// Iterates over the sets of recipe files that some task applies in one pass.
    pub fn recipe_sets(&self) -> impl Iterator<Item = &[RawPath]> {
        self.recipe_sets.iter().map(Vec::as_slice)
    }

    /// Returns the largest frame sizes of all tasks.
    pub fn frame_maxima(&self) -> FrameMaxima {
        self.frame_maxima
    }
}

/// Returns the path of a final file of a task.
fn final_path(task: &Task, final_file: &RawPath) -> PathBuf {
    task.out.join(final_file.as_path())
}

fn duplicates_warning(count: u64) -> String {
    format!("{} came more than once; each task is in the plan once", format_count(count, "task"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_counted_in_words() {
        assert_eq!(
            duplicates_warning(1),
            "1 task came more than once; each task is in the plan once"
        );
        assert_eq!(
            duplicates_warning(2),
            "2 tasks came more than once; each task is in the plan once"
        );
    }
}
