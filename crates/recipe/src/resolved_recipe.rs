//! The recipe that a task carries: complete, and known by its digest.

use std::path::{Path, PathBuf};

use records::{Digest, Framing, RawPath};
use serde::{Deserialize, Serialize};

use crate::one_or_many::OneOrMany;
use crate::settings::is_file;
use crate::{
    DummySetting, EmptyBinValue, ErrorFloor, ErrorMeasure, ErrorModel, FileRef, FlatMode, MaskRegion, MedianError,
    Monitor, MonitorReference, Quantiles, Quantity, RecipeError, ReferenceSetting, Sensor, Settings, SigmaClip, Split,
    poni_text,
};

/// Every setting of an integration. Written as `OUT/.azpipe/recipe-<digest>.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Recipe {
    /// Version of this file's keys.
    pub version: u64,
    /// The row and column of the detector that frames begin at; absent where they show all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roi: Option<[u64; 2]>,
    /// Whether the PONI is of the whole detector, and what Lima did to the images is undone; else it is of the frames as
    /// they are saved.
    #[serde(skip_serializing_if = "is_true", default = "yes")]
    pub image_operation: bool,
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
    /// The edges of the radial bins, `npt + 1` of them, in `unit`; absent for bins of one width.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub radial_edges: Option<Vec<f64>>,
    /// The edges of the azimuthal bins, `npt_azim + 1` of them, in degrees; absent for bins of one width.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub azimuth_edges: Option<Vec<f64>>,
    /// Pixel splitting.
    pub split: Split,
    /// The polarization factor; absent for no correction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub polarization: Option<f64>,
    /// The angle from the horizontal to the plane of polarization, degrees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub polarization_offset: Option<f64>,
    /// The sensor; absent for no correction of its absorption.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sensor: Option<Sensor>,
    /// Whether to correct for the solid angle.
    pub solid_angle: bool,
    /// The error model.
    pub error_model: ErrorModel,
    /// What the errors are: of the mean, or of a pixel.
    #[serde(skip_serializing_if = "is_sem", default)]
    pub error: ErrorMeasure,
    /// Which sums of counts have a variance of one photon at the least.
    #[serde(skip_serializing_if = "is_pixel", default)]
    pub error_floor: ErrorFloor,
    /// Sigma clipping within each bin; absent for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sigma_clip: Option<SigmaClip>,
    /// The mean between two quantiles within each bin; absent for that of all pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median: Option<Quantiles>,
    /// Which errors the mean between two quantiles has; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_error: Option<MedianError>,
    /// The content of bins without pixels.
    pub empty: EmptyBinValue,
    /// Pixel values that are no measurement.
    pub dummy: DummySetting,
    /// Pixels below are no measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_min: Option<f64>,
    /// Pixels above are no measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_max: Option<f64>,
    /// Whether to mask the gaps that the detector is known to have.
    pub detector_mask: bool,
    /// Masked shapes.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub mask_region: Vec<MaskRegion>,
    /// Whether counts are divided by the flat field, or multiplied; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flat_mode: Option<FlatMode>,
    /// The text of the PONI file. What it says is in the digest, and not how.
    pub poni: String,
    /// Where the PONI file lay; empty where the recipe held the geometry itself. Not in the digest.
    pub poni_file: RawPath,
    /// The detector file that the PONI names in place of a detector, with its pixels' corners.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detector_file: Option<FileRef>,
    /// Masks, united.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub mask: Vec<FileRef>,
    /// Masks in which 0 is masked, united with the rest.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub mask_inverted: Vec<FileRef>,
    /// The dark frames, averaged.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub dark: Vec<FileRef>,
    /// The flat fields, averaged.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub flat: Vec<FileRef>,
    /// The image of each pixel's variance, for that error model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variance: Option<FileRef>,
    /// What each frame is normalized by.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub monitor: Vec<Monitor>,
}

const RECIPE_VERSION: u64 = 1;

impl Recipe {
    /// Fills in the defaults, checks the values, and reads the files of `settings`.
    ///
    /// # Errors
    /// A setting that is missing or out of bounds; a file that can't be read.
    pub fn resolve(settings: &Settings) -> Result<Self, RecipeError> {
        let (mut poni, poni_file) = read_poni(settings)?;
        let mut detector_file = None;
        match &settings.poni_detector {
            Some(file) if is_file(file) => {
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                poni = poni_text::with_detector(&poni, "NexusDetector", &serde_json::json!({ "filename": name }));
                detector_file = Some(FileRef::resolve(file, Path::new(""))?);
            }
            Some(name) => poni = poni_text::with_detector(&poni, &name.display().to_string(), &serde_json::json!({})),
            None => (),
        }
        let files = |list: &Option<OneOrMany<RawPath>>| -> Result<Vec<FileRef>, RecipeError> {
            OneOrMany::items(list.as_ref()).iter().map(|name| FileRef::resolve(name, Path::new(""))).collect()
        };
        let monitor = OneOrMany::items(settings.monitor.as_ref());
        let recipe = Self {
            version: RECIPE_VERSION,
            roi: settings.roi,
            image_operation: settings.image_operation.unwrap_or(true),
            npt: bin_count(&settings.radial_edges).or(settings.npt).unwrap_or(1000),
            npt_azim: bin_count(&settings.azimuth_edges).or(settings.npt_azim).unwrap_or(1),
            unit: settings.unit.clone().unwrap_or_else(|| "q_nm^-1".to_owned()),
            radial_range: settings.radial_range,
            azimuth_range: settings.azimuth_range,
            radial_edges: settings.radial_edges.clone(),
            azimuth_edges: settings.azimuth_edges.clone(),
            split: settings.split.unwrap_or_else(|| default_split(settings)),
            polarization: settings.polarization,
            polarization_offset: settings.polarization_offset.filter(|offset| *offset != 0.0),
            sensor: settings.sensor.clone(),
            solid_angle: settings.solid_angle.unwrap_or(true),
            error_model: settings.error_model.unwrap_or_else(|| default_error_model(settings)),
            error: settings.error.unwrap_or_default(),
            error_floor: settings.error_floor.unwrap_or_default(),
            sigma_clip: settings.sigma_clip,
            median: settings.median,
            median_error: settings.median.map(|_| settings.median_error.unwrap_or_default()),
            empty: settings.empty.unwrap_or_default(),
            dummy: settings.dummy.unwrap_or_default(),
            valid_min: settings.valid_min,
            valid_max: settings.valid_max,
            detector_mask: settings.detector_mask.unwrap_or(true),
            mask_region: OneOrMany::items(settings.mask_region.as_ref()).to_vec(),
            flat_mode: settings.flat.as_ref().map(|_| settings.flat_mode.unwrap_or_default()),
            poni,
            poni_file,
            detector_file,
            mask: files(&settings.mask)?,
            mask_inverted: files(&settings.mask_inverted)?,
            dark: files(&settings.dark)?,
            flat: files(&settings.flat)?,
            variance: settings.variance.as_ref().map(|name| FileRef::resolve(name, Path::new(""))).transpose()?,
            monitor: Monitor::resolve(monitor, OneOrMany::items(settings.monitor_reference.as_ref()))?,
        };
        let alone = |key, without: &str| Err(RecipeError::Setting { key, why: format!("set without {without}") });
        let beside =
            |key, edges: &str| Err(RecipeError::Setting { key, why: format!("set beside {edges}, which say it, too") });
        match settings {
            Settings { radial_edges: Some(_), npt: Some(_), .. } => return beside("npt", "radial-edges"),
            Settings { radial_edges: Some(_), radial_range: Some(_), .. } => {
                return beside("radial-range", "radial-edges");
            }
            Settings { azimuth_edges: Some(_), npt_azim: Some(_), .. } => return beside("npt-azim", "azimuth-edges"),
            Settings { azimuth_edges: Some(_), azimuth_range: Some(_), .. } => {
                return beside("azimuth-range", "azimuth-edges");
            }
            Settings { flat: None, flat_mode: Some(_), .. } => return alone("flat-mode", "a flat field"),
            Settings { polarization: None, polarization_offset: Some(_), .. } => {
                return alone("polarization-offset", "a polarization factor");
            }
            Settings { median: None, median_error: Some(_), .. } => return alone("median-error", "a median"),
            _ => recipe.validate()?,
        }
        Ok(recipe)
    }

    /// The recipe with the detector file that its PONI names; a relative name is looked up beside
    /// the PONI file first, then in the working directory. A file that stands in for that of the PONI stays.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn with_detector_file(mut self, name: &Path) -> Result<Self, RecipeError> {
        if self.detector_file.is_some() {
            return Ok(self);
        }
        let beside = self.poni_file.parent().unwrap_or(Path::new("")).join(name);
        let found = if beside.exists() { beside } else { name.to_path_buf() };
        self.detector_file = Some(FileRef::resolve(&found.into(), Path::new(""))?);
        Ok(self)
    }

    /// The recipe with its PONI's detector spelt in the one way: the name of its class, and all of its settings in JSON.
    /// So recipes that say the same of it have one digest.
    pub fn with_canonical_detector(mut self, class: &str, config: &serde_json::Value) -> Self {
        let spelt = poni_text::with_detector(&self.poni, class, config);
        if poni_text::content_digest(&spelt) != poni_text::content_digest(&self.poni) {
            self.poni = spelt;
        }
        self
    }

    /// The PONI file as messages name it.
    pub fn poni_label(&self) -> PathBuf {
        if self.poni_file.as_os_str().is_empty() {
            "the recipe's geometry".into()
        } else {
            self.poni_file.to_path_buf()
        }
    }

    /// Which part of the detector the frames of a scan show, and how: as the recipe says, or as the scan does.
    pub fn framing(&self, scan: &Framing) -> Framing {
        match (self.roi, self.image_operation) {
            (Some(origin), _) => Framing::region(origin, scan.shape),
            (None, true) => scan.clone(),
            (None, false) => Framing::whole(scan.shape),
        }
    }

    /// The limits of each azimuthal bin, degrees, as they were asked for.
    pub fn azimuth_bins(&self) -> Vec<[f64; 2]> {
        if let Some(edges) = &self.azimuth_edges {
            return edges.windows(2).map(|pair| [pair[0], pair[1]]).collect();
        }
        let [low, high] = self.azimuth_range.unwrap_or([-180.0, 180.0]);
        let edge = |slice: u64| low + (high - low) * slice as f64 / self.npt_azim as f64;
        (0..self.npt_azim).map(|slice| [edge(slice), edge(slice + 1)]).collect()
    }

    /// What the product of the monitors is divided by; `None` without monitors.
    pub fn reference(&self) -> Option<ReferenceSetting> {
        let number = |monitor: &Monitor| match monitor.over {
            MonitorReference::Quantity(Quantity::Number(number)) => number,
            _ => 1.0,
        };
        let first = self.monitor.first()?;
        Some(match first.over {
            MonitorReference::Mean => ReferenceSetting::Mean,
            MonitorReference::Quantity(_) => ReferenceSetting::Value(self.monitor.iter().map(number).product()),
        })
    }

    /// What the product of the monitors is called; `None` without monitors.
    pub fn monitor_name(&self) -> Option<String> {
        let names: Vec<String> = self.monitor.iter().map(Monitor::name).collect();
        (!names.is_empty()).then(|| names.join(" x "))
    }

    /// The identity of the recipe, in 64 hexadecimal digits: all settings, what the PONI text says, and the
    /// content of its files; not where they lie.
    pub fn digest(&self) -> String {
        let canonical = serde_json::to_string(&self.without_paths()).expect("a recipe holds nothing that JSON can't");
        Digest::new("recipe").text(&canonical).full()
    }

    /// Returns the settings in which another recipe differs, by name, each with the values of both: `npt: 300, now 400`.
    pub fn differences(&self, now: &Self) -> Vec<String> {
        let fields = |recipe: &Self| match serde_json::to_value(recipe.without_paths()) {
            Ok(serde_json::Value::Object(fields)) => fields,
            _ => serde_json::Map::new(),
        };
        let (before, after) = (fields(self), fields(now));
        let keys = before.keys().chain(after.keys().filter(|key| !before.contains_key(*key)));
        let differing = keys.filter(|key| before.get(*key) != after.get(*key));
        let shown = |fields: &serde_json::Map<String, serde_json::Value>, key: &str| match fields.get(key) {
            None => "none".to_owned(),
            Some(value) if value.is_number() || value.is_boolean() => value.to_string(),
            Some(serde_json::Value::String(text)) if key != "poni" => text.clone(),
            Some(serde_json::Value::Array(list)) if list.iter().all(serde_json::Value::is_number) && list.len() < 5 => {
                serde_json::Value::Array(list.clone()).to_string()
            }
            // Files and texts are too long to be shown.
            Some(_) => "another".to_owned(),
        };
        let pair = |key: &String| match (shown(&before, key), shown(&after, key)) {
            (before, after) if before == after => key.clone(),
            (before, after) => format!("{key}: {before}, now {}", if after == "another" { "some" } else { &after }),
        };
        differing.map(pair).collect()
    }

    /// This recipe with what the PONI says in place of its text, and without the paths of files.
    fn without_paths(&self) -> Self {
        let mut same = self.clone();
        same.poni = poni_text::content_digest(&self.poni);
        same.poni_file = RawPath::default();
        same.files_mut().for_each(|file| file.path = RawPath::default());
        same
    }

    fn files_mut(&mut self) -> impl Iterator<Item = &mut FileRef> {
        let images = [&mut self.mask, &mut self.mask_inverted, &mut self.dark, &mut self.flat];
        let monitors = self.monitor.iter_mut().flat_map(Monitor::files_mut);
        images.into_iter().flatten().chain(&mut self.variance).chain(&mut self.detector_file).chain(monitors)
    }

    /// The name of its file below the output root.
    pub fn file_name(&self) -> String {
        Self::file_name_for_digest(&self.digest())
    }

    /// Returns the name, below the output root, of the file of the recipe with this digest.
    pub fn file_name_for_digest(digest: &str) -> String {
        format!(".azpipe/recipe-{}.toml", digest.get(..16).unwrap_or(digest))
    }

    /// Returns where the files lie that the recipe was made from: the PONI file, the detector's, masks, darks, flats, the
    /// variance, and monitors in files of their own.
    pub fn file_paths(&self) -> impl Iterator<Item = &Path> {
        let lists = [&self.mask, &self.mask_inverted, &self.dark, &self.flat].into_iter().flatten();
        let files = lists.chain(&self.detector_file).chain(&self.variance).map(|file| file.path.as_path());
        let monitors = self.monitor.iter().flat_map(Monitor::file_paths);
        let poni = Some(self.poni_file.as_path()).filter(|path| !path.as_os_str().is_empty());
        poni.into_iter().chain(files).chain(monitors)
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
    pub fn load(path: &Path, expected: &str) -> Result<Self, RecipeError> {
        let text = filter::foreign::read_text(path).map_err(|why| RecipeError::Io { path: path.to_path_buf(), why })?;
        let mut recipe = Self::parse(&text, path, expected)?;
        recipe.files_mut().try_for_each(|file| file.verify())?;
        Ok(recipe)
    }

    /// Reads the text of a resolved recipe and checks it against the digest in the task, but does not look at its files.
    ///
    /// # Errors
    /// The text is no recipe, or not that of the digest.
    pub fn parse(text: &str, path: &Path, expected: &str) -> Result<Self, RecipeError> {
        let toml_error = |why: toml::de::Error| RecipeError::Toml {
            path: path.to_path_buf(),
            why: why.to_string().trim().to_owned(),
        };
        let RecipeVersion { version } = toml::from_str(text).map_err(toml_error)?;
        if version > RECIPE_VERSION {
            return Err(RecipeError::NewerVersion { path: path.to_path_buf(), found: version });
        }
        let recipe: Self = toml::from_str(text).map_err(toml_error)?;
        let found = recipe.digest();
        if found != expected {
            let path = path.to_path_buf();
            return Err(RecipeError::Changed { path, found, expected: expected.to_owned() });
        }
        recipe.validate().map_err(|why| why.in_file(path))?;
        Ok(recipe)
    }
}

/// Clipping needs pixels that are measured once: a share of one in each of two bins is no second measurement.
fn default_split(settings: &Settings) -> Split {
    if settings.sigma_clip.is_some() { Split::No } else { Split::default() }
}

fn default_error_model(settings: &Settings) -> ErrorModel {
    if settings.variance.is_some() { ErrorModel::Variance } else { ErrorModel::default() }
}

/// Bins between edges.
fn bin_count(edges: &Option<Vec<f64>>) -> Option<u64> {
    edges.as_ref().map(|edges| edges.len().saturating_sub(1) as u64)
}

fn is_true(value: &bool) -> bool {
    *value
}

fn yes() -> bool {
    true
}

fn is_pixel(floor: &ErrorFloor) -> bool {
    *floor == ErrorFloor::Pixel
}

fn is_sem(error: &ErrorMeasure) -> bool {
    *error == ErrorMeasure::Sem
}

/// What a recipe of any version has.
#[derive(Deserialize)]
struct RecipeVersion {
    version: u64,
}

/// The text of the PONI file, or the geometry that the recipe holds itself, and where the file lies.
fn read_poni(settings: &Settings) -> Result<(String, RawPath), RecipeError> {
    let wrong = |why: &str| RecipeError::Setting { key: "poni", why: why.to_owned() };
    match (&settings.poni, &settings.geometry) {
        (None, None) => Err(wrong("missing; expected a PONI file (--poni lab6.poni)")),
        (None, Some(text)) => Ok((text.clone(), RawPath::default())),
        (Some(file), _) => {
            let text =
                filter::foreign::read_text(file).map_err(|why| RecipeError::Io { path: file.to_path_buf(), why })?;
            Ok((text, absolute_path(file)?))
        }
    }
}

fn absolute_path(path: &RawPath) -> Result<RawPath, RecipeError> {
    std::path::absolute(path).map(RawPath::from).map_err(|why| RecipeError::Io { path: path.to_path_buf(), why })
}

#[cfg(test)]
mod tests;
