//! What runs a plan: its batches and scripts for each engine.

pub mod dask;
pub mod ray;

mod driver;
mod local;
mod makefile;
mod slurm;

use crate::args::Target;
use crate::batches::Batch;
use crate::error::Error;
use crate::job::Job;
use crate::plan::Plan;
use crate::scripts::Script;

/// The batches of the plan, and the scripts that run them.
///
/// # Errors
/// A value that can't stand in a script.
pub fn emit(target: Target, job: &Job, plan: &Plan) -> Result<(Vec<Batch>, Vec<Script>), Error> {
    let batches = match target {
        Target::Make => makefile::batches(plan)?,
        // their drivers hand out the tasks one by one
        Target::Dask | Target::DaskHere | Target::Ray | Target::RayHere => Vec::new(),
        Target::Slurm | Target::Local | Target::Parallel => Batch::numbered(job.cut.ranges(plan)),
    };
    let scripts = match target {
        Target::Slurm => slurm::scripts(job, batches.len())?,
        Target::Local => local::scripts(job),
        Target::Parallel => local::scripts_for_parallel(job),
        Target::Make => makefile::scripts(job, plan),
        Target::Dask => dask::scripts(job)?,
        Target::DaskHere => dask::scripts_for_local(job),
        Target::Ray => ray::scripts(job)?,
        Target::RayHere => ray::scripts_for_local(job),
    };
    Ok((batches, scripts))
}
