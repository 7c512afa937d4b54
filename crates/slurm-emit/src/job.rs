//! What the jobs are told: the settings of the command line, with their defaults filled in.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::args::{Args, Bin, Choice, MemoryChoice, SiteFlags, SizeFlags};
use crate::batches::Cut;
use crate::demand;
use crate::error::Error;
use crate::gpus::Gpus;
use crate::memory::Memory;
use crate::plan::Plan;
use crate::rate;
use crate::size::Size;
use crate::walltime::Walltime;

/// All that the scripts depend on, but for the plan.
#[derive(Clone, Debug)]
pub struct Job {
    /// The directory of the scripts, absolute.
    pub dir: PathBuf,
    /// Where the programs are, absolute.
    pub bin: PathBuf,
    /// Where they are on the nodes of certain partitions.
    pub partition_bins: Vec<(String, PathBuf)>,
    /// How much runs at a time.
    pub size: Size,
    /// The GPUs of a job.
    pub gpus: Gpus,
    /// The option of sbatch that asks for memory, and how much.
    pub memory: Option<(&'static str, Memory)>,
    /// What a job should need, by the plan; 4 GiB where that can't be told.
    pub memory_needed: Memory,
    /// The walltime of a job.
    pub walltime: Walltime,
    /// Seconds before the walltime at which a job is told of it.
    pub drain_seconds: u64,
    /// How the plan is cut into batches.
    pub cut: Cut,
    /// Elements of an array, where SLURM is not to be asked.
    pub max_array_size: Option<u64>,
    /// `ai-integrate --engine`.
    pub engine: Option<String>,
    /// `ai-integrate --device`.
    pub device: Option<String>,
    /// Whether frames without data leave the status of ai-integrate and gather at 0.
    pub allow_missing: bool,
    /// The Python that has dask or Ray.
    pub python: OsString,
    /// What sbatch is told.
    pub site: SiteFlags,
}

/// The signal before the walltime: time enough for the frames in flight and the part that they go to.
const DRAIN_SECONDS: u64 = 120;

/// SLURM's own limit of the elements of an array.
const DEFAULT_ARRAY_SIZE: u64 = 1001;

impl Job {
    /// The settings of a command line.
    ///
    /// # Errors
    /// No working directory; results that tell no rate; a recipe that can't be read, for `--mem auto`; a signal
    /// that would come too soon.
    pub fn new(args: &Args, plan: &Plan) -> Result<Self, Error> {
        let site = &args.site;
        let gpus = match (&site.gpus, &site.gpus_per_task) {
            (Some(count), _) => Gpus::Whole(count.clone()),
            (_, Some(count)) => Gpus::PerTask(count.clone()),
            _ => Gpus::from_gres(&site.gres, site.partition.as_deref()),
        };
        // each task of a job has its own
        let tasks = if matches!(gpus, Gpus::PerTask(_)) { site.ntasks_per_node.unwrap_or(1) } else { 1 };
        let mut size = size(&args.size, gpus.count() * tasks);
        let memory = memory(site, plan, &size)?;
        if let Some(scale) = args.size.scale {
            size.workers = scale.jobs(&size, memory.map(|(_, memory)| memory)).ok_or(Error::Scale)?;
        }
        let rate = match &args.size.rate_from {
            Some(results) => rate::of_results(results, size.engines)?,
            None => args.size.rate.0,
        };
        let cut = Cut { minutes: args.size.batch_minutes, rate, workers: size.workers };
        let walltime = match site.time {
            Choice::Said(walltime) => walltime,
            Choice::Auto => demand::walltime(most_bytes(&cut, plan, args.size.max_array_size), rate),
        };
        let drain_seconds = site.drain_seconds.unwrap_or(DRAIN_SECONDS.min(walltime.seconds() / 4));
        if drain_seconds >= walltime.seconds() {
            return Err(Error::Drain { drain: drain_seconds, walltime });
        }
        let of_partition = |bin: &Bin| Some((bin.partition.clone()?, absolute(&bin.dir)));
        let partition_bins = args.bin.iter().filter_map(of_partition);
        let partition_bins = partition_bins.map(|(name, dir)| Ok((name, dir?))).collect::<Result<_, Error>>()?;
        Ok(Self {
            dir: absolute(&args.dir)?,
            bin: match args.bin.iter().rfind(|bin| bin.partition.is_none()) {
                Some(bin) => absolute(&bin.dir)?,
                None => own_directory()?,
            },
            partition_bins,
            memory_needed: demand::memory(plan, &size).unwrap_or(Memory::from_bytes(4 << 30)),
            memory,
            size,
            gpus,
            walltime,
            drain_seconds,
            cut,
            max_array_size: args.size.max_array_size,
            engine: args.size.engine.clone(),
            device: args.size.device.clone(),
            allow_missing: args.common.allow_missing,
            python: args.python.clone(),
            site: site.clone(),
        })
    }

    /// The lines of bash that come first in each job.
    pub fn setup_lines(&self) -> OsString {
        self.site.setup.iter().flat_map(|line| [line.clone(), "\n".into()]).collect()
    }

    /// ai-integrate's arguments.
    pub fn arguments(&self) -> Vec<String> {
        self.with_kind(&["--engines", &self.size.engines.to_string(), "--threads", &self.size.threads.to_string()])
    }

    /// The same without `--threads`.
    pub fn engine_arguments(&self) -> Vec<String> {
        self.with_kind(&["--engines", &self.size.engines.to_string()])
    }

    /// The same for a process that is one engine, of which as many run as there are engines.
    pub fn arguments_of_one(&self) -> Vec<String> {
        self.with_kind(&["--engines", "1", "--threads", &self.size.threads.to_string()])
    }

    /// Returns `--allow-missing` where ai-integrate and gather are to be given it.
    pub fn allow_missing_argument(&self) -> Option<&'static str> {
        self.allow_missing.then_some("--allow-missing")
    }

    /// Returns these arguments after those that say what computes, and before `--allow-missing`.
    fn with_kind(&self, sizes: &[&str]) -> Vec<String> {
        let said = [("--engine", &self.engine), ("--device", &self.device)];
        let kind = said.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value.clone()?])).flatten();
        let sizes = sizes.iter().copied().chain(self.allow_missing_argument());
        kind.chain(sizes.map(str::to_owned)).collect()
    }
}

/// Engines in a job, and threads in an engine, where neither is said.
const SIZE: (u64, u64) = (8, 4);

/// Jobs, engines and threads: said one by one, or as the CPUs of a job that engines divide.
fn size(flags: &SizeFlags, gpus: u64) -> Size {
    let (engines, threads) = match (flags.ai_engines_per_worker, flags.cores) {
        (Some(engines), Some(cores)) => (engines, (cores / engines).max(1)),
        (None, Some(cores)) => (processes(cores), cores / processes(cores)),
        (engines, None) => (engines.unwrap_or(SIZE.0), flags.cores_per_worker.unwrap_or(SIZE.1)),
    };
    Size { workers: flags.n_workers, engines, threads, gpus }
}

/// Processes of a job with so many CPUs, as dask-jobqueue has it: as many as CPUs up to 4, then the smallest
/// divisor from the square root on.
fn processes(cores: u64) -> u64 {
    let divides = |count: &u64| cores.is_multiple_of(*count) && count * count >= cores;
    if cores <= 4 { cores } else { (1..=cores).find(divides).unwrap_or(cores) }
}

/// What the site wants to be asked for memory, and how much of it.
fn memory(site: &SiteFlags, plan: &Plan, size: &Size) -> Result<Option<(&'static str, Memory)>, Error> {
    Ok(match (site.mem, site.mem_per_cpu, site.mem_per_gpu) {
        (Some(MemoryChoice::None), _, _) => None,
        (Some(MemoryChoice::Some(Choice::Said(memory))), _, _) => Some(("--mem", memory)),
        (None, Some(memory), _) => Some(("--mem-per-cpu", memory)),
        (None, _, Some(memory)) => Some(("--mem-per-gpu", memory)),
        _ => Some(("--mem", demand::memory(plan, size)?)),
    })
}

/// Stored bytes of the element with the most, where SLURM allows as many elements as by default.
fn most_bytes(cut: &Cut, plan: &Plan, max_array_size: Option<u64>) -> u64 {
    let batches = cut.ranges(plan);
    let largest = batches.iter().map(|batch| plan.costs()[batch.clone()].iter().sum()).max().unwrap_or(0_u64);
    let limit = max_array_size.unwrap_or(DEFAULT_ARRAY_SIZE);
    largest * (batches.len() as u64).div_ceil(limit)
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(Error::at(path))
}

/// Where this program is.
fn own_directory() -> Result<PathBuf, Error> {
    let program = std::env::current_exe().map_err(Error::at("/proc/self/exe"))?;
    Ok(program.parent().map(PathBuf::from).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_divided_as_dask_jobqueue_does() {
        let divided = [1, 4, 7, 8, 12, 16, 32, 64].map(|cores| (processes(cores), cores / processes(cores)));
        assert_eq!(divided, [(1, 1), (4, 1), (7, 1), (4, 2), (4, 3), (4, 4), (8, 4), (8, 8)]);
    }
}
