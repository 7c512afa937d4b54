//! The recipes of a plan: resolved, named, and written below the output root.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use geometry::{Detector, GeometryError, Poni, SensorMaterial, UnknownMaterial};
use recipe::{Recipe, RecipeError, RecipeFile, Settings};
use records::format_count;

use crate::final_path::replace_separators;
use crate::moving_geometry;
use crate::plan_error::PlanError;
use crate::planned_recipe::PlannedRecipe;

/// A geometry for checking recipe files that have none.
const PLACEHOLDER_PONI: &str = "poni_version: 2\nDetector: Pilatus100k\nDetector_config: {}\nDistance: 1\nPoni1: 0\nPoni2: 0\n\
    Rot1: 0\nRot2: 0\nRot3: 0\nWavelength: 1e-10\n";

/// The recipes of a plan, by recipe file and detector.
pub struct PlannedRecipes(Vec<RecipeSections>);

/// A recipe file and its sections, each resolved. A file without sections has one recipe, without a
/// name.
struct RecipeSections {
    file: RecipeFile,
    sections: Vec<(Option<String>, PlannedRecipe)>,
}

impl PlannedRecipes {
    /// Resolves the recipes of all files, or one from the flags alone, and writes them below `out`
    /// if there is one. Flags override all files. Several recipes are named by `names`, in order,
    /// or after their files. `warn` is called for each key of a file that is not taken over
    /// unchanged, and for what may be a mistake in a PONI file.
    ///
    /// # Errors
    /// Fails if a recipe is incomplete or invalid, if two recipes are equal or have equal names, if
    /// a file of a recipe can't be used, and if the output root can't be written.
    pub fn resolve(
        files: &[PathBuf],
        names: &[String],
        flags: &Settings,
        out: Option<&Path>,
        warn: impl Fn(&str),
    ) -> Result<Self, PlanError> {
        let names = recipe_names(files, names)?;
        let mut recipes: Vec<RecipeSections> = Vec::with_capacity(names.len());
        let mut warned = HashSet::new();
        for (file, name) in read_recipe_files(files, &warn)?.into_iter().zip(names) {
            let mut sections = Vec::new();
            for (section, settings) in file.sections() {
                let table = flags.poni_table.as_ref().or(settings.poni_table.as_ref()).cloned();
                let recipe = resolve_section(&file, settings, flags)?;
                for remark in remarks_on_poni(&recipe) {
                    if warned.insert(remark.clone()) {
                        warn(&remark);
                    }
                }
                let recipe = PlannedRecipe::new(recipe, table, name.clone(), out)?;
                sections.push((section.map(str::to_owned), recipe));
            }
            recipes.push(RecipeSections { file, sections });
        }
        let recipes = Self(recipes);
        let is_for_all = |recipe: &RecipeSections| matches!(&recipe.sections[..], [(None, _)]);
        if recipes.0.iter().all(is_for_all) {
            // The recipes are the same for every detector, so equal ones are found before the first
            // scan.
            recipes.for_detector("")?;
        }
        Ok(recipes)
    }

    /// Returns the paths of all files that the recipes were made from.
    pub fn file_paths(&self) -> impl Iterator<Item = &Path> {
        let sections = self.0.iter().flat_map(|file| &file.sections);
        sections.flat_map(|(_, planned)| planned.file_paths())
    }

    /// Returns whether any recipe divides by a monitor.
    pub fn have_monitors(&self) -> bool {
        self.0
            .iter()
            .flat_map(|file| &file.sections)
            .any(|(_, planned)| !planned.recipe.monitor.is_empty())
    }

    /// Returns the recipes for scans of a detector.
    ///
    /// # Errors
    /// Fails if no recipe file has a section for the detector, if one has several, and if two
    /// recipes are equal.
    pub fn for_detector(&self, detector: &str) -> Result<Vec<&PlannedRecipe>, PlanError> {
        let mut found: Vec<&PlannedRecipe> = Vec::new();
        let mut no_section_error = None;
        for RecipeSections { file, sections } in &self.0 {
            let section = match file.section_for(detector) {
                Ok(section) => section,
                Err(why) if RecipeFile::is_no_section_error(&why) => {
                    no_section_error = Some(why);
                    continue;
                }
                Err(why) => return Err(why.into()),
            };
            let (_, recipe) = sections
                .iter()
                .find(|(name, _)| name.as_deref() == section)
                .expect("every section was resolved");
            found.push(recipe);
        }
        check_distinct(&found)?;
        match no_section_error {
            Some(why) if found.is_empty() => Err(why.into()),
            _ => Ok(found),
        }
    }
}

/// Checks that no two recipes of a scan are equal: they would have one result.
///
/// # Errors
/// Two recipes are equal.
pub fn check_distinct(recipes: &[&PlannedRecipe]) -> Result<(), PlanError> {
    for (index, recipe) in recipes.iter().enumerate() {
        if let Some(equal) = recipes[..index].iter().find(|other| other.digest == recipe.digest) {
            let [one, other] =
                [*equal, *recipe].map(|recipe| recipe.name.clone().unwrap_or_default());
            return Err(PlanError::EqualRecipes { one, other });
        }
    }
    Ok(())
}

/// Resolves a section of a recipe file with the flags, and checks the files that the recipe names.
fn resolve_section(
    file: &RecipeFile,
    settings: Settings,
    flags: &Settings,
) -> Result<Recipe, PlanError> {
    let with_file_name = |why| match why {
        PlanError::Recipe(why) => PlanError::Recipe(file.with_file_name(why, flags)),
        other => other,
    };
    let settings = flags.clone().with_defaults(settings);
    let recipe = Recipe::resolve(&settings).map_err(PlanError::from);
    let complete = |recipe| with_detector(recipe, settings.poni_detector.is_some());
    let mut recipe = recipe.and_then(complete).map_err(with_file_name)?;
    recipe.add_linked_files(|image| Ok(integrator::linked_files(image))).map_err(with_file_name)?;
    moving_geometry::check(&recipe).map_err(with_file_name)?;
    integrator::check_files(&recipe).map_err(|why| with_file_name(why.into()))?;
    Ok(recipe)
}

/// Returns what may be a mistake in the PONI file of a recipe.
fn remarks_on_poni(recipe: &Recipe) -> Vec<String> {
    let file = recipe.poni_label();
    let remarks = Poni::parse(&recipe.poni).map(|poni| poni.remarks()).unwrap_or_default();
    remarks.into_iter().map(|remark| format!("{}: {remark}", file.display())).collect()
}

/// Checks a recipe file that is printed and not applied, and returns the reasons why it could not
/// be applied here. A file without a geometry is a template; its other settings are checked.
pub fn check_printed_recipe(file: &RecipeFile, flags: &Settings) -> Vec<String> {
    let check = |(_, mut settings): (_, Settings)| {
        if [flags, &settings].iter().all(|given| {
            let ponis = [&given.poni, &given.poni_table, &given.goniometer];
            ponis.into_iter().all(Option::is_none) && given.geometry.is_none()
        }) {
            settings.geometry = Some(PLACEHOLDER_PONI.to_owned());
        }
        resolve_section(file, settings, flags).err().map(|why| why.to_string())
    };
    let mut reasons: Vec<String> = file.sections().into_iter().filter_map(check).collect();
    reasons.dedup();
    reasons
}

/// Reads recipe files; without any, returns an empty one for the flags alone.
///
/// # Errors
/// Fails as [`RecipeFile::read`] does.
pub fn read_recipe_files(
    files: &[PathBuf],
    warn: impl Fn(&str),
) -> Result<Vec<RecipeFile>, PlanError> {
    if files.is_empty() {
        return Ok(vec![RecipeFile::default()]);
    }
    let mut read = Vec::with_capacity(files.len());
    for path in files {
        let file = RecipeFile::read(path)?;
        for remark in file.remarks() {
            warn(&format!("{}: {remark}", path.display()));
        }
        read.push(file);
    }
    Ok(read)
}

/// Returns the name of each recipe. A single recipe needs none.
fn recipe_names(files: &[PathBuf], flags: &[String]) -> Result<Vec<Option<String>>, PlanError> {
    let count = files.len().max(1);
    let names: Vec<Option<String>> = match flags {
        [] if count == 1 => vec![None],
        [] => files
            .iter()
            .map(|file| file.file_stem().map(|stem| stem.to_string_lossy().into_owned()))
            .collect(),
        flags if flags.len() == count => {
            if let Some(wrong) =
                flags.iter().find(|name| name.is_empty() || replace_separators(name) != **name)
            {
                let why = format!(
                    "{wrong:?}: expected part of a file name, without `/` and control characters"
                );
                return Err(PlanError::RecipeNames(why));
            }
            flags.iter().cloned().map(Some).collect()
        }
        flags => {
            let (names, recipes) =
                (format_count(flags.len(), "name"), format_count(count, "recipe"));
            return Err(PlanError::RecipeNames(format!(
                "{names} for {recipes}: expected one for each, in order"
            )));
        }
    };
    let in_files: Vec<String> =
        names.iter().flatten().map(|name| replace_separators(name)).collect();
    if let Some(second) =
        (1..in_files.len()).find(|&index| in_files[..index].contains(&in_files[index]))
    {
        let why = format!(
            "two recipes are called `{}`; pass --recipe-name once for each, in order",
            in_files[second]
        );
        return Err(PlanError::RecipeNames(why));
    }
    Ok(names)
}

/// Checks a recipe's geometry and completes it: a detector file that the PONI file names becomes
/// part of the recipe, and the name of any other detector gets its canonical spelling.
/// `is_replaced` is true if the setting poni-detector replaces the detector of the PONI file.
fn with_detector(recipe: Recipe, is_replaced: bool) -> Result<Recipe, PlanError> {
    let poni_file = recipe.poni_label();
    let wrong = |why: String| PlanError::Geometry { poni: poni_file.clone(), why };
    let poni = Poni::parse(&recipe.poni).map_err(|why| wrong(why.to_string()))?;
    if recipe.unit.needs_wavelength() && poni.wavelength.is_none() {
        return Err(wrong(GeometryError::NoWavelength(recipe.unit).to_string()));
    }
    if let Some(sensor) = &recipe.sensor {
        let wrong =
            |why: String| RecipeError::Setting { key: "sensor", why: format!("{sensor}: {why}") };
        let material: SensorMaterial =
            sensor.material.parse().map_err(|why: UnknownMaterial| wrong(why.to_string()))?;
        let wavelength = poni.wavelength.ok_or_else(|| {
            wrong(
                "the absorption needs a wavelength, and the PONI file gives none; add `Wavelength: METRES` to it"
                    .into(),
            )
        })?;
        material.attenuation_coefficient(wavelength).map_err(|why| wrong(why.to_string()))?;
    }
    match poni.detector.file() {
        Some(file) => Ok(recipe.with_detector_file(Path::new(file))?),
        None => {
            let detector = Detector::from_poni(&poni).map_err(|why| match is_replaced {
                true => RecipeError::Setting { key: "poni-detector", why: why.to_string() }.into(),
                false => wrong(why.to_string()),
            })?;
            Ok(with_canonical_detector(recipe, &poni, &detector))
        }
    }
}

/// Spells the detector as the table of detectors does, so that equal geometries have equal digests.
/// A PONI file of version 1 describes its detector by other keys, and is left unchanged.
fn with_canonical_detector(recipe: Recipe, poni: &Poni, detector: &Detector) -> Recipe {
    if poni.detector.is_version_1() {
        return recipe;
    }
    // Settings that the detector has by default are left out.
    let default = Detector::by_name(&detector.name).ok();
    let config = &poni.detector.config;
    let mut config_json = serde_json::json!({ "orientation": detector.orientation.number() });
    let sizes = [
        ("pixel1", config.pixel1, default.as_ref().map(|detector| detector.pixel1)),
        ("pixel2", config.pixel2, default.as_ref().map(|detector| detector.pixel2)),
    ];
    for (key, size, default) in sizes {
        if let Some(size) = size.filter(|_| size != default) {
            config_json[key] = size.into();
        }
    }
    let default_shape = default.and_then(|detector| detector.shape);
    if let Some(shape) = config.max_shape.filter(|_| config.max_shape != default_shape) {
        config_json["max_shape"] = shape.to_vec().into();
    }
    if let Some(sensor) = &poni.parallax {
        config_json["sensor"] = serde_json::json!({ "material": sensor.material.name() });
        if let Some(thickness) = sensor.thickness {
            config_json["sensor"]["thickness"] = thickness.into();
        }
    }
    recipe.with_canonical_detector(&detector.name, &config_json)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of(files: &[&str], names: &[&str]) -> Result<Vec<Option<String>>, String> {
        let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        recipe_names(&files, &names).map_err(|why| why.to_string())
    }

    #[test]
    fn recipes_are_named_by_flags_or_after_their_files() {
        let some = |names: [&str; 2]| Ok(names.map(|name| Some(name.to_owned())).to_vec());
        assert_eq!(names_of(&[], &[]), Ok(vec![None]));
        assert_eq!(names_of(&["a.toml"], &[]), Ok(vec![None]));
        assert_eq!(names_of(&[], &["fine"]), Ok(vec![Some("fine".to_owned())]));
        assert_eq!(names_of(&["a.toml", "d/b.toml"], &[]), some(["a", "b"]));
        assert_eq!(names_of(&["a.toml", "a.toml"], &["x", "y"]), some(["x", "y"]));
    }

    #[test]
    fn equal_or_missing_names_are_refused() {
        assert!(
            names_of(&["a.toml", "d/a.toml"], &[])
                .unwrap_err()
                .contains("two recipes are called `a`")
        );
        assert!(
            names_of(&["a.toml", "b.toml"], &["x_y", "x_y"])
                .unwrap_err()
                .contains("two recipes are called `x_y`")
        );
        assert!(
            names_of(&["a.toml", "b.toml"], &["x"])
                .unwrap_err()
                .contains("--recipe-name: 1 name for 2 recipes")
        );
        assert!(names_of(&[], &["x", "y"]).unwrap_err().contains("2 names"));
    }

    #[test]
    fn a_name_with_a_separator_is_refused() {
        for name in ["a/b", "/", "a\nb", ""] {
            let why = names_of(&[], &[name]).unwrap_err();
            assert!(
                why.contains(&format!("--recipe-name: {name:?}: expected part of a file name")),
                "{why}"
            );
        }
        assert_eq!(names_of(&[], &["..a b é"]), Ok(vec![Some("..a b é".to_owned())]));
    }
}
