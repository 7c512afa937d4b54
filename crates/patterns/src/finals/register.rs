//! What lies beside the parts of a scan and recipe: where their final is, and who is at work on them.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use manners::atomic;
use manners::owned::{self, Claim};
use records::RawPath;

use super::options::go_on;
use super::{Error, Final, Target, Watch};
use crate::coverage::directory;
use crate::part;

/// The file that names the final, below the output root.
const REGISTER: &str = "final";
/// The file that one gather at a time holds locked.
const LOCK: &str = ".gather.lock";
/// How long to wait before looking at the lock again.
const PATIENCE: Duration = Duration::from_millis(50);

/// What there are parts or a final of below an output root, in the order of the scans' ids. A
/// directory of parts that says nothing of itself, every part of it damaged, is an error.
pub fn targets(out_root: &Path) -> Vec<Result<Target, Error>> {
    let mut found: Vec<Result<Target, Error>> = Vec::new();
    let mut directories = vec![out_root.join(".azpipe/parts")];
    // Of each scan, and in these of each recipe.
    for _ in 0..2 {
        let below = directories.into_iter().flat_map(|directory| match entries(&directory) {
            Ok(paths) => paths.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        });
        let (paths, errors): (Vec<_>, Vec<_>) = below.partition(Result::is_ok);
        directories = paths.into_iter().flatten().collect();
        found.extend(errors.into_iter().filter_map(Result::err).map(Err));
    }
    directories.sort();
    found.extend(directories.into_iter().filter_map(|directory| target(out_root, &directory).transpose()));
    found
}

/// What is in a directory; nothing where there is no such directory.
fn entries(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let list = || fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect();
    match list() {
        Err(why) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(Vec::new()),
        listed => listed.map_err(|why: io::Error| Error::io(directory)(why)),
    }
}

/// What the parts of a directory, or the final that took their place, are of.
fn target(out_root: &Path, directory: &Path) -> Result<Option<Target>, Error> {
    let mut damaged = None;
    let paths = match part::files(directory) {
        // Not a directory of parts.
        Err(why) if why.kind() == ErrorKind::NotADirectory => return Ok(None),
        paths => paths.map_err(Error::io(directory))?,
    };
    for path in paths {
        match part::read(&path) {
            Ok(part) => return Target::unheard(out_root, &part.head.task).map(Some),
            Err(error) => damaged = Some(error),
        }
    }
    let register = directory.join(REGISTER);
    let name = match fs::read(&register) {
        Err(why) if why.kind() == ErrorKind::NotFound => None,
        name => Some(RawPath::from(OsString::from_vec(name.map_err(Error::io(&register))?))),
    };
    match name.filter(RawPath::stays_below).map(|name| Final::open(&out_root.join(name.as_path()))) {
        Some(Ok(there)) => Target::unheard(out_root, &there.task).map(Some),
        Some(Err(error)) => Err(error),
        None => damaged.map_or(Ok(None), |error| Err(error.into())),
    }
}

/// Notes beside the parts where their final is, for a gather that has nothing else to go by once the
/// parts are gone.
pub(super) fn note(target: &Target) -> Result<(), Error> {
    let task = target.task();
    let Some(directory) = directory(target.out_root(), &task.scan, &task.recipe_digest) else { return Ok(()) };
    let (path, name) = (directory.join(REGISTER), task.final_file.as_os_str().as_bytes());
    match fs::read(&path).is_ok_and(|there| there == name) {
        true => Ok(()),
        false => atomic::write(&path, name, &Claim::by_place()).map_err(Error::io(&path)),
    }
}

/// Waits until no other gather is at work on these parts. A file system without locks is no obstacle:
/// finals appear whole, and a part that vanishes is noticed.
///
/// # Errors
/// The lock can't be made; somebody asks to stop.
pub(super) fn lock(directory: &Path, watch: &dyn Watch) -> Result<Option<File>, Error> {
    let path = directory.join(LOCK);
    let file = owned::open_lock(&path).map_err(Error::io(&path))?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::Error(_)) => return Ok(None),
            Err(TryLockError::WouldBlock) => go_on(watch)?,
        }
        std::thread::sleep(PATIENCE);
    }
}
