//! Finds files of earlier results below an output root that are no longer needed, for `gather
//! --clean`.
//!
//! Parts become useless when another result has replaced the final file for which they were made,
//! for instance because the scan was planned again with other settings. Four rules decide:
//! - A directory with parts may be removed if every final file that its parts or its note name now
//!   belongs to another recipe or scan. Both the note about the final file and the final file
//!   itself must say so, and integrating again must not change the status of any frame in that
//!   final file. All other directories with parts are kept, because they may hold the only results
//!   of their frames.
//! - A directory without parts may be removed if its final file no longer exists.
//! - Pixel statistics may be removed if no final file of their scan and no directory with parts of it
//!   is known.
//! - The file and the cached matrix of a recipe may be removed when no directory of the recipe
//!   remains.
//!
//! Only files with azpipe's marks are removed. Any other file stays, and so does its directory.

mod leftover;
mod pixels;
mod result_directory;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use recipe::Recipe;
use records::RawPath;
use system::mapped_file::{is_mapped, is_without_locks};
use system::ownership::{self, OwnershipRule, has_mark};
use system::{atomic, untrusted_file};

use super::{OutputError, merge};
pub use leftover::Leftover;
use result_directory::{Finals, ResultDirectory};

/// First bytes of a matrix file.
const MATRIX_MARK: &[u8] = b"{\"azpipe\":\"matrix\"";

/// Files that are left over below an output root, in the order of removal. While this value exists,
/// its locks keep other gathers on this machine from using the parts in it.
#[derive(Debug, Default)]
pub struct Leftovers {
    /// Files and directories that may be removed.
    pub all: Vec<Leftover>,
    /// Warnings about files that are not needed and are kept because they are not azpipe's.
    pub kept: Vec<String>,
    /// Errors of files that can't be read; these files are kept.
    pub unread: Vec<OutputError>,
    locks: Vec<File>,
}

/// Finds the files that are left over below an output root.
///
/// # Errors
/// Fails if another run uses the directory, or if the directories or the owners' notes can't be
/// read.
pub fn leftovers(root: &Path) -> Result<Leftovers, OutputError> {
    let own = root.join(ownership::AZPIPE_DIR);
    let mut found = Leftovers::default();
    let parts: Vec<PathBuf> = directories(&own.join("parts"), &mut found)?;
    let mut results = Vec::new();
    for scan in &parts {
        match directories(scan, &mut found) {
            Ok(recipes) => results.extend(recipes),
            Err(why) => found.unread.push(why),
        }
    }
    let notes = output_owners::read_all(root).map_err(OutputError::io(root))?;
    let places =
        ["", "finals", "matrix", "matrix/opencl", "exports", "parts"].map(|name| own.join(name));
    // What is kept about a final file lies below these as the final file below the root.
    let tops = [root.to_owned(), own.join("finals"), own.join("exports"), merge::notes_dir(root)];
    let mut of_finals: BTreeSet<PathBuf> = tops
        .iter()
        .flat_map(|top| {
            notes
                .iter()
                .filter_map(|note| Some(top.join(&*note.final_file).parent()?.to_path_buf()))
        })
        .collect();
    // Merges of scans lie in the output root.
    of_finals.insert(merge::notes_dir(root));
    let pixels = directories(&own.join("pixels"), &mut found)?;
    for place in places.iter().chain(&of_finals).chain(&parts).chain(&results).chain(&pixels) {
        find_stale_files(place, &mut found)?;
    }
    for directory in &of_finals {
        if let Ok(directory) = directory.strip_prefix(merge::notes_dir(root)) {
            find_notes_of_removed_merges(root, directory, &mut found)?;
        }
    }
    let finals = Finals { root, notes: &notes, looked_at: RefCell::default() };
    let mut kept_finals: BTreeSet<RawPath> = BTreeSet::new();
    let (mut kept_recipes, mut gone_recipes) = (BTreeSet::new(), BTreeSet::new());
    let (mut of_results, mut kept_scans) = (Vec::new(), BTreeSet::new());
    for path in results {
        let scan = path.parent().and_then(Path::file_name).unwrap_or_default().to_owned();
        let recipe = path.file_name().unwrap_or_default().to_owned();
        match ResultDirectory::read(&path, &mut found).and_then(|directory| {
            let verdict = directory.judge(&finals)?;
            Ok((directory, verdict))
        }) {
            Ok((mut directory, Some(why))) => {
                of_results.push(directory.leftover(why)?);
                found.locks.extend(directory.lock.take());
                gone_recipes.insert(recipe);
            }
            Ok((directory, None)) => {
                kept_finals.extend(directory.finals);
                kept_recipes.insert(recipe);
                kept_scans.insert(scan);
            }
            Err(OutputError::Busy { path }) => return Err(OutputError::Busy { path }),
            Err(why) => {
                found.unread.push(why);
                kept_recipes.insert(recipe);
            }
        }
    }
    let mut of_notes = Vec::new();
    for note in &notes {
        let is_needed =
            finals.is_there(&note.final_file)? || kept_finals.contains(&note.final_file);
        if is_needed || !found.unread.is_empty() {
            kept_recipes.insert(OsString::from(short(&note.recipe_digest)));
            kept_scans.insert(OsString::from(&note.scan));
        } else {
            let path = note.path(root);
            of_notes.push(Leftover::file(
                path,
                "owner note of a final file that was removed",
                OwnershipRule::in_azpipe_dir(),
            )?);
        }
    }
    let unused: BTreeSet<OsString> = gone_recipes.difference(&kept_recipes).cloned().collect();
    // Parts are removed last. They tell which recipes are left over, so an interrupted clean-up can
    // be continued.
    find_matrices(&own.join("matrix"), &unused, &mut found)?;
    let unread_before = found.unread.len();
    find_recipes(root, &unused, &mut found)?;
    if found.unread.len() == unread_before {
        found.all.extend(of_results);
    }
    // Otherwise it is not known of which scans there are results.
    if found.unread.is_empty() {
        for directory in &pixels {
            pixels::find_statistics(directory, &kept_scans, &mut found)?;
        }
    }
    found.all.extend(of_notes);
    Ok(found)
}

fn short(digest: &str) -> &str {
    digest.get(..16).unwrap_or(digest)
}

/// Lists the subdirectories of a directory, which need not exist. Other files get a warning.
fn directories(path: &Path, found: &mut Leftovers) -> Result<Vec<PathBuf>, OutputError> {
    let entries = match fs::read_dir(path) {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(OutputError::io(path))?,
    };
    let mut directories = Vec::new();
    for entry in entries {
        let entry = entry.map_err(OutputError::io(path))?;
        let is_directory = entry.file_type().map_err(OutputError::io(&entry.path()))?.is_dir();
        match is_directory {
            true => directories.push(entry.path()),
            false if atomic::is_temporary(&entry.file_name()) => (),
            false => found
                .kept
                .push(format!("{}: kept: not a directory of results", entry.path().display())),
        }
    }
    directories.sort();
    Ok(directories)
}

/// Adds the temporary files in a directory whose processes have ended.
///
/// # Errors
/// Fails if the process of a temporary file may be running.
fn find_stale_files(path: &Path, found: &mut Leftovers) -> Result<(), OutputError> {
    let files = atomic::temporary_files(path).map_err(OutputError::io(path))?;
    if let Some(path) = files.live.into_iter().next() {
        return Err(OutputError::Busy { path });
    }
    for path in files.dead {
        // A temporary file is recognized by its name.
        let claim = OwnershipRule::new("a temporary file", |path| {
            Ok(path.file_name().is_some_and(atomic::is_temporary))
        });
        found.all.push(Leftover::file(path, "temporary file of a process that has ended", claim)?);
    }
    Ok(())
}

/// Adds the notes of merged final files that were removed.
fn find_notes_of_removed_merges(
    root: &Path,
    directory: &Path,
    found: &mut Leftovers,
) -> Result<(), OutputError> {
    for merged in merge::noted_merges(root, directory)? {
        let path = root.join(&merged);
        match path.symlink_metadata() {
            Err(why) if why.kind() == ErrorKind::NotFound => (),
            there => {
                there.map_err(OutputError::io(&path))?;
                continue;
            }
        }
        found.all.push(Leftover::file(
            merge::notes_dir(root).join(merged),
            "note of a merged final file that was removed",
            OwnershipRule::in_azpipe_dir(),
        )?);
    }
    Ok(())
}

/// Adds the recipes that no remaining result uses.
fn find_recipes(
    root: &Path,
    unused: &BTreeSet<OsString>,
    found: &mut Leftovers,
) -> Result<(), OutputError> {
    for recipe in unused.iter().filter_map(|name| name.to_str()) {
        let path = root.join(Recipe::file_name_for_digest(recipe));
        let text = match untrusted_file::read_text(&path) {
            Err(why) if why.kind() == ErrorKind::NotFound => continue,
            text => text,
        };
        let is_own = |text: &str| {
            toml::from_str::<Recipe>(text).is_ok_and(|found| short(&found.digest()) == recipe)
        };
        match text {
            Ok(text) if is_own(&text) => {
                found.all.push(Leftover::file(
                    path,
                    "recipe of removed results",
                    OwnershipRule::in_azpipe_dir(),
                )?);
            }
            Ok(_) => found.kept.push(format!(
                "{}: kept: its content is not the recipe in its name",
                path.display()
            )),
            Err(why) => found.unread.push(OutputError::Io { path, why }),
        }
    }
    Ok(())
}

/// Adds the matrices of recipes that no remaining result uses.
///
/// # Errors
/// Fails if another run uses a matrix, or if the system can't say.
fn find_matrices(
    path: &Path,
    unused: &BTreeSet<OsString>,
    found: &mut Leftovers,
) -> Result<(), OutputError> {
    let entries = match fs::read_dir(path) {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(OutputError::io(path))?,
    };
    let claim = OwnershipRule::new("a matrix", |path| has_mark(path, MATRIX_MARK, b"\"key\""));
    let mut files = BTreeSet::new();
    for entry in entries {
        let file = entry.map_err(OutputError::io(path))?.path();
        let metadata = file.symlink_metadata().map_err(OutputError::io(&file))?;
        if metadata.is_file() && file.extension().is_some_and(|end| end == "matrix") {
            files.insert(file);
        }
    }
    for file in files {
        let head = ownership::read_head(&file, 512).map_err(OutputError::io(&file))?;
        let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let recipe = serde_json::from_slice::<serde_json::Value>(line)
            .ok()
            .filter(|_| head.starts_with(MATRIX_MARK));
        let recipe =
            recipe.and_then(|head| Some(OsString::from(short(head.get("recipe")?.as_str()?))));
        if recipe.is_some_and(|recipe| unused.contains(&recipe)) {
            // Without the directories of its results, nothing would say later that the matrix is
            // left over.
            match is_mapped(&file) {
                Ok(false) => (),
                Ok(true) => return Err(OutputError::Busy { path: file }),
                // Whoever has mapped the file keeps it as it was.
                Err(why) if is_without_locks(&why) => (),
                Err(why) => return Err(OutputError::Io { path: file, why }),
            }
            found.all.push(Leftover::file(file, "matrix of removed results", claim.clone())?);
        }
    }
    Ok(())
}
