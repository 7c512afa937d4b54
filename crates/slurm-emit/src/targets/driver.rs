//! What the drivers of dask and Ray have in common: the plan as they see it, and what starts them.

use std::ffi::OsString;

use crate::gpus::Gpus;
use crate::job::Job;
use crate::python;
use crate::scripts::{SETTINGS, Script, assign, concat, enter, fill};
use crate::targets::slurm;

/// Where the workers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On this machine, whose GPUs are the user's.
    Here,
    /// On nodes, where SLURM gives GPUs to those who ask for them.
    Cluster,
}

/// `plan.py`, which the drivers import.
pub fn plan(job: &Job, place: Place) -> Script {
    let has_no_gpu = place == Place::Cluster && job.gpus == Gpus::None;
    let bins = job.partition_bins.iter().map(|(name, dir)| format!("{}: {}", python::text(name), python::text(dir)));
    let settings = format!(
        "\nDIR = {}\nBIN = {}\nBINS = {{{}}}  # of partitions with another architecture\nARGUMENTS = {}\nGATHER_ARGUMENTS = {}\nENVIRONMENT = {}\n",
        python::text(&job.dir),
        python::text(&job.bin),
        bins.collect::<Vec<_>>().join(", "),
        python::list(job.arguments_of_one()),
        python::list(job.allow_missing_argument()),
        if has_no_gpu { "{\"CUDA_VISIBLE_DEVICES\": \"\"}  # those of a node are others'" } else { "{}" }
    );
    Script::read("plan.py", fill(include_str!("driver/plan.py"), &[(SETTINGS, settings.as_ref())]))
}

/// What submits and watches a driver that is a job, started by that script.
pub fn commands(job: &Job, script: &str) -> [Script; 5] {
    let called = |name, template, settings: &OsString| Script::called(name, fill(template, &[(SETTINGS, settings)]));
    let submit = concat(&[&enter(job), &assign("script", script)]);
    [
        slurm::queue(job),
        called("status", include_str!("driver/status"), &enter(job)),
        called("cancel", include_str!("slurm/cancel"), &enter(job)),
        called("resubmit", include_str!("resubmit"), &enter(job)),
        called("submit", include_str!("driver/submit"), &submit),
    ]
}

/// What starts a driver on this machine.
pub fn start_here(job: &Job) -> Script {
    let settings = concat(&[&enter(job), &assign("python", &job.python)]);
    Script::called("submit", fill(include_str!("driver/submit-local"), &[(SETTINGS, &settings)]))
}
