//! The command line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{
    NonEmptyStringValueParser, PossibleValue, PossibleValuesParser, TypedValueParser,
};
use clap::{Parser, ValueEnum, ValueHint};
use filter::CommonArgs;
use patterns::Compression;
use patterns::part::PartStorage;

/// Integrate the frames of tasks and write the patterns to part files
///
/// Reads task records (from plan-split), writes part files below the output directory, and prints a
/// result record for each task (for gather). Frames that an earlier run has integrated are found
/// and skipped, even if the work was split differently then. On SIGTERM, on SIGUSR1, and at the
/// deadline, the frames in progress are finished and kept.
#[derive(Parser)]
#[command(name = "ai-integrate", version, after_long_help = include_str!("examples.txt"))]
pub struct Args {
    /// Files of task records; `-` or no FILE reads stdin
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub inputs: Vec<PathBuf>,

    /// Write results below DIR [default: --out of plan-split]
    ///
    /// The default is the output directory that each task names.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,

    /// Integrate all frames, also those that an earlier run integrated
    ///
    /// The settings stay the same. Use it to have the sums of all frames again, from which gather
    /// averages (of cakes with --keep-sums), or to redo results that you don't trust. If settings
    /// have changed, use `plan-split --replace` instead.
    #[arg(long)]
    pub force: bool,

    /// Also add up statistics of each pixel over the frames
    ///
    /// `gather --pixel-images` makes images of them: mean, maximum, variance, number of zeros and
    /// of valid values of each pixel over the scan. Recipes share them unless they differ in the
    /// values that mean "no measurement" (plan-split --dummy). Frames that lack only these are read
    /// again, and their patterns are kept. Pixels must be integers of at most 32 bits. The sums are
    /// kept in OUT/.azpipe/pixels. They are added up on the CPU, also if a GPU integrates, and take
    /// 36 bytes of memory per pixel and --dummy, twice per engine, and a frame per thread.
    #[arg(long, hide_short_help = true)]
    pub pixel_stats: bool,

    /// Also write the pixels that --sigma-clip rejects above the mean
    ///
    /// These are the pixels of single crystals' spots, for ImageD11: `gather` puts them into the
    /// final file, in the group `sparse` beside the patterns (man 5 azpipe-files). A split pixel is
    /// written if each bin that it is in rejects it. The values are the stored ones, corrected for
    /// --dead-time alone: no dark, flat or other correction is applied. Pixels that are rejected
    /// below the mean are counted (`other_shares`), not written; where that is 0, pattern and pixels
    /// together have all counts. A frame of which more than 1/16 is rejected has the status 2 and no pixels; `other_shares`
    /// then counts all that was rejected. Frames that lack only their pixels are integrated again,
    /// if tasks name them: `gather --missing` and the scripts of slurm-emit look for patterns alone,
    /// so to add pixels to scans that have patterns, run plan-split and ai-integrate --sparse
    /// yourself. The CPU integrates recipes with --sigma-clip then, also if there is a GPU; recipes
    /// without it are integrated as ever, and a warning says that they have no such pixels. With
    /// --sigma-clip, frames of 64-bit integers are refused, unless they are corrected for --dead-time.
    #[arg(long, hide_short_help = true)]
    pub sparse: bool,

    /// Start no more work after T: 3000, 90s, 50m, 12h or HH:MM:SS
    ///
    /// T is counted from the start of the program; a plain number is in seconds. The frames in
    /// progress are finished and kept, and the exit status is 75: run the same command again to
    /// integrate the rest. [default: no deadline]
    #[arg(long, value_name = "T", value_parser = filter::duration::parse)]
    pub deadline: Option<Duration>,

    /// Exit with 1 if files or monitor values are missing
    ///
    /// This is the default. Use it only to cancel an --allow-missing earlier on the command line.
    #[arg(long, overrides_with = "allow_missing", hide_short_help = true)]
    strict: bool,

    /// Compute engine: `auto` uses all GPUs that are found, or else the CPU
    ///
    /// --device chooses some of the GPUs. If a GPU fails during the run, the CPU integrates its
    /// frames, and a warning says so; no frame is lost, and the exit status stays the same. With
    /// `opencl`, a machine without a usable device is an error at the start.
    #[arg(long, value_name = "ENGINE", default_value = "auto", help_heading = "Computing")]
    pub engine: EngineKind,

    /// OpenCL devices, such as 0,1 or `slot` [default: all GPUs]
    ///
    /// A device is named by its index in --list-devices, by a part of its name (`A100`), or by its
    /// PCI address. A job of SLURM sees only the GPUs that it requested, and needs no --device.
    /// `slot` is for several ai-integrate side by side on one machine: each takes one device in
    /// turn, by the number that GNU parallel (PARALLEL_JOBSLOT), xargs (SLOT) or an srun of several
    /// tasks (SLURM_LOCALID) gives it. Separate jobs of SLURM, such as the elements of a job array,
    /// all have the number 0: with `slot`, each takes the first of the GPUs that it sees.
    #[arg(long, value_name = "I,J", value_delimiter = ',', help_heading = "Computing", value_parser = NonEmptyStringValueParser::new())]
    pub device: Vec<String>,

    /// List the OpenCL devices and exit
    #[arg(long, help_heading = "Computing")]
    pub list_devices: bool,

    /// CPU threads of each engine [default: all CPUs / engines]
    ///
    /// All CPUs are those that the job may use: SLURM_CPUS_PER_TASK, or the affinity mask and the
    /// cgroup's quota.
    #[arg(long, value_name = "N", value_parser = filter::whole_number::<u16>(1..=1024), help_heading = "Computing")]
    pub threads: Option<u16>,

    /// Tasks to integrate at once; with OpenCL, on each device
    ///
    /// An engine is the group of threads that works on one task: see --threads. The kind of engine
    /// is --engine.
    #[arg(long, value_name = "N", default_value = "1", value_parser = filter::whole_number::<u16>(1..=256), help_heading = "Computing")]
    pub engines: u16,

    /// Frames to integrate together in one batch, at the most
    ///
    /// More frames take more memory. Without a GPU, a task with few frames is divided into smaller
    /// batches, so that every thread has one.
    #[arg(long, value_name = "N", default_value_t = memory_model::DEFAULT_BATCH_FRAMES, value_parser = filter::whole_number::<u16>(1..=1024),
        help_heading = "Computing", hide_short_help = true)]
    pub batch_frames: u16,

    /// Directory for matrices and compiled kernels, or `none` [default: .azpipe in the output
    /// directory]
    ///
    /// Integration matrices, and kernels compiled for OpenCL devices, are made once and reused by
    /// later runs, matrices of a detector that moves from their second use on. All processes on a
    /// machine share the memory of a matrix in the cache. The default keeps matrices in
    /// OUT/.azpipe/matrix and kernels in OUT/.azpipe/opencl. The files may be deleted at any time.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Computing", hide_short_help = true)]
    pub cache: Option<PathBuf>,

    /// Check N frames of each task on the CPU against the GPU's results
    ///
    /// Sums may differ by 1e-6 of their value, because a GPU adds in another order. A device that
    /// differs by more, as with a faulty driver, is not used any more, and the CPU integrates the
    /// task again from its first frame. 0 checks none.
    #[arg(
        long,
        value_name = "N",
        default_value = "2",
        value_parser = filter::whole_number::<u32>(0..),
        help_heading = "Computing",
        hide_short_help = true
    )]
    pub verify: u32,

    /// Compression of cakes
    ///
    /// Each thread compresses the cakes that it integrates, and gather copies them as they are.
    #[arg(long, value_name = "gzip|lz4|zstd|none", default_value = "gzip", help_heading = "Output",
        hide_default_value = true, hide_possible_values = true, hide_short_help = true, value_parser = compression_parser())]
    pub compression: Compression,

    /// Keep the sums of cakes, too, for `gather --keep-sums`
    ///
    /// They take three to six times the space of the cakes. Averages and merges of cakes are made
    /// from their patterns, and differ by the rounding of these to seven digits. Sums are kept
    /// without this flag where that is not enough: with --monitor-reference mean, --empty 0,
    /// --error-floor bin or none, and a motor as --incident-angle. Patterns of one dimension always have their sums.
    #[arg(long, help_heading = "Output", hide_short_help = true)]
    pub keep_sums: bool,

    #[command(flatten)]
    pub common: CommonArgs,
}

/// Parses the name of a compression, and lists all in help.
fn compression_parser() -> impl TypedValueParser<Value = Compression> {
    let values = Compression::ALL.map(|each| PossibleValue::new(each.name()).help(each.help()));
    PossibleValuesParser::new(values)
        .map(|name| name.parse().expect("the parser knows no other names"))
}

impl Args {
    /// Returns how parts store their rows.
    pub fn part_storage(&self) -> PartStorage {
        let Self { compression, keep_sums, sparse, .. } = *self;
        PartStorage { compression, keep_sums, sparse }
    }

    /// Returns the directory of the matrix cache for results below `out`, or `None` with `--cache
    /// none`.
    pub fn matrix_cache_dir(&self, out: &Path) -> Option<PathBuf> {
        match &self.cache {
            None => Some(out.join(".azpipe/matrix")),
            Some(none) if none.as_os_str() == "none" => None,
            Some(directory) => Some(directory.clone()),
        }
    }

    /// Returns the directory of compiled kernels for results below `out`, or `None` with `--cache
    /// none`.
    pub fn kernel_cache_dir(&self, out: &Path) -> Option<PathBuf> {
        match &self.cache {
            None => Some(out.join(".azpipe/opencl")),
            Some(_) => self.matrix_cache_dir(out).map(|directory| directory.join("opencl")),
        }
    }
}

impl AsRef<CommonArgs> for Args {
    fn as_ref(&self) -> &CommonArgs {
        &self.common
    }
}

/// The kind of compute engine that integrates the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineKind {
    /// All GPUs that are found, or else the CPU.
    Auto,
    /// The CPU, even if there is a GPU
    Cpu,
    /// OpenCL devices: all GPUs, or the devices of --device.
    #[value(name = "opencl")]
    OpenCl,
}
