//! The command line.

mod site;
mod size;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use clap::{Parser, ValueEnum, ValueHint};
use filter::CommonArgs;

pub use site::{Choice, MemoryChoice, SiteFlags};
pub use size::SizeFlags;

/// Write SLURM job scripts that integrate tasks
///
/// Reads task records (from plan-split) and writes a directory with the plan, a job array, a closing gather, and the
/// scripts to call: submit, status, cancel and resubmit. Nothing runs until you call DIR/submit. Call it again to
/// submit what is missing. Records of other types are copied to stdout.
#[derive(Clone, Debug, Parser)]
#[command(name = "slurm-emit", version, args_override_self = true, after_long_help = include_str!("examples.txt"))]
pub struct Args {
    /// Files of task records; `-` or no FILE reads stdin
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,

    /// Directory to write: plan, scripts, logs and results
    ///
    /// It must be new, empty, or written by slurm-emit for the same plan. All nodes must see it.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,

    /// Submit at once: run DIR/submit
    #[arg(long)]
    pub submit: bool,

    /// Ask SLURM whether it would accept the jobs
    ///
    /// Prints what SLURM refuses, with the reason; the exit status is then 2.
    #[arg(long)]
    pub check: bool,

    /// Print each setting and its reason; write nothing
    #[arg(long)]
    pub explain: bool,

    /// System that runs the tasks
    #[arg(long, value_name = "SYSTEM", default_value = "slurm")]
    pub target: Target,

    /// Read settings of your site from a TOML file; flags win
    ///
    /// The keys are the names of the flags of the groups below, and `target` and `bin`; a list repeats a flag, and `true`
    /// gives a flag without a value. An example of a file:
    ///
    /// partition = "gpu"
    ///
    /// time = "02:00:00"
    ///
    /// setup = ["module load cuda"]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub profile: Option<PathBuf>,

    /// Read settings of the cluster from an INI file of ESRF's integrator
    ///
    /// Takes partition, numbers of workers, engines and cores, time and memory from its section "computations
    /// distribution". The profile and flags win.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub integrator_ini: Option<PathBuf>,

    /// Directory of ai-integrate and gather on the nodes [default: that of slurm-emit]
    ///
    /// PARTITION=DIR names the directory for the nodes of one partition, such as p9gpu=/opt/ppc64le/bin, when those
    /// need programs for another architecture. May be repeated.
    #[arg(long, value_name = "[PARTITION=]DIR", value_hint = ValueHint::DirPath, hide_short_help = true)]
    pub bin: Vec<Bin>,

    /// Python with dask or Ray, for --target dask and ray
    ///
    /// It must be found on this machine and on the nodes.
    #[arg(long, value_name = "PROGRAM", default_value = "python3", hide_short_help = true)]
    pub python: OsString,

    #[command(flatten)]
    pub size: SizeFlags,

    #[command(flatten)]
    pub site: SiteFlags,

    #[command(flatten)]
    pub common: CommonArgs,
}

impl AsRef<CommonArgs> for Args {
    fn as_ref(&self) -> &CommonArgs {
        &self.common
    }
}

impl Target {
    /// Whether its jobs are SLURM's.
    pub fn is_slurm(self) -> bool {
        matches!(self, Self::Slurm | Self::Dask | Self::Ray)
    }
}

impl Args {
    /// The integrator's names of partitions, in SLURM's: `local` is none, and `any` both of those with GPUs.
    pub fn with_partition_names(mut self) -> Self {
        match self.site.partition.as_deref() {
            Some("local") => {
                self.site.partition = None;
                self.target = match self.target {
                    Target::Dask => Target::DaskHere,
                    Target::Ray => Target::RayHere,
                    Target::Slurm => Target::Local,
                    other => other,
                };
            }
            Some("any") => self.site.partition = Some("gpu,p9gpu".to_owned()),
            _ => (),
        }
        self
    }
}

/// The system that runs the tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// A SLURM job array, and a gather after it.
    Slurm,
    /// This machine, without SLURM.
    Local,
    /// GNU parallel, here or on other machines.
    Parallel,
    /// A makefile.
    Make,
    /// Jobs of dask workers, started by dask-jobqueue, and a driver that hands out the tasks.
    Dask,
    /// Dask workers on this machine: `--partition local`.
    #[value(skip)]
    DaskHere,
    /// One job on several nodes with a Ray of its own, and a driver that hands out the tasks.
    Ray,
    /// Ray on this machine: `--partition local`.
    #[value(skip)]
    RayHere,
}

/// A directory of programs, for all nodes or for those of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bin {
    /// The partition whose nodes use this directory; `None` for all nodes.
    pub partition: Option<String>,
    /// The directory.
    pub dir: PathBuf,
}

impl From<OsString> for Bin {
    /// `PARTITION=DIR` or `DIR`; what has a slash before its first `=` is a directory.
    fn from(text: OsString) -> Self {
        let bytes = text.as_bytes();
        let partition = bytes.iter().position(|&byte| byte == b'=').and_then(|at| {
            let name = str::from_utf8(&bytes[..at]).ok().filter(|name| !name.contains('/'))?;
            Some((name.to_owned(), PathBuf::from(OsStr::from_bytes(&bytes[at + 1..]))))
        });
        match partition {
            Some((partition, dir)) => Self { partition: Some(partition), dir },
            None => Self { partition: None, dir: text.into() },
        }
    }
}
