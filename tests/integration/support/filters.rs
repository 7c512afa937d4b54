//! The five filters, each with its required arguments, for tests of what all of them do alike.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use super::feed;

/// A filter and the arguments that it requires.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    /// The name of its program.
    pub name: &'static str,
    path: &'static str,
    /// Flags with their values, which are paths in the working directory.
    required: &'static [(&'static str, &'static str)],
    /// A line of input for which it writes a line of output.
    pub line: &'static str,
    /// Its exit status after that line, which is no record that it works on.
    pub status: i32,
}

/// The command lines of all filters, in the order of the pipe.
pub fn commands() -> [clap::Command; 5] {
    [
        scan_find::command(),
        plan_split::command(),
        ai_integrate::command(),
        gather::command(),
        slurm_emit::command(),
    ]
}

pub const SCAN_FIND: Filter = Filter {
    name: "scan-find",
    path: env!("CARGO_BIN_EXE_scan-find"),
    required: &[],
    line: "no/such/file.h5",
    status: 1,
};
pub const PLAN_SPLIT: Filter = Filter {
    name: "plan-split",
    path: env!("CARGO_BIN_EXE_plan-split"),
    required: &[("--poni", "lab6.poni"), ("--out", "PROCESSED")],
    line: NOTE,
    status: 1,
};
pub const AI_INTEGRATE: Filter = Filter {
    name: "ai-integrate",
    path: env!("CARGO_BIN_EXE_ai-integrate"),
    required: &[],
    line: NOTE,
    status: 1,
};
pub const GATHER: Filter = Filter {
    name: "gather",
    path: env!("CARGO_BIN_EXE_gather"),
    required: &[],
    line: NOTE,
    status: 1,
};
pub const SLURM_EMIT: Filter = Filter {
    name: "slurm-emit",
    path: env!("CARGO_BIN_EXE_slurm-emit"),
    required: &[("--dir", "jobs")],
    line: NOTE,
    status: 1,
};

/// The filters that read records.
pub const READERS: [Filter; 4] = [PLAN_SPLIT, AI_INTEGRATE, GATHER, SLURM_EMIT];

/// All filters.
pub const FILTERS: [Filter; 5] = [SCAN_FIND, PLAN_SPLIT, AI_INTEGRATE, GATHER, SLURM_EMIT];

/// A record of a type that nobody knows: it passes through every filter.
pub const NOTE: &str =
    r#"{"type":"note","v":7,"id":"n1","text":"à \"b\"", "nested":{"kept": [1, 2.50]}}"#;

/// Makes a temporary directory with the PONI file that plan-split requires.
pub fn directory_with_poni() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("lab6.poni"), PONI).expect("a PONI file");
    directory
}

const PONI: &str = "poni_version: 2.1\nDetector: Pilatus100k\nDetector_config: {\"orientation\": 3}\nDistance: 0.2\n\
                    Poni1: 0.016\nPoni2: 0.04\nRot1: 0\nRot2: 0\nRot3: 0\nWavelength: 1e-10\n";

impl Filter {
    /// Returns the command that starts it in a directory, with no input and its output captured.
    pub fn command_without_arguments(self, directory: &Path) -> Command {
        let mut command = Command::new(self.path);
        command
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// The program with what it required.
    pub fn command(self, directory: &Path) -> Command {
        let mut command = self.command_without_arguments(directory);
        command.args(self.required_arguments());
        command
    }

    /// The arguments that it required.
    pub fn required_arguments(self) -> impl Iterator<Item = &'static str> {
        self.required.iter().flat_map(|(flag, value)| [*flag, *value])
    }

    /// Returns a bash command that runs `script`, in which `"$@"` is the filter with its required
    /// arguments, as in `"$@" >&-`.
    pub fn in_shell(self, directory: &Path, script: &str) -> Command {
        let mut command = Command::new("bash");
        command
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let arguments =
            std::iter::once(self.path).chain(self.required_arguments()).map(OsString::from);
        command.args(["-c", script, "bash"]).args(arguments);
        command
    }

    /// Runs it with more arguments over `input`.
    pub fn run(self, directory: &Path, arguments: &[&str], input: impl AsRef<[u8]>) -> Output {
        let mut command = self.command(directory);
        command.args(arguments);
        feed(command, input.as_ref())
    }
}
