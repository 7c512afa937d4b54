//! Import of recipes of other programs (pyFAI's worker, ESRF's integrator) as settings. Keys that
//! can't be imported are errors; keys that are applied differently, or belong to other filters,
//! give remarks.

mod esrf_integrator;
mod file_url;
mod ini;
mod pyfai_worker;

use std::path::Path;

pub use esrf_integrator::read_sections as read_integrator_sections;
pub use ini::IniSection;

use crate::settings::closest_name;
use crate::{RecipeError, Settings};

/// The format of a recipe file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecipeFormat {
    /// azpipe's own format.
    Toml,
    /// JSON configuration of pyFAI's worker, as pyFAI-integrate and ewoksxrpd write it.
    Worker,
    /// INI configuration of ESRF's integrator.
    Integrator,
}

impl RecipeFormat {
    /// Detects the format from the suffix of the file's name, or else from its content.
    pub fn detect(path: &Path, text: &str) -> Self {
        match path.extension().and_then(|suffix| suffix.to_str()) {
            Some("toml") => return Self::Toml,
            Some("json") => return Self::Worker,
            Some("ini") => return Self::Integrator,
            _ => (),
        }
        let is_section =
            |line: &str| esrf_integrator::is_section(line.split('#').next().unwrap_or("").trim());
        if text.trim_start().starts_with('{') {
            Self::Worker
        } else if text.lines().any(is_section) {
            Self::Integrator
        } else {
            Self::Toml
        }
    }

    /// Reads the settings, and remarks on keys that are not applied or are applied differently.
    pub fn read(self, text: &str, path: &Path) -> Result<(Settings, Vec<String>), RecipeError> {
        match self {
            Self::Toml => Ok((Settings::parse(text, path)?, Vec::new())),
            Self::Worker => pyfai_worker::read(text, path),
            Self::Integrator => esrf_integrator::read(text, path),
        }
    }
}

/// Returns the error about a key that is invalid or not supported.
fn refuse<T>(path: &Path, key: &str, why: impl Into<String>) -> Result<T, RecipeError> {
    Err(RecipeError::Import { path: path.to_path_buf(), key: key.to_owned(), why: why.into() })
}

/// Returns the error about a key that the format does not have.
fn unknown_key<'k>(path: &Path, key: &str, known: impl Iterator<Item = &'k str>) -> RecipeError {
    let nearest = closest_name(key, known).map(str::to_owned);
    RecipeError::UnknownKey { path: path.to_path_buf(), key: key.to_owned(), nearest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_detected_by_suffix_and_then_by_content() {
        let detect = |name: &str, text: &str| RecipeFormat::detect(Path::new(name), text);
        assert_eq!(detect("a.json", ""), RecipeFormat::Worker);
        assert_eq!(detect("a.ini", ""), RecipeFormat::Integrator);
        assert_eq!(detect("a.toml", "{"), RecipeFormat::Toml);
        assert_eq!(detect("a.azimint", " {\"poni\": 1}"), RecipeFormat::Worker);
        assert_eq!(
            detect("a.conf", "# by hand\n[dataset] # here\nlocation = x"),
            RecipeFormat::Integrator
        );
        assert_eq!(detect("-", "npt = 3\n[detector.p3]\n"), RecipeFormat::Toml);
    }
}
