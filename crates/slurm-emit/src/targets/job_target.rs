//! The interface of a target.

use crate::batches::Batch;
use crate::error::EmitError;
use crate::explain::{ExplainRow, batches_row};
use crate::job_settings::JobSettings;
use crate::job_size::JobSize;
use crate::required_tool::RequiredTool;
use crate::scripts::Script;
use crate::task_plan::TaskPlan;

/// A system that runs a plan: a value of `--target`.
///
/// The scripts of a target keep four promises. `submit` may be run again at any time, and does what
/// is missing. A scan is gathered when its tasks are done. `cancel` loses no finished work. The
/// patterns have the bytes of a plain pipe.
pub trait JobTarget: Sync {
    /// Returns the value of `--target`.
    fn name(&self) -> &'static str;

    /// Returns the line about the target in `--help` and in the manual page.
    fn help(&self) -> &'static str;

    /// Returns whether the tasks run in jobs of SLURM, and not on this machine.
    fn uses_slurm(&self) -> bool {
        false
    }

    /// Returns whether the tasks run on nodes of a cluster, for which the sizes of jobs are meant.
    fn runs_elsewhere(&self) -> bool {
        self.uses_slurm()
    }

    /// Returns whether tasks can be added to the plan once its jobs are submitted, and `submit`
    /// takes `--partial`.
    fn takes_more_tasks(&self) -> bool {
        false
    }

    /// Returns the target that takes the place of this one with `--partition local`; `None` if it
    /// uses this machine.
    fn on_this_machine(&self) -> Option<&'static dyn JobTarget> {
        None
    }

    /// Returns the batches of the plan; `None` if a driver hands out the tasks one by one.
    ///
    /// # Errors
    /// Fails if a batch can't be named.
    fn batches(&self, job: &JobSettings, plan: &TaskPlan) -> Result<Option<Vec<Batch>>, EmitError> {
        Ok(Some(Batch::new_numbered(job.sizing.divide(plan))))
    }

    /// Returns the scripts that run the plan. `submit` comes last: if it is there, the others are,
    /// too.
    ///
    /// # Errors
    /// Fails if a value can't be written in a script.
    fn scripts(
        &self,
        job: &JobSettings,
        plan: &TaskPlan,
        batches: &[Batch],
    ) -> Result<Vec<Script>, EmitError>;

    /// Returns the flags of sizes and resources, by their ids, that change nothing in the scripts.
    fn unused_flags(&self) -> Vec<&'static str>;

    /// Returns the programs and Python modules that the scripts need, besides SLURM's.
    fn required_tools(&self, _job: &JobSettings) -> Vec<RequiredTool> {
        Vec::new()
    }

    /// Returns the script of Python that prints the job script of jobs that a driver submits, for
    /// `--check`.
    fn job_script_program(&self) -> Option<&'static str> {
        None
    }

    /// Checks that the smallest node of the partition, which has `node_cpus` CPUs, can run a job.
    ///
    /// # Errors
    /// Fails if the job would wait forever without a message.
    fn check_node(&self, _job: &JobSettings, _node_cpus: u64) -> Result<(), EmitError> {
        Ok(())
    }

    /// Returns the rows of `--explain` for the scripts.
    ///
    /// # Errors
    /// Fails if a value can't be written in a script.
    fn explain(&self, job: &JobSettings, batches: usize) -> Result<Vec<ExplainRow>, EmitError> {
        Ok(vec![batches_row(job, batches)])
    }

    /// Returns the arguments of an ai-integrate in jobs of this size: of one for all engines of a
    /// job, or of one for each.
    fn ai_integrate_arguments(&self, job: &JobSettings, size: &JobSize) -> Vec<String> {
        job.job_arguments(size)
    }
}
