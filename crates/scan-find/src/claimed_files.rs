//! Keeps track of the files that belong to scans found so far.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Component, Path, PathBuf};

use records::relative_path;

/// The files that belong to scans found so far.
#[derive(Default)]
pub struct ClaimedFiles {
    /// The files, by their real paths.
    files: HashSet<PathBuf>,
    /// Files whose real paths could not be determined, with the errors.
    unresolved: Vec<(PathBuf, io::Error)>,
    /// The real path of each directory that a file was in.
    directories: HashMap<PathBuf, PathBuf>,
}

impl ClaimedFiles {
    /// Returns whether a file belongs to a scan that has been found.
    pub fn contains(&mut self, file: &Path) -> bool {
        let real = self.real_path(file);
        self.files.contains(&real) || self.files.contains(file)
    }

    /// Records that a file belongs to a scan.
    pub fn insert(&mut self, file: &Path) {
        let real = self.real_path(file);
        self.files.insert(real);
    }

    /// Returns the path of a file with symbolic links resolved, or the path itself if that fails.
    /// Directories are resolved once, because a scan has hundreds of files in one.
    pub fn real_path(&mut self, file: &Path) -> PathBuf {
        match self.resolve(file) {
            Ok(real) => real,
            Err(why) => {
                // A file that does not exist belongs to no scan.
                if !matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) {
                    self.unresolved.push((file.to_owned(), why));
                }
                file.to_owned()
            }
        }
    }

    fn resolve(&mut self, file: &Path) -> io::Result<PathBuf> {
        let (Some(directory), Some(name)) = (file.parent(), file.file_name()) else {
            return Ok(file.to_owned());
        };
        let known = match self.directories.get(directory) {
            Some(real) => real.join(name),
            None => {
                let real = directory.canonicalize()?;
                let path = real.join(name);
                self.directories.insert(directory.to_owned(), real);
                path
            }
        };
        match known.symlink_metadata() {
            Ok(metadata) if metadata.is_symlink() => (),
            Ok(_) => return Ok(known),
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(known),
            Err(why) => return Err(why),
        }
        let real = known.canonicalize()?;
        if let Some(directory) = real.parent() {
            self.directories.entry(directory.to_owned()).or_insert_with(|| directory.to_owned());
        }
        Ok(real)
    }

    /// Takes the files whose real paths could not be determined; a scan with such files may have
    /// been reported before.
    pub fn take_unresolved(&mut self) -> Vec<(PathBuf, io::Error)> {
        std::mem::take(&mut self.unresolved)
    }

    /// Returns whether there are files whose real paths could not be determined.
    pub fn has_unresolved(&self) -> bool {
        !self.unresolved.is_empty()
    }

    /// Returns the directories of all files that were looked up.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.directories.values().map(PathBuf::as_path)
    }
}

/// Returns the path of a master's results below the output root, which does not depend on the other
/// operands: the master's path below `root`, which is the operand if it is a directory, or else the
/// operand's directory. For a file that is elsewhere, such as a link of a collection of masters, it
/// is the relative path to the file without its `..` components.
pub fn path_below(file: &Path, root: &Path) -> PathBuf {
    relative_path(root, file).components().filter(|part| *part != Component::ParentDir).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_results_depends_on_the_file_and_its_operand_alone() {
        let below = |file: &str, root: &str| {
            path_below(Path::new(file), Path::new(root)).display().to_string()
        };
        assert_eq!(below("/data/a/x.h5", "/data"), "a/x.h5");
        assert_eq!(below("/data/b/x.h5", "/data/b"), "x.h5");
        assert_eq!(below("/raw/d/x.h5", "/raw/collections"), "d/x.h5");
        assert_eq!(below("/raw/d/x.h5", "/data"), "raw/d/x.h5");
        assert_eq!(below("/x.h5", "/"), "x.h5");
    }
}
