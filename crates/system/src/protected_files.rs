//! [`ProtectedFiles`]: the files that a run reads, and never writes over.

use std::collections::{HashMap, HashSet};
use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The files that nothing is ever written over: a run's raw data and settings. Clones share one
/// set.
#[derive(Clone, Debug, Default)]
pub struct ProtectedFiles(Arc<Mutex<ProtectedSet>>);

/// The device and inode numbers of a file.
type FileIdentity = (u64, u64);

#[derive(Debug, Default)]
struct ProtectedSet {
    paths: HashSet<PathBuf>,
    /// Paths whose files' identities are not known, or may have changed since; they are determined
    /// when a file is to be replaced.
    unidentified: HashSet<PathBuf>,
    /// The paths that had each identity when they were looked at. A file may have been replaced
    /// since, and its inode be another file's.
    identified: HashMap<FileIdentity, HashSet<PathBuf>>,
}

impl ProtectedFiles {
    /// Adds a file, which need not exist. A file that is added again may have been replaced since.
    pub fn add(&self, path: &Path) {
        let mut protected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !protected.paths.contains(path) {
            protected.paths.insert(path.to_owned());
        }
        if !protected.unidentified.contains(path) {
            protected.unidentified.insert(path.to_owned());
        }
    }

    /// Returns whether one of the files is at `path`, by any name or link.
    ///
    /// # Errors
    /// Fails if the file at `path`, or a protected file, can't be examined.
    pub fn contains(&self, path: &Path) -> io::Result<bool> {
        let mut protected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if protected.paths.is_empty() {
            return Ok(false);
        }
        if protected.paths.contains(&std::path::absolute(path)?) {
            return Ok(true);
        }
        protected.identify()?;
        for found in [path.metadata(), path.symlink_metadata()] {
            match found {
                Ok(found) if protected.has_identity(identity(&found))? => return Ok(true),
                Err(why) if why.kind() != ErrorKind::NotFound => return Err(why),
                _ => (),
            }
        }
        Ok(false)
    }
}

impl ProtectedSet {
    /// Determines the identities that are not known.
    fn identify(&mut self) -> io::Result<()> {
        let unidentified = std::mem::take(&mut self.unidentified);
        for path in &unidentified {
            match path.metadata() {
                Ok(found) => {
                    self.identified.entry(identity(&found)).or_default().insert(path.clone());
                }
                // It has no identity, or none that this user could reach, and is recognized by its
                // name only.
                Err(why) if is_absent(&why) || why.kind() == ErrorKind::PermissionDenied => {}
                Err(why) => {
                    let why = unseen(path, &why);
                    self.unidentified = unidentified;
                    return Err(why);
                }
            }
        }
        Ok(())
    }

    /// Returns whether a protected file has this identity now. Paths whose file was replaced or
    /// removed since it was looked at don't count: the inode may be another file's by now.
    fn has_identity(&mut self, wanted: FileIdentity) -> io::Result<bool> {
        let Some(paths) = self.identified.get(&wanted) else { return Ok(false) };
        for path in paths {
            match path.metadata() {
                Ok(found) if identity(&found) == wanted => return Ok(true),
                Err(why) if !is_absent(&why) => return Err(unseen(path, &why)),
                _ => (),
            }
        }
        let replaced = self.identified.remove(&wanted);
        self.unidentified.extend(replaced.into_iter().flatten());
        Ok(false)
    }
}

fn identity(found: &Metadata) -> FileIdentity {
    (found.dev(), found.ino())
}

fn is_absent(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn unseen(path: &Path, why: &io::Error) -> io::Error {
    io::Error::new(why.kind(), format!("whether it is {} can't be seen: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_protected_by_whatever_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("raw.h5"), "raw").unwrap();
        fs::hard_link(path("raw.h5"), path("hard")).unwrap();
        std::os::unix::fs::symlink("raw.h5", path("soft")).unwrap();
        fs::write(path("other"), "theirs").unwrap();
        let protected = ProtectedFiles::default();
        for name in ["raw.h5", "gone.h5", "other/below"] {
            protected.add(&path(name));
        }
        for name in ["raw.h5", "hard", "soft", "gone.h5"] {
            assert!(protected.contains(&path(name)).unwrap(), "{name}");
        }
        assert!(!protected.contains(&path("other")).unwrap());
        assert!(protected.contains(&path(&"x".repeat(5000))).is_err(), "it can't be examined");
    }

    /// Replaces a file as a program does that writes it anew and renames it into place.
    fn replace(path: &Path) {
        let new = path.with_extension("new");
        fs::write(&new, "new").unwrap();
        fs::rename(new, path).unwrap();
    }

    /// The inode of a replaced or removed file is the next new file's. Here the other file is a
    /// second name of it, so that the test does not depend on the file system's choice.
    #[test]
    fn the_inode_of_a_file_that_was_replaced_or_removed_is_another_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let protected = ProtectedFiles::default();
        for (name, reuse) in [("final.h5", "map.h5"), ("master.h5", "a.xye")] {
            fs::write(path(name), "first").unwrap();
            protected.add(&path(name));
            fs::hard_link(path(name), path(reuse)).unwrap();
            assert!(protected.contains(&path(reuse)).unwrap(), "{reuse}");
        }
        replace(&path("final.h5"));
        fs::remove_file(path("master.h5")).unwrap();
        for (name, reuse) in [("final.h5", "map.h5"), ("master.h5", "a.xye")] {
            assert!(!protected.contains(&path(reuse)).unwrap(), "{reuse}");
            assert!(protected.contains(&path(name)).unwrap(), "{name}");
        }
        fs::hard_link(path("final.h5"), path("new name")).unwrap();
        assert!(protected.contains(&path("new name")).unwrap(), "the new file is protected");
    }

    #[test]
    fn a_file_that_is_added_again_is_protected_as_it_is_now() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let protected = ProtectedFiles::default();
        for generation in 0..3 {
            if generation != 1 {
                replace(&path("final.h5"));
            } else {
                fs::remove_file(path("final.h5")).unwrap();
                fs::write(path("final.h5"), "written in place").unwrap();
            }
            protected.add(&path("final.h5"));
            let link = path(&generation.to_string());
            fs::hard_link(path("final.h5"), &link).unwrap();
            assert!(protected.contains(&link).unwrap(), "generation {generation}");
        }
    }
}
