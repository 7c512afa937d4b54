//! slurm-emit: task records in, a directory of job scripts out, for engines that exist. Nothing here
//! schedules: SLURM's own queue hands out the batches, starts them again, and accounts for them.

mod args;
mod batches;
mod check;
mod cluster;
mod demand;
mod directive;
mod error;
mod explain;
mod folder;
mod gpus;
mod header;
mod job;
mod lines;
mod manifest;
mod memory;
mod plan;
mod profile;
mod python;
mod rate;
mod scripts;
mod size;
mod targets;
mod walltime;

use std::io;
use std::process::{Command, ExitCode};

use filter::{Filter, Stop};
use records::{Fail, Record};

use args::{Args, Target};
use job::Job;
use plan::Plan;
use scripts::Script;

/// The command line, for the manual page.
pub fn command() -> clap::Command {
    filter::command::<Args>("slurm-emit")
}

/// Runs the filter.
pub fn main() -> ExitCode {
    filter::run("slurm-emit", run)
}

fn run(args: Args, filter: &Filter) -> Result<(), Stop> {
    let args = profile::with_files(args).map_err(|why| Stop::fatal("no jobs", why))?.with_partition_names();
    let plan = Plan::read(&args.files, filter)?;
    let job = Job::new(&args, &plan).map_err(|why| Stop::fatal("no jobs", why))?;
    tell_size(&args, &job, filter)?;
    let unwritten = |why| Stop::fatal("no scripts", why);
    let (batches, scripts) = targets::emit(args.target, &job, &plan).map_err(unwritten)?;
    if args.explain {
        let table = explain::table(args.target, &job, batches.len()).map_err(|why| unwritten(why.into()))?;
        // Text in place of records is what was asked for.
        return table.into_iter().try_for_each(|line| filter.emit(&Record::Other(line)));
    }
    folder::write(&job.dir, &plan, &batches, &scripts).map_err(unwritten)?;
    let (tasks, count) = (plan.lines().len(), batches.len());
    // drivers hand out tasks one by one
    let cut = if count == 0 && tasks > 0 { String::new() } else { format!(" in {count} batches") };
    filter.note(0, || format!("{tasks} tasks{cut}: {}", job.dir.join("submit").display()));
    if args.check {
        check(args.target, &job, &scripts, filter)?;
    }
    if args.submit { submit(&job) } else { Ok(()) }
}

/// Tells every reason why the jobs would not run, if there is one.
fn check(target: Target, job: &Job, scripts: &[Script], filter: &Filter) -> Result<(), Stop> {
    let refusals = check::refusals(target, job, scripts);
    if refusals.is_empty() {
        return Ok(());
    }
    for refusal in refusals {
        filter.fail(Fail { about: refusal.about, error: refusal.why, ..Fail::default() })?;
    }
    Err(Stop::fatal(job.dir.display(), "the jobs would not run"))
}

/// The product of workers, engines and threads, and what is wrong with it.
fn tell_size(args: &Args, job: &Job, filter: &Filter) -> Result<(), Stop> {
    filter.note(0, || job.size.to_string());
    let smallest = |all: Vec<cluster::Partition>| {
        cluster::of_job(&all, args.site.partition.as_deref()).iter().map(|partition| partition.cpus).min()
    };
    let warnings = match args.target {
        target if target.is_slurm() => {
            let node_cpus = args.size.node_cpus.or_else(|| cluster::partitions().ok().and_then(smallest));
            if let (Target::Ray, Some(node)) = (target, node_cpus.filter(|node| job.size.cpus() > *node)) {
                let why = format!("a node has {node}, and Ray would wait for ever for one that has them");
                return Err(Stop::fatal(format_args!("{} CPUs a job", job.size.cpus()), why));
            }
            job.size.warnings(node_cpus)
        }
        _ => job.size.warnings_here(args.size.node_cpus.unwrap_or(filter::cpu::available_cpus() as u64)),
    };
    warnings.iter().for_each(|warning| filter.warn(warning));
    Ok(())
}

/// Runs `submit`. What it says goes to stderr, for stdout is for records.
fn submit(job: &Job) -> Result<(), Stop> {
    let path = job.dir.join("submit");
    let status = Command::new(&path).stdout(io::stderr()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Stop::fatal(path.display(), status)),
        Err(why) => Err(Stop::fatal(path.display(), why)),
    }
}
