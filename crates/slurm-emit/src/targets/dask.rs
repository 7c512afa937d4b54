//! The scripts for dask: a driver that starts workers by dask-jobqueue or on this machine, and the
//! job of the driver.

use std::ffi::OsString;
use std::fmt::Write as _;

use crate::batches::Batch;
use crate::directive::{Directive, format_directives};
use crate::error::EmitError;
use crate::explain::ExplainRow;
use crate::job_directives::{
    ACCOUNT_REASON, JOB_NAME_REASON, PARTITION_REASON, driver_directives, worker_directives,
};
use crate::job_settings::JobSettings;
use crate::job_size::JobSize;
use crate::memory::MemorySize;
use crate::python_literals::{bool_literal, list_literal, string_literal};
use crate::required_tool::RequiredTool;
use crate::scripts::{DIRECTIVES, SETTINGS, Script, assign, concat, fill_template};
use crate::targets::JobTarget;
use crate::targets::driver::{self, WorkerPlace};
use crate::targets::single_machine::with_control_scripts;
use crate::targets::unused_flags::{
    BATCH_FLAGS, CPU_BIND, JOB_NAME, NTASKS_PER_NODE, QUEUE_FLAGS, RAY_FLAGS, SLURM_FLAGS,
};
use crate::task_plan::TaskPlan;

/// Seconds before the walltime at which a worker ends, and hands its unfinished task to another
/// one.
const LIFETIME_MARGIN: u64 = 120;

/// The name that dask-jobqueue gives to its jobs.
const DEFAULT_NAME: &str = "dask-worker";

/// The module of Python that starts the workers.
const WORKERS: &str = "workers.py";

/// An address that other machines can't reach, with any free port.
const LOOPBACK: &str = "127.0.0.1:0";

/// Arguments of `dask worker` without a dashboard. What is left of its HTTP server listens on the
/// loopback interface.
const WITHOUT_DASHBOARD: [&str; 3] = ["--no-dashboard", "--dashboard-address", LOOPBACK];

/// Workers that dask-jobqueue starts as jobs of SLURM, and a driver that hands out the tasks.
pub struct Dask;

impl JobTarget for Dask {
    fn name(&self) -> &'static str {
        "dask"
    }

    fn help(&self) -> &'static str {
        "Dask workers as SLURM jobs, started by dask-jobqueue, and a driver that hands out the tasks"
    }

    fn uses_slurm(&self) -> bool {
        true
    }

    fn on_this_machine(&self) -> Option<&'static dyn JobTarget> {
        Some(&LocalDask)
    }

    fn batches(&self, _: &JobSettings, _: &TaskPlan) -> Result<Option<Vec<Batch>>, EmitError> {
        Ok(None)
    }

    fn unused_flags(&self) -> Vec<&'static str> {
        [RAY_FLAGS, &[NTASKS_PER_NODE, CPU_BIND]].concat()
    }

    fn scripts(
        &self,
        job: &JobSettings,
        _: &TaskPlan,
        _: &[Batch],
    ) -> Result<Vec<Script>, EmitError> {
        let directives = format_directives(&driver_directives(job)?, &[])?;
        let settings = concat(&[&job.setup_lines(), &assign("python", &job.python)]);
        let texts = [(DIRECTIVES, &*directives), (SETTINGS, &settings)];
        let mut scripts = driver::plan_scripts(job, WorkerPlace::Nodes);
        scripts.extend([
            driver_script(),
            workers_script(include_str!("dask/slurm_workers.py"), &slurm_settings(job)?),
            Script::new_bash(
                "dask.sbatch",
                fill_template(include_str!("dask/dask.sbatch"), &texts),
            ),
        ]);
        scripts.extend(driver::control_scripts(job, "dask.sbatch"));
        Ok(scripts)
    }

    fn required_tools(&self, job: &JobSettings) -> Vec<RequiredTool> {
        required_modules("dask_jobqueue", job)
    }

    fn job_script_program(&self) -> Option<&'static str> {
        Some(WORKERS)
    }

    fn explain(&self, job: &JobSettings, _: usize) -> Result<Vec<ExplainRow>, EmitError> {
        let mut rows = vec![ExplainRow::new_heading("dask.sbatch")];
        rows.extend(driver_directives(job)?.iter().map(ExplainRow::from_directive));
        rows.push(ExplainRow::new_heading(WORKERS));
        rows.extend(worker_rows(job)?);
        Ok(rows)
    }

    fn ai_integrate_arguments(&self, job: &JobSettings, size: &JobSize) -> Vec<String> {
        job.engine_arguments(size)
    }
}

/// Dask workers on this machine.
pub struct LocalDask;

impl JobTarget for LocalDask {
    fn name(&self) -> &'static str {
        "dask"
    }

    fn help(&self) -> &'static str {
        "Dask workers on this machine"
    }

    fn batches(&self, _: &JobSettings, _: &TaskPlan) -> Result<Option<Vec<Batch>>, EmitError> {
        Ok(None)
    }

    fn unused_flags(&self) -> Vec<&'static str> {
        let cluster: &[&str] = &[JOB_NAME, "interface", "cluster_kwarg"];
        [RAY_FLAGS, QUEUE_FLAGS, SLURM_FLAGS, BATCH_FLAGS, cluster].concat()
    }

    fn scripts(
        &self,
        job: &JobSettings,
        _: &TaskPlan,
        _: &[Batch],
    ) -> Result<Vec<Script>, EmitError> {
        let mut scripts = driver::plan_scripts(job, WorkerPlace::ThisMachine);
        scripts.extend([
            driver_script(),
            workers_script(include_str!("dask/local_workers.py"), &local_settings(job)),
            driver::submit_script_for_this_machine(job),
        ]);
        Ok(with_control_scripts(job, "1", scripts))
    }

    fn required_tools(&self, job: &JobSettings) -> Vec<RequiredTool> {
        required_modules("distributed", job)
    }

    fn ai_integrate_arguments(&self, job: &JobSettings, size: &JobSize) -> Vec<String> {
        job.engine_arguments(size)
    }
}

/// Returns the Python modules that a driver needs: that of the workers, and dask's own for
/// certificates and dashboards.
fn required_modules(workers: &'static str, job: &JobSettings) -> Vec<RequiredTool> {
    let dashboard = job.slurm.dashboard.then_some("bokeh");
    [workers, "cryptography"].into_iter().chain(dashboard).map(RequiredTool::PythonModule).collect()
}

fn driver_script() -> Script {
    Script::new_source("driver.py", include_str!("dask/driver.py").into())
}

/// Returns `workers.py`, which the driver imports.
fn workers_script(template: &str, settings: &str) -> Script {
    let settings = format!("\n{settings}");
    Script::new_source(WORKERS, fill_template(template, &[(SETTINGS, settings.as_ref())]))
}

/// Returns the constants of Python for workers that run as jobs of SLURM.
fn slurm_settings(job: &JobSettings) -> Result<String, EmitError> {
    let (slurm, size) = (&job.slurm, &job.size);
    let directives = worker_directives(job)?;
    let extra =
        directives.iter().map(Directive::text).chain(memory_directive(job).map(OsString::from));
    let extra = extra.chain(slurm.directive.iter().cloned());
    let dashboard = bool_literal(slurm.dashboard);
    let mut arguments = vec![
        ("cores", size.cpus().to_string()),
        ("processes", size.engines.to_string()),
        ("memory", string_literal(format_dask_bytes(worker_memory(job)))),
        ("walltime", string_literal(job.walltime.to_string())),
        ("worker_extra_args", list_literal(worker_arguments(job))),
        ("job_extra_directives", list_literal(extra)),
        ("job_directives_skip", list_literal(skipped_directives(job))),
        ("job_script_prologue", list_literal(&slurm.setup)),
        (
            "scheduler_options",
            format!("{{\"dashboard\": {dashboard}, \"dashboard_address\": \"{LOOPBACK}\"}}"),
        ),
    ];
    for (name, value) in [
        ("job_name", &slurm.job_name),
        ("queue", &slurm.partition),
        ("account", &slurm.account),
        ("interface", &slurm.interface),
    ] {
        if let Some(value) = value {
            arguments.push((name, string_literal(value)));
        }
    }
    let (fewest, most) = (job.fewest_workers, size.workers);
    let logs =
        directives.iter().filter(|directive| directive.option == "--output").map(Directive::text);
    let logs = list_literal(logs);
    let mut out =
        format!("JOBS = ({fewest}, {most})\nDASHBOARD = {dashboard}\nLOGS = {logs}\nOURS = {{\n");
    for (name, value) in arguments {
        writeln!(out, "    \"{name}\": {value},").expect("memory takes all");
    }
    out.push_str("}\nGIVEN = {\n");
    for argument in &slurm.cluster_kwarg {
        writeln!(out, "    \"{}\": {},", argument.name, argument.literal())
            .expect("memory takes all");
    }
    out.push_str("}\n");
    Ok(out)
}

/// Returns the constants of Python for workers on this machine. `submit` knows its CPUs, and may
/// set other numbers.
fn local_settings(job: &JobSettings) -> String {
    let (engines, threads) = (job.size.workers * job.size.engines, job.size.threads);
    let dashboard = bool_literal(job.slurm.dashboard);
    format!("ENGINES = {engines}\nTHREADS = {threads}\nDASHBOARD = {dashboard}\n")
}

/// Returns the arguments of `dask worker` that dask-jobqueue does not write itself.
fn worker_arguments(job: &JobSettings) -> Vec<String> {
    let lifetime = lifetime(job);
    let mut arguments = vec!["--resources", "engine=1", "--lifetime", &lifetime];
    arguments.extend(WITHOUT_DASHBOARD);
    arguments.into_iter().map(str::to_owned).collect()
}

/// Returns the time after which a worker ends by itself.
fn lifetime(job: &JobSettings) -> String {
    let seconds = job.walltime.seconds();
    format!("{}s", seconds - LIFETIME_MARGIN.min(seconds / 4))
}

/// Returns the beginnings of the directives that dask-jobqueue leaves out: those of
/// `--skip-directive`, and its `--mem` if the site requires another option for memory.
fn skipped_directives(job: &JobSettings) -> Vec<String> {
    let short = [
        ("partition", "-p"),
        ("account", "-A"),
        ("job-name", "-J"),
        ("ntasks", "-n"),
        ("time", "-t"),
    ];
    let beginning = |name: &String| {
        let name = name.trim_start_matches('-');
        match short.iter().find(|(long, _)| *long == name) {
            Some((_, short)) => format!("#SBATCH {short} "),
            None => format!("#SBATCH --{name}="),
        }
    };
    let mut out: Vec<String> = job.slurm.skip_directive.iter().map(beginning).collect();
    if memory_directive(job).is_some() {
        out.push("#SBATCH --mem=".to_owned());
    }
    out
}

/// Returns the directive that requests memory by another option than `--mem`, which dask-jobqueue
/// writes.
fn memory_directive(job: &JobSettings) -> Option<String> {
    let (option, memory) = job.memory.filter(|(option, _)| *option != "--mem")?;
    Some(format!("{option}={memory}"))
}

/// Returns the memory of a job, without which dask-jobqueue does not work.
fn worker_memory(job: &JobSettings) -> MemorySize {
    let (option, memory) = job.memory.unwrap_or(("--mem", job.estimated_memory));
    match option {
        "--mem-per-cpu" => MemorySize::from_bytes(memory.bytes() * job.size.cpus()),
        "--mem-per-gpu" => MemorySize::from_bytes(memory.bytes() * job.size.gpus.max(1)),
        _ => memory,
    }
}

/// Formats a size as dask reads it, in the largest unit of which it is a multiple.
fn format_dask_bytes(memory: MemorySize) -> String {
    let bytes = memory.bytes();
    let units =
        [(1_000_000_000, "GB"), (1 << 30, "GiB"), (1_000_000, "MB"), (1 << 20, "MiB"), (1, "B")];
    let (unit, name) =
        units.into_iter().find(|(unit, _)| bytes.is_multiple_of(*unit)).unwrap_or((1, "B"));
    format!("{}{name}", bytes / unit)
}

/// Formats a size as dask-jobqueue passes it to `dask worker`: `3.73GiB`.
fn format_memory_limit(bytes: u64) -> String {
    let units = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "kiB")];
    // dask uses a unit from nine tenths of it on.
    let fits = |(unit, _): &(u64, &str)| bytes as f64 >= 0.9 * *unit as f64;
    match units.into_iter().find(fits) {
        Some((unit, name)) => format!("{:.2}{name}", bytes as f64 / unit as f64),
        None => format!("{bytes}B"),
    }
}

/// Returns a row of `--explain` for each setting of the workers: an argument of SLURMCluster, a
/// directive, or an argument of `dask worker`.
///
/// # Errors
/// Fails if no directive can hold a value.
fn worker_rows(job: &JobSettings) -> Result<Vec<ExplainRow>, EmitError> {
    let (slurm, size) = (&job.slurm, &job.size);
    let (cpus, engines, threads) = (size.cpus(), size.engines, size.threads);
    let memory = worker_memory(job);
    let memory_option = memory_directive(job).unwrap_or(format!("--mem={memory}"));
    let name = slurm.job_name.as_deref().unwrap_or(DEFAULT_NAME);
    let mut rows = vec![
        ExplainRow::new("--job-name", format!("#SBATCH -J {name}"), JOB_NAME_REASON),
        ExplainRow::new(
            "--target",
            "#SBATCH -n 1",
            "one dask worker per job, with several processes",
        ),
        ExplainRow::new(
            "--cores",
            format!("SLURMCluster(cores={cpus})"),
            "CPUs of a job: processes x threads",
        ),
        ExplainRow::new(
            "--cores",
            format!("#SBATCH --cpus-per-task={cpus}"),
            "the same, for SLURM",
        ),
        ExplainRow::new(
            "--cores",
            format!("dask worker --nthreads {threads}"),
            "cores / processes: threads of an engine",
        ),
        ExplainRow::new(
            "--processes",
            format!("SLURMCluster(processes={engines})"),
            "engines, which share the GPU of the job",
        ),
        ExplainRow::new(
            "--processes",
            format!("dask worker --nworkers {engines}"),
            "one process per engine",
        ),
        ExplainRow::new(
            "--processes",
            "dask worker --resources engine=1",
            "each runs one task at a time, on all its threads",
        ),
        ExplainRow::new(
            "--memory",
            format!("SLURMCluster(memory=\"{}\")", format_dask_bytes(memory)),
            "memory of a job",
        ),
        ExplainRow::new(
            "--memory",
            format!("#SBATCH {memory_option}"),
            "the same in SLURM's units, rounded up",
        ),
        ExplainRow::new(
            "--memory",
            format!("dask worker --memory-limit {}", format_memory_limit(memory.bytes() / engines)),
            "memory / processes",
        ),
        ExplainRow::new(
            "--walltime",
            format!("SLURMCluster(walltime=\"{}\")", job.walltime),
            "the walltime of a job",
        ),
        ExplainRow::new(
            "--walltime",
            format!("#SBATCH -t {}", job.walltime),
            "the same, for SLURM",
        ),
        ExplainRow::new(
            "--walltime",
            format!("dask worker --lifetime {}", lifetime(job)),
            "ends before the walltime kills it",
        ),
        ExplainRow::new(
            "--target",
            "dask worker --nanny --death-timeout 60",
            "ends if it finds no scheduler within 60 s",
        ),
        ExplainRow::new(
            "--dashboard",
            format!("dask worker {}", WITHOUT_DASHBOARD.join(" ")),
            "only the scheduler can have one",
        ),
        ExplainRow::new(
            "--dashboard",
            format!(
                "SLURMCluster(scheduler_options={{\"dashboard\": {}}})",
                bool_literal(slurm.dashboard)
            ),
            "of the scheduler, on the loopback interface",
        ),
        ExplainRow::new(
            "--target",
            "SLURMCluster(security=Security.temporary())",
            "TLS: no other user can reach scheduler and workers",
        ),
        ExplainRow::new(
            if job.fewest_workers == size.workers { "--n-workers" } else { "--adapt" },
            format!("JOBS = ({}, {})", job.fewest_workers, size.workers),
            "fewest and most jobs at a time",
        ),
    ];
    if let Some(queue) = &slurm.partition {
        rows.push(ExplainRow::new("--queue", format!("#SBATCH -p {queue}"), PARTITION_REASON));
    }
    if let Some(account) = &slurm.account {
        rows.push(ExplainRow::new("--account", format!("#SBATCH -A {account}"), ACCOUNT_REASON));
    }
    if let Some(interface) = &slurm.interface {
        rows.push(ExplainRow::new(
            "--interface",
            format!("dask worker --interface {interface}"),
            "network interface",
        ));
    }
    let skipped = skipped_directives(job);
    rows.retain(|row| !skipped.iter().any(|beginning| row.becomes().starts_with(beginning)));
    rows.extend(worker_directives(job)?.iter().map(ExplainRow::from_directive));
    for line in &slurm.directive {
        let directive = format!("#SBATCH {}", line.to_string_lossy());
        rows.push(ExplainRow::new("--directive", directive, "unchanged: job_extra_directives"));
    }
    for line in &slurm.setup {
        rows.push(ExplainRow::new(
            "--setup",
            line.to_string_lossy(),
            "before the worker starts: job_script_prologue",
        ));
    }
    for argument in &slurm.cluster_kwarg {
        let becomes = format!("SLURMCluster({}={})", argument.name, argument.literal());
        rows.push(ExplainRow::new(
            "--cluster-kwarg",
            becomes,
            "unchanged; lists are added to the others",
        ));
    }
    for name in &slurm.skip_directive {
        rows.push(ExplainRow::new(
            "--skip-directive",
            format!("no {name}"),
            "left out: job_directives_skip",
        ));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_formatted_as_dask_reads_and_writes_them() {
        let format = |text: &str| format_dask_bytes(text.parse().unwrap());
        assert_eq!(["16GB", "15G", "500M", "1K"].map(format), ["16GB", "15GiB", "500MiB", "1024B"]);
        assert_eq!(
            [format_memory_limit(4_000_000_000), format_memory_limit(500 << 20)],
            ["3.73GiB", "500.00MiB"]
        );
    }
}
