//! Owners of finals: which scan, of which file, and which recipe a final belongs to.
//!
//! A final's place is known before the final is, and two scans or two recipes may have the same place. A note below the
//! output root says whose it is, so that plan-split, which can't read HDF5, refuses a plan that would overwrite another's
//! result. gather writes the note when it writes the final; plan-split changes it where it is told to (`--replace`). A final
//! without a note is gather's to judge.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use filter::owned::{self, Claim};
use filter::{atomic, foreign};
use records::{Acquisition, Digest, RawPath, Task};
use serde::{Deserialize, Serialize};

/// The directory of the notes, below the output root.
const NOTES: &str = ".azpipe/finals";

/// Whose a final is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The final's path below the output root.
    #[serde(rename = "final")]
    pub final_file: RawPath,
    /// The scan's id.
    pub scan: String,
    /// The resolved recipe's digest.
    pub recipe_digest: String,
    /// The scan's master, or its data file or first image.
    pub file: RawPath,
    /// The entry in it.
    pub entry: String,
    /// The detector.
    pub detector: String,
    /// The dataset that shows the frames.
    #[serde(default)]
    pub dataset: String,
}

impl Owner {
    /// Returns the owner of the final of a task of one recipe.
    pub fn from_task(task: &Task) -> Self {
        Self::new(&task.scan, &task.acquisition, &task.recipe_digest, &task.final_file)
    }

    /// Returns the owner that a scan and a recipe are for a final.
    pub fn new(scan: &str, acquisition: &Acquisition, recipe_digest: &str, final_file: &RawPath) -> Self {
        Self {
            final_file: final_file.clone(),
            scan: scan.to_owned(),
            recipe_digest: recipe_digest.to_owned(),
            file: acquisition.file.clone(),
            entry: acquisition.entry.clone(),
            detector: acquisition.detector.clone(),
            dataset: acquisition.dataset.clone(),
        }
    }

    /// Reads the note about a final; `None` where there is none.
    ///
    /// # Errors
    /// The note can't be read, or is none.
    pub fn read(out: &Path, final_file: &RawPath) -> io::Result<Option<Self>> {
        let path = note(out, final_file);
        let text = match foreign::read_text(&path) {
            Ok(text) => text,
            Err(why) if is_absent(&why) => return Ok(None),
            Err(why) => return Err(at(&path, &why)),
        };
        let wrong = |why: String| at(&path, &io::Error::new(ErrorKind::InvalidData, why));
        let owner: Self = serde_json::from_str(&text).map_err(|why| wrong(format!("{why}; remove it")))?;
        match owner.final_file == *final_file {
            true => Ok(Some(owner)),
            false => Err(wrong("about another final; remove it".to_owned())),
        }
    }

    /// Writes the note, unless it says so already.
    ///
    /// # Errors
    /// It can't be written.
    pub fn write(&self, out: &Path) -> io::Result<()> {
        if Self::read(out, &self.final_file).is_ok_and(|there| there.as_ref() == Some(self)) {
            atomic::clear_up_once(&out.join(NOTES));
            return Ok(());
        }
        let path = note(out, &self.final_file);
        owned::create_directories(&out.join(NOTES)).map_err(|why| at(&out.join(NOTES), &why))?;
        let text = serde_json::to_string(self).expect("texts and paths always serialize");
        atomic::write(&path, format!("{text}\n"), &Claim::by_place()).map_err(|why| at(&path, &why))
    }

    /// Returns whether both are one recipe's result of one scan.
    pub fn is(&self, other: &Self) -> bool {
        (&self.scan, &self.recipe_digest) == (&other.scan, &other.recipe_digest)
    }

    /// Returns whether both name the same detector of the same entry in their files.
    pub fn is_beside(&self, other: &Self) -> bool {
        (&self.entry, &self.detector, &self.dataset) == (&other.entry, &other.detector, &other.dataset)
    }
}

/// Reads all notes below an output root.
///
/// # Errors
/// The directory or a note can't be read.
pub fn all(out: &Path) -> io::Result<Vec<Owner>> {
    let directory = out.join(NOTES);
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(why) if is_absent(&why) => return Ok(Vec::new()),
        Err(why) => return Err(at(&directory, &why)),
    };
    let mut owners = Vec::new();
    for entry in entries {
        let path = entry.map_err(|why| at(&directory, &why))?.path();
        if path.extension().is_some_and(|end| end == "json") {
            let text = foreign::read_text(&path).map_err(|why| at(&path, &why))?;
            let wrong = |why: serde_json::Error| at(&path, &io::Error::new(ErrorKind::InvalidData, why.to_string()));
            owners.push(serde_json::from_str(&text).map_err(wrong)?);
        }
    }
    Ok(owners)
}

/// How the files of two scans of one id are related.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// They are one file, by one path or by two.
    Same,
    /// The first is not there any more, and may have become the second.
    Moved,
    /// They are two files.
    Other,
}

/// Tells whether a scan's file is the one that a result was made from: `there` is what the result names, `now` what a
/// record does.
///
/// # Errors
/// One of them can't be looked at.
pub fn relate(there: &Path, now: &Path) -> io::Result<Relation> {
    if there == now {
        return Ok(Relation::Same);
    }
    let identity = |path: &Path| match path.metadata() {
        Ok(metadata) => Ok(Some((metadata.dev(), metadata.ino()))),
        Err(why) if is_absent(&why) => Ok(None),
        Err(why) => Err(at(path, &why)),
    };
    match (identity(there)?, identity(now)?) {
        (None, _) => Ok(Relation::Moved),
        (there, now) if there == now => Ok(Relation::Same),
        _ => Ok(Relation::Other),
    }
}

/// The path of the note about a final.
fn note(out: &Path, final_file: &RawPath) -> PathBuf {
    let name = Digest::new("final").bytes(final_file.as_os_str().as_bytes()).short();
    out.join(NOTES).join(format!("{name}.json"))
}

fn is_absent(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn at(path: &Path, why: &io::Error) -> io::Error {
    io::Error::new(why.kind(), format!("{}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    fn owner(final_file: &str) -> Owner {
        let odd = OsStr::from_bytes(b"/raw/caf\xe9 \"1\".h5");
        let scan =
            Acquisition { file: odd.into(), entry: "1.1".into(), detector: "p3".into(), ..Acquisition::default() };
        Owner::new("5c", &scan, "00", &final_file.into())
    }

    #[test]
    fn notes_are_read_as_they_were_written() {
        let out = tempfile::tempdir().unwrap();
        assert_eq!(Owner::read(out.path(), &"a.h5".into()).unwrap(), None);
        assert!(all(out.path()).unwrap().is_empty());
        for final_file in ["a.h5", "d/a.h5"] {
            owner(final_file).write(out.path()).unwrap();
        }
        let other = Owner { recipe_digest: "11".into(), ..owner("a.h5") };
        other.write(out.path()).unwrap();
        assert_eq!(Owner::read(out.path(), &"a.h5".into()).unwrap(), Some(other));
        assert_eq!(Owner::read(out.path(), &"d/a.h5".into()).unwrap(), Some(owner("d/a.h5")));
        assert_eq!(all(out.path()).unwrap().len(), 2);
        fs::write(note(out.path(), &"a.h5".into()), "{").unwrap();
        assert!(Owner::read(out.path(), &"a.h5".into()).unwrap_err().to_string().contains("remove it"));
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
        let relation = |there: &str, now: &str| relate(&path(there), &path(now)).unwrap();
        assert_eq!(relation("a", "a"), Relation::Same);
        assert_eq!([relation("a", "link"), relation("link", "a"), relation("a", "hard")], [Relation::Same; 3]);
        assert_eq!(relation("a", "b"), Relation::Other);
        assert_eq!([relation("gone", "b"), relation("a/below", "b")], [Relation::Moved; 2]);
        assert_eq!(relation("a", "gone"), Relation::Other);
        assert!(relate(Path::new(&"x".repeat(5000)), &path("a")).is_err(), "what can't be looked at is not gone");
    }
}
