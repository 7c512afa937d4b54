//! The recipes of a plan: resolved, named, and written below the output root.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use filter::atomic;
use filter::ownership::{self, OwnedFiles};
use geometry::{Detector, Poni, SensorMaterial, Unit, UnknownMaterial};
use integrator::PixelType;
use recipe::{Recipe, RecipeFile, Settings};
use records::{Acquisition, FrameLayout, RawPath};

use crate::monitors::Monitors;
use crate::names::plain;
use crate::plan::Error;

/// Stands in for a geometry that a recipe does not have yet.
const PLACEHOLDER: &str = "poni_version: 2\nDetector: Pilatus100k\nDetector_config: {}\nDistance: 1\nPoni1: 0\nPoni2: 0\n\
    Rot1: 0\nRot2: 0\nRot3: 0\nWavelength: 1e-10\n";

/// A recipe that the tasks of a plan name.
pub struct Planned {
    /// The resolved recipe's file, absolute.
    pub file: RawPath,
    /// Its digest.
    pub digest: String,
    /// What ends the names of its finals.
    pub name: Option<String>,
    /// All of it.
    pub recipe: Recipe,
    /// What it divides frames by.
    monitors: Monitors,
    /// Whether it can be applied to frames of a framing and type: asked once for all scans of such frames, for the recipe's images
    /// are read for it.
    verdicts: RefCell<HashMap<(FrameLayout, String), Result<(), String>>>,
}

impl Planned {
    /// Checks that a scan's frames can be integrated by it: what ai-integrate would refuse for the recipe's or the record's sake.
    ///
    /// # Errors
    /// What was found, and what was expected.
    pub fn check(&self, scan: &Acquisition) -> Result<(), String> {
        let kind = (scan.frame_layout(), scan.dtype.clone());
        let mut verdicts = self.verdicts.borrow_mut();
        verdicts.entry(kind).or_insert_with_key(|(framing, dtype)| self.check_kind(framing, dtype)).clone()?;
        self.monitors.check(scan)
    }

    fn check_kind(&self, scan: &FrameLayout, dtype: &str) -> Result<(), String> {
        let dtype: PixelType = dtype.parse().map_err(|why| format!("frames: {why}"))?;
        integrator::check(&self.recipe, &self.recipe.framing(scan), dtype).map_err(|why| why.to_string())
    }

    /// What is undone of what was done to such frames, in words; `None` where that is nothing.
    pub fn undoes(&self, scan: &FrameLayout) -> Option<String> {
        let operation = scan.operation.as_ref().filter(|_| self.recipe.framing(scan) == *scan)?;
        Some(operation.describe())
    }
}

/// The recipes of a plan, by the detector that they are for.
pub struct Recipes(Vec<Sheet>);

/// A recipe file, and what each of its sections comes to.
struct Sheet {
    file: RecipeFile,
    planned: Vec<(Option<String>, Planned)>,
}

impl Recipes {
    /// Resolves the recipe of each file, or the one that the flags alone say, and writes it below `out`. What
    /// the flags say holds for all of them. Several recipes are called by `names`, in order, or else as their files.
    /// `remark` is told what a file says that is not taken over as it stands.
    ///
    /// # Errors
    /// A recipe that is wrong or not complete, or there twice; a PONI that can't be used; names that don't tell the
    /// recipes apart; an output root that can't be written.
    pub fn resolve(
        files: &[PathBuf],
        names: &[String],
        flags: &Settings,
        out: &Path,
        remark: impl Fn(&str),
    ) -> Result<Self, Error> {
        let names = named(files, names)?;
        let mut sheets: Vec<Sheet> = Vec::with_capacity(names.len());
        for (file, name) in read(files, remark)?.into_iter().zip(names) {
            let mut planned = Vec::new();
            for (section, settings) in file.sections() {
                let recipe = resolve_section(&file, settings, flags)?;
                let monitors = Monitors::read(&recipe)?;
                let digest = recipe.digest();
                let path = out.join(recipe.file_name());
                let text = recipe.to_toml();
                // What ai-integrate could not read is known here, and not when the first job starts.
                Recipe::parse(&text, &path, &digest)?;
                write(&path, &text).map_err(|why| Error::Write { path: path.clone(), why })?;
                let (file, name, verdicts) = (path.into(), name.clone(), RefCell::default());
                let recipe = Planned { file, digest, name, recipe, monitors, verdicts };
                planned.push((section.map(str::to_owned), recipe));
            }
            sheets.push(Sheet { file, planned });
        }
        let recipes = Self(sheets);
        let alike = |sheet: &Sheet| matches!(&sheet.planned[..], [(None, _)]);
        if recipes.0.iter().all(alike) {
            // What holds for every detector is known to be right before the first scan.
            recipes.of("")?;
        }
        Ok(recipes)
    }

    /// Whether one of them divides by a monitor.
    pub fn have_monitors(&self) -> bool {
        self.0.iter().flat_map(|sheet| &sheet.planned).any(|(_, planned)| !planned.recipe.monitor.is_empty())
    }

    /// The recipes for scans of a detector.
    ///
    /// # Errors
    /// No section is for it, or several are; two recipes are the same.
    pub fn of(&self, detector: &str) -> Result<Vec<&Planned>, Error> {
        let mut found: Vec<&Planned> = Vec::new();
        let mut for_others = None;
        for Sheet { file, planned } in &self.0 {
            let section = match file.section_for(detector) {
                Ok(section) => section,
                Err(why) if RecipeFile::is_no_section_error(&why) => {
                    for_others = Some(why);
                    continue;
                }
                Err(why) => return Err(why.into()),
            };
            let (_, recipe) =
                planned.iter().find(|(name, _)| name.as_deref() == section).expect("every section was resolved");
            if let Some(same) = found.iter().find(|other| other.digest == recipe.digest) {
                let [one, other] = [*same, recipe].map(|recipe| recipe.name.as_deref().unwrap_or("one"));
                return Err(Error::Names { why: format!("{one} and {other} are the same") });
            }
            found.push(recipe);
        }
        match for_others {
            Some(why) if found.is_empty() => Err(why.into()),
            _ => Ok(found),
        }
    }
}

/// Resolves a section of a recipe file with the flags, and checks the files that it names.
fn resolve_section(file: &RecipeFile, settings: Settings, flags: &Settings) -> Result<Recipe, Error> {
    let blame = |why| match why {
        Error::Recipe(why) => Error::Recipe(file.with_file_name(why, flags)),
        other => other,
    };
    let recipe = Recipe::resolve(&flags.clone().with_defaults(settings)).map_err(Error::from);
    let recipe = recipe.and_then(with_detector).map_err(blame)?;
    integrator::check_files(&recipe).map_err(|why| blame(why.into()))?;
    Ok(recipe)
}

/// Checks a recipe file that is printed and not applied: returns what keeps its sections from being applied here. A recipe without a
/// geometry is a template; its other files are checked all the same.
pub fn check_printed(file: &RecipeFile, flags: &Settings) -> Vec<String> {
    let check = |(_, mut settings): (_, Settings)| {
        if [flags, &settings].iter().all(|given| given.poni.is_none() && given.geometry.is_none()) {
            settings.geometry = Some(PLACEHOLDER.to_owned());
        }
        resolve_section(file, settings, flags).err().map(|why| why.to_string())
    };
    let mut found: Vec<String> = file.sections().into_iter().filter_map(check).collect();
    found.dedup();
    found
}

/// The recipe files; an empty one for flags alone.
///
/// # Errors
/// As [`RecipeFile::read`].
pub fn read(files: &[PathBuf], remark: impl Fn(&str)) -> Result<Vec<RecipeFile>, Error> {
    let read = |path: &PathBuf| -> Result<RecipeFile, Error> {
        let file = RecipeFile::read(path)?;
        file.remarks().iter().for_each(|said| remark(&format!("{}: {said}", path.display())));
        Ok(file)
    };
    match files {
        [] => Ok(vec![RecipeFile::default()]),
        files => files.iter().map(read).collect(),
    }
}

/// A name for each recipe; one alone needs none.
fn named(files: &[PathBuf], names: &[String]) -> Result<Vec<Option<String>>, Error> {
    let count = files.len().max(1);
    let named: Vec<Option<String>> = match names {
        [] if count == 1 => vec![None],
        [] => files.iter().map(|file| file.file_stem().map(|stem| stem.to_string_lossy().into_owned())).collect(),
        names if names.len() == count => {
            if let Some(wrong) = names.iter().find(|name| name.is_empty() || plain(name) != **name) {
                let why = format!(
                    "--recipe-name {wrong:?}: expected a part of a file name, without `/` and control characters"
                );
                return Err(Error::Names { why });
            }
            names.iter().cloned().map(Some).collect()
        }
        names => {
            let why = format!("{} names (--recipe-name) for {count} recipes: expected one each, in order", names.len());
            return Err(Error::Names { why });
        }
    };
    let in_files: Vec<String> = named.iter().flatten().map(|name| plain(name)).collect();
    if let Some(twice) = (1..in_files.len()).find(|&index| in_files[..index].contains(&in_files[index])) {
        let why = format!("two are called `{}`: give each a name (--recipe-name), in order", in_files[twice]);
        return Err(Error::Names { why });
    }
    Ok(named)
}

/// Checks a recipe's geometry, and completes it: a detector file that the PONI names becomes part of the recipe, and any other
/// detector is spelt in one way.
fn with_detector(recipe: Recipe) -> Result<Recipe, Error> {
    let poni_file = recipe.poni_label();
    let wrong = |why: String| Error::Geometry { poni: poni_file.clone(), why };
    let poni = Poni::parse(&recipe.poni).map_err(|why| wrong(why.to_string()))?;
    let unit: Unit =
        recipe.unit.parse().map_err(|why| recipe::RecipeError::Setting { key: "unit", why: format!("{why}") })?;
    if unit.needs_wavelength() && poni.wavelength.is_none() {
        return Err(wrong(format!("unit {unit} needs the wavelength, and the PONI has none")));
    }
    if let Some(sensor) = &recipe.sensor {
        let wrong = |why: String| recipe::RecipeError::Setting { key: "sensor", why: format!("{sensor}: {why}") };
        let material: SensorMaterial =
            sensor.material.parse().map_err(|why: UnknownMaterial| wrong(why.to_string()))?;
        let wavelength = poni.wavelength.ok_or_else(|| wrong("needs the wavelength, and the PONI has none".into()))?;
        material.attenuation_coefficient(wavelength).map_err(|why| wrong(why.to_string()))?;
    }
    match poni.detector.file() {
        Some(file) => Ok(recipe.with_detector_file(Path::new(file))?),
        None => {
            let detector = Detector::from_poni(&poni).map_err(|why| wrong(why.to_string()))?;
            Ok(spelt(recipe, &poni, &detector))
        }
    }
}

/// The recipe with its detector spelt as the table of detectors has it. What version 1 says of a detector stands in
/// keys of its own, and is left as it is.
fn spelt(recipe: Recipe, poni: &Poni, detector: &Detector) -> Recipe {
    if poni.detector.is_version_1() {
        return recipe;
    }
    // What a detector has anyway need not be said.
    let own = Detector::by_name(&detector.name).ok();
    let config = &poni.detector.config;
    let mut said = serde_json::json!({ "orientation": detector.orientation.number() });
    let sizes = [
        ("pixel1", config.pixel1, own.as_ref().map(|own| own.pixel1)),
        ("pixel2", config.pixel2, own.as_ref().map(|own| own.pixel2)),
    ];
    for (key, size, own) in sizes {
        size.filter(|_| size != own).into_iter().for_each(|size| said[key] = size.into());
    }
    let shape = config.max_shape.filter(|_| config.max_shape != own.and_then(|own| own.shape));
    shape.into_iter().for_each(|shape| said["max_shape"] = shape.to_vec().into());
    recipe.with_canonical_detector(&detector.name, &said)
}

/// The same recipe may be there already, written for files that lay elsewhere: the newest paths win.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    atomic::remove_stale_files_once(path.parent().unwrap_or(Path::new("")));
    if filter::untrusted_file::read_text(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    ownership::create_directories(path.parent().unwrap_or(Path::new("")))?;
    atomic::write(path, text, &OwnedFiles::in_azpipe_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[&str], names: &[&str]) -> Result<Vec<Option<String>>, String> {
        let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        named(&files, &names).map_err(|why| why.to_string())
    }

    #[test]
    fn recipes_are_called_as_told_or_as_their_files() {
        let some = |names: [&str; 2]| Ok(names.map(|name| Some(name.to_owned())).to_vec());
        assert_eq!(of(&[], &[]), Ok(vec![None]));
        assert_eq!(of(&["a.toml"], &[]), Ok(vec![None]));
        assert_eq!(of(&[], &["fine"]), Ok(vec![Some("fine".to_owned())]));
        assert_eq!(of(&["a.toml", "d/b.toml"], &[]), some(["a", "b"]));
        assert_eq!(of(&["a.toml", "a.toml"], &["x", "y"]), some(["x", "y"]));
    }

    #[test]
    fn names_that_do_not_tell_recipes_apart_are_refused() {
        assert!(of(&["a.toml", "d/a.toml"], &[]).unwrap_err().contains("two are called `a`"));
        assert!(of(&["a.toml", "b.toml"], &["x_y", "x_y"]).unwrap_err().contains("two are called `x_y`"));
        assert!(of(&["a.toml", "b.toml"], &["x"]).unwrap_err().contains("1 names (--recipe-name) for 2 recipes"));
        assert!(of(&[], &["x", "y"]).unwrap_err().contains("2 names"));
    }

    #[test]
    fn a_name_that_is_no_part_of_a_file_name_is_refused() {
        for name in ["a/b", "/", "a\nb", ""] {
            let why = of(&[], &[name]).unwrap_err();
            assert!(why.contains(&format!("--recipe-name {name:?}: expected a part of a file name")), "{why}");
        }
        assert_eq!(of(&[], &["..a b é"]), Ok(vec![Some("..a b é".to_owned())]));
    }
}
