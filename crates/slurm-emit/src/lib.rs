//! Turns task records into a directory of scripts that integrate them: for SLURM, dask, Ray, GNU
//! parallel, make, or this machine alone. Nothing here schedules. SLURM's queue, or that of the
//! chosen target, hands out the batches, starts them again after failures, and accounts for them.
//!
//! 1. `args`, `flags` and `settings_files` read the command line, the profile of the site, and the
//!    configuration of ESRF's integrator (`integrator_ini`, which also prints the pipe that runs
//!    it).
//! 2. `task_plan` reads the tasks, and keeps them compressed (`compressed_lines`).
//! 3. `resolve_settings` makes `job_settings`, with defaults: memory and walltime from `estimate`,
//!    the rate from `measured_rate`, the number of jobs, engines and threads from `job_size`.
//! 4. `targets` has a `JobTarget` for each `--target`, which divides the plan into `batches` and
//!    fills the templates of its scripts (`scripts`); `job_directives` lists the `#SBATCH` lines,
//!    each with its reason.
//! 5. `explain` shows all settings, or `job_dir` writes the directory; `manifest` knows which files
//!    in it may be replaced. `append` adds tasks to it while they arrive.
//! 6. `submission_check` asks SLURM and bash whether the jobs would run, and looks for the
//!    `required_tool`s of the target.
//!
//! # Example
//! A job array of at most four jobs at a time, and its submission:
//! ```sh
//! plan-split --poni lab6.poni --out PROCESSED scans.jsonl > tasks.jsonl
//! slurm-emit --partition gpu --n-workers 4 --dir jobs tasks.jsonl
//! jobs/submit
//! ```
//! The command line is available to other programs, such as one that writes the manual page:
//! ```
//! let command = slurm_emit::command();
//! assert_eq!(command.get_name(), "slurm-emit");
//! assert!(command.get_arguments().any(|argument| argument.get_long() == Some("partition")));
//! ```
//!
//! Behaviour of the program is tested in `tests/integration/slurm`.

mod append;
mod args;
mod batches;
mod check_failure;
mod cluster_argument;
mod compressed_lines;
mod directive;
mod directory_listing;
mod error;
mod estimate;
mod explain;
mod external_program;
mod flags;
mod frame_maxima;
mod gpus;
mod integrator_ini;
mod job_dir;
mod job_directives;
mod job_settings;
mod job_size;
mod manifest;
mod measured_rate;
mod memory;
#[cfg(test)]
mod message_tests;
mod partitions;
mod passed_arguments;
mod python_literals;
mod recipe_sizes;
mod required_tool;
mod resolve_settings;
mod scripts;
mod settings_files;
mod submission_check;
mod targets;
mod task_plan;
mod unused_flags;
mod walltime;

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use filter::{Filter, Stop};
use records::{Fail, Record};

use args::Args;
use integrator_ini::IntegratorIni;
use job_settings::JobSettings;
use partitions::{Partition, list_partitions, select_partitions};
use records::format_count;
use resolve_settings::resolve_settings;
use scripts::Script;
use targets::JobTarget;
use task_plan::TaskPlan;

/// Returns the command line, for the manual page.
pub fn command() -> clap::Command {
    filter::command::<Args>("slurm-emit")
}

/// Runs the filter and returns its exit status.
pub fn main() -> ExitCode {
    filter::run("slurm-emit", run)
}

fn run(args: Args, filter: &Filter) -> Result<(), Stop> {
    if let (true, Some(path)) = (args.print_pipe, &args.integrator_ini) {
        let pipe = IntegratorIni::read(path)?.pipe(&std::env::args_os().collect::<Vec<_>>())?;
        let not_text = |line| {
            Stop::fatal("--print-pipe", format_args!("{line:?}: expected flags and paths of UTF-8"))
        };
        let text = |line: OsString| line.into_string().map_err(not_text);
        return pipe.into_iter().try_for_each(|line| filter.emit(&Record::Other(text(line)?)));
    }
    let args = settings_files::add_settings_from_files(args)?.with_local_target();
    if let Some(warning) = unused_flags::describe(&args.target) {
        filter.warn(&warning);
    }
    if args.append {
        return append::run(&args, filter);
    }
    let plan = TaskPlan::read(&args.files, filter)?;
    let job = resolve_settings(&args, &plan)?;
    let target = &*args.target;
    report_size(&args, &job, filter)?;
    let batches = target.batches(&job, &plan)?;
    let batch_count = batches.as_ref().map(Vec::len);
    let batches = batches.unwrap_or_default();
    let scripts = target.scripts(&job, &plan, &batches)?;
    if args.explain {
        let size = if target.runs_elsewhere() { job.size } else { job.size_on_this_machine() };
        let arguments = target.ai_integrate_arguments(&job, &size);
        // The table takes the place of records on stdout.
        let mut lines =
            explain::format_table(target.explain(&job, batches.len())?, &arguments).into_iter();
        return lines.try_for_each(|line| filter.emit(&Record::Other(line)));
    }
    let check_stopped = || filter.check_stopped();
    job_dir::write_job_dir(&job.dir, &plan, &batches, &scripts, &check_stopped)?;
    for batch in &batches {
        let bytes: u64 = plan.stored_bytes()[batch.tasks.clone()].iter().sum();
        let tasks = format_count(batch.tasks.len() as u64, "task");
        filter.note(1, || {
            format!("batch {}: {tasks}, {:.3} GB of stored data", batch.name, bytes as f64 / 1e9)
        });
    }
    filter.note(0, || written_note(&args, &job, plan.lines().len(), batch_count));
    if args.check {
        check(target, &job, &scripts, filter)?;
    }
    if args.submit { submit(&job.dir, &[]) } else { Ok(()) }
}

/// Returns the message about the written directory, with what to do next. Without batches, a driver
/// hands out the tasks.
fn written_note(args: &Args, job: &JobSettings, tasks: usize, batches: Option<usize>) -> String {
    let tasks = format_count(tasks as u64, "task");
    let batches = batches
        .map(|count| format!(" in {}", format_count(count as u64, "batch")))
        .unwrap_or_default();
    if args.submit {
        format!("{tasks}{batches} written to {}", job.dir.display())
    } else {
        format!(
            "{tasks}{batches} written; start the jobs with {}",
            job.dir.join("submit").display()
        )
    }
}

/// Reports every reason for which the jobs would not run, as a `fail` record and a message.
fn check(
    target: &dyn JobTarget,
    job: &JobSettings,
    scripts: &[Script],
    filter: &Filter,
) -> Result<(), Stop> {
    let failures = submission_check::find_failures(target, job, scripts);
    if failures.is_empty() {
        return Ok(());
    }
    let problems = format_count(failures.len() as u64, "problem");
    for failure in failures {
        filter.fail(Fail { about: failure.subject, error: failure.why, ..Fail::default() })?;
    }
    Err(Stop::fatal(
        "--check",
        format_args!("{problems}, listed above: the jobs would not run, and are not submitted"),
    ))
}

/// Reports the number of jobs, engines, threads and CPUs, with a warning for each rule of thumb
/// that they break.
fn report_size(args: &Args, job: &JobSettings, filter: &Filter) -> Result<(), Stop> {
    let warnings: Vec<String> = if args.target.runs_elsewhere() {
        filter.note(0, || job.size.to_string());
        let partition = job.slurm.partition.as_deref();
        let ask = || args.target.uses_slurm().then(|| ask_for_node_cpus(partition, filter))?;
        let node_cpus = args.size.node_cpus.or_else(ask);
        if let Some(node_cpus) = node_cpus {
            args.target.check_node(job, node_cpus)?;
        }
        job.size.cluster_warnings(node_cpus)
    } else {
        let cpus = args.size.node_cpus.unwrap_or(system::cpu::available_cpus() as u64);
        let size = job.size_request.on_machine(cpus, job.size.gpus);
        filter.note(0, || size.to_string());
        job.size_request.machine_warning(cpus).into_iter().chain(size.gpu_warning()).collect()
    };
    warnings.iter().for_each(|warning| filter.warn(warning));
    Ok(())
}

/// Asks SLURM for the CPUs of the smallest node that a job may run on. Returns `None` on a machine
/// without SLURM, and, with a warning, if SLURM does not answer.
fn ask_for_node_cpus(requested: Option<&str>, filter: &Filter) -> Option<u64> {
    match list_partitions() {
        Ok(all) => smallest_node_cpus(&all, requested),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            filter.warn(&format!(
                "sinfo: {error}; the size of a job is not compared with that of the nodes, whose CPUs --node-cpus can give"
            ));
            None
        }
    }
}

/// Returns the CPUs of the smallest node that a job may run on.
fn smallest_node_cpus(all: &[Partition], requested: Option<&str>) -> Option<u64> {
    select_partitions(all, requested).iter().map(|partition| partition.cpus).min()
}

/// Runs `submit`. Its messages go to stderr, because stdout is for records.
fn submit(dir: &Path, arguments: &[&str]) -> Result<(), Stop> {
    let path = dir.join("submit");
    let failed = |why: &dyn std::fmt::Display| Stop::fatal(path.display(), why);
    // Without a slash, the program would be looked for in PATH.
    let program = std::path::absolute(&path).map_err(|error| failed(&error))?;
    match Command::new(program).args(arguments).stdin(Stdio::null()).stdout(io::stderr()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(&format_args!("ended with {status}; see its messages above"))),
        Err(error) => Err(failed(&error)),
    }
}
