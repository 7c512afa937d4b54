//! The scripts for SLURM: an array of jobs, the gather behind it, and what submits and watches them.
//!
//! Their text comes from the settings alone: the same input gives the same bytes. The reason for each
//! directive stands beside it in `directive.rs`, and in the scripts.

use std::ffi::OsString;

use filter::quote;

use crate::directive;
use crate::gpus::Gpus;
use crate::header;
use crate::job::Job;
use crate::scripts::{DIRECTIVES, SETTINGS, Script, assign, assign_list, assign_programs, concat, enter, fill};

/// The scripts for a plan of so many batches. The last one is `submit`: where it is, all is.
///
/// # Errors
/// A value that no directive can hold.
pub fn scripts(job: &Job, batches: usize) -> Result<Vec<Script>, quote::QuoteError> {
    let extra = &job.site.directive;
    let array = directive::lines(&header::of_array(job, batches)?, extra)?;
    let gather = directive::lines(&header::of_gather(job)?, extra)?;
    let bin = assign_programs(job);
    let node_bin = concat(&[&bin, &bins_by_partition(job)]);
    let setup = job.setup_lines();
    let programs = concat(&[
        "# Where the programs are, and with which arguments they are started.\n".as_ref(),
        &node_bin,
        &assign_list("srun", &srun(job)),
        &assign_list("ai_integrate", &job.arguments()),
    ]);
    let array = [(DIRECTIVES, &*array), (SETTINGS, &concat(&[&setup, &programs]))];
    let gather = [(DIRECTIVES, &*gather), (SETTINGS, &concat(&[&setup, &node_bin]))];
    let called = |name, template| Script::called(name, fill(template, &[(SETTINGS, &enter(job))]));
    Ok(vec![
        Script::read("job.sbatch", fill(include_str!("slurm/job.sbatch"), &array)),
        Script::read("gather.sbatch", fill(include_str!("slurm/gather.sbatch"), &gather)),
        queue(job),
        called("status", include_str!("slurm/status")),
        called("cancel", include_str!("slurm/cancel")),
        called("resubmit", include_str!("slurm/resubmit")),
        called("submit", include_str!("slurm/submit")),
    ])
}

/// What the scripts share that submit and watch.
pub fn queue(job: &Job) -> Script {
    let limit = job.max_array_size.map(|limit| limit.to_string()).unwrap_or_default();
    let settings = concat(&[
        &assign("bin", &job.bin),
        &assign("workers", job.size.workers.to_string()),
        &assign("memory_option", job.memory.map_or("", |(option, _)| option)),
        &assign("memory_mib", job.memory.map_or(0, |(_, memory)| memory.bytes().div_ceil(1 << 20)).to_string()),
        "# Elements that SLURM allows in an array; where empty, SLURM is asked.\n".as_ref(),
        &assign("max_array_size", limit),
    ]);
    Script::read("queue.bash", fill(include_str!("slurm/queue.bash"), &[(SETTINGS, &settings)]))
}

/// srun's arguments. The CPUs are said again because from SLURM 22.05 on, srun does not take them from the job.
fn srun(job: &Job) -> Vec<String> {
    let mut out = ["-n", "1", "-c", &job.size.cpus().to_string()].map(str::to_owned).to_vec();
    if let (Some(_), Gpus::PerTask(_)) = (job.site.ntasks_per_node, &job.gpus) {
        // else the one that runs had the GPUs of one alone
        out.push(format!("--gpus-per-task={}", job.size.gpus));
    }
    out.extend(job.site.cpu_bind.iter().map(|kind| format!("--cpu-bind={kind}")));
    if job.gpus == Gpus::None {
        // Where it is asked for no GPU, SLURM says nothing of those that a node has, and they are others'.
        out.extend(["env", "CUDA_VISIBLE_DEVICES="].map(str::to_owned));
    }
    out
}

/// The lines of bash that find the programs of another architecture.
fn bins_by_partition(job: &Job) -> OsString {
    if job.partition_bins.is_empty() {
        return OsString::new();
    }
    let mut out = OsString::from(
        "# Of several partitions, the one that it runs in comes first.\ncase ${SLURM_JOB_PARTITION%%,*} in\n",
    );
    for (partition, dir) in &job.partition_bins {
        out.push(quote::shell(partition.as_ref()));
        out.push(") bin=");
        out.push(quote::shell(dir.as_os_str()));
        out.push(" ;;\n");
    }
    out.push("esac\n");
    out
}
