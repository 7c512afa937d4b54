//! Names of files as other programs write them.

use std::path::Path;

use records::RawPath;

/// A file that a recipe of another program names: `FILE`, `FILE::/path`, or a silx URL such as
/// `silx:FILE?path=/entry/data`; where there is such a file beside the recipe that one, as it stands otherwise.
///
/// # Errors
/// A URL that names a part of an array.
pub(super) fn resolve_file_url(name: &str, directory: &Path) -> Result<RawPath, String> {
    let bare = ["silx:", "fabio:", "file:"].iter().find_map(|scheme| name.strip_prefix(scheme)).unwrap_or(name);
    let bare = if bare.starts_with("///") { &bare[2..] } else { bare };
    let (path, dataset) = match (bare.split_once('?'), bare.split_once("::")) {
        (Some((path, query)), _) if query.starts_with("path=") || query.starts_with('/') => {
            (path, Some(query.strip_prefix("path=").unwrap_or(query)))
        }
        (_, Some((path, dataset))) => (path, Some(dataset)),
        _ => (bare, None),
    };
    if dataset.is_some_and(|dataset| dataset.contains(['&', '['])) {
        return Err(format!("{name}: a part of an array: expected FILE or FILE::/path"));
    }
    let beside = directory.join(path);
    let found = if beside.exists() { beside } else { path.into() };
    Ok(match dataset {
        Some(dataset) => {
            let mut whole = found.into_os_string();
            whole.push("::");
            whole.push(dataset);
            RawPath::from(whole)
        }
        None => found.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_files_and_paths_in_them() {
        let named = |name: &str| resolve_file_url(name, Path::new("")).unwrap().display().to_string();
        assert_eq!(named("/a/mask.edf"), "/a/mask.edf");
        assert_eq!(named("fabio:///a/mask.edf"), "/a/mask.edf");
        assert_eq!(named("silx:/a/d.h5?path=/e/data"), "/a/d.h5::/e/data");
        assert_eq!(named("silx:///a/d.h5?/e/data"), "/a/d.h5::/e/data");
        assert_eq!(named("d.h5::/e/data"), "d.h5::/e/data");
        assert!(resolve_file_url("silx:/a/d.h5?path=/e&slice=3", Path::new("")).is_err());
    }

    #[test]
    fn a_file_beside_the_recipe_is_meant() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("m.edf"), "").unwrap();
        assert_eq!(resolve_file_url("m.edf", dir.path()).unwrap().as_path(), dir.path().join("m.edf"));
        assert_eq!(resolve_file_url("n.edf", dir.path()).unwrap().as_path(), Path::new("n.edf"));
    }
}
