//! Writes the directory of a plan: plan, batches and scripts. Each file appears whole, and a plan
//! whose jobs are submitted stays as it is.

use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use filter::Stop;
use system::atomic::{self, AtomicFile};
use system::{ownership, untrusted_file};

use crate::batches::Batch;
use crate::directory_listing::{exists, is_directory, list_directory};
use crate::error::EmitError;
use crate::manifest::{self, Manifest, PLAN_NAME};
use crate::scripts::Script;
use crate::task_plan::TaskPlan;

/// The directory of all batches. Each directory in it holds batches of one size.
const BATCHES_DIR: &str = "batches";

/// The directory of the batches that slurm-emit writes; `resubmit` adds smaller ones in
/// `batches/02` and so on.
const FIRST_BATCHES_DIR: &str = "batches/01";

/// The directory in which batches are written before they are moved to their place together.
const NEW_BATCHES_DIR: &str = ".batches";

/// The name of the file to which `submit` appends the ids of jobs.
const SUBMITTED_NAME: &str = "submitted";

/// Writes plan, batches and scripts, and creates the directories that jobs write to, because SLURM
/// starts no job whose log has no directory. Only files that slurm-emit wrote are replaced or
/// removed.
///
/// # Errors
/// Fails if the directory holds files of others, if it can't be written, if its jobs were submitted with
/// another plan or other batches, and with the error of `check_stopped`, which is called before each batch.
pub fn write_job_dir(
    dir: &Path,
    plan: &TaskPlan,
    batches: &[Batch],
    scripts: &[Script],
    check_stopped: &dyn Fn() -> Result<(), Stop>,
) -> Result<(), Stop> {
    let mut manifest = Manifest::read(dir)?;
    let names = || scripts.iter().map(|script| script.name).chain([PLAN_NAME]);
    names().try_for_each(|name| manifest.check(name))?;
    let is_new = !holds_plan(dir, plan, batches)?;
    let earlier = if is_new { find_batches(dir)? } else { Vec::new() };
    if is_new && exists(&dir.join(SUBMITTED_NAME))? {
        return Err(EmitError::OtherPlan { path: dir.to_owned() }.into());
    }
    ownership::create_directories(dir).map_err(EmitError::at(dir))?;
    atomic::remove_stale_files(dir).map_err(EmitError::at(dir))?;
    manifest.add(names())?;
    for name in ["logs", "results", "summaries"] {
        let path = dir.join(name);
        ownership::create_directories(&path).map_err(EmitError::at(&path))?;
    }
    if is_new {
        remove_batches(&earlier)?;
        write_batches(dir, plan, batches, check_stopped)?;
        write_plan(&dir.join(PLAN_NAME), plan)?;
    }
    Ok(scripts.iter().try_for_each(|script| write_script(dir, script))?)
}

/// Adds batches of new tasks to a directory that slurm-emit wrote, or writes a new one. `plan` has
/// all tasks, and batches are of `new`, those which the directory lacks. The batches come before
/// the plan, so that a run that is killed leaves no task without a batch.
///
/// # Errors
/// Fails if the directory holds files of others, or can't be written.
pub fn append_to_job_dir(
    dir: &Path,
    plan: &TaskPlan,
    new: &TaskPlan,
    batches: &[Batch],
    scripts: &[Script],
) -> Result<(), Stop> {
    let Some(batches_dir) = last_batches_dir(dir)? else {
        // What has arrived is written also where a signal ends the input.
        return write_job_dir(dir, plan, batches, scripts, &|| Ok(()));
    };
    let mut manifest = Manifest::read(dir)?;
    let names = || scripts.iter().map(|script| script.name).chain([PLAN_NAME]);
    names().try_for_each(|name| manifest.check(name))?;
    manifest.add(names())?;
    let mut lines = new.lines().reader();
    for batch in batches {
        let path = batches_dir.join(file_name(batch));
        let mut write = || {
            let file = AtomicFile::create(&path, &manifest::batch_claim())?;
            let temporary = file.create_temporary()?;
            lines.copy(batch.tasks.clone(), &temporary)?;
            temporary.sync_all()?;
            file.commit()
        };
        write().map_err(EmitError::at(&path))?;
    }
    if !batches.is_empty() {
        write_plan(&dir.join(PLAN_NAME), plan)?;
    }
    Ok(scripts.iter().try_for_each(|script| write_script(dir, script))?)
}

/// Returns the number that follows those of the batches in the directory.
///
/// # Errors
/// Fails if the directory can't be read.
pub fn count_batch_names(dir: &Path) -> Result<usize, EmitError> {
    let Some(batches_dir) = last_batches_dir(dir)? else { return Ok(0) };
    let number = |path: &PathBuf| path.file_stem()?.to_str()?.parse::<usize>().ok();
    Ok(list_directory(&batches_dir)?.iter().filter_map(number).max().map_or(0, |last| last + 1))
}

/// Returns the directory of the batches that count: the last one, which `slurm-emit` or `resubmit`
/// wrote.
fn last_batches_dir(dir: &Path) -> Result<Option<PathBuf>, EmitError> {
    let is_numbered = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_bytes();
        !name.is_empty() && name.iter().all(u8::is_ascii_digit)
    };
    Ok(list_directory(&dir.join(BATCHES_DIR))?.into_iter().filter(is_numbered).max())
}

/// Returns whether the directory holds this plan and these batches.
fn holds_plan(dir: &Path, plan: &TaskPlan, batches: &[Batch]) -> Result<bool, EmitError> {
    let mut lines = plan.lines().reader();
    let mut holds_tasks = |path: &Path, tasks| match untrusted_file::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        file => file.and_then(|file| lines.equals(tasks, file)).map_err(EmitError::at(path)),
    };
    let batches_dir = dir.join(FIRST_BATCHES_DIR);
    let has_as_many = list_directory(&batches_dir)?.len() == batches.len();
    if !has_as_many || !holds_tasks(&dir.join(PLAN_NAME), 0..plan.lines().len())? {
        return Ok(false);
    }
    for batch in batches {
        if !holds_tasks(&batches_dir.join(file_name(batch)), batch.tasks.clone())? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A directory of batches, and the files in it.
type BatchListing = (PathBuf, Vec<PathBuf>);

/// Finds the batches that slurm-emit and `resubmit` wrote. Files of others beside the directories
/// of batches are left alone; within these directories, they are an error.
fn find_batches(dir: &Path) -> Result<Vec<BatchListing>, EmitError> {
    let has_name = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_bytes();
        name == b".new" || name.iter().all(u8::is_ascii_digit)
    };
    let finished = list_directory(&dir.join(BATCHES_DIR))?.into_iter().filter(has_name);
    let mut listings = Vec::new();
    for batches_dir in finished.chain([dir.join(NEW_BATCHES_DIR)]) {
        if !is_directory(&batches_dir)? {
            continue;
        }
        let batches = list_directory(&batches_dir)?;
        for path in &batches {
            manifest::batch_claim().check(path).map_err(EmitError::at(path))?;
        }
        listings.push((batches_dir, batches));
    }
    let first = dir.join(FIRST_BATCHES_DIR);
    if exists(&first)? && !listings.iter().any(|(batches_dir, _)| *batches_dir == first) {
        return Err(EmitError::ForeignFile { path: first });
    }
    Ok(listings)
}

fn remove_batches(listings: &[BatchListing]) -> Result<(), EmitError> {
    for (batches_dir, batches) in listings {
        for path in batches {
            ownership::remove(path, &manifest::batch_claim()).map_err(EmitError::at(path))?;
        }
        if !ownership::remove_empty_directory(batches_dir).map_err(EmitError::at(batches_dir))? {
            return Err(EmitError::ForeignFile { path: batches_dir.clone() });
        }
    }
    Ok(())
}

/// Writes all batches into a new directory, and then moves it to its place.
fn write_batches(
    dir: &Path,
    plan: &TaskPlan,
    batches: &[Batch],
    check_stopped: &dyn Fn() -> Result<(), Stop>,
) -> Result<(), Stop> {
    let (all, new, first) =
        (dir.join(BATCHES_DIR), dir.join(NEW_BATCHES_DIR), dir.join(FIRST_BATCHES_DIR));
    for path in [&all, &new] {
        ownership::create_directories(path).map_err(EmitError::at(path))?;
    }
    let mut lines = plan.lines().reader();
    for batch in batches {
        check_stopped()?;
        let path = new.join(file_name(batch));
        // Synced before the directory is moved: a loss of power would otherwise leave zeros in its
        // place.
        let write =
            |file: File| lines.copy(batch.tasks.clone(), &file).and_then(|()| file.sync_all());
        ownership::create_new(&path).and_then(write).map_err(EmitError::at(&path))?;
    }
    File::open(&new)
        .and_then(|directory| sync_directory(&directory))
        .map_err(EmitError::at(&new))?;
    Ok(ownership::rename_directory_into_place(&new, &first).map_err(EmitError::at(&first))?)
}

/// Syncs a directory, so that its names survive a loss of power. File systems without this call are
/// no error.
fn sync_directory(directory: &File) -> io::Result<()> {
    match directory.sync_all() {
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        result => result,
    }
}

fn write_plan(path: &Path, plan: &TaskPlan) -> Result<(), EmitError> {
    let write = || {
        let file = AtomicFile::create(path, &manifest::file_claim())?;
        let temporary = file.create_temporary()?;
        plan.lines().reader().copy(0..plan.lines().len(), &temporary)?;
        // Some systems report a failed write only once, to the handle that wrote.
        temporary.sync_all()?;
        file.commit()
    };
    write().map_err(EmitError::at(path))
}

fn write_script(dir: &Path, script: &Script) -> Result<(), EmitError> {
    let path = dir.join(script.name);
    let write = || {
        let file = AtomicFile::create(&path, &manifest::file_claim())?;
        let mut temporary = file.create_temporary()?;
        temporary.write_all(script.text.as_bytes())?;
        temporary.sync_all()?;
        if script.is_executable() {
            file.make_executable()?;
        }
        file.commit()
    };
    write().map_err(EmitError::at(&path))
}

fn file_name(batch: &Batch) -> String {
    format!("{}.jsonl", batch.name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn a_plan_that_is_no_regular_file_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(PLAN_NAME);
        let refusal = || holds_plan(dir.path(), &TaskPlan::default(), &[]).unwrap_err().to_string();
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        assert_eq!(refusal(), format!("{}: is a FIFO: expected a regular file", path.display()));
        std::fs::remove_file(&path).unwrap();
        symlink("/dev/zero", &path).unwrap();
        assert!(refusal().ends_with("is a device: expected a regular file"));
    }
}
