//! Errors of reading and resolving recipes.

use std::path::{Path, PathBuf};

/// Settings are invalid, or a resolved recipe is not the one that a task refers to.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// A file can't be read.
    #[error("{}: {why}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        why: std::io::Error,
    },
    /// A recipe file can't be parsed, or a value has the wrong type.
    #[error("{}: {why}", path.display())]
    Syntax {
        /// Path of the recipe file.
        path: PathBuf,
        /// Fault and its position.
        why: String,
    },
    /// A recipe file has a key that its format does not have.
    #[error("{}: unknown key `{key}`{}", path.display(), nearest.as_ref().map_or(String::new(), |key| format!("; did you mean `{key}`?")))]
    UnknownKey {
        /// Path of the recipe file.
        path: PathBuf,
        /// Unknown key.
        key: String,
        /// Most similar known key.
        nearest: Option<String>,
    },
    /// A key in the recipe of another program is invalid or not supported.
    #[error("{}: {key}: {why}", path.display())]
    Import {
        /// Path of the recipe file.
        path: PathBuf,
        /// Key in the other program's format.
        key: String,
        /// Fault, and what was expected.
        why: String,
    },
    /// The name of a section is not a valid glob.
    #[error("{}: section [detector.{section:?}]: expected a name or a glob: {why}", path.display())]
    SectionGlob {
        /// Path of the recipe file.
        path: PathBuf,
        /// Name of the section.
        section: String,
        /// Fault in the glob.
        why: String,
    },
    /// A recipe file has sections, and none matches a detector.
    #[error("{}: no section for detector {detector}; sections are: {}", path.display(), sections.join(", "))]
    NoSection {
        /// Path of the recipe file.
        path: PathBuf,
        /// Name of the detector in the scan.
        detector: String,
        /// Names of all sections.
        sections: Vec<String>,
    },
    /// Several sections of a recipe file match a detector.
    #[error("{}: several sections for detector {detector}: {}; expected one", path.display(), sections.join(", "))]
    SeveralSections {
        /// Path of the recipe file.
        path: PathBuf,
        /// Name of the detector in the scan.
        detector: String,
        /// Names of the sections that match.
        sections: Vec<String>,
    },
    /// A setting is missing, invalid, or contradicts another one.
    #[error("{key}: {why}")]
    Setting {
        /// Name of the setting, which is also the name of the flag.
        key: &'static str,
        /// Fault, and what was expected.
        why: String,
    },
    /// A setting in a recipe file is missing, invalid, or contradicts another one.
    #[error("{}: {why}", path.display())]
    InFile {
        /// Path of the recipe file.
        path: PathBuf,
        /// Error about the setting.
        why: Box<Self>,
    },
    /// A resolved recipe, or a file that it refers to, has changed since the recipe was made.
    #[error("{}: has changed since the recipe was made (SHA-256 {found}, expected {expected}); run plan-split again", path.display())]
    Changed {
        /// Path of the file.
        path: PathBuf,
        /// Digest now.
        found: String,
        /// Digest when the recipe was made.
        expected: String,
    },
    /// A newer azpipe wrote the resolved recipe.
    #[error("{}: recipe has version {found}, and this azpipe reads up to version 1; update azpipe", path.display())]
    NewerVersion {
        /// Path of the recipe.
        path: PathBuf,
        /// Version of the recipe.
        found: u64,
    },
}

impl RecipeError {
    /// Adds the name of the recipe file to an error about a setting. Other errors, which name a
    /// file already, are returned as they are.
    pub fn in_file(self, path: &Path) -> Self {
        match self {
            Self::Setting { .. } => Self::InFile { path: path.to_path_buf(), why: Box::new(self) },
            other => other,
        }
    }
}

/// Describes an error in a TOML text in one line, with its place.
pub fn describe_toml_error(text: &str, why: &toml::de::Error) -> String {
    let message = why.message().trim().replace('\n', ": ");
    let Some(before) = why.span().and_then(|span| text.get(..span.start)) else { return message };
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |start| start.chars().count()) + 1;
    format!("line {line}, column {column}: {message}")
}

/// Describes a value of the wrong type, with its key behind `prefix`, in one line and without the
/// names of Rust's types.
pub(crate) fn describe_type_error(prefix: &str, why: &toml::de::Error) -> String {
    let text = why.to_string();
    let (message, key) = text.trim().split_once("\nin `").unwrap_or((text.trim(), ""));
    let message =
        ["usize", "u64", "i64", "u32"].iter().fold(message.to_owned(), |message, name| {
            message.replace(&format!("expected {name}"), "expected a whole number")
        });
    let message = [
        ("expected f64", "expected a number"),
        ("expected a boolean", "expected true or false"),
        ("expected an array of length 2", "expected two numbers, as in [1, 20]"),
        ("expected a sequence", "expected a list of numbers, as in [0.5, 1, 2]"),
        ("\n", ": "),
    ]
    .iter()
    .fold(message, |message, (found, better)| message.replace(found, better));
    match key.trim_end_matches('`') {
        "" => format!("{prefix}{message}"),
        key => format!("{prefix}{key}: {message}"),
    }
}
