//! The scripts that targets for a single machine without a queue share: a worker on its share of
//! the machine, and those that start, watch and cancel the work.

use std::ffi::OsString;

use crate::job_settings::{GatherRun, JobSettings};
use crate::scripts::{
    SETTINGS, Script, assign, assign_count, assign_list, assign_missing, assign_programs,
    assign_size_request, change_directory, concat, fill_template,
};
use crate::targets::unused_flags::{
    DASK_FLAGS, JOB_NAME, PYTHON, QUEUE_FLAGS, RAY_FLAGS, SLURM_FLAGS,
};

/// Returns the flags that change nothing in scripts that start programs on this machine alone.
pub fn unused_flags() -> Vec<&'static str> {
    [DASK_FLAGS, RAY_FLAGS, QUEUE_FLAGS, SLURM_FLAGS, &[JOB_NAME, PYTHON]].concat()
}

/// Adds the scripts that watch, cancel and resume the work on this machine. `processes` is the
/// number of processes that write a file of results at the same time, as an expression of bash of
/// the sizes.
pub fn with_control_scripts(
    job: &JobSettings,
    processes: &str,
    mut scripts: Vec<Script>,
) -> Vec<Script> {
    let status = concat(&[
        &change_directory(job),
        &assign_count(job),
        &assign_size_request(job),
        "# Processes that write a file of results at the same time, as an expression of these sizes.\n".as_ref(),
        &assign("processes", processes),
    ]);
    let new = |name, template, settings: &OsString| {
        Script::new_executable(name, fill_template(template, &[(SETTINGS, settings)]))
    };
    scripts.extend([
        new("status", include_str!("single_machine/status"), &status),
        new("cancel", include_str!("single_machine/cancel"), &change_directory(job)),
        new("resubmit", include_str!("resubmit"), &change_directory(job)),
    ]);
    scripts
}

/// Returns the script that integrates a batch on a share of the CPUs and GPUs of this machine.
pub fn worker_script(job: &JobSettings) -> Script {
    let settings = concat(&[
        &change_directory(job),
        &job.setup_lines(),
        &assign_programs(job, GatherRun::Early),
        &assign_size_request(job),
        &assign("device", job.device.as_deref().unwrap_or_default()),
        &assign_list("ai_integrate", &job.sizeless_arguments()),
    ]);
    Script::new_executable(
        "worker",
        fill_template(include_str!("single_machine/worker"), &[(SETTINGS, &settings)]),
    )
}

/// Returns the script that starts all processes on this machine.
pub fn submit_script(job: &JobSettings, template: &str) -> Script {
    let settings = concat(&[
        &change_directory(job),
        &job.setup_lines(),
        &assign_programs(job, GatherRun::Closing),
        &assign_missing(job),
        &assign_size_request(job),
    ]);
    Script::new_executable("submit", fill_template(template, &[(SETTINGS, &settings)]))
}
