//! Removes and replaces files, and refuses all that are not azpipe's own.
//!
//! A file is azpipe's own by its place (below a directory called `.azpipe`), by a mark in it, or by
//! an index of the files that azpipe wrote; an [`OwnershipRule`] says by which. Every other file
//! belongs to somebody else and is refused. [`crate::atomic`] checks this before it renames a file
//! into place, and [`remove`] before it removes one. `scripts/check-house` makes sure that all
//! crates use these two modules.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use crate::denied;
pub use crate::protected_files::ProtectedFiles;
use crate::untrusted_file::{self, check_not_special, check_regular};

/// The directory in an output root that holds nothing but azpipe's own files.
pub const AZPIPE_DIR: &str = ".azpipe";

/// How many bytes of a file are searched for a mark.
const MARK_SEARCH_BYTES: usize = 4096;

type OwnershipTest = dyn Fn(&Path) -> io::Result<bool> + Send + Sync;

/// A rule for which existing files of one kind may be removed or replaced.
#[derive(Clone)]
pub struct OwnershipRule {
    kind: &'static str,
    is_own: Arc<OwnershipTest>,
    /// True if names follow from that of a final, so that messages don't advise another one.
    has_derived_names: bool,
    overwrite: Option<bool>,
    protected: ProtectedFiles,
}

impl OwnershipRule {
    /// Creates a rule that allows replacing every file for which `is_own` holds. `kind` names such
    /// a file in messages, as in `an SVG picture`.
    pub fn new(
        kind: &'static str,
        is_own: impl Fn(&Path) -> io::Result<bool> + Send + Sync + 'static,
    ) -> Self {
        Self {
            kind,
            is_own: Arc::new(is_own),
            has_derived_names: false,
            overwrite: None,
            protected: ProtectedFiles::default(),
        }
    }

    /// Claims every file below a directory called `.azpipe`.
    pub fn in_azpipe_dir() -> Self {
        Self::new("a file of its own directory .azpipe", |path| Ok(is_in_azpipe_dir(path)))
    }

    /// Says that the names of the files follow from that of a final: messages name remedies that
    /// don't need another name.
    #[must_use]
    pub fn with_derived_names(self) -> Self {
        Self { has_derived_names: true, ..self }
    }

    /// Refuses the `protected` files whatever their content.
    #[must_use]
    pub fn with_protected(self, protected: &ProtectedFiles) -> Self {
        Self { protected: protected.clone(), ..self }
    }

    /// Claims all files but the protected ones if the user passed `--overwrite`; messages name that
    /// flag.
    #[must_use]
    pub fn with_policy(self, policy: &ReplacePolicy) -> Self {
        Self { overwrite: Some(policy.overwrite), ..self.with_protected(&policy.protected) }
    }

    /// Checks that the file at `path` may be removed or replaced. The check passes if there is no
    /// file.
    ///
    /// # Errors
    /// Fails if the file is not azpipe's own, or can't be examined. The message does not repeat the
    /// path.
    pub fn check(&self, path: &Path) -> io::Result<()> {
        match path.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
            Ok(found) if !(found.is_file() || found.is_symlink()) => {
                let remedy =
                    if self.has_derived_names { "move it away" } else { "choose another name" };
                return Err(refuse(&format!("exists and is not a regular file: {remedy}")));
            }
            Ok(_) => (),
        }
        let is_protected = self.protected.contains(path);
        if matches!(is_protected, Ok(true)) {
            let remedy = match self.has_derived_names {
                true => {
                    "copy it to another directory and use the copy, or pass another --out to plan-split"
                }
                false => "choose another name",
            };
            return Err(refuse(&format!(
                "holds raw data or settings of this run, which are never overwritten: {remedy}"
            )));
        }
        // A file that azpipe wrote says so itself; for any other it has to be known that it is not
        // protected.
        if self.overwrite == Some(true) {
            return is_protected.map(drop);
        }
        if (self.is_own)(path)? {
            return Ok(());
        }
        let remedy = match (self.has_derived_names, self.overwrite) {
            (true, Some(_)) => "move it away, or pass --overwrite",
            (true, None) => "move it away",
            (false, Some(_)) => "move it away, choose another name, or pass --overwrite",
            (false, None) => "move it away or choose another name",
        };
        let kind = self.kind;
        Err(refuse(&format!("exists, and azpipe did not write it as {kind}: {remedy}")))
    }
}

impl fmt::Debug for OwnershipRule {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.debug_struct("OwnershipRule")
            .field("kind", &self.kind)
            .field("overwrite", &self.overwrite)
            .finish_non_exhaustive()
    }
}

fn refuse(why: &str) -> io::Error {
    io::Error::new(ErrorKind::AlreadyExists, why)
}

/// Returns whether a path leads through a directory called `.azpipe`.
pub fn is_in_azpipe_dir(path: &Path) -> bool {
    path.parent().is_some_and(|parent| parent.iter().any(|name| name == OsStr::new(AZPIPE_DIR)))
}

/// Returns whether a regular file begins with `start` and has `mark` in its first 4096 bytes.
///
/// # Errors
/// Fails if the file can't be read.
pub fn has_mark(path: &Path, start: &[u8], mark: &[u8]) -> io::Result<bool> {
    let head = read_head(path, MARK_SEARCH_BYTES)?;
    Ok(head.starts_with(start) && head.windows(mark.len()).any(|there| there == mark))
}

/// Reads the first bytes of a regular file. The result is empty for a dangling link and for
/// anything but a regular file.
///
/// # Errors
/// Fails if the file can't be read.
pub fn read_head(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    // Opening a FIFO in blocking mode would wait for its writer.
    let file = match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(head),
        file => file?,
    };
    if file.metadata()?.is_file() {
        file.take(most as u64).read_to_end(&mut head)?;
    }
    Ok(head)
}

/// Returns whether a word stands in the first MiB or the last KiB of a regular file, by which a file
/// of azpipe is recognized that may be damaged.
///
/// # Errors
/// Fails if the file can't be read.
pub fn mentions(path: &Path, word: &str) -> io::Result<bool> {
    const FIRST_BYTES: u64 = 1 << 20;
    const LAST_BYTES: u64 = 1 << 10;
    let mut file = untrusted_file::open(path)?;
    let last = file.metadata()?.len().saturating_sub(LAST_BYTES);
    let mut has_word = |start, count| -> io::Result<bool> {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        (&file).take(count).read_to_end(&mut bytes)?;
        Ok(bytes.windows(word.len()).any(|window| window == word.as_bytes()))
    };
    Ok(has_word(0, FIRST_BYTES)? || has_word(last, LAST_BYTES)?)
}

/// The settings of a run that concern replacing files.
#[derive(Clone, Debug, Default)]
pub struct ReplacePolicy {
    /// True if the user passed `--overwrite`.
    pub overwrite: bool,
    /// Files that are never replaced.
    pub protected: ProtectedFiles,
}

/// Removes a file if it is azpipe's own, and returns whether it existed.
///
/// # Errors
/// Fails as [`OwnershipRule::check`] does, and if the file can't be removed.
pub fn remove(path: &Path, rule: &OwnershipRule) -> io::Result<bool> {
    rule.check(path)?;
    remove_if_present(path)
}

/// Removes a directory if it is empty, and returns whether it is gone.
///
/// # Errors
/// Fails if an empty directory can't be removed.
pub fn remove_empty_directory(path: &Path) -> io::Result<bool> {
    match std::fs::remove_dir(path) {
        Ok(()) => Ok(true),
        Err(error)
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Renames a directory to an unused name, and makes the change durable.
///
/// # Errors
/// Fails if the name is in use or the directory can't be renamed.
pub fn rename_directory_into_place(from: &Path, to: &Path) -> io::Result<()> {
    match to.symlink_metadata() {
        Ok(_) => return Err(refuse("exists already: move it away")),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Err(_) => (),
    }
    std::fs::rename(from, to)?;
    sync_parent(to)
}

/// Creates a directory and its parents, and makes each durable: a file in a directory that a power
/// failure undoes is lost.
///
/// # Errors
/// Fails if a directory can't be created or synced, and if a file has its name.
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
        // Another process has just created it.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && is_directory()? => (),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(no_directory(path, error));
        }
        made => made.map_err(|why| denied::explain(why, path))?,
    }
    sync_parent(path)
}

/// Explains that something else has the path of a directory: a file, or a link whose target is away, as
/// that of a disk that is not mounted.
fn no_directory(path: &Path, error: io::Error) -> io::Error {
    let what = match path.read_link() {
        Ok(target) => format!("a link to {}, which is not there", target.display()),
        Err(_) => "not a directory".to_owned(),
    };
    // Callers name the whole path.
    let name = path.file_name().unwrap_or(path.as_os_str());
    io::Error::new(error.kind(), format!("{} is {what}", name.display()))
}

/// Creates a file that must not exist yet.
///
/// # Errors
/// Fails if the name is in use or the file can't be created.
pub fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Opens a lock file, and creates it if it is missing. Nothing is ever written to it.
///
/// # Errors
/// Fails if the file can't be opened, and for a FIFO, device, socket or directory, on which opening
/// could wait for ever.
pub fn open_lock(path: &Path) -> io::Result<File> {
    check_not_special(path)?;
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).custom_flags(libc::O_NONBLOCK);
    let file = options.open(path).map_err(|why| denied::explain(why, path))?;
    check_regular(&file.metadata()?)?;
    Ok(file)
}

/// Removes an empty file that [`open_lock`] made. A file with content is not a lock file, and
/// stays.
///
/// # Errors
/// Fails if the file can't be examined or removed.
pub fn remove_lock(path: &Path) -> io::Result<bool> {
    match path.symlink_metadata() {
        Ok(found) if found.is_file() && found.len() == 0 => remove_if_present(path),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(false),
    }
}

/// Removes a directory entry, and returns whether it existed.
pub(crate) fn remove_if_present(path: &Path) -> io::Result<bool> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// Makes the directory entry of a file or directory durable.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    match File::open(parent_dir(path))?.sync_all() {
        // Some network file systems can't sync a directory; their rename is durable by itself.
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

/// Returns the directory that holds a path.
pub(crate) fn parent_dir(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked() -> OwnershipRule {
        OwnershipRule::new("a page", |path| has_mark(path, b"<page>", b"azpipe"))
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
    fn nothing_but_a_regular_file_is_taken_for_a_lock() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        nix::unistd::mkfifo(&path("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
        std::fs::create_dir(path("directory")).expect("a directory");
        std::os::unix::fs::symlink("/dev/zero", path("device")).expect("a link");
        for name in ["fifo", "directory", "device"] {
            let why = open_lock(&path(name)).expect_err(name).to_string();
            assert!(why.to_lowercase().contains(&format!("is a {name}")), "{name}: {why}");
        }
        open_lock(&path("new")).expect("a new file");
        open_lock(&path("new")).expect("the same file");
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
        let rule =
            marked().with_policy(&ReplacePolicy { overwrite: true, protected: protected.clone() });
        for name in ["raw.h5", "hard", "soft"] {
            let why = rule.check(&path(name)).expect_err(name).to_string();
            assert!(why.contains("never overwritten"), "{name}: {why}");
        }
        rule.check(&path("other")).expect("--overwrite was passed");
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
        let refused = |name: &str| create_directories(&path(name)).expect_err(name).to_string();
        assert_eq!(refused("notes.lock"), "notes.lock is not a directory");
        assert!(create_directories(&path("notes.lock/d")).is_err());
        std::os::unix::fs::symlink("/not/mounted", path("link")).expect("a link");
        assert_eq!(refused("link/out"), "link is a link to /not/mounted, which is not there");
    }
}
