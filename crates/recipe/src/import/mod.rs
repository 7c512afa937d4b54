//! Recipes of other programs: what they say in the words of our own, and what they say that can't be had.

mod file_url;
mod ini;
mod integrator;
mod pyfai_worker;

use std::path::Path;

use crate::settings::closest_name;
use crate::{RecipeError, Settings};

/// How a recipe file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecipeFormat {
    /// Our own.
    Toml,
    /// The configuration of pyFAI's worker: pyFAI-integrate, ewoksxrpd.
    Worker,
    /// The configuration of ESRF's integrator.
    Integrator,
}

impl RecipeFormat {
    /// By the file's name, and where that does not tell by its first words.
    pub fn detect(path: &Path, text: &str) -> Self {
        match path.extension().and_then(|suffix| suffix.to_str()) {
            Some("toml") => return Self::Toml,
            Some("json") => return Self::Worker,
            Some("ini") => return Self::Integrator,
            _ => (),
        }
        let is_section = |line: &str| integrator::is_section(line.split('#').next().unwrap_or("").trim());
        match text.trim_start().starts_with('{') {
            true => Self::Worker,
            false if text.lines().any(is_section) => Self::Integrator,
            false => Self::Toml,
        }
    }

    /// What the text says, and remarks on what it says that is not taken over as it stands.
    pub fn read(self, text: &str, path: &Path) -> Result<(Settings, Vec<String>), RecipeError> {
        match self {
            Self::Toml => Ok((Settings::parse(text, path)?, Vec::new())),
            Self::Worker => pyfai_worker::read(text, path),
            Self::Integrator => integrator::read(text, path),
        }
    }
}

/// A key that can't be taken over.
fn refuse<T>(path: &Path, key: &str, why: impl Into<String>) -> Result<T, RecipeError> {
    Err(RecipeError::Import { path: path.to_path_buf(), key: key.to_owned(), why: why.into() })
}

/// A key that the format does not have.
fn unknown_key<'k>(path: &Path, key: &str, known: impl Iterator<Item = &'k str>) -> RecipeError {
    let nearest = closest_name(key, known).map(str::to_owned);
    RecipeError::UnknownKey { path: path.to_path_buf(), key: key.to_owned(), nearest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_suffix_and_then_by_content() {
        let of = |name: &str, text: &str| RecipeFormat::detect(Path::new(name), text);
        assert_eq!(of("a.json", ""), RecipeFormat::Worker);
        assert_eq!(of("a.ini", ""), RecipeFormat::Integrator);
        assert_eq!(of("a.toml", "{"), RecipeFormat::Toml);
        assert_eq!(of("a.azimint", " {\"poni\": 1}"), RecipeFormat::Worker);
        assert_eq!(of("a.conf", "# by hand\n[dataset] # here\nlocation = x"), RecipeFormat::Integrator);
        assert_eq!(of("-", "npt = 3\n[detector.p3]\n"), RecipeFormat::Toml);
    }
}
