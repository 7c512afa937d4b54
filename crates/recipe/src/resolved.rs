//! The recipe that a task carries: complete, and known by its digest.

use std::path::Path;

use records::{Digest, RawPath};
use serde::{Deserialize, Serialize};

use crate::{Deviation, Dummy, Empty, Error, ErrorModel, FileRef, Quantiles, Reference, Settings, SigmaClip, Split};

/// Every setting of an integration. Written as `OUT/.azpipe/recipe-<digest>.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Recipe {
    /// Version of this file's keys.
    pub version: u64,
    /// Radial bins.
    pub npt: u64,
    /// Azimuthal bins of a cake; 1 for a pattern.
    pub npt_azim: u64,
    /// The radial unit, in pyFAI's spelling.
    pub unit: String,
    /// Radial limits in `unit`; absent for all that the unmasked pixels cover.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub radial_range: Option<[f64; 2]>,
    /// Azimuthal limits in degrees; absent for the full circle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub azimuth_range: Option<[f64; 2]>,
    /// Pixel splitting.
    pub split: Split,
    /// The polarization factor; absent for no correction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub polarization: Option<f64>,
    /// Whether to correct for the solid angle.
    pub solid_angle: bool,
    /// The error model.
    pub error_model: ErrorModel,
    /// What the errors are: of the mean, or of a pixel.
    #[serde(skip_serializing_if = "is_sem", default)]
    pub error: Deviation,
    /// Sigma clipping within each bin; absent for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sigma_clip: Option<SigmaClip>,
    /// The mean between two quantiles within each bin; absent for that of all pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median: Option<Quantiles>,
    /// The counter that each frame is normalized by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monitor: Option<String>,
    /// What the monitor is divided by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monitor_reference: Option<Reference>,
    /// The content of bins without pixels.
    pub empty: Empty,
    /// Pixel values that are no measurement.
    pub dummy: Dummy,
    /// Whether to mask the gaps that the detector is known to have.
    pub detector_mask: bool,
    /// The text of the PONI file.
    pub poni: String,
    /// Where the PONI file lay. Not in the digest.
    pub poni_file: RawPath,
    /// The detector file that the PONI names in place of a detector, with its pixels' corners.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detector_file: Option<FileRef>,
    /// Masks, united.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub mask: Vec<FileRef>,
    /// The dark frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dark: Option<FileRef>,
    /// The flat field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flat: Option<FileRef>,
    /// The image of each pixel's variance, for that error model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variance: Option<FileRef>,
}

const VERSION: u64 = 1;

/// Patterns of more bins than a large detector has pixels take memory and show nothing.
const MOST_BINS: u64 = 1 << 24;

impl Recipe {
    /// Fills in the defaults, checks the values, and reads the files of `settings`.
    ///
    /// # Errors
    /// A setting that is missing or out of bounds; a file that can't be read.
    pub fn resolve(settings: &Settings) -> Result<Self, Error> {
        let here = Path::new("");
        let missing = || Error::Setting { key: "poni", why: "missing; expected a PONI file (--poni lab6.poni)".into() };
        let poni_file = settings.poni.as_ref().ok_or_else(missing)?;
        let poni =
            std::fs::read_to_string(poni_file).map_err(|why| Error::File { path: poni_file.to_path_buf(), why })?;
        let file = |name: &RawPath| FileRef::resolve(name, here);
        let masks = settings.mask.as_ref().map_or(&[][..], |mask| mask.as_slice());
        let recipe = Self {
            version: VERSION,
            npt: settings.npt.unwrap_or(1000),
            npt_azim: settings.npt_azim.unwrap_or(1),
            unit: settings.unit.clone().unwrap_or_else(|| "q_nm^-1".to_owned()),
            radial_range: settings.radial_range,
            azimuth_range: settings.azimuth_range,
            split: settings.split.unwrap_or_else(|| default_split(settings)),
            polarization: settings.polarization,
            solid_angle: settings.solid_angle.unwrap_or(true),
            error_model: settings.error_model.unwrap_or_else(|| default_errors(settings)),
            error: settings.error.unwrap_or_default(),
            sigma_clip: settings.sigma_clip,
            median: settings.median,
            monitor: settings.monitor.clone(),
            monitor_reference: settings.monitor.as_ref().map(|_| settings.monitor_reference.unwrap_or_default()),
            empty: settings.empty.unwrap_or_default(),
            dummy: settings.dummy.unwrap_or_default(),
            detector_mask: settings.detector_mask.unwrap_or(true),
            poni,
            poni_file: absolute(poni_file)?,
            detector_file: None,
            mask: masks.iter().map(file).collect::<Result<_, _>>()?,
            dark: settings.dark.as_ref().map(file).transpose()?,
            flat: settings.flat.as_ref().map(file).transpose()?,
            variance: settings.variance.as_ref().map(file).transpose()?,
        };
        if settings.monitor.is_none() && settings.monitor_reference.is_some() {
            return Err(Error::Setting { key: "monitor-reference", why: "set without a monitor".into() });
        }
        recipe.check()?;
        Ok(recipe)
    }

    /// The recipe with the detector file that its PONI names; a relative name is looked up beside
    /// the PONI file first, then in the working directory.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn with_detector_file(mut self, name: &Path) -> Result<Self, Error> {
        let beside = self.poni_file.parent().unwrap_or(Path::new("")).join(name);
        let found = if beside.exists() { beside } else { name.to_path_buf() };
        self.detector_file = Some(FileRef::resolve(&found.into(), Path::new(""))?);
        Ok(self)
    }

    fn check(&self) -> Result<(), Error> {
        let wrong = |key, why: String| Err(Error::Setting { key, why });
        if !(1..=1 << 20).contains(&self.npt) {
            return wrong("npt", format!("{}: expected 1 to 1048576 bins", self.npt));
        }
        if !(1..=36_000).contains(&self.npt_azim) {
            return wrong("npt-azim", format!("{}: expected 1 to 36000 bins", self.npt_azim));
        }
        let bins = self.npt * self.npt_azim;
        if bins > MOST_BINS {
            return wrong(
                "npt-azim",
                format!("{} x {} bins: expected {MOST_BINS} at the most", self.npt, self.npt_azim),
            );
        }
        for (key, range) in [("radial-range", self.radial_range), ("azimuth-range", self.azimuth_range)] {
            if let Some([low, high]) = range
                && !(low.is_finite() && high.is_finite() && low < high)
            {
                return wrong(key, format!("{low},{high}: expected two numbers, the lower first"));
            }
        }
        if let Some([low, high]) = self.azimuth_range
            && high - low > 360.0
        {
            return wrong("azimuth-range", format!("{low},{high}: expected at most a full circle, 360 degrees"));
        }
        if let Some(factor) = self.polarization
            && !(-1.0..=1.0).contains(&factor)
        {
            return wrong("polarization", format!("{factor}: expected -1 to 1"));
        }
        self.check_errors()
    }

    /// Which ways of averaging and error models go together.
    fn check_errors(&self) -> Result<(), Error> {
        let wrong = |key, why: &str| Err(Error::Setting { key, why: why.to_owned() });
        match (self.error_model, &self.variance) {
            (ErrorModel::Variance, None) => return wrong("variance", "missing; error-model variance needs the image"),
            (ErrorModel::Variance, Some(_)) | (_, None) => (),
            (_, Some(_)) => return wrong("variance", "an image beside another error-model; expected variance"),
        }
        if self.error_model == ErrorModel::No && self.error == Deviation::Std {
            return wrong("error", "std without errors; expected an error-model besides no");
        }
        if self.sigma_clip.is_some() && self.median.is_some() {
            return wrong("median", "set beside sigma-clip; expected one of them");
        }
        if self.sigma_clip.is_some() && self.error_model == ErrorModel::No {
            return wrong("sigma-clip", "needs a standard deviation; expected an error-model besides no");
        }
        if self.median.is_some() && self.error_model == ErrorModel::Azimuthal {
            return wrong("median", "has no azimuthal errors; expected error-model no, poisson, hybrid or variance");
        }
        Ok(())
    }

    /// The identity of the recipe, in 64 hexadecimal digits: all settings, the PONI text, and the
    /// content of its files; not where they lie.
    pub fn digest(&self) -> String {
        let mut same = self.clone();
        same.poni_file = RawPath::default();
        same.files_mut().for_each(|file| file.path = RawPath::default());
        let canonical = serde_json::to_string(&same).expect("a recipe holds nothing that JSON can't");
        Digest::new("recipe").text(&canonical).full()
    }

    fn files(&self) -> impl Iterator<Item = &FileRef> {
        self.mask.iter().chain(&self.dark).chain(&self.flat).chain(&self.variance).chain(&self.detector_file)
    }

    fn files_mut(&mut self) -> impl Iterator<Item = &mut FileRef> {
        let images = self.mask.iter_mut().chain(&mut self.dark).chain(&mut self.flat).chain(&mut self.variance);
        images.chain(&mut self.detector_file)
    }

    /// The name of its file below the output root.
    pub fn file_name(&self) -> String {
        format!(".azpipe/recipe-{}.toml", &self.digest()[..16])
    }

    /// The text of its file.
    pub fn to_toml(&self) -> String {
        let head =
            "# Resolved by plan-split; ai-integrate refuses it, or a file it names, once it no longer matches.\n";
        format!("{head}{}", toml::to_string(self).expect("a recipe holds nothing that TOML can't"))
    }

    /// Reads a resolved recipe and checks it, and all its files, against the digest in the task.
    ///
    /// # Errors
    /// A file can't be read, or something has changed since the recipe was made.
    pub fn load(path: &Path, expected: &str) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|why| Error::File { path: path.to_path_buf(), why })?;
        let toml_error =
            |why: toml::de::Error| Error::Toml { path: path.to_path_buf(), why: why.to_string().trim().to_owned() };
        let Version { version } = toml::from_str(&text).map_err(toml_error)?;
        if version > VERSION {
            return Err(Error::Newer { path: path.to_path_buf(), found: version });
        }
        let recipe: Self = toml::from_str(&text).map_err(toml_error)?;
        let found = recipe.digest();
        if found != expected {
            let path = path.to_path_buf();
            return Err(Error::Changed { path, found, expected: expected.to_owned() });
        }
        recipe.check()?;
        recipe.files().try_for_each(FileRef::verify)?;
        Ok(recipe)
    }
}

/// Clipping needs pixels that are measured once: a share of one in each of two bins is no second measurement.
fn default_split(settings: &Settings) -> Split {
    if settings.sigma_clip.is_some() { Split::No } else { Split::default() }
}

fn default_errors(settings: &Settings) -> ErrorModel {
    if settings.variance.is_some() { ErrorModel::Variance } else { ErrorModel::default() }
}

fn is_sem(error: &Deviation) -> bool {
    *error == Deviation::Sem
}

/// What a recipe of any version has.
#[derive(Deserialize)]
struct Version {
    version: u64,
}

fn absolute(path: &RawPath) -> Result<RawPath, Error> {
    std::path::absolute(path).map(RawPath::from).map_err(|why| Error::File { path: path.to_path_buf(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(dir: &Path) -> Settings {
        std::fs::write(dir.join("a.poni"), "Distance: 0.1\n").unwrap();
        std::fs::write(dir.join("m.npy"), "mask").unwrap();
        let mask = Some(crate::settings::OneOrMany::One(dir.join("m.npy").into()));
        Settings { poni: Some(dir.join("a.poni").into()), mask, ..Settings::default() }
    }

    #[test]
    fn the_digest_is_of_content_and_not_of_places() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let here = Recipe::resolve(&settings(one.path())).unwrap();
        let there = Recipe::resolve(&settings(two.path())).unwrap();
        assert_eq!(here.digest(), there.digest());
        let other = settings(two.path());
        std::fs::write(two.path().join("m.npy"), "other").unwrap();
        assert_ne!(Recipe::resolve(&other).unwrap().digest(), here.digest());
        let finer = Settings { npt: Some(1001), ..settings(one.path()) };
        assert_ne!(Recipe::resolve(&finer).unwrap().digest(), here.digest());
    }

    #[test]
    fn a_written_recipe_reads_back_and_is_refused_once_a_file_changes() {
        let dir = tempfile::tempdir().unwrap();
        let recipe = Recipe::resolve(&settings(dir.path())).unwrap();
        let path = dir.path().join("recipe.toml");
        std::fs::write(&path, recipe.to_toml()).unwrap();
        assert_eq!(Recipe::load(&path, &recipe.digest()).unwrap(), recipe);
        assert!(matches!(Recipe::load(&path, "0000"), Err(Error::Changed { .. })));
        std::fs::write(dir.path().join("m.npy"), "edited").unwrap();
        let error = Recipe::load(&path, &recipe.digest()).unwrap_err().to_string();
        assert!(error.contains("m.npy") && error.contains("plan-split"), "{error}");
    }

    #[test]
    fn a_recipe_that_no_plan_split_wrote_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let recipe = Recipe::resolve(&settings(dir.path())).unwrap();
        let path = dir.path().join("recipe.toml");
        let load = |recipe: &Recipe, more: &str| {
            std::fs::write(&path, recipe.to_toml() + more).unwrap();
            Recipe::load(&path, &recipe.digest()).unwrap_err().to_string()
        };
        let newer = Recipe { version: 2, ..recipe.clone() };
        assert!(load(&newer, "").contains("version 2: this azpipe reads up to version 1"));
        // A newer one may have keys that this version does not know: its version is the better reason.
        assert!(load(&newer, "[clipping]\nthreshold = 5\n").contains("version 2"));
        assert!(load(&recipe, "[clipping]\nthreshold = 5\n").contains("clipping"));
        assert!(load(&Recipe { npt: 1 << 40, ..recipe.clone() }, "").contains("npt"));
    }

    #[test]
    fn values_out_of_bounds_say_what_was_expected() {
        let dir = tempfile::tempdir().unwrap();
        let refuse = |change: fn(&mut Settings)| {
            let mut all = settings(dir.path());
            change(&mut all);
            Recipe::resolve(&all).unwrap_err().to_string()
        };
        assert!(refuse(|all| all.npt = Some(0)).starts_with("npt: 0: expected"));
        assert!(refuse(|all| all.radial_range = Some([2.0, 1.0])).contains("lower first"));
        assert!(refuse(|all| all.azimuth_range = Some([-200.0, 200.0])).contains("full circle"));
        assert!(refuse(|all| (all.npt, all.npt_azim) = (Some(1 << 20), Some(36_000))).contains("16777216 at the most"));
        assert!(refuse(|all| all.polarization = Some(2.0)).contains("-1 to 1"));
        assert!(refuse(|all| all.poni = None).contains("--poni"));
        assert!(refuse(|all| all.monitor_reference = Some(Reference::Mean)).contains("monitor"));
    }

    #[test]
    fn averages_and_error_models_go_together_or_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let resolve = |change: fn(&mut Settings)| {
            let mut all = settings(dir.path());
            change(&mut all);
            Recipe::resolve(&all).map_err(|error| error.to_string())
        };
        let clipped = resolve(|all| all.sigma_clip = "4".parse().ok()).unwrap();
        assert_eq!((clipped.split, clipped.error_model), (Split::No, ErrorModel::Poisson));
        assert_ne!(clipped.digest(), resolve(|all| all.sigma_clip = "4,4".parse().ok()).unwrap().digest());
        let refuse = |change| resolve(change).unwrap_err();
        let both = refuse(|all| (all.sigma_clip, all.median) = ("4".parse().ok(), "50".parse().ok()));
        assert!(both.starts_with("median: set beside sigma-clip"), "{both}");
        let none = refuse(|all| (all.sigma_clip, all.error_model) = ("4".parse().ok(), Some(ErrorModel::No)));
        assert!(none.starts_with("sigma-clip: needs"), "{none}");
        assert!(refuse(|all| all.error_model = Some(ErrorModel::Variance)).starts_with("variance: missing"));
        let spread = refuse(|all| (all.median, all.error_model) = ("50".parse().ok(), Some(ErrorModel::Azimuthal)));
        assert!(spread.starts_with("median: has no azimuthal errors"), "{spread}");
        let bare = refuse(|all| (all.error, all.error_model) = (Some(Deviation::Std), Some(ErrorModel::No)));
        assert!(bare.starts_with("error: std without errors"), "{bare}");
    }

    #[test]
    fn a_variance_image_is_the_error_model_unless_another_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let with = |error_model| Settings {
            variance: Some(dir.path().join("m.npy").into()),
            error_model,
            ..settings(dir.path())
        };
        let recipe = Recipe::resolve(&with(None)).unwrap();
        assert_eq!(recipe.error_model, ErrorModel::Variance);
        assert_ne!(recipe.digest(), Recipe::resolve(&settings(dir.path())).unwrap().digest());
        let error = Recipe::resolve(&with(Some(ErrorModel::Poisson))).unwrap_err().to_string();
        assert!(error.starts_with("variance: an image beside"), "{error}");
    }
}
