//! The programs under test, each with what it can't do without, and a way to run them.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A filter.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    pub name: &'static str,
    path: &'static str,
    /// What it demands, in the workplace.
    demands: &'static [(&'static str, &'static str)],
    /// A line of input that it answers with a line of output.
    pub line: &'static str,
    /// Its status after that line: a record that nobody works on is all that came.
    pub status: i32,
}

pub const SCAN_FIND: Tool =
    Tool { name: "scan-find", path: env!("CARGO_BIN_EXE_scan-find"), demands: &[], line: "no/such/file.h5", status: 1 };
pub const PLAN_SPLIT: Tool = Tool {
    name: "plan-split",
    path: env!("CARGO_BIN_EXE_plan-split"),
    demands: &[("--poni", "lab6.poni"), ("--out", "PROCESSED")],
    line: NOTE,
    status: 1,
};
pub const AI_INTEGRATE: Tool =
    Tool { name: "ai-integrate", path: env!("CARGO_BIN_EXE_ai-integrate"), demands: &[], line: NOTE, status: 1 };
pub const GATHER: Tool =
    Tool { name: "gather", path: env!("CARGO_BIN_EXE_gather"), demands: &[], line: NOTE, status: 1 };
pub const SLURM_EMIT: Tool = Tool {
    name: "slurm-emit",
    path: env!("CARGO_BIN_EXE_slurm-emit"),
    demands: &[("--dir", "jobs")],
    line: NOTE,
    status: 1,
};

/// All that read records.
pub const READERS: [Tool; 4] = [PLAN_SPLIT, AI_INTEGRATE, GATHER, SLURM_EMIT];

/// All of them.
pub const TOOLS: [Tool; 5] = [SCAN_FIND, PLAN_SPLIT, AI_INTEGRATE, GATHER, SLURM_EMIT];

/// A record of a type that nobody knows: it passes through every filter.
pub const NOTE: &str = r#"{"type":"note","v":7,"id":"n1","text":"à \"b\"", "nested":{"kept": [1, 2.50]}}"#;

/// No test takes longer, or it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with what the tools demand in it.
pub fn workplace() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("lab6.poni"), PONI).expect("a PONI file");
    directory
}

const PONI: &str = "poni_version: 2.1\nDetector: Pilatus100k\nDetector_config: {\"orientation\": 3}\nDistance: 0.2\n\
                    Poni1: 0.016\nPoni2: 0.04\nRot1: 0\nRot2: 0\nRot3: 0\nWavelength: 1e-10\n";

impl Tool {
    /// The program without arguments, to be run in the workplace.
    pub fn bare(self, workplace: &Path) -> Command {
        let mut command = Command::new(self.path);
        command.current_dir(workplace).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The program with what it demands.
    pub fn command(self, workplace: &Path) -> Command {
        let mut command = self.bare(workplace);
        command.args(self.demanded());
        command
    }

    /// The arguments that it demands.
    pub fn demanded(self) -> impl Iterator<Item = &'static str> {
        self.demands.iter().flat_map(|(flag, value)| [*flag, *value])
    }

    /// The program as a shell starts it, `script` standing for the streams, as in `"$@" >&-`.
    pub fn in_shell(self, workplace: &Path, script: &str) -> Command {
        let mut command = Command::new("bash");
        command.current_dir(workplace).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let arguments = std::iter::once(self.path).chain(self.demanded()).map(OsString::from);
        command.args(["-c", script, "bash"]).args(arguments);
        command
    }

    /// Runs it over this input to its end.
    pub fn run(self, workplace: &Path, arguments: &[&str], input: impl AsRef<[u8]>) -> Output {
        let mut command = self.command(workplace);
        command.args(arguments);
        feed(command, input.as_ref())
    }
}

/// Runs a command over this input to its end.
pub fn feed(mut command: Command, input: &[u8]) -> Output {
    let mut child = command.stdin(Stdio::piped()).spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    std::thread::scope(|scope| {
        // A program that stops early leaves us with a broken pipe, which is its right.
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().expect("the program ends")
    })
}

/// Waits for the end, but not for ever.
pub fn wait(child: &mut Child) -> ExitStatus {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("our child") {
            return status;
        }
        if begin.elapsed() > PATIENCE {
            child.kill().expect("it can be killed");
            panic!("the program did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The lines of a stream.
pub fn lines(stream: &[u8]) -> Vec<&str> {
    std::str::from_utf8(stream).expect("UTF-8").lines().collect()
}

/// A line as JSON.
pub fn json(line: &str) -> serde_json::Value {
    serde_json::from_str(line).unwrap_or_else(|why| panic!("{line}: {why}"))
}
