//! gather: result records in, one final file and one summary record a scan and recipe out. What counts
//! is what the parts hold; records only say where to look.

mod args;
mod clean;
mod group;
mod plan;
mod schedule;
mod work;

use std::io::ErrorKind;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use filter::ownership::ReplacePolicy;
use filter::{Filter, Input, Polled, Stop};
use patterns::output;
use records::{Fail, Record};

use args::Args;
use group::Groups;
use plan::Plan;
use work::Worker;

/// The command line, for the manual page.
pub fn command() -> clap::Command {
    filter::command::<Args>("gather")
}

/// Runs the filter.
pub fn main() -> ExitCode {
    frames::watchdog::start("gather");
    filter::run("gather", run)
}

fn run(args: Args, filter: &Filter) -> Result<(), Stop> {
    let policy = ReplacePolicy { overwrite: args.form.overwrite, ..ReplacePolicy::default() };
    args.check(&policy)?;
    let root = args.from.as_deref().map(root).transpose()?;
    if let (Some(root), true) = (&root, args.clean) {
        return clean::clean(root, args.dry_run, filter);
    }
    let plan = args.plan.as_deref().map(|path| Plan::read(path, root.as_deref(), filter)).transpose()?;
    if let (Some(plan), true) = (&plan, args.missing) {
        return plan.emit_missing(args.task_bytes, filter);
    }
    filter.flush_every_record();
    let writes_beside = args.form.report.is_some() || args.form.plot.is_some() || !args.form.export.is_empty();
    let mut groups = Groups::new(writes_beside.then(|| policy.protected.clone()));
    for task in plan.iter().flat_map(Plan::tasks) {
        let required = groups.require(&task);
        required.or_else(|why| refuse(&task.id, &why, filter))?;
    }
    let mut worker = Worker::new(&args, policy, filter);
    if reads_results(&args) {
        let mut input = Input::open(&args.inputs)?.with_expected_type("result");
        if args.inputs.iter().all(|path| path == Path::new("-")) {
            filter.yield_progress_to_upstream();
        }
        loop {
            match input.next_until(filter, groups.next_due())? {
                Polled::Ready(Record::Result(result)) => {
                    groups.add_result(&result).or_else(|why| refuse(&result.task.id, &why, filter))?;
                }
                Polled::Ready(other) => {
                    worker.note(&other);
                    filter.emit(&other)?;
                }
                Polled::Pending => (),
                Polled::End => break,
            }
            while let Some(group) = groups.take_due(Instant::now()) {
                worker.make(group)?;
            }
        }
        filter.resume_progress();
    }
    if let Some(root) = &root {
        for found in output::find_outputs(root) {
            match found {
                Ok(target) => groups.add_found(target),
                Err(why) => refuse("", &why, filter)?,
            }
        }
    }
    groups.iter_mut().filter(|group| group.schedule.is_open()).try_for_each(|group| worker.make(group))?;
    worker.judge(groups.iter_mut().map(|group| &*group));
    worker.merge()?;
    worker.report()
}

/// An output root, which must be there.
fn root(path: &Path) -> Result<PathBuf, Stop> {
    let root = std::path::absolute(path).map_err(|why| Stop::fatal(path.display(), why))?;
    match root.metadata() {
        Ok(found) if found.is_dir() => Ok(root),
        Err(why) if !matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(Stop::fatal(path.display(), why))
        }
        _ => Err(Stop::fatal(path.display(), "no such directory: expected an output root of plan-split")),
    }
}

/// Whether there are results to read: those of the operands, or of stdin unless an output root, or at
/// a terminal a plan, says what to gather.
fn reads_results(args: &Args) -> bool {
    let plan_is_stdin = args.plan.as_deref() == Some(Path::new("-"));
    let says_what = args.from.is_some() || plan_is_stdin || (args.plan.is_some() && std::io::stdin().is_terminal());
    !args.inputs.is_empty() || !says_what
}

fn refuse(id: &str, why: &output::OutputError, filter: &Filter) -> Result<(), Stop> {
    let about = if id.is_empty() { "parts".to_owned() } else { format!("task {id}") };
    filter.fail(Fail { id: id.to_owned(), about, error: why.to_string(), ..Fail::default() })
}
