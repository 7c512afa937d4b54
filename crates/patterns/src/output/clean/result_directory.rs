//! Decides whether a directory of parts is left over.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use output_owners::OutputOwner;
use records::RawPath;
use system::atomic;
use system::mapped_file::is_without_locks;
use system::ownership::OwnershipRule;
use system::set_aside::{AsideReason, aside_names};
use system::untrusted_file::{self, MAX_TEXT_BYTES};

use super::{Leftover, Leftovers, short};
use crate::output::part_index::{LOCK_FILE, OUTPUT_NAME_FILE, is_parts_dir_of};
use crate::output::{OutputError, OutputFile, OutputLayout};
use crate::part;
use crate::part::parts_dir;

/// Most results of earlier measurements that are looked for beside a final file.
const MOST_EARLIER: usize = 16;

/// Final files of an output root, and their owners.
pub(super) struct Finals<'a> {
    pub root: &'a Path,
    pub notes: &'a [OutputOwner],
    /// Owners of the final files that were opened; `None` if the status of a frame is not final.
    pub looked_at: RefCell<HashMap<RawPath, Option<OutputOwner>>>,
}

impl Finals<'_> {
    /// Returns whether a final file exists.
    pub fn is_there(&self, name: &RawPath) -> Result<bool, OutputError> {
        let path = self.root.join(&**name);
        match path.symlink_metadata() {
            Ok(_) => Ok(true),
            Err(why) if why.kind() == ErrorKind::NotFound => Ok(false),
            Err(why) => Err(OutputError::Io { path, why }),
        }
    }

    /// Returns the owner of a final file, if the note and the file agree and the status of every
    /// frame is final.
    fn owner(&self, name: &RawPath) -> Result<Option<OutputOwner>, OutputError> {
        if let Some(known) = self.looked_at.borrow().get(name) {
            return Ok(known.clone());
        }
        let noted = self.notes.iter().find(|note| note.final_file == *name);
        let owner = match OutputFile::open(&self.root.join(&**name)) {
            Ok(there) => {
                let is_whole = there.status.iter().all(|status| status.is_settled());
                noted
                    .filter(|noted| {
                        is_whole && noted.is_same_result(&OutputOwner::from_task(&there.task))
                    })
                    .cloned()
            }
            Err(error) if error.is_not_found() => None,
            Err(why) => return Err(why),
        };
        self.looked_at.borrow_mut().insert(name.clone(), owner.clone());
        Ok(owner)
    }
}

/// Directory with the parts of one scan and recipe.
pub(super) struct ResultDirectory {
    path: PathBuf,
    parts: Vec<PathBuf>,
    /// Final files that the parts and the note name.
    pub finals: BTreeSet<RawPath>,
    pub lock: Option<File>,
}

impl ResultDirectory {
    /// Lists a directory and reads which final files it belongs to. Warnings about files that are
    /// not azpipe's are added to `found`.
    pub fn read(path: &Path, found: &mut Leftovers) -> Result<Self, OutputError> {
        let mut directory = Self {
            path: path.to_owned(),
            parts: Vec::new(),
            finals: BTreeSet::new(),
            lock: lock(&path.join(LOCK_FILE))?,
        };
        let mut names: Vec<PathBuf> = fs::read_dir(path)
            .and_then(|entries| {
                entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()
            })
            .map_err(OutputError::io(path))?;
        names.sort();
        for file in names {
            let name = file.file_name().unwrap_or_default();
            let metadata = file.symlink_metadata().map_err(OutputError::io(&file))?;
            if name == LOCK_FILE || atomic::is_temporary(name) {
                continue;
            }
            let is_ours = if !metadata.is_file() {
                false
            } else if name == OUTPUT_NAME_FILE {
                let text =
                    untrusted_file::read(&file, MAX_TEXT_BYTES).map_err(OutputError::io(&file))?;
                let name = RawPath::from(OsString::from_vec(text));
                let stays = name.is_contained();
                directory.finals.extend(Some(name).filter(|_| stays));
                stays
            } else {
                directory.add_part(&file)?
            };
            if !is_ours {
                found.kept.push(format!("{}: kept: not written by azpipe", file.display()));
            }
        }
        Ok(directory)
    }

    /// Adds a file if it is a part of this directory, and returns whether it is.
    fn add_part(&mut self, file: &Path) -> Result<bool, OutputError> {
        let head = match part::read_user_block(file) {
            Err(why) if why.is_io_failure() => return Err(why.into()),
            head => head.ok(),
        };
        let of_head = head.and_then(|head| parts_dir(Path::new(""), &head.scan, &head.recipe));
        if !of_head.is_some_and(|of_head| self.path.ends_with(of_head)) {
            return Ok(false);
        }
        match part::read_task(file) {
            Ok(task) => drop(self.finals.insert(task.final_file)),
            Err(why) if why.is_io_failure() => return Err(why.into()),
            // A damaged part doesn't name its final file; the other parts do.
            Err(_) => (),
        }
        self.parts.push(file.to_owned());
        Ok(true)
    }

    /// Returns the reason why the directory is left over; `None` if it is needed.
    pub fn judge(&self, finals: &Finals) -> Result<Option<String>, OutputError> {
        let mut why = None;
        for name in &self.finals {
            let path = finals.root.join(&**name);
            if !self.parts.is_empty() && self.is_shown_by_earlier(&path)? {
                return Ok(None);
            }
            if self.parts.is_empty() && !finals.is_there(name)? {
                why = Some(format!("{} was removed", path.display()));
                continue;
            }
            let Some(owner) = finals.owner(name)? else { return Ok(None) };
            if parts_dir(finals.root, &owner.scan, &owner.recipe_digest)
                .is_none_or(|of_owner| of_owner == self.path)
            {
                return Ok(None);
            }
            why = Some(format!(
                "{} is of recipe {} now",
                path.display(),
                short(&owner.recipe_digest)
            ));
        }
        Ok(why)
    }

    /// Returns whether the result of an earlier measurement, which was set aside when another took its
    /// place, is a virtual final file that shows these parts.
    fn is_shown_by_earlier(&self, final_file: &Path) -> Result<bool, OutputError> {
        for path in aside_names(final_file, AsideReason::Earlier).take(MOST_EARLIER) {
            match OutputFile::open(&path) {
                Ok(there)
                    if there.layout == OutputLayout::Virtual
                        && is_parts_dir_of(&self.path, &there.task) =>
                {
                    return Ok(true);
                }
                Ok(_) => (),
                Err(error) if error.is_not_found() => (),
                Err(OutputError::OfOtherVersion { .. }) => return Ok(true),
                Err(error @ OutputError::Io { .. }) => return Err(error),
                // It shows nothing any more, or is somebody else's.
                Err(_) => (),
            }
        }
        Ok(false)
    }

    /// Returns the files of the directory: the parts, then the lock, then the note.
    pub fn leftover(&self, why: String) -> Result<Leftover, OutputError> {
        let mut leftover = Leftover { path: self.path.clone(), why, files: Vec::new(), bytes: 0 };
        let of_part = OwnershipRule::new("a part", |path| {
            if !path.symlink_metadata()?.is_file() {
                return Ok(false);
            }
            match part::read_user_block(path) {
                Ok(_) => Ok(true),
                Err(why) => why.into_io_failure().map_or(Ok(false), Err),
            }
        });
        for part in &self.parts {
            leftover.add(part.clone(), of_part.clone())?;
        }
        if self.lock.is_some() {
            leftover.add(self.path.join(LOCK_FILE), OwnershipRule::in_azpipe_dir())?;
        }
        // The note is the last to go: it says that the directory is left over.
        leftover.add(self.path.join(OUTPUT_NAME_FILE), OwnershipRule::in_azpipe_dir())?;
        Ok(leftover)
    }
}

/// Takes the lock that gather holds while it uses the parts; `None` if there is no lock file.
/// Gathers whose locks other machines may not see leave a [`system::work_mark::WorkMark`], which was
/// looked for before.
///
/// # Errors
/// Fails if a gather holds the lock, or if the lock can't be opened.
fn lock(path: &Path) -> Result<Option<File>, OutputError> {
    let file = match untrusted_file::open(path) {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(OutputError::io(path))?,
    };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(OutputError::Busy { path: path.to_owned() }),
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::Error(why)) if is_without_locks(&why) => Ok(Some(file)),
        Err(TryLockError::Error(why)) => Err(OutputError::Io { path: path.to_owned(), why }),
    }
}
