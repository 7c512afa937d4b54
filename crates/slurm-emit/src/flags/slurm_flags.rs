//! The flags for sbatch, in which sites differ.

use std::ffi::OsString;
use std::str::FromStr;

use clap::Args as Group;
use clap::builder::NonEmptyStringValueParser;

use crate::cluster_argument::ClusterArgument;
use crate::memory::MemorySize;
use crate::walltime::Walltime;

/// A value that is given, or `auto`: estimated from the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoOr<T> {
    /// Estimated from the plan.
    Auto,
    /// As given.
    Value(T),
}

impl<T: FromStr> FromStr for AutoOr<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        if text == "auto" { Ok(Self::Auto) } else { text.parse().map(Self::Value) }
    }
}

/// The memory that a job requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryRequest {
    /// No request: the site's default applies.
    SiteDefault,
    /// An amount, estimated or given.
    Amount(AutoOr<MemorySize>),
}

impl FromStr for MemoryRequest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" { Ok(Self::SiteDefault) } else { text.parse().map(Self::Amount) }
    }
}

/// The flags for sbatch.
#[derive(Clone, Debug, Group)]
#[command(next_help_heading = "Resources of each job")]
pub struct SlurmFlags {
    /// Partition, or several: gpu,p9gpu
    ///
    /// local is --target local; with --target dask or ray, it starts the workers on this machine.
    /// The --profile of a site can give names to lists of partitions, such as any to gpu,p9gpu at
    /// ESRF.
    ///
    /// --queue is accepted, too, as in dask-jobqueue.
    #[arg(short, long, alias = "queue", value_name = "P", value_parser = NonEmptyStringValueParser::new())]
    pub partition: Option<String>,

    /// Walltime of each job, or auto
    ///
    /// A plain number is minutes, as for sbatch; other forms are MM:SS, HH:MM:SS, D-HH, D-HH:MM or
    /// D-HH:MM:SS. A job that does not finish in time requeues itself. auto requests twice the time
    /// that a batch is estimated to take, and five minutes.
    ///
    /// --walltime is accepted, too, as in dask-jobqueue.
    #[arg(short, long, alias = "walltime", value_name = "T", default_value = "01:00:00")]
    pub time: AutoOr<Walltime>,

    /// Seconds before the walltime at which a job stops and requeues itself [default: 120, or a
    /// quarter of T]
    ///
    /// Until then, the job finishes the frames in progress and writes their results.
    #[arg(long, value_name = "S", value_parser = filter::whole_number::<u64>(1..=65535), hide_short_help = true)]
    pub drain_seconds: Option<u64>,

    /// Memory of each job: 100G, auto or none [default: auto]
    ///
    /// auto estimates the memory from recipe, frame size and threads. none leaves the memory to the
    /// site's default; at many sites, a job then gets all memory of its node, and no second job
    /// fits there. 100G counts in powers of 1024, and 100GB in powers of 1000, as in dask-jobqueue.
    ///
    /// --memory is accepted, too, as in dask-jobqueue.
    #[arg(long, alias = "memory", value_name = "M", overrides_with_all = ["mem_per_cpu", "mem_per_gpu"])]
    pub mem: Option<MemoryRequest>,

    /// Memory per CPU, such as 4G, in place of --mem
    #[arg(long, value_name = "M", overrides_with_all = ["mem", "mem_per_gpu"], hide_short_help = true)]
    pub mem_per_cpu: Option<MemorySize>,

    /// Memory per GPU, such as 64G, in place of --mem
    #[arg(long, value_name = "M", overrides_with_all = ["mem", "mem_per_cpu"], hide_short_help = true)]
    pub mem_per_gpu: Option<MemorySize>,

    /// GPUs of each job: gpu:1, shard:4, none or auto
    ///
    /// auto requests one GPU if the partition's name contains "gpu", and none otherwise: for a
    /// partition of GPUs with another name, give gpu:1. Jobs that request no GPU use none.
    #[arg(long, value_name = "G", default_value = "auto", overrides_with_all = ["gpus", "gpus_per_task"])]
    pub gres: String,

    /// GPUs of each job, such as 1, for sites that require --gpus in place of --gres
    #[arg(long, value_name = "G", overrides_with_all = ["gres", "gpus_per_task"], hide_short_help = true, value_parser = parse_gpu_count)]
    pub gpus: Option<String>,

    /// GPUs of each job, such as 1, for sites that require --gpus-per-task in place of --gres
    #[arg(long, value_name = "G", overrides_with_all = ["gres", "gpus"], hide_short_help = true, value_parser = parse_gpu_count)]
    pub gpus_per_task: Option<String>,

    /// Request the CPUs of a job as N SLURM tasks on one node
    ///
    /// For sites that require it. ai-integrate still runs once in each job.
    #[arg(long, value_name = "N", value_parser = filter::whole_number::<u64>(1..), hide_short_help = true)]
    pub ntasks_per_node: Option<u64>,

    /// Account to charge
    #[arg(short = 'A', long, value_name = "A", help_heading = "Account and nodes", value_parser = NonEmptyStringValueParser::new())]
    pub account: Option<String>,

    /// Quality of service
    #[arg(long, value_name = "Q", help_heading = "Account and nodes", value_parser = NonEmptyStringValueParser::new())]
    pub qos: Option<String>,

    /// Features that the nodes must have
    #[arg(short = 'C', long, value_name = "LIST", help_heading = "Account and nodes", value_parser = NonEmptyStringValueParser::new())]
    pub constraint: Option<String>,

    /// Nodes to use, such as node[01-04]
    #[arg(
        short = 'w',
        long,
        value_name = "LIST",
        hide_short_help = true,
        help_heading = "Account and nodes",
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub nodelist: Option<String>,

    /// Nodes not to use, such as node07
    #[arg(
        short = 'x',
        long,
        value_name = "LIST",
        help_heading = "Account and nodes",
        hide_short_help = true,
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub exclude: Option<String>,

    /// Reservation to run in
    #[arg(long, value_name = "NAME", hide_short_help = true, help_heading = "Account and nodes", value_parser = NonEmptyStringValueParser::new())]
    pub reservation: Option<String>,

    /// Licenses, such as that of a file system
    #[arg(
        short = 'L',
        long,
        value_name = "LIST",
        hide_short_help = true,
        help_heading = "Account and nodes",
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub licenses: Option<String>,

    /// Request whole nodes, shared with no other job
    #[arg(long, hide_short_help = true, help_heading = "Account and nodes")]
    pub exclusive: bool,

    /// Use of hardware threads, such as nomultithread
    ///
    /// nomultithread gives a job one physical core for each CPU.
    #[arg(
        long,
        value_name = "TYPE",
        overrides_with = "threads_per_core",
        hide_short_help = true,
        help_heading = "Account and nodes",
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub hint: Option<String>,

    /// Hardware threads to use per core, for sites that require it in place of --hint
    #[arg(
        long,
        value_name = "N",
        value_parser = filter::whole_number::<u64>(1..),
        overrides_with = "hint",
        hide_short_help = true,
        help_heading = "Account and nodes"
    )]
    pub threads_per_core: Option<u64>,

    /// How srun binds ai-integrate to CPUs, such as cores
    #[arg(long, value_name = "TYPE", hide_short_help = true, help_heading = "Account and nodes", value_parser = NonEmptyStringValueParser::new())]
    pub cpu_bind: Option<String>,

    /// Name of the jobs [default: azpipe]
    ///
    /// Jobs with dask workers are named dask-worker by default.
    #[arg(
        short = 'J',
        long,
        value_name = "NAME",
        help_heading = "Job scripts",
        hide_short_help = true,
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub job_name: Option<String>,

    /// Network interface for dask's scheduler and workers, such as ib0
    #[arg(long, value_name = "NAME", hide_short_help = true, help_heading = "Job scripts", value_parser = NonEmptyStringValueParser::new())]
    pub interface: Option<String>,

    /// Pass an argument to dask-jobqueue's SLURMCluster, such as death_timeout=120; may be repeated
    ///
    /// VALUE is TOML, as in nanny=false or 'scheduler_options={ port = 8786 }', or else a string.
    /// worker_extra_args, job_script_prologue, job_extra_directives, job_directives_skip and
    /// scheduler_options are added to those of slurm-emit and of jobqueue.yaml; other arguments
    /// replace them. security takes the certificates of a site, such as { tls_ca_file = "ca.pem",
    /// ... }; false switches TLS off. In a --profile, the table named dask has these arguments.
    #[arg(long, value_name = "NAME=VALUE", hide_short_help = true, help_heading = "Job scripts")]
    pub cluster_kwarg: Vec<ClusterArgument>,

    /// Serve dask's dashboard on the driver's node
    ///
    /// It listens on the loopback interface alone, and the log of the driver says how to see it
    /// from elsewhere. Other users who are logged in to that node can see it, too. Needs the Python
    /// module bokeh.
    #[arg(long, hide_short_help = true, help_heading = "Job scripts")]
    pub dashboard: bool,

    /// Add a line to the #SBATCH header, such as --directive=--comment=id31; may be repeated
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        hide_short_help = true,
        help_heading = "Job scripts"
    )]
    pub directive: Vec<OsString>,

    /// Leave out a line of the #SBATCH header, such as cpus-per-task; may be repeated
    #[arg(
        long,
        value_name = "NAME",
        allow_hyphen_values = true,
        hide_short_help = true,
        help_heading = "Job scripts",
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub skip_directive: Vec<String>,

    /// Bash line to run first, such as 'module load cuda'
    ///
    /// Each job runs it at its start. May be repeated.
    #[arg(long, value_name = "LINE", help_heading = "Job scripts")]
    pub setup: Vec<OsString>,

    /// Partition of the closing gather [default: that of the job array]
    ///
    /// gather needs no GPU.
    #[arg(long, value_name = "P", hide_short_help = true, help_heading = "Job scripts", value_parser = NonEmptyStringValueParser::new())]
    pub gather_partition: Option<String>,
}

/// Checks a number of GPUs as `sbatch --gpus` takes it: `2`, `a100:2`, or several of these.
fn parse_gpu_count(text: &str) -> Result<String, &'static str> {
    let is_count = |one: &str| {
        let count = one.rsplit(':').next().unwrap_or(one);
        !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit())
    };
    if text.split(',').all(is_count) {
        Ok(text.to_owned())
    } else {
        Err("expected a number of GPUs, such as 1 or a100:2")
    }
}
