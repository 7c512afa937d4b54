//! Files of patterns from which an earlier state of a background was subtracted.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use system::ownership::AZPIPE_DIR;

use super::ExportError;
use super::export_digests::{EXPORTS, exports_of_note};
use super::reduced::EXTENSIONS;
use crate::h5::{self, Hdf5File};
use crate::output::OutputError;

/// A file of patterns from which an earlier state of a background was subtracted.
#[derive(Debug)]
pub struct OutdatedSubtraction {
    /// Path of the file.
    pub path: PathBuf,
    /// Path of the background's final file, whose data changed since.
    pub background: PathBuf,
}

/// Finds the files of reduced patterns below an output root from which earlier data of these final
/// files were subtracted. `finals` are the paths of the final files relative to the output root, with
/// the digests of their data.
///
/// Also returns why others could not be examined.
pub fn find_outdated_subtractions(
    root: &Path,
    finals: &BTreeMap<PathBuf, String>,
) -> (Vec<OutdatedSubtraction>, Vec<ExportError>) {
    let (mut outdated, mut unread) = (Vec::new(), Vec::new());
    let mut real_finals = BTreeMap::new();
    for (name, digest) in finals {
        let path = root.join(name);
        match path.canonicalize() {
            Ok(real) => _ = real_finals.insert(real, digest),
            Err(why) => unread.push(ExportError::Io { path, why }),
        }
    }
    let notes = root.join(AZPIPE_DIR).join(EXPORTS);
    let mut directories = vec![notes.clone()];
    while let Some(directory) = directories.pop() {
        let below = directory.strip_prefix(&notes).unwrap_or(Path::new(""));
        let mut exports = Vec::new();
        match list(&directory) {
            Ok(entries) => {
                for (path, is_directory) in entries {
                    if is_directory {
                        directories.push(path);
                    } else if path.extension().is_some_and(|end| end == "json") {
                        match exports_of_note(&path) {
                            Ok(names) => exports.extend(names),
                            Err(why) => unread.push(why),
                        }
                    }
                }
            }
            Err(why) => unread.push(ExportError::Io { path: directory.clone(), why }),
        }
        for path in exports.iter().map(|name| root.join(below).join(name)) {
            let name = path.to_string_lossy();
            if !EXTENSIONS.iter().any(|extension| name.ends_with(extension)) {
                continue;
            }
            match read_background(&path) {
                Ok(Some((background, digest)))
                    if real_finals.get(&background).is_some_and(|now| **now != digest) =>
                {
                    outdated.push(OutdatedSubtraction { path, background });
                }
                Ok(_) => (),
                Err(why) => unread.push(why),
            }
        }
    }
    outdated.sort_by(|one, other| one.path.cmp(&other.path));
    (outdated, unread)
}

/// Returns the paths in a directory, each with whether it is a directory; none if there is no such
/// directory.
fn list(directory: &Path) -> io::Result<Vec<(PathBuf, bool)>> {
    match fs::read_dir(directory) {
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?
            .map(|entry| {
                let entry = entry?;
                Ok((entry.path(), entry.file_type()?.is_dir()))
            })
            .collect(),
    }
}

/// Reads the real path of the background that was subtracted, and the digest of its data; `None`
/// if there was none, or if the file or the background was removed.
fn read_background(path: &Path) -> Result<Option<(PathBuf, String)>, ExportError> {
    if !path.try_exists().map_err(|why| ExportError::Io { path: path.to_owned(), why })? {
        return Ok(None);
    }
    let read = || -> h5::Result<Option<(String, String)>> {
        let process = Hdf5File::open(path)?.group("entry/process")?;
        if !process.contains("background_file")? {
            return Ok(None);
        }
        Ok(Some((process.text("background_file")?, process.text("background_digest")?)))
    };
    let found = read().map_err(OutputError::hdf5(path))?;
    let Some((file, digest)) = found else { return Ok(None) };
    match fs::canonicalize(&file) {
        Ok(real) => Ok(Some((real, digest))),
        Err(why) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(why) => Err(ExportError::Io { path: file.into(), why }),
    }
}
