//! The scripts for Ray: a job on several nodes that starts its own Ray, or a Ray on this machine.

use crate::directive;
use crate::error::EmitError;
use crate::explain::ExplainRow;
use crate::job_directives::ray_directives;
use crate::job_settings::JobSettings;
use crate::scripts::{DIRECTIVES, SETTINGS, Script, assign, concat, fill_template};
use crate::targets::driver::{self, WorkerPlace};
use crate::targets::local::with_control_scripts;

/// Returns the scripts for a job of SLURM.
///
/// # Errors
/// Fails if no directive can hold a value.
pub fn scripts(job: &JobSettings) -> Result<Vec<Script>, EmitError> {
    let directives = directive::format_directives(&ray_directives(job)?, &job.slurm.directive)?;
    let settings = concat(&[
        &job.setup_lines(),
        "# The Python that has Ray, and the CPUs and GPUs that Ray uses of each node.\n".as_ref(),
        &assign("python", &job.python),
        &assign("cpus", job.size.cpus().to_string()),
        &assign("gpus", job.size.gpus.to_string()),
    ]);
    let texts = [(DIRECTIVES, &*directives), (SETTINGS, &settings)];
    let engines = job.size.workers * job.size.engines;
    let sizes = format!("NODES = {}\nENGINES = {engines}\nTHREADS = {}\n", job.size.workers, job.size.threads);
    let mut scripts = vec![
        driver::plan_module(job, WorkerPlace::Nodes),
        driver_script(job, &sizes, "{}"),
        Script::new_source("ray.sbatch", fill_template(include_str!("ray/ray.sbatch"), &texts)),
    ];
    scripts.extend(driver::control_scripts(job, "ray.sbatch"));
    Ok(scripts)
}

/// Returns the scripts for a Ray on this machine. Its sizes come from `submit`, which knows the CPUs of the machine.
pub fn scripts_for_this_machine(job: &JobSettings) -> Vec<Script> {
    let engines = job.size.workers * job.size.engines;
    let sizes = format!(
        "NODES = 1\nENGINES = int(os.environ.get(\"AZPIPE_ENGINES\", \"{engines}\"))\n\
         THREADS = int(os.environ.get(\"AZPIPE_THREADS\", \"{}\"))\n",
        job.size.threads
    );
    let gpus = job.size.workers * job.size.gpus;
    let ray = format!(
        "{{\"address\": \"local\", \"num_cpus\": ENGINES * THREADS, \"num_gpus\": {gpus}, \"include_dashboard\": False}}"
    );
    let scripts = vec![
        driver::plan_module(job, WorkerPlace::ThisMachine),
        driver_script(job, &sizes, &ray),
        driver::submit_script_for_this_machine(job),
    ];
    with_control_scripts(job, "1", scripts)
}

fn driver_script(job: &JobSettings, sizes: &str, ray: &str) -> Script {
    let settings =
        format!("\n{sizes}ENGINE = {{\"num_cpus\": THREADS, \"num_gpus\": {}}}\nRAY = {ray}\n", gpu_share(job));
    Script::new_source("driver.py", fill_template(include_str!("ray/driver.py"), &[(SETTINGS, settings.as_ref())]))
}

/// Returns the share of a GPU that an engine has, rounded down so that all engines fit: Ray counts ten thousandths.
fn gpu_share(job: &JobSettings) -> f64 {
    let share = job.size.gpus as f64 / job.size.engines as f64;
    if share >= 1.0 { share.floor() } else { (share * 1e4).floor() / 1e4 }
}

/// Returns a row of `--explain` for each setting.
///
/// # Errors
/// Fails if no directive can hold a value.
pub fn explain_rows(job: &JobSettings) -> Result<Vec<ExplainRow>, EmitError> {
    let size = &job.size;
    let mut rows: Vec<_> = ray_directives(job)?.iter().map(ExplainRow::from_directive).collect();
    let share = gpu_share(job);
    rows.extend([
        ExplainRow::new("--cores-per-worker", format!("ray start --num-cpus {}", size.cpus()), "CPUs of a node"),
        ExplainRow::new("--gres", format!("ray start --num-gpus {}", size.gpus), "GPUs of a node"),
        ExplainRow::new(
            "--cores-per-worker",
            format!("@ray.remote(num_cpus={})", size.threads),
            "threads of an engine",
        ),
        ExplainRow::new("--ai-engines-per-worker", format!("@ray.remote(num_gpus={share})"), "GPU share of an engine"),
    ]);
    Ok(rows)
}
