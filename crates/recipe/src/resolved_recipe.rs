//! The resolved recipe: complete, and identified by its digest.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use geometry::{SampleFrame, Unit, UnknownOrientation};
use records::{FrameLayout, RawPath};
use serde::{Deserialize, Serialize};

use crate::{
    DummySetting, EmptyBinValue, ErrorFloor, ErrorMeasure, ErrorModel, FileRef, FlatMode,
    GoniometerFile, IncidentAngle, MaskRegion, Mean, MedianError, Monitor, MonitorReference,
    PoniRange, Quantiles, Quantity, RecipeError, ReferenceSetting, Sensor, SigmaClip, Split, Time,
    describe_toml_error,
};

/// Error of a recipe that is not there.
const REMOVED: &str = "no such file, though plan-split wrote it with this plan: run plan-split again, or bring it back";

/// Every setting of an integration, written as `OUT/.azpipe/recipe-<digest>.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Recipe {
    /// Version of the recipe format.
    pub version: u64,
    /// Row and column of the detector at which frames begin; `None` if they show the whole
    /// detector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roi: Option<[u64; 2]>,
    /// True if the PONI file is of the whole detector, so that the image operation of Lima
    /// (binning, flip, rotation, region) is undone; false if it is of the frames as saved.
    #[serde(skip_serializing_if = "is_true", default = "default_true")]
    pub image_operation: bool,
    /// Angle by which the sample is turned towards the beam; `None` for 0 degrees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incident_angle: Option<IncidentAngle>,
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
    /// Bits of the mantissa that values of cakes keep, of the 23 that single precision stores; `None`
    /// for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_bits: Option<u32>,
    /// Pixel values that mark invalid pixels.
    pub dummy: DummySetting,
    /// Lower limit of valid pixel values: lower ones are masked in each frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_min: Option<f64>,
    /// Upper limit of valid pixel values: higher ones (saturated pixels) are masked in each frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_max: Option<f64>,
    /// Dead time of a pixel after each count, for which counts are corrected; `None` for no correction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_time: Option<Time>,
    /// Exposure time of each frame, if there is a dead time. `None` stands for that of the scan, and
    /// only until plan-split knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exposure_time: Option<Time>,
    /// Masking of the gaps between the detector's modules.
    pub detector_mask: bool,
    /// Shapes whose inside or outside is masked.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub mask_region: Vec<MaskRegion>,
    /// Division or multiplication by the flat field; `None` without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flat_mode: Option<FlatMode>,
    /// Text of the PONI file. The digest depends on its values, not on their spelling, order and
    /// comments.
    pub poni: String,
    /// Path of the PONI file; empty if the recipe file held the geometry itself. Not part of the
    /// digest.
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
    /// Goniometer from which the geometries of `poni_table` were computed, for the motors of one
    /// scan.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub goniometer: Option<GoniometerFile>,
    /// Geometry of each range of frames, in ascending order; empty if all frames have one. If the
    /// detector moves, `poni` is that of the first range, or of the goniometer with its motors at 0, to whose distance the
    /// solid angle of all frames refers.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub poni_table: Vec<PoniRange>,
}

/// Version of the recipe format that this code writes.
pub(crate) const RECIPE_VERSION: u64 = 1;

impl Recipe {
    /// Returns the name of the PONI file for messages.
    pub fn poni_label(&self) -> PathBuf {
        if self.poni_file.as_os_str().is_empty() {
            "the recipe's geometry".into()
        } else {
            self.poni_file.to_path_buf()
        }
    }

    /// Returns whether the method needs all pixels of a bin at once: sigma clipping and quantiles. Such
    /// frames are integrated in batches, with the matrix by bin besides.
    pub fn needs_all_pixels(&self) -> bool {
        self.sigma_clip.is_some() || self.median.is_some()
    }

    /// Returns whether the geometry differs between frames: that of a detector that moves, or the
    /// incident angle of a sample.
    pub fn has_moving_geometry(&self) -> bool {
        !self.poni_table.is_empty()
            || self.goniometer.is_some()
            || self.incident_angle_motor().is_some()
    }

    /// Returns whether the detector moves, so that frames have several PONI texts.
    pub fn has_moving_detector(&self) -> bool {
        self.goniometer.is_some() || self.poni_table.iter().any(|range| !range.poni.is_empty())
    }

    /// Returns the motor whose position is the incident angle of each frame.
    pub fn incident_angle_motor(&self) -> Option<&str> {
        match &self.incident_angle {
            Some(IncidentAngle::Motor(motor)) => Some(motor),
            Some(IncidentAngle::Degrees(_)) | None => None,
        }
    }

    /// Returns the recipe of a scan whose motors give these geometries.
    pub fn with_geometries(&self, poni_table: Vec<PoniRange>) -> Self {
        Self { poni_table, ..self.clone() }
    }

    /// Returns whether the recipe needs the exposure time of a scan.
    pub fn needs_exposure_time(&self) -> bool {
        self.dead_time.is_some() && self.exposure_time.is_none()
    }

    /// Returns the recipe of a scan of this exposure time.
    pub fn with_exposure_time(&self, exposure_time: Time) -> Self {
        Self { exposure_time: Some(exposure_time), ..self.clone() }
    }

    /// Returns the PONI text of all frames; `None` if they have several.
    pub fn common_poni(&self) -> Option<&str> {
        (!self.has_moving_detector()).then_some(&self.poni)
    }

    /// Returns the PONI text of a range of frames, and the path of its file.
    pub fn poni_of<'a>(&'a self, range: &'a PoniRange) -> (&'a str, &'a RawPath) {
        match range.poni.is_empty() {
            true => (&self.poni, &self.poni_file),
            false => (&range.poni, &range.poni_file),
        }
    }

    /// Returns the recipe of the frames of this range.
    pub fn at_range(&self, range: &PoniRange) -> Self {
        let (poni, poni_file) = self.poni_of(range);
        self.at_geometry(poni, poni_file, range.incident_angle)
    }

    /// Returns the recipe of the frames that have the geometry of this PONI text, and this incident
    /// angle in degrees if it is that of a motor.
    pub fn at_geometry(
        &self,
        poni: &str,
        poni_file: &RawPath,
        incident_angle: Option<f64>,
    ) -> Self {
        Self {
            poni: poni.to_owned(),
            poni_file: poni_file.clone(),
            incident_angle: match incident_angle {
                Some(degrees) => Some(IncidentAngle::Degrees(degrees)).filter(|_| degrees != 0.0),
                None => self.incident_angle.clone(),
            },
            goniometer: None,
            poni_table: Vec::new(),
            ..self.clone()
        }
    }

    /// Returns the part of the detector that a scan's frames show and their image operation: from
    /// the recipe if it has `roi` or ignores image operations, otherwise from the scan.
    pub fn framing(&self, scan: &FrameLayout) -> FrameLayout {
        match (self.roi, self.image_operation) {
            (Some(origin), _) => FrameLayout::region(origin, scan.shape),
            (None, true) => scan.clone(),
            (None, false) => FrameLayout::full_frame(scan.shape),
        }
    }

    /// Returns the orientation of the sample. If the incident angle is that of a motor, it is 0 here:
    /// frames are integrated by the recipes [at their geometries](Self::at_geometry), which have the
    /// angle.
    ///
    /// # Errors
    /// The orientation of the image is not 1 to 8.
    pub fn sample_frame(&self) -> Result<SampleFrame, UnknownOrientation> {
        let incident = match self.incident_angle {
            Some(IncidentAngle::Degrees(degrees)) => degrees,
            Some(IncidentAngle::Motor(_)) | None => 0.0,
        };
        let tilt = self.tilt_angle.unwrap_or(0.0);
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

    /// Returns the constant reference of the product of all monitors: the mean, or the product of
    /// all references that are numbers. `None` without monitors.
    pub fn reference(&self) -> Option<ReferenceSetting> {
        let number = |monitor: &Monitor| match monitor.reference {
            MonitorReference::Quantity(Quantity::Number(number)) => number,
            _ => 1.0,
        };
        let first = self.monitor.first()?;
        Some(match first.reference {
            MonitorReference::Mean => ReferenceSetting::Mean,
            MonitorReference::Quantity(_) => {
                ReferenceSetting::Value(self.monitor.iter().map(number).product())
            }
        })
    }

    /// Returns the name of the product of all monitors, such as `fpico2 x exposure-time`; `None`
    /// without monitors.
    pub fn monitor_name(&self) -> Option<String> {
        let names: Vec<String> = self.monitor.iter().map(Monitor::name).collect();
        (!names.is_empty()).then(|| names.join(" x "))
    }

    /// Returns the files of the recipe whose content is part of the digest.
    pub(crate) fn files_mut(&mut self) -> impl Iterator<Item = &mut FileRef> {
        let images = [&mut self.mask, &mut self.mask_inverted, &mut self.dark, &mut self.flat];
        let monitors = self.monitor.iter_mut().flat_map(Monitor::files_mut);
        images
            .into_iter()
            .flatten()
            .chain(&mut self.variance)
            .chain(&mut self.detector_file)
            .chain(monitors)
    }

    /// Adds to each image that is a dataset the other files that its values are in, which `find`
    /// returns. A recipe whose images have none keeps its digest.
    ///
    /// # Errors
    /// An error of `find`, or a file that can't be read.
    pub fn add_linked_files<E: From<RecipeError>>(
        &mut self,
        find: impl Fn(&FileRef) -> Result<Vec<PathBuf>, E>,
    ) -> Result<(), E> {
        let lists = [&mut self.mask, &mut self.mask_inverted, &mut self.dark, &mut self.flat];
        let images = lists.into_iter().flatten().chain(&mut self.variance);
        for file in images.filter(|file| file.dataset.is_some()) {
            let linked = find(file)?;
            file.add_linked_files(linked)?;
        }
        Ok(())
    }

    /// Returns the name of the recipe's file, relative to the output root.
    pub fn file_name(&self) -> String {
        Self::file_name_for_digest(&self.digest())
    }

    /// Returns the name of the file of the recipe with this digest, relative to the output root.
    pub fn file_name_for_digest(digest: &str) -> String {
        format!(".azpipe/recipe-{}.toml", digest.get(..16).unwrap_or(digest))
    }

    /// Returns the paths of all files that the recipe was made from: PONI file, detector file,
    /// masks, dark frames, flat fields, variance, and monitors in HDF5 files.
    pub fn file_paths(&self) -> impl Iterator<Item = &Path> {
        let lists = [&self.mask, &self.mask_inverted, &self.dark, &self.flat].into_iter().flatten();
        let files = lists.chain(&self.detector_file).chain(&self.variance).flat_map(FileRef::paths);
        let monitors = self.monitor.iter().flat_map(Monitor::file_paths);
        let poni = Some(self.poni_file.as_path()).filter(|path| !path.as_os_str().is_empty());
        let table = self.poni_table.iter().filter(|range| !range.poni.is_empty());
        let table = table.map(|range| range.poni_file.as_path());
        poni.into_iter().chain(table).chain(files).chain(monitors)
    }

    /// Returns the text of the recipe's file.
    pub fn to_toml(&self) -> String {
        let comment = "# Resolved by plan-split; ai-integrate refuses it, or a file it names, once it no longer matches.\n";
        format!(
            "{comment}{}",
            toml::to_string(self).expect("a recipe holds nothing that TOML can't")
        )
    }

    /// Reads a resolved recipe, and checks that it has the digest in the task and that none of its
    /// files has changed.
    ///
    /// # Errors
    /// A file can't be read, or the recipe or one of its files has changed since the recipe was
    /// made.
    pub fn load(path: &Path, expected: &str) -> Result<Self, RecipeError> {
        let mut recipe = Self::load_unverified(path, expected)?;
        recipe.files_mut().try_for_each(|file| file.verify())?;
        Ok(recipe)
    }

    /// Reads a resolved recipe, but not the files that it names.
    ///
    /// # Errors
    /// The recipe can't be read, or has changed since it was made.
    pub fn load_unverified(path: &Path, expected: &str) -> Result<Self, RecipeError> {
        let text = system::untrusted_file::read_text(path).map_err(|why| RecipeError::Io {
            path: path.to_path_buf(),
            why: match why.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory => {
                    io::Error::new(why.kind(), REMOVED)
                }
                _ => why,
            },
        })?;
        Self::parse(&text, path, expected)
    }

    /// Parses the text of a resolved recipe and checks that it has the digest in the task. Does not
    /// read the recipe's files; `path` is only used in errors.
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

#[cfg(test)]
mod tests;
