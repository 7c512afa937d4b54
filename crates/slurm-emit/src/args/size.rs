//! Flags of how much runs at a time, and of what a batch is.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args as Group, ValueHint};

use crate::memory::{Memory, Rate};
use crate::size::Size;

/// How the work is shared.
#[derive(Clone, Debug, Group)]
#[command(next_help_heading = "Jobs and batches")]
pub struct SizeFlags {
    /// Jobs that run at a time
    #[arg(long, value_name = "W", default_value_t = 4, overrides_with = "scale", value_parser = clap::value_parser!(u64).range(1..))]
    pub n_workers: u64,

    /// Jobs that run at a time, in dask's syntax, such as jobs=4
    ///
    /// jobs=W is --n-workers W; cores=N and memory=M are the total of all jobs, such as cores=128 or memory=1T.
    #[arg(long, value_name = "SIZE", overrides_with = "n_workers", hide_short_help = true)]
    pub scale: Option<Scale>,

    /// Tasks at a time in each job [default: 8]
    ///
    /// Each task has an engine of its own; the engines of a job share its GPU. dask's name of the flag, --processes, is
    /// accepted too.
    #[arg(long, alias = "processes", value_name = "E", value_parser = clap::value_parser!(u64).range(1..))]
    pub ai_engines_per_worker: Option<u64>,

    /// CPU threads for each task [default: 4]
    #[arg(long, value_name = "C", overrides_with = "cores", value_parser = clap::value_parser!(u64).range(1..))]
    pub cores_per_worker: Option<u64>,

    /// CPUs of each job, divided among its engines
    ///
    /// Without --ai-engines-per-worker, a job has as many engines as dask-jobqueue would start processes.
    #[arg(long, value_name = "N", overrides_with = "cores_per_worker", value_parser = clap::value_parser!(u64).range(1..), hide_short_help = true)]
    pub cores: Option<u64>,

    /// Compute engine: auto, cpu or opencl
    ///
    /// The names are those of `ai-integrate --engine`, which chooses by default.
    #[arg(long, value_name = "KIND")]
    pub engine: Option<String>,

    /// OpenCL devices of each job, as in ai-integrate: 0,1 or slot
    ///
    /// slot gives one device to each worker on a machine in turn.
    #[arg(long, value_name = "I,J", hide_short_help = true)]
    pub device: Option<String>,

    /// Minutes of work per batch
    ///
    /// A batch is the share of one element of the job array. With 0, each task is a batch.
    ///
    /// The first batches are shorter, so that results come soon, and so are the last batches, so that all jobs end at about
    /// the same time. Batches follow the order of the scans, except that the shortest of the scans that all jobs could begin
    /// with goes first.
    #[arg(long, value_name = "M", default_value_t = 10.0, value_parser = minutes)]
    pub batch_minutes: f64,

    /// Bytes of stored data that a job integrates per second
    ///
    /// Used to estimate how long a task takes.
    #[arg(long, value_name = "R", default_value = "500M", overrides_with = "rate_from", hide_short_help = true)]
    pub rate: Rate,

    /// Take the rate from the result records of an earlier run
    ///
    /// RESULTS is a file that ai-integrate wrote to stdout.
    #[arg(long, value_name = "RESULTS", overrides_with = "rate", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub rate_from: Option<PathBuf>,

    /// Elements that SLURM allows in a job array [default: MaxArraySize of scontrol, at submission]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), hide_short_help = true)]
    pub max_array_size: Option<u64>,

    /// Logical CPUs of a node, for warnings [default: from sinfo]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), hide_short_help = true)]
    pub node_cpus: Option<u64>,
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

fn minutes(text: &str) -> Result<f64, String> {
    let minutes: Option<f64> = text.parse().ok();
    minutes.filter(|minutes| (0.0..1e9).contains(minutes)).ok_or_else(|| "expected minutes, 0 or more".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_counts_jobs_as_dask_does() {
        let size = Size { workers: 1, engines: 3, threads: 2, gpus: 0 };
        let memory = "6GiB".parse().ok();
        let jobs = |text: &str| text.parse::<Scale>().unwrap().jobs(&size, memory);
        assert_eq!([jobs("jobs=5"), jobs("cores=20"), jobs("memory=12G"), jobs("memory=13G")], [5, 4, 2, 3].map(Some));
        assert_eq!("memory=1T".parse::<Scale>().unwrap().jobs(&size, None), None);
        for wrong in ["5", "jobs=0", "cores=x", "gpus=1"] {
            assert!(wrong.parse::<Scale>().is_err(), "{wrong}");
        }
    }
}
