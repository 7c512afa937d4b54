//! The plan: the tasks as they came, one line each.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use filter::{Filter, Input, Stop};
use records::{RawPath, Record, Task};

use crate::demand::Largest;
use crate::lines::Lines;

/// The tasks in the order that they came in, which is that of the scans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    lines: Lines,
    costs: Vec<u64>,
    /// The tasks' ids, and which scan each is of.
    names: Vec<(Box<str>, usize)>,
    scans: Vec<String>,
    scan_places: HashMap<String, usize>,
    recipes: BTreeMap<RawPath, String>,
    /// The recipes' files of each task, where they are known; equal ones once.
    together: BTreeSet<Vec<RawPath>>,
    largest: Largest,
    ids: HashSet<Box<str>>,
}

impl Plan {
    /// Reads tasks; records of other types go on to stdout.
    ///
    /// # Errors
    /// As [`Input::next`].
    pub fn read(files: &[PathBuf], filter: &Filter) -> Result<Self, Stop> {
        let mut input = Input::open(files)?.with_expected_type("task");
        let mut plan = Self::default();
        let mut again = 0;
        while let Some(record) = input.next(filter)? {
            match record {
                Record::Task(task) => again += u64::from(!plan.push(*task)),
                other => filter.emit(&other)?,
            }
        }
        if again > 0 {
            filter.warn(&format!("{again} tasks came more than once: each is taken once"));
        }
        Ok(plan)
    }

    /// Adds a task; false where it is there already.
    pub fn push(&mut self, task: Task) -> bool {
        let new = self.ids.insert(task.id.as_str().into());
        if new {
            self.costs.push(task.bytes);
            self.largest = self.largest.with(&task);
            let known = task.recipes().filter(|recipe| !recipe.recipe.as_os_str().is_empty());
            let known: Vec<(RawPath, String)> = known.map(|recipe| (recipe.recipe, recipe.recipe_digest)).collect();
            let together: Vec<RawPath> = known.iter().map(|(path, _)| path.clone()).collect();
            if !self.together.contains(&together) {
                self.together.insert(together);
            }
            self.recipes.extend(known);
            let scan = self.scan_place(&task.scan);
            self.names.push((task.id.as_str().into(), scan));
            self.lines.push(&Record::from(task).to_line());
        }
        new
    }

    fn scan_place(&mut self, scan: &str) -> usize {
        if let Some(place) = self.scan_places.get(scan) {
            return *place;
        }
        self.scans.push(scan.to_owned());
        self.scan_places.insert(scan.to_owned(), self.scans.len() - 1);
        self.scans.len() - 1
    }

    /// The tasks' lines.
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// The tasks' stored bytes.
    pub fn costs(&self) -> &[u64] {
        &self.costs
    }

    /// The tasks' ids, each with that of its scan.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.names.iter().map(|(id, scan)| (&**id, self.scans[*scan].as_str()))
    }

    /// The scans, each as a range of consecutive tasks.
    pub fn scans(&self) -> impl Iterator<Item = Range<usize>> {
        let mut start = 0;
        self.names.chunk_by(|one, next| one.1 == next.1).map(move |tasks| {
            start += tasks.len();
            start - tasks.len()..start
        })
    }

    /// The resolved recipes' files, and their digests.
    pub fn recipes(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.recipes.iter().map(|(path, digest)| (path.as_path(), digest.as_str()))
    }

    /// The recipes' files that tasks apply in one pass.
    pub fn together(&self) -> impl Iterator<Item = &[RawPath]> {
        self.together.iter().map(Vec::as_slice)
    }

    /// The largest frames.
    pub fn largest(&self) -> Largest {
        self.largest
    }
}
