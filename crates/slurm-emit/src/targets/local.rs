//! The scripts for one machine, without a queue: by xargs, which every Linux has, or by GNU parallel.

use std::ffi::OsString;

use crate::job::Job;
use crate::scripts::{SETTINGS, Script, assign, assign_list, assign_programs, concat, enter, fill};

/// The scripts for this machine alone.
pub fn scripts(job: &Job) -> Vec<Script> {
    let workers = job.size.workers;
    with_commands(job, workers, vec![worker(job), submit(job, workers, include_str!("local/submit"))])
}

/// The scripts for GNU parallel, here or on the machines that it is told of.
pub fn scripts_for_parallel(job: &Job) -> Vec<Script> {
    let workers = job.size.workers;
    with_commands(job, workers, vec![worker(job), submit(job, workers, include_str!("parallel/submit"))])
}

/// Scripts, and with them those that watch, end and go on with what runs on this machine: so many processes at a time
/// that write a file of results each.
pub fn with_commands(job: &Job, workers: u64, mut scripts: Vec<Script>) -> Vec<Script> {
    let workers = assign("workers", workers.to_string());
    let watch = concat(&[&enter(job), &assign("bin", &job.bin), &workers]);
    let called = |name, template, settings: &OsString| Script::called(name, fill(template, &[(SETTINGS, settings)]));
    scripts.extend([
        called("status", include_str!("here/status"), &watch),
        called("cancel", include_str!("here/cancel"), &enter(job)),
        called("resubmit", include_str!("resubmit"), &enter(job)),
    ]);
    scripts
}

fn worker(job: &Job) -> Script {
    let settings = concat(&[
        &enter(job),
        &assign_programs(job),
        &assign("workers", job.size.workers.to_string()),
        &assign("engines", job.size.engines.to_string()),
        &assign("threads", job.size.threads.to_string()),
        &assign("device", job.device.as_deref().unwrap_or_default()),
        &assign_list("ai_integrate", &job.engine_arguments()),
    ]);
    Script::called("worker", fill(include_str!("local/worker"), &[(SETTINGS, &settings)]))
}

/// The script that starts it all, so many processes at a time.
pub fn submit(job: &Job, workers: u64, template: &str) -> Script {
    let workers = assign("workers", workers.to_string());
    let settings = concat(&[&enter(job), &assign_programs(job), &workers]);
    Script::called("submit", fill(template, &[(SETTINGS, &settings)]))
}
