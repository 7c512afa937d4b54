//! Turns scan records into task records.

use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use output_owners::{FileRelation, OutputOwner};
use recipe::{Recipe, Settings};
use records::{Acquisition, RawPath, Scan, Task, TaskRecipe};
use system::ownership;

use crate::absent_index::AbsentIndex;
use crate::args::Args;
use crate::final_path::final_path;
use crate::messages;
use crate::plan_error::PlanError;
use crate::planned_recipe::PlannedRecipe;
use crate::planned_recipes::{PlannedRecipes, check_distinct};
use crate::split_scan::{SplitBy, split_scan};
use crate::unsuitable_scan::UnsuitableScan;

/// The name of the program, which every final file holds.
const PROGRAM: &str = "azpipe";

/// Longest name of a final file. File names may have 255 bytes; those of exports and of files that are
/// kept beside a final, such as `NAME.h5.damaged-2`, are longer than its own.
const MAX_NAME_BYTES: usize = 240;

/// A scan and recipe that have claimed a final file.
struct Claimant {
    owner: OutputOwner,
    start_time: Option<String>,
    /// The scans in whose place it is.
    earlier: Vec<String>,
}

impl Claimant {
    /// Returns whether another scan is this one, or was measured in its place, in the same file, and
    /// later, or was in this place before and came back.
    fn may_be_replaced_by(&self, other: &Self) -> bool {
        let (one, other_owner) = (&self.owner, &other.owner);
        let is_in_place = one.is_same_dataset(other_owner)
            && (self.start_time <= other.start_time || self.earlier.contains(&other_owner.scan));
        one.file == other_owner.file && (one.scan == other_owner.scan || is_in_place)
    }

    /// Returns this claimant in the place of another one.
    fn in_place_of(mut self, other: Self) -> Self {
        let Self { owner, mut earlier, .. } = other;
        if owner.scan != self.owner.scan && !earlier.contains(&owner.scan) {
            earlier.push(owner.scan);
        }
        self.earlier = earlier;
        self
    }
}

/// Makes the tasks of a run: the recipes, the output root, and the final files that scans of the
/// run have claimed.
pub struct Planner {
    out: PathBuf,
    by: SplitBy,
    recipes: PlannedRecipes,
    /// True if results of other settings are replaced.
    replace: bool,
    /// The scan that claimed each final file last.
    claimed: HashMap<RawPath, Claimant>,
    /// The notes about image operations that were printed.
    printed_notes: HashSet<String>,
    /// The directories of raw data that the output root was compared with.
    raw_data: HashSet<PathBuf>,
}

impl Planner {
    /// Resolves the recipes and writes them below the output root. `warn` is called for each key of
    /// a recipe that is not taken over unchanged.
    ///
    /// # Errors
    /// Fails if a recipe is incomplete or invalid, if a file of it can't be used, and if the output
    /// root can't be written.
    pub fn new(args: Args, warn: impl Fn(&str)) -> Result<Self, PlanError> {
        let out = args.out.unwrap_or_default();
        let out =
            std::path::absolute(&out).map_err(|why| PlanError::Write { path: out.clone(), why })?;
        let flags = Settings::from(args.recipe_settings);
        let recipes =
            PlannedRecipes::resolve(&args.recipe, &args.recipe_name, &flags, Some(&out), warn)?;
        Ok(Self {
            out,
            by: args.by,
            recipes,
            replace: args.replace,
            claimed: HashMap::new(),
            printed_notes: HashSet::new(),
            raw_data: HashSet::new(),
        })
    }

    /// Returns the recipes of the plan.
    pub fn recipes(&self) -> &PlannedRecipes {
        &self.recipes
    }

    /// Returns whether a recipe divides by a monitor.
    pub fn has_monitors(&self) -> bool {
        self.recipes.have_monitors()
    }

    /// Returns a note about the image operation that Lima applied to a scan's frames, if a recipe
    /// undoes it and the note was not returned before.
    pub fn describe_undone_operation(&mut self, scan: &Acquisition) -> Option<String> {
        let layout = scan.frame_layout();
        let recipes = self.recipes.for_detector(&scan.detector).ok()?;
        let operation = recipes.into_iter().find_map(|recipe| recipe.undone_operation(&layout))?;
        let note = messages::operation_undone(&scan.detector, &operation);
        self.printed_notes.insert(note.clone()).then_some(note)
    }

    /// Returns a warning if the output root is among the raw data: in the directory that scan-find
    /// searched for the scan, or beside its master file. The warning is returned once per
    /// directory.
    pub fn warn_of_raw_data(&mut self, scan: &Acquisition) -> Option<String> {
        let raw_data = searched_directory(scan)?;
        if !self.raw_data.insert(raw_data.to_owned()) {
            return None;
        }
        // Directories that can't be resolved are compared by name.
        let resolve = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let (out, searched) = (resolve(&self.out), resolve(raw_data));
        // A master directly in the searched directory may have been named alone; results in a
        // directory beside it are fine.
        let is_among =
            out == searched || (scan.below.components().count() > 1 && out.starts_with(&searched));
        is_among.then(|| messages::output_among_raw_data(&self.out, raw_data))
    }

    /// Splits a scan lazily into tasks. `warn` is called with what the recipes' checks find and do
    /// not refuse.
    ///
    /// # Errors
    /// Fails if the scan has no frames, if a recipe can't be applied to them, if no recipe is for
    /// the detector, and if the final file belongs to another scan or recipe.
    pub fn plan_scan(
        &mut self,
        scan: Scan,
        warn: &dyn Fn(&str),
    ) -> Result<impl Iterator<Item = Task> + use<>, PlanError> {
        let Scan { id, acquisition } = scan;
        let (entry, detector) = (acquisition.entry.clone(), acquisition.detector.clone());
        if acquisition.frames == 0 {
            return Err(PlanError::NoFrames { entry, detector });
        }
        if !acquisition.below.is_contained() {
            return Err(PlanError::EscapesOutput { path: acquisition.below });
        }
        let planned = self.recipes.for_detector(&detector)?;
        let mut of_scan = Vec::with_capacity(planned.len());
        for recipe in &planned {
            let with_name = |why: &str| match &recipe.name {
                Some(name) => format!("recipe {name}: {why}"),
                None => why.to_owned(),
            };
            let unsuitable = |UnsuitableScan { why, retryable }| PlanError::Unsuitable {
                entry: entry.clone(),
                detector: detector.clone(),
                why: with_name(&why),
                retryable,
            };
            let at_scan =
                recipe.at_scan(&acquisition, |why| warn(&with_name(why))).map_err(unsuitable)?;
            let recipe = at_scan.as_deref().unwrap_or(recipe);
            let checked = recipe.check_scan(&acquisition, |why| warn(&with_name(why)));
            checked.map_err(unsuitable)?;
            if let Some(at_scan) = &at_scan {
                at_scan.write()?;
            }
            of_scan.push(at_scan);
        }
        let planned: Vec<&PlannedRecipe> = planned
            .into_iter()
            .zip(&of_scan)
            .map(|(recipe, at_scan)| at_scan.as_deref().unwrap_or(recipe))
            .collect();
        // Recipes may become equal by what follows from the scan.
        check_distinct(&planned)?;
        let recipes: Vec<TaskRecipe> =
            planned.iter().map(|recipe| task_recipe(recipe, &acquisition)).collect();
        for TaskRecipe { final_file, .. } in &recipes {
            if final_file.file_name().is_some_and(|name| name.len() > MAX_NAME_BYTES) {
                let path = self.out.join(&**final_file);
                // One that an earlier version made can be continued.
                let is_there = match path.symlink_metadata() {
                    Err(why) if why.kind() == ErrorKind::NotFound => false,
                    Err(why) if why.kind() == ErrorKind::InvalidFilename => false,
                    found => {
                        found.map(|_| true).map_err(|why| PlanError::Unreadable { path, why })?
                    }
                };
                if !is_there {
                    let path = final_file.clone();
                    return Err(PlanError::LongName { entry, path, most: MAX_NAME_BYTES });
                }
            }
        }
        let mut claims = Vec::with_capacity(planned.len());
        for (TaskRecipe { final_file, .. }, planned) in recipes.iter().zip(&planned) {
            let owner = OutputOwner::new(&id, &acquisition, &planned.digest, final_file);
            let start_time = acquisition.start_time.clone();
            let claimant = Claimant { owner: owner.clone(), start_time, earlier: Vec::new() };
            if let Some(other) = self.claimed.get(final_file)
                && !other.may_be_replaced_by(&claimant)
            {
                let (path, other) = (final_file.clone(), other.owner.file.clone());
                return Err(PlanError::SameFinal { entry, path, other });
            }
            let other = self.claimed.remove(final_file);
            let earlier = other.as_ref().map(|other| other.owner.clone());
            let claimant = match other {
                Some(other) => claimant.in_place_of(other),
                None => claimant,
            };
            self.claimed.insert(final_file.clone(), claimant);
            claims.push((owner, earlier, &planned.recipe));
        }
        for (owner, earlier, recipe) in claims {
            self.claim_final(&owner, earlier.as_ref(), recipe)?;
        }
        let out = RawPath::from(self.out.clone());
        let split = split_scan(&acquisition, self.by);
        let absent_index = AbsentIndex::new(acquisition.absent);
        let absent_count = absent_index.count();
        let rest = Acquisition { sources: Vec::new(), absent: Vec::new(), ..acquisition };
        Ok(split.filter_map(move |frames| {
            let digests = recipes.iter().map(|recipe| recipe.recipe_digest.as_str());
            let absent = absent_index.select(&frames.range);
            let absent_elsewhere =
                absent_count - absent.iter().map(|absent| absent.range.count()).sum::<u64>();
            let task = Task {
                id: Task::compute_id(&id, digests, &frames.range),
                scan: id.clone(),
                out: out.clone(),
                bytes: frames.bytes(),
                range: frames.range.clone(),
                acquisition: Acquisition {
                    sources: frames.sources,
                    absent,
                    absent_elsewhere,
                    ..rest.clone()
                },
                ..Task::default()
            };
            task.with_recipes(recipes.iter().map(|recipe| TaskRecipe {
                part: Task::part_path(&id, &recipe.recipe_digest, &frames.range),
                ..recipe.clone()
            }))
        }))
    }

    /// Checks that the owner may write its final file, and records the owner if there was another one:
    /// a recorded one, or one that this run planned before, `earlier`.
    fn claim_final(
        &self,
        owner: &OutputOwner,
        earlier: Option<&OutputOwner>,
        recipe: &Recipe,
    ) -> Result<(), PlanError> {
        let path = self.out.join(&*owner.final_file);
        let unreadable = |why| PlanError::Unreadable { path: path.clone(), why };
        let entry = owner.entry.clone();
        let exists = match path.metadata() {
            Err(why) if why.kind() == ErrorKind::NotFound => false,
            found => {
                let is_file = found.map_err(unreadable)?.is_file();
                // gather opens the file, and would refuse it after everything was integrated.
                if !is_file || !ownership::mentions(&path, PROGRAM).map_err(unreadable)? {
                    return Err(PlanError::NotOwned { entry, path });
                }
                true
            }
        };
        let Some(recorded) = OutputOwner::read(&self.out, &owner.final_file).map_err(unreadable)?
        else {
            // gather decides about a final file without a recorded owner, unless --replace permits
            // it now, or there are two owners: the later one has it.
            let note = match earlier.filter(|earlier| !earlier.is_same_result(owner)) {
                _ if exists && self.replace => OutputOwner { replaces: None, ..owner.clone() },
                Some(earlier) => owner.clone().in_place_of(earlier),
                None => return Ok(()),
            };
            return note.write(&self.out).map_err(unreadable);
        };
        if recorded.is_same_result(owner) && recorded.file == owner.file {
            return if exists && self.replace {
                // Whatever it is: the file may have been moved there.
                OutputOwner { replaces: None, ..recorded }.write(&self.out).map_err(unreadable)
            } else {
                Ok(())
            };
        }
        if exists {
            let is_same_scan = match output_owners::compare_files(&recorded.file, &owner.file)
                .map_err(unreadable)?
            {
                FileRelation::SameFile => recorded.is_same_dataset(owner),
                FileRelation::Moved => recorded.scan == owner.scan,
                FileRelation::DifferentFiles => false,
            };
            if !is_same_scan {
                return Err(PlanError::OtherScan { entry, path, other: recorded.file });
            }
            if recorded.recipe_digest != owner.recipe_digest && !self.replace {
                let differences = self.differing_settings(&recorded.recipe_digest, recipe);
                return Err(PlanError::OtherSettings { entry, path, differences });
            }
        }
        owner.clone().in_place_of(&recorded).write(&self.out).map_err(unreadable)
    }

    /// Returns the settings in which a recipe differs from an earlier one, which is stored below
    /// the output root.
    fn differing_settings(&self, earlier_digest: &str, recipe: &Recipe) -> Vec<String> {
        let file = self.out.join(Recipe::file_name_for_digest(earlier_digest));
        let text = system::untrusted_file::read_text(&file).map_err(|why| why.to_string());
        match text.and_then(|text| {
            Recipe::parse(&text, &file, earlier_digest).map_err(|why| why.to_string())
        }) {
            Ok(earlier) => earlier.differences(recipe),
            Err(why) => vec![messages::earlier_recipe_unreadable(&file, &why)],
        }
    }
}

/// Returns the directory that scan-find searched: that of the master file without the directories
/// that `below` has. `None` for a file whose path does not end in `below`, or whose `below` begins
/// at the root of the file system.
fn searched_directory(scan: &Acquisition) -> Option<&Path> {
    let directory = scan.file.ancestors().nth(scan.below.components().count())?;
    (scan.file.ends_with(&*scan.below) && directory.parent().is_some()).then_some(directory)
}

/// Returns a recipe as the tasks of a scan refer to it, with an empty part path, which differs
/// between tasks.
fn task_recipe(recipe: &PlannedRecipe, scan: &Acquisition) -> TaskRecipe {
    TaskRecipe {
        recipe: recipe.file.clone(),
        recipe_digest: recipe.digest.clone(),
        part: RawPath::default(),
        final_file: final_path(scan, recipe.name.as_deref()),
    }
}
