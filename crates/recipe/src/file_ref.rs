//! References to files that a recipe depends on, with the digest of their content.

use std::path::Path;

use filter::untrusted_file::{self, MAX_FILE_BYTES};
use records::{IdHasher, RawPath};
use serde::{Deserialize, Serialize};

use crate::RecipeError;

/// A reference to a file, such as a mask, with the digest that its content had when the recipe was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileRef {
    /// Absolute path of the file.
    pub path: RawPath,
    /// Path of the dataset, for an HDF5 file given as `file.h5::/path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// SHA-256 of the file in hexadecimal digits, as `sha256sum` prints it.
    pub sha256: String,
}

impl FileRef {
    /// Makes a reference to the file `name`, a path or `file.h5::/dataset`; relative paths start from `base`. Reads the
    /// whole file for its digest.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn resolve(name: &RawPath, base: &Path) -> Result<Self, RecipeError> {
        let (file, dataset) = split_dataset(name);
        let path =
            std::path::absolute(base.join(&file)).map_err(|why| RecipeError::Io { path: file.to_path_buf(), why })?;
        let sha256 = sha256_of_file(&path)?;
        Ok(Self { path: path.into(), dataset, sha256 })
    }

    /// Returns the path, with `::` and the dataset if there is one.
    pub fn name(&self) -> String {
        match &self.dataset {
            Some(dataset) => format!("{}::{dataset}", self.path.display()),
            None => self.path.display().to_string(),
        }
    }

    /// Checks that the content of the file has not changed since the recipe was made.
    ///
    /// # Errors
    /// The file can't be read, or its content has changed.
    pub fn verify(&self) -> Result<(), RecipeError> {
        let found = sha256_of_file(&self.path)?;
        if found == self.sha256 {
            return Ok(());
        }
        Err(RecipeError::Changed { path: self.path.to_path_buf(), found, expected: self.sha256.clone() })
    }
}

fn sha256_of_file(path: &Path) -> Result<String, RecipeError> {
    let bytes =
        untrusted_file::read(path, MAX_FILE_BYTES).map_err(|why| RecipeError::Io { path: path.to_path_buf(), why })?;
    Ok(IdHasher::sha256_hex(&bytes))
}

/// Splits `file.h5::/dataset`. A path that contains `::` and exists is a plain file.
fn split_dataset(name: &RawPath) -> (RawPath, Option<String>) {
    match name.to_str().and_then(|text| text.rsplit_once("::")) {
        Some((file, dataset)) if !name.exists() => (file.into(), Some(dataset.to_owned())),
        _ => (name.clone(), None),
    }
}
