//! Links from a final to the raw scan: its instrument, sample and counters.

use std::path::{Component, Path, PathBuf};

use super::schema::{create_nexus_group, entry_name, name};
use super::writer::OutputContent;
use crate::h5::{Group, Hdf5Error, Result};

/// Writes the links of an entry: `instrument`, `sample`, and `measurement` with the scan's counters and
/// the patterns under `patterns`. Images and bare datasets have no entry to link to.
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
    let reference = link_path(&target.path(), &scan.file).filter(|_| scan.dataset.starts_with(&below_entry));
    let Some(file) = reference else { return Ok(()) };
    // A raw file that can't be read here may well be there for whoever reads the final.
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

/// How a file beside `from` names `to`: relative where they share a tree, so that both can be moved or
/// mounted elsewhere together; absolute otherwise. `None` for a name that HDF5 can't hold.
fn link_path(from: &Path, to: &Path) -> Option<String> {
    let directory = from.parent()?.canonicalize().ok()?;
    let target = to.canonicalize().unwrap_or_else(|_| to.to_path_buf());
    let shared = directory.components().zip(target.components()).take_while(|(one, two)| one == two).count();
    // The root and one directory, as in /data/…, are shared by what has nothing in common.
    if shared < 3 {
        return to.to_str().map(str::to_owned);
    }
    let up = directory.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(target.components().skip(shared)).collect::<PathBuf>().to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shares_a_tree_is_named_relatively() {
        let root = tempfile::tempdir().unwrap();
        let (raw, out) = (root.path().join("RAW_DATA/s"), root.path().join("PROCESSED/s"));
        std::fs::create_dir_all(&raw).unwrap();
        std::fs::create_dir_all(&out).unwrap();
        std::fs::write(raw.join("s.h5"), "").unwrap();
        let found = link_path(&out.join("final.h5"), &raw.join("s.h5")).unwrap();
        assert_eq!(found, "../../RAW_DATA/s/s.h5");
        assert_eq!(out.join(found).canonicalize().unwrap(), raw.join("s.h5").canonicalize().unwrap());
        assert_eq!(link_path(&out.join("final.h5"), Path::new("/proc/version")).unwrap(), "/proc/version");
    }
}
