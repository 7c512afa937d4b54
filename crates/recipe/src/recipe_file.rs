//! Recipe files: settings for all detectors, and sections for some.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use globset::Glob;

use crate::import::RecipeFormat;
use crate::{RecipeError, Settings};

/// The contents of a recipe file. In TOML, a section `[detector.NAME]` overrides the settings at
/// the top for scans of that detector. NAME may be a glob.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecipeFile {
    settings: Settings,
    detectors: BTreeMap<String, Settings>,
    remarks: Vec<String>,
    path: PathBuf,
}

impl RecipeFile {
    /// Reads a recipe: azpipe's own in TOML, a configuration of pyFAI's worker in JSON, or one of
    /// ESRF's integrator in INI format. Relative paths are resolved from the directory of the file.
    ///
    /// # Errors
    /// The file can't be read or parsed, has an unknown or unsupported key, or an invalid value.
    pub fn read(path: &Path) -> Result<Self, RecipeError> {
        let text = system::untrusted_file::read_text(path)
            .map_err(|why| RecipeError::Io { path: path.to_path_buf(), why })?;
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
            Glob::new(name).map_err(|why| RecipeError::SectionGlob {
                path: path.clone(),
                section: name.clone(),
                why: why.kind().to_string(),
            })?;
        }
        Ok(Self { settings, detectors, remarks: Vec::new(), path })
    }

    /// Adds the name of this file to an error about a setting, if the setting is from the file and
    /// not from `flags`.
    pub fn with_file_name(&self, error: RecipeError, flags: &Settings) -> RecipeError {
        match &error {
            RecipeError::Setting { key, .. }
                if !self.path.as_os_str().is_empty() && !flags.has(key) =>
            {
                error.in_file(&self.path)
            }
            _ => error,
        }
    }

    /// Returns remarks on settings of other programs that are not applied, or are applied
    /// differently. Callers should print each as a warning.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Returns the settings at the top, and the settings of each section.
    pub(crate) fn settings_and_sections(&self) -> (&Settings, &BTreeMap<String, Settings>) {
        (&self.settings, &self.detectors)
    }

    /// Returns the name and the settings of each section, with the settings at the top as defaults.
    /// A file without sections gives one item without a name.
    pub fn sections(&self) -> Vec<(Option<&str>, Settings)> {
        if self.detectors.is_empty() {
            return vec![(None, self.settings.clone())];
        }
        let with_top = |section: &Settings| section.clone().with_defaults(self.settings.clone());
        self.detectors
            .iter()
            .map(|(name, section)| (Some(name.as_str()), with_top(section)))
            .collect()
    }

    /// Returns the name of the section for scans of a detector; `None` if the file has no sections.
    /// A section with exactly the detector's name comes before globs.
    ///
    /// # Errors
    /// No section matches, or several globs do.
    pub fn section_for(&self, detector: &str) -> Result<Option<&str>, RecipeError> {
        if self.detectors.is_empty() {
            return Ok(None);
        }
        if let Some((name, _)) = self.detectors.get_key_value(detector) {
            return Ok(Some(name));
        }
        let is_match = |name: &str| {
            Glob::new(name).is_ok_and(|glob| glob.compile_matcher().is_match(detector))
        };
        let matching: Vec<&String> = self.detectors.keys().filter(|name| is_match(name)).collect();
        let (path, detector) = (self.path.clone(), detector.to_owned());
        match &matching[..] {
            [name] => Ok(Some(name)),
            [] => Err(RecipeError::NoSection {
                path,
                detector,
                sections: self.detectors.keys().cloned().collect(),
            }),
            several => {
                let sections = several.iter().map(|&name| name.clone()).collect();
                Err(RecipeError::SeveralSections { path, detector, sections })
            }
        }
    }

    /// Returns whether an error says that no section is for a detector, so that another recipe file
    /// may have one.
    pub fn is_no_section_error(error: &RecipeError) -> bool {
        matches!(error, RecipeError::NoSection { .. })
    }
}

#[cfg(test)]
mod tests {
    use geometry::Unit;

    use super::*;

    fn read(name: &str, text: &str) -> Result<RecipeFile, RecipeError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        RecipeFile::read(&path)
    }

    fn settings(file: &RecipeFile, detector: &str) -> Settings {
        let section = file.section_for(detector).unwrap();
        file.sections().into_iter().find(|(name, _)| *name == section).unwrap().1
    }

    const TWO: &str = "npt = 100\nunit = 'r_mm'\n[detector.p3]\nponi = 'a.poni'\nunit = 'q_A^-1'\n\
        [detector.'eiger*']\nponi = 'b.poni'\n[detector.eiger1]\nponi = 'c.poni'\nnpt = 7\n";

    #[test]
    fn a_section_overrides_the_top_and_a_name_comes_before_a_glob() {
        let file = read("r.toml", TWO).unwrap();
        let [p3, eiger1, eiger2] = ["p3", "eiger1", "eiger2"].map(|name| settings(&file, name));
        assert_eq!((p3.npt, p3.unit.map(Unit::name)), (Some(100), Some("q_A^-1")));
        assert!(eiger2.poni.unwrap().ends_with("b.poni"));
        assert_eq!((eiger1.npt, eiger1.unit.map(Unit::name)), (Some(7), Some("r_mm")));
    }

    #[test]
    fn a_detector_without_a_section_or_with_two_is_refused() {
        let file = read("r.toml", &format!("{TWO}[detector.'e*']\nnpt = 1\n")).unwrap();
        let message = |name: &str| file.section_for(name).unwrap_err().to_string();
        assert!(
            message("frelon")
                .ends_with("no section for detector frelon; sections are: e*, eiger*, eiger1, p3")
        );
        assert!(
            message("eiger5")
                .ends_with("several sections for detector eiger5: e*, eiger*; expected one")
        );
        assert_eq!(settings(&read("r.toml", "npt = 3").unwrap(), "any").npt, Some(3));
    }

    #[test]
    fn keys_of_sections_are_checked_too() {
        let message = |text: &str| read("r.toml", text).unwrap_err().to_string();
        assert!(
            message("[detector.p3]\nnptt = 3")
                .ends_with("unknown key `detector.p3.nptt`; did you mean `npt`?")
        );
        assert!(
            message("[detecter.p3]\nnpt = 3")
                .ends_with("unknown key `detecter`; did you mean `detector`?")
        );
        assert!(
            message("[detector.'a[']\nnpt = 3")
                .contains("section [detector.\"a[\"]: expected a name or a glob")
        );
        assert!(message("detector = 'p3'").contains("detector"));
    }

    #[test]
    fn recipes_of_other_programs_are_recognized() {
        let ini = read("r.conf", "[azimuthal integration]\nn_pts = 30\n").unwrap();
        assert_eq!(settings(&ini, "any").npt, Some(30));
        assert!(!ini.remarks().is_empty());
        let json = read("r.json", "{\"poni\": {\"dist\": 1}, \"nbpt_rad\": 5}").unwrap();
        assert_eq!(settings(&json, "any").npt, Some(5));
    }
}
