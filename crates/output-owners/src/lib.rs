//! Records which scan and recipe each final file belongs to, so that no result overwrites another
//! one.
//!
//! A *final* is the HDF5 file with all patterns of one scan by one recipe. Its *owner* is this scan
//! and recipe, and the raw file of the scan. plan-split chooses the path of a final before the
//! final exists, from the names of scan and recipe, so two scans or two recipes may get the same
//! path.
//!
//! A *note* is a small JSON file in `OUT/.azpipe/finals` that names the owner of one final
//! ([`OutputOwner`]). gather writes it with the final. plan-split, which doesn't open results,
//! reads it and refuses a plan that would overwrite the final of another owner; with `--replace`,
//! it records the new owner. If a final has no note, gather determines the owner from the final
//! itself.
//!
//! [`OutputOwner::read`] reads the note of one final, [`read_all`] reads all notes, and
//! [`compare_files`] determines whether two scans with the same id are the same scan.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use records::{Acquisition, IdHasher, RawPath, Task};
use serde::{Deserialize, Serialize};
use system::ownership::{self, OwnershipRule};
use system::{atomic, untrusted_file};

/// The directory of the notes, below the output root.
const NOTES_DIR: &str = ".azpipe/finals";

/// The owner of a final.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputOwner {
    /// The final's path below the output root.
    #[serde(rename = "final")]
    pub final_file: RawPath,
    /// The id of the scan.
    pub scan: String,
    /// The digest of the resolved recipe.
    pub recipe_digest: String,
    /// The scan's master, or its data file or first image.
    pub file: RawPath,
    /// The entry in `file`.
    pub entry: String,
    /// The name of the detector.
    pub detector: String,
    /// The dataset that shows the frames.
    #[serde(default)]
    pub dataset: String,
    /// The results that may be in the owner's place until it is written, by a plan that replaces
    /// them. `None` if plan-split could not know them, and in notes of earlier versions: any result.
    #[serde(default)]
    pub replaces: Option<Vec<ReplacedResult>>,
}

/// A scan and a recipe whose result another one replaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplacedResult {
    /// The id of the scan.
    pub scan: String,
    /// The digest of the resolved recipe.
    pub recipe_digest: String,
}

impl OutputOwner {
    /// Creates the owner of the final of a task that has one recipe.
    pub fn from_task(task: &Task) -> Self {
        Self::new(&task.scan, &task.acquisition, &task.recipe_digest, &task.final_file)
    }

    /// Creates the owner that a scan and a recipe form for a final.
    pub fn new(
        scan: &str,
        acquisition: &Acquisition,
        recipe_digest: &str,
        final_file: &RawPath,
    ) -> Self {
        Self {
            final_file: final_file.clone(),
            scan: scan.to_owned(),
            recipe_digest: recipe_digest.to_owned(),
            file: acquisition.file.clone(),
            entry: acquisition.entry.clone(),
            detector: acquisition.detector.clone(),
            dataset: acquisition.dataset.clone(),
            replaces: Some(Vec::new()),
        }
    }

    /// Returns this owner in the place of an earlier one, whose result and those that it was to
    /// replace may still be there.
    pub fn in_place_of(self, earlier: &Self) -> Self {
        let replaces = earlier.replaces.clone().map(|mut results| {
            let Self { scan, recipe_digest, .. } = earlier.clone();
            let result = ReplacedResult { scan, recipe_digest };
            if !earlier.is_same_result(&self) && !results.contains(&result) {
                results.push(result);
            }
            results
        });
        Self { replaces, ..self }
    }

    /// Returns whether a plan permits that this result replaces another one.
    pub fn may_replace(&self, other: &Self) -> bool {
        let is_other = |result: &ReplacedResult| {
            (&result.scan, &result.recipe_digest) == (&other.scan, &other.recipe_digest)
        };
        self.replaces.as_ref().is_none_or(|results| results.iter().any(is_other))
    }

    /// Reads the note of a final; `None` if there is no note.
    ///
    /// # Errors
    /// Fails if the note can't be read or is invalid.
    pub fn read(out: &Path, final_file: &RawPath) -> io::Result<Option<Self>> {
        let path = note_path(out, final_file);
        let text = match untrusted_file::read_text(&path) {
            Ok(text) => text,
            Err(why) if is_absent(&why) => return Ok(None),
            Err(why) => return Err(with_path(&path, &why)),
        };
        let wrong = |why: String| with_path(&path, &io::Error::new(ErrorKind::InvalidData, why));
        let owner: Self = serde_json::from_str(&text).map_err(|why| wrong(invalid_note(&why)))?;
        match owner.final_file == *final_file {
            true => Ok(Some(owner)),
            false => Err(wrong("a note about another final: remove it".to_owned())),
        }
    }

    /// Returns the path of the note.
    pub fn path(&self, out: &Path) -> PathBuf {
        note_path(out, &self.final_file)
    }

    /// Writes the note, unless it exists with the same content.
    ///
    /// # Errors
    /// Fails if the note can't be written.
    pub fn write(&self, out: &Path) -> io::Result<()> {
        if Self::read(out, &self.final_file).is_ok_and(|there| there.as_ref() == Some(self)) {
            atomic::remove_stale_files_once(&out.join(NOTES_DIR));
            return Ok(());
        }
        let (path, text) = self.prepare(out)?;
        atomic::write(&path, text, &OwnershipRule::in_azpipe_dir())
            .map_err(|why| with_path(&path, &why))
    }

    /// Writes the note, unless it exists: of several results with one path, one gets it. Returns
    /// another result that has it.
    ///
    /// # Errors
    /// Fails if the note can't be read or written.
    pub fn claim(&self, out: &Path) -> io::Result<Option<Self>> {
        loop {
            match Self::read(out, &self.final_file)? {
                Some(there) if there.is_same_result(self) => {
                    return self.clone().in_place_of(&there).write(out).map(|()| None);
                }
                Some(other) => return Ok(Some(other)),
                None => {}
            }
            let (path, text) = self.prepare(out)?;
            match atomic::write_new(&path, &text, &OwnershipRule::in_azpipe_dir()) {
                Ok(true) => return Ok(None),
                Ok(false) => {}
                // Without hard links, a note is visible before it is whole: whoever reads it then
                // gets an error.
                Err(why)
                    if matches!(
                        why.kind(),
                        ErrorKind::Unsupported | ErrorKind::PermissionDenied
                    ) =>
                {
                    match write_exclusively(&path, &text) {
                        Err(why) if why.kind() == ErrorKind::AlreadyExists => {}
                        written => {
                            return written.map(|()| None).map_err(|why| with_path(&path, &why));
                        }
                    }
                }
                Err(why) => return Err(with_path(&path, &why)),
            }
        }
    }

    /// Returns the path and the text of the note, and creates its directory.
    fn prepare(&self, out: &Path) -> io::Result<(PathBuf, String)> {
        ownership::create_directories(&out.join(NOTES_DIR))
            .map_err(|why| with_path(&out.join(NOTES_DIR), &why))?;
        let text = serde_json::to_string(self).expect("texts and paths always serialize");
        Ok((self.path(out), format!("{text}\n")))
    }

    /// Returns whether both owners are the same recipe of the same scan.
    pub fn is_same_result(&self, other: &Self) -> bool {
        (&self.scan, &self.recipe_digest) == (&other.scan, &other.recipe_digest)
    }

    /// Returns whether both owners name the same detector of the same entry in their files.
    pub fn is_same_dataset(&self, other: &Self) -> bool {
        (&self.entry, &self.detector, &self.dataset)
            == (&other.entry, &other.detector, &other.dataset)
    }
}

/// Reads all notes below an output root.
///
/// # Errors
/// Fails if the directory or a note can't be read.
pub fn read_all(out: &Path) -> io::Result<Vec<OutputOwner>> {
    let directory = out.join(NOTES_DIR);
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(why) if is_absent(&why) => return Ok(Vec::new()),
        Err(why) => return Err(with_path(&directory, &why)),
    };
    let mut owners = Vec::new();
    for entry in entries {
        let path = entry.map_err(|why| with_path(&directory, &why))?.path();
        if path.extension().is_some_and(|end| end == "json") {
            let text = untrusted_file::read_text(&path).map_err(|why| with_path(&path, &why))?;
            let wrong = |why: serde_json::Error| {
                with_path(&path, &io::Error::new(ErrorKind::InvalidData, invalid_note(&why)))
            };
            owners.push(serde_json::from_str(&text).map_err(wrong)?);
        }
    }
    Ok(owners)
}

/// The relation between the files of two scans with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileRelation {
    /// The files are one file, by one path or by two.
    SameFile,
    /// The first file does not exist any more, and may have been moved to the second path.
    Moved,
    /// The files differ.
    DifferentFiles,
}

/// Compares the raw file that an existing final names, `of_final`, with the one that a new record
/// names, `of_record`.
///
/// # Errors
/// Fails if one of them can't be examined.
pub fn compare_files(of_final: &Path, of_record: &Path) -> io::Result<FileRelation> {
    if of_final == of_record {
        return Ok(FileRelation::SameFile);
    }
    let identity = |path: &Path| match path.metadata() {
        Ok(metadata) => Ok(Some((metadata.dev(), metadata.ino()))),
        Err(why) if is_absent(&why) => Ok(None),
        Err(why) => Err(with_path(path, &why)),
    };
    match (identity(of_final)?, identity(of_record)?) {
        (None, _) => Ok(FileRelation::Moved),
        (one, other) if one == other => Ok(FileRelation::SameFile),
        _ => Ok(FileRelation::DifferentFiles),
    }
}

/// Writes a file where there is none.
fn write_exclusively(path: &Path, text: &str) -> io::Result<()> {
    let mut file = ownership::create_new(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn invalid_note(why: &serde_json::Error) -> String {
    format!("not a note about the owner of a final ({why}): remove it")
}

/// Returns the path of the note of a final.
fn note_path(out: &Path, final_file: &RawPath) -> PathBuf {
    let name = IdHasher::new("final").add_bytes(final_file.as_os_str().as_bytes()).to_short_hex();
    out.join(NOTES_DIR).join(format!("{name}.json"))
}

fn is_absent(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn with_path(path: &Path, why: &io::Error) -> io::Error {
    io::Error::new(why.kind(), format!("{}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    fn owner(final_file: &str) -> OutputOwner {
        let odd = OsStr::from_bytes(b"/raw/caf\xe9 \"1\".h5");
        let scan = Acquisition {
            file: odd.into(),
            entry: "1.1".into(),
            detector: "p3".into(),
            ..Acquisition::default()
        };
        OutputOwner::new("5c", &scan, "00", &final_file.into())
    }

    #[test]
    fn notes_are_read_as_they_were_written() {
        let out = tempfile::tempdir().unwrap();
        assert_eq!(OutputOwner::read(out.path(), &"a.h5".into()).unwrap(), None);
        assert!(read_all(out.path()).unwrap().is_empty());
        for final_file in ["a.h5", "d/a.h5"] {
            owner(final_file).write(out.path()).unwrap();
        }
        let other = OutputOwner { recipe_digest: "11".into(), ..owner("a.h5") };
        other.write(out.path()).unwrap();
        assert_eq!(OutputOwner::read(out.path(), &"a.h5".into()).unwrap(), Some(other));
        assert_eq!(OutputOwner::read(out.path(), &"d/a.h5".into()).unwrap(), Some(owner("d/a.h5")));
        assert_eq!(read_all(out.path()).unwrap().len(), 2);
        let path = note_path(out.path(), &"a.h5".into());
        fs::copy(note_path(out.path(), &"d/a.h5".into()), &path).unwrap();
        let message = |why: &str| format!("{}: {why}: remove it", path.display());
        let error = OutputOwner::read(out.path(), &"a.h5".into()).unwrap_err();
        assert_eq!(error.to_string(), message("a note about another final"));
        fs::write(&path, "{").unwrap();
        let why = "not a note about the owner of a final (EOF while parsing an object at line 1 column 1)";
        assert_eq!(
            OutputOwner::read(out.path(), &"a.h5".into()).unwrap_err().to_string(),
            message(why)
        );
        assert_eq!(read_all(out.path()).unwrap_err().to_string(), message(why));
    }

    #[test]
    fn results_that_a_plan_replaces_are_known_until_they_are_replaced() {
        let out = tempfile::tempdir().unwrap();
        let with = |digest: &str| OutputOwner { recipe_digest: digest.into(), ..owner("a.h5") };
        assert_eq!(with("1").claim(out.path()).unwrap(), None);
        let noted = || OutputOwner::read(out.path(), &"a.h5".into()).unwrap().unwrap();
        assert!(!noted().may_replace(&with("0")));
        for (now, before) in [("2", "1"), ("3", "2")] {
            with(now).in_place_of(&noted()).write(out.path()).unwrap();
            assert!(noted().is_same_result(&with(now)) && noted().may_replace(&with(before)));
        }
        // gather claims the note before the file is there.
        assert_eq!(with("3").claim(out.path()).unwrap(), None);
        assert_eq!(
            ["0", "1", "2"].map(|digest| noted().may_replace(&with(digest))),
            [false, true, true]
        );
        let text = fs::read_to_string(noted().path(out.path())).unwrap();
        let mut earlier: serde_json::Value = serde_json::from_str(&text).unwrap();
        earlier.as_object_mut().unwrap().remove("replaces");
        fs::write(noted().path(out.path()), earlier.to_string()).unwrap();
        assert!(noted().may_replace(&with("0")), "an earlier version did not write them");
    }

    #[test]
    fn one_of_many_claims_gets_the_note() {
        for _ in 0..20 {
            let out = tempfile::tempdir().unwrap();
            let owners: Vec<_> = (0..8)
                .map(|digest| OutputOwner { recipe_digest: format!("{digest}"), ..owner("a.h5") })
                .collect();
            let others: Vec<Option<OutputOwner>> = std::thread::scope(|scope| {
                let claims: Vec<_> =
                    owners.iter().map(|owner| scope.spawn(|| owner.claim(out.path()))).collect();
                claims.into_iter().map(|claim| claim.join().unwrap().unwrap()).collect()
            });
            let noted = OutputOwner::read(out.path(), &"a.h5".into()).unwrap();
            for (owner, other) in owners.iter().zip(&others) {
                let has_it = noted.as_ref() == Some(owner);
                assert_eq!(other, &noted.clone().filter(|_| !has_it));
            }
            let first = noted.unwrap();
            assert_eq!(first.claim(out.path()).unwrap(), None, "again");
            let moved = OutputOwner { file: "/raw/moved.h5".into(), ..first };
            assert_eq!(moved.claim(out.path()).unwrap(), None, "the same result");
            assert_eq!(OutputOwner::read(out.path(), &"a.h5".into()).unwrap(), Some(moved));
        }
    }

    #[test]
    fn two_files_are_told_from_one_that_was_moved_or_is_linked() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["a", "b"] {
            fs::write(path(name), "same").unwrap();
        }
        std::os::unix::fs::symlink(path("a"), path("link")).unwrap();
        fs::hard_link(path("a"), path("hard")).unwrap();
        let relation = |of_final: &str, of_record: &str| {
            compare_files(&path(of_final), &path(of_record)).unwrap()
        };
        assert_eq!(relation("a", "a"), FileRelation::SameFile);
        assert_eq!(
            [relation("a", "link"), relation("link", "a"), relation("a", "hard")],
            [FileRelation::SameFile; 3]
        );
        assert_eq!(relation("a", "b"), FileRelation::DifferentFiles);
        assert_eq!([relation("gone", "b"), relation("a/below", "b")], [FileRelation::Moved; 2]);
        assert_eq!(relation("a", "gone"), FileRelation::DifferentFiles);
        assert!(
            compare_files(Path::new(&"x".repeat(5000)), &path("a")).is_err(),
            "what can't be looked at is not gone"
        );
    }
}
