//! Settings: a user's choices from command-line flags or a TOML file, before defaults are filled
//! in.

use std::collections::BTreeMap;
use std::path::Path;

use geometry::Unit;
use records::RawPath;
use serde::{Deserialize, Serialize};

use crate::error::describe_type_error;
use crate::monitor::MonitorSetting;
use crate::one_or_many::OneOrMany;
use crate::{
    DummySetting, EmptyBinValue, ErrorFloor, ErrorMeasure, ErrorModel, FlatMode, IncidentAngle,
    MaskRegion, Mean, MedianError, Quantiles, RecipeError, ReferenceSetting, Sensor, SigmaClip,
    Split, Time, describe_toml_error,
};

/// The end of errors about a file that may be no recipe at all.
pub(crate) const EXPECTED_RECIPE: &str = "expected a recipe: TOML with keys such as npt = 1000, a \
    configuration of pyFAI's worker (JSON), or one of ESRF's integrator (INI)";

/// The keys whose value is a file, or several.
const FILE_KEYS: [&str; 8] =
    ["poni", "poni-table", "goniometer", "mask", "mask-inverted", "dark", "flat", "variance"];

/// Name of the TOML table that holds the sections.
const SECTION_TABLE: &str = "detector";

/// Defines `Settings` with an optional field for each key, and the list of keys.
macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $key:ident: $type:ty,)+) => {
        /// The settings of a recipe file, whose keys are the names of plan-split's flags. Absent
        /// settings get their defaults when the recipe is [resolved](crate::Recipe::resolve).
        #[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
        #[serde(default, rename_all = "kebab-case")]
        pub struct Settings { $($(#[doc = $doc])+ #[serde(skip_serializing_if = "Option::is_none")] pub $key: Option<$type>,)+ }

        /// All keys, with underscores.
        pub(crate) const SETTING_KEYS: &[&str] = &[$(stringify!($key)),+];

        impl Settings {
            /// Returns these settings with absent ones taken from `defaults`. Flags, for example,
            /// come before the recipe file, and the file's sections before its top. A setting replaces
            /// those that it is an alternative to, too.
            pub fn with_defaults(self, mut defaults: Self) -> Self {
                defaults.remove_alternatives(&self);
                Self { $($key: self.$key.or(defaults.$key),)+ }
            }

            /// Returns whether the setting with this key, spelled with hyphens or underscores, is
            /// present.
            pub(crate) fn has(&self, key: &str) -> bool {
                let key = key.replace('-', "_");
                false $(|| (key == stringify!($key) && self.$key.is_some()))+
            }
        }
    };
}

impl Settings {
    /// Removes the settings that can't be together with one of `chosen`.
    fn remove_alternatives(&mut self, chosen: &Self) {
        let of_geometry = [&chosen.poni, &chosen.poni_table, &chosen.goniometer];
        if of_geometry.into_iter().any(Option::is_some) || chosen.geometry.is_some() {
            (self.poni, self.poni_table, self.goniometer, self.geometry) = (None, None, None, None);
            self.motor = self.motor.take().filter(|_| chosen.goniometer.is_some());
        }
        if chosen.radial_edges.is_some() {
            (self.npt, self.radial_range) = (None, None);
        }
        if chosen.npt.is_some() || chosen.radial_range.is_some() {
            self.radial_edges = None;
        }
        if chosen.azimuth_edges.is_some() {
            (self.npt_azim, self.azimuth_range) = (None, None);
        }
        if chosen.npt_azim.is_some() || chosen.azimuth_range.is_some() {
            self.azimuth_edges = None;
        }
        if chosen.sigma_clip.is_some() {
            (self.median, self.median_error) = (None, None);
        }
        if chosen.median.is_some() {
            self.sigma_clip = None;
        }
    }
}

settings! {
    /// PONI file.
    poni: RawPath,
    /// Text of a PONI file, instead of a file.
    geometry: String,
    /// Table of the PONI file of each range of frames, instead of one PONI file.
    poni_table: RawPath,
    /// Goniometer file of pyFAI, instead of a PONI file: the geometry by positions of motors.
    goniometer: RawPath,
    /// Motor of each position of the goniometer, if it has another name.
    motor: OneOrMany<String>,
    /// Detector that replaces the one in the PONI file: a name, or a NeXus detector file.
    poni_detector: RawPath,
    /// Row and column of the detector at which frames begin, if they show a region of it.
    roi: [u64; 2],
    /// Undoing the image operation of Lima (binning, flip, rotation, region).
    image_operation: bool,

    /// Angle by which the sample is turned towards the beam, for units of its frame: degrees, or a
    /// motor of the scan.
    incident_angle: IncidentAngle,
    /// Angle in degrees by which the sample is turned about the beam, for units of its frame.
    tilt_angle: f64,
    /// Orientation of the image relative to the sample, 1 to 8 as in EXIF, for units of its frame.
    sample_orientation: u64,

    /// Number of radial bins.
    npt: u64,
    /// Number of azimuthal bins; more than 1 gives a cake.
    npt_azim: u64,
    /// Radial unit, in pyFAI's spelling.
    unit: Unit,
    /// Lower and upper radial limit, in `unit`.
    radial_range: [f64; 2],
    /// Lower and upper azimuthal limit, in degrees.
    azimuth_range: [f64; 2],
    /// Edges of the radial bins, in `unit`, instead of `npt` and `radial_range`.
    radial_edges: Vec<f64>,
    /// Edges of the azimuthal bins of a cake, in degrees, instead of `npt_azim` and
    /// `azimuth_range`.
    azimuth_edges: Vec<f64>,
    /// Pixel splitting.
    split: Split,
    /// Mask files: a pixel is masked if any of them is not 0.
    mask: OneOrMany<RawPath>,
    /// Inverted mask files: a pixel is masked if any of them is 0.
    mask_inverted: OneOrMany<RawPath>,
    /// Shapes whose inside or outside is masked.
    mask_region: OneOrMany<MaskRegion>,
    /// Lower limit of valid pixel values: lower ones are masked in each frame.
    valid_min: f64,
    /// Upper limit of valid pixel values: higher ones (saturated pixels) are masked in each frame.
    valid_max: f64,
    /// Dead time of a pixel after each count, to correct counts for those that are lost in it; no
    /// correction if absent.
    dead_time: Time,
    /// Exposure time of a frame, for the correction of the dead time, instead of that of each scan.
    exposure_time: Time,
    /// Dark frames; their mean is subtracted.
    dark: OneOrMany<RawPath>,
    /// Flat fields; their mean is applied.
    flat: OneOrMany<RawPath>,
    /// Division or multiplication by the flat field.
    flat_mode: FlatMode,
    /// Sensor of the detector, to correct for its absorption; no correction if absent.
    sensor: Sensor,
    /// Polarization factor, -1 to 1; no correction if absent.
    polarization: f64,
    /// Angle that is added to chi for the polarization, in degrees: minus the azimuth of the electric field.
    polarization_offset: f64,
    /// Correction of the solid angle.
    solid_angle: bool,
    /// Weighted or unweighted mean over the pixels of a bin.
    mean: Mean,
    /// Source of the variance of pixels.
    error_model: ErrorModel,
    /// Image of each pixel's variance, for error model `variance`.
    variance: RawPath,
    /// Errors of the mean, or of a single pixel.
    error: ErrorMeasure,
    /// Where the variance is raised to that of one photon: per pixel, per bin or nowhere.
    error_floor: ErrorFloor,
    /// Sigma clipping within each bin.
    sigma_clip: SigmaClip,
    /// Quantiles of each bin between which the mean is taken.
    median: Quantiles,
    /// Errors of the mean between quantiles.
    median_error: MedianError,
    /// Monitors whose product normalizes each frame.
    monitor: OneOrMany<MonitorSetting>,
    /// Reference of each monitor.
    monitor_reference: OneOrMany<ReferenceSetting>,
    /// Value of bins without pixels.
    empty: EmptyBinValue,
    /// Bits of the mantissa that values of cakes keep.
    keep_bits: u32,
    /// Pixel values that mark invalid pixels.
    dummy: DummySetting,
    /// Masking of the gaps between the detector's modules.
    detector_mask: bool,
}

impl Settings {
    /// Parses a recipe in TOML and returns the settings at its top, without sections. `path` is
    /// only used in errors.
    ///
    /// # Errors
    /// The text is not TOML, has an unknown key, or a value of the wrong type.
    pub fn parse(text: &str, path: &Path) -> Result<Self, RecipeError> {
        Self::parse_all(text, path).map(|(settings, _)| settings)
    }

    /// Parses a recipe in TOML and returns the settings at its top, and those of each section
    /// `[detector.NAME]`.
    pub(crate) fn parse_all(
        text: &str,
        path: &Path,
    ) -> Result<(Self, BTreeMap<String, Self>), RecipeError> {
        let syntax_error = |why: String| RecipeError::Syntax {
            path: path.to_path_buf(),
            why: why.trim().to_owned(),
        };
        let mut table: toml::Table = text.parse().map_err(|why: toml::de::Error| {
            let why = describe_toml_error(text, &why);
            syntax_error(format!("{why}; {EXPECTED_RECIPE}"))
        })?;
        let mut sections = BTreeMap::new();
        match table.remove(SECTION_TABLE) {
            None => (),
            Some(toml::Value::Table(found)) => {
                for (name, section) in found {
                    let toml::Value::Table(section) = section else {
                        return Err(syntax_error(format!(
                            "{SECTION_TABLE}.{name}: expected a section, [{SECTION_TABLE}.{name}]"
                        )));
                    };
                    let section =
                        Self::from_table(section, &format!("{SECTION_TABLE}.{name}."), path)?;
                    sections.insert(name, section);
                }
            }
            Some(other) => {
                return Err(syntax_error(format!(
                    "{SECTION_TABLE} = {other}: expected sections [{SECTION_TABLE}.NAME]; \
                     to replace the detector in the PONI file, use poni-detector"
                )));
            }
        }
        Ok((Self::from_table(table, "", path)?, sections))
    }

    /// Converts a table to settings. `prefix` precedes keys in errors, such as `detector.p3.` for a
    /// section.
    fn from_table(table: toml::Table, prefix: &str, path: &Path) -> Result<Self, RecipeError> {
        // Keys may be spelled with underscores, too, because many users type them.
        let table: toml::Table =
            table.into_iter().map(|(key, value)| (key.replace('_', "-"), value)).collect();
        let keys: Vec<String> = SETTING_KEYS.iter().map(|key| key.replace('_', "-")).collect();
        if let Some(key) = table.keys().find(|key| !keys.contains(key)) {
            let known =
                keys.iter().map(String::as_str).chain(prefix.is_empty().then_some(SECTION_TABLE));
            let nearest = closest_name(key, known).map(str::to_owned);
            return Err(RecipeError::UnknownKey {
                path: path.to_path_buf(),
                key: format!("{prefix}{key}"),
                nearest,
            });
        }
        let syntax_error = |why| RecipeError::Syntax { path: path.to_path_buf(), why };
        if let Some((key, _)) = table.iter().find(|(_, value)| has_empty_text(value)) {
            let what =
                if FILE_KEYS.contains(&key.as_str()) { "the path of a file" } else { "a value" };
            return Err(syntax_error(format!(
                "{prefix}{key}: found an empty text; expected {what}, or no such key"
            )));
        }
        let table: toml::Table = table
            .into_iter()
            .map(|(key, value)| {
                let value = convert_flag_text(&key, value);
                (key, value)
            })
            .collect();
        table
            .try_into()
            .map_err(|why: toml::de::Error| syntax_error(describe_type_error(prefix, &why)))
    }

    /// Resolves relative paths of all files from `directory`.
    pub(crate) fn resolve_paths_from(&mut self, directory: &Path) {
        let join = |path: &mut RawPath| *path = directory.join(&*path).into();
        let geometries = self.poni.iter_mut().chain(&mut self.poni_table);
        geometries.chain(&mut self.goniometer).for_each(join);
        if let Some(detector) =
            self.poni_detector.as_mut().filter(|detector| is_detector_file(detector))
        {
            join(detector);
        }
        self.variance.iter_mut().for_each(join);
        let lists = [&mut self.mask, &mut self.mask_inverted, &mut self.dark, &mut self.flat];
        lists.into_iter().flatten().flat_map(OneOrMany::as_mut_slice).for_each(join);
        self.monitor
            .iter_mut()
            .flat_map(OneOrMany::as_mut_slice)
            .for_each(|name| name.resolve_paths_from(directory));
        let references = self.monitor_reference.iter_mut().flat_map(OneOrMany::as_mut_slice);
        references.for_each(|reference| reference.resolve_paths_from(directory));
    }
}

/// Returns whether a value is an empty text, or a list with one.
fn has_empty_text(value: &toml::Value) -> bool {
    match value {
        toml::Value::String(text) => text.is_empty(),
        toml::Value::Array(values) => values.iter().any(has_empty_text),
        _ => false,
    }
}

/// Converts a text that a flag takes, such as `off` or `1,20`, to the TOML type of its key. Any
/// other value stays.
fn convert_flag_text(key: &str, value: toml::Value) -> toml::Value {
    let toml::Value::String(text) = &value else { return value };
    let number = |text: &str| {
        let integer = text.trim().parse().map(toml::Value::Integer);
        integer.or_else(|_| text.trim().parse().map(toml::Value::Float)).ok()
    };
    let converted = match (key, text.as_str()) {
        ("image-operation" | "detector-mask" | "solid-angle", "on") => Some(true.into()),
        ("image-operation" | "detector-mask" | "solid-angle", "off") => Some(false.into()),
        ("roi" | "radial-range" | "azimuth-range" | "radial-edges" | "azimuth-edges", list) => {
            list.split(',').map(number).collect::<Option<_>>().map(toml::Value::Array)
        }
        _ => None,
    };
    converted.unwrap_or(value)
}

/// Returns the name most similar to a mistyped one; `None` if none is similar.
pub fn closest_name<'k>(typed: &str, names: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let similarity = |name: &str| strsim::jaro_winkler(typed, name);
    names
        .max_by(|a, b| similarity(a).total_cmp(&similarity(b)))
        .filter(|name| similarity(name) > 0.7)
}

/// Returns whether a detector is given as the path of a file, not by name.
pub(crate) fn is_detector_file(detector: &Path) -> bool {
    let suffix = detector.extension().and_then(|suffix| suffix.to_str());
    detector.components().count() > 1
        || matches!(suffix, Some("h5" | "hdf5" | "nxs" | "nx" | "hdf"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Settings, RecipeError> {
        Settings::parse(text, Path::new("a.toml"))
    }

    #[test]
    fn the_error_for_a_mistyped_key_names_the_nearest_one() {
        let error = parse("azimut_range = [0, 90]").unwrap_err().to_string();
        assert_eq!(error, "a.toml: unknown key `azimut-range`; did you mean `azimuth-range`?");
        assert!(parse("zzz = 1").unwrap_err().to_string().ends_with("unknown key `zzz`"));
    }

    #[test]
    fn the_error_for_a_wrong_type_says_where() {
        let error = parse("npt = \"many\"").unwrap_err().to_string();
        assert!(
            error.contains("npt") && !error.contains('\n') && !error.contains("usize"),
            "{error}"
        );
        let error = parse("valid-min = \"low\"").unwrap_err().to_string();
        assert!(
            error.contains("valid-min") && !error.contains('\n') && !error.contains("f64"),
            "{error}"
        );
        let error = parse("npt = 1\nnpt 5\n").unwrap_err().to_string();
        assert!(
            error.starts_with("a.toml: line 2, column 5: ") && !error.contains('\n'),
            "{error}"
        );
        let error = parse("split = \"pseudo\"").unwrap_err().to_string();
        assert!(error.contains("expected no, bbox or full"), "{error}");
    }

    #[test]
    fn texts_of_flags_are_values_of_keys() {
        let flags = "radial-range = '1, 20.5'\nroi = '512,0'\nsolid-angle = 'off'\nazimuth-edges = '-90,0,90'";
        let keys = "radial-range = [1, 20.5]\nroi = [512, 0]\nsolid-angle = false\nazimuth-edges = [-90, 0, 90]";
        assert_eq!(parse(flags).unwrap(), parse(keys).unwrap());
        for (text, expected) in [
            (
                "radial-range = '1-20'",
                "radial-range: invalid type: string \"1-20\", expected two numbers, as in [1, 20]",
            ),
            (
                "solid-angle = 'no'",
                "solid-angle: invalid type: string \"no\", expected true or false",
            ),
            (
                "radial-edges = 'all'",
                "radial-edges: invalid type: string \"all\", expected a list of numbers, as in [0.5, 1, 2]",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), format!("a.toml: {expected}"));
        }
    }

    #[test]
    fn an_empty_text_is_no_value() {
        for (text, expected) in [
            ("poni = ''", "poni: found an empty text; expected the path of a file, or no such key"),
            ("mask = ['m.edf', '']", "mask: found an empty text; expected the path of a file"),
            ("[detector.p3]\nmonitor = ''", "detector.p3.monitor: found an empty text; expected a"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("a.toml: {expected}")), "{error}");
        }
    }

    #[test]
    fn the_error_for_a_file_that_is_no_recipe_says_what_one_is() {
        let error = parse("Detector: Pilatus100k\n").unwrap_err().to_string();
        assert!(
            error.starts_with("a.toml: line 1, column ") && error.ends_with(EXPECTED_RECIPE),
            "{error}"
        );
    }

    #[test]
    fn every_key_is_known_and_flags_come_first() {
        let text = "poni='a.poni'\nnpt=10\nnpt-azim=1\nunit='r_mm'\nradial-range=[0,1]\nazimuth-range=[0,1]\nsplit='no'\n\
            mask=['m.edf','n.npy']\ndark='d'\nflat='f'\npolarization=0.9\nsolid-angle=false\nincident-angle=0.2\ntilt-angle=1\nsample-orientation=2\nmean='weighted'\nerror-model='no'\nmonitor='m'\n\
            variance='v'\nerror='std'\nerror-floor='bin'\nsigma-clip=5\nmedian=50\nmedian-error='pyfai'\nmonitor-reference='mean'\ngeometry='g'\nponi-table='t'\ngoniometer='j'\nmotor='m'\nroi=[1,2]\nimage-operation=true\nponi-detector='p'\nmask-inverted='i'\nmask-region='sector:0,1'\nvalid-min=0\n\
            valid-max=9\nradial-edges=[0,1,3]\nazimuth-edges=[0,1,3]\nflat-mode='multiply'\ndead-time='120ns'\nexposure-time=0.1\nsensor='Si,1mm'\npolarization-offset=1\nempty=0\nkeep-bits=12\ndummy='none'\ndetector-mask=false";
        assert_eq!(text.lines().count(), SETTING_KEYS.len());
        let file = parse(text).unwrap();
        assert_eq!(file.mask.as_ref().unwrap().as_slice().len(), 2);
        let flags = Settings { npt: Some(20), ..Settings::default() };
        let both = flags.with_defaults(file.clone());
        assert_eq!((both.npt, both.unit), (Some(20), file.unit));
    }

    #[test]
    fn a_flag_replaces_what_it_is_an_alternative_to() {
        let file = "poni='a.poni'\nnpt=10\nradial-range=[0,1]\nnpt-azim=4\nazimuth-range=[0,9]\nsigma-clip=5";
        let over = |flags: &str| parse(flags).unwrap().with_defaults(parse(file).unwrap());
        let edges = over("radial-edges=[0,1,2]\nazimuth-edges=[0,1,2]\nmedian=50\ngoniometer='g'");
        let left = parse("radial-edges=[0,1,2]\nazimuth-edges=[0,1,2]\nmedian=50\ngoniometer='g'");
        assert_eq!(edges, left.unwrap());
        let back = parse(&file.replace("a.poni", "b.poni")).unwrap();
        assert_eq!(back.clone().with_defaults(edges), back);
        // What is set together in one place stays, and is an error.
        assert!(over("npt=5\nradial-edges=[0,1]").radial_edges.is_some());
    }

    #[test]
    fn paths_are_resolved_from_the_recipe_files_directory() {
        let text = "poni = 'lab6.poni'\nmask = '/abs/mask.edf'\nponi-detector = 'det.h5'\n\
            monitor = ['diode', {name = 'm.h5::/m', reference = 'r.h5::/r'}]";
        let mut settings = parse(text).unwrap();
        settings.resolve_paths_from(Path::new("/dir"));
        assert_eq!(settings.poni.unwrap().as_path(), Path::new("/dir/lab6.poni"));
        assert_eq!(settings.mask.unwrap().as_slice()[0].as_path(), Path::new("/abs/mask.edf"));
        assert_eq!(settings.poni_detector.unwrap().as_path(), Path::new("/dir/det.h5"));
        let absolute =
            parse("monitor = ['diode', {name = '/dir/m.h5::/m', reference = '/dir/r.h5::/r'}]")
                .unwrap();
        assert_eq!(settings.monitor, absolute.monitor);
    }

    #[test]
    fn a_list_of_two_is_a_list() {
        let settings =
            parse("monitor = ['a', 'b']\nmonitor-reference = [1, 2]\nmask-region = ['sector:0,1', 'sector:1,2']")
                .unwrap();
        let names = ["a", "b"].map(|name| MonitorSetting::Name(name.to_owned()));
        assert_eq!(OneOrMany::items(settings.monitor.as_ref()), names);
        let references = [1.0, 2.0].map(ReferenceSetting::Value);
        assert_eq!(OneOrMany::items(settings.monitor_reference.as_ref()), references);
        assert_eq!(OneOrMany::items(settings.mask_region.as_ref()).len(), 2);
        let numbers = parse("monitor = [2, 0.5]").unwrap();
        assert_eq!(OneOrMany::items(numbers.monitor.as_ref()).len(), 2);
    }
}
