//! Notes of which files below an output root are merged final files, and the search for merged
//! final files that were made from earlier data of their members.
//!
//! The note of `OUT/<path>` is the empty file `OUT/.azpipe/merges/<path>`. Without it, every final
//! file in a directory would have to be opened to find those that are merged.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use system::ownership::{AZPIPE_DIR, OwnershipRule, create_directories};
use system::{atomic, untrusted_file};

use super::member::{NotedMember, merged_finals};
use crate::h5::{self, Hdf5File};
use crate::output::reader::default_process;
use crate::output::{OutputError, OutputSpec, Replaced, numbers_digest};

/// A merged final file that was made from earlier data of some of its members.
#[derive(Debug)]
pub struct OutdatedMerge {
    /// Path of the merged final file.
    pub path: PathBuf,
    /// Paths of the members whose data changed since or, if none did, whose counters or motors did.
    pub changed: Vec<PathBuf>,
    /// Content of these members that changed.
    pub what: Replaced,
}

/// Returns the directory of the notes of an output root.
pub(in crate::output) fn notes_dir(root: &Path) -> PathBuf {
    root.join(AZPIPE_DIR).join("merges")
}

/// Returns the path of the note of a merged final file.
pub(super) fn note_path(target: &OutputSpec) -> PathBuf {
    notes_dir(target.out_root()).join(&*target.task().final_file)
}

/// Writes the note of a merged final file, unless it exists.
pub(super) fn write_note(target: &OutputSpec) -> io::Result<()> {
    let path = note_path(target);
    if path.try_exists()? {
        return Ok(());
    }
    create_directories(path.parent().unwrap_or(Path::new("")))?;
    atomic::write(&path, Vec::new(), &OwnershipRule::in_azpipe_dir())
}

/// Returns the paths, relative to the output root, of the merged final files that have notes in
/// `directory` below the root. They may have been removed since.
pub(in crate::output) fn noted_merges(
    root: &Path,
    directory: &Path,
) -> Result<Vec<PathBuf>, OutputError> {
    let place = notes_dir(root).join(directory);
    let entries = match fs::read_dir(&place) {
        Err(why) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        entries => entries.map_err(OutputError::io(&place))?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry.map_err(OutputError::io(&place))?;
        let is_file = entry.file_type().map_err(OutputError::io(&entry.path()))?.is_file();
        if is_file && !atomic::is_temporary(&entry.file_name()) {
            paths.push(directory.join(entry.file_name()));
        }
    }
    paths.sort();
    Ok(paths)
}

/// Finds the merged final files that were made from earlier data of these final files. Only those
/// in the directories of the final files and in the output root itself are examined, where
/// [`merge`](super::merge()) writes them. `finals` are the paths of the final files relative to the
/// output root, with the digests of their data.
///
/// Also returns why others could not be examined.
pub fn find_outdated_merges(
    root: &Path,
    finals: &BTreeMap<PathBuf, String>,
) -> (Vec<OutdatedMerge>, Vec<OutputError>) {
    let mut directories: BTreeSet<&Path> = finals.keys().filter_map(|path| path.parent()).collect();
    directories.insert(Path::new(""));
    let (mut outdated, mut unread) = (Vec::new(), Vec::new());
    for directory in directories {
        let merges = noted_merges(root, directory).unwrap_or_else(|why| {
            unread.push(why);
            Vec::new()
        });
        for merge in merges {
            let path = root.join(merge);
            let changes = read_members(&path).and_then(|members| {
                let change = |member: NotedMember| {
                    let changed = member.changed(root, finals)?;
                    Ok((root.join(member.final_file), changed))
                };
                members.into_iter().map(change).collect::<Result<Vec<_>, OutputError>>()
            });
            match changes {
                Ok(changes) => {
                    let what = changes.iter().map(|(_, what)| *what).max().unwrap_or_default();
                    let is_such = |change: &(PathBuf, Replaced)| change.1 == what;
                    let changed = changes.into_iter().filter(is_such).map(|(path, _)| path);
                    if what != Replaced::Nothing {
                        outdated.push(OutdatedMerge { path, changed: changed.collect(), what });
                    }
                }
                Err(why) => unread.push(why),
            }
        }
    }
    (outdated, unread)
}

impl NotedMember {
    /// Returns what of the member is another now, if its final file is one of these.
    fn changed(
        &self,
        root: &Path,
        finals: &BTreeMap<PathBuf, String>,
    ) -> Result<Replaced, OutputError> {
        let Some(now) = finals.get(Path::new(&self.final_file)) else {
            return Ok(Replaced::Nothing);
        };
        if *now != self.data {
            return Ok(Replaced::Data);
        }
        let Some(numbers) = &self.numbers else { return Ok(Replaced::Nothing) };
        let is_same = *numbers == numbers_digest(&root.join(&self.final_file))?;
        Ok(if is_same { Replaced::Nothing } else { Replaced::Counters })
    }
}

/// Reads the members of a merged final file, and the digests of what it was made from; nothing if the file
/// was removed.
fn read_members(path: &Path) -> Result<Vec<NotedMember>, OutputError> {
    match untrusted_file::open(path) {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        opened => drop(opened.map_err(OutputError::io(path))?),
    }
    let read = || -> h5::Result<_> { merged_finals(&default_process(&*Hdf5File::open(path)?)?) };
    read().map_err(OutputError::hdf5(path))
}
