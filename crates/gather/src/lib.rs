//! gather: result records in, one final file and one summary record a scan and recipe out. What counts
//! is what the parts hold; records only say where to look.

mod args;
mod group;
mod plan;
mod work;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use manners::owned::ReplacePolicy;
use manners::{Filter, Input, Stop};
use patterns::finals;
use records::{Fail, Record, TaskResult};

use args::Args;
use group::Groups;
use plan::Plan;
use work::Worker;

/// The command line, for the manual page.
pub fn command() -> clap::Command {
    manners::command::<Args>("gather")
}

/// Runs the filter.
pub fn main() -> ExitCode {
    manners::run("gather", run)
}

fn run(args: Args, filter: &Filter) -> Result<(), Stop> {
    let policy = ReplacePolicy { overwrite: args.form.overwrite, ..ReplacePolicy::default() };
    args.check(&policy)?;
    let root = args.from.as_deref().map(root).transpose()?;
    let plan = args.plan.as_deref().map(|path| Plan::read(path, root.as_deref(), filter)).transpose()?;
    if let (Some(plan), true) = (&plan, args.missing) {
        return plan.emit_missing(args.task_bytes, filter);
    }
    filter.flush_each();
    let writes_beside = args.form.report.is_some() || args.form.plot.is_some() || !args.form.export.is_empty();
    let mut groups = Groups::new(writes_beside.then(|| policy.protected.clone()));
    for task in plan.iter().flat_map(Plan::tasks) {
        let required = groups.require(&task);
        required.or_else(|why| refuse(&task.id, &why, filter))?;
    }
    let mut worker = Worker::new(&args, policy, filter);
    if reads_results(&args) {
        let mut input = Input::open(&args.inputs)?.expecting("result");
        if args.inputs.iter().all(|path| path == Path::new("-")) {
            filter.leave_line_to_stdin();
        }
        while let Some(record) = input.next(filter)? {
            match record {
                Record::Result(result) => take(*result, &mut groups, &mut worker, filter)?,
                other => {
                    worker.note(&other);
                    filter.emit(&other)?;
                }
            }
        }
        filter.take_line();
    }
    if let Some(root) = &root {
        for found in finals::targets(root) {
            match found {
                Ok(target) => groups.add_found(target),
                Err(why) => refuse("", &why, filter)?,
            }
        }
    }
    groups.iter_mut().filter(|group| group.is_open).try_for_each(|group| worker.make(group))?;
    worker.merge()?;
    worker.report()
}

/// An output root, which must be there.
fn root(path: &Path) -> Result<PathBuf, Stop> {
    let root = std::path::absolute(path).map_err(|why| Stop::fatal(path.display(), why))?;
    match root.is_dir() {
        true => Ok(root),
        false => Err(Stop::fatal(path.display(), "no such directory: expected an output root of plan-split")),
    }
}

/// Whether there are results to read: those of the operands, or of stdin unless an output root, or at
/// a terminal a plan, says what to gather.
fn reads_results(args: &Args) -> bool {
    let plan_is_stdin = args.plan.as_deref() == Some(Path::new("-"));
    let says_what = args.from.is_some() || plan_is_stdin || (args.plan.is_some() && std::io::stdin().is_terminal());
    !args.inputs.is_empty() || !says_what
}

/// Takes a result, and makes the final where it was the last of its scan.
fn take(result: TaskResult, groups: &mut Groups, worker: &mut Worker, filter: &Filter) -> Result<(), Stop> {
    match groups.add_result(&result) {
        Ok(Some(group)) => worker.make(group),
        Ok(None) => Ok(()),
        Err(why) => refuse(&result.task.id, &why, filter),
    }
}

fn refuse(id: &str, why: &finals::Error, filter: &Filter) -> Result<(), Stop> {
    let about = if id.is_empty() { "parts".to_owned() } else { format!("task {id}") };
    filter.fail(Fail { id: id.to_owned(), about, error: why.to_string(), ..Fail::default() })
}
