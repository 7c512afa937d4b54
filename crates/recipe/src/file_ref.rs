//! A file that a recipe depends on, known by its content.

use std::path::Path;

use filter::foreign::{self, LONGEST_CONTENT};
use records::{Digest, RawPath};
use serde::{Deserialize, Serialize};

use crate::RecipeError;

/// A file of a recipe, such as a mask, with the digest of the bytes that the recipe was made with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileRef {
    /// Where it is, absolute.
    pub path: RawPath,
    /// The dataset in an HDF5 file that was named as `file.h5::/path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// What `sha256sum` prints for the file.
    pub sha256: String,
}

impl FileRef {
    /// The file that `name` means: a path below `base` or absolute, or `file.h5::/dataset`.
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

    /// Its path, and the dataset in it.
    pub fn name(&self) -> String {
        match &self.dataset {
            Some(dataset) => format!("{}::{dataset}", self.path.display()),
            None => self.path.display().to_string(),
        }
    }

    /// Checks that the file still is what the recipe was made with.
    ///
    /// # Errors
    /// The file can't be read, or its content is another.
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
        foreign::read(path, LONGEST_CONTENT).map_err(|why| RecipeError::Io { path: path.to_path_buf(), why })?;
    Ok(Digest::of_content(&bytes))
}

/// Parts `file.h5::/dataset`. A path that holds `::` but exists as it stands is a plain file.
fn split_dataset(name: &RawPath) -> (RawPath, Option<String>) {
    match name.to_str().and_then(|text| text.rsplit_once("::")) {
        Some((file, dataset)) if !name.exists() => (file.into(), Some(dataset.to_owned())),
        _ => (name.clone(), None),
    }
}
