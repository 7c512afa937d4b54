//! The settings of the jobs, on which the scripts depend.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::batches::BatchSizing;
use crate::flags::SlurmFlags;
use crate::gpus::GpuRequest;
use crate::job_size::{JobSize, SizeRequest};
use crate::memory::MemorySize;
use crate::walltime::Walltime;

/// Everything that the scripts depend on, except for the plan.
#[derive(Clone, Debug)]
pub struct JobSettings {
    /// The directory of the scripts, absolute.
    pub dir: PathBuf,
    /// The directory of ai-integrate and gather, absolute.
    pub bin: PathBuf,
    /// The directories of the programs on the nodes of some partitions, by the name of the
    /// partition.
    pub partition_bins: Vec<(String, PathBuf)>,
    /// The size of the jobs on a cluster.
    pub size: JobSize,
    /// The fewest jobs of dask workers at a time, `size.workers` being the most.
    pub fewest_workers: u64,
    /// The fewest nodes with which Ray goes on if others fail.
    pub min_nodes: u64,
    /// Seconds in which Ray has to start on a node.
    pub node_seconds: u64,
    /// The sizes that flags gave, from which scripts for a single machine find their size.
    pub size_request: SizeRequest,
    /// The GPUs of a job.
    pub gpus: GpuRequest,
    /// The option of sbatch that requests memory, and its amount.
    pub memory: Option<(&'static str, MemorySize)>,
    /// The estimated memory of a job; the amount of `memory` where one is requested.
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
    /// Further arguments of ai-integrate.
    pub ai_integrate_arguments: Vec<String>,
    /// Further arguments of gather.
    pub gather_arguments: Vec<String>,
    /// True if frames without data don't make ai-integrate and gather fail.
    pub allow_missing: bool,
    /// The Python that has the modules that the target needs.
    pub python: OsString,
    /// The flags for sbatch.
    pub slurm: SlurmFlags,
}

/// A run of gather in the scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatherRun {
    /// While tasks are integrated: writes the scans that are complete.
    Early,
    /// After all tasks.
    Closing,
}

/// The flags of gather about all scans of a run; each but `--stack` has a value.
const WHOLE_RUN_FLAGS: [&str; 6] =
    ["--report", "--plot", "--plot-scans", "--stack", "--merge", "--merge-all"];

/// Returns the arguments of gather without those about the whole run. If results are to be merged,
/// the parts are kept until then.
fn early_arguments(arguments: &[String]) -> Vec<String> {
    let (mut early, mut is_value, mut merges) = (Vec::new(), false, false);
    for argument in arguments {
        if is_value {
            is_value = false;
            continue;
        }
        let (flag, value) = argument
            .split_once('=')
            .map_or((argument.as_str(), None), |(flag, value)| (flag, Some(value)));
        if WHOLE_RUN_FLAGS.contains(&flag) {
            is_value = value.is_none() && flag != "--stack";
            merges |= flag.starts_with("--merge");
        } else {
            early.push(argument.clone());
        }
    }
    early.extend(merges.then(|| "--keep-parts".to_owned()));
    early
}

/// The word of `--device` for a device by the number of the process.
const DEVICE_SLOT: &str = "slot";

impl JobSettings {
    /// Returns the size that scripts for a single machine have on this machine.
    pub fn size_on_this_machine(&self) -> JobSize {
        self.size_request.on_machine(system::cpu::available_cpus() as u64, self.size.gpus)
    }

    /// Returns the lines of bash of `--setup`, which each script runs first. They run with the options that a
    /// shell has by itself, because modules and Conda use unset variables, and a script that ends in one of
    /// them fails.
    pub fn setup_lines(&self) -> OsString {
        let lines = &self.slurm.setup;
        if lines.is_empty() {
            return OsString::new();
        }
        let own = lines.iter().flat_map(|line| [line.clone(), "\n".into()]);
        let (before, after) =
            (include_str!("targets/before_setup.bash"), include_str!("targets/after_setup.bash"));
        [before.into()].into_iter().chain(own).chain([after.into()]).collect()
    }

    /// Returns the arguments of an ai-integrate that is a whole job of this size.
    pub fn job_arguments(&self, size: &JobSize) -> Vec<String> {
        self.arguments(&[
            "--engines",
            &size.engines.to_string(),
            "--threads",
            &size.threads.to_string(),
        ])
    }

    /// Returns the arguments of an ai-integrate that is one engine of this size. As many of them
    /// run as there are engines.
    pub fn engine_arguments(&self, size: &JobSize) -> Vec<String> {
        self.arguments(&["--engines", "1", "--threads", &size.threads.to_string()])
    }

    /// Returns the arguments of ai-integrate that don't depend on the size of the jobs.
    pub fn sizeless_arguments(&self) -> Vec<String> {
        self.arguments(&[])
    }

    /// Returns the arguments of a gather besides those that name its input.
    pub fn gather_arguments(&self, run: GatherRun) -> Vec<String> {
        let mut arguments: Vec<String> =
            self.allow_missing_argument().into_iter().map(str::to_owned).collect();
        match run {
            GatherRun::Closing => arguments.extend(self.gather_arguments.iter().cloned()),
            GatherRun::Early => arguments.extend(early_arguments(&self.gather_arguments)),
        }
        arguments
    }

    /// Returns `--allow-missing` if ai-integrate and gather get this flag.
    pub fn allow_missing_argument(&self) -> Option<&'static str> {
        self.allow_missing.then_some("--allow-missing")
    }

    /// Returns the arguments by which `gather --missing` and `gather --count-done` know what
    /// ai-integrate is to write.
    pub fn missing_arguments(&self) -> Vec<String> {
        let arguments = &self.ai_integrate_arguments;
        arguments.iter().filter(|argument| *argument == "--sparse").take(1).cloned().collect()
    }

    /// Returns whether `--device` has the word `slot`: a process takes one GPU by its number on the
    /// machine.
    pub fn uses_device_slot(&self) -> bool {
        self.device
            .as_deref()
            .is_some_and(|devices| devices.split(',').any(|word| word.trim() == DEVICE_SLOT))
    }

    /// Returns these settings without the word `slot` in `--device`.
    pub fn without_device_slot(&self) -> Self {
        let without = |devices: &String| {
            let words: Vec<_> =
                devices.split(',').filter(|word| word.trim() != DEVICE_SLOT).collect();
            Some(words.join(",")).filter(|words| !words.is_empty())
        };
        Self { device: self.device.as_ref().and_then(without), ..self.clone() }
    }

    /// Returns `size_arguments` between the arguments for the compute engine and `--allow-missing`.
    fn arguments(&self, size_arguments: &[&str]) -> Vec<String> {
        let given = [("--engine", &self.engine), ("--device", &self.device)];
        let compute = given
            .into_iter()
            .filter_map(|(flag, value)| Some([flag.to_owned(), value.clone()?]))
            .flatten();
        let others = size_arguments.iter().copied().chain(self.allow_missing_argument());
        compute
            .chain(others.map(str::to_owned))
            .chain(self.ai_integrate_arguments.iter().cloned())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gather_of_one_scan_writes_nothing_about_the_whole_run() {
        let early = |words: &[&str]| {
            early_arguments(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(
            early(&["--report", "a.html", "--average=mean", "--plot=b.png"]),
            ["--average=mean"]
        );
        assert_eq!(early(&["--plot-scans", "b.pdf", "--stack", "--strict"]), ["--strict"]);
        assert_eq!(
            early(&["--merge-all=x", "--export", "xye"]),
            ["--export", "xye", "--keep-parts"]
        );
        assert_eq!(early(&["--merge", "x", "--keep-sums"]), ["--keep-sums", "--keep-parts"]);
    }
}
