//! Atomic files: they appear at their target whole or not at all.
//!
//! A file is written under a dot-name in its target's directory, synced and renamed. The dot-name
//! says which process writes it (module `writer_process`), and an empty lock file beside it stays
//! locked while that process runs. So [`remove_stale_files`] can tell a dead writer's files from
//! those of a running one, on this machine and on others. (The lock is not on the file itself,
//! because HDF5 locks that.)

use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::SystemTime;

use crate::denied;
use crate::ownership::{self, OwnershipRule, parent_dir, remove_if_present};
use crate::writer_process::{WriterProcess, sha256_hex};

/// The length at which the target's name is shortened. File names may have 255 bytes, and the
/// temporary name needs some.
const MAX_STEM_BYTES: usize = 150;

/// A file that appears at its target only when it is whole, and that replaces only files of
/// azpipe's own.
#[derive(Debug)]
pub struct AtomicFile {
    target: PathBuf,
    rule: OwnershipRule,
    path: PathBuf,
    lock_path: PathBuf,
    /// The lock file, locked while it is open.
    _lock: File,
}

impl AtomicFile {
    /// Reserves a temporary name beside the target. The file does not exist yet: write it at
    /// [`temporary_path`](Self::temporary_path). Dropping the value without
    /// [`commit`](Self::commit) removes the file. Once per process, the leftovers of dead writers
    /// in the directory are removed, too.
    ///
    /// # Errors
    /// Fails if the target has no file name, if the directory can't be written to, and if `rule`
    /// does not allow replacing a file that is at the target.
    pub fn create(target: impl AsRef<Path>, rule: &OwnershipRule) -> io::Result<Self> {
        let target = target.as_ref();
        let prefix = temporary_prefix(target)?;
        rule.check(target)?;
        remove_stale_files_once(parent_dir(target));
        loop {
            let mut name = prefix.clone();
            name.push(WriterProcess::current().unique_name());
            let lock_path = target.with_file_name(with_extension(&name, "lock"));
            let lock = OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&lock_path)
                .map_err(|why| denied::explain(why, target))?;
            // If the file system has no locks, only the writer's name identifies it.
            let taken = matches!(lock.try_lock(), Err(TryLockError::WouldBlock));
            // Another process may have cleared up between creation and locking; the name is void
            // then.
            if !taken && is_same_file(&lock, &lock_path)? {
                let path = target.with_file_name(with_extension(&name, "tmp"));
                let (target, rule) = (target.to_owned(), rule.clone());
                return Ok(Self { target, rule, path, lock_path, _lock: lock });
            }
            remove_if_present(&lock_path)?;
        }
    }

    /// Returns the path at which to write the file.
    pub fn temporary_path(&self) -> &Path {
        &self.path
    }

    /// Creates the temporary file for writing with the standard library.
    ///
    /// # Errors
    /// Fails if the file can't be created.
    pub fn create_temporary(&self) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).open(&self.path)
    }

    /// Makes the file executable for everybody who may read it.
    ///
    /// # Errors
    /// Fails if the file system refuses the change.
    pub fn make_executable(&self) -> io::Result<()> {
        let mode = self.path.metadata()?.permissions().mode();
        std::fs::set_permissions(&self.path, Permissions::from_mode(mode | (mode & 0o444) >> 2))
    }

    /// Changes the target to another name in the same directory.
    ///
    /// # Errors
    /// Fails if the rule does not allow replacing a file that has the name.
    pub fn rename_target(&mut self, name: &OsStr) -> io::Result<()> {
        let target = self.target.with_file_name(name);
        self.rule.check(&target)?;
        self.target = target;
        Ok(())
    }

    /// Makes the file durable and renames it to its target, replacing an earlier file.
    ///
    /// # Errors
    /// Fails if the file can't be synced or renamed, and if the rule does not allow replacing the
    /// file at the target. The target is unchanged then.
    pub fn commit(self) -> io::Result<()> {
        self.sync()?;
        // The target may have been created since `create`.
        self.rule.check(&self.target)?;
        std::fs::rename(&self.path, &self.target).map_err(|why| self.explain_removal(why))?;
        ownership::sync_parent(&self.target)
    }

    /// Makes the file durable and gives it its target's name, unless there is a file of that name.
    /// Returns whether there was none. Of several writers, one succeeds.
    ///
    /// # Errors
    /// Fails if the file can't be synced, and if the file system has no hard links.
    pub fn commit_new(self) -> io::Result<bool> {
        self.sync()?;
        match std::fs::hard_link(&self.path, &self.target) {
            Err(why) if why.kind() == ErrorKind::AlreadyExists => return Ok(false),
            linked => linked.map_err(|why| self.explain_removal(why))?,
        }
        ownership::sync_parent(&self.target)?;
        Ok(true)
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.path).map_err(|why| self.explain_removal(why))?.sync_all()
    }

    fn explain_removal(&self, why: io::Error) -> io::Error {
        match why.kind() {
            ErrorKind::NotFound => {
                let name = self.path.file_name().unwrap_or_default().display();
                io::Error::new(
                    ErrorKind::NotFound,
                    format!("another program removed its temporary file {name}: {why}"),
                )
            }
            _ => why,
        }
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        // After a commit there is nothing at `temporary_path`. The lock is removed last, because it
        // protects the rest.
        let _ = remove_if_present(&self.path);
        let _ = remove_if_present(&self.lock_path);
    }
}

/// Writes a small file, whole or not at all, over a file that `rule` allows to replace.
///
/// # Errors
/// Fails as [`AtomicFile::create`] and [`AtomicFile::commit`] do, and if the content can't be
/// written.
pub fn write(
    target: impl AsRef<Path>,
    content: impl AsRef<[u8]>,
    rule: &OwnershipRule,
) -> io::Result<()> {
    write_temporary(target, content, rule)?.commit()
}

/// Writes a small file, whole or not at all, where there is none. Returns whether there was none.
///
/// # Errors
/// Fails as [`AtomicFile::create`] and [`AtomicFile::commit_new`] do, and if the content can't be
/// written.
pub fn write_new(
    target: impl AsRef<Path>,
    content: impl AsRef<[u8]>,
    rule: &OwnershipRule,
) -> io::Result<bool> {
    write_temporary(target, content, rule)?.commit_new()
}

fn write_temporary(
    target: impl AsRef<Path>,
    content: impl AsRef<[u8]>,
    rule: &OwnershipRule,
) -> io::Result<AtomicFile> {
    let file = AtomicFile::create(target, rule)?;
    let mut temporary = file.create_temporary()?;
    temporary.write_all(content.as_ref())?;
    // Some systems report a failed write only once, to the handle that wrote: `commit` syncs
    // through another.
    temporary.sync_all()?;
    Ok(file)
}

/// Removes the leftovers of dead writers from a directory, once per process; for callers that find
/// nothing to write. Files that can't be removed are left to the next process, as they do no harm.
pub fn remove_stale_files_once(directory: &Path) {
    static CLEANED: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);
    let is_new =
        CLEANED.lock().unwrap_or_else(PoisonError::into_inner).insert(directory.to_owned());
    if is_new {
        let _ = remove_stale_files(directory);
    }
}

/// Removes the leftovers of dead writers from a directory, whatever their targets were, and returns
/// how many.
///
/// # Errors
/// Fails if the directory can't be read or written to. A directory that does not exist has no
/// leftovers.
pub fn remove_stale_files(directory: &Path) -> io::Result<usize> {
    let mut removed = 0;
    for path in temporary_files(directory)?.dead {
        removed += usize::from(remove_if_present(&path)?);
    }
    Ok(removed)
}

/// The temporary files in a directory.
#[derive(Debug, Default)]
pub struct TemporaryFiles {
    /// Files of processes that may still run.
    pub live: Vec<PathBuf>,
    /// Files of processes that have ended, in the order in which to remove them.
    pub dead: Vec<PathBuf>,
}

/// Returns whether a name is that of a temporary file or of its lock file.
pub fn is_temporary(name: &OsStr) -> bool {
    stem(name.as_bytes()).is_some_and(|stem| parse_writer(stem).is_some())
}

/// Returns the common part of the names of a temporary file and of its lock file.
fn stem(name: &[u8]) -> Option<&[u8]> {
    let stem = name.strip_suffix(b".tmp").or_else(|| name.strip_suffix(b".lock"));
    stem.filter(|stem| stem.starts_with(b"."))
}

/// Returns the writer from a stem `.NAME.WRITER`; a writer's name holds no dot.
fn parse_writer(stem: &[u8]) -> Option<WriterProcess> {
    stem.rsplit(|&byte| byte == b'.').next().map(OsStr::from_bytes).and_then(WriterProcess::parse)
}

/// Lists the temporary files in a directory, whatever their targets are.
///
/// # Errors
/// Fails if the directory can't be read or a writer's files can't be examined. A directory that
/// does not exist has none.
pub fn temporary_files(directory: &Path) -> io::Result<TemporaryFiles> {
    let mut found = TemporaryFiles::default();
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    let mut stems = BTreeSet::new();
    for entry in entries {
        stems.extend(stem(entry?.file_name().as_bytes()).map(<[u8]>::to_vec));
    }
    let now = LazyLock::new(|| query_file_system_time(directory));
    for stem in stems {
        let Some(writer) = parse_writer(&stem) else { continue };
        let path = |extension| directory.join(with_extension(OsStr::from_bytes(&stem), extension));
        let [file, lock] = ["tmp", "lock"].map(path);
        let now = || now.as_ref().map(|now| *now).map_err(|why| io::Error::from(why.kind()));
        let files =
            if writer.has_ended(&lock, &file, now)? { &mut found.dead } else { &mut found.live };
        // The lock is removed last, because it protects the rest.
        files.extend([file, lock]);
    }
    Ok(found)
}

/// Returns the file system's current time, which may differ from this machine's.
fn query_file_system_time(directory: &Path) -> io::Result<SystemTime> {
    let path = directory.join(format!(".clock.{}.lock", WriterProcess::current().unique_name()));
    let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
    let time = file.metadata().and_then(|file| file.modified());
    remove_if_present(&path)?;
    time
}

/// Returns whether the open file is the one at `path`.
fn is_same_file(file: &File, path: &Path) -> io::Result<bool> {
    let there = match path.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        there => there?,
    };
    let held = file.metadata()?;
    Ok((held.dev(), held.ino()) == (there.dev(), there.ino()))
}

/// Returns `.name.`; a digest replaces the end of a long name.
fn temporary_prefix(target: &Path) -> io::Result<OsString> {
    let named = || io::Error::new(ErrorKind::InvalidInput, "not the path of a file");
    let name = target.file_name().ok_or_else(named)?.as_bytes();
    let mut prefix = b".".to_vec();
    if name.len() <= MAX_STEM_BYTES {
        prefix.extend_from_slice(name);
    } else {
        prefix.extend_from_slice(&name[..MAX_STEM_BYTES - 17]);
        prefix.push(b'~');
        prefix.extend_from_slice(&sha256_hex(&[name]).as_bytes()[..16]);
    }
    prefix.push(b'.');
    Ok(OsString::from_vec(prefix))
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
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    fn names(directory: &Path) -> Vec<OsString> {
        let mut names: Vec<_> = directory
            .read_dir()
            .expect("a directory")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        names.sort();
        names
    }

    fn any() -> OwnershipRule {
        OwnershipRule::new("a file", |_| Ok(true))
    }

    #[test]
    fn a_file_appears_whole_and_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let target = directory.path().join(OsStr::from_bytes(b"two words \xff.h5"));
        write(&target, "old", &any()).expect("a file");
        let file = AtomicFile::create(&target, &any()).expect("a name");
        file.create_temporary().and_then(|mut file| file.write_all(b"new")).expect("a file");
        assert_eq!(std::fs::read(&target).expect("the old file"), b"old");
        file.commit().expect("a rename");
        assert_eq!(std::fs::read(&target).expect("the new file"), b"new");
        assert_eq!(names(directory.path()), [target.file_name().expect("a name")]);
    }

    #[test]
    fn a_file_that_is_not_committed_leaves_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let file =
            AtomicFile::create(directory.path().join("x".repeat(255)), &any()).expect("a name");
        std::fs::write(file.temporary_path(), "half").expect("a file");
        drop(file);
        assert_eq!(names(directory.path()), [""; 0]);
    }

    #[test]
    fn what_is_not_ours_is_refused_first_and_last() {
        let directory = tempfile::tempdir().expect("a directory");
        let (target, nothing) =
            (directory.path().join("a.h5"), OwnershipRule::new("a part", |_| Ok(false)));
        let mut file = AtomicFile::create(&target, &nothing).expect("a name");
        std::fs::write(file.temporary_path(), "ours").expect("a file");
        // Another program saves a file of that name meanwhile.
        std::fs::write(&target, "theirs").expect("a file");
        std::fs::write(directory.path().join("b.h5"), "theirs").expect("a file");
        assert!(file.rename_target("b.h5".as_ref()).is_err());
        file.rename_target("c.h5".as_ref()).expect("nothing there");
        file.rename_target("a.h5".as_ref()).expect_err("there now");
        file.commit().expect("c.h5 is free");
        assert!(AtomicFile::create(&target, &nothing).is_err());
        let file = AtomicFile::create(directory.path().join("d.h5"), &nothing).expect("a name");
        std::fs::write(file.temporary_path(), "ours").expect("a file");
        std::fs::write(directory.path().join("d.h5"), "theirs").expect("a file");
        assert_eq!(file.commit().expect_err("theirs").kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(directory.path().join("d.h5")).expect("there"), b"theirs");
        assert_eq!(names(directory.path()), ["a.h5", "b.h5", "c.h5", "d.h5"]);
    }

    /// Returns the name of a file whose process has ended.
    fn dead() -> String {
        let mut child = std::process::Command::new("true").spawn().expect("a process");
        child.wait().expect("ended");
        let name = WriterProcess::current().unique_name();
        let mut words: Vec<&str> = name.rsplitn(5, '-').collect();
        let pid = child.id().to_string();
        words[2] = &pid;
        words.reverse();
        words.join("-")
    }

    #[test]
    fn only_what_the_dead_left_is_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        let target = directory.path().join("a.h5");
        let alive = AtomicFile::create(&target, &any()).expect("a name");
        std::fs::write(alive.temporary_path(), "half").expect("a file");
        let [one, two, three] = [dead(), dead(), dead()];
        let theirs = [".a.h5.swp", ".a.h5.note-12-0.tmp", "b.lock"];
        let left = [
            format!(".a.h5.{one}.tmp"),
            format!(".a.h5.{one}.lock"),
            format!(".b.{two}.tmp"),
            format!(".c.{three}.lock"),
        ];
        for name in left.iter().map(String::as_str).chain(theirs) {
            std::fs::write(directory.path().join(name), "half").expect("a file");
        }
        assert_eq!(remove_stale_files(directory.path()).expect("a search"), 4);
        assert_eq!(remove_stale_files(&directory.path().join("none")).expect("a search"), 0);
        alive.commit().expect("the file of the living is still there");
        assert_eq!(names(directory.path()), [".a.h5.note-12-0.tmp", ".a.h5.swp", "a.h5", "b.lock"]);
    }

    #[test]
    fn a_file_that_was_removed_under_its_writer_is_told() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = AtomicFile::create(directory.path().join("a.h5"), &any()).expect("a name");
        let why = file.commit().expect_err("never written").to_string();
        assert!(why.contains("another program removed") && why.contains("os error 2"), "{why}");
    }

    #[test]
    fn clearing_up_never_takes_a_file_from_the_living() {
        let directory = tempfile::tempdir().expect("a directory");
        let target = directory.path().join("a.h5");
        let written = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let clear_up = || {
                while !written.load(Relaxed) {
                    remove_stale_files(directory.path()).expect("a search");
                }
            };
            let write = || (0..40).for_each(|_| write(&target, "whole", &any()).expect("a file"));
            let cleaners = [scope.spawn(clear_up), scope.spawn(clear_up)];
            let writers = [scope.spawn(write), scope.spawn(write)];
            let failed: Vec<_> = writers.into_iter().map(|writer| writer.join().is_err()).collect();
            written.store(true, Relaxed);
            let lost: Vec<_> =
                cleaners.into_iter().map(|cleaner| cleaner.join().is_err()).collect();
            assert_eq!([failed, lost].concat(), [false; 4]);
        });
        assert_eq!(names(directory.path()), ["a.h5"]);
    }
}
