//! A recipe file: settings for all detectors, and sections for some.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use globset::Glob;

use crate::import::RecipeFormat;
use crate::{RecipeError, Settings};

/// What a recipe file says. In TOML, `[detector.NAME]` holds keys that go before those at the top for scans of that
/// detector; the name may be a glob.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecipeFile {
    settings: Settings,
    detectors: BTreeMap<String, Settings>,
    remarks: Vec<String>,
    path: PathBuf,
}

impl RecipeFile {
    /// Reads a recipe: ours in TOML, a configuration of pyFAI's worker in JSON, or one of ESRF's integrator in INI.
    /// Relative paths in it are taken from its own directory.
    ///
    /// # Errors
    /// The file can't be read, is not of its format, has a key that is not known or can't be taken over, or a value of
    /// the wrong kind.
    pub fn read(path: &Path) -> Result<Self, RecipeError> {
        let text = filter::foreign::read_text(path).map_err(|why| RecipeError::Io { path: path.to_path_buf(), why })?;
        let path = path.to_path_buf();
        let format = RecipeFormat::detect(&path, &text);
        if format != RecipeFormat::Toml {
            let (settings, remarks) = format.read(&text, &path)?;
            return Ok(Self { settings, remarks, path, ..Self::default() });
        }
        let directory = path.parent().unwrap_or(Path::new(""));
        let (mut settings, mut detectors) = Settings::parse_all(&text, &path)?;
        settings.resolve_paths_from(directory);
        detectors.values_mut().for_each(|section| section.resolve_paths_from(directory));
        for name in detectors.keys() {
            Glob::new(name).map_err(|why| RecipeError::Section {
                path: path.clone(),
                detector: name.clone(),
                why: format!("not a glob: {why}"),
            })?;
        }
        Ok(Self { settings, detectors, remarks: Vec::new(), path })
    }

    /// Names this file in an error about a setting that it has and `flags` have not.
    pub fn with_file_name(&self, error: RecipeError, flags: &Settings) -> RecipeError {
        match &error {
            RecipeError::Setting { key, .. } if !self.path.as_os_str().is_empty() && !flags.has(key) => {
                error.in_file(&self.path)
            }
            _ => error,
        }
    }

    /// What the file says that is not taken over as it stands: worth a warning each.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// The settings at the top, and the sections.
    pub(crate) fn settings_and_sections(&self) -> (&Settings, &BTreeMap<String, Settings>) {
        (&self.settings, &self.detectors)
    }

    /// The name of each section, and the settings that it makes with those at the top; without sections those at the
    /// top alone.
    pub fn sections(&self) -> Vec<(Option<&str>, Settings)> {
        let section = |(name, section): (&'_ String, &Settings)| {
            (
                self.detectors.get_key_value(name).map(|(name, _)| name.as_str()),
                section.clone().with_defaults(self.settings.clone()),
            )
        };
        match self.detectors.is_empty() {
            true => vec![(None, self.settings.clone())],
            false => self.detectors.iter().map(section).collect(),
        }
    }

    /// The section for scans of a detector, as [`RecipeFile::sections`] names it. The one of that very name goes before
    /// globs.
    ///
    /// # Errors
    /// There are sections and none fits, or several globs do.
    pub fn section_for(&self, detector: &str) -> Result<Option<&str>, RecipeError> {
        let fits = |name: &str| Glob::new(name).is_ok_and(|glob| glob.compile_matcher().is_match(detector));
        let own = self.detectors.get_key_value(detector).map(|(name, _)| name.as_str());
        let fitting: Vec<&str> = self.detectors.keys().map(String::as_str).filter(|name| fits(name)).collect();
        let why = match (own, &fitting[..]) {
            (Some(own), _) => return Ok(Some(own)),
            (None, [one]) => return Ok(Some(one)),
            (None, []) if self.detectors.is_empty() => return Ok(None),
            (None, []) => {
                let all: Vec<&str> = self.detectors.keys().map(String::as_str).collect();
                format!("no section fits; there are: {}", all.join(", "))
            }
            (None, several) => format!("several sections fit: {}; expected one", several.join(", ")),
        };
        Err(RecipeError::Section { path: self.path.clone(), detector: detector.to_owned(), why })
    }

    /// Whether the reason is that no section is for a detector, so that another recipe may be.
    pub fn is_no_section_error(error: &RecipeError) -> bool {
        matches!(error, RecipeError::Section { why, .. } if why.starts_with("no section"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Result<RecipeFile, RecipeError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        RecipeFile::read(&path)
    }

    fn settings(sheet: &RecipeFile, detector: &str) -> Settings {
        let section = sheet.section_for(detector).unwrap();
        sheet.sections().into_iter().find(|(name, _)| *name == section).unwrap().1
    }

    const TWO: &str = "npt = 100\nunit = 'r_mm'\n[detector.p3]\nponi = 'a.poni'\nunit = 'q_A^-1'\n\
        [detector.'eiger*']\nponi = 'b.poni'\n[detector.eiger1]\nponi = 'c.poni'\nnpt = 7\n";

    #[test]
    fn a_section_goes_before_the_top_and_a_name_before_a_glob() {
        let sheet = read("r.toml", TWO).unwrap();
        let of = |name: &str| settings(&sheet, name);
        assert_eq!((of("p3").npt, of("p3").unit.as_deref()), (Some(100), Some("q_A^-1")));
        assert!(of("eiger2").poni.unwrap().ends_with("b.poni"));
        assert_eq!((of("eiger1").npt, of("eiger1").unit.as_deref()), (Some(7), Some("r_mm")));
    }

    #[test]
    fn a_detector_without_a_section_or_with_two_is_refused() {
        let sheet = read("r.toml", &format!("{TWO}[detector.'e*']\nnpt = 1\n")).unwrap();
        let message = |name: &str| sheet.section_for(name).unwrap_err().to_string();
        assert!(message("frelon").ends_with("detector frelon: no section fits; there are: e*, eiger*, eiger1, p3"));
        assert!(message("eiger5").ends_with("several sections fit: e*, eiger*; expected one"));
        assert_eq!(settings(&read("r.toml", "npt = 3").unwrap(), "any").npt, Some(3));
    }

    #[test]
    fn keys_of_sections_are_checked_too() {
        let message = |text: &str| read("r.toml", text).unwrap_err().to_string();
        assert!(message("[detector.p3]\nnptt = 3").ends_with("unknown key `detector.p3.nptt`; did you mean `npt`?"));
        assert!(message("[detecter.p3]\nnpt = 3").ends_with("unknown key `detecter`; did you mean `detector`?"));
        assert!(message("[detector.'a[']\nnpt = 3").contains("not a glob"));
        assert!(message("detector = 'p3'").contains("detector"));
    }

    #[test]
    fn recipes_of_others_are_read_as_such() {
        let ini = read("r.conf", "[azimuthal integration]\nn_pts = 30\n").unwrap();
        assert_eq!(settings(&ini, "any").npt, Some(30));
        assert!(!ini.remarks().is_empty());
        let json = read("r.json", "{\"poni\": {\"dist\": 1}, \"nbpt_rad\": 5}").unwrap();
        assert_eq!(settings(&json, "any").npt, Some(5));
    }
}
