//! The scripts for this machine, with xargs, which every Linux has.

use crate::batches::Batch;
use crate::error::EmitError;
use crate::job_settings::JobSettings;
use crate::required_tool::RequiredTool;
use crate::scripts::Script;
use crate::targets::JobTarget;
use crate::targets::single_machine::{self, submit_script, with_control_scripts, worker_script};
use crate::task_plan::TaskPlan;

/// Workers on this machine, started by xargs.
pub struct Local;

impl JobTarget for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn help(&self) -> &'static str {
        "This machine, without SLURM"
    }

    fn scripts(
        &self,
        job: &JobSettings,
        _: &TaskPlan,
        _: &[Batch],
    ) -> Result<Vec<Script>, EmitError> {
        let scripts = vec![worker_script(job), submit_script(job, include_str!("local/submit"))];
        Ok(with_control_scripts(job, "workers", scripts))
    }

    fn unused_flags(&self) -> Vec<&'static str> {
        single_machine::unused_flags()
    }

    fn required_tools(&self, _: &JobSettings) -> Vec<RequiredTool> {
        vec![
            RequiredTool::Program { name: "xargs", version: "xargs (GNU findutils)" },
            RequiredTool::Program { name: "taskset", version: "taskset" },
        ]
    }
}
