//! The systems that run a plan: the batches and scripts for each `--target`.

pub mod dask;
pub mod ray;

mod driver;
mod local;
mod make;
mod slurm;

use crate::args::Target;
use crate::batches::Batch;
use crate::error::EmitError;
use crate::job_settings::JobSettings;
use crate::scripts::Script;
use crate::task_plan::TaskPlan;

/// Returns the batches of the plan, and the scripts that run them. Drivers of dask and Ray have no batches, because they
/// hand out the tasks one by one.
///
/// # Errors
/// Fails if a value can't be written in a script.
pub fn generate(target: Target, job: &JobSettings, plan: &TaskPlan) -> Result<(Vec<Batch>, Vec<Script>), EmitError> {
    let batches = match target {
        Target::Make => make::batches(plan)?,
        Target::Dask | Target::DaskLocal | Target::Ray | Target::RayLocal => Vec::new(),
        Target::Slurm | Target::Local | Target::Parallel => Batch::new_numbered(job.sizing.divide(plan)),
    };
    let scripts = match target {
        Target::Slurm => slurm::scripts(job, batches.len())?,
        Target::Local => local::scripts(job),
        Target::Parallel => local::scripts_for_parallel(job),
        Target::Make => make::scripts(job, plan),
        Target::Dask => dask::scripts(job)?,
        Target::DaskLocal => dask::scripts_for_this_machine(job),
        Target::Ray => ray::scripts(job)?,
        Target::RayLocal => ray::scripts_for_this_machine(job),
    };
    Ok((batches, scripts))
}
