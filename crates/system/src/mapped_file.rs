//! Files mapped into memory: read once, and shared by all processes of a machine.
//!
//! Only files that appear whole and are never written to in place may be mapped: those of
//! [`crate::atomic`]. The `unsafe` code of this module relies on this rule, which the system can't
//! enforce. If the bytes changed during a read, behaviour would be undefined; if the file were
//! truncated, SIGBUS would end the process.
#![allow(unsafe_code)]

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use memmap2::{Mmap, MmapOptions};
use nix::errno::Errno;

use crate::untrusted_file;

/// Number of attempts to lock a file that another process holds, and the time between them.
const LOCK_ATTEMPTS: u32 = 100;
const LOCK_INTERVAL: Duration = Duration::from_millis(2);

/// A file mapped read-only, from a page boundary on. While it exists, [`is_mapped`] returns true.
pub struct MappedFile {
    map: Mmap,
    /// The file, which holds a shared lock while it is open.
    file: File,
}

impl MappedFile {
    /// Maps a file that [`crate::atomic`] has written, all of it at once.
    ///
    /// # Errors
    /// Fails if the file can't be opened or mapped.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = untrusted_file::open(path)?;
        lock_shared(&file);
        // SAFETY: nobody writes to the mapped bytes while they are borrowed. azpipe renames these
        // files into place when they are whole and never opens them for writing again; whoever
        // makes one anew renames another over it, and the system keeps this one as it is for as
        // long as it is mapped. Another program that writes to, or truncates, a file in azpipe's
        // own directories would break this, and so does a network file system whose server drops a
        // replaced file: a read then ends the process by SIGBUS. All bytes are read once here
        // (`populate`) to make that unlikely later.
        let map = unsafe { MmapOptions::new().populate().map(&file)? };
        Ok(Self { map, file })
    }

    /// Returns the open file.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}

/// Locks a file as used. If the file system has no locks, the file counts as unused.
fn lock_shared(file: &File) {
    for _ in 0..LOCK_ATTEMPTS {
        match file.try_lock_shared() {
            // Another process asks whether the file is mapped, and holds it for that moment.
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_INTERVAL),
            Ok(()) | Err(TryLockError::Error(_)) => return,
        }
    }
}

/// Returns whether any process of this machine, this one included, has the file mapped.
///
/// # Errors
/// Fails if the file can't be opened, or if the system can't say; [`is_without_locks`] tells
/// whether it never can.
pub fn is_mapped(path: &Path) -> io::Result<bool> {
    match untrusted_file::open(path)?.try_lock() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(why)) => Err(why),
    }
}

/// Returns whether a lock failed because the file system has none: `ENOLCK`, `EOPNOTSUPP` or
/// `ENOSYS`.
pub fn is_without_locks(why: &io::Error) -> bool {
    let number = why.raw_os_error().map(Errno::from_raw);
    matches!(number, Some(Errno::ENOLCK | Errno::EOPNOTSUPP | Errno::ENOSYS))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_is_mapped_stays_as_it_was_when_it_is_made_anew() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.matrix");
        let any = crate::ownership::OwnershipRule::new("a file", |_| Ok(true));
        crate::atomic::write(&path, "old", &any).expect("a file");
        let mapped = MappedFile::open(&path).expect("a map");
        assert!(is_mapped(&path).expect("a file"));
        crate::atomic::write(&path, "newer", &any).expect("a file");
        assert_eq!(mapped.as_ref(), b"old");
        assert!(!is_mapped(&path).expect("a file"));
        std::fs::remove_file(&path).expect("there");
        assert_eq!(mapped.as_ref(), b"old");
        assert!(MappedFile::open(&path).is_err());
    }

    #[test]
    fn a_file_that_is_asked_for_at_this_moment_is_locked_all_the_same() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.matrix");
        std::fs::write(&path, "bytes").expect("a file");
        let asker = File::open(&path).expect("a file");
        asker.try_lock().expect("a lock");
        let mapped = thread::scope(|scope| {
            let mapped = scope.spawn(|| MappedFile::open(&path).expect("a map"));
            thread::sleep(10 * LOCK_INTERVAL);
            asker.unlock().expect("unlocked");
            mapped.join().expect("no panic")
        });
        assert!(is_mapped(&path).expect("a file"));
        drop(mapped);
        // A process that another test starts has the lock until it has replaced itself.
        let ends = Instant::now() + Duration::from_secs(60);
        while is_mapped(&path).expect("a file") {
            assert!(Instant::now() < ends, "still mapped");
            thread::sleep(LOCK_INTERVAL);
        }
    }
}
