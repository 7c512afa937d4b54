//! Leftovers of earlier results below an output root: what `gather --clean` removes.
//!
//! A directory of parts is left over where every final that its parts or its note name is another result's by now: the
//! note of the owner and the final itself both say so, and each frame of that final is dealt with. It is also left over where it has no
//! parts, and its final has been removed. Whatever else has parts is kept: they may be all that there is of their frames.
//! With the last directory of a recipe go the recipe and the matrix that was made for it.
//!
//! Only files that bear azpipe's marks are among the leftovers; a file of any other kind stays, and its directory with it.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use filter::mapped_file::is_mapped_elsewhere;
use filter::ownership::{self, OwnedFiles, has_mark};
use filter::{atomic, untrusted_file};
use owners::OutputOwner;
use recipe::Recipe;
use records::RawPath;

use super::part_index::{LOCK_FILE, OUTPUT_NAME_FILE};
use super::{OutputError, OutputFile};
use crate::coverage::parts_dir;
use crate::part;

/// The first bytes of a matrix.
const MATRIX_MARK: &[u8] = b"{\"azpipe\":\"matrix\"";

/// What is left over below an output root, in the order in which it is to be removed. As long as it is held, no gather of this machine
/// puts the parts in it together.
#[derive(Debug, Default)]
pub struct Leftovers {
    /// What may go.
    pub all: Vec<Leftover>,
    /// What was found and stays though nothing needs it, and why: worth a warning each.
    pub kept: Vec<String>,
    /// What could not be looked at. It stays.
    pub unread: Vec<OutputError>,
    locks: Vec<File>,
}

/// Files of one kind, or a directory of files.
#[derive(Debug)]
pub struct Leftover {
    /// The file or the directory.
    pub path: PathBuf,
    /// Why it is left over.
    pub why: String,
    /// The files, in the order in which they are to be removed.
    files: Vec<(PathBuf, OwnedFiles)>,
    /// Bytes of all of them.
    pub bytes: u64,
}

impl Leftover {
    fn file(path: PathBuf, why: &str, claim: OwnedFiles) -> Result<Self, OutputError> {
        let mut leftover = Self { path: path.clone(), why: why.to_owned(), files: Vec::new(), bytes: 0 };
        leftover.add(path, claim)?;
        Ok(leftover)
    }

    fn add(&mut self, path: PathBuf, claim: OwnedFiles) -> Result<(), OutputError> {
        match path.symlink_metadata() {
            Ok(found) => self.bytes = self.bytes.saturating_add(found.len()),
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(()),
            Err(why) => return Err(OutputError::Io { path, why }),
        }
        self.files.push((path, claim));
        Ok(())
    }

    /// Returns how many files there are.
    pub fn count(&self) -> usize {
        self.files.len()
    }

    /// Removes the files, and the directory that has become empty.
    ///
    /// # Errors
    /// A file that is not azpipe's own any more, or can't be removed.
    pub fn remove(&self) -> Result<(), OutputError> {
        for (path, claim) in &self.files {
            ownership::remove(path, claim).map_err(OutputError::io(path))?;
        }
        if self.files.iter().any(|(path, _)| *path == self.path) {
            return Ok(());
        }
        let is_empty = ownership::remove_empty_directory(&self.path).map_err(OutputError::io(&self.path))?;
        // With its last recipe goes the directory of the scan.
        match self.path.parent().filter(|_| is_empty) {
            Some(scan) => ownership::remove_empty_directory(scan).map(drop).map_err(OutputError::io(scan)),
            None => Ok(()),
        }
    }
}

/// Looks for what is left over below an output root.
///
/// # Errors
/// Another run is at work there; the notes of the finals' owners, or the directories, can't be read.
pub fn leftovers(root: &Path) -> Result<Leftovers, OutputError> {
    let own = root.join(ownership::AZPIPE_DIR);
    let mut found = Leftovers::default();
    let parts: Vec<PathBuf> = directories(&own.join("parts"), &mut found)?;
    let mut results = Vec::new();
    for scan in &parts {
        match directories(scan, &mut found) {
            Ok(recipes) => results.extend(recipes),
            Err(why) => found.unread.push(why),
        }
    }
    let notes = owners::read_all(root).map_err(OutputError::io(root))?;
    let places = ["", "finals", "matrix", "matrix/opencl", "exports", "parts"].map(|name| own.join(name));
    let of_finals: BTreeSet<PathBuf> =
        notes.iter().filter_map(|note| Some(root.join(&*note.final_file).parent()?.to_path_buf())).collect();
    for place in places.iter().chain(&of_finals).chain(&parts).chain(&results) {
        find_dead(place, &mut found)?;
    }
    let finals = Finals { root, notes: &notes, looked_at: RefCell::default() };
    let mut kept_finals: BTreeSet<RawPath> = BTreeSet::new();
    let (mut kept_recipes, mut gone_recipes) = (BTreeSet::new(), BTreeSet::new());
    let mut of_results = Vec::new();
    for path in results {
        let recipe = path.file_name().unwrap_or_default().to_owned();
        match ResultDirectory::read(&path, &mut found).and_then(|directory| {
            let verdict = directory.judge(&finals)?;
            Ok((directory, verdict))
        }) {
            Ok((mut directory, Some(why))) => {
                of_results.push(directory.leftover(why)?);
                found.locks.extend(directory.lock.take());
                gone_recipes.insert(recipe);
            }
            Ok((directory, None)) => {
                kept_finals.extend(directory.finals);
                kept_recipes.insert(recipe);
            }
            Err(OutputError::Busy { path }) => return Err(OutputError::Busy { path }),
            Err(why) => {
                found.unread.push(why);
                kept_recipes.insert(recipe);
            }
        }
    }
    let mut of_notes = Vec::new();
    for note in &notes {
        let is_needed = finals.is_there(&note.final_file)? || kept_finals.contains(&note.final_file);
        if is_needed || !found.unread.is_empty() {
            kept_recipes.insert(OsString::from(short(&note.recipe_digest)));
        } else {
            let path = note.path(root);
            of_notes.push(Leftover::file(
                path,
                "a note about a final that has been removed",
                OwnedFiles::in_azpipe_dir(),
            )?);
        }
    }
    let unused: BTreeSet<OsString> = gone_recipes.difference(&kept_recipes).cloned().collect();
    // Parts go last, for they say which recipes are left over, and what is interrupted is found again.
    find_matrices(&own.join("matrix"), &unused, &mut found)?;
    find_recipes(root, &unused, &mut found)?;
    found.all.extend(of_results);
    found.all.extend(of_notes);
    Ok(found)
}

fn short(digest: &str) -> &str {
    digest.get(..16).unwrap_or(digest)
}

/// Lists the directories in a directory, which need not be there; what is no directory stays.
fn directories(path: &Path, found: &mut Leftovers) -> Result<Vec<PathBuf>, OutputError> {
    let entries = match fs::read_dir(path) {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(OutputError::io(path))?,
    };
    let mut directories = Vec::new();
    for entry in entries {
        let entry = entry.map_err(OutputError::io(path))?;
        let is_directory = entry.file_type().map_err(OutputError::io(&entry.path()))?.is_dir();
        match is_directory {
            true => directories.push(entry.path()),
            false if atomic::is_temporary(&entry.file_name()) => (),
            false => found.kept.push(format!("{}: no directory of results", entry.path().display())),
        }
    }
    directories.sort();
    Ok(directories)
}

/// Adds what processes left in a directory that have ended.
///
/// # Errors
/// A process that may be at work has files there.
fn find_dead(path: &Path, found: &mut Leftovers) -> Result<(), OutputError> {
    let files = atomic::temporary_files(path).map_err(OutputError::io(path))?;
    if let Some(path) = files.live.into_iter().next() {
        return Err(OutputError::Busy { path });
    }
    for path in files.dead {
        // Its name says whose it is.
        let claim = OwnedFiles::new("a temporary file", |path| Ok(path.file_name().is_some_and(atomic::is_temporary)));
        found.all.push(Leftover::file(path, "left by a process that has ended", claim)?);
    }
    Ok(())
}

/// The finals of a root, and who owns them.
struct Finals<'a> {
    root: &'a Path,
    notes: &'a [OutputOwner],
    /// Whose each final is that has been opened: the owner, where every frame is dealt with.
    looked_at: RefCell<HashMap<RawPath, Option<OutputOwner>>>,
}

impl Finals<'_> {
    fn is_there(&self, name: &RawPath) -> Result<bool, OutputError> {
        let path = self.root.join(&**name);
        match path.symlink_metadata() {
            Ok(_) => Ok(true),
            Err(why) if why.kind() == ErrorKind::NotFound => Ok(false),
            Err(why) => Err(OutputError::Io { path, why }),
        }
    }

    /// Returns whose a final is, by its note and by itself, if it has all frames that it can have.
    fn owner(&self, name: &RawPath) -> Result<Option<OutputOwner>, OutputError> {
        if let Some(known) = self.looked_at.borrow().get(name) {
            return Ok(known.clone());
        }
        let noted = self.notes.iter().find(|note| note.final_file == *name);
        let owner = match OutputFile::open(&self.root.join(&**name)) {
            Ok(there) => {
                let is_whole = there.status.iter().all(|status| status.is_final());
                noted.filter(|noted| is_whole && noted.is_same_result(&OutputOwner::from_task(&there.task))).cloned()
            }
            Err(OutputError::Io { why, .. }) if why.kind() == ErrorKind::NotFound => None,
            Err(why) => return Err(why),
        };
        self.looked_at.borrow_mut().insert(name.clone(), owner.clone());
        Ok(owner)
    }
}

/// A directory of parts of one scan and recipe.
struct ResultDirectory {
    path: PathBuf,
    parts: Vec<PathBuf>,
    /// The finals that parts and note name.
    finals: BTreeSet<RawPath>,
    lock: Option<File>,
}

impl ResultDirectory {
    /// Reads which finals a directory is for. Files that are not azpipe's are told in `found`.
    fn read(path: &Path, found: &mut Leftovers) -> Result<Self, OutputError> {
        let mut directory = Self {
            path: path.to_owned(),
            parts: Vec::new(),
            finals: BTreeSet::new(),
            lock: lock(&path.join(LOCK_FILE))?,
        };
        let mut names: Vec<PathBuf> = fs::read_dir(path)
            .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>())
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
                let text = fs::read(&file).map_err(OutputError::io(&file))?;
                let name = RawPath::from(OsString::from_vec(text));
                let stays = name.is_contained();
                directory.finals.extend(Some(name).filter(|_| stays));
                stays
            } else {
                directory.add_part(&file)?
            };
            if !is_ours {
                found.kept.push(format!("{}: not a file of azpipe", file.display()));
            }
        }
        Ok(directory)
    }

    /// Adds a file, if it is a part of this directory.
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
            // A damaged part says nothing; the others do.
            Err(_) => (),
        }
        self.parts.push(file.to_owned());
        Ok(true)
    }

    /// Returns why the directory is left over; `None` where it is not.
    fn judge(&self, finals: &Finals) -> Result<Option<String>, OutputError> {
        let mut why = None;
        for name in &self.finals {
            let path = finals.root.join(&**name);
            if self.parts.is_empty() && !finals.is_there(name)? {
                why = Some(format!("{} has been removed", path.display()));
                continue;
            }
            let Some(owner) = finals.owner(name)? else { return Ok(None) };
            if parts_dir(finals.root, &owner.scan, &owner.recipe_digest).is_none_or(|of_owner| of_owner == self.path) {
                return Ok(None);
            }
            why = Some(format!("{} is of recipe {} now", path.display(), short(&owner.recipe_digest)));
        }
        Ok(why)
    }

    /// Returns its files, the note after the parts and the lock at the end.
    fn leftover(&self, why: String) -> Result<Leftover, OutputError> {
        let mut leftover = Leftover { path: self.path.clone(), why, files: Vec::new(), bytes: 0 };
        let of_part = OwnedFiles::new("a part", |path| {
            Ok(path.symlink_metadata()?.is_file() && part::read_user_block(path).is_ok())
        });
        for part in &self.parts {
            leftover.add(part.clone(), of_part.clone())?;
        }
        leftover.add(self.path.join(OUTPUT_NAME_FILE), OwnedFiles::in_azpipe_dir())?;
        if self.lock.is_some() {
            leftover.add(self.path.join(LOCK_FILE), OwnedFiles::in_azpipe_dir())?;
        }
        Ok(leftover)
    }
}

/// Takes the lock that gathers take; `None` where there is none.
///
/// # Errors
/// A gather is at work; the lock can't be opened.
fn lock(path: &Path) -> Result<Option<File>, OutputError> {
    let file = match File::open(path) {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(OutputError::io(path))?,
    };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(OutputError::Busy { path: path.to_owned() }),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(Some(file)),
    }
}

/// Adds the recipes that only results had which are left over.
fn find_recipes(root: &Path, unused: &BTreeSet<OsString>, found: &mut Leftovers) -> Result<(), OutputError> {
    for recipe in unused.iter().filter_map(|name| name.to_str()) {
        let path = root.join(Recipe::file_name_for_digest(recipe));
        let text = match untrusted_file::read_text(&path) {
            Err(why) if why.kind() == ErrorKind::NotFound => continue,
            text => text,
        };
        let is_own = |text: &str| toml::from_str::<Recipe>(text).is_ok_and(|found| short(&found.digest()) == recipe);
        match text {
            Ok(text) if is_own(&text) => {
                found.all.push(Leftover::file(path, "the recipe of such results", OwnedFiles::in_azpipe_dir())?);
            }
            Ok(_) => found.kept.push(format!("{}: not the recipe that its name says", path.display())),
            Err(why) => found.unread.push(OutputError::Io { path, why }),
        }
    }
    Ok(())
}

/// Adds the matrices that were made for these recipes.
fn find_matrices(path: &Path, unused: &BTreeSet<OsString>, found: &mut Leftovers) -> Result<(), OutputError> {
    let entries = match fs::read_dir(path) {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(OutputError::io(path))?,
    };
    let claim = OwnedFiles::new("a matrix", |path| has_mark(path, MATRIX_MARK, b"\"key\""));
    let mut files = BTreeSet::new();
    for entry in entries {
        let file = entry.map_err(OutputError::io(path))?.path();
        let metadata = file.symlink_metadata().map_err(OutputError::io(&file))?;
        if metadata.is_file() && file.extension().is_some_and(|end| end == "matrix") {
            files.insert(file);
        }
    }
    for file in files {
        let head = ownership::read_head(&file, 512).map_err(OutputError::io(&file))?;
        let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let recipe = serde_json::from_slice::<serde_json::Value>(line).ok().filter(|_| head.starts_with(MATRIX_MARK));
        let recipe = recipe.and_then(|head| Some(OsString::from(short(head.get("recipe")?.as_str()?))));
        if recipe.is_some_and(|recipe| unused.contains(&recipe))
            && !is_mapped_elsewhere(&file).map_err(OutputError::io(&file))?
        {
            found.all.push(Leftover::file(file, "a matrix made for such results", claim.clone())?);
        }
    }
    Ok(())
}
