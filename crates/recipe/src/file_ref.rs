//! References to files that a recipe depends on, with the digest of their content.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use records::RawPath;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use system::untrusted_file;

use crate::RecipeError;

/// Bytes of a file that are read and hashed at a time.
const HASHED_BLOCK_BYTES: usize = 1 << 20;

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
    /// The other files that the dataset's values are in, by links or as a virtual dataset, sorted
    /// by path. [`Recipe::add_linked_files`] adds them.
    ///
    /// [`Recipe::add_linked_files`]: crate::Recipe::add_linked_files
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub linked: Vec<LinkedFile>,
}

/// A file that a dataset's values are in, with the digest of its content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkedFile {
    /// Absolute path of the file.
    pub path: RawPath,
    /// SHA-256 of the file, as in [`FileRef`].
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
        Ok(Self { path: path.into(), dataset, sha256, linked: Vec::new() })
    }

    /// Returns the path, with `::` and the dataset if there is one.
    pub fn name(&self) -> String {
        match &self.dataset {
            Some(dataset) => format!("{}::{dataset}", self.path.display()),
            None => self.path.display().to_string(),
        }
    }

    /// Adds the other files that the dataset's values are in. Reads all of them for their digests.
    ///
    /// # Errors
    /// A file can't be read.
    pub(crate) fn add_linked_files(&mut self, files: Vec<PathBuf>) -> Result<(), RecipeError> {
        let link = |path: PathBuf| {
            let sha256 = sha256_of_file(&path)?;
            Ok(LinkedFile { path: path.into(), sha256 })
        };
        self.linked = files.into_iter().map(link).collect::<Result<_, RecipeError>>()?;
        Ok(())
    }

    /// Returns the paths of all files, without that of the dataset.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.path.as_path())
            .chain(self.linked.iter().map(|file| file.path.as_path()))
    }

    /// Removes all paths, which are not part of a recipe's digest.
    pub(crate) fn clear_paths(&mut self) {
        self.path = RawPath::default();
        self.linked.iter_mut().for_each(|file| file.path = RawPath::default());
    }

    /// Checks that the content of all files has not changed since the recipe was made.
    ///
    /// # Errors
    /// A file can't be read, or its content has changed.
    pub fn verify(&self) -> Result<(), RecipeError> {
        let linked = self.linked.iter().map(|file| (&file.path, &file.sha256));
        for (path, expected) in std::iter::once((&self.path, &self.sha256)).chain(linked) {
            let found = sha256_of_file(path)?;
            if found != *expected {
                let (path, expected) = (path.to_path_buf(), expected.clone());
                return Err(RecipeError::Changed { path, found, expected });
            }
        }
        Ok(())
    }
}

fn sha256_of_file(path: &Path) -> Result<String, RecipeError> {
    let digest = || -> io::Result<String> {
        // The files of a virtual dataset may be larger than the memory.
        let mut file = untrusted_file::open(path)?;
        let (mut hasher, mut block) = (Sha256::new(), vec![0; HASHED_BLOCK_BYTES]);
        loop {
            match file.read(&mut block) {
                Ok(0) => {
                    return Ok(hasher
                        .finalize()
                        .iter()
                        .map(|byte| format!("{byte:02x}"))
                        .collect());
                }
                Ok(length) => hasher.update(&block[..length]),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => (),
                Err(why) => return Err(why),
            }
        }
    };
    digest().map_err(|why| RecipeError::Io { path: path.to_path_buf(), why })
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
