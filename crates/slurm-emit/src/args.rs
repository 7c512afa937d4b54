//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, PathBufValueParser, TypedValueParser};
use clap::{Parser, ValueHint};
use filter::CommonArgs;

use crate::flags::{JobSizeFlags, ProgramDirectory, SlurmFlags};
use crate::targets::Target;

/// The partition that stands for this machine.
pub const THIS_MACHINE: &str = "local";

/// Write SLURM job scripts that integrate tasks
///
/// Reads task records (from plan-split) and writes a directory with the plan, a job array, a
/// closing gather, and the scripts to call: submit, status, cancel and resubmit. Nothing runs until
/// you call DIR/submit. Call it again to submit the tasks that are missing. Records of other types
/// are copied to stdout.
#[derive(Clone, Debug, Parser)]
#[command(name = "slurm-emit", version, args_override_self = true, after_long_help = include_str!("examples.txt"))]
pub struct Args {
    /// Files of task records; `-` or no FILE reads stdin
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,

    /// Directory to write: plan, scripts, logs and results
    ///
    /// It must be new, empty, or written by slurm-emit. Once its jobs are submitted, it keeps its
    /// plan. It must be on a file system that all nodes see, and so must the raw data and the
    /// results (`plan-split --out`).
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,

    /// Submit the jobs at once, as DIR/submit does
    #[arg(long, conflicts_with = "explain")]
    pub submit: bool,

    /// Add tasks to the plan of --dir, as they come
    ///
    /// For plans that grow, and for scans that are being measured: scan-find --follow | plan-split
    /// ... | slurm-emit --append --submit ... Tasks that the plan has are skipped. With --submit,
    /// new batches are submitted every ten seconds, so that at most --n-workers jobs wait or run,
    /// and one more that waits to gather all results. When the input ends, all that is missing is
    /// submitted, and slurm-emit ends. Needs --target slurm.
    #[arg(long, conflicts_with = "explain", hide_short_help = true)]
    pub append: bool,

    /// Ask SLURM whether it would accept the jobs
    ///
    /// DIR is written first. Each problem is printed with its reason; the exit status is then 2,
    /// and nothing is submitted. Programs that the jobs need are looked for, too.
    #[arg(long, conflicts_with = "explain")]
    pub check: bool,

    /// Print each setting and its reason; write nothing
    #[arg(long)]
    pub explain: bool,

    /// System that runs the tasks
    ///
    /// Where the scripts use a single machine, which dask and ray do with --partition local, the
    /// engines together have as many threads as the machine that runs the scripts has CPUs, unless
    /// --n-workers or --ai-engines-per-worker ask for more engines.
    #[arg(long, value_name = "SYSTEM", default_value_t)]
    pub target: Target,

    /// Read settings of your site from a TOML file; flags win
    ///
    /// Keys are `target`, `bin`, and the names of the flags in the groups below, without the common
    /// options. A list repeats a flag, and `true` stands for a flag without a value. An example of
    /// a file:
    ///
    /// partition = "gpu"
    ///
    /// time = "02:00:00"
    ///
    /// setup = ["module load cuda"]
    ///
    /// partition-aliases = { any = "gpu,p9gpu" }
    ///
    /// The last line gives a list of partitions a name for --partition. A table named dask has
    /// arguments of dask-jobqueue's SLURMCluster, as --cluster-kwarg does. docs/profiles has
    /// examples.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub profile: Option<PathBuf>,

    /// Read settings of the cluster from an INI file of ESRF's integrator
    ///
    /// Takes partition, numbers of workers, engines and cores, time and memory from its section
    /// "computations distribution". Settings of --profile and flags win. The other sections are for
    /// --print-pipe.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub integrator_ini: Option<PathBuf>,

    /// Print the pipe that runs all that --integrator-ini describes
    ///
    /// The pipe finds the scans of `location`, `hdf5_entry` and `detector_name`, integrates them as
    /// plan-split --recipe does with the file, and writes to the output's `location`. Its last
    /// command is this one, without --print-pipe. Nothing is read or written; `| bash` runs it.
    /// Relative paths begin in the directory of the file.
    #[arg(long, requires = "integrator_ini", hide_short_help = true)]
    pub print_pipe: bool,

    /// Directory of ai-integrate and gather on the nodes [default: that of slurm-emit]
    ///
    /// PARTITION=DIR is the directory for the nodes of one partition, such as
    /// p9gpu=/opt/ppc64le/bin, which need programs for another architecture. May be repeated.
    #[arg(long, value_name = "[PARTITION=]DIR", value_hint = ValueHint::DirPath, hide_short_help = true, value_parser = OsStringValueParser::new().try_map(ProgramDirectory::parse))]
    pub bin: Vec<ProgramDirectory>,

    /// Python with the modules that the target needs, such as dask or Ray
    ///
    /// It must be on this machine and on the nodes. --check says which module it lacks.
    #[arg(long, value_name = "PROGRAM", default_value = "python3", hide_short_help = true, value_parser = PathBufValueParser::new().map(PathBuf::into_os_string))]
    pub python: OsString,

    #[command(flatten)]
    pub size: JobSizeFlags,

    #[command(flatten)]
    pub slurm: SlurmFlags,

    #[command(flatten)]
    pub common: CommonArgs,
}

impl AsRef<CommonArgs> for Args {
    fn as_ref(&self) -> &CommonArgs {
        &self.common
    }
}

impl Args {
    /// Replaces the target if the partition is `local`, which means this machine to ESRF's
    /// integrator.
    pub fn with_local_target(mut self) -> Self {
        if self.slurm.partition.as_deref() == Some(THIS_MACHINE) {
            self.slurm.partition = None;
            self.target = self.target.on_this_machine();
        }
        self
    }
}
