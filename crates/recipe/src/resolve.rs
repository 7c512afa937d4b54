//! Resolves settings into a recipe: fills in defaults, reads files, and refuses settings that
//! contradict each other.

use std::path::Path;

use records::RawPath;

use crate::file_ref;
use crate::one_or_many::OneOrMany;
use crate::poni_table::read_poni_table;
use crate::resolved_recipe::RECIPE_VERSION;
use crate::settings::is_detector_file;
use crate::{
    ErrorFloor, ErrorModel, FileRef, Goniometer, IncidentAngle, Monitor, PoniRange, Recipe,
    RecipeError, Settings, Split, poni_text,
};

/// Pairs of keys of which only one may be set. The error is about the first.
const EXCLUSIVE_KEYS: [(&str, &str); 9] = [
    ("goniometer", "poni"),
    ("goniometer", "geometry"),
    ("goniometer", "poni-table"),
    ("poni-table", "poni"),
    ("poni-table", "geometry"),
    ("npt", "radial-edges"),
    ("radial-range", "radial-edges"),
    ("npt-azim", "azimuth-edges"),
    ("azimuth-range", "azimuth-edges"),
];

/// Pairs of keys of which the first has no effect without the second.
const DEPENDENT_KEYS: [(&str, &str); 5] = [
    ("exposure-time", "dead-time"),
    ("flat-mode", "flat"),
    ("polarization-offset", "polarization"),
    ("median-error", "median"),
    ("motor", "goniometer"),
];

impl Recipe {
    /// Makes a recipe from settings: fills in defaults, checks values, and reads all files for
    /// their digests.
    ///
    /// # Errors
    /// A setting is missing, invalid or contradicts another one, or a file can't be read.
    pub fn resolve(settings: &Settings) -> Result<Self, RecipeError> {
        check_combinations(settings)?;
        let mut poni_table = read_table(settings)?;
        let goniometer = match &settings.goniometer {
            Some(path) => Some(Goniometer::read(path, OneOrMany::items(settings.motor.as_ref()))?),
            None => None,
        };
        let (mut poni, poni_file) = match (&goniometer, poni_table.first()) {
            (Some((goniometer, file)), _) => (goniometer.reference_poni(), file.path.clone()),
            (None, Some(first)) => (first.poni.clone(), first.poni_file.clone()),
            (None, None) => read_poni(settings)?,
        };
        let mut detector_file = None;
        let mut replace_detector = |name: &str, config: serde_json::Value| {
            let texts = poni_table.iter_mut().map(|range| &mut range.poni);
            texts.chain([&mut poni]).for_each(|poni| {
                *poni = poni_text::with_detector(poni, name, &config);
            });
        };
        match &settings.poni_detector {
            Some(file) if is_detector_file(file) => {
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                replace_detector("NexusDetector", serde_json::json!({ "filename": name }));
                detector_file = Some(FileRef::resolve(file, Path::new(""))?);
            }
            Some(name) => {
                replace_detector(&name.display().to_string(), serde_json::json!({}));
            }
            None => (),
        }
        let files = |list: &Option<OneOrMany<RawPath>>| -> Result<Vec<FileRef>, RecipeError> {
            OneOrMany::items(list.as_ref())
                .iter()
                .map(|name| FileRef::resolve(name, Path::new("")))
                .collect()
        };
        let monitor = OneOrMany::items(settings.monitor.as_ref());
        let recipe = Self {
            version: RECIPE_VERSION,
            roi: settings.roi,
            image_operation: settings.image_operation.unwrap_or(true),
            incident_angle: settings
                .incident_angle
                .clone()
                .filter(|angle| *angle != IncidentAngle::Degrees(0.0)),
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
            keep_bits: settings.keep_bits,
            dummy: settings.dummy.unwrap_or_default(),
            valid_min: settings.valid_min,
            valid_max: settings.valid_max,
            dead_time: settings.dead_time,
            exposure_time: settings.exposure_time,
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
            variance: settings
                .variance
                .as_ref()
                .map(|name| FileRef::resolve(name, Path::new("")))
                .transpose()?,
            monitor: Monitor::resolve(
                monitor,
                OneOrMany::items(settings.monitor_reference.as_ref()),
            )?,
            goniometer: goniometer.map(|(_, file)| file),
            poni_table,
        };
        recipe.validate()?;
        // Recipes of earlier versions, in files of results, may have both.
        if recipe.error_floor != ErrorFloor::Pixel && !recipe.dark.is_empty() {
            let why = format!(
                "{} set together with dark; expected pixel, or no dark: how many of a bin's counts are of the dark is not known, \
                 so their variance can't follow from the bin's sum",
                recipe.error_floor
            );
            return Err(RecipeError::Setting { key: "error-floor", why });
        }
        Ok(recipe)
    }

    /// Adds the detector file that the PONI file names. A relative name is looked up in the
    /// directory of the PONI file first, then in the working directory. A detector file from the
    /// settings stays.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn with_detector_file(mut self, name: &Path) -> Result<Self, RecipeError> {
        if self.detector_file.is_some() {
            return Ok(self);
        }
        let next_to_poni = self.poni_file.parent().unwrap_or(Path::new("")).join(name);
        let found =
            if file_ref::exists(&next_to_poni)? { next_to_poni } else { name.to_path_buf() };
        self.detector_file = Some(FileRef::resolve(&found.into(), Path::new(""))?);
        Ok(self)
    }

    /// Spells the detector in the PONI text canonically: by class name, with all of its settings in
    /// JSON. Recipes that name a detector by different aliases then have the same digest.
    pub fn with_canonical_detector(mut self, class: &str, config: &serde_json::Value) -> Self {
        let canonical = poni_text::with_detector(&self.poni, class, config);
        if poni_text::content_digest(&canonical) != poni_text::content_digest(&self.poni) {
            self.poni = canonical;
        }
        self
    }
}

/// Refuses settings that contradict each other, or have no effect without another one.
fn check_combinations(settings: &Settings) -> Result<(), RecipeError> {
    let refuse = |key, why: String| Err(RecipeError::Setting { key, why });
    for (key, other) in EXCLUSIVE_KEYS {
        if settings.has(key) && settings.has(other) {
            return refuse(key, format!("set together with {other}; expected one of them"));
        }
    }
    for (key, other) in DEPENDENT_KEYS {
        if settings.has(key) && !settings.has(other) {
            return refuse(key, format!("set without {other}; expected both, or neither"));
        }
    }
    Ok(())
}

/// Returns the default pixel splitting: none with sigma clipping, because the parts of a split
/// pixel in several bins are no independent measurements, and none with units of the sample's
/// frame, which have values that no pixel can show.
pub(crate) fn default_split(settings: &Settings) -> Split {
    let unit = settings.unit.unwrap_or_default();
    if settings.sigma_clip.is_some() || unit.depends_on_sample() {
        Split::No
    } else {
        Split::default()
    }
}

/// Returns the default error model: that of the variance image if there is one.
pub(crate) fn default_error_model(settings: &Settings) -> ErrorModel {
    if settings.variance.is_some() { ErrorModel::Variance } else { ErrorModel::default() }
}

/// Returns the number of bins between edges.
fn bin_count(edges: &Option<Vec<f64>>) -> Option<u64> {
    edges.as_ref().map(|edges| edges.len().saturating_sub(1) as u64)
}

/// Returns the text and the absolute path of the PONI file; the path is empty if the settings hold
/// the geometry itself.
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

/// Reads the table of PONI files; empty if the settings have none.
fn read_table(settings: &Settings) -> Result<Vec<PoniRange>, RecipeError> {
    settings.poni_table.as_ref().map_or(Ok(Vec::new()), |path| read_poni_table(path))
}

fn absolute_path(path: &RawPath) -> Result<RawPath, RecipeError> {
    std::path::absolute(path)
        .map(RawPath::from)
        .map_err(|why| RecipeError::Io { path: path.to_path_buf(), why })
}
