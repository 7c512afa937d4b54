//! The scripts for GNU parallel, on this machine or on others that its `--sshloginfile` names.

use crate::batches::Batch;
use crate::error::EmitError;
use crate::job_settings::JobSettings;
use crate::required_tool::RequiredTool;
use crate::scripts::Script;
use crate::targets::JobTarget;
use crate::targets::single_machine::{self, submit_script, with_control_scripts, worker_script};
use crate::task_plan::TaskPlan;

/// Workers that GNU parallel starts.
pub struct Parallel;

impl JobTarget for Parallel {
    fn name(&self) -> &'static str {
        "parallel"
    }

    fn help(&self) -> &'static str {
        "GNU parallel, here or on other machines"
    }

    fn scripts(
        &self,
        job: &JobSettings,
        _: &TaskPlan,
        _: &[Batch],
    ) -> Result<Vec<Script>, EmitError> {
        let scripts = vec![worker_script(job), submit_script(job, include_str!("parallel/submit"))];
        Ok(with_control_scripts(job, "workers", scripts))
    }

    fn unused_flags(&self) -> Vec<&'static str> {
        single_machine::unused_flags()
    }

    fn required_tools(&self, _: &JobSettings) -> Vec<RequiredTool> {
        vec![
            RequiredTool::Program { name: "parallel", version: "GNU parallel" },
            RequiredTool::Program { name: "taskset", version: "taskset" },
        ]
    }
}
