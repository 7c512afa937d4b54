//! The scripts for dask: a driver over dask-jobqueue, or over workers on this machine, and the job of it.

use std::ffi::OsString;
use std::fmt::Write as _;

use filter::quote;

use crate::directive;
use crate::explain::Row;
use crate::header;
use crate::job::Job;
use crate::memory::Memory;
use crate::python;
use crate::scripts::{DIRECTIVES, SETTINGS, Script, assign, concat, fill};
use crate::targets::driver::{self, Place};
use crate::targets::local::with_commands;

/// Seconds before the walltime at which a worker goes, and its unfinished task to another one.
const LIFETIME_MARGIN: u64 = 120;

/// What dask-jobqueue calls its jobs.
const NAME: &str = "dask-worker";

/// The scripts for workers that are jobs of SLURM.
///
/// # Errors
/// A value that no directive can hold.
pub fn scripts(job: &Job) -> Result<Vec<Script>, quote::QuoteError> {
    let directives = directive::lines(&header::of_driver(job)?, &[])?;
    let settings = concat(&[&job.setup_lines(), &assign("python", &job.python)]);
    let texts = [(DIRECTIVES, &*directives), (SETTINGS, &settings)];
    let mut out = vec![
        driver::plan(job, Place::Cluster),
        driver_script(&jobqueue(job)?),
        Script::read("dask.sbatch", fill(include_str!("dask/dask.sbatch"), &texts)),
    ];
    out.extend(driver::commands(job, "dask.sbatch"));
    Ok(out)
}

/// The scripts for workers on this machine.
pub fn scripts_for_local(job: &Job) -> Vec<Script> {
    with_commands(
        job,
        1,
        vec![driver::plan(job, Place::Here), driver_script(&local_cluster(job)), driver::start_here(job)],
    )
}

fn driver_script(cluster: &str) -> Script {
    let settings = format!("\n\n{cluster}");
    Script::read("driver.py", fill(include_str!("dask/driver.py"), &[(SETTINGS, settings.as_ref())]))
}

/// The function that starts jobs of SLURM.
fn jobqueue(job: &Job) -> Result<String, quote::QuoteError> {
    let (site, size) = (&job.site, &job.size);
    let worker = header::of_worker(job)?;
    let extra = worker.iter().map(directive::Directive::text).chain(asks_otherwise(job).map(OsString::from));
    let extra = extra.chain(site.directive.iter().cloned());
    let mut arguments = vec![
        ("cores", size.cpus().to_string()),
        ("processes", size.engines.to_string()),
        ("memory", python::text(dask_bytes(worker_memory(job)))),
        ("walltime", python::text(job.walltime.to_string())),
        ("job_name", python::text(site.job_name.as_deref().unwrap_or(NAME))),
        ("worker_extra_args", python::list(worker_arguments(job))),
        ("job_extra_directives", python::list(extra)),
        ("job_directives_skip", python::list(skipped(job))),
        ("job_script_prologue", python::list(&site.setup)),
        ("scheduler_options", "{\"dashboard_address\": None}".to_owned()),
    ];
    let named = [("queue", &site.partition), ("account", &site.account), ("interface", &site.interface)];
    arguments.extend(named.into_iter().filter_map(|(name, value)| Some((name, python::text(value.as_ref()?)))));
    let mut out = String::from(
        "def cluster():\n    \"\"\"Workers that are jobs of SLURM; one that has ended is followed by another.\"\"\"\n    \
         from dask_jobqueue import SLURMCluster\n\n    workers = SLURMCluster(\n",
    );
    for (name, value) in arguments {
        writeln!(out, "        {name}={value},").expect("memory takes all");
    }
    let jobs = size.workers;
    write!(out, "    )\n    workers.adapt(minimum_jobs={jobs}, maximum_jobs={jobs})\n    return workers\n")
        .expect("memory takes all");
    Ok(out)
}

/// The function that starts processes on this machine.
fn local_cluster(job: &Job) -> String {
    let (processes, threads) = (job.size.workers * job.size.engines, job.size.threads);
    format!(
        "def cluster():\n    \"\"\"Workers on this machine.\"\"\"\n    from dask.distributed import LocalCluster\n\n    \
         return LocalCluster(\n        n_workers={processes},\n        threads_per_worker={threads},\n        \
         resources={{\"engine\": 1}},\n        dashboard_address=None,\n    )\n"
    )
}

/// Arguments of `dask worker` that are not dask-jobqueue's own.
fn worker_arguments(job: &Job) -> Vec<String> {
    let lifetime = lifetime(job);
    ["--resources", "engine=1", "--lifetime", &lifetime].map(str::to_owned).into()
}

fn lifetime(job: &Job) -> String {
    let seconds = job.walltime.seconds();
    format!("{}s", seconds - LIFETIME_MARGIN.min(seconds / 4))
}

/// How dask-jobqueue's directives begin that it is to leave out: those that the site refuses, and its `--mem`
/// where the site wants memory to be asked for in another way.
fn skipped(job: &Job) -> Vec<String> {
    let short = [("partition", "-p"), ("account", "-A"), ("job-name", "-J"), ("ntasks", "-n"), ("time", "-t")];
    let begins = |name: &String| {
        let name = name.trim_start_matches('-');
        match short.iter().find(|(long, _)| *long == name) {
            Some((_, short)) => format!("#SBATCH {short} "),
            None => format!("#SBATCH --{name}="),
        }
    };
    let mut out: Vec<String> = job.site.skip_directive.iter().map(begins).collect();
    if asks_otherwise(job).is_some() {
        out.push("#SBATCH --mem=".to_owned());
    }
    out
}

/// The directive that asks for memory in another way than dask-jobqueue does.
fn asks_otherwise(job: &Job) -> Option<String> {
    let (option, memory) = job.memory.filter(|(option, _)| *option != "--mem")?;
    Some(format!("{option}={memory}"))
}

/// Memory of a job, which dask-jobqueue can't do without.
fn worker_memory(job: &Job) -> Memory {
    let (option, memory) = job.memory.unwrap_or(("--mem", job.memory_needed));
    match option {
        "--mem-per-cpu" => Memory::from_bytes(memory.bytes() * job.size.cpus()),
        "--mem-per-gpu" => Memory::from_bytes(memory.bytes() * job.size.gpus.max(1)),
        _ => memory,
    }
}

/// Bytes as dask reads them, in the largest unit that they are whole in.
fn dask_bytes(memory: Memory) -> String {
    let bytes = memory.bytes();
    let units = [(1_000_000_000, "GB"), (1 << 30, "GiB"), (1_000_000, "MB"), (1 << 20, "MiB"), (1, "B")];
    let (unit, name) = units.into_iter().find(|(unit, _)| bytes.is_multiple_of(*unit)).unwrap_or((1, "B"));
    format!("{}{name}", bytes / unit)
}

/// Bytes as `dask worker` is given them: `3.73GiB`.
fn dask_limit(bytes: u64) -> String {
    let units = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "kiB")];
    // as dask does, from nine tenths of a unit on
    let fits = |(unit, _): &(u64, &str)| bytes as f64 >= 0.9 * *unit as f64;
    match units.into_iter().find(fits) {
        Some((unit, name)) => format!("{:.2}{name}", bytes as f64 / unit as f64),
        None => format!("{bytes}B"),
    }
}

/// What becomes of each setting: an argument of SLURMCluster, a directive, an argument of `dask worker`.
///
/// # Errors
/// A value that no directive can hold.
pub fn rows(job: &Job) -> Result<Vec<Row>, quote::QuoteError> {
    let (site, size) = (&job.site, &job.size);
    let (cpus, engines, threads) = (size.cpus(), size.engines, size.threads);
    let memory = worker_memory(job);
    let asks = asks_otherwise(job).unwrap_or(format!("--mem={memory}"));
    let name = site.job_name.as_deref().unwrap_or(NAME);
    let mut rows = vec![
        Row::new("--job-name", format!("#SBATCH -J {name}"), "what squeue shows"),
        Row::new("--target", "#SBATCH -n 1", "one dask worker a job, of several processes"),
        Row::new("--cores", format!("SLURMCluster(cores={cpus})"), "CPUs of a job: processes x threads"),
        Row::new("--cores", format!("#SBATCH --cpus-per-task={cpus}"), "the same, for SLURM"),
        Row::new("--cores", format!("dask worker --nthreads {threads}"), "cores / processes: the threads of an engine"),
        Row::new("--processes", format!("SLURMCluster(processes={engines})"), "engines, which share the job's GPU"),
        Row::new("--processes", format!("dask worker --nworkers {engines}"), "a process each"),
        Row::new("--processes", "dask worker --resources engine=1", "each runs one task at a time, on all its threads"),
        Row::new("--memory", format!("SLURMCluster(memory=\"{}\")", dask_bytes(memory)), "memory of a job"),
        Row::new("--memory", format!("#SBATCH {asks}"), "the same in SLURM's units, rounded up"),
        Row::new(
            "--memory",
            format!("dask worker --memory-limit {}", dask_limit(memory.bytes() / engines)),
            "memory / processes",
        ),
        Row::new("--walltime", format!("SLURMCluster(walltime=\"{}\")", job.walltime), "the walltime of a job"),
        Row::new("--walltime", format!("#SBATCH -t {}", job.walltime), "the same, for SLURM"),
        Row::new("--walltime", format!("dask worker --lifetime {}", lifetime(job)), "it goes before it is killed"),
        Row::new("--target", "dask worker --nanny --death-timeout 60", "it goes if it finds no scheduler within 60 s"),
        Row::new("--n-workers", format!("adapt(minimum_jobs={0}, maximum_jobs={0})", size.workers), "jobs at a time"),
    ];
    if let Some(queue) = &site.partition {
        rows.push(Row::new("--queue", format!("#SBATCH -p {queue}"), "where to run"));
    }
    if let Some(account) = &site.account {
        rows.push(Row::new("--account", format!("#SBATCH -A {account}"), "who is charged"));
    }
    if let Some(interface) = &site.interface {
        rows.push(Row::new("--interface", format!("dask worker --interface {interface}"), "what it talks over"));
    }
    let skipped = skipped(job);
    rows.retain(|row| !skipped.iter().any(|begin| row.becomes().starts_with(begin)));
    rows.extend(header::of_worker(job)?.iter().map(Row::of_directive));
    let of_site = |flag: &'static str, texts: &[OsString], before: &'static str, why: &'static str| {
        let row = |text: &OsString| Row::new(flag, format!("{before}{}", text.to_string_lossy()), why);
        texts.iter().map(row).collect::<Vec<_>>()
    };
    rows.extend(of_site("--directive", &site.directive, "#SBATCH ", "as it is: job_extra_directives"));
    rows.extend(of_site("--setup", &site.setup, "", "before the worker starts: job_script_prologue"));
    let skip = |name: &String| Row::new("--skip-directive", format!("no {name}"), "left out: job_directives_skip");
    rows.extend(site.skip_directive.iter().map(skip));
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_as_dask_reads_and_writes_them() {
        let of = |text: &str| dask_bytes(text.parse().unwrap());
        assert_eq!([of("16GB"), of("15G"), of("500M"), of("1K")], ["16GB", "15GiB", "500MiB", "1024B"]);
        assert_eq!([dask_limit(4_000_000_000), dask_limit(500 << 20)], ["3.73GiB", "500.00MiB"]);
    }
}
