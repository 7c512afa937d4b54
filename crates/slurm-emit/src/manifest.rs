//! The manifest of a directory that slurm-emit wrote: the names of the files in it that slurm-emit
//! may replace.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use system::ownership::{OwnershipRule, has_mark, read_head};
use system::{atomic, untrusted_file};

use crate::directory_listing::{exists, is_directory, list_directory};
use crate::error::EmitError;

/// The name of the file with all tasks.
pub const PLAN_NAME: &str = "plan.jsonl";

/// The name of the file that is locked while tasks are added.
pub const APPEND_LOCK_NAME: &str = ".append";

/// The name of the manifest.
const MANIFEST_NAME: &str = ".slurm-emit";

/// The first line of the manifest. The names follow, one per line.
const FIRST_LINE: &str =
    "azpipe slurm-emit 1: this directory is replaced by slurm-emit, of these files:";

/// The beginning of the record of a task.
const TASK_START: &[u8] = b"{\"type\":\"task\"";

/// A sentence on one line of every `submit`, by which slurm-emit recognizes directories from before
/// there were manifests.
const SUBMIT_MARK: &[u8] = b"May be run again at any time";

/// The scripts that slurm-emit wrote before there were manifests.
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

/// Files and directories that these scripts leave in their directory.
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

/// The names of the files in a directory that slurm-emit may replace, because it wrote them.
pub struct Manifest {
    dir: PathBuf,
    names: BTreeSet<String>,
}

impl Manifest {
    /// Reads the manifest of a directory. A directory that is missing or empty has none and needs
    /// none. A directory that slurm-emit wrote before there were manifests is recognized by its
    /// files.
    ///
    /// # Errors
    /// Fails if the directory is neither empty nor written by slurm-emit, and if it can't be read.
    pub fn read(dir: &Path) -> Result<Self, EmitError> {
        let foreign = || EmitError::ForeignFile { path: dir.to_owned() };
        match dir.metadata() {
            Ok(found) if !found.is_dir() => return Err(foreign()),
            // A link that leads nowhere, or nothing.
            Err(error) if error.kind() == ErrorKind::NotFound && exists(dir)? => {
                return Err(foreign());
            }
            Err(error)
                if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Err(EmitError::at(dir)(error));
            }
            _ => (),
        }
        let path = dir.join(MANIFEST_NAME);
        let names = match untrusted_file::read_text(&path) {
            Ok(text) => {
                let names = text.strip_prefix(FIRST_LINE).ok_or(EmitError::ForeignFile { path })?;
                names.lines().skip(1).map(str::to_owned).collect()
            }
            Err(error) if error.kind() == ErrorKind::NotFound => names_without_manifest(dir)?,
            Err(error) => return Err(EmitError::at(path)(error)),
        };
        Ok(Self { dir: dir.to_owned(), names })
    }

    /// Checks that a file may be written.
    ///
    /// # Errors
    /// Fails if there is a file of this name that slurm-emit did not write.
    pub fn check(&self, name: &str) -> Result<(), EmitError> {
        let path = self.dir.join(name);
        if self.names.contains(name) || !exists(&path)? {
            Ok(())
        } else {
            Err(EmitError::ForeignFile { path })
        }
    }

    /// Adds names, and writes the manifest if it changes. It is written before the files
    /// themselves, so that a run that is killed leaves no file that the manifest lacks.
    ///
    /// # Errors
    /// Fails if the manifest can't be written.
    pub fn add<'a>(&mut self, names: impl Iterator<Item = &'a str>) -> Result<(), EmitError> {
        self.names.extend(names.map(str::to_owned));
        let path = self.dir.join(MANIFEST_NAME);
        let lines = self.names.iter().flat_map(|name| ["\n", name]).collect::<String>();
        let text = format!("{FIRST_LINE}{lines}\n");
        if untrusted_file::read_text(&path).is_ok_and(|written| written == text) {
            return Ok(());
        }
        let claim = OwnershipRule::new("the manifest of slurm-emit", |path| {
            has_mark(path, FIRST_LINE.as_bytes(), FIRST_LINE.as_bytes())
        });
        atomic::write(&path, text, &claim).map_err(EmitError::at(&path))
    }
}

/// Returns the names of the files in a directory without a manifest that slurm-emit may replace.
///
/// # Errors
/// Fails if the directory is neither empty nor written by slurm-emit, and if it can't be read.
fn names_without_manifest(dir: &Path) -> Result<BTreeSet<String>, EmitError> {
    atomic::remove_stale_files(dir).map_err(EmitError::at(dir))?;
    let mut paths = list_directory(dir)?;
    // It comes before the manifest, which is written under it.
    paths.retain(|path| path.file_name() != Some(OsStr::new(APPEND_LOCK_NAME)));
    let Some(first) = paths.first() else { return Ok(BTreeSet::new()) };
    let is_known = |path: &&PathBuf| {
        let is_one_of =
            |names: &[&str]| names.iter().any(|name| path.file_name() == Some(OsStr::new(name)));
        is_one_of(&SCRIPTS) || is_one_of(&STATE) || is_one_of(&[PLAN_NAME])
    };
    let foreign = |path: &Path| {
        let name = path.file_name().unwrap_or_default().display().to_string();
        EmitError::ForeignDirectory { path: dir.to_owned(), name }
    };
    if let Some(path) = paths.iter().find(|path| !is_known(path)) {
        return Err(foreign(path));
    }
    let has =
        |name: &str, test: &dyn Fn(&Path) -> std::io::Result<bool>| -> Result<bool, EmitError> {
            let path = dir.join(name);
            Ok(exists(&path)? && test(&path).map_err(EmitError::at(&path))?)
        };
    let is_plan =
        |path: &Path| Ok(path.metadata()?.len() == 0 || has_mark(path, TASK_START, TASK_START)?);
    let is_submit = |path: &Path| has_mark(path, b"#!/bin/bash\n", SUBMIT_MARK);
    if has(PLAN_NAME, &is_plan)? && has("submit", &is_submit)? && is_directory(&dir.join("logs"))? {
        Ok(SCRIPTS.iter().chain(&[PLAN_NAME]).map(|name| (*name).to_owned()).collect())
    } else {
        Err(foreign(first))
    }
}

/// Returns a claim on the files that the manifest in their directory names.
pub fn file_claim() -> OwnershipRule {
    OwnershipRule::new("a file of slurm-emit", |path| {
        let manifest = path.with_file_name(MANIFEST_NAME);
        let text = match untrusted_file::read_text(&manifest) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            text => text?,
        };
        let names = text.strip_prefix(FIRST_LINE).into_iter().flat_map(str::lines);
        Ok(names.skip(1).any(|name| path.file_name() == Some(OsStr::new(name))))
    })
}

/// Returns a claim on files of tasks, and on what a loss of power leaves of such a file: an empty
/// file, or zeros.
pub fn batch_claim() -> OwnershipRule {
    OwnershipRule::new("a batch of tasks", |path| {
        let is_named = path.extension().is_some_and(|end| end == "jsonl");
        let is_blank =
            || read_head(path, TASK_START.len()).map(|head| head.iter().all(|byte| *byte == 0));
        Ok(is_named && (is_blank()? || has_mark(path, TASK_START, TASK_START)?))
    })
}
