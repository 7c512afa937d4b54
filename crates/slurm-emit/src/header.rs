//! The directives of each kind of job.

use filter::quote;

use crate::directive::{Directive, List};
use crate::job::Job;

/// Of an array of so many elements.
///
/// # Errors
/// A value that no directive can hold.
pub fn of_array(job: &Job, elements: usize) -> Result<Vec<Directive>, quote::QuoteError> {
    let (site, size) = (&job.site, &job.size);
    let mut list = List::new(job);
    list.add("--job-name", "--job-name", site.job_name.as_deref().unwrap_or(NAME), "what squeue shows")?;
    list.place("%A_%a.log", "one log an element; %A is the job, %a the element")?;
    let range = format!("0-{}%{}", elements.saturating_sub(1), size.workers);
    let workers = size.workers;
    let why = format!("an element for each batch, {workers} at a time; ./submit gives the elements that are missing");
    list.add("--n-workers", "--array", &range, &why)?;
    list.optional("--partition", site.partition.as_deref(), "where to run")?;
    list.optional("--account", site.account.as_deref(), "who is charged")?;
    cpus(&mut list, job)?;
    if let Some((option, memory)) = job.memory {
        let why = "without it, a job may get all memory of a node, or too little";
        list.add(option, option, &memory.to_string(), why)?;
    }
    let why = "the walltime of an element, which SLURM counts in minutes";
    list.add("--time", "--time", &job.walltime.to_string(), why)?;
    drains(&mut list, job)?;
    resources(&mut list, job)?;
    Ok(list.into_directives())
}

/// Of the closing gather.
///
/// # Errors
/// A value that no directive can hold.
pub fn of_gather(job: &Job) -> Result<Vec<Directive>, quote::QuoteError> {
    let mut list = List::new(job);
    small(&mut list, job, "gather", "gather_%j.log")?;
    list.add("--cores-per-worker", "--cpus-per-task", &job.size.threads.to_string(), "as many threads as an engine")?;
    if let Some(("--mem", memory)) = job.memory {
        list.add("--mem", "--mem", &memory.to_string(), "as the array")?;
    }
    list.flag("--target", "--requeue", "runs again after the death of its node");
    Ok(list.into_directives())
}

/// Of the job of a driver, whose workers are jobs of their own.
///
/// # Errors
/// A value that no directive can hold.
pub fn of_driver(job: &Job) -> Result<Vec<Directive>, quote::QuoteError> {
    let mut list = List::new(job);
    small(&mut list, job, "driver", "driver_%j.log")?;
    list.add("--target", "--cpus-per-task", "2", "dask's scheduler, and gather")?;
    list.add("--target", "--mem", "4G", "dask's scheduler, and gather")?;
    drains(&mut list, job)?;
    Ok(list.into_directives())
}

/// Of a job on so many nodes, with a Ray of its own.
///
/// # Errors
/// A value that no directive can hold.
pub fn of_ray(job: &Job) -> Result<Vec<Directive>, quote::QuoteError> {
    let (site, size) = (&job.site, &job.size);
    let mut list = List::new(job);
    let name = format!("{}-ray", site.job_name.as_deref().unwrap_or(NAME));
    list.add("--job-name", "--job-name", &name, "what squeue shows")?;
    list.place("ray_%j.log", "its log; %j is the job")?;
    list.optional("--partition", site.partition.as_deref(), "where to run")?;
    list.optional("--account", site.account.as_deref(), "who is charged")?;
    list.add("--n-workers", "--nodes", &size.workers.to_string(), "nodes, all at once")?;
    list.add("--target", "--ntasks-per-node", "1", "one Ray a node")?;
    let why = format!("{} engines of {} threads", size.engines, size.threads);
    list.add("--cores-per-worker", "--cpus-per-task", &size.cpus().to_string(), &why)?;
    if let Some((option, memory)) = job.memory {
        list.add(option, option, &memory.to_string(), "of a node; without it, a job may get all or too little")?;
    }
    list.add("--time", "--time", &job.walltime.to_string(), "of the whole, which is requeued when it is not enough")?;
    drains(&mut list, job)?;
    resources(&mut list, job)?;
    Ok(list.into_directives())
}

/// Of dask's workers, but for what dask-jobqueue writes itself.
///
/// # Errors
/// A value that no directive can hold.
pub fn of_worker(job: &Job) -> Result<Vec<Directive>, quote::QuoteError> {
    let mut list = List::new(job);
    list.log("worker_%j.log", "its log; %j is the job")?;
    resources(&mut list, job)?;
    Ok(list.into_directives())
}

/// What jobs are called, where the user does not say it.
const NAME: &str = "azpipe";

/// A job that needs no GPU, beside those that integrate.
fn small(list: &mut List<'_>, job: &Job, kind: &str, log: &str) -> Result<(), quote::QuoteError> {
    let site = &job.site;
    let name = format!("{}-{kind}", site.job_name.as_deref().unwrap_or(NAME));
    list.add("--job-name", "--job-name", &name, "what squeue shows")?;
    list.place(log, "its log; %j is the job")?;
    if let Some(partition) = site.gather_partition.as_deref().or(site.partition.as_deref()) {
        list.add("--gather-partition", "--partition", partition, "where to run; it needs no GPU")?;
    }
    list.optional("--account", site.account.as_deref(), "who is charged")?;
    list.optional("--qos", site.qos.as_deref(), "the quality of service")?;
    list.optional("--reservation", site.reservation.as_deref(), "what is reserved for this")?;
    list.add("--target", "--ntasks", "1", "one process")?;
    list.add("--time", "--time", &job.walltime.to_string(), "as those that integrate")
}

/// The CPUs of an element: of one task, or of several where the site wants them counted so.
fn cpus(list: &mut List<'_>, job: &Job) -> Result<(), quote::QuoteError> {
    let size = &job.size;
    let why = format!("{} engines of {} threads", size.engines, size.threads);
    let Some(tasks) = job.site.ntasks_per_node else {
        list.add("--target", "--ntasks", "1", "one ai-integrate an element; its engines are threads")?;
        return list.add("--cores-per-worker", "--cpus-per-task", &size.cpus().to_string(), &why);
    };
    list.add("--ntasks-per-node", "--nodes", "1", "one ai-integrate an element; its engines are threads")?;
    list.add(
        "--ntasks-per-node",
        "--ntasks-per-node",
        &tasks.to_string(),
        "the CPUs of an element, as the site counts",
    )?;
    list.add("--cores-per-worker", "--cpus-per-task", &size.cpus().div_ceil(tasks).to_string(), &why)
}

/// How a job is told of its walltime and begun again.
fn drains(list: &mut List<'_>, job: &Job) -> Result<(), quote::QuoteError> {
    let signal = format!("B:USR1@{}", job.drain_seconds);
    let why = "tells this script of the walltime so many seconds before, or up to a minute earlier";
    list.add("--drain-seconds", "--signal", &signal, why)?;
    list.flag("--target", "--requeue", "runs again after the death of its node, and when it asks for it itself");
    Ok(())
}

/// What the site is asked for, beside CPUs, memory and time.
fn resources(list: &mut List<'_>, job: &Job) -> Result<(), quote::QuoteError> {
    let site = &job.site;
    if let Some((option, value)) = job.gpus.option() {
        list.add(option, option, value, "shared by the engines")?;
    }
    let threads = site.threads_per_core.map(|threads| threads.to_string());
    for (option, value, why) in [
        ("--qos", &site.qos, "the quality of service"),
        ("--reservation", &site.reservation, "what is reserved for this"),
        ("--constraint", &site.constraint, "features of the nodes"),
        ("--nodelist", &site.nodelist, "these nodes"),
        ("--exclude", &site.exclude, "other nodes than these"),
        ("--licenses", &site.licenses, "what has to be free"),
        ("--hint", &site.hint, "which hardware threads count as CPUs"),
        ("--threads-per-core", &threads, "hardware threads of a core to use"),
    ] {
        list.optional(option, value.as_deref(), why)?;
    }
    if site.exclusive {
        list.flag("--exclusive", "--exclusive", "no other job on its node");
    }
    Ok(())
}
