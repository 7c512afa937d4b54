//! The plan as a Snakefile, with a job for each batch.

use crate::batches::Batch;
use crate::error::EmitError;
use crate::job_settings::{GatherRun, JobSettings};
use crate::required_tool::RequiredTool;
use crate::scripts::{
    SETTINGS, Script, assign, assign_missing, assign_programs, assign_size_request,
    change_directory, concat, fill_template,
};
use crate::targets::JobTarget;
use crate::targets::batch_script::batch_scripts;
use crate::targets::single_machine::with_control_scripts;
use crate::targets::unused_flags::{DASK_FLAGS, JOB_NAME, QUEUE_FLAGS, RAY_FLAGS, SLURM_FLAGS};
use crate::task_plan::TaskPlan;

/// A Snakefile.
pub struct Snakemake;

impl JobTarget for Snakemake {
    fn name(&self) -> &'static str {
        "snakemake"
    }

    fn help(&self) -> &'static str {
        "A Snakefile, on this machine, or where an executor of Snakemake runs it"
    }

    fn scripts(
        &self,
        job: &JobSettings,
        _: &TaskPlan,
        _: &[Batch],
    ) -> Result<Vec<Script>, EmitError> {
        let setup = job.setup_lines();
        let size = format!("ENGINES = {}\nCPUS = {}\n", job.size.engines, job.size.cpus());
        let snakefile =
            fill_template(include_str!("snakemake/Snakefile"), &[(SETTINGS, size.as_ref())]);
        let submit = concat(&[
            &change_directory(job),
            &setup,
            &assign_programs(job, GatherRun::Closing),
            &assign_missing(job),
            &assign("python", &job.python),
            &assign_size_request(job),
        ]);
        let mut scripts = batch_scripts(job, &setup);
        scripts.push(Script::new_source("Snakefile", snakefile));
        let run = include_str!("snakemake/run_snakemake.py");
        scripts.push(Script::new_source("run_snakemake.py", run.into()));
        let submit = fill_template(include_str!("snakemake/submit"), &[(SETTINGS, &submit)]);
        scripts.push(Script::new_executable("submit", submit));
        Ok(with_control_scripts(job, "workers", scripts))
    }

    fn unused_flags(&self) -> Vec<&'static str> {
        [DASK_FLAGS, RAY_FLAGS, QUEUE_FLAGS, SLURM_FLAGS, &[JOB_NAME]].concat()
    }

    fn required_tools(&self, _: &JobSettings) -> Vec<RequiredTool> {
        vec![RequiredTool::PythonModule("snakemake")]
    }
}
