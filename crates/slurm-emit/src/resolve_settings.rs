//! Fills in the settings that no flag gave: from the plan, from results of an earlier run, and by
//! default.

use std::cell::OnceCell;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::args::Args;
use crate::batches::BatchSizing;
use crate::error::EmitError;
use crate::estimate::{estimate_build_seconds, estimate_memory, estimate_walltime};
use crate::flags::{AutoOr, JobSizeFlags, MemoryRequest, ProgramDirectory, SlurmFlags};
use crate::gpus::GpuRequest;
use crate::job_settings::JobSettings;
use crate::job_size::{JobSize, SizeRequest};
use crate::measured_rate::measure_rate;
use crate::memory::MemorySize;
use crate::passed_arguments::check_passed_arguments;
use crate::recipe_sizes::RecipeSizes;
use crate::task_plan::TaskPlan;

/// Seconds before the walltime at which a job is signalled, by default: enough to finish the frames
/// in progress and the part that they belong to.
const DRAIN_SECONDS: u64 = 120;

/// SLURM's own default of the largest number of elements of a job array.
const DEFAULT_MAX_ARRAY_SIZE: u64 = 1001;

/// Returns the settings that a command line gives for a plan.
///
/// # Errors
/// Fails without a working directory, if results tell no rate, if the memory or the
/// walltime must be estimated and a recipe can't be read, and if jobs would be signalled before they begin.
pub fn resolve_settings(args: &Args, plan: &TaskPlan) -> Result<JobSettings, EmitError> {
    check_passed_arguments(&args.size, &own_directory()?)?;
    if args.size.engine.as_deref() == Some("cpu") && args.size.device.is_some() {
        return Err(EmitError::DeviceOfCpu);
    }
    let slurm = &args.slurm;
    let gpus = match (&slurm.gpus, &slurm.gpus_per_task) {
        (Some(count), _) => GpuRequest::Gpus(count.clone()),
        (_, Some(count)) => GpuRequest::PerTask(count.clone()),
        _ => GpuRequest::from_gres(&slurm.gres, slurm.partition.as_deref()),
    };
    // Each SLURM task of a job has its own GPUs.
    let slurm_tasks =
        if matches!(gpus, GpuRequest::PerTask(_)) { slurm.ntasks_per_node.unwrap_or(1) } else { 1 };
    let mut size_request = size_request(&args.size);
    let mut size = size_request.on_cluster(gpus.count() * slurm_tasks);
    let has_flag = |flag| args.size.ai_integrate_arg.iter().any(|arg| arg == flag);
    let (has_pixel_statistics, has_sparse) = (has_flag("--pixel-stats"), has_flag("--sparse"));
    let recipes = OnceCell::new();
    let recipes = || match recipes.get() {
        Some(known) => Ok(known),
        None => RecipeSizes::read(plan).map(|read| recipes.get_or_init(|| read)),
    };
    let estimate = |size: &JobSize| {
        recipes()
            .map(|recipes| estimate_memory(plan, recipes, size, has_pixel_statistics, has_sparse))
    };
    let memory = request_memory(slurm, || estimate(&size))?;
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
        AutoOr::Auto => {
            let recipes = recipes()?;
            let seconds = |tasks: Range<usize>| {
                let bytes: u64 = plan.stored_bytes()[tasks.clone()].iter().sum();
                let builds = recipes.position_builds(plan, tasks);
                let pixels = plan.frame_maxima().pixels;
                bytes as f64 / rate + estimate_build_seconds(builds, pixels, &size)
            };
            estimate_walltime(largest_element(&sizing, plan, args.size.max_array_size, seconds))
        }
    };
    let drain_seconds = slurm.drain_seconds.unwrap_or(DRAIN_SECONDS.min(walltime.seconds() / 4));
    if drain_seconds >= walltime.seconds() {
        return Err(EmitError::DrainTooEarly { drain_seconds, walltime });
    }
    Ok(JobSettings {
        dir: absolute_path(&args.dir)?,
        bin: match args.bin.iter().rfind(|bin| bin.partition.is_none()) {
            Some(bin) => absolute_path(&bin.dir)?,
            None => own_directory()?,
        },
        partition_bins: partition_bins(&args.bin)?,
        estimated_memory: memory.map_or_else(|| estimate(&size), |(_, memory)| Ok(memory))?,
        memory,
        size,
        fewest_workers: args.size.adapt.map_or(size.workers, |adapt| adapt.fewest),
        min_nodes: args.size.min_nodes.min(size.workers),
        node_seconds: args.size.node_seconds,
        size_request,
        gpus,
        walltime,
        drain_seconds,
        sizing,
        max_array_size: args.size.max_array_size,
        engine: args.size.engine.clone(),
        device: args.size.device.clone(),
        ai_integrate_arguments: args.size.ai_integrate_arg.clone(),
        gather_arguments: args.size.gather_arg.clone(),
        allow_missing: args.common.allow_missing,
        python: args.python.clone(),
        slurm: slurm.clone(),
    })
}

/// Returns the sizes that flags give: one by one, or by `--cores`, the CPUs of a job that its
/// engines share.
fn size_request(flags: &JobSizeFlags) -> SizeRequest {
    let (engines, threads) = match (flags.ai_engines_per_worker, flags.cores) {
        (Some(engines), Some(cores)) => (Some(engines), Some((cores / engines).max(1))),
        (None, Some(cores)) => (Some(dask_processes(cores)), Some(cores / dask_processes(cores))),
        (engines, None) => (engines, flags.cores_per_worker),
    };
    SizeRequest {
        workers: flags.adapt.map(|adapt| adapt.most).or(flags.n_workers),
        engines,
        threads,
    }
}

/// Returns the number of processes that dask-jobqueue starts in a job with `cores` CPUs: one per
/// CPU up to 4 CPUs, then the smallest divisor that is at least the square root.
fn dask_processes(cores: u64) -> u64 {
    let divides = |count: &u64| cores.is_multiple_of(*count) && count * count >= cores;
    if cores <= 4 { cores } else { (1..=cores).find(divides).unwrap_or(cores) }
}

/// Returns the option of sbatch that requests memory, and its amount; that of `estimate` unless the
/// flags give one.
fn request_memory(
    slurm: &SlurmFlags,
    estimate: impl FnOnce() -> Result<MemorySize, EmitError>,
) -> Result<Option<(&'static str, MemorySize)>, EmitError> {
    Ok(match (slurm.mem, slurm.mem_per_cpu, slurm.mem_per_gpu) {
        (Some(MemoryRequest::SiteDefault), _, _) => None,
        (Some(MemoryRequest::Amount(AutoOr::Value(memory))), _, _) => Some(("--mem", memory)),
        (None, Some(memory), _) => Some(("--mem-per-cpu", memory)),
        (None, _, Some(memory)) => Some(("--mem-per-gpu", memory)),
        _ => Some(("--mem", estimate()?)),
    })
}

/// Returns the seconds of the largest element, of which `seconds` returns those of some tasks, if
/// SLURM allows as many elements as by default.
fn largest_element(
    sizing: &BatchSizing,
    plan: &TaskPlan,
    max_array_size: Option<u64>,
    seconds: impl Fn(Range<usize>) -> f64,
) -> f64 {
    let batches = sizing.divide(plan);
    let elements =
        (batches.len() as u64).div_ceil(max_array_size.unwrap_or(DEFAULT_MAX_ARRAY_SIZE));
    batches.into_iter().map(seconds).fold(0.0, f64::max) * elements as f64
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
        let divided = [1, 4, 7, 8, 12, 16, 32, 64]
            .map(|cores| (dask_processes(cores), cores / dask_processes(cores)));
        assert_eq!(divided, [(1, 1), (4, 1), (7, 1), (4, 2), (4, 3), (4, 4), (8, 4), (8, 8)]);
    }
}
