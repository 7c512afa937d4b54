//! [`WorkMark`], by which a process shows other machines that it works in a directory.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use crate::ownership::remove_if_present;
use crate::writer_process::{WriterProcess, locks_reach_all_machines};

/// An empty file that shows other machines, which may not see this process's locks, that it works
/// in the directory. It is named like a temporary file's lock file, so that [`temporary_files`](crate::atomic::temporary_files)
/// lists it, and a killed process's mark is removed as any leftover. Dropping it removes it.
#[derive(Debug)]
pub struct WorkMark(PathBuf);

impl WorkMark {
    /// Creates the mark if another machine may not see the lock on the file at `lock`, which lies
    /// in the directory, or if `is_locked` is false: this process could not lock it.
    ///
    /// # Errors
    /// Fails if the file system can't be examined, or the file can't be created.
    pub fn create_where_locks_are_local(lock: &Path, is_locked: bool) -> io::Result<Option<Self>> {
        if is_locked && locks_reach_all_machines(lock)? {
            return Ok(None);
        }
        let path =
            lock.with_file_name(format!(".work.{}.lock", WriterProcess::current().unique_name()));
        OpenOptions::new().write(true).create_new(true).open(&path)?;
        Ok(Some(Self(path)))
    }
}

impl Drop for WorkMark {
    fn drop(&mut self) {
        // A mark that stays is that of a process that has ended.
        let _ = remove_if_present(&self.0);
    }
}
