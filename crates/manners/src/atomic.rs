//! Files that appear whole or not at all.
//!
//! A file is written under a dot-name in its target's directory, synced and renamed. Beside it
//! lies an empty file that its writer keeps locked: the kernel lets go of the lock when the writer
//! dies, however it dies and on whatever node, and so [`remove_leftovers`] can tell a dead writer's
//! file from one at work. (The lock is not on the file itself, for HDF5 wants to lock that.)

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Names of files may have 255 bytes; what goes around the target's name needs some of them.
const LONGEST_NAME: usize = 150;

/// A file that does not appear at its target before it is whole.
#[derive(Debug)]
pub struct AtomicFile {
    target: PathBuf,
    path: PathBuf,
    lock_path: PathBuf,
    /// Locked for as long as it is open.
    _lock: File,
}

impl AtomicFile {
    /// Reserves a temporary name beside the target. No file is there yet: write it at
    /// [`path`](Self::path). Dropped without [`commit`](Self::commit), it is removed.
    ///
    /// # Errors
    /// A target without a file name; a directory that can't be written to.
    pub fn create(target: impl AsRef<Path>) -> io::Result<Self> {
        let target = target.as_ref();
        let prefix = prefix(target)?;
        loop {
            let mut name = prefix.clone();
            name.push(writer());
            let lock_path = target.with_file_name(with_extension(&name, "lock"));
            let lock = OpenOptions::new().write(true).create_new(true).open(&lock_path)?;
            // Where the file system knows no locks, the process id in the name has to do.
            let taken = matches!(lock.try_lock(), Err(TryLockError::WouldBlock));
            // Whoever clears up may have come between creation and lock: then this name is void.
            if !taken && is_at(&lock, &lock_path)? {
                let path = target.with_file_name(with_extension(&name, "tmp"));
                return Ok(Self { target: target.to_owned(), path, lock_path, _lock: lock });
            }
        }
    }

    /// Where to write the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the file durable and puts it in its place, where it replaces an earlier one.
    ///
    /// # Errors
    /// Of sync and rename; the target is then as it was.
    pub fn commit(self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()?;
        std::fs::rename(&self.path, &self.target)?;
        sync_directory(&self.target)
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        // After a commit there is nothing at `path`. The lock goes last: it vouches for the rest.
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(&self.lock_path);
    }
}

/// Writes a small file, whole or not at all.
///
/// # Errors
/// As [`AtomicFile::create`], those of writing, and those of [`AtomicFile::commit`].
pub fn write(target: impl AsRef<Path>, content: impl AsRef<[u8]>) -> io::Result<()> {
    let file = AtomicFile::create(target)?;
    std::fs::write(file.path(), content)?;
    file.commit()
}

/// Removes what dead writers of this target left beside it, and says how many files.
///
/// # Errors
/// The directory can't be read or written to; one that does not exist holds no leftovers.
pub fn remove_leftovers(target: impl AsRef<Path>) -> io::Result<usize> {
    let target = target.as_ref();
    let prefix = prefix(target)?;
    let entries = match std::fs::read_dir(directory(target)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let mut removed = 0;
    for entry in entries {
        let path = entry?.path();
        let stem = path.file_stem().unwrap_or_default();
        let extension = path.extension().unwrap_or_default();
        let ours = extension == "tmp" || extension == "lock";
        // No dot in it: `.a.h5.host-1-0` is of `a.h5`, and not of `a`.
        let writer = stem.as_bytes().strip_prefix(prefix.as_bytes()).filter(|writer| !writer.contains(&b'.'));
        if let Some(writer) = writer.filter(|_| ours)
            && let Writer::Dead(_lock) = writer_of(&path.with_extension("lock"), writer)?
        {
            for leftover in [path.with_extension("tmp"), path.with_extension("lock")] {
                removed += usize::from(remove(&leftover)?);
            }
        }
    }
    Ok(removed)
}

/// Whether a temporary file is being written.
enum Writer {
    Alive,
    /// With its lock, so that nobody takes up the name while we clear it up.
    Dead(Option<File>),
}

fn writer_of(lock_path: &Path, writer: &[u8]) -> io::Result<Writer> {
    let lock = match File::open(lock_path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Writer::Dead(None)),
        lock => lock?,
    };
    Ok(match lock.try_lock() {
        Ok(()) => Writer::Dead(Some(lock)),
        // No locks on this file system: only of this machine's processes can we tell.
        Err(TryLockError::Error(_)) if is_dead_here(writer) => Writer::Dead(None),
        Err(_) => Writer::Alive,
    })
}

/// Whether `host-pid-nonce` names a process of this machine that is no more.
fn is_dead_here(writer: &[u8]) -> bool {
    let Ok(writer) = std::str::from_utf8(writer) else { return false };
    let mut parts = writer.rsplitn(3, '-');
    let (_nonce, pid, writers_host) = (parts.next(), parts.next(), parts.next());
    writers_host == Some(&host()) && pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists())
}

fn remove(path: &Path) -> io::Result<bool> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// Whether the open file is the one at that path.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let there = match path.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        there => there?,
    };
    let held = file.metadata()?;
    Ok((held.dev(), held.ino()) == (there.dev(), there.ino()))
}

fn sync_directory(target: &Path) -> io::Result<()> {
    match File::open(directory(target))?.sync_all() {
        // Some network file systems can't sync a directory; their rename is durable by itself.
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

fn directory(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// `.name.`, with a digest in place of the end of a long name.
fn prefix(target: &Path) -> io::Result<OsString> {
    let named = || io::Error::new(ErrorKind::InvalidInput, "a path without a file name");
    let name = target.file_name().ok_or_else(named)?.as_bytes();
    let mut prefix = b".".to_vec();
    if name.len() <= LONGEST_NAME {
        prefix.extend_from_slice(name);
    } else {
        prefix.extend_from_slice(&name[..LONGEST_NAME - 17]);
        prefix.push(b'~');
        prefix.extend_from_slice(&records::Digest::of_content(name).as_bytes()[..16]);
    }
    prefix.push(b'.');
    Ok(OsString::from_vec(prefix))
}

/// `host-pid-nonce` of a new file of this process.
fn writer() -> String {
    static NONCE: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}-{}", host(), std::process::id(), NONCE.fetch_add(1, Relaxed))
}

/// The machine's name without its domain, in letters that suit a file name.
fn host() -> String {
    let host = nix::unistd::gethostname().unwrap_or_default();
    let plain = |char: &char| char.is_ascii_alphanumeric() || *char == '-';
    host.to_string_lossy().chars().take_while(|&char| char != '.').filter(plain).take(64).collect()
}

fn with_extension(name: &OsStr, extension: &str) -> OsString {
    let mut name = name.to_owned();
    name.push(".");
    name.push(extension);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<OsString> {
        let mut names: Vec<_> =
            directory.read_dir().expect("a directory").map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_appears_whole_and_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let target = directory.path().join(OsStr::from_bytes(b"two words \xff.h5"));
        write(&target, "old").expect("a file");
        let file = AtomicFile::create(&target).expect("a name");
        std::fs::write(file.path(), "new").expect("a file");
        assert_eq!(std::fs::read(&target).expect("the old file"), b"old");
        file.commit().expect("a rename");
        assert_eq!(std::fs::read(&target).expect("the new file"), b"new");
        assert_eq!(names(directory.path()), [target.file_name().expect("a name")]);
    }

    #[test]
    fn a_file_that_is_not_committed_leaves_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = AtomicFile::create(directory.path().join("x".repeat(255))).expect("a name");
        std::fs::write(file.path(), "half").expect("a file");
        drop(file);
        assert_eq!(names(directory.path()), [""; 0]);
    }

    #[test]
    fn only_what_the_dead_left_is_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        let target = directory.path().join("a.h5");
        let alive = AtomicFile::create(&target).expect("a name");
        std::fs::write(alive.path(), "half").expect("a file");
        for dead in [".a.h5.node7-12-0.tmp", ".a.h5.node7-12-0.lock", ".a.h5.node7-13-4.tmp", ".b.h5.node7-12-1.tmp"] {
            std::fs::write(directory.path().join(dead), "half").expect("a file");
        }
        assert_eq!(remove_leftovers(directory.path().join("a")).expect("a search"), 0);
        assert_eq!(remove_leftovers(&target).expect("a search"), 3);
        assert_eq!(remove_leftovers(directory.path().join("none/a.h5")).expect("a search"), 0);
        alive.commit().expect("the file of the living is still there");
        assert_eq!(names(directory.path()), [".b.h5.node7-12-1.tmp", "a.h5"]);
    }

    #[test]
    fn clearing_up_never_takes_a_file_from_the_living() {
        let directory = tempfile::tempdir().expect("a directory");
        let target = directory.path().join("a.h5");
        let written = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let clear_up = || {
                while !written.load(Relaxed) {
                    remove_leftovers(&target).expect("a search");
                }
            };
            let write = || (0..40).for_each(|_| write(&target, "whole").expect("a file"));
            let cleaners = [scope.spawn(clear_up), scope.spawn(clear_up)];
            let writers = [scope.spawn(write), scope.spawn(write)];
            let failed: Vec<_> = writers.into_iter().map(|writer| writer.join().is_err()).collect();
            written.store(true, Relaxed);
            let lost: Vec<_> = cleaners.into_iter().map(|cleaner| cleaner.join().is_err()).collect();
            assert_eq!([failed, lost].concat(), [false; 4]);
        });
        assert_eq!(names(directory.path()), ["a.h5"]);
    }
}
