//! Links from a final file to the raw scan: its instrument, sample and counters.

use std::path::{Component, Path, PathBuf};

use records::Acquisition;

use super::content::OutputContent;
use super::counters::ignore_unusable;
use super::schema::{create_nexus_group, entry_name, escape_name, name};
use crate::h5::{Group, Hdf5Error, LinkType, Result};

/// Adds links to an entry: in `measurement` the scan's counters; in `groups`, which are
/// `instrument`, the detector and `sample`, the other members of these groups in the raw file. The
/// path of the raw file is an attribute. Image files and plain HDF5 datasets have no entry that
/// could be linked. Returns `measurement`.
///
/// Each link has the path of its target, because nexusformat, the reader of NeXpy, follows no other
/// links to groups.
pub(super) fn write_raw_links(
    entry: &Group,
    groups: &[Group],
    content: &OutputContent,
    raw: Option<&Group>,
) -> Result<Group> {
    let target = content.target;
    let scan = &target.task().acquisition;
    let measurement = create_nexus_group(entry, "measurement", "NXcollection")?;
    let below_entry = format!("/{}/", entry_name(&scan.entry));
    let reference =
        link_path(&target.path(), &scan.file)?.filter(|_| scan.dataset.starts_with(&below_entry));
    let Some(file) = reference else { return Ok(measurement) };
    entry.set_text(name::RAW_FILE, &scan.file.display().to_string())?;
    for group in groups {
        for member in members_to_link(&group.name(), content, raw)? {
            if !group.contains(&member)? {
                group.link_external(&file, &format!("{}/{member}", group.name()), &member)?;
            }
        }
    }
    let patterns = patterns_name(scan);
    for (name, path) in
        scan.counters.iter().filter(|(name, _)| **name != patterns && !name.contains('/'))
    {
        measurement.link_external(&file, path, name)?;
    }
    Ok(measurement)
}

/// Returns the members of a group in the raw file. If that can't be read, because only readers of
/// the final file may have access to it, they are those that the existing final file has links to.
fn members_to_link(
    group: &str,
    content: &OutputContent,
    raw: Option<&Group>,
) -> Result<Vec<String>> {
    if let Some(raw) = raw {
        // A soft link leads to a path in its own file, which nexusformat would look for in the
        // final file.
        match ignore_unusable(
            raw.group(group).and_then(|group| group.members(|link| link != LinkType::Soft)),
        ) {
            Ok(members) => return Ok(members.unwrap_or_default()),
            Err(why) => content.warn_of_raw_file(why)?,
        }
    }
    match content.existing {
        Some(existing) if existing.has_group(group)? => {
            existing.process.group(group)?.members(|link| link == LinkType::External)
        }
        _ => Ok(Vec::new()),
    }
}

/// Returns the name of the patterns in `measurement`.
pub(super) fn patterns_name(scan: &Acquisition) -> String {
    format!("{}_integrated", escape_name(&scan.detector))
}

/// Returns the path by which a file beside `from` links to `to`: relative if they share a tree, so
/// that both can be moved or mounted elsewhere together; otherwise absolute. `None` for a path that
/// HDF5 can't store.
///
/// # Errors
/// Fails if the directory of `from` can't be examined.
fn link_path(from: &Path, to: &Path) -> Result<Option<String>> {
    let directory =
        from.parent().unwrap_or(Path::new("/")).canonicalize().map_err(Hdf5Error::Io)?;
    // A raw file that does not exist, or that this user can't reach, has the name in the records.
    let target = to.canonicalize().unwrap_or_else(|_| to.to_path_buf());
    let shared =
        directory.components().zip(target.components()).take_while(|(one, two)| one == two).count();
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
        assert_eq!(
            out.join(found).canonicalize().unwrap(),
            raw.join("s.h5").canonicalize().unwrap()
        );
        assert_eq!(
            link_path(&out.join("final.h5"), Path::new("/proc/version")).unwrap().unwrap(),
            "/proc/version"
        );
        assert!(
            link_path(&root.path().join("nowhere/final.h5"), Path::new("/proc/version")).is_err()
        );
    }
}
