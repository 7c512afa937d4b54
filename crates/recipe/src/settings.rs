//! What the user says, by flags or in a TOML file.

use std::path::Path;

use records::RawPath;
use serde::Deserialize;

use crate::{Deviation, Dummy, Empty, Error, ErrorModel, Quantiles, Reference, SigmaClip, Split};

/// The keys of a recipe file, which are the names of plan-split's flags. Whatever is `None` takes
/// its default when the recipe is [resolved](crate::Recipe::resolve).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Settings {
    /// The PONI file.
    pub poni: Option<RawPath>,
    /// Radial bins.
    pub npt: Option<u64>,
    /// Azimuthal bins; more than 1 gives a cake.
    pub npt_azim: Option<u64>,
    /// The radial unit, in pyFAI's spelling.
    pub unit: Option<String>,
    /// Lower and upper radial limit, in `unit`.
    pub radial_range: Option<[f64; 2]>,
    /// Lower and upper azimuthal limit, in degrees.
    pub azimuth_range: Option<[f64; 2]>,
    /// Pixel splitting.
    pub split: Option<Split>,
    /// Masks, united; not 0 is masked.
    pub mask: Option<OneOrMany>,
    /// The dark frame, subtracted.
    pub dark: Option<RawPath>,
    /// The flat field, divided by.
    pub flat: Option<RawPath>,
    /// The polarization factor, -1 to 1; absent for no correction.
    pub polarization: Option<f64>,
    /// Whether to correct for the solid angle.
    pub solid_angle: Option<bool>,
    /// The error model.
    pub error_model: Option<ErrorModel>,
    /// The image of each pixel's variance, for that error model.
    pub variance: Option<RawPath>,
    /// What the errors are: of the mean, or of a pixel.
    pub error: Option<Deviation>,
    /// Sigma clipping within each bin.
    pub sigma_clip: Option<SigmaClip>,
    /// The mean between two quantiles within each bin.
    pub median: Option<Quantiles>,
    /// The counter that each frame is normalized by.
    pub monitor: Option<String>,
    /// What the monitor is divided by.
    pub monitor_reference: Option<Reference>,
    /// The content of bins without pixels.
    pub empty: Option<Empty>,
    /// Pixel values that are no measurement.
    pub dummy: Option<Dummy>,
    /// Whether to mask the gaps that the detector is known to have.
    pub detector_mask: Option<bool>,
}

/// One path or a list of paths.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany {
    /// One.
    One(RawPath),
    /// Any number.
    Many(Vec<RawPath>),
}

impl OneOrMany {
    /// The paths in order.
    pub fn as_slice(&self) -> &[RawPath] {
        match self {
            Self::One(path) => std::slice::from_ref(path),
            Self::Many(paths) => paths,
        }
    }
}

const KEYS: [&str; 22] = [
    "poni",
    "npt",
    "npt-azim",
    "unit",
    "radial-range",
    "azimuth-range",
    "split",
    "mask",
    "dark",
    "flat",
    "polarization",
    "solid-angle",
    "error-model",
    "variance",
    "error",
    "sigma-clip",
    "median",
    "monitor",
    "monitor-reference",
    "empty",
    "dummy",
    "detector-mask",
];

impl Settings {
    /// Reads a recipe file. Paths in it are taken from its own directory.
    ///
    /// # Errors
    /// The file can't be read, is not TOML, has a key that no recipe has, or a value of the wrong kind.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|why| Error::File { path: path.to_path_buf(), why })?;
        let mut settings = Self::parse(&text, path)?;
        settings.take_paths_from(path.parent().unwrap_or(Path::new("")));
        Ok(settings)
    }

    /// Reads the text of a recipe file; `path` is only named in errors.
    ///
    /// # Errors
    /// As [`Settings::read`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        let toml_error =
            |why: toml::de::Error| Error::Toml { path: path.to_path_buf(), why: why.to_string().trim().to_owned() };
        let table: toml::Table = text.parse().map_err(toml_error)?;
        // Underscores are what most people type first; both spellings mean the same key.
        let table: toml::Table = table.into_iter().map(|(key, value)| (key.replace('_', "-"), value)).collect();
        if let Some(key) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
            let nearest =
                KEYS.iter().max_by(|a, b| strsim::jaro_winkler(key, a).total_cmp(&strsim::jaro_winkler(key, b)));
            let nearest = nearest.filter(|near| strsim::jaro_winkler(key, near) > 0.7).map(|near| (*near).to_owned());
            return Err(Error::UnknownKey { path: path.to_path_buf(), key: key.clone(), nearest });
        }
        table.try_into().map_err(toml_error)
    }

    /// These settings, and those of `base` where these say nothing: flags over the recipe file.
    pub fn over(self, base: Self) -> Self {
        Self {
            poni: self.poni.or(base.poni),
            npt: self.npt.or(base.npt),
            npt_azim: self.npt_azim.or(base.npt_azim),
            unit: self.unit.or(base.unit),
            radial_range: self.radial_range.or(base.radial_range),
            azimuth_range: self.azimuth_range.or(base.azimuth_range),
            split: self.split.or(base.split),
            mask: self.mask.or(base.mask),
            dark: self.dark.or(base.dark),
            flat: self.flat.or(base.flat),
            polarization: self.polarization.or(base.polarization),
            solid_angle: self.solid_angle.or(base.solid_angle),
            error_model: self.error_model.or(base.error_model),
            variance: self.variance.or(base.variance),
            error: self.error.or(base.error),
            sigma_clip: self.sigma_clip.or(base.sigma_clip),
            median: self.median.or(base.median),
            monitor: self.monitor.or(base.monitor),
            monitor_reference: self.monitor_reference.or(base.monitor_reference),
            empty: self.empty.or(base.empty),
            dummy: self.dummy.or(base.dummy),
            detector_mask: self.detector_mask.or(base.detector_mask),
        }
    }

    fn take_paths_from(&mut self, directory: &Path) {
        let join = |path: &mut RawPath| *path = directory.join(&*path).into();
        self.poni.iter_mut().for_each(join);
        self.dark.iter_mut().for_each(join);
        self.flat.iter_mut().for_each(join);
        self.variance.iter_mut().for_each(join);
        match &mut self.mask {
            Some(OneOrMany::One(path)) => join(path),
            Some(OneOrMany::Many(paths)) => paths.iter_mut().for_each(join),
            None => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Settings, Error> {
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
            variance='v'\nerror='std'\nsigma-clip=5\nmedian=50\nmonitor-reference='mean'\nempty=0\ndummy='none'\ndetector-mask=false";
        assert_eq!(text.lines().count(), KEYS.len());
        let file = parse(text).unwrap();
        assert_eq!(file.mask.as_ref().unwrap().as_slice().len(), 2);
        let flags = Settings { npt: Some(20), ..Settings::default() };
        let both = flags.over(file.clone());
        assert_eq!((both.npt, both.unit), (Some(20), file.unit));
    }

    #[test]
    fn paths_are_taken_from_the_recipe_files_directory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.toml");
        std::fs::write(&path, "poni = 'lab6.poni'\nmask = '/abs/mask.edf'").unwrap();
        let settings = Settings::read(&path).unwrap();
        assert_eq!(settings.poni.unwrap().as_path(), dir.path().join("lab6.poni"));
        assert_eq!(settings.mask.unwrap().as_slice()[0].as_path(), Path::new("/abs/mask.edf"));
    }
}
