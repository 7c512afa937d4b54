//! Writes the directory of a plan: what is there appears whole, and what is submitted stays as it is.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use manners::atomic::AtomicFile;

use crate::batches::Batch;
use crate::error::Error;
use crate::plan::Plan;
use crate::scripts::Script;

/// The first cut of the plan; `resubmit` makes further ones beside it.
const FIRST_CUT: &str = "batches/01";

/// What `submit` writes the jobs' ids to.
const SUBMITTED: &str = "submitted";

/// Writes plan, batches and scripts, and makes the directories that jobs write to: SLURM runs no job whose
/// log has none.
///
/// # Errors
/// The directory can't be written, or its jobs were submitted with another plan or cut.
pub fn write(dir: &Path, plan: &Plan, batches: &[Batch], scripts: &[Script]) -> Result<(), Error> {
    for name in ["logs", "results", "summaries"] {
        let path = dir.join(name);
        fs::create_dir_all(&path).map_err(Error::at(&path))?;
    }
    let whole = text(plan.lines());
    if !holds(dir, &whole, plan, batches) {
        if dir.join(SUBMITTED).exists() {
            return Err(Error::OtherPlan { path: dir.to_owned() });
        }
        write_batches(dir, plan, batches)?;
        put(&dir.join("plan.jsonl"), OsStr::new(&whole), false)?;
    }
    scripts.iter().try_for_each(|script| put(&dir.join(script.name), &script.text, script.executable))
}

/// Whether the directory has this plan and this cut of it.
fn holds(dir: &Path, whole: &str, plan: &Plan, batches: &[Batch]) -> bool {
    let same = |path: &Path, text: &str| fs::read(path).is_ok_and(|there| there == text.as_bytes());
    let cut = dir.join(FIRST_CUT);
    let count = fs::read_dir(&cut).map_or(0, Iterator::count);
    count == batches.len()
        && same(&dir.join("plan.jsonl"), whole)
        && batches.iter().all(|batch| same(&cut.join(file_name(batch)), &text(&plan.lines()[batch.tasks.clone()])))
}

/// Writes all batches beside their place, and puts them there at once.
fn write_batches(dir: &Path, plan: &Plan, batches: &[Batch]) -> Result<(), Error> {
    let (all, new, cut) = (dir.join("batches"), dir.join(".batches"), dir.join(FIRST_CUT));
    for earlier in [&all, &new] {
        match fs::remove_dir_all(earlier) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(Error::at(earlier)(why)),
            _ => fs::create_dir(earlier).map_err(Error::at(earlier))?,
        }
    }
    for batch in batches {
        let path = new.join(file_name(batch));
        fs::write(&path, text(&plan.lines()[batch.tasks.clone()])).map_err(Error::at(&path))?;
    }
    fs::rename(&new, &cut).map_err(Error::at(&cut))
}

/// A file, whole or not at all.
fn put(path: &Path, text: &OsStr, executable: bool) -> Result<(), Error> {
    let write = || {
        let file = AtomicFile::create(path)?;
        fs::write(file.path(), text.as_bytes())?;
        if executable {
            let mode = fs::metadata(file.path())?.permissions().mode();
            // whoever may read it may run it
            fs::set_permissions(file.path(), Permissions::from_mode(mode | (mode & 0o444) >> 2))?;
        }
        file.commit()
    };
    write().map_err(Error::at(path))
}

fn file_name(batch: &Batch) -> String {
    format!("{}.jsonl", batch.name)
}

fn text(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}
