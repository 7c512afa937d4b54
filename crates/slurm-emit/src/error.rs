//! The errors for which slurm-emit writes no scripts.

use std::path::PathBuf;

use filter::Stop;

use crate::walltime::Walltime;

/// The reason for which slurm-emit writes no scripts. Each message names first what it is about.
#[derive(Debug, thiserror::Error)]
pub enum EmitError {
    /// A value can't be written in an `#SBATCH` directive.
    #[error("{flag}: {why}; change the value of {flag}")]
    Directive {
        /// The flag of slurm-emit that gives the value.
        flag: &'static str,
        /// The reason, with the value.
        why: filter::quote::QuoteError,
    },
    /// A file or directory can't be read or written.
    #[error("{}: {why}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        why: std::io::Error,
    },
    /// The target hands out the tasks of a plan that does not grow.
    #[error(
        "--append: --target {target} takes no more tasks once it runs; use --target slurm, or leave out --append"
    )]
    AppendTarget {
        /// The name of the target.
        target: &'static str,
    },
    /// A task has several versions, as in the saved plan of a scan that was followed.
    #[error(
        "task {id} comes again with other content, as in a plan that was saved while its scans were measured: plan the scans again \
         now that they have ended, or pass --append"
    )]
    TaskVersions {
        /// The id of the task.
        id: String,
    },
    /// A task that is added writes the final file of other tasks by another recipe.
    #[error(
        "{}: the plan in --dir has another recipe for this file; choose another --dir, or plan the scans with \
         plan-split --recipe-name to keep both results",
        path.display()
    )]
    OtherRecipe {
        /// The final file.
        path: PathBuf,
    },
    /// Another process adds tasks to the directory.
    #[error("{}: another slurm-emit --append adds tasks to this directory; wait until it ends", path.display())]
    AppendInProgress {
        /// The directory.
        path: PathBuf,
    },
    /// The jobs of the directory were submitted with another plan.
    #[error(
        "{}: jobs were submitted from here with another plan or other batches; choose another --dir, add the new tasks \
         with --append, or remove this directory once its jobs have ended",
        path.display()
    )]
    OtherPlan {
        /// The directory.
        path: PathBuf,
    },
    /// The directory is neither empty nor written by slurm-emit.
    #[error(
        "{}: holds `{name}`, which slurm-emit did not write; expected a new or empty directory, or one that slurm-emit \
         wrote: choose another --dir",
        path.display()
    )]
    ForeignDirectory {
        /// The directory.
        path: PathBuf,
        /// The name of a file in it.
        name: String,
    },
    /// A file of somebody else is in the way, in a directory that slurm-emit wrote.
    #[error("{}: slurm-emit did not write this; move it away, or choose another --dir", path.display())]
    ForeignFile {
        /// The file or directory.
        path: PathBuf,
    },
    /// An id can't be a target of a makefile.
    #[error(
        "task or scan id `{id}`: expected letters, digits, `-` and `_`, because --target make names files by ids; \
         use --target local, which takes any id"
    )]
    MakeTarget {
        /// The id of a task or scan.
        id: String,
    },
    /// The memory can't be estimated, because a recipe can't be read.
    #[error(
        "--mem: {why}; restore the recipe file, or give the memory of a job, such as --mem 16G"
    )]
    Recipe {
        /// The error of the recipe, with its path.
        why: recipe::RecipeError,
    },
    /// A device is named for jobs that use none.
    #[error("--device: --engine cpu uses no device; give one of the two")]
    DeviceOfCpu,
    /// Jobs can't be counted by memory.
    #[error(
        "--scale memory: the memory of a job is not known; give it with --mem, such as --mem 16G"
    )]
    ScaleWithoutMemory,
    /// An argument for ai-integrate or gather does not belong into the scripts.
    #[error("{flag}: `{argument}` can't be passed on: {why}")]
    PassedArgument {
        /// The flag of slurm-emit.
        flag: &'static str,
        /// The argument that it gives.
        argument: String,
        /// The reason, or what to use instead.
        why: String,
    },
    /// A file of settings has a key or a value that no flag has.
    #[error("{}: {why}", path.display())]
    Settings {
        /// The file.
        path: PathBuf,
        /// The problem, and what was expected.
        why: String,
    },
    /// The configuration of ESRF's integrator can't be read.
    #[error("{0}")]
    IntegratorIni(recipe::RecipeError),
    /// A file of settings has a value that its flag refuses.
    #[error("{files}: {why}")]
    SettingValue {
        /// The files of settings, joined by `or`.
        files: String,
        /// The first line of clap's error.
        why: String,
    },
    /// The results of an earlier run don't tell a rate.
    #[error("{}: no result record of work that was done; expected a file that ai-integrate wrote", path.display())]
    NoRate {
        /// The file of results.
        path: PathBuf,
    },
    /// Jobs would stop before they could begin.
    #[error(
        "--drain-seconds {drain_seconds}: expected fewer seconds than the walltime of {walltime} has, {}",
        walltime.seconds()
    )]
    DrainTooEarly {
        /// Seconds before the walltime at which a job stops.
        drain_seconds: u64,
        /// The walltime of a job.
        walltime: Walltime,
    },
    /// No node has as many CPUs as a job of Ray.
    #[error(
        "{job_cpus} CPUs per job: a node has {node_cpus}, and Ray would wait forever for a larger one; reduce \
         --ai-engines-per-worker or --cores-per-worker"
    )]
    LargerThanNode {
        /// CPUs of a job.
        job_cpus: u64,
        /// CPUs of a node.
        node_cpus: u64,
    },
}

impl EmitError {
    /// Returns a function that converts an error of the system into one about `path`.
    pub fn at(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |why| Self::File { path, why }
    }
}

impl From<EmitError> for Stop {
    fn from(error: EmitError) -> Self {
        // Each message begins with its subject and a colon. A path may hold a colon, too: joined
        // again, it is unchanged.
        let message = error.to_string();
        let (what, why) = message.split_once(": ").unwrap_or(("error", &message));
        Self::fatal(what, why)
    }
}
