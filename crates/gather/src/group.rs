//! What records say of one scan and recipe, until its final is made.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::time::Instant;

use filter::ownership::ProtectedFiles;
use patterns::output::{self, OutputSpec};
use records::{Seconds, Spans, Summary, Task, TaskResult};

use crate::schedule::Schedule;

/// One scan and recipe.
pub struct Group {
    /// What the final is to be of.
    pub target: OutputSpec,
    /// The frames that a plan demands; `None` for all that exist.
    pub required: Option<Spans>,
    /// Seconds of each stage, over the results.
    pub seconds: Seconds,
    /// The frames that results were about.
    answered: Spans,
    /// When the final is to be made.
    pub schedule: Schedule,
    /// What was said of the final last, without the seconds: nobody wants to read it twice.
    pub said: Option<Said>,
    /// The warnings that were given.
    pub warned: HashSet<String>,
    /// Whether it lacks frames that it should have, when it was made last.
    pub lacks_frames: bool,
}

/// What was said of a final.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// Its summary.
    Summary(Box<Summary>),
    /// Why there is none.
    Failure(String),
}

impl Group {
    /// That of a target of which nothing was heard.
    pub fn of(target: OutputSpec) -> Self {
        let (required, seconds, answered) = (None, Seconds::default(), Spans::default());
        let mut schedule = Schedule::default();
        schedule.hear(Instant::now());
        Self { target, required, seconds, answered, schedule, said: None, warned: HashSet::new(), lacks_frames: false }
    }

    /// Returns whether results told of every frame that is not absent.
    fn is_whole(&self) -> bool {
        self.target.are_all_absent(&Spans::first_n(self.target.frames()).difference(&self.answered))
    }
}

/// The scans and recipes that were heard of, in the order of the first word of each.
#[derive(Default)]
pub struct Groups {
    places: HashMap<(PathBuf, String, String), usize>,
    all: Vec<Group>,
    /// The places of groups that are whole and wait to be made.
    waiting: BTreeSet<usize>,
    /// Where the raw data that records name is noted.
    protected: Option<ProtectedFiles>,
}

impl Groups {
    /// None yet. What records name as raw data is added to `protected`.
    pub fn new(protected: Option<ProtectedFiles>) -> Self {
        Self { protected, ..Self::default() }
    }

    /// Adds what a result says.
    ///
    /// # Errors
    /// A record that leads out of its output root.
    pub fn add_result(&mut self, result: &TaskResult) -> Result<(), output::OutputError> {
        let place = self.of_task(&result.task)?;
        let group = &mut self.all[place];
        let more = &result.seconds;
        group.seconds.read += more.read;
        group.seconds.integrate += more.integrate;
        group.seconds.write += more.write;
        group.seconds.wall += more.wall;
        group.answered = union(&group.answered, &result.task.range);
        match group.is_whole() {
            true => self.waiting.insert(place),
            false => self.waiting.remove(&place),
        };
        Ok(())
    }

    /// Takes out a group whose final is to be made by `now`.
    pub fn take_due(&mut self, now: Instant) -> Option<&mut Group> {
        let is_due = |place: &&usize| self.all[**place].schedule.due().is_some_and(|due| due <= now);
        let place = *self.waiting.iter().find(is_due)?;
        self.waiting.remove(&place);
        Some(&mut self.all[place])
    }

    /// Returns when the next final is to be made.
    pub fn next_due(&self) -> Option<Instant> {
        self.waiting.iter().filter_map(|place| self.all[*place].schedule.due()).min()
    }

    /// Adds a task that must be covered.
    ///
    /// # Errors
    /// As [`Groups::add_result`].
    pub fn require(&mut self, task: &Task) -> Result<(), output::OutputError> {
        let place = self.of_task(task)?;
        let group = &mut self.all[place];
        group.required = Some(union(group.required.as_ref().unwrap_or(&Spans::default()), &task.range));
        Ok(())
    }

    /// Adds what was found on disk, unless records told of it.
    pub fn add_found(&mut self, target: OutputSpec) {
        let key = (target.out_root().to_path_buf(), target.task().scan.clone(), target.task().recipe_digest.clone());
        if !self.places.contains_key(&key) {
            self.insert(key, target);
        }
    }

    /// All groups.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Group> {
        self.all.iter_mut()
    }

    /// The place of the group of a task, of which something was heard now.
    fn of_task(&mut self, task: &Task) -> Result<usize, output::OutputError> {
        if let Some(protected) = &self.protected {
            protected.add(&task.acquisition.file);
            protected.add(&task.recipe);
            task.acquisition.sources.iter().for_each(|source| protected.add(&source.file));
        }
        let key = (task.out.to_path_buf(), task.scan.clone(), task.recipe_digest.clone());
        let place = match self.places.get(&key) {
            Some(&place) => {
                self.all[place].target.add(task);
                place
            }
            None => self.insert(key, OutputSpec::new(&task.out, task)?),
        };
        self.all[place].schedule.hear(Instant::now());
        Ok(place)
    }

    fn insert(&mut self, key: (PathBuf, String, String), target: OutputSpec) -> usize {
        self.places.insert(key, self.all.len());
        self.all.push(Group::of(target));
        self.all.len() - 1
    }
}

fn union(one: &Spans, two: &Spans) -> Spans {
    one.as_slice().iter().chain(two.as_slice()).copied().collect::<Spans>().to_sorted()
}
