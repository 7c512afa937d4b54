//! The scripts for SLURM: a job array, a gather after it, and the scripts that submit, watch and
//! cancel them.
//!
//! The text depends on the settings alone, so that the same input gives the same bytes. The reason
//! for each directive stands above it in the scripts.

use std::ffi::OsString;

use filter::quote;

use crate::batches::Batch;
use crate::directive;
use crate::error::EmitError;
use crate::explain::{ExplainRow, batches_row};
use crate::gpus::GpuRequest;
use crate::job_directives::{array_directives, gather_directives};
use crate::job_settings::{GatherRun, JobSettings};
use crate::job_size::JobSize;
use crate::scripts::{
    DIRECTIVES, SETTINGS, Script, assign, assign_count, assign_list, assign_missing,
    assign_programs, change_directory, concat, fill_template,
};
use crate::targets::JobTarget;
use crate::targets::local::Local;
use crate::targets::unused_flags::{DASK_FLAGS, PYTHON, RAY_FLAGS};
use crate::task_plan::TaskPlan;

/// A job array, and a gather after it.
pub struct Slurm;

impl JobTarget for Slurm {
    fn name(&self) -> &'static str {
        "slurm"
    }

    fn help(&self) -> &'static str {
        "A SLURM job array, and a gather after it"
    }

    fn uses_slurm(&self) -> bool {
        true
    }

    fn takes_more_tasks(&self) -> bool {
        true
    }

    fn on_this_machine(&self) -> Option<&'static dyn JobTarget> {
        Some(&Local)
    }

    fn unused_flags(&self) -> Vec<&'static str> {
        [DASK_FLAGS, RAY_FLAGS, &[PYTHON]].concat()
    }

    fn scripts(
        &self,
        job: &JobSettings,
        _: &TaskPlan,
        batches: &[Batch],
    ) -> Result<Vec<Script>, EmitError> {
        let extra = &job.slurm.directive;
        let array = directive::format_directives(&array_directives(job, batches.len())?, extra)?;
        let gather = directive::format_directives(&gather_directives(job)?, extra)?;
        let programs = |run| concat(&[&assign_programs(job, run), &select_bin_by_partition(job)]);
        let setup = job.setup_lines();
        let array_settings = concat(&[
            &setup,
            "# The directory of the programs, and their arguments.\n".as_ref(),
            &programs(GatherRun::Early),
            &assign_list("srun", &srun_arguments(job)),
            &assign_list("ai_integrate", &self.ai_integrate_arguments(job, &job.size)),
        ]);
        let array = [(DIRECTIVES, &*array), (SETTINGS, &array_settings)];
        let gather =
            [(DIRECTIVES, &*gather), (SETTINGS, &concat(&[&setup, &programs(GatherRun::Closing)]))];
        let new = |name, template| {
            Script::new_executable(
                name,
                fill_template(template, &[(SETTINGS, &change_directory(job))]),
            )
        };
        Ok(vec![
            Script::new_bash("job.sbatch", fill_template(include_str!("slurm/job.sbatch"), &array)),
            Script::new_bash(
                "gather.sbatch",
                fill_template(include_str!("slurm/gather.sbatch"), &gather),
            ),
            queue_script(job),
            new("status", include_str!("slurm/status")),
            new("cancel", include_str!("slurm/cancel")),
            new("resubmit", include_str!("slurm/resubmit")),
            new("submit", include_str!("slurm/submit")),
        ])
    }

    fn ai_integrate_arguments(&self, job: &JobSettings, size: &JobSize) -> Vec<String> {
        // The one ai-integrate of an element uses all its GPUs. With `slot`, it would use the first
        // of them alone.
        if size.gpus > 1 {
            job.without_device_slot().job_arguments(size)
        } else {
            job.job_arguments(size)
        }
    }

    fn explain(&self, job: &JobSettings, batches: usize) -> Result<Vec<ExplainRow>, EmitError> {
        let mut rows = vec![batches_row(job, batches), ExplainRow::new_heading("job.sbatch")];
        rows.extend(array_directives(job, batches)?.iter().map(ExplainRow::from_directive));
        rows.push(ExplainRow::new_heading("gather.sbatch"));
        rows.extend(gather_directives(job)?.iter().map(ExplainRow::from_directive));
        Ok(rows)
    }
}

/// Returns `queue.bash`, which the scripts that submit, watch and cancel source.
pub fn queue_script(job: &JobSettings) -> Script {
    let limit = job.max_array_size.map(|limit| limit.to_string()).unwrap_or_default();
    let memory_mib = job.memory.map_or(0, |(_, memory)| memory.bytes().div_ceil(1 << 20));
    let settings = concat(&[
        &assign_count(job),
        &assign_missing(job),
        &assign("workers", job.size.workers.to_string()),
        &assign("memory_option", job.memory.map_or("", |(option, _)| option)),
        &assign("memory_mib", memory_mib.to_string()),
        "# Largest number of elements of a job array; if empty, SLURM is asked.\n".as_ref(),
        &assign("max_array_size", limit),
    ]);
    Script::new_bash(
        "queue.bash",
        fill_template(include_str!("slurm/queue.bash"), &[(SETTINGS, &settings)]),
    )
}

/// Returns the arguments of srun. They repeat the CPUs, because since SLURM 22.05, srun does not
/// take them from the job.
fn srun_arguments(job: &JobSettings) -> Vec<String> {
    let mut arguments = ["-n", "1", "-c", &job.size.cpus().to_string()].map(str::to_owned).to_vec();
    if let (Some(_), GpuRequest::PerTask(_)) = (job.slurm.ntasks_per_node, &job.gpus) {
        // Otherwise, the one task of srun would have only the GPUs of one of the job's tasks.
        arguments.push(format!("--gpus-per-task={}", job.size.gpus));
    }
    arguments.extend(job.slurm.cpu_bind.iter().map(|kind| format!("--cpu-bind={kind}")));
    if job.gpus == GpuRequest::None {
        // SLURM does not hide the GPUs of a node from jobs that request none; they belong to other
        // jobs.
        arguments.extend(["env", "CUDA_VISIBLE_DEVICES="].map(str::to_owned));
    }
    arguments
}

/// Returns lines of bash that select the directory of programs for another architecture.
fn select_bin_by_partition(job: &JobSettings) -> OsString {
    if job.partition_bins.is_empty() {
        return OsString::new();
    }
    let mut lines = OsString::from(
        "# The first of several partitions is the one that the job runs in.\ncase ${SLURM_JOB_PARTITION%%,*} in\n",
    );
    for (partition, dir) in &job.partition_bins {
        lines.push(quote::shell(partition.as_ref()));
        lines.push(") bin=");
        lines.push(quote::shell(dir.as_os_str()));
        lines.push(" ;;\n");
    }
    lines.push("esac\n");
    lines
}
