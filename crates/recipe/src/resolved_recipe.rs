//! The resolved recipe: complete, and identified by its digest.

use std::path::{Path, PathBuf};

use geometry::{SampleFrame, Unit, UnknownOrientation};
use records::{FrameLayout, IdHasher, RawPath};
use serde::{Deserialize, Serialize};

use crate::file_ref;
use crate::one_or_many::OneOrMany;
use crate::settings::is_detector_file;
use crate::{
    DummySetting, EmptyBinValue, ErrorFloor, ErrorMeasure, ErrorModel, FileRef, FlatMode, MaskRegion, Mean,
    MedianError, Monitor, MonitorReference, Quantiles, Quantity, RecipeError, ReferenceSetting, Sensor, Settings,
    SigmaClip, Split, describe_toml_error, poni_text,
};

/// Every setting of an integration, written as `OUT/.azpipe/recipe-<digest>.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Recipe {
    /// Version of the recipe format.
    pub version: u64,
    /// Row and column of the detector at which frames begin; `None` if they show the whole detector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roi: Option<[u64; 2]>,
    /// True if the PONI file is of the whole detector, so that the image operation of Lima (binning, flip, rotation,
    /// region) is undone; false if it is of the frames as saved.
    #[serde(skip_serializing_if = "is_true", default = "default_true")]
    pub image_operation: bool,
    /// Angle in degrees by which the sample is turned towards the beam; `None` for 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incident_angle: Option<f64>,
    /// Angle in degrees by which the sample is turned about the beam; `None` for 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tilt_angle: Option<f64>,
    /// Orientation of the image relative to the sample, 1 to 8 as in EXIF; `None` for 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_orientation: Option<u64>,
    /// Number of radial bins.
    pub npt: u64,
    /// Number of azimuthal bins of a cake; 1 for a pattern.
    pub npt_azim: u64,
    /// Radial unit, in pyFAI's spelling.
    pub unit: Unit,
    /// Radial limits in `unit`; `None` for the range that the unmasked pixels cover.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub radial_range: Option<[f64; 2]>,
    /// Azimuthal limits in degrees; `None` for the full circle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub azimuth_range: Option<[f64; 2]>,
    /// The `npt + 1` edges of the radial bins, in `unit`; `None` for bins of equal width.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub radial_edges: Option<Vec<f64>>,
    /// The `npt_azim + 1` edges of the azimuthal bins, in degrees; `None` for bins of equal width.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub azimuth_edges: Option<Vec<f64>>,
    /// Pixel splitting.
    pub split: Split,
    /// Polarization factor, -1 to 1; `None` for no correction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub polarization: Option<f64>,
    /// Angle from the horizontal to the plane of polarization, in degrees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub polarization_offset: Option<f64>,
    /// Sensor of the detector; `None` for no correction of its absorption.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sensor: Option<Sensor>,
    /// Correction of the solid angle.
    pub solid_angle: bool,
    /// Mean over the pixels of a bin.
    #[serde(skip_serializing_if = "is_weighted", default)]
    pub mean: Mean,
    /// Source of the variance of pixels.
    pub error_model: ErrorModel,
    /// Errors of the mean, or of a single pixel.
    #[serde(skip_serializing_if = "is_sem", default)]
    pub error: ErrorMeasure,
    /// Minimum of one photon for variances: per pixel, per bin or none.
    #[serde(skip_serializing_if = "is_pixel", default)]
    pub error_floor: ErrorFloor,
    /// Sigma clipping within each bin; `None` for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sigma_clip: Option<SigmaClip>,
    /// Quantiles of each bin between which the mean is taken; `None` for the mean of all pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median: Option<Quantiles>,
    /// Errors of the mean between quantiles; `None` without quantiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_error: Option<MedianError>,
    /// Value of bins without pixels.
    pub empty: EmptyBinValue,
    /// Pixel values that mark invalid pixels.
    pub dummy: DummySetting,
    /// Lower limit of valid pixel values: lower ones are masked in each frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_min: Option<f64>,
    /// Upper limit of valid pixel values: higher ones (saturated pixels) are masked in each frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_max: Option<f64>,
    /// Masking of the gaps between the detector's modules.
    pub detector_mask: bool,
    /// Shapes whose inside or outside is masked.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub mask_region: Vec<MaskRegion>,
    /// Division or multiplication by the flat field; `None` without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flat_mode: Option<FlatMode>,
    /// Text of the PONI file. The digest depends on its values, not on their spelling, order and comments.
    pub poni: String,
    /// Path of the PONI file; empty if the recipe file held the geometry itself. Not part of the digest.
    pub poni_file: RawPath,
    /// NeXus detector file that the PONI file names as the detector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detector_file: Option<FileRef>,
    /// Mask files: a pixel is masked if any of them is not 0.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub mask: Vec<FileRef>,
    /// Inverted mask files: a pixel is masked if any of them is 0.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub mask_inverted: Vec<FileRef>,
    /// Dark frames; their mean is subtracted.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub dark: Vec<FileRef>,
    /// Flat fields; their mean is applied.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub flat: Vec<FileRef>,
    /// Image of each pixel's variance, for `ErrorModel::Variance`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variance: Option<FileRef>,
    /// Monitors whose product normalizes each frame.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub monitor: Vec<Monitor>,
}

/// Version of the recipe format that this code writes.
const RECIPE_VERSION: u64 = 1;

impl Recipe {
    /// Makes a recipe from settings: fills in defaults, checks values, and reads all files for their digests.
    ///
    /// # Errors
    /// A setting is missing, invalid or contradicts another one, or a file can't be read.
    pub fn resolve(settings: &Settings) -> Result<Self, RecipeError> {
        let (mut poni, poni_file) = read_poni(settings)?;
        let mut detector_file = None;
        match &settings.poni_detector {
            Some(file) if is_detector_file(file) => {
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
            incident_angle: settings.incident_angle.filter(|angle| *angle != 0.0),
            tilt_angle: settings.tilt_angle.filter(|angle| *angle != 0.0),
            sample_orientation: settings.sample_orientation.filter(|orientation| *orientation != 1),
            npt: bin_count(&settings.radial_edges).or(settings.npt).unwrap_or(1000),
            npt_azim: bin_count(&settings.azimuth_edges).or(settings.npt_azim).unwrap_or(1),
            unit: settings.unit.unwrap_or_default(),
            radial_range: settings.radial_range,
            azimuth_range: settings.azimuth_range,
            radial_edges: settings.radial_edges.clone(),
            azimuth_edges: settings.azimuth_edges.clone(),
            split: settings.split.unwrap_or_else(|| default_split(settings)),
            polarization: settings.polarization,
            polarization_offset: settings.polarization_offset.filter(|offset| *offset != 0.0),
            sensor: settings.sensor.clone(),
            solid_angle: settings.solid_angle.unwrap_or(true),
            mean: settings.mean.unwrap_or_default(),
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
        check_combinations(settings)?;
        recipe.validate()?;
        Ok(recipe)
    }

    /// Adds the detector file that the PONI file names. A relative name is looked up in the directory of the PONI file
    /// first, then in the working directory. A detector file from the settings stays.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn with_detector_file(mut self, name: &Path) -> Result<Self, RecipeError> {
        if self.detector_file.is_some() {
            return Ok(self);
        }
        let next_to_poni = self.poni_file.parent().unwrap_or(Path::new("")).join(name);
        let found = if file_ref::exists(&next_to_poni)? { next_to_poni } else { name.to_path_buf() };
        self.detector_file = Some(FileRef::resolve(&found.into(), Path::new(""))?);
        Ok(self)
    }

    /// Spells the detector in the PONI text canonically: by class name, with all of its settings in JSON. Recipes that
    /// name a detector by different aliases then have the same digest.
    pub fn with_canonical_detector(mut self, class: &str, config: &serde_json::Value) -> Self {
        let canonical = poni_text::with_detector(&self.poni, class, config);
        if poni_text::content_digest(&canonical) != poni_text::content_digest(&self.poni) {
            self.poni = canonical;
        }
        self
    }

    /// Returns the name of the PONI file for messages.
    pub fn poni_label(&self) -> PathBuf {
        if self.poni_file.as_os_str().is_empty() {
            "the recipe's geometry".into()
        } else {
            self.poni_file.to_path_buf()
        }
    }

    /// Returns the part of the detector that a scan's frames show and their image operation: from the recipe if it has
    /// `roi` or ignores image operations, otherwise from the scan.
    pub fn framing(&self, scan: &FrameLayout) -> FrameLayout {
        match (self.roi, self.image_operation) {
            (Some(origin), _) => FrameLayout::region(origin, scan.shape),
            (None, true) => scan.clone(),
            (None, false) => FrameLayout::full_frame(scan.shape),
        }
    }

    /// Returns the orientation of the sample.
    ///
    /// # Errors
    /// The orientation of the image is not 1 to 8.
    pub fn sample_frame(&self) -> Result<SampleFrame, UnknownOrientation> {
        let (incident, tilt) = (self.incident_angle.unwrap_or(0.0), self.tilt_angle.unwrap_or(0.0));
        SampleFrame::new(incident, tilt, self.sample_orientation.unwrap_or(1))
    }

    /// Returns the limits of each azimuthal bin in degrees, as given in the recipe.
    pub fn azimuth_bins(&self) -> Vec<[f64; 2]> {
        if let Some(edges) = &self.azimuth_edges {
            return edges.windows(2).map(|pair| [pair[0], pair[1]]).collect();
        }
        let [low, high] = self.azimuth_range.unwrap_or([-180.0, 180.0]);
        let edge = |index: u64| low + (high - low) * index as f64 / self.npt_azim as f64;
        (0..self.npt_azim).map(|bin| [edge(bin), edge(bin + 1)]).collect()
    }

    /// Returns the constant reference of the product of all monitors: the mean, or the product of all references that
    /// are numbers. `None` without monitors.
    pub fn reference(&self) -> Option<ReferenceSetting> {
        let number = |monitor: &Monitor| match monitor.reference {
            MonitorReference::Quantity(Quantity::Number(number)) => number,
            _ => 1.0,
        };
        let first = self.monitor.first()?;
        Some(match first.reference {
            MonitorReference::Mean => ReferenceSetting::Mean,
            MonitorReference::Quantity(_) => ReferenceSetting::Value(self.monitor.iter().map(number).product()),
        })
    }

    /// Returns the name of the product of all monitors, such as `fpico2 x exposure-time`; `None` without monitors.
    pub fn monitor_name(&self) -> Option<String> {
        let names: Vec<String> = self.monitor.iter().map(Monitor::name).collect();
        (!names.is_empty()).then(|| names.join(" x "))
    }

    /// Returns the digest that identifies the recipe, 64 hexadecimal digits. It depends on all settings, the values in
    /// the PONI text and the content of all files, but not on paths.
    pub fn digest(&self) -> String {
        let canonical = serde_json::to_string(&self.without_paths()).expect("a recipe holds nothing that JSON can't");
        IdHasher::new("recipe").add_text(&canonical).to_hex()
    }

    /// Returns the settings in which the recipe `now` differs from this one, each with both values: `npt: 300, now 400`.
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
            // Files and long texts are not shown.
            Some(_) => "set".to_owned(),
        };
        let pair = |key: &String| match (shown(&before, key), shown(&after, key)) {
            (before, after) if before == after => key.clone(),
            (before, after) => format!("{key}: {before}, now {after}"),
        };
        differing.map(pair).collect()
    }

    /// Returns the part of the recipe that is in its digest: without paths, and with a digest of the PONI file's values
    /// in place of its text.
    fn without_paths(&self) -> Self {
        let mut recipe = self.clone();
        recipe.poni = poni_text::content_digest(&self.poni);
        recipe.poni_file = RawPath::default();
        recipe.files_mut().for_each(|file| file.path = RawPath::default());
        recipe
    }

    fn files_mut(&mut self) -> impl Iterator<Item = &mut FileRef> {
        let images = [&mut self.mask, &mut self.mask_inverted, &mut self.dark, &mut self.flat];
        let monitors = self.monitor.iter_mut().flat_map(Monitor::files_mut);
        images.into_iter().flatten().chain(&mut self.variance).chain(&mut self.detector_file).chain(monitors)
    }

    /// Returns the name of the recipe's file, relative to the output root.
    pub fn file_name(&self) -> String {
        Self::file_name_for_digest(&self.digest())
    }

    /// Returns the name of the file of the recipe with this digest, relative to the output root.
    pub fn file_name_for_digest(digest: &str) -> String {
        format!(".azpipe/recipe-{}.toml", digest.get(..16).unwrap_or(digest))
    }

    /// Returns the paths of all files that the recipe was made from: PONI file, detector file, masks, dark frames, flat
    /// fields, variance, and monitors in HDF5 files.
    pub fn file_paths(&self) -> impl Iterator<Item = &Path> {
        let lists = [&self.mask, &self.mask_inverted, &self.dark, &self.flat].into_iter().flatten();
        let files = lists.chain(&self.detector_file).chain(&self.variance).map(|file| file.path.as_path());
        let monitors = self.monitor.iter().flat_map(Monitor::file_paths);
        let poni = Some(self.poni_file.as_path()).filter(|path| !path.as_os_str().is_empty());
        poni.into_iter().chain(files).chain(monitors)
    }

    /// Returns the text of the recipe's file.
    pub fn to_toml(&self) -> String {
        let comment =
            "# Resolved by plan-split; ai-integrate refuses it, or a file it names, once it no longer matches.\n";
        format!("{comment}{}", toml::to_string(self).expect("a recipe holds nothing that TOML can't"))
    }

    /// Reads a resolved recipe, and checks that it has the digest in the task and that none of its files has changed.
    ///
    /// # Errors
    /// A file can't be read, or the recipe or one of its files has changed since the recipe was made.
    pub fn load(path: &Path, expected: &str) -> Result<Self, RecipeError> {
        let text =
            system::untrusted_file::read_text(path).map_err(|why| RecipeError::Io { path: path.to_path_buf(), why })?;
        let mut recipe = Self::parse(&text, path, expected)?;
        recipe.files_mut().try_for_each(|file| file.verify())?;
        Ok(recipe)
    }

    /// Parses the text of a resolved recipe and checks that it has the digest in the task. Does not read the recipe's
    /// files; `path` is only used in errors.
    ///
    /// # Errors
    /// The text is not a recipe, is from a newer version, or has another digest.
    pub fn parse(text: &str, path: &Path, expected: &str) -> Result<Self, RecipeError> {
        let syntax_error = |why: toml::de::Error| RecipeError::Syntax {
            path: path.to_path_buf(),
            why: describe_toml_error(text, &why),
        };
        let RecipeVersion { version } = toml::from_str(text).map_err(syntax_error)?;
        if version > RECIPE_VERSION {
            return Err(RecipeError::NewerVersion { path: path.to_path_buf(), found: version });
        }
        let recipe: Self = toml::from_str(text).map_err(syntax_error)?;
        let found = recipe.digest();
        if found != expected {
            let path = path.to_path_buf();
            return Err(RecipeError::Changed { path, found, expected: expected.to_owned() });
        }
        recipe.validate().map_err(|why| why.in_file(path))?;
        Ok(recipe)
    }
}

/// Refuses settings that contradict each other, or have no effect without another one.
fn check_combinations(settings: &Settings) -> Result<(), RecipeError> {
    let refuse = |key, why: String| Err(RecipeError::Setting { key, why });
    let refuse_with = |key, edges: &str| refuse(key, format!("set together with {edges}; expected one of them"));
    let refuse_without = |key, other: &str| refuse(key, format!("set without {other}; expected both, or neither"));
    match settings {
        Settings { radial_edges: Some(_), npt: Some(_), .. } => refuse_with("npt", "radial-edges"),
        Settings { radial_edges: Some(_), radial_range: Some(_), .. } => refuse_with("radial-range", "radial-edges"),
        Settings { azimuth_edges: Some(_), npt_azim: Some(_), .. } => refuse_with("npt-azim", "azimuth-edges"),
        Settings { azimuth_edges: Some(_), azimuth_range: Some(_), .. } => {
            refuse_with("azimuth-range", "azimuth-edges")
        }
        Settings { flat: None, flat_mode: Some(_), .. } => refuse_without("flat-mode", "flat"),
        Settings { polarization: None, polarization_offset: Some(_), .. } => {
            refuse_without("polarization-offset", "polarization")
        }
        Settings { median: None, median_error: Some(_), .. } => refuse_without("median-error", "median"),
        _ => Ok(()),
    }
}

/// Returns the default pixel splitting: none with sigma clipping, because the parts of a split pixel in several bins are
/// no independent measurements, and none with units of the sample's frame, which have values that no pixel can show.
fn default_split(settings: &Settings) -> Split {
    let unit = settings.unit.unwrap_or_default();
    if settings.sigma_clip.is_some() || unit.depends_on_sample() { Split::No } else { Split::default() }
}

fn default_error_model(settings: &Settings) -> ErrorModel {
    if settings.variance.is_some() { ErrorModel::Variance } else { ErrorModel::default() }
}

/// Returns the number of bins between edges.
fn bin_count(edges: &Option<Vec<f64>>) -> Option<u64> {
    edges.as_ref().map(|edges| edges.len().saturating_sub(1) as u64)
}

fn is_true(value: &bool) -> bool {
    *value
}

fn default_true() -> bool {
    true
}

fn is_weighted(mean: &Mean) -> bool {
    *mean == Mean::Weighted
}

fn is_pixel(floor: &ErrorFloor) -> bool {
    *floor == ErrorFloor::Pixel
}

fn is_sem(error: &ErrorMeasure) -> bool {
    *error == ErrorMeasure::Sem
}

/// The version of a recipe, which can be read even if other keys are unknown.
#[derive(Deserialize)]
struct RecipeVersion {
    version: u64,
}

/// Returns the text and the absolute path of the PONI file; the path is empty if the settings hold the geometry itself.
fn read_poni(settings: &Settings) -> Result<(String, RawPath), RecipeError> {
    match (&settings.poni, &settings.geometry) {
        (None, None) => {
            let why = "missing; expected a PONI file (--poni lab6.poni)".to_owned();
            Err(RecipeError::Setting { key: "poni", why })
        }
        (None, Some(text)) => Ok((text.clone(), RawPath::default())),
        (Some(file), _) => {
            let text = system::untrusted_file::read_text(file).map_err(|why| {
                let path = file.to_path_buf();
                match why.kind() {
                    std::io::ErrorKind::InvalidData => {
                        let why = "not a PONI file: expected the text that pyFAI-calib2 saves after a calibration";
                        RecipeError::Syntax { path, why: why.to_owned() }
                    }
                    _ => RecipeError::Io { path, why },
                }
            })?;
            Ok((text, absolute_path(file)?))
        }
    }
}

fn absolute_path(path: &RawPath) -> Result<RawPath, RecipeError> {
    std::path::absolute(path).map(RawPath::from).map_err(|why| RecipeError::Io { path: path.to_path_buf(), why })
}

#[cfg(test)]
mod tests;
