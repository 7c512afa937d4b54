//! The parts that the drivers of dask and Ray share: the plan as a module of Python, and the
//! scripts that start a driver.

use std::ffi::OsString;

use crate::gpus::GpuRequest;
use crate::job_settings::{GatherRun, JobSettings};
use crate::python_literals::{list_literal, string_literal};
use crate::scripts::{
    SETTINGS, Script, assign, assign_size_request, change_directory, concat, fill_template,
};
use crate::targets::slot::{slot_command, slot_script};
use crate::targets::slurm;

/// The place where the workers of a driver run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerPlace {
    /// This machine, all GPUs of which are the user's.
    ThisMachine,
    /// Nodes of a cluster, where SLURM hands out the GPUs.
    Nodes,
}

/// Returns `plan.py`, which the drivers import, and the script that it starts ai-integrate with, if
/// there is one.
pub fn plan_scripts(job: &JobSettings, place: WorkerPlace) -> Vec<Script> {
    let bins = job
        .partition_bins
        .iter()
        .map(|(name, dir)| format!("{}: {}", string_literal(name), string_literal(dir)))
        .collect::<Vec<_>>()
        .join(", ");
    let hides_gpus = place == WorkerPlace::Nodes && job.gpus == GpuRequest::None;
    let environment = if hides_gpus {
        "{\"CUDA_VISIBLE_DEVICES\": \"\"}  # GPUs of the node belong to other jobs"
    } else {
        "{}"
    };
    let settings = format!(
        "\nDIR = {}\nBIN = {}\nBINS = {{{bins}}}  # of partitions with another architecture\nARGUMENTS = {}\n\
         WITH_SLOT = {}\nEARLY_GATHER_ARGUMENTS = {}\nGATHER_ARGUMENTS = {}\nMISSING_ARGUMENTS = {}\nENVIRONMENT = {environment}\n",
        string_literal(&job.dir),
        string_literal(&job.bin),
        arguments(job, place),
        list_literal(slot_command(job)),
        list_literal(job.gather_arguments(GatherRun::Early)),
        list_literal(job.gather_arguments(GatherRun::Closing)),
        list_literal(job.missing_arguments()),
    );
    let plan = fill_template(include_str!("driver/plan.py"), &[(SETTINGS, settings.as_ref())]);
    [Script::new_source("plan.py", plan)].into_iter().chain(slot_script(job)).collect()
}

/// Returns the arguments of each ai-integrate as an expression of Python. On this machine, the
/// number of threads comes from `submit`.
fn arguments(job: &JobSettings, place: WorkerPlace) -> String {
    let arguments = list_literal(job.engine_arguments(&job.size));
    let threads = string_literal(job.size.threads.to_string());
    let fitted = format!("os.environ.get(\"AZPIPE_THREADS\", {threads})");
    match place {
        WorkerPlace::Nodes => arguments,
        WorkerPlace::ThisMachine => arguments
            .replace(&format!("\"--threads\", {threads}"), &format!("\"--threads\", {fitted}")),
    }
}

/// Returns the scripts that submit, watch, cancel and resume a driver that runs as a job of SLURM,
/// started by `script`.
pub fn control_scripts(job: &JobSettings, script: &str) -> [Script; 5] {
    let new = |name, template, settings: &OsString| {
        Script::new_executable(name, fill_template(template, &[(SETTINGS, settings)]))
    };
    let submit = concat(&[&change_directory(job), &assign("script", script)]);
    [
        slurm::queue_script(job),
        new("status", include_str!("driver/status"), &change_directory(job)),
        new("cancel", include_str!("slurm/cancel"), &change_directory(job)),
        new("resubmit", include_str!("resubmit"), &change_directory(job)),
        new("submit", include_str!("driver/submit"), &submit),
    ]
}

/// Returns the script that runs a driver on this machine.
pub fn submit_script_for_this_machine(job: &JobSettings) -> Script {
    let settings = concat(&[
        &change_directory(job),
        &job.setup_lines(),
        &assign("python", &job.python),
        &assign_size_request(job),
    ]);
    let text = fill_template(include_str!("driver/submit-local"), &[(SETTINGS, &settings)]);
    Script::new_executable("submit", text)
}
