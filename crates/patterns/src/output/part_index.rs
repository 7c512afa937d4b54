//! Files beside the parts of a scan and recipe: the name of their final file, and the lock of
//! gather.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use output_owners::{FileRelation, OutputOwner};
use records::{RawPath, Task};
use system::atomic;
use system::ownership::{self, OwnershipRule};
use system::untrusted_file::{self, MAX_TEXT_BYTES};
use system::work_mark::WorkMark;

use super::options::check_cancelled;
use super::{BuildObserver, OutputError, OutputFile, OutputLayout, OutputSpec};
use crate::part;
use crate::part::{PartError, PartWriter, parts_dir};

/// Name of the file that holds the path of the final file below the output root.
pub(super) const OUTPUT_NAME_FILE: &str = "final";
/// Name of the file that a gather holds locked while it uses the parts.
pub(super) const LOCK_FILE: &str = ".gather.lock";
/// Time to wait for the lock until the user is told.
const WAIT_TO_TELL: Duration = Duration::from_secs(5);
/// Time between two attempts to take the lock.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Scans and recipes that have a directory of parts, whose parts may be merged and removed.
pub(super) struct PartIndex {
    /// Scan and recipe of each directory, ordered by the scans' ids. A directory whose parts are all
    /// damaged is an error.
    pub specs: Vec<Result<OutputSpec, OutputError>>,
    /// Paths of their final files.
    pub finals: BTreeSet<PathBuf>,
}

impl PartIndex {
    /// Reads the directories of parts below an output root.
    pub fn read(out_root: &Path) -> Self {
        let mut specs: Vec<Result<OutputSpec, OutputError>> = Vec::new();
        let mut directories = vec![out_root.join(".azpipe/parts")];
        // The first pass lists the directories of scans, the second the directories of recipes.
        for _ in 0..2 {
            let below = directories.into_iter().flat_map(|directory| match list_dir(&directory) {
                Ok(paths) => paths.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            });
            let (paths, errors): (Vec<_>, Vec<_>) = below.partition(Result::is_ok);
            directories = paths.into_iter().flatten().collect();
            specs.extend(errors.into_iter().filter_map(Result::err).map(Err));
        }
        directories.sort();
        let (mut finals, mut replaced) = (BTreeSet::new(), Vec::new());
        for directory in &directories {
            match read_output_spec(out_root, directory) {
                Ok(None) => (),
                Ok(Some(spec)) => match read_other_owner(&spec) {
                    Ok(Some(_)) => replaced.push(spec),
                    Ok(None) => {
                        finals.insert(spec.path());
                        specs.push(Ok(spec));
                    }
                    Err(error) => {
                        finals.insert(spec.path());
                        specs.push(Err(error));
                    }
                },
                // The error is about the final file that the directory names, if it is about one.
                Err(error) => {
                    let name = read_output_name(directory).ok().flatten();
                    finals.extend(name.map(|name| out_root.join(name.as_path())));
                    specs.push(Err(error));
                }
            }
        }
        for target in replaced {
            // Of the result that is to replace it no directory was found.
            if finals.contains(&target.path()) {
                continue;
            }
            let told = match is_in_place(&target) {
                Ok(false) => continue,
                Ok(true) => check_awaits_no_other(&target).err(),
                Err(error) => Some(error),
            };
            finals.insert(target.path());
            specs.extend(told.map(Err));
        }
        Self { specs, finals }
    }
}

/// Lists a directory; empty if the directory doesn't exist.
fn list_dir(directory: &Path) -> Result<Vec<PathBuf>, OutputError> {
    let list = || fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect();
    match list() {
        Err(why) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        listed => listed.map_err(|why: io::Error| OutputError::io(directory)(why)),
    }
}

/// Reads the scan and recipe of a directory of parts, from a part or from the final file that the
/// parts were merged into.
fn read_output_spec(out_root: &Path, directory: &Path) -> Result<Option<OutputSpec>, OutputError> {
    let mut damaged = None;
    let paths = match part::list_files(directory) {
        // Any other file beside the directories of scans.
        Err(why) if why.kind() == ErrorKind::NotADirectory => return Ok(None),
        paths => paths.map_err(OutputError::io(directory))?,
    };
    for path in paths {
        match part::read_part(&path) {
            Ok(part) => {
                return OutputSpec::from_file(out_root, &part.metadata.task).map(Some);
            }
            Err(error) => damaged = Some(error),
        }
    }
    let name = read_output_name(directory)?;
    if name.as_ref().is_some_and(|name| !name.is_contained()) && damaged.is_none() {
        let why =
            "damaged: expected the path of a final file; remove it if there are no results to keep";
        return Err(OutputError::content(&directory.join(OUTPUT_NAME_FILE), why));
    }
    match name
        .filter(RawPath::is_contained)
        .map(|name| OutputFile::open(&out_root.join(name.as_path())))
    {
        Some(Ok(there)) if !is_parts_dir_of(directory, &there.task) => {
            check_replaced(out_root, there)
        }
        Some(Ok(there)) => OutputSpec::from_file(out_root, &there.task).map(Some),
        // The final file was removed by the user after its parts had been merged.
        Some(Err(OutputError::Io { why, .. }))
            if why.kind() == ErrorKind::NotFound && damaged.is_none() =>
        {
            Ok(None)
        }
        Some(Err(error)) => Err(error),
        None => damaged.map_or(Ok(None), |error| Err(error.into())),
    }
}

/// Reads the path of the final file of a directory of parts; `None` if nothing was merged yet.
fn read_output_name(directory: &Path) -> Result<Option<RawPath>, OutputError> {
    let register = directory.join(OUTPUT_NAME_FILE);
    match untrusted_file::read(&register, MAX_TEXT_BYTES) {
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(None),
        name => Ok(Some(OsString::from_vec(name.map_err(OutputError::io(&register))?).into())),
    }
}

/// Checks that a final file that is not of the parts beside its name was replaced by that of another scan
/// or recipe, and returns `None`.
///
/// # Errors
/// Fails if azpipe did not write it there: by its note, another one belongs there.
fn check_replaced(out_root: &Path, there: OutputFile) -> Result<Option<OutputSpec>, OutputError> {
    let name = there.path.strip_prefix(out_root).unwrap_or(&there.path);
    let owner =
        OutputOwner::read(out_root, &RawPath::from(name)).map_err(OutputError::io(&there.path))?;
    let written = OutputOwner::from_task(&there.task);
    if owner.is_none_or(|owner| owner.is_same_result(&written)) {
        return Ok(None);
    }
    let why = "has the patterns of another scan or recipe than azpipe wrote there: move it back to its own \
               name, or remove it and integrate again";
    Err(OutputError::content(&there.path, why))
}

/// Checks that a final file, beside which no part of another result is, waits for none.
///
/// # Errors
/// Fails if plan-split has noted another result for its path, or if the note can't be read.
pub(super) fn check_awaits_no_other(target: &OutputSpec) -> Result<(), OutputError> {
    let why = match read_other_owner(target)? {
        None => return Ok(()),
        Some(owner) if owner.scan == target.task().scan => {
            "has patterns by earlier settings, and none by those of the last plan-split --replace are here: \
             integrate its tasks, or run plan-split with --replace and the earlier settings to keep these"
        }
        Some(_) => {
            "has patterns of another scan than was planned last, of which none are here: integrate its tasks, or move \
             this file back if it was moved here"
        }
    };
    Err(OutputError::content(&target.path(), why))
}

/// Returns the scan or recipe that the final file of the target belongs to, if it is another one.
fn read_other_owner(target: &OutputSpec) -> Result<Option<OutputOwner>, OutputError> {
    let of_target = OutputOwner::from_task(target.task());
    Ok(read_owner(target)?.filter(|owner| !owner.is_same_result(&of_target)))
}

/// Returns whether the final file of the target is there and holds its result, whoever it belongs to.
///
/// # Errors
/// Fails if a file is there and can't be read.
fn is_in_place(target: &OutputSpec) -> Result<bool, OutputError> {
    match OutputFile::open(&target.path()) {
        Ok(there) => {
            let of_target = OutputOwner::from_task(target.task());
            Ok(OutputOwner::from_task(&there.task).is_same_result(&of_target))
        }
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns whether a directory has the parts of a task's scan and recipe.
pub(super) fn is_parts_dir_of(parts: &Path, task: &Task) -> bool {
    parts_dir(Path::new(""), &task.scan, &task.recipe_digest)
        .is_some_and(|of_task| parts.ends_with(of_task))
}

fn read_owner(target: &OutputSpec) -> Result<Option<OutputOwner>, OutputError> {
    OutputOwner::read(target.out_root(), &target.task().final_file)
        .map_err(OutputError::io(&target.path()))
}

/// Checks that a build would not refuse the target because its final file belongs to another scan or
/// recipe.
///
/// # Errors
/// Fails if it does, or if the note of its owner can't be read.
pub fn check_owner(target: &OutputSpec) -> Result<(), OutputError> {
    check_recorded_owner(target).map(drop)
}

/// Checks that the final file of the target does not belong to another scan or recipe. Returns the
/// owner's note, if there is one, which says that it belongs to the target.
///
/// # Errors
/// Fails if it belongs to another scan or recipe, or if the note can't be read.
pub(super) fn check_recorded_owner(
    target: &OutputSpec,
) -> Result<Option<OutputOwner>, OutputError> {
    let of_target = OutputOwner::from_task(target.task());
    match read_owner(target)? {
        Some(owner) if !owner.is_same_result(&of_target) => Err(other_owner_error(target, &owner)),
        owner => Ok(owner),
    }
}

fn other_owner_error(target: &OutputSpec, owner: &OutputOwner) -> OutputError {
    let task = target.task();
    let (scan, recipe) = (&owner.scan, short_digest(&owner.recipe_digest));
    let of_target = OutputOwner::from_task(task);
    let remedy = match owner.scan == task.scan {
        true => {
            "run plan-split again, with --replace if this result is to replace it, or with --recipe-name to keep both"
        }
        false if owner.is_same_dataset(&of_target) && owner.file == of_target.file => {
            "the scan was measured again in the same file, and this result is of the earlier measurement"
        }
        false => "give each of them an --out of its own, or run plan-split again",
    };
    let why = format!("belongs to another result, of scan {scan} and recipe {recipe}: {remedy}");
    OutputError::content(&target.path(), why)
}

/// Checks that the target may replace the final file of another scan or recipe. `there` is the task
/// of that file.
///
/// # Errors
/// Fails unless the owner's note says that the target replaces it, or the file was made from an
/// earlier content of the same scan file.
pub(super) fn check_replaceable(
    target: &OutputSpec,
    there: &Task,
    owner: Option<&OutputOwner>,
) -> Result<(), OutputError> {
    let (now, before, path) =
        (OutputOwner::from_task(target.task()), OutputOwner::from_task(there), target.path());
    if owner.is_some_and(|owner| owner.may_replace(&before)) {
        return Ok(());
    }
    let relation =
        output_owners::compare_files(&before.file, &now.file).map_err(OutputError::io(&path))?;
    let same_settings = now.recipe_digest == before.recipe_digest;
    if relation == FileRelation::SameFile && now.is_same_dataset(&before) && same_settings {
        return Ok(());
    }
    let why = match same_settings {
        true => {
            format!(
                "the final of another scan, from {}; give each of them an --out of its own or, if the file was moved here, \
                 move it back",
                before.file.display()
            )
        }
        false => format!(
            "the final of another recipe, {}; run plan-split with --replace to replace it, or with --recipe-name to keep both",
            short_digest(&before.recipe_digest)
        ),
    };
    Err(OutputError::content(&path, why))
}

fn short_digest(digest: &str) -> &str {
    digest.get(..16).unwrap_or(digest)
}

/// Records the owner of the final file, so that a later gather finds the final file once the parts
/// are removed. A virtual final file of another name keeps the name in the directory of parts, or gets it
/// where this one, which `holds_patterns_now`, was virtual: the parts stay for that one.
///
/// # Errors
/// Fails if it belongs to another scan or recipe, which may have been gathered at the same time, or if
/// the note can't be read or written.
pub(super) fn record_owner(
    target: &OutputSpec,
    holds_patterns_now: bool,
) -> Result<(), OutputError> {
    let task = target.task();
    let other = OutputOwner::from_task(task)
        .claim(target.out_root())
        .map_err(OutputError::io(&target.path()))?;
    if let Some(owner) = other {
        return Err(other_owner_error(target, &owner));
    }
    let Some(directory) = parts_dir(target.out_root(), &task.scan, &task.recipe_digest) else {
        return Ok(());
    };
    let other = match holds_patterns_now {
        true => other_virtual_final(target)?,
        false => noted_virtual_final(target)?,
    };
    let name = other.as_ref().unwrap_or(&task.final_file).as_os_str().as_bytes();
    let path = directory.join(OUTPUT_NAME_FILE);
    if untrusted_file::read(&path, MAX_TEXT_BYTES).is_ok_and(|there| there == name) {
        Ok(())
    } else {
        atomic::write(&path, name, &OwnershipRule::in_azpipe_dir()).map_err(OutputError::io(&path))
    }
}

/// Returns whether a virtual final file other than the target's shows the parts of its directory, by the
/// name in the directory: the same scan and settings were planned with another name.
pub(super) fn are_parts_shown_by_other(target: &OutputSpec) -> Result<bool, OutputError> {
    Ok(noted_virtual_final(target)?.is_some())
}

/// Gives a part of a task that is about to be completed another name, if its own is that of a part of other
/// raw data or other monitors which a virtual final file shows: beside the new patterns, that file would
/// have the counters of the earlier ones, and their digest.
///
/// # Errors
/// Fails if the part can't be renamed. It keeps its old name then.
pub fn keep_shown_part(task: &Task, part: &mut PartWriter) -> Result<(), PartError> {
    if part.may_replace_other_data() && may_be_shown(task, part.target()) {
        part.rename_by_sources()?;
    }
    Ok(())
}

/// Returns whether a virtual final file may show a part, by the name in the directory of the part.
fn may_be_shown(task: &Task, part: &Path) -> bool {
    match part.parent().map(read_output_name) {
        Some(Ok(Some(name))) if name.is_contained() => {
            may_be_virtual_final(&task.out.join(&*name), task)
        }
        Some(Ok(_)) | None => false,
        Some(Err(_)) => true,
    }
}

/// Returns the virtual final file that the directory of parts names, if it is not that of the target. If
/// that one was removed or copied since, it is another one.
fn noted_virtual_final(target: &OutputSpec) -> Result<Option<RawPath>, OutputError> {
    let task = target.task();
    let Some(directory) = parts_dir(target.out_root(), &task.scan, &task.recipe_digest) else {
        return Ok(None);
    };
    match read_output_name(&directory)?.filter(|name| name.is_contained()) {
        Some(name) if name == task.final_file => Ok(None),
        Some(name) if may_be_virtual_final(&target.out_root().join(&*name), task) => Ok(Some(name)),
        Some(_) => other_virtual_final(target),
        None => Ok(None),
    }
}

/// Returns a virtual final file other than the target's of the same scan and recipe.
///
/// # Errors
/// Fails if the notes of final files can't be read.
fn other_virtual_final(target: &OutputSpec) -> Result<Option<RawPath>, OutputError> {
    let (task, own) = (target.task(), OutputOwner::from_task(target.task()));
    let all = output_owners::read_all(target.out_root());
    let mut names = all
        .map_err(OutputError::io(target.out_root()))?
        .into_iter()
        .filter(|owner| owner.is_same_result(&own))
        .map(|owner| owner.final_file);
    Ok(names.find(|name| {
        *name != task.final_file && may_be_virtual_final(&target.out_root().join(&**name), task)
    }))
}

/// Returns whether a file is a virtual final file of the scan and recipe of a task. One that can't be
/// looked at, or is of another version, may be; a damaged one shows nothing any more.
fn may_be_virtual_final(path: &Path, task: &Task) -> bool {
    match OutputFile::open(path) {
        Ok(there) => {
            there.layout == OutputLayout::Virtual
                && OutputOwner::from_task(&there.task).is_same_result(&OutputOwner::from_task(task))
        }
        Err(OutputError::OfOtherVersion { .. }) => true,
        Err(error) => error.io_error().is_some() && !error.is_not_found(),
    }
}

/// The lock on the parts of a directory while a gather uses them, and a mark if other machines may
/// not see the lock.
pub(super) struct GatherLock {
    _lock: File,
    _mark: Option<WorkMark>,
}

/// Waits until no other gather uses these parts. A file system without locks is safe: final files
/// appear complete, and vanished parts are noticed.
///
/// # Errors
/// Fails if the lock file or the mark can't be created, or if the observer cancels.
pub(super) fn lock(
    directory: &Path,
    observer: &dyn BuildObserver,
) -> Result<GatherLock, OutputError> {
    let path = directory.join(LOCK_FILE);
    let file = ownership::open_lock(&path).map_err(OutputError::io(&path))?;
    let (began, mut is_told) = (Instant::now(), false);
    loop {
        let is_locked = match file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::Error(_)) => false,
            Err(TryLockError::WouldBlock) => {
                check_cancelled(observer)?;
                if !is_told && began.elapsed() > WAIT_TO_TELL {
                    is_told = true;
                    observer.waits(&path);
                }
                std::thread::sleep(LOCK_POLL_INTERVAL);
                continue;
            }
        };
        let mark = WorkMark::create_where_locks_are_local(&path, is_locked)
            .map_err(OutputError::io(directory))?;
        return Ok(GatherLock { _lock: file, _mark: mark });
    }
}
