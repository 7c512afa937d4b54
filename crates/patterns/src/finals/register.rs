//! What lies beside the parts of a scan and recipe: where their final is, and who is at work on them.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use manners::atomic;
use records::RawPath;

use super::{Error, Target};
use crate::coverage::directory;

/// The file that names the final, below the output root.
const REGISTER: &str = "final";
/// The file that one gather at a time holds locked.
const LOCK: &str = ".gather.lock";

/// The finals that were made below an output root, in the order of their scans' ids.
pub fn registered(out_root: &Path) -> Vec<PathBuf> {
    let below = |directory: PathBuf| fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut registers: Vec<PathBuf> =
        below(out_root.join(".azpipe/parts")).flat_map(below).map(|directory| directory.join(REGISTER)).collect();
    registers.sort();
    let read = |path: PathBuf| {
        let name = RawPath::from(OsString::from_vec(fs::read(path).ok()?));
        name.stays_below().then(|| out_root.join(name.as_path()))
    };
    registers.into_iter().filter_map(read).collect()
}

/// Notes beside the parts where their final is, for a gather that has nothing else to go by once the
/// parts are gone.
pub(super) fn note(target: &Target) -> Result<(), Error> {
    let task = target.task();
    let Some(directory) = directory(target.out_root(), &task.scan, &task.recipe_digest) else { return Ok(()) };
    let (path, name) = (directory.join(REGISTER), task.final_file.as_os_str().as_bytes());
    match fs::read(&path).is_ok_and(|there| there == name) {
        true => Ok(()),
        false => atomic::write(&path, name).map_err(Error::io(&path)),
    }
}

/// Waits until no other gather is at work on these parts. A file system without locks is no obstacle:
/// finals appear whole, and a part that vanishes is noticed.
pub(super) fn lock(directory: &Path) -> Result<Option<File>, Error> {
    let path = directory.join(LOCK);
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(Error::io(&path))?;
    match file.lock() {
        Err(why) if why.kind() == std::io::ErrorKind::Interrupted => Err(Error::Io { path, why }),
        locked => Ok(locked.ok().map(|()| file)),
    }
}
