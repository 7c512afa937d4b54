//! File names and URLs in the recipes of other programs.

use std::path::Path;

use records::RawPath;

use crate::file_ref;

/// Converts a file name in another program's recipe to `FILE` or `FILE::/path`. It may be a silx
/// URL such as `silx:FILE?path=/entry/data`. A relative name is resolved from `directory`, where
/// the recipe is, if there is such a file; otherwise it stays relative to the working directory.
///
/// # Errors
/// The URL selects a part of an array; whether there is such a file can't be seen.
pub(super) fn resolve_file_url(name: &str, directory: &Path) -> Result<RawPath, String> {
    let rest = ["silx:", "fabio:", "file:"]
        .iter()
        .find_map(|scheme| name.strip_prefix(scheme))
        .unwrap_or(name);
    let rest = if rest.starts_with("///") { &rest[2..] } else { rest };
    let (path, dataset) = match (rest.split_once('?'), rest.split_once("::")) {
        (Some((path, query)), _) if query.starts_with("path=") || query.starts_with('/') => {
            (path, Some(query.strip_prefix("path=").unwrap_or(query)))
        }
        (_, Some((path, dataset))) => (path, Some(dataset)),
        _ => (rest, None),
    };
    if dataset.is_some_and(|dataset| dataset.contains(['&', '['])) {
        return Err(format!(
            "{name}: a slice of an array is not supported; expected FILE or FILE::/path"
        ));
    }
    let next_to_recipe = directory.join(path);
    let is_there = file_ref::exists(&next_to_recipe).map_err(|why| why.to_string())?;
    let found = if is_there { next_to_recipe } else { path.into() };
    Ok(match dataset {
        Some(dataset) => {
            let mut with_dataset = found.into_os_string();
            with_dataset.push("::");
            with_dataset.push(dataset);
            RawPath::from(with_dataset)
        }
        None => found.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_become_files_and_datasets() {
        let resolve =
            |name: &str| resolve_file_url(name, Path::new("")).unwrap().display().to_string();
        assert_eq!(resolve("/a/mask.edf"), "/a/mask.edf");
        assert_eq!(resolve("fabio:///a/mask.edf"), "/a/mask.edf");
        assert_eq!(resolve("silx:/a/d.h5?path=/e/data"), "/a/d.h5::/e/data");
        assert_eq!(resolve("silx:///a/d.h5?/e/data"), "/a/d.h5::/e/data");
        assert_eq!(resolve("d.h5::/e/data"), "d.h5::/e/data");
        assert!(resolve_file_url("silx:/a/d.h5?path=/e&slice=3", Path::new("")).is_err());
    }

    #[test]
    fn a_file_next_to_the_recipe_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("m.edf"), "").unwrap();
        assert_eq!(
            resolve_file_url("m.edf", dir.path()).unwrap().as_path(),
            dir.path().join("m.edf")
        );
        assert_eq!(resolve_file_url("n.edf", dir.path()).unwrap().as_path(), Path::new("n.edf"));
        let unseen = resolve_file_url(&"n".repeat(300), dir.path());
        assert!(
            unseen.unwrap_err().contains("File name too long"),
            "not taken for one of the working directory"
        );
    }
}
