//! The settings of the jobs: the flags of the command line, with their defaults filled in.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::args::{Args, AutoOr, JobSizeFlags, MemoryRequest, ProgramDirectory, SlurmFlags};
use crate::batches::BatchSizing;
use crate::error::EmitError;
use crate::estimate::{estimate_memory, estimate_walltime};
use crate::gpus::GpuRequest;
use crate::job_size::{JobSize, SizeRequest};
use crate::measured_rate::measure_rate;
use crate::memory::MemorySize;
use crate::task_plan::TaskPlan;
use crate::walltime::Walltime;

/// Everything that the scripts depend on, except for the plan.
#[derive(Clone, Debug)]
pub struct JobSettings {
    /// The directory of the scripts, absolute.
    pub dir: PathBuf,
    /// The directory of ai-integrate and gather, absolute.
    pub bin: PathBuf,
    /// The directories of the programs on the nodes of some partitions, by the name of the partition.
    pub partition_bins: Vec<(String, PathBuf)>,
    /// The size of the jobs on a cluster.
    pub size: JobSize,
    /// The sizes that flags gave, from which scripts for a single machine find their size.
    pub size_request: SizeRequest,
    /// The GPUs of a job.
    pub gpus: GpuRequest,
    /// The option of sbatch that requests memory, and its amount.
    pub memory: Option<(&'static str, MemorySize)>,
    /// The estimated memory of a job; 4 GiB if it can't be estimated.
    pub estimated_memory: MemorySize,
    /// The walltime of a job.
    pub walltime: Walltime,
    /// Seconds before the walltime at which a job is signalled.
    pub drain_seconds: u64,
    /// The size of the batches.
    pub sizing: BatchSizing,
    /// The largest number of elements of a job array; `None` to ask SLURM at submission.
    pub max_array_size: Option<u64>,
    /// The value of `ai-integrate --engine`.
    pub engine: Option<String>,
    /// The value of `ai-integrate --device`.
    pub device: Option<String>,
    /// True if frames without data don't make ai-integrate and gather fail.
    pub allow_missing: bool,
    /// The Python that has dask or Ray.
    pub python: OsString,
    /// The flags for sbatch.
    pub slurm: SlurmFlags,
}

/// Seconds before the walltime at which a job is signalled, by default: enough to finish the frames in progress and the
/// part that they belong to.
const DRAIN_SECONDS: u64 = 120;

/// SLURM's own default of the largest number of elements of a job array.
const DEFAULT_MAX_ARRAY_SIZE: u64 = 1001;

impl JobSettings {
    /// Creates the settings from a command line.
    ///
    /// # Errors
    /// Fails without a working directory, if results tell no rate, if `--mem auto` meets a recipe that can't be read, and
    /// if jobs would be signalled before they begin.
    pub fn new(args: &Args, plan: &TaskPlan) -> Result<Self, EmitError> {
        let slurm = &args.slurm;
        let gpus = match (&slurm.gpus, &slurm.gpus_per_task) {
            (Some(count), _) => GpuRequest::Gpus(count.clone()),
            (_, Some(count)) => GpuRequest::PerTask(count.clone()),
            _ => GpuRequest::from_gres(&slurm.gres, slurm.partition.as_deref()),
        };
        // Each SLURM task of a job has its own GPUs.
        let slurm_tasks = if matches!(gpus, GpuRequest::PerTask(_)) { slurm.ntasks_per_node.unwrap_or(1) } else { 1 };
        let mut size_request = size_request(&args.size);
        let mut size = size_request.on_cluster(gpus.count() * slurm_tasks);
        let memory = request_memory(slurm, plan, &size)?;
        if let Some(scale) = args.size.scale {
            let workers = scale.count_jobs(&size, memory.map(|(_, memory)| memory));
            size.workers = workers.ok_or(EmitError::ScaleWithoutMemory)?;
            size_request.workers = Some(size.workers);
        }
        let rate = match &args.size.rate_from {
            Some(results) => measure_rate(results, size.engines)?,
            None => args.size.rate.0,
        };
        let sizing = BatchSizing { minutes: args.size.batch_minutes, rate, workers: size.workers };
        let walltime = match slurm.time {
            AutoOr::Value(walltime) => walltime,
            AutoOr::Auto => estimate_walltime(largest_element_bytes(&sizing, plan, args.size.max_array_size), rate),
        };
        let drain_seconds = slurm.drain_seconds.unwrap_or(DRAIN_SECONDS.min(walltime.seconds() / 4));
        if drain_seconds >= walltime.seconds() {
            return Err(EmitError::DrainTooEarly { drain_seconds, walltime });
        }
        Ok(Self {
            dir: absolute_path(&args.dir)?,
            bin: match args.bin.iter().rfind(|bin| bin.partition.is_none()) {
                Some(bin) => absolute_path(&bin.dir)?,
                None => own_directory()?,
            },
            partition_bins: partition_bins(&args.bin)?,
            estimated_memory: estimate_memory(plan, &size).unwrap_or(MemorySize::from_bytes(4 << 30)),
            memory,
            size,
            size_request,
            gpus,
            walltime,
            drain_seconds,
            sizing,
            max_array_size: args.size.max_array_size,
            engine: args.size.engine.clone(),
            device: args.size.device.clone(),
            allow_missing: args.common.allow_missing,
            python: args.python.clone(),
            slurm: slurm.clone(),
        })
    }

    /// Returns the size that scripts for a single machine have on this machine.
    pub fn size_on_this_machine(&self) -> JobSize {
        self.size_request.on_machine(system::cpu::available_cpus() as u64, self.size.gpus)
    }

    /// Returns the lines of bash that each job runs first.
    pub fn setup_lines(&self) -> OsString {
        self.slurm.setup.iter().flat_map(|line| [line.clone(), "\n".into()]).collect()
    }

    /// Returns the arguments of an ai-integrate that is a whole job of this size.
    pub fn job_arguments(&self, size: &JobSize) -> Vec<String> {
        self.arguments(&["--engines", &size.engines.to_string(), "--threads", &size.threads.to_string()])
    }

    /// Returns the arguments of an ai-integrate that is one engine of this size. As many of them run as there are engines.
    pub fn engine_arguments(&self, size: &JobSize) -> Vec<String> {
        self.arguments(&["--engines", "1", "--threads", &size.threads.to_string()])
    }

    /// Returns the arguments of ai-integrate that don't depend on the size of the jobs.
    pub fn sizeless_arguments(&self) -> Vec<String> {
        self.arguments(&[])
    }

    /// Returns `--allow-missing` if ai-integrate and gather get this flag.
    pub fn allow_missing_argument(&self) -> Option<&'static str> {
        self.allow_missing.then_some("--allow-missing")
    }

    /// Returns `size_arguments` between the arguments for the compute engine and `--allow-missing`.
    fn arguments(&self, size_arguments: &[&str]) -> Vec<String> {
        let given = [("--engine", &self.engine), ("--device", &self.device)];
        let compute = given.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value.clone()?])).flatten();
        let others = size_arguments.iter().copied().chain(self.allow_missing_argument());
        compute.chain(others.map(str::to_owned)).collect()
    }
}

/// Returns the sizes that flags give: one by one, or by `--cores`, the CPUs of a job that its engines share.
fn size_request(flags: &JobSizeFlags) -> SizeRequest {
    let (engines, threads) = match (flags.ai_engines_per_worker, flags.cores) {
        (Some(engines), Some(cores)) => (Some(engines), Some((cores / engines).max(1))),
        (None, Some(cores)) => (Some(dask_processes(cores)), Some(cores / dask_processes(cores))),
        (engines, None) => (engines, flags.cores_per_worker),
    };
    SizeRequest { workers: flags.n_workers, engines, threads }
}

/// Returns the number of processes that dask-jobqueue starts in a job with `cores` CPUs: one per CPU up to 4 CPUs, then
/// the smallest divisor that is at least the square root.
fn dask_processes(cores: u64) -> u64 {
    let divides = |count: &u64| cores.is_multiple_of(*count) && count * count >= cores;
    if cores <= 4 { cores } else { (1..=cores).find(divides).unwrap_or(cores) }
}

/// Returns the option of sbatch that requests memory, and its amount.
fn request_memory(
    slurm: &SlurmFlags,
    plan: &TaskPlan,
    size: &JobSize,
) -> Result<Option<(&'static str, MemorySize)>, EmitError> {
    Ok(match (slurm.mem, slurm.mem_per_cpu, slurm.mem_per_gpu) {
        (Some(MemoryRequest::SiteDefault), _, _) => None,
        (Some(MemoryRequest::Amount(AutoOr::Value(memory))), _, _) => Some(("--mem", memory)),
        (None, Some(memory), _) => Some(("--mem-per-cpu", memory)),
        (None, _, Some(memory)) => Some(("--mem-per-gpu", memory)),
        _ => Some(("--mem", estimate_memory(plan, size)?)),
    })
}

/// Returns the stored bytes of the largest element, if SLURM allows as many elements as by default.
fn largest_element_bytes(sizing: &BatchSizing, plan: &TaskPlan, max_array_size: Option<u64>) -> u64 {
    let batches = sizing.divide(plan);
    let bytes = batches.iter().map(|batch| plan.stored_bytes()[batch.clone()].iter().sum());
    let limit = max_array_size.unwrap_or(DEFAULT_MAX_ARRAY_SIZE);
    bytes.max().unwrap_or(0_u64) * (batches.len() as u64).div_ceil(limit)
}

/// Returns the directories of programs that `--bin PARTITION=DIR` gives.
fn partition_bins(bins: &[ProgramDirectory]) -> Result<Vec<(String, PathBuf)>, EmitError> {
    let named = bins.iter().filter_map(|bin| Some((bin.partition.clone()?, &bin.dir)));
    named.map(|(partition, dir)| Ok((partition, absolute_path(dir)?))).collect()
}

fn absolute_path(path: &Path) -> Result<PathBuf, EmitError> {
    std::path::absolute(path).map_err(EmitError::at(path))
}

/// Returns the directory of this program.
fn own_directory() -> Result<PathBuf, EmitError> {
    let program = std::env::current_exe().map_err(EmitError::at("/proc/self/exe"))?;
    Ok(program.parent().map(PathBuf::from).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_divided_as_dask_jobqueue_does() {
        let divided = [1, 4, 7, 8, 12, 16, 32, 64].map(|cores| (dask_processes(cores), cores / dask_processes(cores)));
        assert_eq!(divided, [(1, 1), (4, 1), (7, 1), (4, 2), (4, 3), (4, 4), (8, 4), (8, 8)]);
    }
}
