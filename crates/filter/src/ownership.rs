//! The one door through which files are removed and replaced: only azpipe's own files go.
//!
//! A file is azpipe's own by its place (below a directory called `.azpipe`), by a mark in it, or by a register of what
//! azpipe wrote; a [`OwnedFiles`] says by which. Everything else belongs to somebody, and is refused. [`crate::atomic`] asks
//! before it renames a file into place, and [`remove`] before it removes one. `scripts/check-house` holds all crates to
//! these two modules.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The directory in an output root that holds nothing but azpipe's own files.
pub const AZPIPE_DIR: &str = ".azpipe";

/// How much of a file is searched for a mark.
const MARK_SEARCH_BYTES: usize = 4096;

type OwnershipTest = dyn Fn(&Path) -> io::Result<bool> + Send + Sync;

/// Says which existing files of one kind may be removed or replaced.
#[derive(Clone)]
pub struct OwnedFiles {
    kind: &'static str,
    is_own: Arc<OwnershipTest>,
    overwrite: Option<bool>,
    protected: ProtectedFiles,
}

impl OwnedFiles {
    /// Claims every file for which `is_own` holds. `kind` names such a file in messages, as in `an SVG picture`.
    pub fn new(kind: &'static str, is_own: impl Fn(&Path) -> io::Result<bool> + Send + Sync + 'static) -> Self {
        Self { kind, is_own: Arc::new(is_own), overwrite: None, protected: ProtectedFiles::default() }
    }

    /// Claims every file below a directory called `.azpipe`.
    pub fn in_azpipe_dir() -> Self {
        Self::new("a file of its own directory .azpipe", |path| Ok(is_in_azpipe_dir(path)))
    }

    /// Refuses the `protected` files whatever their content.
    #[must_use]
    pub fn with_protected(self, protected: &ProtectedFiles) -> Self {
        Self { protected: protected.clone(), ..self }
    }

    /// Claims all files but the protected ones where the user passed `--overwrite`; messages name that flag.
    #[must_use]
    pub fn with_policy(self, policy: &ReplacePolicy) -> Self {
        Self { overwrite: Some(policy.overwrite), ..self.with_protected(&policy.protected) }
    }

    /// Checks that whatever is at `temporary_path` may be removed or replaced. Nothing there is right, too.
    ///
    /// # Errors
    /// Something is there that is not azpipe's own, or can't be looked at. The message does not repeat the path.
    pub fn check(&self, path: &Path) -> io::Result<()> {
        match path.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
            Ok(found) if !(found.is_file() || found.is_symlink()) => {
                return Err(refuse("exists and is no regular file: take another name"));
            }
            Ok(_) => (),
        }
        if self.protected.contains(path)? {
            return Err(refuse(
                "holds raw data or settings of this run, which are never written over: take another name",
            ));
        }
        if self.overwrite == Some(true) || (self.is_own)(path)? {
            return Ok(());
        }
        let or_overwrite = if self.overwrite.is_some() { ", or pass --overwrite" } else { "" };
        let kind = self.kind;
        Err(refuse(&format!(
            "exists, and azpipe did not write it as {kind}: move it away or take another name{or_overwrite}"
        )))
    }
}

impl fmt::Debug for OwnedFiles {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.debug_struct("Claim").field("kind", &self.kind).field("overwrite", &self.overwrite).finish_non_exhaustive()
    }
}

fn refuse(why: &str) -> io::Error {
    io::Error::new(ErrorKind::AlreadyExists, why)
}

/// Tells whether a path leads through a directory called `.azpipe`.
pub fn is_in_azpipe_dir(path: &Path) -> bool {
    path.parent().is_some_and(|parent| parent.iter().any(|name| name == OsStr::new(AZPIPE_DIR)))
}

/// Tells whether a regular file begins with `process_start_time` and has `mark` in its first 4096 bytes.
///
/// # Errors
/// The file can't be read.
pub fn has_mark(path: &Path, start: &[u8], mark: &[u8]) -> io::Result<bool> {
    let head = read_head(path, MARK_SEARCH_BYTES)?;
    Ok(head.starts_with(start) && head.windows(mark.len()).any(|there| there == mark))
}

/// Reads the first bytes of a regular file; nothing of what is no regular file, and nothing of a dangling link.
///
/// # Errors
/// The file can't be read.
pub fn read_head(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    // Opening a FIFO would wait for its writer.
    let file = match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(head),
        file => file?,
    };
    if file.metadata()?.is_file() {
        file.take(most as u64).read_to_end(&mut head)?;
    }
    Ok(head)
}

/// What flags and records of a run say of replacing files.
#[derive(Clone, Debug, Default)]
pub struct ReplacePolicy {
    /// Whether the user passed `--overwrite`.
    pub overwrite: bool,
    /// What is never replaced.
    pub protected: ProtectedFiles,
}

/// The files that nothing is ever written over: raw data and settings of a run. Clones share one set.
#[derive(Clone, Debug, Default)]
pub struct ProtectedFiles(Arc<Mutex<ProtectedSet>>);

#[derive(Debug, Default)]
struct ProtectedSet {
    paths: HashSet<PathBuf>,
    /// Those whose identity has not been asked for yet: that waits until a file is to be replaced.
    unidentified: Vec<PathBuf>,
    /// Device and inode.
    identities: HashSet<(u64, u64)>,
}

impl ProtectedFiles {
    /// Adds a file, which need not be there.
    pub fn add(&self, path: &Path) {
        let mut protected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !protected.paths.contains(path) {
            protected.paths.insert(path.to_owned());
            protected.unidentified.push(path.to_owned());
        }
    }

    /// Tells whether one of the files is at `temporary_path`, by whatever name or link.
    ///
    /// # Errors
    /// What is at `temporary_path` can't be looked at.
    pub fn contains(&self, path: &Path) -> io::Result<bool> {
        let mut protected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if protected.paths.is_empty() {
            return Ok(false);
        }
        if protected.paths.contains(&std::path::absolute(path)?) {
            return Ok(true);
        }
        for path in std::mem::take(&mut protected.unidentified) {
            // A file that can't be looked at has no identity, and is known by its name alone.
            if let Ok(found) = path.metadata() {
                protected.identities.insert((found.dev(), found.ino()));
            }
        }
        let at = |found: io::Result<std::fs::Metadata>| match found {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            found => found.map(|found| protected.identities.contains(&(found.dev(), found.ino()))),
        };
        Ok(at(path.metadata())? || at(path.symlink_metadata())?)
    }
}

/// Removes a file if it is azpipe's own, and tells whether it was there.
///
/// # Errors
/// As [`OwnedFiles::check`], and those of removing.
pub fn remove(path: &Path, claim: &OwnedFiles) -> io::Result<bool> {
    claim.check(path)?;
    remove_if_present(path)
}

/// Keeps a file of azpipe's own that can't be used, under the first free name of `NAME.damaged`, `NAME.damaged-2`, and so on,
/// which is returned. A new file may then take its place.
///
/// # Errors
/// As [`OwnedFiles::check`], and those of linking and renaming.
pub fn rename_damaged(path: &Path, claim: &OwnedFiles) -> io::Result<PathBuf> {
    claim.check(path)?;
    let mut aside = path.as_os_str().to_owned();
    aside.push(".damaged");
    let first = PathBuf::from(aside);
    for number in 1_u64.. {
        let mut name = first.clone().into_os_string();
        if number > 1 {
            name.push(format!("-{number}"));
        }
        let aside = PathBuf::from(name);
        match std::fs::hard_link(path, &aside) {
            Ok(()) => return Ok(aside),
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => (),
            // A file system without links: whoever comes between leaves a file that is renamed over nothing of value.
            Err(_) if aside.symlink_metadata().is_err_and(|why| why.kind() == io::ErrorKind::NotFound) => {
                return std::fs::rename(path, &aside).map(|()| aside);
            }
            Err(why) => return Err(why),
        }
    }
    unreachable!("numbers do not end")
}

/// Removes a directory that has become empty, and tells whether it has gone: one that holds anything stays.
///
/// # Errors
/// Those of removing.
pub fn remove_empty_directory(path: &Path) -> io::Result<bool> {
    match std::fs::remove_dir(path) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Renames a directory to a name that nothing has yet, and makes that durable.
///
/// # Errors
/// Something has the name; those of renaming.
pub fn rename_directory_into_place(from: &Path, to: &Path) -> io::Result<()> {
    match to.symlink_metadata() {
        Ok(_) => return Err(refuse("exists: move it away")),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Err(_) => (),
    }
    std::fs::rename(from, to)?;
    sync_parent(to)
}

/// Makes a directory and those above it, each durable: a file in a directory that a power failure takes is lost.
///
/// # Errors
/// Those of making and syncing; something else has the name.
pub fn create_directories(path: &Path) -> io::Result<()> {
    let is_directory = || match path.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        found => found.map(|found| found.is_dir()),
    };
    if path.as_os_str().is_empty() || is_directory()? {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        create_directories(parent)?;
    }
    match DirBuilder::new().create(path) {
        // Another process made it just now.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && is_directory()? => (),
        made => made?,
    }
    sync_parent(path)
}

/// Creates a file where there is none.
///
/// # Errors
/// Something has the name; those of creating.
pub fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Opens a file that processes lock, and makes it where it is missing. Nothing is ever written to it.
///
/// # Errors
/// Those of opening.
pub fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).open(path)
}

/// Removes an empty file that [`open_lock`] made; one that holds anything is not such a file, and stays.
///
/// # Errors
/// Those of looking and removing.
pub fn remove_lock(path: &Path) -> io::Result<bool> {
    match path.symlink_metadata() {
        Ok(found) if found.is_file() && found.len() == 0 => remove_if_present(path),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(false),
    }
}

/// Removes a name, and tells whether it was there.
pub(crate) fn remove_if_present(path: &Path) -> io::Result<bool> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// Makes the entry of a file or directory in its parent durable.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    match File::open(parent_dir(path))?.sync_all() {
        // Some network file systems can't sync a directory; their rename is durable by itself.
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

/// The directory that a path lies in.
pub(crate) fn parent_dir(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked() -> OwnedFiles {
        OwnedFiles::new("a page", |path| has_mark(path, b"<page>", b"azpipe"))
    }

    #[test]
    fn only_what_bears_the_mark_is_removed_or_replaced() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        for (name, content) in [
            ("ours", "<page> by azpipe"),
            ("theirs", "azpipe <page>"),
            ("late", &("<page>".to_owned() + &" ".repeat(5000) + "azpipe")),
        ] {
            std::fs::write(path(name), content).expect("a file");
        }
        std::fs::create_dir(path("directory")).expect("a directory");
        std::os::unix::fs::symlink(path("nowhere"), path("dangling")).expect("a link");
        nix::unistd::mkfifo(&path("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
        for name in ["theirs", "late", "directory", "dangling", "fifo"] {
            let why = remove(&path(name), &marked()).expect_err(name).to_string();
            assert!(why.starts_with("exists") && !why.contains("--overwrite"), "{name}: {why}");
            assert!(path(name).symlink_metadata().is_ok(), "{name}");
        }
        assert!(remove(&path("ours"), &marked()).expect("ours"));
        assert!(!remove(&path("ours"), &marked()).expect("nothing there"));
    }

    #[test]
    fn a_protected_file_is_refused_by_whatever_name() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("raw.h5"), "<page> azpipe").expect("a file");
        std::fs::hard_link(path("raw.h5"), path("hard")).expect("a link");
        std::os::unix::fs::symlink("raw.h5", path("soft")).expect("a link");
        std::fs::write(path("other"), "theirs").expect("a file");
        let protected = ProtectedFiles::default();
        protected.add(&path("raw.h5"));
        protected.add(&path("gone.h5"));
        let claim = marked().with_policy(&ReplacePolicy { overwrite: true, protected: protected.clone() });
        for name in ["raw.h5", "hard", "soft"] {
            let why = claim.check(&path(name)).expect_err(name).to_string();
            assert!(why.contains("never written over"), "{name}: {why}");
        }
        claim.check(&path("other")).expect("--overwrite was passed");
        let why = marked()
            .with_policy(&ReplacePolicy { overwrite: false, protected })
            .check(&path("other"))
            .expect_err("theirs")
            .to_string();
        assert!(why.ends_with("or pass --overwrite"), "{why}");
    }

    #[test]
    fn what_lies_in_the_own_directory_is_ours_and_nothing_beside_it() {
        for (path, ours) in [
            ("out/.azpipe/parts/s/r/0.h5", true),
            (".azpipe/x", true),
            ("out/.azpipe", false),
            ("out/a.azpipe/x", false),
        ] {
            assert_eq!(is_in_azpipe_dir(Path::new(path)), ours, "{path}");
        }
    }

    #[test]
    fn locks_and_directories_that_hold_something_stay() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        drop(open_lock(&path("lock")).expect("a lock"));
        std::fs::write(path("notes.lock"), "text").expect("a file");
        assert!(remove_lock(&path("lock")).expect("removed"));
        assert!(!remove_lock(&path("notes.lock")).expect("left alone"));
        create_directories(&path("a/b/c")).expect("directories");
        create_directories(&path("a/b/c")).expect("there already");
        assert!(!remove_empty_directory(&path("a/b")).expect("left alone"));
        assert!(rename_directory_into_place(&path("a/b/c"), &path("notes.lock")).is_err());
        rename_directory_into_place(&path("a/b/c"), &path("c")).expect("renamed");
        assert!(remove_empty_directory(&path("c")).expect("removed"));
        assert!(create_directories(&path("notes.lock/d")).is_err());
    }
}
