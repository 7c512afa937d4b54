//! Flags of what sbatch is told, which is what sites differ in.

use std::ffi::OsString;
use std::str::FromStr;

use clap::Args as Group;

use crate::memory::Memory;
use crate::walltime::Walltime;

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

/// The memory of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryChoice {
    /// SLURM is not told.
    None,
    /// Found from the plan, or as it is said.
    Some(Choice<Memory>),
}

impl FromStr for MemoryChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" { Ok(Self::None) } else { text.parse().map(Self::Some) }
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

    /// Memory of a job, none (as the site has it), or auto: by recipe, frames and threads [default: auto]
    ///
    /// 100G is of 1024, and 100GB of 1000 as for dask-jobqueue. With none, many sites give a job all memory of its
    /// node, and no second job a place on it.
    #[arg(long, visible_alias = "memory", value_name = "M", overrides_with_all = ["mem_per_cpu", "mem_per_gpu"])]
    pub mem: Option<MemoryChoice>,

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

    /// Ask for the CPUs of a job as those of N tasks on one node, where the site wants that; ai-integrate stays one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub ntasks_per_node: Option<u64>,

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
