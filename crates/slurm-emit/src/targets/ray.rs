//! The scripts for Ray: one job on so many nodes, with a Ray of its own, or a Ray on this machine.

use filter::quote;

use crate::directive;
use crate::explain::Row;
use crate::header;
use crate::job::Job;
use crate::scripts::{DIRECTIVES, SETTINGS, Script, assign, concat, fill};
use crate::targets::driver::{self, Place};
use crate::targets::local::with_commands;

/// The scripts for a job of SLURM.
///
/// # Errors
/// A value that no directive can hold.
pub fn scripts(job: &Job) -> Result<Vec<Script>, quote::QuoteError> {
    let directives = directive::lines(&header::of_ray(job)?, &job.site.directive)?;
    let settings = concat(&[
        &job.setup_lines(),
        "# What starts Ray, and what it is given of each node.\n".as_ref(),
        &assign("python", &job.python),
        &assign("cpus", job.size.cpus().to_string()),
        &assign("gpus", job.size.gpus.to_string()),
    ]);
    let texts = [(DIRECTIVES, &*directives), (SETTINGS, &settings)];
    let mut out = vec![
        driver::plan(job, Place::Cluster),
        driver_script(job, job.size.workers, "{}"),
        Script::read("ray.sbatch", fill(include_str!("ray/ray.sbatch"), &texts)),
    ];
    out.extend(driver::commands(job, "ray.sbatch"));
    Ok(out)
}

/// The scripts for a Ray on this machine.
pub fn scripts_for_local(job: &Job) -> Vec<Script> {
    let (cpus, gpus) = (job.size.workers * job.size.cpus(), job.size.workers * job.size.gpus);
    let ray =
        format!("{{\"address\": \"local\", \"num_cpus\": {cpus}, \"num_gpus\": {gpus}, \"include_dashboard\": False}}");
    with_commands(job, 1, vec![driver::plan(job, Place::Here), driver_script(job, 1, &ray), driver::start_here(job)])
}

fn driver_script(job: &Job, nodes: u64, ray: &str) -> Script {
    let (engines, threads) = (job.size.workers * job.size.engines, job.size.threads);
    let settings = format!(
        "\nNODES = {nodes}\nENGINES = {engines}\nENGINE = {{\"num_cpus\": {threads}, \"num_gpus\": {}}}\nRAY = {ray}\n",
        gpu_share(job)
    );
    Script::read("driver.py", fill(include_str!("ray/driver.py"), &[(SETTINGS, settings.as_ref())]))
}

/// The part of a GPU that an engine has. Ray counts it in ten thousandths: rounded down, all engines fit.
fn gpu_share(job: &Job) -> f64 {
    let share = job.size.gpus as f64 / job.size.engines as f64;
    if share >= 1.0 { share.floor() } else { (share * 1e4).floor() / 1e4 }
}

/// What becomes of each setting.
///
/// # Errors
/// A value that no directive can hold.
pub fn rows(job: &Job) -> Result<Vec<Row>, quote::QuoteError> {
    let size = &job.size;
    let mut rows: Vec<Row> = header::of_ray(job)?.iter().map(Row::of_directive).collect();
    rows.extend([
        Row::new("--cores-per-worker", format!("ray start --num-cpus {}", size.cpus()), "of a node, all engines'"),
        Row::new("--gres", format!("ray start --num-gpus {}", size.gpus), "of a node"),
        Row::new("--cores-per-worker", format!("@ray.remote(num_cpus={})", size.threads), "an engine's threads"),
        Row::new("--ai-engines-per-worker", format!("@ray.remote(num_gpus={})", gpu_share(job)), "an engine's share"),
    ]);
    Ok(rows)
}
