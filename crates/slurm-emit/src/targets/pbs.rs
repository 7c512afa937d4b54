//! The scripts for PBS Professional and OpenPBS: a job array, and a gather after it.
//!
//! All options of qsub stand on its command line, in `submit`: a `#PBS` directive can't hold all
//! names.

use std::ffi::{OsStr, OsString};

use crate::batches::Batch;
use crate::error::EmitError;
use crate::job_settings::{GatherRun, JobSettings};
use crate::required_tool::RequiredTool;
use crate::scripts::{
    SETTINGS, Script, assign, assign_count, assign_list, assign_missing, assign_programs,
    change_directory, concat, fill_template,
};
use crate::targets::JobTarget;
use crate::targets::batch_script::batch_scripts;
use crate::targets::local::Local;
use crate::targets::unused_flags::{DASK_FLAGS, PYTHON, RAY_FLAGS, SLURM_FLAGS};
use crate::task_plan::TaskPlan;

/// A job array of PBS.
pub struct Pbs;

/// The largest number of subjobs of an array, unless the server's `max_array_size` is another.
const MAX_SUBJOBS: u64 = 10_000;

impl JobTarget for Pbs {
    fn name(&self) -> &'static str {
        "pbs"
    }

    fn help(&self) -> &'static str {
        "A job array of PBS Professional or OpenPBS, and a gather after it"
    }

    fn runs_elsewhere(&self) -> bool {
        true
    }

    fn on_this_machine(&self) -> Option<&'static dyn JobTarget> {
        Some(&Local)
    }

    fn unused_flags(&self) -> Vec<&'static str> {
        [DASK_FLAGS, RAY_FLAGS, SLURM_FLAGS, &["drain_seconds", PYTHON]].concat()
    }

    fn required_tools(&self, _: &JobSettings) -> Vec<RequiredTool> {
        vec![RequiredTool::Command { name: "qsub", of: "PBS" }]
    }

    fn scripts(
        &self,
        job: &JobSettings,
        _: &TaskPlan,
        _: &[Batch],
    ) -> Result<Vec<Script>, EmitError> {
        let setup = job.setup_lines();
        let size = concat(&[
            &assign("engines", job.size.engines.to_string()),
            &assign("cpus", job.size.cpus().to_string()),
        ]);
        let array = concat(&[&change_directory(job), &setup, &size]);
        let gather =
            concat(&[&change_directory(job), &setup, &assign_programs(job, GatherRun::Closing)]);
        let jobs = concat(&[
            &change_directory(job),
            &assign_count(job),
            &assign_missing(job),
            &assign("workers", job.size.workers.to_string()),
            &assign("most", job.max_array_size.unwrap_or(MAX_SUBJOBS).to_string()),
            &assign_list("array_options", &array_options(job)),
            &assign_list("gather_options", &gather_options(job)),
        ]);
        let filled =
            |template, settings: &OsString| fill_template(template, &[(SETTINGS, settings)]);
        let mut scripts = batch_scripts(job, OsStr::new(""));
        scripts.extend([
            Script::new_bash("job.pbs", filled(include_str!("pbs/job.pbs"), &array)),
            Script::new_bash("gather.pbs", filled(include_str!("pbs/gather.pbs"), &gather)),
            Script::new_bash("queue.bash", filled(include_str!("pbs/queue.bash"), &jobs)),
        ]);
        for (name, template) in [
            ("status", include_str!("pbs/status")),
            ("cancel", include_str!("pbs/cancel")),
            ("resubmit", include_str!("resubmit")),
            ("submit", include_str!("pbs/submit")),
        ] {
            scripts.push(Script::new_executable(name, filled(template, &change_directory(job))));
        }
        Ok(scripts)
    }
}

/// Returns the options of qsub for the job array.
fn array_options(job: &JobSettings) -> Vec<String> {
    let mut select = format!("select=1:ncpus={}", job.size.cpus());
    if let Some((_, memory)) = job.memory {
        select += &format!(":mem={}mb", memory.bytes().div_ceil(1 << 20));
    }
    if job.size.gpus > 0 {
        select += &format!(":ngpus={}", job.size.gpus);
    }
    options(job, &job.slurm.partition, &select)
}

/// Returns the options of qsub for the closing gather, which needs no GPU.
fn gather_options(job: &JobSettings) -> Vec<String> {
    let queue = job.slurm.gather_partition.as_ref().or(job.slurm.partition.as_ref());
    options(job, &queue.cloned(), &format!("select=1:ncpus={}", job.size.threads))
}

/// Returns the options that both jobs have.
fn options(job: &JobSettings, queue: &Option<String>, select: &str) -> Vec<String> {
    let name = job.slurm.job_name.as_deref().unwrap_or("azpipe");
    let seconds = job.walltime.seconds();
    let (minutes, seconds) = (seconds / 60, seconds % 60);
    let walltime = format!("walltime={:02}:{:02}:{seconds:02}", minutes / 60, minutes % 60);
    // A job runs again if its node fails. Its messages go to one log.
    let mut words = vec!["-N", name, "-r", "y", "-j", "oe", "-l", select, "-l", &walltime];
    for (option, value) in [("-q", queue), ("-A", &job.slurm.account)] {
        words.extend(value.iter().flat_map(|value| [option, value.as_str()]));
    }
    words.into_iter().map(str::to_owned).collect()
}
