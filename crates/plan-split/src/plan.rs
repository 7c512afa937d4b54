//! Scan records to task records.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use geometry::{Detector, Material, Poni, Unit, UnknownMaterial};
use manners::atomic;
use recipe::{Recipe, Settings};
use records::{Acquisition, RawPath, Scan, Task};

use crate::args::Args;
use crate::cut::{By, cut};
use crate::names::final_path;

/// Why there is no plan, or none for a scan.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The recipe is not complete, or wrong.
    #[error(transparent)]
    Recipe(#[from] recipe::Error),
    /// The PONI file, its detector or the unit is not one that can be used.
    #[error("{}: {why}", poni.display())]
    Geometry {
        /// The PONI file.
        poni: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The output root can't be written.
    #[error("{}: {why}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        why: std::io::Error,
    },
    /// The scan's frames are not those of the PONI's detector.
    #[error("entry {entry}, detector {detector}: {why}")]
    Fit {
        /// The scan's entry.
        entry: String,
        /// The scan's detector.
        detector: String,
        /// Both shapes.
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

/// One recipe, one output root, and the finals that are spoken for.
pub struct Planner {
    out: PathBuf,
    by: By,
    recipe_name: Option<String>,
    recipe: RawPath,
    digest: String,
    detector: Option<Detector>,
    finals: HashMap<RawPath, (String, RawPath)>,
}

impl Planner {
    /// Resolves the recipe and writes it below the output root.
    ///
    /// # Errors
    /// A recipe that is wrong or not complete, a PONI that can't be used, an output root that can't be written.
    pub fn new(args: Args) -> Result<Self, Error> {
        let base = args.recipe.as_deref().map(Settings::read).transpose()?.unwrap_or_default();
        let recipe = Recipe::resolve(&Settings::from(args.flags).over(base))?;
        let (recipe, detector) = with_detector(recipe)?;
        let out = std::path::absolute(&args.out).map_err(|why| Error::Write { path: args.out.clone(), why })?;
        let path = out.join(recipe.file_name());
        write_recipe(&path, &recipe.to_toml()).map_err(|why| Error::Write { path: path.clone(), why })?;
        let digest = recipe.digest();
        let (by, recipe_name) = (args.by, args.recipe_name);
        Ok(Self { out, by, recipe_name, recipe: path.into(), digest, detector, finals: HashMap::new() })
    }

    /// The tasks of a scan, made as they are asked for.
    ///
    /// # Errors
    /// The scan has no frames, frames of another shape than the detector, or a final that is taken.
    pub fn tasks(&mut self, scan: Scan) -> Result<impl Iterator<Item = Task> + use<>, Error> {
        let Scan { id, acquisition } = scan;
        let (entry, detector) = (acquisition.entry.clone(), acquisition.detector.clone());
        if acquisition.frames == 0 {
            return Err(Error::NoFrames { entry, detector });
        }
        if !acquisition.below.stays_below() {
            return Err(Error::Outside { path: acquisition.below });
        }
        if let Some(expected) = &self.detector {
            let shape = acquisition.shape.map(|length| length as usize);
            expected.fits(shape).map_err(|why| Error::Fit { entry: entry.clone(), detector, why: why.to_string() })?;
        }
        let final_file = final_path(&acquisition, self.recipe_name.as_deref());
        match self.finals.get(&final_file) {
            Some((taken, other)) if *taken != id || *other != acquisition.file => {
                return Err(Error::Meets { entry, path: final_file, other: other.clone() });
            }
            _ => self.finals.insert(final_file.clone(), (id.clone(), acquisition.file.clone())),
        };
        let (recipe, digest, out) = (self.recipe.clone(), self.digest.clone(), RawPath::from(self.out.clone()));
        let cuts = cut(&acquisition, self.by);
        let rest = Acquisition { sources: Vec::new(), ..acquisition };
        Ok(cuts.map(move |cut| Task {
            id: Task::identity(&id, &digest, &cut.range),
            scan: id.clone(),
            recipe: recipe.clone(),
            recipe_digest: digest.clone(),
            out: out.clone(),
            part: Task::part_path(&id, &digest, &cut.range),
            final_file: final_file.clone(),
            bytes: cut.bytes(),
            range: cut.range,
            acquisition: Acquisition { sources: cut.sources, ..rest.clone() },
        }))
    }
}

/// The detector that the PONI names, where its shape can be known without opening a detector file;
/// that file becomes part of the recipe.
fn with_detector(recipe: Recipe) -> Result<(Recipe, Option<Detector>), Error> {
    let poni_file = recipe.poni_file.to_path_buf();
    let wrong = |why: String| Error::Geometry { poni: poni_file.clone(), why };
    let poni = Poni::parse(&recipe.poni).map_err(|why| wrong(why.to_string()))?;
    let unit: Unit =
        recipe.unit.parse().map_err(|why| recipe::Error::Setting { key: "unit", why: format!("{why}") })?;
    if unit.needs_wavelength() && poni.wavelength.is_none() {
        return Err(wrong(format!("unit {unit} needs the wavelength, and the PONI has none")));
    }
    if let Some(sensor) = &recipe.sensor {
        let wrong = |why: String| recipe::Error::Setting { key: "sensor", why: format!("{sensor}: {why}") };
        let material: Material = sensor.material.parse().map_err(|why: UnknownMaterial| wrong(why.to_string()))?;
        let wavelength = poni.wavelength.ok_or_else(|| wrong("needs the wavelength, and the PONI has none".into()))?;
        material.attenuation(wavelength).map_err(|why| wrong(why.to_string()))?;
    }
    match poni.detector.file() {
        Some(file) => Ok((recipe.with_detector_file(Path::new(file))?, None)),
        None => Ok((recipe, Some(Detector::from_poni(&poni).map_err(|why| wrong(why.to_string()))?))),
    }
}

/// The same recipe may be there already, written for files that lay elsewhere: the newest paths win.
fn write_recipe(path: &Path, text: &str) -> std::io::Result<()> {
    if std::fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
    atomic::write(path, text)
}
