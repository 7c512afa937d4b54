//! Flags of how much runs at a time, and of what a batch is.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args as Group, ValueHint};

use crate::memory::{Memory, Rate};
use crate::size::Size;

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

    /// OpenCL devices of a job, as ai-integrate takes them; slot gives one to each worker of a machine in turn
    #[arg(long, value_name = "I,J")]
    pub device: Option<String>,

    /// Minutes that a batch of tasks should take; 0 for one task a batch
    ///
    /// The first batches are shorter, so that results come soon, and so are the last ones, so that all jobs end at about
    /// the same time. They are in the order of the scans, but that the shortest of the scans that all jobs could begin with
    /// goes first.
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
