//! What records say of one scan and recipe, until its final is made.

use std::collections::HashMap;
use std::path::PathBuf;

use manners::owned::ProtectedFiles;
use patterns::finals::{self, Target};
use records::{Seconds, Spans, Task, TaskResult};

/// One scan and recipe.
pub struct Group {
    /// What the final is to be of.
    pub target: Target,
    /// The frames that a plan demands; `None` for all that exist.
    pub required: Option<Spans>,
    /// Seconds of each stage, over the results.
    pub seconds: Seconds,
    /// The frames that results were about.
    answered: Spans,
    /// Whether something was heard since the final was made.
    pub is_open: bool,
}

impl Group {
    /// That of a target of which nothing was heard.
    pub fn of(target: Target) -> Self {
        let (required, seconds, answered) = (None, Seconds::default(), Spans::default());
        Self { target, required, seconds, answered, is_open: true }
    }
}

/// The scans and recipes that were heard of, in the order of the first word of each.
#[derive(Default)]
pub struct Groups {
    places: HashMap<(PathBuf, String, String), usize>,
    all: Vec<Group>,
    /// Where the raw data that records name is noted.
    protected: Option<ProtectedFiles>,
}

impl Groups {
    /// None yet. What records name as raw data is added to `protected`.
    pub fn new(protected: Option<ProtectedFiles>) -> Self {
        Self { protected, ..Self::default() }
    }

    /// Adds what a result says; its group, where all of the scan has been heard of.
    ///
    /// # Errors
    /// A record that leads out of its output root.
    pub fn add_result(&mut self, result: &TaskResult) -> Result<Option<&mut Group>, finals::Error> {
        let group = self.of_task(&result.task)?;
        let more = &result.seconds;
        group.seconds.read += more.read;
        group.seconds.integrate += more.integrate;
        group.seconds.write += more.write;
        group.seconds.wall += more.wall;
        group.answered = union(&group.answered, &result.task.range);
        let absent = group.target.absent();
        let known = absent.iter().fold(group.answered.clone(), |known, absent| union(&known, &absent.range));
        let is_whole = Spans::all(group.target.frames()).minus(&known).is_empty();
        Ok(is_whole.then_some(group))
    }

    /// Adds a task that must be covered.
    ///
    /// # Errors
    /// As [`Groups::add_result`].
    pub fn require(&mut self, task: &Task) -> Result<(), finals::Error> {
        let group = self.of_task(task)?;
        group.required = Some(union(group.required.as_ref().unwrap_or(&Spans::default()), &task.range));
        Ok(())
    }

    /// Adds what was found on disk, unless records told of it.
    pub fn add_found(&mut self, target: Target) {
        let key = (target.out_root().to_path_buf(), target.task().scan.clone(), target.task().recipe_digest.clone());
        if !self.places.contains_key(&key) {
            self.insert(key, target);
        }
    }

    /// All groups.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Group> {
        self.all.iter_mut()
    }

    fn of_task(&mut self, task: &Task) -> Result<&mut Group, finals::Error> {
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
            None => self.insert(key, Target::new(&task.out, task)?),
        };
        let group = &mut self.all[place];
        group.is_open = true;
        Ok(group)
    }

    fn insert(&mut self, key: (PathBuf, String, String), target: Target) -> usize {
        self.places.insert(key, self.all.len());
        self.all.push(Group::of(target));
        self.all.len() - 1
    }
}

fn union(one: &Spans, two: &Spans) -> Spans {
    one.as_slice().iter().chain(two.as_slice()).copied().collect::<Spans>().sorted()
}
