//! Digests of the exports that azpipe wrote, by which it recognizes them: most formats have no place
//! for a mark, and a mark would not show that somebody changed the file.
//!
//! `OUT/.azpipe/exports/<final>.json` lists each file with the digests of the last contents that
//! were written to it, and the state of the final file that it was made from. It is updated before the
//! exports are written, so that a killed run leaves no export that is not listed, and under a lock, so
//! that runs at the same time know each other's. The state is noted once the export is in its place.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use records::RawPath;
use serde::{Deserialize, Serialize};
use system::ownership::{AZPIPE_DIR, OwnershipRule, ReplacePolicy, create_directories, open_lock};
use system::{atomic, untrusted_file};

use super::ExportError;
use crate::output::{OutputFile, Replaced, numbers_digest};

/// Name of the directory of the JSON files, below `.azpipe`.
pub(super) const EXPORTS: &str = "exports";

/// Number of digests that are kept per file. Each run that is killed between its digest and its
/// file uses up one.
const DIGESTS_KEPT: usize = 8;
/// Time between two attempts to take the lock.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time after which a run goes on without the lock. Its export may then be refused as changed.
const MAX_LOCK_WAIT: Duration = Duration::from_secs(30);

/// Digests of one final file's exports.
pub(super) struct ExportDigests {
    /// Path of the JSON file; `None` if the final file was moved, so that its output root is
    /// unknown.
    path: Option<PathBuf>,
    entries: Arc<Mutex<Entries>>,
}

/// State of a final file that exports are made from.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FinalState {
    /// Digest of its data.
    data: String,
    /// Digest of its counters and motors; `None` for an export that is made without them.
    numbers: Option<String>,
}

/// Content of the JSON file.
#[derive(Default)]
struct Entries {
    files: BTreeMap<OsString, ExportEntry>,
    /// True if the JSON file can't be parsed, or could not be once, so that files without a digest may
    /// have had one.
    is_damaged: bool,
}

/// Digests of one file, and whether it is out of date.
#[derive(Clone, Default)]
struct ExportEntry {
    /// Digests, the last one first.
    digests: Vec<String>,
    /// The content of the final file that was replaced since the file was written, as runs noted it of
    /// files whose state is not known.
    replaced: Replaced,
    /// The state of the final file that the file was made from; `None` if it is not known, as of earlier
    /// versions.
    made_from: Option<FinalState>,
}

/// A file as the JSON file has it.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum ExportLine {
    MadeFrom(RawPath, Vec<String>, Replaced, String, Option<String>),
    Outdated(RawPath, Vec<String>, Replaced),
    Current(RawPath, Vec<String>),
    Mark(Mark),
}

/// A line that is of no file.
#[derive(Serialize, Deserialize)]
enum Mark {
    /// Earlier lines were lost.
    #[serde(rename = "earlier lines were damaged")]
    Damaged,
}

impl ExportLine {
    fn new((name, entry): (&OsString, &ExportEntry)) -> Self {
        let (name, digests) = (RawPath::from(PathBuf::from(name)), entry.digests.clone());
        match (entry.made_from.clone(), entry.replaced) {
            (Some(FinalState { data, numbers }), replaced) => {
                Self::MadeFrom(name, digests, replaced, data, numbers)
            }
            (None, Replaced::Nothing) => Self::Current(name, digests),
            (None, replaced) => Self::Outdated(name, digests, replaced),
        }
    }

    /// Returns the name and entry of a file; `None` for a mark.
    fn into_entry(self) -> Option<(OsString, ExportEntry)> {
        let (name, digests, replaced, made_from) = match self {
            Self::Current(name, digests) => (name, digests, Replaced::Nothing, None),
            Self::Outdated(name, digests, replaced) => (name, digests, replaced, None),
            Self::MadeFrom(name, digests, replaced, data, numbers) => {
                (name, digests, replaced, Some(FinalState { data, numbers }))
            }
            Self::Mark(_) => return None,
        };
        Some((name.as_os_str().to_owned(), ExportEntry { digests, replaced, made_from }))
    }
}

/// Returns the exports of a final file that were made from what it held before, and what of it is another
/// now. `name` is the path of the final file below the output root, and `data_digest` the digest of its
/// data.
///
/// Where the state that an export was made from is not known, as of earlier versions, what this run
/// `replaced` tells, and what [`mark_outdated`] noted.
///
/// # Errors
/// Fails if it can't be found out.
pub fn outdated_exports(
    out_root: &Path,
    name: &Path,
    data_digest: &str,
    replaced: Replaced,
) -> Result<Vec<(PathBuf, Replaced)>, ExportError> {
    let note = json_path(out_root, name);
    let entries = Entries::read(&note).map_err(io_error(&note))?;
    let (final_file, mut numbers) = (out_root.join(name), None);
    let mut outdated = Vec::new();
    for (file, entry) in entries.files {
        let path = final_file.with_file_name(file);
        if !is_there(&path)? {
            continue;
        }
        let has_numbers = is_made_with_numbers(&path, &final_file);
        let of_earlier = match &entry.made_from {
            Some(state) if state.data != data_digest => Replaced::Data,
            Some(state) if has_numbers => {
                let now = match &numbers {
                    Some(now) => now,
                    None => numbers.insert(numbers_digest(&final_file)?),
                };
                if state.numbers.as_ref() == Some(now) {
                    Replaced::Nothing
                } else {
                    Replaced::Counters
                }
            }
            Some(_) => Replaced::Nothing,
            None if replaced == Replaced::Data => Replaced::Data,
            None if has_numbers => entry.replaced.max(replaced),
            None => entry.replaced,
        };
        if of_earlier != Replaced::Nothing {
            outdated.push((path, of_earlier));
        }
    }
    Ok(outdated)
}

/// Returns whether an export of a final file may be made with counters or motors: maps, and patterns
/// minus a background or in absolute units.
fn is_made_with_numbers(export: &Path, final_file: &Path) -> bool {
    let bytes = |name: Option<&OsStr>| name.unwrap_or_default().as_encoded_bytes().to_vec();
    let (name, stem) = (bytes(export.file_name()), bytes(final_file.file_stem()));
    let kinds = [&b".map."[..], b".subtracted", b".absolute"];
    name.strip_prefix(&stem[..]).is_some_and(|rest| kinds.iter().any(|kind| rest.starts_with(kind)))
}

/// Notes that exports of a final file are of what it held before, so that later runs know it, until
/// the files are written again. Where the state that an export was made from is known, that tells it.
///
/// # Errors
/// Fails if the note can't be written.
pub fn mark_outdated(
    output: &OutputFile,
    exports: &[PathBuf],
    replaced: Replaced,
) -> Result<(), ExportError> {
    let digests = ExportDigests::read(output)?;
    let is_news = |entry: &ExportEntry| {
        entry.made_from.is_none() && ![Replaced::Data, replaced].contains(&entry.replaced)
    };
    let names = || exports.iter().filter_map(|path| path.file_name());
    if !names().any(|name| digests.entries().files.get(name).is_some_and(is_news)) {
        return Ok(());
    }
    let _lock = digests.lock()?;
    for name in names() {
        if let Some(entry) = digests.entries().files.get_mut(name).filter(|entry| is_news(entry)) {
            entry.replaced = replaced;
        }
    }
    digests.write()
}

/// Returns the exports of a final file that azpipe wrote and that exist.
///
/// # Errors
/// Fails if it can't be found out.
pub fn existing_exports(output: &OutputFile) -> Result<Vec<PathBuf>, ExportError> {
    let digests = ExportDigests::read(output)?;
    let mut existing = Vec::new();
    for name in digests.entries().files.keys() {
        let path = output.path.with_file_name(name);
        if is_there(&path)? {
            existing.push(path);
        }
    }
    Ok(existing)
}

fn is_there(path: &Path) -> Result<bool, ExportError> {
    match path.symlink_metadata() {
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(false),
        found => found.map(|_| true).map_err(io_error(path)),
    }
}

/// Returns the path of the JSON file of a final file, which is named by its path below the output root.
fn json_path(out_root: &Path, name: &Path) -> PathBuf {
    with_suffix(&out_root.join(AZPIPE_DIR).join(EXPORTS).join(name), ".json")
}

/// Returns the names of the exports that a JSON file lists; none if it is damaged.
///
/// # Errors
/// Fails if the file can't be read.
pub(super) fn exports_of_note(path: &Path) -> Result<Vec<OsString>, ExportError> {
    let entries = Entries::read(path).map_err(io_error(path))?;
    Ok(entries.files.into_keys().collect())
}

/// The right to write exports of a final file, until it is dropped.
pub(super) struct ExportLock(#[expect(dead_code, reason = "dropping it unlocks")] Option<File>);

/// Returns the output root of a final file; `None` if the file was moved, so that it is unknown.
pub(super) fn output_root(output: &OutputFile) -> Option<&Path> {
    let is_in_place = output.path.ends_with(output.task.final_file.as_path());
    let root = output.path.ancestors().nth(output.task.final_file.components().count());
    root.filter(|_| is_in_place)
}

impl ExportDigests {
    /// Reads the digests of a final file's exports; empty if there is no JSON file.
    pub fn read(output: &OutputFile) -> Result<Self, ExportError> {
        let Some(root) = output_root(output) else {
            return Ok(Self { path: None, entries: Arc::default() });
        };
        let path = json_path(root, &output.task.final_file);
        // Where the exports are as they were, nothing is written to that directory, which would
        // remove them.
        atomic::remove_stale_files_once(path.parent().unwrap_or(Path::new("")));
        let entries = Entries::read(&path).map_err(io_error(&path))?;
        Ok(Self { path: Some(path), entries: Arc::new(Mutex::new(entries)) })
    }

    /// Waits until no other run writes exports of this final file, and reads its digests again.
    pub fn lock(&self) -> Result<ExportLock, ExportError> {
        let Some(path) = &self.path else { return Ok(ExportLock(None)) };
        let open = || {
            create_directories(path.parent().unwrap_or(Path::new("")))?;
            open_lock(&with_suffix(path, ".lock"))
        };
        let file = open().map_err(io_error(path))?;
        let began = Instant::now();
        // A file system without locks is safe, too: no changed file is replaced.
        while matches!(file.try_lock(), Err(TryLockError::WouldBlock))
            && began.elapsed() < MAX_LOCK_WAIT
        {
            std::thread::sleep(LOCK_POLL_INTERVAL);
        }
        *self.entries() = Entries::read(path).map_err(io_error(path))?;
        Ok(ExportLock(Some(file)))
    }

    /// Claims the exports that were not changed since azpipe wrote them. A file without a digest,
    /// of a version that did not keep digests of its format, is claimed by `has_mark`.
    pub fn owned_exports(
        &self,
        has_mark: impl Fn(&Path) -> io::Result<bool> + Send + Sync + 'static,
        policy: &ReplacePolicy,
    ) -> OwnershipRule {
        let entries = Arc::clone(&self.entries);
        let is_own = move |path: &Path| {
            let digests = {
                let entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
                let entry = path.file_name().and_then(|name| entries.files.get(name));
                let digests = entry.map(|entry| entry.digests.clone());
                if digests.is_none() && entries.is_damaged {
                    return Ok(false);
                }
                digests
            };
            match digests {
                Some(digests) => {
                    file_mark::digest_file(path).map(|digest| digests.contains(&digest))
                }
                None => has_mark(path),
            }
        };
        OwnershipRule::new("an export, or it was changed since", is_own)
            .with_derived_names()
            .with_policy(policy)
    }

    /// Returns whether there is a file at `path` that no digest but its mark claims.
    pub fn is_claimed_by_mark(
        &self,
        path: &Path,
        has_mark: impl Fn(&Path) -> io::Result<bool>,
    ) -> Result<bool, ExportError> {
        let is_unknown = {
            let entries = self.entries();
            let name = path.file_name().unwrap_or_default();
            !entries.is_damaged && !entries.files.contains_key(name)
        };
        let is_marked = || Ok(path.try_exists()? && has_mark(path)?);
        Ok(is_unknown && is_marked().map_err(io_error(path))?)
    }

    /// Adds the digests of contents that are about to be written to files, and writes the JSON
    /// file.
    pub fn add<'a>(
        &self,
        new: impl Iterator<Item = (&'a Path, String)>,
    ) -> Result<(), ExportError> {
        for (path, new) in new {
            let name = path.file_name().unwrap_or_default();
            let mut entries = self.entries();
            let entry = entries.files.entry(name.to_owned()).or_default();
            entry.digests.retain(|digest| *digest != new);
            entry.digests.insert(0, new);
            entry.digests.truncate(DIGESTS_KEPT);
        }
        self.write()
    }

    /// Notes that files that are in their place are of what the final file `output` holds, be it that they
    /// were written, or that their content was the same. A run that ends before leaves them as they were
    /// noted.
    ///
    /// # Errors
    /// Fails if the note can't be written, or the counters of an export that is made with them can't be read.
    pub fn note_state(&self, output: &OutputFile, files: &[PathBuf]) -> Result<(), ExportError> {
        let mut has_changed = false;
        for path in files {
            let has_numbers = is_made_with_numbers(path, &output.path);
            let numbers = has_numbers.then(|| output.numbers_digest()).transpose()?;
            let name = path.file_name().unwrap_or_default();
            if let Some(entry) = self.entries().files.get_mut(name) {
                let made_from = Some(FinalState { data: output.data_digest.clone(), numbers });
                has_changed |= entry.replaced != Replaced::Nothing || entry.made_from != made_from;
                (entry.replaced, entry.made_from) = (Replaced::Nothing, made_from);
            }
        }
        if has_changed { self.write() } else { Ok(()) }
    }

    /// Writes the JSON file.
    fn write(&self) -> Result<(), ExportError> {
        let entries = self.entries();
        let Some(path) = &self.path else { return Ok(()) };
        let mut files: Vec<ExportLine> = entries.files.iter().map(ExportLine::new).collect();
        files.extend(entries.is_damaged.then_some(ExportLine::Mark(Mark::Damaged)));
        let write = || {
            create_directories(path.parent().unwrap_or(Path::new("")))?;
            atomic::write(path, serde_json::to_vec(&files)?, &OwnershipRule::in_azpipe_dir())
        };
        write().map_err(io_error(path))
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    /// Reads a JSON file, which need not exist.
    fn read(path: &Path) -> io::Result<Self> {
        let bytes = match untrusted_file::read(path, untrusted_file::MAX_TEXT_BYTES) {
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            bytes => bytes?,
        };
        let Ok(files) = serde_json::from_slice::<Vec<ExportLine>>(&bytes) else {
            return Ok(Self { is_damaged: true, ..Self::default() });
        };
        let is_damaged = files.iter().any(|line| matches!(line, ExportLine::Mark(Mark::Damaged)));
        let files = files.into_iter().filter_map(ExportLine::into_entry).collect();
        Ok(Self { files, is_damaged })
    }
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> ExportError {
    move |why| ExportError::Io { path: path.to_owned(), why }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}
