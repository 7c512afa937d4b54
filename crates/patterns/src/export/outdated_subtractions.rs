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
use crate::output::{OutputError, Replaced, numbers_digest};

/// A file of patterns from which an earlier state of a background was subtracted.
#[derive(Debug)]
pub struct OutdatedSubtraction {
    /// Path of the file.
    pub path: PathBuf,
    /// Path of the background's final file, whose data or counters changed since.
    pub background: PathBuf,
    /// Content of the background that changed.
    pub changed: Replaced,
    /// Exports of these patterns.
    pub exports: Vec<PathBuf>,
}

/// Finds the files of reduced patterns below an output root from which earlier data of these final
/// files were subtracted, or that were scaled by earlier counters of theirs. `finals` are the paths of the
/// final files relative to the output root, with the digests of their data.
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
        let exports: Vec<PathBuf> =
            exports.iter().map(|name| root.join(below).join(name)).collect();
        for path in &exports {
            let name = path.to_string_lossy();
            if !EXTENSIONS.iter().any(|extension| name.ends_with(extension)) {
                continue;
            }
            let changed = read_background(path).and_then(|background| match background {
                Some(background) => {
                    let changed = match real_finals.get(&background.path) {
                        Some(now) => background.changed(now)?,
                        None => Replaced::Nothing,
                    };
                    Ok(Some((background.path, changed)))
                }
                None => Ok(None),
            });
            match changed {
                Ok(None | Some((_, Replaced::Nothing))) => (),
                Ok(Some((background, changed))) => {
                    let is_export = |other: &&PathBuf| is_of_patterns(other, path);
                    // One that can't be looked at may be there.
                    let is_gone = |path: &&PathBuf| matches!(path.try_exists(), Ok(false));
                    let exports = exports.iter().filter(is_export).filter(|path| !is_gone(path));
                    let exports = exports.cloned().collect();
                    let path = path.clone();
                    outdated.push(OutdatedSubtraction { path, background, changed, exports });
                }
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

/// Returns whether a file is an export of these reduced patterns: its name begins with theirs.
fn is_of_patterns(export: &Path, patterns: &Path) -> bool {
    let stem = patterns.file_stem().unwrap_or_default().as_encoded_bytes();
    let name = export.file_name().unwrap_or_default().as_encoded_bytes();
    export != patterns
        && name
            .strip_prefix(stem)
            .is_some_and(|rest| rest.starts_with(b".") || rest.starts_with(b"_"))
}

/// The background that was subtracted, as a file of patterns names it.
struct SubtractedBackground {
    /// Real path of its final file.
    path: PathBuf,
    /// Digest of its data.
    data: String,
    /// Digest of its counters and motors, if they scaled it.
    numbers: Option<String>,
}

impl SubtractedBackground {
    /// Returns what of it is another in its final file, whose data have the digest `data` now.
    fn changed(&self, data: &str) -> Result<Replaced, ExportError> {
        if self.data != data {
            return Ok(Replaced::Data);
        }
        let Some(numbers) = &self.numbers else { return Ok(Replaced::Nothing) };
        let is_same = *numbers == numbers_digest(&self.path)?;
        Ok(if is_same { Replaced::Nothing } else { Replaced::Counters })
    }
}

/// Reads what background was subtracted; `None` if there was none, or if the file or the background
/// was removed.
fn read_background(path: &Path) -> Result<Option<SubtractedBackground>, ExportError> {
    if !path.try_exists().map_err(|why| ExportError::Io { path: path.to_owned(), why })? {
        return Ok(None);
    }
    let read = || -> h5::Result<Option<(String, String, Option<String>)>> {
        let process = Hdf5File::open(path)?.group("entry/process")?;
        if !process.contains("background_file")? {
            return Ok(None);
        }
        let has_numbers = process.contains("background_counters_digest")?;
        let numbers =
            has_numbers.then(|| process.text("background_counters_digest")).transpose()?;
        Ok(Some((process.text("background_file")?, process.text("background_digest")?, numbers)))
    };
    let found = read().map_err(OutputError::hdf5(path))?;
    let Some((file, data, numbers)) = found else { return Ok(None) };
    match fs::canonicalize(&file) {
        Ok(path) => Ok(Some(SubtractedBackground { path, data, numbers })),
        Err(why) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(why) => Err(ExportError::Io { path: file.into(), why }),
    }
}
