//! What lies beside the parts of a scan and recipe: where their final is, and who is at work on them.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use filter::atomic;
use filter::ownership::{self, OwnedFiles};
use owners::{FileRelation, OutputOwner};
use records::{RawPath, Task};

use super::options::check_cancelled;
use super::{BuildObserver, OutputError, OutputFile, OutputSpec};
use crate::coverage::parts_dir;
use crate::part;

/// The file that names the final, below the output root.
pub(super) const OUTPUT_NAME_FILE: &str = "final";
/// The file that one gather at a time holds locked.
pub(super) const LOCK_FILE: &str = ".gather.lock";
/// How long to wait before looking at the lock again.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// What there are parts or a final of below an output root, in the order of the scans' ids. A
/// directory of parts that says nothing of itself, every part of it damaged, is an error.
pub fn find_outputs(out_root: &Path) -> Vec<Result<OutputSpec, OutputError>> {
    let mut found: Vec<Result<OutputSpec, OutputError>> = Vec::new();
    let mut directories = vec![out_root.join(".azpipe/parts")];
    // Of each scan, and in these of each recipe.
    for _ in 0..2 {
        let below = directories.into_iter().flat_map(|directory| match list_dir(&directory) {
            Ok(paths) => paths.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        });
        let (paths, errors): (Vec<_>, Vec<_>) = below.partition(Result::is_ok);
        directories = paths.into_iter().flatten().collect();
        found.extend(errors.into_iter().filter_map(Result::err).map(Err));
    }
    directories.sort();
    found.extend(directories.into_iter().filter_map(|directory| read_output_spec(out_root, &directory).transpose()));
    found
}

/// What is in a directory; nothing where there is no such directory.
fn list_dir(directory: &Path) -> Result<Vec<PathBuf>, OutputError> {
    let list = || fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect();
    match list() {
        Err(why) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(Vec::new()),
        listed => listed.map_err(|why: io::Error| OutputError::io(directory)(why)),
    }
}

/// What the parts of a directory, or the final that took their place, are of.
fn read_output_spec(out_root: &Path, directory: &Path) -> Result<Option<OutputSpec>, OutputError> {
    let mut damaged = None;
    let paths = match part::list_files(directory) {
        // Not a directory of parts.
        Err(why) if why.kind() == ErrorKind::NotADirectory => return Ok(None),
        paths => paths.map_err(OutputError::io(directory))?,
    };
    for path in paths {
        match part::read_part(&path) {
            Ok(part) => return skip_if_replaced(OutputSpec::from_file(out_root, &part.metadata.task)?),
            Err(error) => damaged = Some(error),
        }
    }
    let register = directory.join(OUTPUT_NAME_FILE);
    let name = match fs::read(&register) {
        Err(why) if why.kind() == ErrorKind::NotFound => None,
        name => Some(RawPath::from(OsString::from_vec(name.map_err(OutputError::io(&register))?))),
    };
    match name.filter(RawPath::is_contained).map(|name| OutputFile::open(&out_root.join(name.as_path()))) {
        // The final of other settings has taken its place.
        Some(Ok(there)) if !is_parts_dir_of(directory, &there.task) => Ok(None),
        Some(Ok(there)) => skip_if_replaced(OutputSpec::from_file(out_root, &there.task)?),
        // It was removed by hand, and its parts went before: there is nothing to put together.
        Some(Err(OutputError::Io { why, .. })) if why.kind() == ErrorKind::NotFound && damaged.is_none() => Ok(None),
        Some(Err(error)) => Err(error),
        None => damaged.map_or(Ok(None), |error| Err(error.into())),
    }
}

/// The target, unless another scan or recipe has taken the place of its final.
fn skip_if_replaced(target: OutputSpec) -> Result<Option<OutputSpec>, OutputError> {
    Ok(read_owner(&target)?
        .is_none_or(|owner| owner.is_same_result(&OutputOwner::from_task(target.task())))
        .then_some(target))
}

fn is_parts_dir_of(parts: &Path, task: &Task) -> bool {
    parts_dir(Path::new(""), &task.scan, &task.recipe_digest).is_some_and(|of_task| parts.ends_with(of_task))
}

fn read_owner(target: &OutputSpec) -> Result<Option<OutputOwner>, OutputError> {
    OutputOwner::read(target.out_root(), &target.task().final_file).map_err(OutputError::io(&target.path()))
}

/// Checks that no other scan or recipe has taken the place of the target's final, and returns whether a note says that it
/// is the target's.
///
/// # Errors
/// The final is another's; the note can't be read.
pub(super) fn is_recorded_owner(target: &OutputSpec) -> Result<bool, OutputError> {
    match read_owner(target)? {
        None => Ok(false),
        Some(owner) if owner.is_same_result(&OutputOwner::from_task(target.task())) => Ok(true),
        Some(owner) => {
            let why = format!(
                "kept for another result by plan-split, of scan {} and recipe {}: run plan-split again, with --replace to \
                 have this one instead",
                owner.scan,
                short_digest(&owner.recipe_digest)
            );
            Err(OutputError::content(&target.path(), why))
        }
    }
}

/// Checks that the target may take the place of a final of another scan or recipe.
///
/// # Errors
/// Nobody said so, and it is not of an earlier content of the same file.
pub(super) fn check_replaceable(target: &OutputSpec, there: &Task, is_noted: bool) -> Result<(), OutputError> {
    let (now, before, path) = (OutputOwner::from_task(target.task()), OutputOwner::from_task(there), target.path());
    if is_noted {
        return Ok(());
    }
    let relation = owners::compare_files(&before.file, &now.file).map_err(OutputError::io(&path))?;
    let same_settings = now.recipe_digest == before.recipe_digest;
    if relation == FileRelation::SameFile && now.is_same_dataset(&before) && same_settings {
        return Ok(());
    }
    let why = match same_settings {
        true => format!("the final of another scan, of {}: give their results different --out", before.file.display()),
        false => format!(
            "the final of another recipe, {}: plan-split --replace has this one take its place, --recipe-name keeps both",
            short_digest(&before.recipe_digest)
        ),
    };
    Err(OutputError::content(&path, why))
}

fn short_digest(digest: &str) -> &str {
    digest.get(..16).unwrap_or(digest)
}

/// Notes beside the parts where their final is, for a gather that has nothing else to go by once the
/// parts are gone.
pub(super) fn record_owner(target: &OutputSpec) -> Result<(), OutputError> {
    let task = target.task();
    OutputOwner::from_task(task).write(target.out_root()).map_err(OutputError::io(&target.path()))?;
    let Some(directory) = parts_dir(target.out_root(), &task.scan, &task.recipe_digest) else { return Ok(()) };
    let (path, name) = (directory.join(OUTPUT_NAME_FILE), task.final_file.as_os_str().as_bytes());
    match fs::read(&path).is_ok_and(|there| there == name) {
        true => Ok(()),
        false => atomic::write(&path, name, &OwnedFiles::in_azpipe_dir()).map_err(OutputError::io(&path)),
    }
}

/// Waits until no other gather is at work on these parts. A file system without locks is no obstacle:
/// finals appear whole, and a part that vanishes is noticed.
///
/// # Errors
/// The lock can't be made; somebody asks to stop.
pub(super) fn lock(directory: &Path, watch: &dyn BuildObserver) -> Result<Option<File>, OutputError> {
    let path = directory.join(LOCK_FILE);
    let file = ownership::open_lock(&path).map_err(OutputError::io(&path))?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::Error(_)) => return Ok(None),
            Err(TryLockError::WouldBlock) => check_cancelled(watch)?,
        }
        std::thread::sleep(LOCK_POLL_INTERVAL);
    }
}
