//! Globs that the shell did not expand, because they were quoted or came by a list.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use globset::GlobBuilder;

/// Whether a path has a component that only a glob would have.
pub fn is_glob(path: &Path) -> bool {
    path.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

/// The paths that a glob names, sorted as a shell does. `**` is any number of directories.
///
/// # Errors
/// Not a glob: in words.
pub fn expand(glob: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = vec![PathBuf::new()];
    for part in glob.components() {
        found = match part {
            Component::Normal(name) if name == "**" => {
                found.into_iter().flat_map(|path| with_directories_below(&path)).collect()
            }
            Component::Normal(name) if is_glob(Path::new(name)) => {
                let pattern = name.to_str().ok_or("a glob that is not UTF-8")?;
                let glob = GlobBuilder::new(pattern).build().map_err(|why| why.to_string())?;
                let matcher = glob.compile_matcher();
                let hidden = pattern.starts_with('.');
                let fits = |path: &PathBuf| {
                    let name = path.file_name().unwrap_or_default();
                    matcher.is_match(name) && (hidden || !name.as_bytes().starts_with(b"."))
                };
                found.into_iter().flat_map(|path| members(&path)).filter(fits).collect()
            }
            plain => found.into_iter().map(|path| path.join(plain)).collect(),
        };
    }
    found.retain(|path| path.symlink_metadata().is_ok());
    Ok(found)
}

/// What is in a directory, sorted; nothing where it can't be read, as in a shell.
fn members(directory: &Path) -> Vec<PathBuf> {
    let place = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let Ok(listed) = fs::read_dir(place) else { return Vec::new() };
    let mut members: Vec<PathBuf> = listed.flatten().map(|entry| directory.join(entry.file_name())).collect();
    members.sort_unstable();
    members
}

/// A directory and all below it, links to directories left out: those may lead back up.
fn with_directories_below(directory: &Path) -> Vec<PathBuf> {
    let mut all = vec![directory.to_owned()];
    let is_plain = |path: &PathBuf| path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    for below in members(directory).into_iter().filter(is_plain) {
        all.extend(with_directories_below(&below));
    }
    all
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
            let found = expand(&root.join(glob)).unwrap();
            found.iter().map(|path| path.strip_prefix(root).unwrap().display().to_string()).collect()
        };
        assert_eq!(names("a/b?/*.h5"), ["a/b1/x.h5", "a/b2/x.h5"]);
        assert_eq!(names("a/**/x.h5"), ["a/b1/x.h5", "a/b2/x.h5", "a/b2/c/x.h5"]);
        assert_eq!(names("a/*"), ["a/b1", "a/b2", "a/x.tif"]);
        assert_eq!(names("a/{x,y}.t*"), ["a/x.tif"]);
        assert_eq!(names("a/[xy].tif"), ["a/x.tif"]);
        assert!(expand(&root.join("a/[")).is_err());
    }
}
