//! Writes the directory of a plan: what is there appears whole, and what is submitted stays as it is.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use filter::atomic::{self, AtomicFile};
use filter::ownership;

use crate::batches::Batch;
use crate::error::Error;
use crate::manifest::{self, Manifest};
use crate::plan::Plan;
use crate::scripts::Script;

/// The file of all tasks.
pub const PLAN: &str = "plan.jsonl";

/// Cuts of the plan into batches.
const CUTS: &str = "batches";

/// The first cut of the plan; `resubmit` makes further ones beside it.
const FIRST_CUT: &str = "batches/01";

/// What `submit` writes the jobs' ids to.
const SUBMITTED: &str = "submitted";

/// Writes plan, batches and scripts, and makes the directories that jobs write to: SLURM runs no job whose
/// log has none. Nothing is replaced or removed but what slurm-emit wrote.
///
/// # Errors
/// The directory holds what others wrote; it can't be written; its jobs were submitted with another plan or cut.
pub fn write(dir: &Path, plan: &Plan, batches: &[Batch], scripts: &[Script]) -> Result<(), Error> {
    let mut manifest = Manifest::read(dir)?;
    let names = || scripts.iter().map(|script| script.name).chain([PLAN]);
    names().try_for_each(|name| manifest.check(name))?;
    let is_new = !holds(dir, plan, batches)?;
    let earlier = if is_new { earlier_batches(dir)? } else { Vec::new() };
    if is_new && exists(&dir.join(SUBMITTED))? {
        return Err(Error::OtherPlan { path: dir.to_owned() });
    }
    ownership::create_directories(dir).map_err(Error::at(dir))?;
    atomic::remove_stale_files(dir).map_err(Error::at(dir))?;
    manifest.add(names())?;
    for name in ["logs", "results", "summaries"] {
        let path = dir.join(name);
        ownership::create_directories(&path).map_err(Error::at(&path))?;
    }
    if is_new {
        remove_batches(&earlier)?;
        write_batches(dir, plan, batches)?;
        put_plan(&dir.join(PLAN), plan)?;
    }
    scripts.iter().try_for_each(|script| put(&dir.join(script.name), &script.text, script.executable))
}

/// Whether the directory has this plan and this cut of it.
fn holds(dir: &Path, plan: &Plan, batches: &[Batch]) -> Result<bool, Error> {
    let mut lines = plan.lines().reader();
    let mut has = |path: &Path, tasks| match File::open(path) {
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(false),
        there => there.and_then(|there| lines.are_all_of(tasks, there)).map_err(Error::at(path)),
    };
    let cut = dir.join(FIRST_CUT);
    if entries(&cut)?.len() != batches.len() || !has(&dir.join(PLAN), 0..plan.lines().len())? {
        return Ok(false);
    }
    for batch in batches {
        if !has(&cut.join(file_name(batch)), batch.tasks.clone())? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A cut of an earlier plan, and its batches.
type Cut = (PathBuf, Vec<PathBuf>);

/// What slurm-emit and `resubmit` wrote of batches. What others put beside the cuts is left alone; what they put into one
/// is in the way.
fn earlier_batches(dir: &Path) -> Result<Vec<Cut>, Error> {
    let is_cut = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_bytes();
        (name == b".new" || name.iter().all(u8::is_ascii_digit)) && !path.is_symlink() && path.is_dir()
    };
    let unfinished = dir.join(".batches");
    let cuts = entries(&dir.join(CUTS))?.into_iter().filter(is_cut);
    let mut found = Vec::new();
    for cut in cuts.chain(unfinished.is_dir().then_some(unfinished)) {
        let batches = entries(&cut)?;
        for path in &batches {
            manifest::batch_claim().check(path).map_err(Error::at(path))?;
        }
        found.push((cut, batches));
    }
    let first = dir.join(FIRST_CUT);
    match exists(&first)? && !found.iter().any(|(cut, _)| *cut == first) {
        true => Err(Error::Theirs { path: first }),
        false => Ok(found),
    }
}

fn remove_batches(cuts: &[Cut]) -> Result<(), Error> {
    for (cut, batches) in cuts {
        for path in batches {
            ownership::remove(path, &manifest::batch_claim()).map_err(Error::at(path))?;
        }
        if !ownership::remove_empty_directory(cut).map_err(Error::at(cut))? {
            return Err(Error::Theirs { path: cut.clone() });
        }
    }
    Ok(())
}

/// Writes all batches beside their place, and puts them there at once.
fn write_batches(dir: &Path, plan: &Plan, batches: &[Batch]) -> Result<(), Error> {
    let (all, new, cut) = (dir.join(CUTS), dir.join(".batches"), dir.join(FIRST_CUT));
    for path in [&all, &new] {
        ownership::create_directories(path).map_err(Error::at(path))?;
    }
    let mut lines = plan.lines().reader();
    for batch in batches {
        let path = new.join(file_name(batch));
        // Durable before they are put in their place: a loss of power would leave zeros there.
        let write = |file: File| lines.copy(batch.tasks.clone(), &file).and_then(|()| file.sync_all());
        ownership::create_new(&path).and_then(write).map_err(Error::at(&path))?;
    }
    File::open(&new).and_then(|directory| sync_entries(&directory)).map_err(Error::at(&new))?;
    ownership::rename_directory_into_place(&new, &cut).map_err(Error::at(&cut))
}

/// Makes the names in a directory durable, on file systems that have such a call.
fn sync_entries(directory: &File) -> io::Result<()> {
    match directory.sync_all() {
        Err(why) if why.kind() == ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

/// Writes the plan, whole or not at all.
fn put_plan(path: &Path, plan: &Plan) -> Result<(), Error> {
    let write = || {
        let file = AtomicFile::create(path, &manifest::file_claim())?;
        plan.lines().reader().copy(0..plan.lines().len(), file.create_temporary()?)?;
        file.commit()
    };
    write().map_err(Error::at(path))
}

/// A file, whole or not at all.
fn put(path: &Path, text: &OsStr, executable: bool) -> Result<(), Error> {
    let write = || {
        let file = AtomicFile::create(path, &manifest::file_claim())?;
        file.create_temporary()?.write_all(text.as_bytes())?;
        if executable {
            file.make_executable()?;
        }
        file.commit()
    };
    write().map_err(Error::at(path))
}

/// The paths in a directory; none where it is missing.
pub fn entries(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = match fs::read_dir(directory) {
        Err(why) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(Vec::new()),
        entries => entries.map_err(Error::at(directory))?,
    };
    let paths: io::Result<Vec<PathBuf>> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    paths.map_err(Error::at(directory))
}

/// Whether something has that name, be it a dangling link.
pub fn exists(path: &Path) -> Result<bool, Error> {
    match path.symlink_metadata() {
        Err(why) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        found => found.map(|_| true).map_err(Error::at(path)),
    }
}

fn file_name(batch: &Batch) -> String {
    format!("{}.jsonl", batch.name)
}
