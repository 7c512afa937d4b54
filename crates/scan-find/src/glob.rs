//! Expands globs that the shell did not expand, because they were quoted or came from a list.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use globset::GlobBuilder;

/// Returns whether a path has a component with glob characters.
pub fn is_glob(path: &Path) -> bool {
    path.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

/// The outcome of expanding a glob.
#[derive(Debug, Default)]
pub struct ExpandedGlob {
    /// The paths, in the order of a shell.
    pub paths: Vec<PathBuf>,
    /// Paths that could not be examined, with the errors.
    pub unreadable: Vec<(PathBuf, io::Error)>,
}

impl ExpandedGlob {
    /// Returns the value, or the default if there is no such file or directory. Other errors are
    /// recorded.
    fn or_default<T: Default>(&mut self, path: &Path, looked: io::Result<T>) -> T {
        looked.unwrap_or_else(|why| {
            if !matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) {
                self.unreadable.push((path.to_owned(), why));
            }
            T::default()
        })
    }

    /// Lists a directory, sorted.
    fn list(&mut self, directory: &Path) -> Vec<PathBuf> {
        let place = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        let name = |entry: io::Result<fs::DirEntry>| Ok(directory.join(entry?.file_name()));
        let listed = fs::read_dir(place)
            .and_then(|listed| listed.map(name).collect::<io::Result<Vec<PathBuf>>>());
        let mut members = self.or_default(place, listed);
        members.sort_unstable();
        members
    }

    /// Returns a directory and all directories below it. Links to directories are not followed,
    /// because they may lead back up.
    fn with_directories_below(&mut self, directory: &Path) -> Vec<PathBuf> {
        let mut all = vec![directory.to_owned()];
        for below in self.list(directory) {
            let is_plain = below.symlink_metadata().map(|metadata| metadata.is_dir());
            if self.or_default(&below, is_plain) {
                all.extend(self.with_directories_below(&below));
            }
        }
        all
    }
}

/// Explains why a text is not a glob.
#[derive(Debug, thiserror::Error)]
pub enum GlobError {
    /// The glob holds bytes that are not UTF-8.
    #[error("a glob that is not UTF-8: expected plain characters, or the names themselves")]
    NotUtf8,
    /// The glob violates the syntax.
    #[error("{}: expected a glob such as `*_0001.h5`", .0.kind())]
    Syntax(#[from] globset::Error),
}

/// Finds the paths that a glob matches. `**` matches any number of directories.
///
/// # Errors
/// The text is not a glob.
pub fn expand_glob(glob: &Path) -> Result<ExpandedGlob, GlobError> {
    let mut out = ExpandedGlob::default();
    let mut found = vec![PathBuf::new()];
    for part in glob.components() {
        found = match part {
            Component::Normal(name) if name == "**" => {
                found.into_iter().flat_map(|path| out.with_directories_below(&path)).collect()
            }
            Component::Normal(name) if is_glob(Path::new(name)) => {
                let pattern = name.to_str().ok_or(GlobError::NotUtf8)?;
                let glob = GlobBuilder::new(pattern).build()?;
                let matcher = glob.compile_matcher();
                let hidden = pattern.starts_with('.');
                let fits = |path: &PathBuf| {
                    let name = path.file_name().unwrap_or_default();
                    matcher.is_match(name) && (hidden || !name.as_bytes().starts_with(b"."))
                };
                found.into_iter().flat_map(|path| out.list(&path)).filter(fits).collect()
            }
            plain => found.into_iter().map(|path| path.join(plain)).collect(),
        };
    }
    for path in found {
        let is_there = path.symlink_metadata().map(|_| true);
        if out.or_default(&path, is_there) {
            out.paths.push(path);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_name_what_a_shell_would() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for name in ["a/b1/x.h5", "a/b2/x.h5", "a/b2/c/x.h5", "a/x.tif", "a/.h5"] {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), "").unwrap();
        }
        let names = |glob: &str| -> Vec<String> {
            let found = expand_glob(&root.join(glob)).unwrap();
            assert!(found.unreadable.is_empty());
            found
                .paths
                .iter()
                .map(|path| path.strip_prefix(root).unwrap().display().to_string())
                .collect()
        };
        assert_eq!(names("a/b?/*.h5"), ["a/b1/x.h5", "a/b2/x.h5"]);
        assert_eq!(names("a/**/x.h5"), ["a/b1/x.h5", "a/b2/x.h5", "a/b2/c/x.h5"]);
        assert_eq!(names("a/*"), ["a/b1", "a/b2", "a/x.tif"]);
        assert_eq!(names("a/{x,y}.t*"), ["a/x.tif"]);
        assert_eq!(names("a/[xy].tif"), ["a/x.tif"]);
        assert!(expand_glob(&root.join("a/[")).is_err());
    }
}
