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

/// Turn tasks into job scripts
///
/// Reads task records and writes a directory: the plan, the scripts that run it, and those to call: submit, and
/// where SLURM runs it status, cancel and resubmit. Nothing runs before submit is called, which may be called
/// again: it runs what is missing. Records of other types go on to stdout.
#[derive(Clone, Debug, Parser)]
#[command(name = "slurm-emit", version, args_override_self = true)]
pub struct Args {
    /// Files of task records; `-` or none is stdin
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,

    /// What is to run the tasks
    #[arg(long, value_name = "ENGINE", default_value = "slurm")]
    pub target: Target,

    /// The directory to write: plan, scripts, logs and results
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,

    /// Run DIR/submit
    #[arg(long)]
    pub submit: bool,

    /// Ask SLURM whether the jobs could run, and say what it refuses and why
    #[arg(long)]
    pub check: bool,

    /// Write nothing, and show what becomes of each setting, and why
    #[arg(long)]
    pub explain: bool,

    /// Where ai-integrate and gather are, as the nodes see it [default: beside slurm-emit]
    ///
    /// PARTITION=DIR says it for the nodes of one partition, for programs of another architecture.
    #[arg(long, value_name = "[PARTITION=]DIR", value_hint = ValueHint::DirPath)]
    pub bin: Vec<Bin>,

    /// The Python that has dask or Ray, on this machine and on the nodes
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub python: OsString,

    /// Settings of the site: a TOML file whose keys are the names of the flags below; flags win
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub profile: Option<PathBuf>,

    /// Take partition, sizes, time and memory from an INI file of ESRF's integrator; profile and flags win
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub integrator_ini: Option<PathBuf>,

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

/// What runs the tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// A job array, and a gather after it.
    Slurm,
    /// This machine alone.
    Local,
    /// GNU parallel, here or on other machines.
    Parallel,
    /// A makefile.
    Make,
    /// Jobs of dask workers, started by dask-jobqueue, and a driver that hands out the tasks.
    Dask,
    /// The same with workers on this machine: `--partition local`.
    #[value(skip)]
    DaskHere,
    /// One job on several nodes with a Ray of its own, and a driver that hands out the tasks.
    Ray,
    /// The same on this machine: `--partition local`.
    #[value(skip)]
    RayHere,
}

/// Where the programs are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bin {
    /// The partition whose nodes find them there; all, where there is none.
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
