//! A recipe file: settings for all detectors, and sections for some.

use std::collections::BTreeMap;
use std::path::Path;

use globset::Glob;

use crate::foreign::Format;
use crate::{Error, Settings};

/// What a recipe file says. In TOML, `[detector.NAME]` holds keys that go before those at the top for scans of that
/// detector; the name may be a glob.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecipeFile {
    settings: Settings,
    detectors: BTreeMap<String, Settings>,
    remarks: Vec<String>,
    path: std::path::PathBuf,
}

impl RecipeFile {
    /// Reads a recipe: ours in TOML, a configuration of pyFAI's worker in JSON, or one of ESRF's integrator in INI.
    /// Relative paths in it are taken from its own directory.
    ///
    /// # Errors
    /// The file can't be read, is not of its format, has a key that is not known or can't be taken over, or a value of
    /// the wrong kind.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|why| Error::File { path: path.to_path_buf(), why })?;
        let path = path.to_path_buf();
        let format = Format::of(&path, &text);
        if format != Format::Toml {
            let (settings, remarks) = format.read(&text, &path)?;
            return Ok(Self { settings, remarks, path, ..Self::default() });
        }
        let directory = path.parent().unwrap_or(Path::new(""));
        let (mut settings, mut detectors) = Settings::parse_all(&text, &path)?;
        settings.take_paths_from(directory);
        detectors.values_mut().for_each(|section| section.take_paths_from(directory));
        for name in detectors.keys() {
            Glob::new(name).map_err(|why| Error::Section {
                path: path.clone(),
                detector: name.clone(),
                why: format!("not a glob: {why}"),
            })?;
        }
        Ok(Self { settings, detectors, remarks: Vec::new(), path })
    }

    /// What the file says that is not taken over as it stands: worth a warning each.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Whether it has sections, so that scans of some detectors are worked by it and no others.
    pub fn has_sections(&self) -> bool {
        !self.detectors.is_empty()
    }

    /// The settings at the top, and the sections.
    pub(crate) fn parts(&self) -> (&Settings, &BTreeMap<String, Settings>) {
        (&self.settings, &self.detectors)
    }

    /// The settings for scans of a detector: its section's over those at the top. The section of that very name goes
    /// before globs.
    ///
    /// # Errors
    /// There are sections and none fits, or several globs do.
    pub fn for_detector(&self, detector: &str) -> Result<Settings, Error> {
        if self.detectors.is_empty() {
            return Ok(self.settings.clone());
        }
        let fits = |name: &str| Glob::new(name).is_ok_and(|glob| glob.compile_matcher().is_match(detector));
        let fitting = || self.detectors.iter().filter(|(name, _)| fits(name));
        let section = self.detectors.get(detector).or_else(|| match fitting().collect::<Vec<_>>()[..] {
            [(_, section)] => Some(section),
            _ => None,
        });
        let Some(section) = section else {
            let list = |names: Vec<&String>| names.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            let why = match fitting().map(|(name, _)| name).collect::<Vec<_>>() {
                names if names.is_empty() => {
                    format!("no section fits; there are: {}", list(self.detectors.keys().collect()))
                }
                names => format!("several sections fit: {}; expected one", list(names)),
            };
            return Err(Error::Section { path: self.path.clone(), detector: detector.to_owned(), why });
        };
        Ok(section.clone().over(self.settings.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Result<RecipeFile, Error> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        RecipeFile::read(&path)
    }

    const TWO: &str = "npt = 100\nunit = 'r_mm'\n[detector.p3]\nponi = 'a.poni'\nunit = 'q_A^-1'\n\
        [detector.'eiger*']\nponi = 'b.poni'\n[detector.eiger1]\nponi = 'c.poni'\nnpt = 7\n";

    #[test]
    fn a_section_goes_before_the_top_and_a_name_before_a_glob() {
        let sheet = read("r.toml", TWO).unwrap();
        let of = |name: &str| sheet.for_detector(name).unwrap();
        assert_eq!((of("p3").npt, of("p3").unit.as_deref()), (Some(100), Some("q_A^-1")));
        assert!(of("eiger2").poni.unwrap().ends_with("b.poni"));
        assert_eq!((of("eiger1").npt, of("eiger1").unit.as_deref()), (Some(7), Some("r_mm")));
        assert!(sheet.has_sections());
    }

    #[test]
    fn a_detector_without_a_section_or_with_two_is_refused() {
        let sheet = read("r.toml", &format!("{TWO}[detector.'e*']\nnpt = 1\n")).unwrap();
        let message = |name: &str| sheet.for_detector(name).unwrap_err().to_string();
        assert!(message("frelon").ends_with("detector frelon: no section fits; there are: e*, eiger*, eiger1, p3"));
        assert!(message("eiger5").ends_with("several sections fit: e*, eiger*; expected one"));
        assert!(read("r.toml", "npt = 3").unwrap().for_detector("any").is_ok());
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
        assert_eq!(ini.for_detector("any").unwrap().npt, Some(30));
        assert!(!ini.remarks().is_empty());
        let json = read("r.json", "{\"poni\": {\"dist\": 1}, \"nbpt_rad\": 5}").unwrap();
        assert_eq!(json.for_detector("any").unwrap().npt, Some(5));
    }
}
