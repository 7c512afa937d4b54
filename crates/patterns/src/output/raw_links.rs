//! Links from a final file to the raw scan: its instrument, sample and counters.

use std::path::{Component, Path, PathBuf};

use super::content::OutputContent;
use super::schema::{create_nexus_group, entry_name, name};
use crate::h5::{Group, Hdf5Error, Result};

/// Adds links to an entry: `instrument`, `sample`, and `measurement` with the scan's counters, and with a link to `patterns`. Image
/// files and plain HDF5 datasets have no entry that could be linked.
pub(super) fn write_raw_links(
    entry: &Group,
    content: &OutputContent,
    patterns: &str,
    integrated: &Group,
) -> Result<()> {
    let target = content.target;
    let scan = &target.task().acquisition;
    let measurement = create_nexus_group(entry, "measurement", "NXcollection")?;
    measurement.link_soft(&format!("{}/{}", integrated.name(), name::INTENSITY), patterns)?;
    let below_entry = format!("/{}/", entry_name(&scan.entry));
    let reference = link_path(&target.path(), &scan.file)?.filter(|_| scan.dataset.starts_with(&below_entry));
    let Some(file) = reference else { return Ok(()) };
    // The links are written even if the raw file can't be read here, because readers of the final file may have access to it.
    let raw = content.raw_file();
    let may_have = |path: &str| match raw.as_ref().map(|raw| raw.resolves(path)) {
        Some(Err(why @ Hdf5Error::Io(_))) => {
            content.warn_of_raw_file(&why);
            true
        }
        None | Some(Ok(true)) => true,
        Some(_) => false,
    };
    for name in ["instrument", "sample"] {
        let path = format!("{below_entry}{name}");
        if may_have(&path) {
            entry.link_external(&file, &path, name)?;
        }
    }
    for (name, path) in scan.counters.iter().filter(|(name, _)| *name != patterns && !name.contains('/')) {
        measurement.link_external(&file, path, name)?;
    }
    Ok(())
}

/// Returns the path by which a file beside `from` links to `to`: relative if they share a tree, so that both can be moved or
/// mounted elsewhere together; otherwise absolute. `None` for a path that HDF5 can't store.
///
/// # Errors
/// Fails if the directory of `from` can't be examined.
fn link_path(from: &Path, to: &Path) -> Result<Option<String>> {
    let directory = from.parent().unwrap_or(Path::new("/")).canonicalize().map_err(Hdf5Error::Io)?;
    // A raw file that does not exist, or that this user can't reach, has the name in the records.
    let target = to.canonicalize().unwrap_or_else(|_| to.to_path_buf());
    let shared = directory.components().zip(target.components()).take_while(|(one, two)| one == two).count();
    // Unrelated paths have the root and one directory in common, as in /data/….
    if shared < 3 {
        return Ok(to.to_str().map(str::to_owned));
    }
    let up = directory.components().skip(shared).map(|_| Component::ParentDir);
    let path: PathBuf = up.chain(target.components().skip(shared)).collect();
    Ok(path.to_str().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_tree_are_linked_by_relative_paths() {
        let root = tempfile::tempdir().unwrap();
        let (raw, out) = (root.path().join("RAW_DATA/s"), root.path().join("PROCESSED/s"));
        std::fs::create_dir_all(&raw).unwrap();
        std::fs::create_dir_all(&out).unwrap();
        std::fs::write(raw.join("s.h5"), "").unwrap();
        let found = link_path(&out.join("final.h5"), &raw.join("s.h5")).unwrap().unwrap();
        assert_eq!(found, "../../RAW_DATA/s/s.h5");
        assert_eq!(out.join(found).canonicalize().unwrap(), raw.join("s.h5").canonicalize().unwrap());
        assert_eq!(link_path(&out.join("final.h5"), Path::new("/proc/version")).unwrap().unwrap(), "/proc/version");
        assert!(link_path(&root.path().join("nowhere/final.h5"), Path::new("/proc/version")).is_err());
    }
}
