//! Where the files are that a file names.

use std::path::{Path, PathBuf};

/// The file that `name` means in a link or mapping of the file `holder`: as the HDF5 library looks for
/// it, but never below the current directory, of which the beamline knew nothing.
///
/// A relative name is looked for beside the file that holds it; then, where that is a symbolic link,
/// beside the file that it leads to. An absolute name that leads nowhere (the data have moved) is
/// looked for beside it by its last part. `None` where there is no such file.
pub(crate) fn locate(holder: &Path, name: &Path) -> Option<PathBuf> {
    if name == Path::new(".") || name.as_os_str().is_empty() {
        return Some(holder.to_owned());
    }
    if name.is_absolute() && name.exists() {
        return Some(name.to_owned());
    }
    let name = if name.is_absolute() { Path::new(name.file_name()?) } else { name };
    let beside = |holder: &Path| holder.parent().map(|directory| directory.join(name)).filter(|path| path.exists());
    beside(holder).or_else(|| beside(&holder.canonicalize().ok()?))
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
        std::os::unix::fs::symlink(root.join("real/master.h5"), root.join("links/master.h5")).unwrap();
        let (real, linked) = (root.join("real/master.h5"), root.join("links/master.h5"));
        let name = Path::new("scan0001/p3_0000.h5");
        assert_eq!(locate(&real, name), Some(root.join("real/scan0001/p3_0000.h5")));
        assert!(locate(&linked, name).is_some_and(|found| found.ends_with("real/scan0001/p3_0000.h5")));
        assert_eq!(locate(&real, Path::new("/data/visitor/master.h5")), Some(real.clone()));
        assert_eq!(locate(&real, Path::new(".")), Some(real.clone()));
        assert_eq!(locate(&real, Path::new("scan0002/p3_0000.h5")), None);
    }
}
