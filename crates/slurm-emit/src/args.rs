//! The command line.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args as Group, Parser, ValueEnum, ValueHint};
use manners::Common;

use crate::memory::{Memory, Rate};
use crate::size::Size;
use crate::walltime::Walltime;

/// Turn tasks into job scripts
///
/// Reads task records and writes a directory: the plan, its batches, the scripts of the jobs, and four scripts
/// to call: submit, status, cancel and resubmit. Nothing runs before submit is called. Records of other
/// types go on to stdout.
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
    pub common: Common,
}

impl AsRef<Common> for Args {
    fn as_ref(&self) -> &Common {
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
    /// A job array of SLURM, and a gather after it.
    Slurm,
    /// This machine alone.
    Local,
    /// GNU parallel, here or on other machines.
    Parallel,
    /// A makefile.
    Make,
    /// dask: a driver, and workers that dask-jobqueue starts.
    Dask,
    /// The same with workers on this machine: `--partition local`.
    #[value(skip)]
    DaskHere,
    /// Ray: a job on so many nodes, and a driver.
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

/// How the work is shared.
#[derive(Clone, Debug, Group)]
#[command(next_help_heading = "Size")]
pub struct SizeFlags {
    /// Jobs at a time
    #[arg(long, value_name = "W", default_value_t = 4, overrides_with = "scale", value_parser = clap::value_parser!(u64).range(1..))]
    pub n_workers: u64,

    /// The same, as dask's scale takes it: jobs=W, or what all jobs have together, cores=N or memory=M
    #[arg(long, value_name = "SIZE", overrides_with = "n_workers")]
    pub scale: Option<Scale>,

    /// Engines in a job, which share its GPU [default: 8]
    #[arg(long, visible_alias = "processes", value_name = "E", value_parser = clap::value_parser!(u64).range(1..))]
    pub ai_engines_per_worker: Option<u64>,

    /// Threads of an engine, a CPU each [default: 4]
    #[arg(long, value_name = "C", overrides_with = "cores", value_parser = clap::value_parser!(u64).range(1..))]
    pub cores_per_worker: Option<u64>,

    /// CPUs of a job, which its engines divide; alone, it gives as many engines as dask-jobqueue would processes
    #[arg(long, value_name = "N", overrides_with = "cores_per_worker", value_parser = clap::value_parser!(u64).range(1..))]
    pub cores: Option<u64>,

    /// The engine, as ai-integrate takes it [default: what ai-integrate finds]
    #[arg(long, value_name = "KIND")]
    pub engine: Option<String>,

    /// Minutes that a batch of tasks should take; 0 for one task a batch
    ///
    /// Batches are shorter where the plan is so small that some workers would have less than four of them.
    #[arg(long, value_name = "M", default_value_t = 10.0, value_parser = minutes)]
    pub batch_minutes: f64,

    /// Stored bytes that a job integrates in a second, for the size of batches
    #[arg(long, value_name = "R", default_value = "500M", overrides_with = "rate_from")]
    pub rate: Rate,

    /// Take the rate from the result records of earlier work
    #[arg(long, value_name = "RESULTS", overrides_with = "rate", value_hint = ValueHint::FilePath)]
    pub rate_from: Option<PathBuf>,

    /// Elements that SLURM allows an array [default: what scontrol says when it is submitted]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_array_size: Option<u64>,

    /// Logical CPUs of a node, for warnings [default: what sinfo says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub node_cpus: Option<u64>,
}

/// A value, or one that is found from the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice<T> {
    /// Found from the plan.
    Auto,
    /// As it is said.
    Said(T),
}

impl<T: FromStr> FromStr for Choice<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        if text == "auto" { Ok(Self::Auto) } else { text.parse().map(Self::Said) }
    }
}

/// How many jobs, as dask's `scale` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// So many.
    Jobs(u64),
    /// Those that have so many CPUs together.
    Cores(u64),
    /// Those that have so much memory together.
    Memory(Memory),
}

impl Scale {
    /// How many jobs of this size and with this memory. `None` where that takes a memory that is not said.
    pub fn jobs(self, size: &Size, memory: Option<Memory>) -> Option<u64> {
        match self {
            Self::Jobs(count) => Some(count),
            Self::Cores(count) => Some(count.div_ceil(size.cpus())),
            Self::Memory(all) => Some(all.bytes().div_ceil(memory?.bytes())),
        }
    }
}

impl FromStr for Scale {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let count = |text: &str| text.parse().ok().filter(|&count: &u64| count > 0);
        let scale = match text.split_once('=') {
            Some(("jobs", jobs)) => count(jobs).map(Self::Jobs),
            Some(("cores", cores)) => count(cores).map(Self::Cores),
            Some(("memory", memory)) => memory.parse().ok().map(Self::Memory),
            _ => None,
        };
        scale.ok_or_else(|| "expected jobs=W, cores=N or memory=M".to_owned())
    }
}

/// What sbatch is told.
#[derive(Clone, Debug, Group)]
#[command(next_help_heading = "SLURM")]
pub struct SiteFlags {
    /// The partition, or several with commas; as the integrator has it, local is --target local, and any gpu,p9gpu
    #[arg(short, long, visible_alias = "queue", value_name = "P")]
    pub partition: Option<String>,

    /// The walltime of a job, or auto: twice what its batch should take
    #[arg(short, long, visible_alias = "walltime", value_name = "T", default_value = "01:00:00")]
    pub time: Choice<Walltime>,

    /// Seconds before the walltime at which a job finishes its frames and requeues itself [default: 120, or a quarter of T]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=65535))]
    pub drain_seconds: Option<u64>,

    /// Memory of a job, or auto: by detector and threads; 100G is of 1024, 100GB of 1000 as for dask-jobqueue
    #[arg(long, visible_alias = "memory", value_name = "M", overrides_with_all = ["mem_per_cpu", "mem_per_gpu"])]
    pub mem: Option<Choice<Memory>>,

    /// Memory of each CPU, in place of --mem
    #[arg(long, value_name = "M", overrides_with_all = ["mem", "mem_per_gpu"])]
    pub mem_per_cpu: Option<Memory>,

    /// Memory for each GPU, in place of --mem
    #[arg(long, value_name = "M", overrides_with_all = ["mem", "mem_per_cpu"])]
    pub mem_per_gpu: Option<Memory>,

    /// Generic resources, such as gpu:1 or shard:4; none; or auto: gpu:1 where the partition's name has gpu in it
    #[arg(long, value_name = "G", default_value = "auto", overrides_with_all = ["gpus", "gpus_per_task"])]
    pub gres: String,

    /// GPUs of a job, where the site wants --gpus in place of --gres
    #[arg(long, value_name = "G", overrides_with_all = ["gres", "gpus_per_task"])]
    pub gpus: Option<String>,

    /// GPUs of a job, where the site wants --gpus-per-task in place of --gres
    #[arg(long, value_name = "G", overrides_with_all = ["gres", "gpus"])]
    pub gpus_per_task: Option<String>,

    /// The account to charge
    #[arg(short = 'A', long, value_name = "A")]
    pub account: Option<String>,

    /// The quality of service
    #[arg(long, value_name = "Q")]
    pub qos: Option<String>,

    /// Features that the nodes must have
    #[arg(short = 'C', long, value_name = "LIST")]
    pub constraint: Option<String>,

    /// Nodes to use
    #[arg(short = 'w', long, value_name = "LIST")]
    pub nodelist: Option<String>,

    /// Nodes not to use
    #[arg(short = 'x', long, value_name = "LIST")]
    pub exclude: Option<String>,

    /// The reservation to run in
    #[arg(long, value_name = "NAME")]
    pub reservation: Option<String>,

    /// Licenses, such as that of a file system
    #[arg(short = 'L', long, value_name = "LIST")]
    pub licenses: Option<String>,

    /// Have each node alone
    #[arg(long)]
    pub exclusive: bool,

    /// How to use hardware threads, such as nomultithread: a physical core for each CPU
    #[arg(long, value_name = "TYPE", overrides_with = "threads_per_core")]
    pub hint: Option<String>,

    /// Hardware threads of a core to use, where the site wants that in place of --hint
    #[arg(long, value_name = "N", overrides_with = "hint")]
    pub threads_per_core: Option<u64>,

    /// How srun binds ai-integrate to CPUs, such as cores
    #[arg(long, value_name = "TYPE")]
    pub cpu_bind: Option<String>,

    /// The name of the jobs [default: azpipe; dask-worker for the workers of dask]
    #[arg(short = 'J', long, value_name = "NAME")]
    pub job_name: Option<String>,

    /// The network interface that dask's workers and scheduler talk over
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,

    /// One more directive, such as --directive=--comment=id31; may be repeated
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub directive: Vec<OsString>,

    /// A directive of ours to leave out, such as cpus-per-task; may be repeated
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub skip_directive: Vec<String>,

    /// A line of bash to run first in each job, such as --setup 'module load cuda'; may be repeated
    #[arg(long, value_name = "LINE")]
    pub setup: Vec<OsString>,

    /// The partition of the closing gather, which needs no GPU [default: that of the array]
    #[arg(long, value_name = "P")]
    pub gather_partition: Option<String>,
}

fn minutes(text: &str) -> Result<f64, String> {
    let minutes: Option<f64> = text.parse().ok();
    minutes.filter(|minutes| (0.0..1e9).contains(minutes)).ok_or_else(|| "expected minutes, 0 or more".to_owned())
}
