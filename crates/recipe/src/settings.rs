//! What the user says, by flags or in a TOML file.

use std::collections::BTreeMap;
use std::path::Path;

use records::RawPath;
use serde::{Deserialize, Serialize};

use crate::monitor::MonitorSetting;
use crate::one_or_many::OneOrMany;
use crate::{
    DummySetting, EmptyBinValue, ErrorFloor, ErrorMeasure, ErrorModel, FlatMode, MaskRegion, MedianError, Quantiles,
    RecipeError, ReferenceSetting, Sensor, SigmaClip, Split,
};

/// The table of sections.
const SECTION_TABLE: &str = "detector";

/// Makes the struct of all keys, and their list.
macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $key:ident: $type:ty,)+) => {
        /// The keys of a recipe file, which are the names of plan-split's flags. Whatever is `None` takes
        /// its default when the recipe is [resolved](crate::Recipe::resolve).
        #[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
        #[serde(default, rename_all = "kebab-case")]
        pub struct Settings { $($(#[doc = $doc])+ #[serde(skip_serializing_if = "Option::is_none")] pub $key: Option<$type>,)+ }

        /// Every key, with underscores.
        pub(crate) const SETTING_KEYS: &[&str] = &[$(stringify!($key)),+];

        impl Settings {
            /// These settings, and those of `base` where these say nothing: flags over the recipe file.
            pub fn with_defaults(self, base: Self) -> Self {
                Self { $($key: self.$key.or(base.$key),)+ }
            }

            /// Returns whether there is a value for the key of this name.
            pub(crate) fn has(&self, key: &str) -> bool {
                let key = key.replace('-', "_");
                false $(|| (key == stringify!($key) && self.$key.is_some()))+
            }
        }
    };
}

settings! {
    /// The PONI file.
    poni: RawPath,
    /// The geometry itself, as the text of a PONI file, in place of one.
    geometry: String,
    /// The detector in place of that of the PONI: a name, or a NeXus detector file.
    poni_detector: RawPath,
    /// The row and column of the detector that frames begin at, where they show a region of it.
    roi: [u64; 2],
    /// Whether to undo what Lima says it did to the images: binning, flips, rotation, region.
    image_operation: bool,

    /// Radial bins.
    npt: u64,
    /// Azimuthal bins; more than 1 gives a cake.
    npt_azim: u64,
    /// The radial unit, in pyFAI's spelling.
    unit: String,
    /// Lower and upper radial limit, in `unit`.
    radial_range: [f64; 2],
    /// Lower and upper azimuthal limit, in degrees.
    azimuth_range: [f64; 2],
    /// The edges of the radial bins, in `unit`, in place of `npt` and `radial_range`.
    radial_edges: Vec<f64>,
    /// The edges of the azimuthal bins of a cake, in degrees, in place of `npt_azim` and `azimuth_range`.
    azimuth_edges: Vec<f64>,
    /// Pixel splitting.
    split: Split,
    /// Masks, united; not 0 is masked.
    mask: OneOrMany<RawPath>,
    /// Masks the other way about, united with the rest: 0 is masked.
    mask_inverted: OneOrMany<RawPath>,
    /// Shapes on the detector that are masked.
    mask_region: OneOrMany<MaskRegion>,
    /// Pixels below are no measurement, frame by frame.
    valid_min: f64,
    /// Pixels above are no measurement, frame by frame: saturated.
    valid_max: f64,
    /// Dark frames, averaged and subtracted.
    dark: OneOrMany<RawPath>,
    /// Flat fields, averaged.
    flat: OneOrMany<RawPath>,
    /// Whether counts are divided by the flat field, or multiplied.
    flat_mode: FlatMode,
    /// The sensor, to correct for the share of the photons that it absorbs; absent for no correction.
    sensor: Sensor,
    /// The polarization factor, -1 to 1; absent for no correction.
    polarization: f64,
    /// The angle from the horizontal to the plane of polarization, degrees.
    polarization_offset: f64,
    /// Whether to correct for the solid angle.
    solid_angle: bool,
    /// The error model.
    error_model: ErrorModel,
    /// The image of each pixel's variance, for that error model.
    variance: RawPath,
    /// What the errors are: of the mean, or of a pixel.
    error: ErrorMeasure,
    /// Which sums of counts have a variance of one photon at the least.
    error_floor: ErrorFloor,
    /// Sigma clipping within each bin.
    sigma_clip: SigmaClip,
    /// The mean between two quantiles within each bin.
    median: Quantiles,
    /// Which errors the mean between two quantiles has.
    median_error: MedianError,
    /// What each frame is normalized by.
    monitor: OneOrMany<MonitorSetting>,
    /// What each monitor is divided by.
    monitor_reference: OneOrMany<ReferenceSetting>,
    /// The content of bins without pixels.
    empty: EmptyBinValue,
    /// Pixel values that are no measurement.
    dummy: DummySetting,
    /// Whether to mask the gaps that the detector is known to have.
    detector_mask: bool,
}

impl Settings {
    /// Reads the text of a recipe without sections; `path` is only named in errors.
    ///
    /// # Errors
    /// It is not TOML, has a key that no recipe has, or a value of the wrong kind.
    pub fn parse(text: &str, path: &Path) -> Result<Self, RecipeError> {
        Self::parse_all(text, path).map(|(settings, _)| settings)
    }

    /// The settings at the top, and those of the sections `[detector.NAME]`.
    pub(crate) fn parse_all(text: &str, path: &Path) -> Result<(Self, BTreeMap<String, Self>), RecipeError> {
        let wrong = |why: String| RecipeError::Toml { path: path.to_path_buf(), why: why.trim().to_owned() };
        let mut table: toml::Table = text.parse().map_err(|why: toml::de::Error| wrong(why.to_string()))?;
        let mut sections = BTreeMap::new();
        match table.remove(SECTION_TABLE) {
            None => (),
            Some(toml::Value::Table(found)) => {
                for (name, section) in found {
                    let toml::Value::Table(section) = section else {
                        return Err(wrong(format!(
                            "{SECTION_TABLE}.{name}: expected a section, [{SECTION_TABLE}.{name}]"
                        )));
                    };
                    let section = Self::from_table(section, &format!("{SECTION_TABLE}.{name}."), path)?;
                    sections.insert(name, section);
                }
            }
            Some(other) => {
                let kind = other.type_str();
                return Err(wrong(format!(
                    "{SECTION_TABLE}: a {kind}: expected sections, [{SECTION_TABLE}.NAME]; see poni-detector"
                )));
            }
        }
        Ok((Self::from_table(table, "", path)?, sections))
    }

    fn from_table(table: toml::Table, within: &str, path: &Path) -> Result<Self, RecipeError> {
        // Underscores are what most people type first; both spellings mean the same key.
        let table: toml::Table = table.into_iter().map(|(key, value)| (key.replace('_', "-"), value)).collect();
        let keys: Vec<String> = SETTING_KEYS.iter().map(|key| key.replace('_', "-")).collect();
        if let Some(key) = table.keys().find(|key| !keys.contains(key)) {
            let known = keys.iter().map(String::as_str).chain(within.is_empty().then_some(SECTION_TABLE));
            let nearest = closest_name(key, known).map(str::to_owned);
            return Err(RecipeError::UnknownKey { path: path.to_path_buf(), key: format!("{within}{key}"), nearest });
        }
        table.try_into().map_err(|why: toml::de::Error| RecipeError::Toml {
            path: path.to_path_buf(),
            why: format!("{within}{}", why.to_string().trim()),
        })
    }

    pub(crate) fn resolve_paths_from(&mut self, directory: &Path) {
        let join = |path: &mut RawPath| *path = directory.join(&*path).into();
        self.poni.iter_mut().for_each(join);
        if let Some(detector) = self.poni_detector.as_mut().filter(|detector| is_file(detector)) {
            join(detector);
        }
        self.variance.iter_mut().for_each(join);
        let lists = [&mut self.mask, &mut self.mask_inverted, &mut self.dark, &mut self.flat];
        lists.into_iter().flatten().flat_map(OneOrMany::as_mut_slice).for_each(join);
        self.monitor.iter_mut().flat_map(OneOrMany::as_mut_slice).for_each(|name| name.taken_from(directory));
        let references = self.monitor_reference.iter_mut().flat_map(OneOrMany::as_mut_slice);
        references.for_each(|reference| reference.resolve_paths_from(directory));
    }
}

/// Returns the name that a typing error was most likely to be; `None` where no name is much like it.
pub fn closest_name<'k>(typed: &str, keys: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let likeness = |key: &str| strsim::jaro_winkler(typed, key);
    keys.max_by(|a, b| likeness(a).total_cmp(&likeness(b))).filter(|key| likeness(key) > 0.7)
}

/// Whether a detector is named by a file, and not by its name.
pub(crate) fn is_file(detector: &Path) -> bool {
    let suffix = detector.extension().and_then(|suffix| suffix.to_str());
    detector.components().count() > 1 || matches!(suffix, Some("h5" | "hdf5" | "nxs" | "nx" | "hdf"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Settings, RecipeError> {
        Settings::parse(text, Path::new("r.toml"))
    }

    #[test]
    fn a_typing_error_is_an_error_with_the_nearest_key() {
        let error = parse("azimut_range = [0, 90]").unwrap_err().to_string();
        assert_eq!(error, "r.toml: unknown key `azimut-range`; did you mean `azimuth-range`?");
        assert!(parse("zzz = 1").unwrap_err().to_string().ends_with("unknown key `zzz`"));
    }

    #[test]
    fn a_wrong_kind_says_where() {
        let error = parse("npt = \"many\"").unwrap_err().to_string();
        assert!(error.contains("npt") || error.contains("line 1"), "{error}");
        let error = parse("split = \"pseudo\"").unwrap_err().to_string();
        assert!(error.contains("expected no, bbox or full"), "{error}");
    }

    #[test]
    fn every_key_is_known_and_flags_win() {
        let text = "poni='a.poni'\nnpt=10\nnpt-azim=1\nunit='r_mm'\nradial-range=[0,1]\nazimuth-range=[0,1]\nsplit='no'\n\
            mask=['m.edf','n.npy']\ndark='d'\nflat='f'\npolarization=0.9\nsolid-angle=false\nerror-model='no'\nmonitor='m'\n\
            variance='v'\nerror='std'\nerror-floor='bin'\nsigma-clip=5\nmedian=50\nmedian-error='pyfai'\nmonitor-reference='mean'\ngeometry='g'\nroi=[1,2]\nimage-operation=true\nponi-detector='p'\nmask-inverted='i'\nmask-region='sector:0,1'\nvalid-min=0\n\
            valid-max=9\nradial-edges=[0,1,3]\nazimuth-edges=[0,1,3]\nflat-mode='multiply'\nsensor='Si,1mm'\npolarization-offset=1\nempty=0\ndummy='none'\ndetector-mask=false";
        assert_eq!(text.lines().count(), SETTING_KEYS.len());
        let file = parse(text).unwrap();
        assert_eq!(file.mask.as_ref().unwrap().as_slice().len(), 2);
        let flags = Settings { npt: Some(20), ..Settings::default() };
        let both = flags.with_defaults(file.clone());
        assert_eq!((both.npt, both.unit), (Some(20), file.unit));
    }

    #[test]
    fn paths_are_taken_from_the_recipe_files_directory() {
        let text = "poni = 'lab6.poni'\nmask = '/abs/mask.edf'\nponi-detector = 'det.h5'\n\
            monitor = ['diode', {name = 'm.h5::/m', reference = 'r.h5::/r'}]";
        let mut settings = parse(text).unwrap();
        settings.resolve_paths_from(Path::new("/dir"));
        assert_eq!(settings.poni.unwrap().as_path(), Path::new("/dir/lab6.poni"));
        assert_eq!(settings.mask.unwrap().as_slice()[0].as_path(), Path::new("/abs/mask.edf"));
        assert_eq!(settings.poni_detector.unwrap().as_path(), Path::new("/dir/det.h5"));
        let named = parse("monitor = ['diode', {name = '/dir/m.h5::/m', reference = '/dir/r.h5::/r'}]").unwrap();
        assert_eq!(settings.monitor, named.monitor);
    }
}
