//! Resolves the file names in external links and mappings as HDF5 does, but never against the
//! current directory.

use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::error::DiscoverError;

/// Finds the file that `name` refers to in a link or mapping of the file `holder`. It looks where
/// the HDF5 library looks, except below the current directory, which is unrelated to the data.
///
/// A relative name is looked for beside `holder`; then, if `holder` is a symbolic link, beside the
/// link's target. If an absolute name doesn't exist (the data have moved), its last component is
/// looked for beside `holder`.
///
/// # Errors
/// The file doesn't exist, or a place can't be searched and the file is in none of the others.
pub(crate) fn find_linked_file(holder: &Path, name: &Path) -> Result<PathBuf, DiscoverError> {
    if name == Path::new(".") || name.as_os_str().is_empty() {
        return Ok(holder.to_owned());
    }
    // A directory without permission is not an error yet: the data may have moved elsewhere.
    let mut forbidden = None;
    if name.is_absolute() && exists(name, &mut forbidden)? {
        return Ok(name.to_owned());
    }
    let missing = || DiscoverError::FileMissing(name.to_owned());
    let last =
        if name.is_absolute() { Path::new(name.file_name().ok_or_else(missing)?) } else { name };
    let beside = |holder: &Path| holder.parent().map(|directory| directory.join(last));
    if let Some(path) = beside(holder)
        && exists(&path, &mut forbidden)?
    {
        return Ok(path);
    }
    let real = holder.canonicalize().map_err(|why| DiscoverError::from_io(holder, &why))?;
    match beside(&real) {
        Some(path) if exists(&path, &mut forbidden)? => Ok(path),
        _ => Err(forbidden.unwrap_or_else(missing)),
    }
}

/// Returns whether a file exists. A permanent refusal of the system, such as a directory without
/// search permission, is kept in `forbidden`.
fn exists(path: &Path, forbidden: &mut Option<DiscoverError>) -> Result<bool, DiscoverError> {
    let Err(why) = path.metadata() else { return Ok(true) };
    match Errno::from_io_error(&why) {
        Some(Errno::NOENT) => Ok(false),
        Some(Errno::ACCESS | Errno::PERM | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG) => {
            forbidden.get_or_insert(DiscoverError::from_io(path, &why));
            Ok(false)
        }
        _ => Err(DiscoverError::from_io(path, &why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_looked_for_beside_the_file_that_names_them() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        std::fs::create_dir_all(root.join("real/scan0001")).unwrap();
        std::fs::create_dir(root.join("links")).unwrap();
        for file in ["real/master.h5", "real/scan0001/p3_0000.h5"] {
            std::fs::write(root.join(file), "").unwrap();
        }
        std::os::unix::fs::symlink(root.join("real/master.h5"), root.join("links/master.h5"))
            .unwrap();
        let (real, linked) = (root.join("real/master.h5"), root.join("links/master.h5"));
        let name = Path::new("scan0001/p3_0000.h5");
        assert_eq!(find_linked_file(&real, name), Ok(root.join("real/scan0001/p3_0000.h5")));
        assert!(
            find_linked_file(&linked, name)
                .is_ok_and(|found| found.ends_with("real/scan0001/p3_0000.h5"))
        );
        assert_eq!(find_linked_file(&real, Path::new("/data/visitor/master.h5")), Ok(real.clone()));
        assert_eq!(find_linked_file(&real, Path::new(".")), Ok(real.clone()));
        let gone = Path::new("scan0002/p3_0000.h5");
        assert_eq!(find_linked_file(&real, gone), Err(DiscoverError::FileMissing(gone.to_owned())));
        // A path through a regular file can't exist, which is reported as missing.
        let through = find_linked_file(&real, Path::new("master.h5/p3_0000.h5"));
        assert!(matches!(through, Err(DiscoverError::Unreadable(..))), "{through:?}");
    }
}
