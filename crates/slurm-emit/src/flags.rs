//! The groups of flags that a profile may set: the size of jobs, the resources that they request,
//! and their programs.

mod size_flags;
mod slurm_flags;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

pub use size_flags::JobSizeFlags;
pub use slurm_flags::{AutoOr, MemoryRequest, SlurmFlags};

/// A directory of programs, for all nodes or for the nodes of one partition: a value of `--bin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramDirectory {
    /// The partition whose nodes use this directory; `None` for all nodes.
    pub partition: Option<String>,
    /// The path of the directory.
    pub dir: PathBuf,
}

impl ProgramDirectory {
    /// Parses `PARTITION=DIR` or `DIR`. A value with a slash before its first `=` is a directory.
    ///
    /// # Errors
    /// The name of the partition or the path is empty.
    pub fn parse(text: OsString) -> Result<Self, &'static str> {
        let bytes = text.as_bytes();
        let partition = bytes.iter().position(|&byte| byte == b'=').and_then(|at| {
            let name = str::from_utf8(&bytes[..at]).ok().filter(|name| !name.contains('/'))?;
            Some((name.to_owned(), PathBuf::from(OsStr::from_bytes(&bytes[at + 1..]))))
        });
        let (partition, dir) = match partition {
            Some((partition, dir)) => (Some(partition), dir),
            None => (None, PathBuf::from(text)),
        };
        if dir.as_os_str().is_empty() || partition.as_deref() == Some("") {
            return Err("expected a directory, or PARTITION=DIR, such as p9gpu=/opt/ppc64le/bin");
        }
        Ok(Self { partition, dir })
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use crate::args::Args;

    /// Of the flags that take any text, these few take an empty one: `--gres ""` is `--gres none`,
    /// and lines and arguments are passed on as they are.
    const TAKE_EMPTY: [&str; 5] = ["gres", "setup", "directive", "ai-integrate-arg", "gather-arg"];

    #[test]
    fn no_name_is_empty() {
        let command = Args::command();
        let takes_value = |flag: &&clap::Arg| flag.get_action().takes_values();
        let flags = command.get_arguments().filter(takes_value).filter_map(clap::Arg::get_long);
        for flag in flags.filter(|flag| !TAKE_EMPTY.contains(flag)) {
            let with_empty = ["slurm-emit", "--dir", "jobs", &format!("--{flag}=")];
            let parsed = command.clone().try_get_matches_from(with_empty);
            assert!(parsed.is_err(), "--{flag}");
        }
    }

    #[test]
    fn values_that_sbatch_or_the_programs_would_refuse_are_refused() {
        for (flag, is_valid) in [
            ("--gpus=2", true),
            ("--gpus=a100:2,v100:1", true),
            ("--gpus=abc", false),
            ("--gpus=a100:", false),
            ("--gpus-per-task=-1", false),
            ("--threads-per-core=0", false),
            ("--engine=opencl", true),
            ("--engine=gpu", false),
            ("--bin=gpu=/opt/bin", true),
            ("--bin=gpu=", false),
        ] {
            let parsed =
                Args::command().try_get_matches_from(["slurm-emit", "--dir", "jobs", flag]);
            assert_eq!(parsed.is_ok(), is_valid, "{flag}");
        }
    }
}
