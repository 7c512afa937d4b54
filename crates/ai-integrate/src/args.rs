//! The command line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Parser, ValueEnum, ValueHint};
use filter::CommonArgs;

/// Integrate frames: task records in, result records out, patterns into part files.
///
/// Frames that an earlier run has integrated, however the work was cut then, are found and skipped.
/// On SIGTERM or SIGUSR1, and at the deadline, what has begun is finished and kept.
#[derive(Parser)]
#[command(name = "ai-integrate", version)]
pub struct Args {
    /// Files of task records; `-` or none is stdin
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub inputs: Vec<PathBuf>,

    /// What integrates; auto takes the fastest that there is
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    pub engine: EngineKind,

    /// OpenCL devices to use: indices, parts of names, PCI addresses, or `slot`, which goes by the number of this job
    /// among those on the machine [default: all GPUs]
    #[arg(long, value_name = "I,J", value_delimiter = ',')]
    pub device: Vec<String>,

    /// Tasks at a time, each with threads of its own; with OpenCL, on each device
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub engines: u16,

    /// Threads of an engine [default: the CPU budget over the engines]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,

    /// Frames that are integrated side by side
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub batch_frames: u16,

    /// Write below this directory, not below the root that each task names
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,

    /// Keep matrices, and kernels compiled for OpenCL devices, in this directory, or `none`: they are made once, and
    /// matrices are mapped by all processes of a machine [default: .azpipe below the output root]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub cache: Option<PathBuf>,

    /// Take on no more work after this time: seconds, 90s, 50m, 12h or HH:MM:SS
    #[arg(long, value_name = "T", value_parser = filter::duration::parse)]
    pub deadline: Option<Duration>,

    /// Integrate what has been integrated already
    #[arg(long)]
    pub force: bool,

    /// Status 1 for frames that scan-find knew to be absent: the default, and the contrary of --allow-missing
    #[arg(long, overrides_with = "allow_missing")]
    strict: bool,

    /// Integrate N frames of each task on the processor, too; a device that differs is used no more
    #[arg(long, value_name = "N", default_value = "0")]
    pub verify: u32,

    /// List the OpenCL devices, and do nothing else
    #[arg(long)]
    pub list_devices: bool,

    #[command(flatten)]
    pub common: CommonArgs,
}

impl Args {
    /// Where matrices are kept for results below `out`; `None` for nowhere.
    pub fn matrix_cache_dir(&self, out: &Path) -> Option<PathBuf> {
        match &self.cache {
            None => Some(out.join(".azpipe/matrix")),
            Some(none) if none.as_os_str() == "none" => None,
            Some(directory) => Some(directory.clone()),
        }
    }

    /// Where compiled kernels are kept for results below `out`; `None` for nowhere.
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

/// What integrates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineKind {
    /// The fastest that there is.
    Auto,
    /// The processor.
    Cpu,
    /// OpenCL devices.
    #[value(name = "opencl")]
    OpenCl,
}
