//! References to files that a recipe depends on, with the digest of their content.

use std::io;
use std::path::Path;

use records::{IdHasher, RawPath};
use serde::{Deserialize, Serialize};
use system::untrusted_file::{self, MAX_FILE_BYTES};

use crate::RecipeError;

/// A reference to a file, such as a mask, with the digest that its content had when the recipe was
/// made.
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
    /// Makes a reference to the file `name`, a path or `file.h5::/dataset`; relative paths start
    /// from `base`. Reads the whole file for its digest.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn resolve(name: &RawPath, base: &Path) -> Result<Self, RecipeError> {
        let (file, dataset) = split_dataset(name, base)?;
        let path = std::path::absolute(base.join(&file))
            .map_err(|why| RecipeError::Io { path: file.to_path_buf(), why })?;
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
        Err(RecipeError::Changed {
            path: self.path.to_path_buf(),
            found,
            expected: self.sha256.clone(),
        })
    }
}

fn sha256_of_file(path: &Path) -> Result<String, RecipeError> {
    let bytes = untrusted_file::read(path, MAX_FILE_BYTES)
        .map_err(|why| RecipeError::Io { path: path.to_path_buf(), why })?;
    Ok(IdHasher::sha256_hex(&bytes))
}

/// Splits `file.h5::/dataset`. A path that contains `::` and exists is a plain file.
///
/// # Errors
/// Fails if the system does not tell whether a file of the whole name exists.
fn split_dataset(name: &RawPath, base: &Path) -> Result<(RawPath, Option<String>), RecipeError> {
    let Some((file, dataset)) = name.to_str().and_then(|text| text.rsplit_once("::")) else {
        return Ok((name.clone(), None));
    };
    Ok(match exists(&base.join(name))? {
        true => (name.clone(), None),
        false => (file.into(), Some(dataset.to_owned())),
    })
}

/// Returns whether there is a file of this name.
///
/// # Errors
/// Fails if the system does not tell.
pub(crate) fn exists(path: &Path) -> Result<bool, RecipeError> {
    match path.metadata() {
        Err(why)
            if matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(false)
        }
        Err(why) => Err(RecipeError::Io { path: path.to_path_buf(), why }),
        Ok(_) => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_can_not_be_looked_up_is_no_dataset() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a::b.edf"), "pixels").unwrap();
        let split = |name: &str| split_dataset(&name.into(), dir.path());
        assert_eq!(split("a::b.edf").unwrap(), ("a::b.edf".into(), None));
        assert_eq!(split("c.h5::/d").unwrap(), ("c.h5".into(), Some("/d".to_owned())));
        assert_eq!(split("a::b.edf::/d").unwrap(), ("a::b.edf".into(), Some("/d".to_owned())));
        // The system refuses to look at a name of this length, as it does at any file on a disk
        // that fails.
        let unseen = format!("{}::/d", "n".repeat(300));
        assert!(
            matches!(split(&unseen), Err(RecipeError::Io { path, .. }) if path.ends_with(&unseen))
        );
    }
}
