//! Finds the results below an output root: by the directories of parts, and final files without
//! one, because `OUT/.azpipe` was removed, or they were copied without it.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use system::ownership;

use super::part_index::{PartIndex, check_awaits_no_other};
use super::schema::PROGRAM;
use super::{OutputError, OutputFile, OutputSpec, merge};

/// Finds all scans and recipes that have parts or a final file below an output root: those with a
/// directory of parts, ordered by the scans' ids, and then final files without one, ordered by their
/// paths. A directory whose parts are all damaged is an error in the list.
///
/// Final files without a directory of parts are found at the path that plan-split gave them, but not
/// behind links to directories, and not in hidden directories.
pub fn find_outputs(out_root: &Path) -> Vec<Result<OutputSpec, OutputError>> {
    let PartIndex { specs: mut found, finals } = PartIndex::read(out_root);
    found.extend(find_others(out_root, &finals));
    found
}

/// Finds the final files that are not among the `known` ones.
fn find_others(out_root: &Path, known: &BTreeSet<PathBuf>) -> Vec<Result<OutputSpec, OutputError>> {
    let (mut found, mut candidates) = (Vec::new(), Vec::new());
    let mut directories = vec![out_root.to_owned()];
    while let Some(directory) = directories.pop() {
        if let Err(why) = list(&directory, &mut directories, &mut candidates) {
            found.push(Err(why));
        }
    }
    candidates.retain(|path| !known.contains(path));
    candidates.sort();
    found.extend(candidates.iter().filter_map(|path| read_spec(out_root, path).transpose()));
    found
}

/// Adds the directories, and the files that may be final files by their names, of a directory.
fn list(
    directory: &Path,
    directories: &mut Vec<PathBuf>,
    files: &mut Vec<PathBuf>,
) -> Result<(), OutputError> {
    let entries = match fs::read_dir(directory) {
        Err(why) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(());
        }
        entries => entries.map_err(OutputError::io(&directory.join("*.h5")))?,
    };
    for entry in entries {
        let entry = entry.map_err(OutputError::io(&directory.join("*.h5")))?;
        let (name, path) = (entry.file_name(), entry.path());
        if name.as_bytes().starts_with(b".") {
            continue;
        }
        let kind = entry.file_type().map_err(OutputError::io(&path))?;
        if kind.is_dir() {
            directories.push(path);
        } else if name.as_bytes().ends_with(b".h5")
            && (kind.is_file() || (kind.is_symlink() && path.is_file()))
        {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns the scan and recipe of a final file, or `None` for any other file, such as an export, and for merged ones.
fn read_spec(out_root: &Path, path: &Path) -> Result<Option<OutputSpec>, OutputError> {
    let name = path.strip_prefix(out_root).unwrap_or(path);
    let note = merge::notes_dir(out_root).join(name);
    // Raw data may lie beside the results: they are told by their bytes, before the library opens them.
    let is_output = || Ok(ownership::mentions(path, PROGRAM)? && OutputFile::is_output(path)?);
    if note.try_exists().map_err(OutputError::io(&note))?
        || !is_output().map_err(OutputError::io(path))?
    {
        return Ok(None);
    }
    let there = OutputFile::open(path)?;
    if there.is_merged() || *name != *there.task.final_file {
        return Ok(None);
    }
    let target = OutputSpec::from_file(out_root, &there.task)?;
    // Nothing of the result that is to replace it was found, or its path would be among those known.
    check_awaits_no_other(&target)?;
    Ok(Some(target))
}
