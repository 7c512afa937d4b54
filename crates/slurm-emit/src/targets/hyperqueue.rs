//! The scripts for HyperQueue: a job with a task for each batch, on the workers of a server.

use crate::batches::Batch;
use crate::error::EmitError;
use crate::job_settings::{GatherRun, JobSettings};
use crate::python_literals::string_literal;
use crate::required_tool::RequiredTool;
use crate::scripts::{
    SETTINGS, Script, assign, assign_missing, assign_programs, change_directory, concat,
    fill_template,
};
use crate::targets::JobTarget;
use crate::targets::batch_script::batch_scripts;
use crate::targets::single_machine::with_control_scripts;
use crate::targets::unused_flags::{DASK_FLAGS, QUEUE_FLAGS, RAY_FLAGS, SLURM_FLAGS};
use crate::task_plan::TaskPlan;

/// A job of HyperQueue.
pub struct HyperQueue;

impl JobTarget for HyperQueue {
    fn name(&self) -> &'static str {
        "hyperqueue"
    }

    fn help(&self) -> &'static str {
        "HyperQueue: a task for each batch, on the workers of its server"
    }

    fn runs_elsewhere(&self) -> bool {
        true
    }

    fn scripts(
        &self,
        job: &JobSettings,
        _: &TaskPlan,
        _: &[Batch],
    ) -> Result<Vec<Script>, EmitError> {
        let setup = job.setup_lines();
        let settings = format!(
            "DIR = {}\nENGINES = {}\nCPUS = {}\nNAME = {}\n",
            string_literal(&job.dir),
            job.size.engines,
            job.size.cpus(),
            string_literal(job.slurm.job_name.as_deref().unwrap_or("azpipe")),
        );
        let driver =
            fill_template(include_str!("hyperqueue/driver.py"), &[(SETTINGS, settings.as_ref())]);
        let submit = concat(&[
            &change_directory(job),
            &setup,
            &assign_programs(job, GatherRun::Closing),
            &assign_missing(job),
            &assign("python", &job.python),
        ]);
        let submit = fill_template(include_str!("hyperqueue/submit"), &[(SETTINGS, &submit)]);
        let mut scripts = batch_scripts(job, &setup);
        scripts.push(Script::new_source("driver.py", driver));
        scripts.push(Script::new_executable("submit", submit));
        Ok(with_control_scripts(job, "workers", scripts))
    }

    fn unused_flags(&self) -> Vec<&'static str> {
        [DASK_FLAGS, RAY_FLAGS, QUEUE_FLAGS, SLURM_FLAGS].concat()
    }

    fn required_tools(&self, _: &JobSettings) -> Vec<RequiredTool> {
        vec![RequiredTool::PythonModule("hyperqueue")]
    }
}
