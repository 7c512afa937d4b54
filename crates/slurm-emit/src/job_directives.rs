//! The directives of each kind of job.

use crate::directive::{Directive, DirectiveList};
use crate::error::EmitError;
use crate::job_settings::JobSettings;
use records::format_count;

/// Returns the directives of a job array with `elements` elements.
///
/// # Errors
/// Fails if no directive can hold a value.
pub fn array_directives(job: &JobSettings, elements: usize) -> Result<Vec<Directive>, EmitError> {
    let (slurm, size) = (&job.slurm, &job.size);
    let mut list = DirectiveList::new(job);
    list.add(
        "--job-name",
        "--job-name",
        slurm.job_name.as_deref().unwrap_or(DEFAULT_NAME),
        JOB_NAME_REASON,
    )?;
    list.add_directory("%A_%a.log", "one log per element; %A is the job, %a the element")?;
    let range = format!("0-{}%{}", elements.saturating_sub(1), size.workers);
    let workers = size.workers;
    let why = format!(
        "one element per batch, {workers} at a time; ./submit passes the elements that are missing"
    );
    list.add("--n-workers", "--array", &range, &why)?;
    list.add_if_given("--partition", slurm.partition.as_deref(), PARTITION_REASON)?;
    list.add_if_given("--account", slurm.account.as_deref(), ACCOUNT_REASON)?;
    add_cpus(&mut list, job)?;
    if let Some((option, memory)) = job.memory {
        let why = "without it, a job may get all memory of a node, or too little";
        list.add(option, option, &memory.to_string(), why)?;
    }
    let why = "walltime of an element, which SLURM rounds up to minutes";
    list.add("--time", "--time", &job.walltime.to_string(), why)?;
    add_requeue(&mut list, job)?;
    add_resources(&mut list, job)?;
    Ok(list.into_directives())
}

/// Returns the directives of the closing gather.
///
/// # Errors
/// Fails if no directive can hold a value.
pub fn gather_directives(job: &JobSettings) -> Result<Vec<Directive>, EmitError> {
    let mut list = DirectiveList::new(job);
    add_gpuless_job(&mut list, job, "gather", "gather_%j.log")?;
    let threads = job.size.threads.to_string();
    list.add(
        "--cores-per-worker",
        "--cpus-per-task",
        &threads,
        "as many threads as an engine has",
    )?;
    if let Some(("--mem", memory)) = job.memory {
        list.add("--mem", "--mem", &memory.to_string(), "as the job array")?;
    }
    list.add_switch("--target", "--requeue", "runs again if its node fails");
    Ok(list.into_directives())
}

/// Returns the directives of the job that runs dask's driver. Its workers are separate jobs.
///
/// # Errors
/// Fails if no directive can hold a value.
pub fn driver_directives(job: &JobSettings) -> Result<Vec<Directive>, EmitError> {
    let mut list = DirectiveList::new(job);
    add_gpuless_job(&mut list, job, "driver", "driver_%j.log")?;
    list.add("--target", "--cpus-per-task", "2", "for dask's scheduler and gather")?;
    list.add("--target", "--mem", "4G", "for dask's scheduler and gather")?;
    add_requeue(&mut list, job)?;
    Ok(list.into_directives())
}

/// Returns the directives of a job on several nodes that starts its own Ray.
///
/// # Errors
/// Fails if no directive can hold a value.
pub fn ray_directives(job: &JobSettings) -> Result<Vec<Directive>, EmitError> {
    let (slurm, size) = (&job.slurm, &job.size);
    let mut list = DirectiveList::new(job);
    let name = format!("{}-ray", slurm.job_name.as_deref().unwrap_or(DEFAULT_NAME));
    list.add("--job-name", "--job-name", &name, JOB_NAME_REASON)?;
    list.add_directory("ray_%j.log", LOG_REASON)?;
    list.add_if_given("--partition", slurm.partition.as_deref(), PARTITION_REASON)?;
    list.add_if_given("--account", slurm.account.as_deref(), ACCOUNT_REASON)?;
    list.add(
        "--n-workers",
        "--nodes",
        &size.workers.to_string(),
        "number of nodes, all at the same time",
    )?;
    list.add("--target", "--ntasks-per-node", "1", "one Ray per node")?;
    list.add("--cores-per-worker", "--cpus-per-task", &size.cpus().to_string(), &cpus_reason(job))?;
    if let Some((option, memory)) = job.memory {
        let why = "of a node; without it, a job may get all of its memory, or too little";
        list.add(option, option, &memory.to_string(), why)?;
    }
    let why = "walltime of the whole job, which is requeued if the time is too short";
    list.add("--time", "--time", &job.walltime.to_string(), why)?;
    add_requeue(&mut list, job)?;
    add_resources(&mut list, job)?;
    Ok(list.into_directives())
}

/// Returns the directives of dask's workers that dask-jobqueue does not write itself.
///
/// # Errors
/// Fails if no directive can hold a value.
pub fn worker_directives(job: &JobSettings) -> Result<Vec<Directive>, EmitError> {
    let mut list = DirectiveList::new(job);
    list.add_log("worker_%j.log", LOG_REASON)?;
    add_resources(&mut list, job)?;
    Ok(list.into_directives())
}

/// The name of the jobs without `--job-name`.
const DEFAULT_NAME: &str = "azpipe";

// Reasons that several kinds of jobs share.
pub const JOB_NAME_REASON: &str = "name that squeue shows";
pub const PARTITION_REASON: &str = "partition to run in";
pub const ACCOUNT_REASON: &str = "account that is charged";
const LOG_REASON: &str = "log of the job; %j is the job";
const QOS_REASON: &str = "quality of service";
const RESERVATION_REASON: &str = "reservation to run in";

/// Adds the directives of a job that needs no GPU and accompanies the jobs that integrate.
fn add_gpuless_job(
    list: &mut DirectiveList<'_>,
    job: &JobSettings,
    kind: &str,
    log: &str,
) -> Result<(), EmitError> {
    let slurm = &job.slurm;
    let name = format!("{}-{kind}", slurm.job_name.as_deref().unwrap_or(DEFAULT_NAME));
    list.add("--job-name", "--job-name", &name, JOB_NAME_REASON)?;
    list.add_directory(log, LOG_REASON)?;
    if let Some(partition) = slurm.gather_partition.as_deref().or(slurm.partition.as_deref()) {
        list.add(
            "--gather-partition",
            "--partition",
            partition,
            "partition to run in; no GPU is needed",
        )?;
    }
    list.add_if_given("--account", slurm.account.as_deref(), ACCOUNT_REASON)?;
    list.add_if_given("--qos", slurm.qos.as_deref(), QOS_REASON)?;
    list.add_if_given("--reservation", slurm.reservation.as_deref(), RESERVATION_REASON)?;
    list.add("--target", "--ntasks", "1", "one process")?;
    list.add("--time", "--time", &job.walltime.to_string(), "as the jobs that integrate")
}

/// Returns the reason for the number of CPUs of a job.
fn cpus_reason(job: &JobSettings) -> String {
    format!(
        "{} x {}",
        format_count(job.size.engines, "engine"),
        format_count(job.size.threads, "thread")
    )
}

/// Adds the CPUs of an element: of one SLURM task, or of several with `--ntasks-per-node`.
fn add_cpus(list: &mut DirectiveList<'_>, job: &JobSettings) -> Result<(), EmitError> {
    const ONE_PROCESS: &str = "one ai-integrate per element; its engines are threads";
    let (size, why) = (&job.size, cpus_reason(job));
    match job.slurm.ntasks_per_node {
        None => {
            list.add("--target", "--ntasks", "1", ONE_PROCESS)?;
            list.add("--cores-per-worker", "--cpus-per-task", &size.cpus().to_string(), &why)
        }
        Some(tasks) => {
            let flag = "--ntasks-per-node";
            list.add(flag, "--nodes", "1", ONE_PROCESS)?;
            list.add(
                flag,
                flag,
                &tasks.to_string(),
                "CPUs of an element, counted as the site requires",
            )?;
            list.add(
                "--cores-per-worker",
                "--cpus-per-task",
                &size.cpus().div_ceil(tasks).to_string(),
                &why,
            )
        }
    }
}

/// Adds the signal before the walltime, and leave to run again.
fn add_requeue(list: &mut DirectiveList<'_>, job: &JobSettings) -> Result<(), EmitError> {
    let signal = format!("B:USR1@{}", job.drain_seconds);
    let why = "signals this script so many seconds before the walltime, or up to a minute earlier";
    list.add("--drain-seconds", "--signal", &signal, why)?;
    list.add_switch(
        "--target",
        "--requeue",
        "runs again if its node fails, and if it requeues itself",
    );
    Ok(())
}

/// Adds the resources that a job requests besides CPUs, memory and time.
fn add_resources(list: &mut DirectiveList<'_>, job: &JobSettings) -> Result<(), EmitError> {
    let slurm = &job.slurm;
    if let Some((option, value)) = job.gpus.sbatch_option() {
        list.add(option, option, value, "shared by the engines of a job")?;
    }
    let threads_per_core = slurm.threads_per_core.map(|threads| threads.to_string());
    for (option, value, why) in [
        ("--qos", &slurm.qos, QOS_REASON),
        ("--reservation", &slurm.reservation, RESERVATION_REASON),
        ("--constraint", &slurm.constraint, "features that the nodes must have"),
        ("--nodelist", &slurm.nodelist, "nodes to use"),
        ("--exclude", &slurm.exclude, "nodes not to use"),
        ("--licenses", &slurm.licenses, "licenses that must be free"),
        ("--hint", &slurm.hint, "hardware threads that count as CPUs"),
        ("--threads-per-core", &threads_per_core, "hardware threads of a core to use"),
    ] {
        list.add_if_given(option, value.as_deref(), why)?;
    }
    if slurm.exclusive {
        list.add_switch("--exclusive", "--exclusive", "shares its node with no other job");
    }
    Ok(())
}
