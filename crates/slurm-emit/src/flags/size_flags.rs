//! The flags for the size of jobs and batches.

use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args as Group, ValueHint};

use crate::job_size::JobSize;
use crate::memory::{ByteRate, MemorySize};

/// The flags for the size of jobs and batches.
#[derive(Clone, Debug, Group)]
#[command(next_help_heading = "Jobs and batches")]
pub struct JobSizeFlags {
    /// Jobs that run at a time [default: 4]
    ///
    /// These are jobs, not nodes: SLURM may start several on one node. To use all GPUs of some
    /// nodes, with one GPU for each job, take the number of nodes times the GPUs of a node.
    #[arg(long, value_name = "W", overrides_with_all = ["scale", "adapt"], value_parser = filter::whole_number::<u64>(1..))]
    pub n_workers: Option<u64>,

    /// Jobs that run at a time, in dask's syntax, such as jobs=4
    ///
    /// jobs=W is --n-workers W. cores=N and memory=M are the total of all jobs, such as cores=128
    /// or memory=1T. A number alone counts dask's workers, one per engine, as scale(20) does.
    #[arg(long, value_name = "SIZE", overrides_with_all = ["n_workers", "adapt"], hide_short_help = true)]
    pub scale: Option<Scale>,

    /// Fewest and most jobs of dask workers at a time, such as 0,8
    ///
    /// There are as many as the tasks that are left keep busy: jobs without a task end early. Other
    /// targets run the most.
    #[arg(long, value_name = "MIN,MAX", overrides_with_all = ["n_workers", "scale"], hide_short_help = true)]
    pub adapt: Option<Adapt>,

    /// Fewest nodes with which Ray goes on if it does not start on the others
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = filter::whole_number::<u64>(1..), hide_short_help = true)]
    pub min_nodes: u64,

    /// Seconds in which Ray has to start on each node
    #[arg(long, value_name = "S", default_value_t = 120, value_parser = filter::whole_number::<u64>(1..=86400), hide_short_help = true)]
    pub node_seconds: u64,

    /// Tasks at a time in each job [default: 8]
    ///
    /// Each task has its own engine, and the engines of a job share its GPU. dask's name of this
    /// flag, --processes, is accepted, too.
    #[arg(long, alias = "processes", value_name = "E", value_parser = filter::whole_number::<u64>(1..))]
    pub ai_engines_per_worker: Option<u64>,

    /// CPU threads for each task [default: 4]
    ///
    /// A job requests tasks x threads: 8 x 4 = 32 CPUs by default. To give the CPUs of the whole
    /// job, use --cores.
    #[arg(long, value_name = "C", overrides_with = "cores", value_parser = filter::whole_number::<u64>(1..))]
    pub cores_per_worker: Option<u64>,

    /// CPUs of each job, divided among its engines
    ///
    /// Without --ai-engines-per-worker, a job has as many engines as dask-jobqueue starts
    /// processes.
    #[arg(long, value_name = "N", overrides_with = "cores_per_worker", value_parser = filter::whole_number::<u64>(1..), hide_short_help = true)]
    pub cores: Option<u64>,

    /// Compute engine: auto, cpu or opencl
    ///
    /// Passed to `ai-integrate --engine`; by default, ai-integrate chooses.
    #[arg(long, value_name = "KIND", value_parser = parse_engine)]
    pub engine: Option<String>,

    /// OpenCL devices of each job: 0,1 or slot
    ///
    /// Passed to `ai-integrate --device`. The default is right for jobs of SLURM: each uses the
    /// GPUs that it requested. slot is for several processes on a machine, each of which takes one
    /// device, in turn: those of --target local, parallel and make, and the workers of dask and
    /// ray. An element of a job array uses all its GPUs with slot, too.
    #[arg(long, value_name = "I,J", hide_short_help = true, value_parser = NonEmptyStringValueParser::new())]
    pub device: Option<String>,

    /// Pass an argument to each ai-integrate, as in --ai-integrate-arg=--verify=3; may be repeated
    #[arg(long, value_name = "ARG", allow_hyphen_values = true, hide_short_help = true)]
    pub ai_integrate_arg: Vec<String>,

    /// Pass an argument to each gather, as in --gather-arg=--average=mean; may be repeated
    ///
    /// Reports, plots and merged results are written when all scans are integrated, and not before.
    /// Relative paths begin in --dir.
    #[arg(long, value_name = "ARG", allow_hyphen_values = true, hide_short_help = true)]
    pub gather_arg: Vec<String>,

    /// Minutes of work per batch
    ///
    /// Each element of the job array works on one batch. With 0, each task is a batch.
    ///
    /// The first batches are shorter, so that results come soon, and so are the last batches, so
    /// that all jobs end at about the same time. Scans are integrated in their order, except that a
    /// short one may go first, so that a first result comes early.
    #[arg(long, value_name = "M", default_value_t = 10.0, value_parser = parse_minutes)]
    pub batch_minutes: f64,

    /// Bytes of stored (compressed) data that a job integrates per second
    ///
    /// Used to estimate how long a task takes. Units are powers of 1024.
    #[arg(
        long,
        value_name = "R",
        default_value = "500M",
        overrides_with = "rate_from",
        hide_short_help = true
    )]
    pub rate: ByteRate,

    /// Take the rate from the result records of an earlier run
    ///
    /// RESULTS is a file with the output of ai-integrate, such as one in DIR/results.
    #[arg(long, value_name = "RESULTS", overrides_with = "rate", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub rate_from: Option<PathBuf>,

    /// Most elements of a job array [default: SLURM's MaxArraySize at submission]
    ///
    /// If there are more batches, each element works on several. There are fewer elements, too,
    /// where SLURM takes fewer jobs of the user.
    #[arg(long, value_name = "N", value_parser = filter::whole_number::<u64>(1..), hide_short_help = true)]
    pub max_array_size: Option<u64>,

    /// Logical CPUs of a node, for warnings [default: from sinfo]
    ///
    /// On a single machine, its CPUs, for the sizes that are printed; the scripts count them again.
    #[arg(long, value_name = "N", value_parser = filter::whole_number::<u64>(1..), hide_short_help = true)]
    pub node_cpus: Option<u64>,
}

/// A number of jobs, as dask's `scale` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// As many jobs as have so many engines together, dask's workers.
    Engines(u64),
    /// The number itself.
    Jobs(u64),
    /// As many jobs as have so many CPUs together.
    Cores(u64),
    /// As many jobs as have so much memory together.
    Memory(MemorySize),
}

impl Scale {
    /// Returns the number of jobs of this size and with this memory, or `None` if the memory is
    /// needed and not known.
    pub fn count_jobs(self, size: &JobSize, memory: Option<MemorySize>) -> Option<u64> {
        match self {
            Self::Engines(count) => Some(count.div_ceil(size.engines)),
            Self::Jobs(count) => Some(count),
            Self::Cores(count) => Some(count.div_ceil(size.cpus())),
            Self::Memory(total) => Some(total.bytes().div_ceil(memory?.bytes())),
        }
    }
}

impl FromStr for Scale {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let count = |text: &str| text.parse().ok().filter(|&count: &u64| count > 0);
        let text =
            text.strip_prefix("scale(").and_then(|text| text.strip_suffix(')')).unwrap_or(text);
        let scale = match text.split_once('=') {
            Some(("jobs", jobs)) => count(jobs).map(Self::Jobs),
            Some(("cores", cores)) => count(cores).map(Self::Cores),
            Some(("memory", memory)) => memory.parse().ok().map(Self::Memory),
            None => count(text).map(Self::Engines),
            _ => None,
        };
        scale.ok_or_else(|| {
            "expected jobs=W, cores=N, memory=M or a number of workers, such as jobs=4".to_owned()
        })
    }
}

/// The fewest and the most jobs at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adapt {
    /// The fewest jobs, which are kept without tasks, too.
    pub fewest: u64,
    /// The most jobs, at least one and not less than the fewest.
    pub most: u64,
}

impl FromStr for Adapt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (fewest, most) = text.split_once(',')?;
            Some(Self { fewest: fewest.trim().parse().ok()?, most: most.trim().parse().ok()? })
        };
        let is_range = |adapt: &Self| adapt.most > 0 && adapt.fewest <= adapt.most;
        parse()
            .filter(is_range)
            .ok_or_else(|| "expected the fewest and the most jobs, such as 0,8".to_owned())
    }
}

/// Checks the name of an engine, which are those of `ai-integrate --engine`.
fn parse_engine(text: &str) -> Result<String, &'static str> {
    let is_known = ["auto", "cpu", "opencl"].contains(&text);
    if is_known { Ok(text.to_owned()) } else { Err("expected auto, cpu or opencl") }
}

fn parse_minutes(text: &str) -> Result<f64, String> {
    let minutes: Option<f64> = text.parse().ok();
    minutes
        .filter(|minutes| (0.0..1e9).contains(minutes))
        .ok_or_else(|| "expected a number of minutes, 0 or more".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapt_is_a_range_of_jobs() {
        assert_eq!("0,8".parse(), Ok(Adapt { fewest: 0, most: 8 }));
        for wrong in ["8", "2,1", "0,0", "a,1", "-1,2", ""] {
            assert!(wrong.parse::<Adapt>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn scale_counts_jobs_as_dask_does() {
        let size = JobSize { workers: 1, engines: 3, threads: 2, gpus: 0 };
        let memory = "6GiB".parse().ok();
        let jobs = |text: &str| text.parse::<Scale>().unwrap().count_jobs(&size, memory);
        assert_eq!(
            [jobs("jobs=5"), jobs("cores=20"), jobs("memory=12G"), jobs("memory=13G")],
            [5, 4, 2, 3].map(Some)
        );
        assert_eq!("memory=1T".parse::<Scale>().unwrap().count_jobs(&size, None), None);
        assert_eq!([jobs("20"), jobs("scale(20)"), jobs("scale(jobs=3)")], [7, 7, 3].map(Some));
        for wrong in ["0", "scale(", "jobs=0", "cores=x", "gpus=1"] {
            assert!(wrong.parse::<Scale>().is_err(), "{wrong}");
        }
    }
}
