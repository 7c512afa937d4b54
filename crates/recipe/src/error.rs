//! What can be wrong with a recipe.

use std::path::{Path, PathBuf};

/// Why settings are not a recipe, or a recipe is not what a task names.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// A file can't be read or written.
    #[error("{}: {why}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        why: std::io::Error,
    },
    /// A recipe file is not of its format, or a value has the wrong kind.
    #[error("{}: {why}", path.display())]
    Toml {
        /// The recipe file.
        path: PathBuf,
        /// What is wrong, and where.
        why: String,
    },
    /// A key that no recipe has.
    #[error("{}: unknown key `{key}`{}", path.display(), nearest.as_ref().map_or(String::new(), |key| format!("; did you mean `{key}`?")))]
    UnknownKey {
        /// The recipe file.
        path: PathBuf,
        /// The key.
        key: String,
        /// The most similar key that exists.
        nearest: Option<String>,
    },
    /// A key of another program's recipe that can't be taken over.
    #[error("{}: {key}: {why}", path.display())]
    Import {
        /// The recipe file.
        path: PathBuf,
        /// The key.
        key: String,
        /// What is wrong with it, and what was expected.
        why: String,
    },
    /// A detector that no section of the recipe is for, or several are.
    #[error("{}: detector {detector}: {why}", path.display())]
    Section {
        /// The recipe file.
        path: PathBuf,
        /// The detector's name in the scan.
        detector: String,
        /// What was found, and what was expected.
        why: String,
    },
    /// A setting that is missing or out of bounds.
    #[error("{key}: {why}")]
    Setting {
        /// The setting's name, which is the flag's.
        key: &'static str,
        /// What is wrong, and what was expected.
        why: String,
    },
    /// A setting of a recipe file that is missing or out of bounds.
    #[error("{}: {why}", path.display())]
    InFile {
        /// The recipe file.
        path: PathBuf,
        /// What is wrong with which setting.
        why: Box<Self>,
    },
    /// A file that the recipe was made with has changed since.
    #[error("{}: SHA-256 is {found}, the recipe was made with {expected}; run plan-split again", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// Its digest now.
        found: String,
        /// Its digest when the recipe was made.
        expected: String,
    },
    /// A resolved recipe that was written by a newer azpipe.
    #[error("{}: recipe of version {found}: this azpipe reads up to version 1; update it", path.display())]
    NewerVersion {
        /// The recipe's file.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
}

impl RecipeError {
    /// Names the recipe file that a wrong setting stands in; an error that names a file already stays as it is.
    pub fn in_file(self, path: &Path) -> Self {
        match self {
            Self::Setting { .. } => Self::InFile { path: path.to_path_buf(), why: Box::new(self) },
            other => other,
        }
    }
}
