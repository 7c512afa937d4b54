//! Scan records to task records.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use owners::{FileRelation, OutputOwner};
use recipe::{Recipe, Settings};
use records::{Acquisition, RawPath, Scan, Task, TaskRecipe};

use crate::absent::AbsentIndex;
use crate::args::Args;
use crate::cut::{By, cut};
use crate::names::final_path;
use crate::recipes::{Planned, Recipes};

/// Why there is no plan, or none for a scan.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The recipe is not complete, or wrong.
    #[error(transparent)]
    Recipe(#[from] recipe::RecipeError),
    /// Several recipes that can't be told apart.
    #[error("recipes: {why}")]
    Names {
        /// What is wrong.
        why: String,
    },
    /// The PONI file, its detector or the unit is not one that can be used.
    #[error("{}: {why}", poni.display())]
    Geometry {
        /// The PONI file.
        poni: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A file of the recipe is not what it is named as.
    #[error(transparent)]
    File(#[from] integrator::IntegratorError),
    /// The values of a monitor can't be read.
    #[error("monitor {0}")]
    Monitor(#[from] frames::hdf5_array::Hdf5ArrayError),
    /// The output root can't be written.
    #[error("{}: {why}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        why: std::io::Error,
    },
    /// The recipe can't be applied to the scan's frames.
    #[error("entry {entry}, detector {detector}: {why}")]
    Fit {
        /// The scan's entry.
        entry: String,
        /// The scan's detector.
        detector: String,
        /// What the recipe says, and what the scan has.
        why: String,
    },
    /// Another scan has the same final.
    #[error("entry {entry}: its result would be {}, which is that of {} too; give their results different --out", path.display(), other.display())]
    Meets {
        /// The scan's entry.
        entry: String,
        /// The final, below the output root.
        path: RawPath,
        /// The master file of the other scan.
        other: RawPath,
    },
    /// The final was made by another recipe.
    #[error(
        "entry {entry}: {} was made with other settings ({}): --replace redoes it with these, --recipe-name keeps both",
        path.display(), differences.join("; ")
    )]
    Settings {
        /// The scan's entry.
        entry: String,
        /// The final.
        path: PathBuf,
        /// The settings that differ, by name.
        differences: Vec<String>,
    },
    /// The final was made of another file.
    #[error(
        "entry {entry}: {} is the result of {}, which is another scan: give their results different --out, or name a \
         directory above both to scan-find",
        path.display(), other.display()
    )]
    Taken {
        /// The scan's entry.
        entry: String,
        /// The final.
        path: PathBuf,
        /// The file that it was made of.
        other: RawPath,
    },
    /// What is where the final is to be can't be looked at.
    #[error("{}: {why}", path.display())]
    Look {
        /// The final.
        path: PathBuf,
        /// What the system says.
        why: std::io::Error,
    },
    /// A path in the record would lead out of the output root.
    #[error("`below` is {}: expected a path below the operand, without `..`", path.display())]
    Outside {
        /// The path.
        path: RawPath,
    },
    /// The scan has no frames.
    #[error("entry {entry}, detector {detector}: no frames")]
    NoFrames {
        /// The scan's entry.
        entry: String,
        /// The scan's detector.
        detector: String,
    },
}

/// The recipes, one output root, and the finals that are spoken for.
pub struct Planner {
    out: PathBuf,
    by: By,
    recipes: Recipes,
    /// Whether results of other settings give way.
    replace: bool,
    finals: HashMap<RawPath, (String, RawPath)>,
    /// What was said of frames that are put back on the whole detector, and not to be said again.
    said: HashSet<String>,
    /// The directories of raw data that the output root was held against.
    raw_data: HashSet<PathBuf>,
}

impl Planner {
    /// Resolves the recipes and writes them below the output root. `remark` is told what a recipe says that is not taken
    /// over as it stands.
    ///
    /// # Errors
    /// A recipe that is wrong or not complete, a PONI that can't be used, an output root that can't be written.
    pub fn new(args: Args, remark: impl Fn(&str)) -> Result<Self, Error> {
        let out = args.out.unwrap_or_default();
        let out = std::path::absolute(&out).map_err(|why| Error::Write { path: out.clone(), why })?;
        let flags = Settings::from(args.flags);
        let recipes = Recipes::resolve(&args.recipe, &args.recipe_name, &flags, &out, remark)?;
        Ok(Self {
            out,
            by: args.by,
            recipes,
            replace: args.replace,
            finals: HashMap::new(),
            said: HashSet::new(),
            raw_data: HashSet::new(),
        })
    }

    /// Whether a recipe divides by a counter of the scan.
    pub fn has_monitors(&self) -> bool {
        self.recipes.have_monitors()
    }

    /// What is undone of what was done to the frames of such a scan, where that has not been said yet.
    pub fn undone(&mut self, scan: &Acquisition) -> Option<String> {
        let framing = scan.frame_layout();
        let done = self.recipes.of(&scan.detector).ok()?.into_iter().find_map(|recipe| recipe.undoes(&framing))?;
        let said = format!(
            "detector {}: Lima saved its frames {done}: they are put back on the whole detector; --image-operation off \
             takes the PONI for one of the frames as they are saved",
            scan.detector
        );
        self.said.insert(said.clone()).then_some(said)
    }

    /// Returns a warning where results will lie among raw data: in the directory that scan-find searched for such a scan, or beside its
    /// master file; `None` where it has been said.
    pub fn warn_of_raw_data(&mut self, scan: &Acquisition) -> Option<String> {
        let raw_data = searched_directory(scan)?;
        if !self.raw_data.insert(raw_data.to_owned()) {
            return None;
        }
        // A directory that can't be looked at is compared by its name.
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let (out, searched) = (real(&self.out), real(raw_data));
        // A file of the searched directory itself may have been named alone, and a directory for results beside it is no harm.
        let is_among = out == searched || (scan.below.components().count() > 1 && out.starts_with(&searched));
        is_among.then(|| {
            let (out, raw_data) = (self.out.display(), raw_data.display());
            format!("--out {out} is among the raw data in {raw_data}, and so will the results be; give --out a directory elsewhere")
        })
    }

    /// The tasks of a scan, made as they are asked for.
    ///
    /// # Errors
    /// The scan has no frames, frames of another shape than the detector, a detector that no recipe is for, or a final
    /// that is taken.
    pub fn tasks(&mut self, scan: Scan) -> Result<impl Iterator<Item = Task> + use<>, Error> {
        let Scan { id, acquisition } = scan;
        let (entry, detector) = (acquisition.entry.clone(), acquisition.detector.clone());
        if acquisition.frames == 0 {
            return Err(Error::NoFrames { entry, detector });
        }
        if !acquisition.below.is_contained() {
            return Err(Error::Outside { path: acquisition.below });
        }
        let planned = self.recipes.of(&detector)?;
        for recipe in &planned {
            // Of several recipes, which one.
            let named =
                |why: String| recipe.name.as_ref().map_or_else(|| why.clone(), |name| format!("recipe {name}: {why}"));
            let unfit = |why| Error::Fit { entry: entry.clone(), detector: detector.clone(), why: named(why) };
            recipe.check(&acquisition).map_err(unfit)?;
        }
        let recipes: Vec<TaskRecipe> = planned.iter().map(|recipe| of_task(recipe, &acquisition)).collect();
        for TaskRecipe { final_file, .. } in &recipes {
            match self.finals.get(final_file) {
                Some((taken, other)) if *taken != id || *other != acquisition.file => {
                    return Err(Error::Meets { entry, path: final_file.clone(), other: other.clone() });
                }
                _ => self.finals.insert(final_file.clone(), (id.clone(), acquisition.file.clone())),
            };
        }
        for (TaskRecipe { final_file, .. }, planned) in recipes.iter().zip(&planned) {
            let owner = OutputOwner::new(&id, &acquisition, &planned.digest, final_file);
            self.claim(&owner, &planned.recipe)?;
        }
        let out = RawPath::from(self.out.clone());
        let cuts = cut(&acquisition, self.by);
        let absent = AbsentIndex::new(acquisition.absent);
        let lost = absent.count();
        let rest = Acquisition { sources: Vec::new(), absent: Vec::new(), ..acquisition };
        Ok(cuts.filter_map(move |cut| {
            let digests = recipes.iter().map(|recipe| recipe.recipe_digest.as_str());
            let own = absent.select(&cut.range);
            let absent_elsewhere = lost - own.iter().map(|absent| absent.range.count()).sum::<u64>();
            let task = Task {
                id: Task::compute_id(&id, digests, &cut.range),
                scan: id.clone(),
                out: out.clone(),
                bytes: cut.bytes(),
                range: cut.range.clone(),
                acquisition: Acquisition { sources: cut.sources, absent: own, absent_elsewhere, ..rest.clone() },
                ..Task::default()
            };
            task.with_recipes(recipes.iter().map(|recipe| TaskRecipe {
                part: Task::part_path(&id, &recipe.recipe_digest, &cut.range),
                ..recipe.clone()
            }))
        }))
    }
}

impl Planner {
    /// Checks that a final is the owner's to make, and notes that it is where it was another's.
    fn claim(&self, owner: &OutputOwner, recipe: &Recipe) -> Result<(), Error> {
        let path = self.out.join(&*owner.final_file);
        let look = |why| Error::Look { path: path.clone(), why };
        let entry = owner.entry.clone();
        let is_there = path.try_exists().map_err(look)?;
        let Some(noted) = OutputOwner::read(&self.out, &owner.final_file).map_err(look)? else {
            // A final without a note is gather's to judge, unless it is told now that it may go.
            return if is_there && self.replace { owner.write(&self.out).map_err(look) } else { Ok(()) };
        };
        if noted.is_same_result(owner) && noted.file == owner.file {
            return Ok(());
        }
        if is_there {
            let is_same = match owners::compare_files(&noted.file, &owner.file).map_err(look)? {
                FileRelation::SameFile => noted.is_same_dataset(owner),
                FileRelation::Moved => noted.scan == owner.scan,
                FileRelation::DifferentFiles => false,
            };
            if !is_same {
                return Err(Error::Taken { entry, path, other: noted.file });
            }
            if noted.recipe_digest != owner.recipe_digest && !self.replace {
                let differences = self.differences(&noted.recipe_digest, recipe);
                return Err(Error::Settings { entry, path, differences });
            }
        }
        owner.write(&self.out).map_err(look)
    }

    /// The settings in which a recipe differs from one that was written below the output root before.
    fn differences(&self, before: &str, now: &Recipe) -> Vec<String> {
        let file = self.out.join(Recipe::file_name_for_digest(before));
        let text = filter::untrusted_file::read_text(&file).map_err(|why| why.to_string());
        match text.and_then(|text| Recipe::parse(&text, &file, before).map_err(|why| why.to_string())) {
            Ok(before) => before.differences(now),
            Err(why) => vec![format!("of recipe {}, which can't be read: {why}", file.display())],
        }
    }
}

/// Returns the directory that scan-find searched: that of the master file, without the part that `below` names. `None` for a file that
/// lies elsewhere, whose `below` counts from the root of the file system or is no end of its path.
fn searched_directory(scan: &Acquisition) -> Option<&Path> {
    let directory = scan.file.ancestors().nth(scan.below.components().count())?;
    (scan.file.ends_with(&*scan.below) && directory.parent().is_some()).then_some(directory)
}

/// A recipe as the tasks of a scan name it, but for the part.
fn of_task(recipe: &Planned, scan: &Acquisition) -> TaskRecipe {
    TaskRecipe {
        recipe: recipe.file.clone(),
        recipe_digest: recipe.digest.clone(),
        part: RawPath::default(),
        final_file: final_path(scan, recipe.name.as_deref()),
    }
}
