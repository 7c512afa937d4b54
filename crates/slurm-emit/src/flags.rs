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

impl From<OsString> for ProgramDirectory {
    /// Parses `PARTITION=DIR` or `DIR`. A value with a slash before its first `=` is a directory.
    fn from(text: OsString) -> Self {
        let bytes = text.as_bytes();
        let partition = bytes.iter().position(|&byte| byte == b'=').and_then(|at| {
            let name = str::from_utf8(&bytes[..at]).ok().filter(|name| !name.contains('/'))?;
            Some((name.to_owned(), PathBuf::from(OsStr::from_bytes(&bytes[at + 1..]))))
        });
        match partition {
            Some((partition, dir)) => Self { partition: Some(partition), dir },
            None => Self { partition: None, dir: text.into() },
        }
    }
}
