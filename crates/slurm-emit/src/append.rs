//! `--append`: adds tasks to the plan of a directory as they arrive, and submits them in rounds.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

use filter::{Filter, Input, Polled, Stop};
use records::{Record, Task, format_count};
use system::{ownership, untrusted_file};

use crate::args::Args;
use crate::batches::Batch;
use crate::directory_listing::exists;
use crate::error::EmitError;
use crate::manifest::{APPEND_LOCK_NAME, Manifest, PLAN_NAME};
use crate::resolve_settings::resolve_settings;
use crate::task_plan::TaskPlan;
use crate::{check, job_dir, report_size, submit};

/// The time from the first task to the first round, in which further tasks of the first scan
/// arrive.
const FIRST_WAIT: Duration = Duration::from_secs(2);

/// The shortest time between rounds. A round that takes long, because the plan is large, has a
/// longer one.
const WAIT: Duration = Duration::from_secs(10);

/// The share of its time that a directory with a large plan is written.
const MAX_BUSY_SHARE: u32 = 10;

/// Adds the tasks of the input to the directory in rounds, until the input ends. With `--submit`,
/// as many batches are submitted in each round as there is room for; at the end, all that is
/// missing, as without `--append`.
///
/// # Errors
/// Fails as without `--append`, if another process adds tasks to the directory, and if the target
/// can't take more tasks. Jobs that can't be submitted before the end of the input are a warning:
/// the next round tries it again.
pub fn run(args: &Args, filter: &Filter) -> Result<(), Stop> {
    if !args.target.takes_more_tasks() {
        return Err(EmitError::AppendTarget { target: args.target.name() }.into());
    }
    let _lock = lock(&args.dir)?;
    let mut appender = Appender::open(args, filter)?;
    let mut input = Input::open(&args.files)?.with_expected_type("task");
    let mut next_round = None;
    loop {
        match input.next_until(filter, next_round).inspect_err(|_| appender.stop())? {
            Polled::Ready(Record::Task(task)) => {
                appender.push(*task).inspect_err(|_| appender.stop())?;
                next_round.get_or_insert_with(|| Instant::now() + FIRST_WAIT);
            }
            Polled::Ready(other) => filter.emit(&other)?,
            Polled::Pending => (),
            Polled::End => break,
        }
        if next_round.is_some_and(|time| time <= Instant::now()) {
            let start = Instant::now();
            appender.write_new_tasks()?;
            appender.submit_some();
            next_round = Some(Instant::now() + WAIT.max(start.elapsed() * MAX_BUSY_SHARE));
        }
    }
    appender.write_new_tasks()?;
    if args.submit { submit(&args.dir, &[]) } else { Ok(()) }
}

/// Locks the directory against other processes that add tasks. It is created if there is none.
fn lock(dir: &Path) -> Result<File, EmitError> {
    let path = dir.join(APPEND_LOCK_NAME);
    // A directory of others gets no lock.
    Manifest::read(dir)?;
    ownership::create_directories(dir).map_err(EmitError::at(dir))?;
    let file = ownership::open_lock(&path).map_err(EmitError::at(&path))?;
    match file.try_lock() {
        Ok(()) => (),
        Err(TryLockError::WouldBlock) => {
            return Err(EmitError::AppendInProgress { path: dir.to_owned() });
        }
        Err(TryLockError::Error(why)) => return Err(EmitError::at(path)(why)),
    }
    // Read again: the process that held the lock may have written it.
    Manifest::read(dir)?.add(std::iter::empty())?;
    Ok(file)
}

/// The plan of a directory that grows.
struct Appender<'a> {
    args: &'a Args,
    filter: &'a Filter,
    /// All tasks.
    plan: TaskPlan,
    /// The tasks that are not in the directory yet.
    new: TaskPlan,
    /// Set until the directory has been written once.
    is_first: bool,
    /// Set if jobs could not be submitted in the last round.
    has_failed: bool,
}

impl<'a> Appender<'a> {
    /// Reads the plan of the directory, if there is one.
    fn open(args: &'a Args, filter: &'a Filter) -> Result<Self, Stop> {
        let path = args.dir.join(PLAN_NAME);
        let plan = if exists(&path)? {
            // Unlike an operand, the plan is no stream of records.
            untrusted_file::open_for_check(&path).map_err(EmitError::at(&path))?;
            TaskPlan::read_versions(path, filter)?
        } else {
            TaskPlan::default()
        };
        Ok(Self { args, filter, plan, new: TaskPlan::default(), is_first: true, has_failed: false })
    }

    /// Adds a task, unless the plan has it as it is.
    ///
    /// # Errors
    /// Fails if a task of the plan writes the same final file by another recipe.
    fn push(&mut self, task: Task) -> Result<(), EmitError> {
        if let Some(path) = self.plan.find_other_recipe(&task) {
            return Err(EmitError::OtherRecipe { path });
        }
        if self.plan.push(task.clone()) {
            self.new.push(task);
        }
        Ok(())
    }

    /// Writes the tasks that are new, and the scripts, whose memory and walltime depend on them.
    fn write_new_tasks(&mut self) -> Result<(), Stop> {
        let (args, filter, is_first) = (self.args, self.filter, self.is_first);
        let tasks = self.new.lines().len();
        if tasks == 0 && !is_first {
            return Ok(());
        }
        let job = resolve_settings(args, &self.plan)?;
        if is_first {
            report_size(args, &job, filter)?;
        }
        let first = job_dir::count_batch_names(&args.dir)?;
        let batches = Batch::new_numbered_from(first, job.sizing.divide(&self.new));
        let scripts = args.target.scripts(&job, &self.plan, &batches)?;
        job_dir::append_to_job_dir(&job.dir, &self.plan, &self.new, &batches, &scripts)?;
        filter.note(0, || added_note(tasks, batches.len(), self.plan.lines().len(), &args.dir));
        if is_first && args.check {
            check(&*args.target, &job, &scripts, filter)?;
        }
        (self.new, self.is_first) = (TaskPlan::default(), false);
        Ok(())
    }

    /// Keeps the tasks that have arrived, and says what is left to do, where the filter ends before
    /// its input.
    fn stop(&mut self) {
        if let Err(stop) = self.write_new_tasks() {
            self.filter.warn(&format!("the last tasks are not in the plan: {stop}"));
        }
        if self.args.submit {
            let script = self.args.dir.join("submit");
            self.filter.warn(&format!(
                "{} submits what is left, and releases the gather of all results",
                script.display()
            ));
        }
    }

    /// Submits as many batches as there is room for.
    fn submit_some(&mut self) {
        if !self.args.submit {
            return;
        }
        let result = submit(&self.args.dir, &["--partial"]);
        if let (Err(stop), false) = (&result, self.has_failed) {
            self.filter.warn(&format!("{stop}; it is tried again until the end of the input"));
        }
        self.has_failed = result.is_err();
    }
}

fn added_note(tasks: usize, batches: usize, total: usize, dir: &Path) -> String {
    let count = |count: usize, noun| format_count(count as u64, noun);
    let total = count(total, "task");
    format!(
        "{} in {} added to {}, which has {total}",
        count(tasks, "task"),
        count(batches, "batch"),
        dir.display()
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn a_lock_that_is_no_regular_file_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(APPEND_LOCK_NAME);
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        let refusal = || lock(dir.path()).unwrap_err().to_string();
        assert_eq!(refusal(), format!("{}: is a FIFO: expected a regular file", path.display()));
        std::fs::remove_file(&path).unwrap();
        symlink("/dev/zero", &path).unwrap();
        assert!(refusal().ends_with("is a device: expected a regular file"));
    }
}
