//! The mark of a directory that slurm-emit wrote, with the names of the files in it that it may replace.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use filter::ownership::{OwnedFiles, has_mark, read_head};
use filter::{atomic, untrusted_file};

use crate::error::Error;
use crate::folder::{PLAN, entries, exists};

/// The mark's file.
const NAME: &str = ".slurm-emit";

/// Its first line; the names follow, one a line.
const FIRST_LINE: &str = "azpipe slurm-emit 1: this directory is replaced by slurm-emit, of these files:";

/// What a record of a task begins with.
const TASK: &[u8] = b"{\"type\":\"task\"";

/// The scripts that slurm-emit wrote before it marked its directories.
const SCRIPTS: [&str; 13] = [
    "Makefile",
    "cancel",
    "dask.sbatch",
    "driver.py",
    "gather.sbatch",
    "job.sbatch",
    "plan.py",
    "queue.bash",
    "ray.sbatch",
    "resubmit",
    "status",
    "submit",
    "worker",
];

/// What else such a directory may hold, by the scripts' own doing.
const STATE: [&str; 16] = [
    ".batches",
    ".joblog",
    ".lock",
    ".memory",
    ".stop",
    ".summary.jsonl",
    "__pycache__",
    "batches",
    "dask-scratch-space",
    "dask-worker-space",
    "joblog",
    "logs",
    "results",
    "submitted",
    "summaries",
    "summary.jsonl",
];

/// The names of the files in a directory that slurm-emit wrote.
pub struct Manifest {
    dir: PathBuf,
    names: BTreeSet<String>,
}

impl Manifest {
    /// Reads the mark of a directory. One that is missing or empty has none and needs none; one that was written before
    /// there were marks is known by its files.
    ///
    /// # Errors
    /// The directory is neither empty nor slurm-emit's; it can't be read.
    pub fn read(dir: &Path) -> Result<Self, Error> {
        let (dir, path) = (dir.to_owned(), dir.join(NAME));
        if exists(&dir)? && !dir.is_dir() {
            return Err(Error::Theirs { path: dir });
        }
        match untrusted_file::read_text(&path) {
            Ok(text) => {
                let names = text.strip_prefix(FIRST_LINE).ok_or(Error::Theirs { path })?;
                return Ok(Self { dir, names: names.lines().skip(1).map(str::to_owned).collect() });
            }
            Err(why) if why.kind() == ErrorKind::NotFound => (),
            Err(why) => return Err(Error::at(path)(why)),
        }
        atomic::remove_stale_files(&dir).map_err(Error::at(&dir))?;
        let there = entries(&dir)?;
        let is_known = |path: &&PathBuf| {
            let name = path.file_name().unwrap_or_default();
            let is_one_of = |names: &[&str]| names.iter().any(|known| name == OsStr::new(known));
            is_one_of(&SCRIPTS) || is_one_of(&STATE) || is_one_of(&[PLAN])
        };
        if let Some(theirs) = there.iter().find(|path| !is_known(path)) {
            let name = theirs.file_name().unwrap_or_default().display().to_string();
            return Err(Error::Foreign { path: dir, name });
        }
        let has = |name: &str, test: &dyn Fn(&Path) -> std::io::Result<bool>| -> Result<bool, Error> {
            let path = dir.join(name);
            Ok(exists(&path)? && test(&path).map_err(Error::at(&path))?)
        };
        let is_plan = |path: &Path| Ok(path.metadata()?.len() == 0 || has_mark(path, TASK, TASK)?);
        let is_script = |path: &Path| has_mark(path, b"#!/bin/bash\n", b"May be run again at any time");
        let is_own = has(PLAN, &is_plan)? && has("submit", &is_script)? && dir.join("logs").is_dir();
        if let (Some(theirs), false) = (there.first(), is_own) {
            let name = theirs.file_name().unwrap_or_default().display().to_string();
            return Err(Error::Foreign { path: dir, name });
        }
        let names = SCRIPTS.iter().chain(&[PLAN]).map(|name| (*name).to_owned()).collect();
        let names = if there.is_empty() { BTreeSet::new() } else { names };
        Ok(Self { dir, names })
    }

    /// Checks that a file may be written.
    ///
    /// # Errors
    /// A file of that name is there, and slurm-emit did not write it.
    pub fn check(&self, name: &str) -> Result<(), Error> {
        let path = self.dir.join(name);
        match self.names.contains(name) || !exists(&path)? {
            true => Ok(()),
            false => Err(Error::Theirs { path }),
        }
    }

    /// Adds names, and writes the mark where it changes: before the files themselves, so that a run that is killed
    /// leaves none without it.
    ///
    /// # Errors
    /// The mark can't be written.
    pub fn add<'a>(&mut self, names: impl Iterator<Item = &'a str>) -> Result<(), Error> {
        self.names.extend(names.map(str::to_owned));
        let path = self.dir.join(NAME);
        let lines = self.names.iter().flat_map(|name| ["\n", name]).collect::<String>();
        let text = format!("{FIRST_LINE}{lines}\n");
        if untrusted_file::read_text(&path).is_ok_and(|there| there == text) {
            return Ok(());
        }
        let mark = OwnedFiles::new("its mark", |path| has_mark(path, FIRST_LINE.as_bytes(), FIRST_LINE.as_bytes()));
        atomic::write(&path, text, &mark).map_err(Error::at(&path))
    }
}

/// Claims the files whose names the mark beside them has, and those of a cut that is being written.
pub fn file_claim() -> OwnedFiles {
    OwnedFiles::new("a file of slurm-emit", |path| {
        let mark = path.with_file_name(NAME);
        let text = match untrusted_file::read_text(&mark) {
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(false),
            text => text?,
        };
        let names = text.strip_prefix(FIRST_LINE).into_iter().flat_map(str::lines);
        Ok(names.skip(1).any(|name| path.file_name() == Some(OsStr::new(name))))
    })
}

/// Claims files of tasks, and what a loss of power leaves of such a file: nothing, or zeros.
pub fn batch_claim() -> OwnedFiles {
    OwnedFiles::new("a batch of tasks", |path| {
        let is_named = path.extension().is_some_and(|end| end == "jsonl");
        let is_blank = || read_head(path, TASK.len()).map(|head| head.iter().all(|byte| *byte == 0));
        Ok(is_named && (is_blank()? || has_mark(path, TASK, TASK)?))
    })
}
