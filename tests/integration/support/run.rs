//! Runs of the filters under test.

use std::ffi::OsStr;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::messages::assert_no_repeated_path;

/// An empty list of arguments.
pub const NO_ARGUMENTS: &[&str] = &[];

/// Time after which a process that should have ended is taken to hang: long enough for a machine
/// with much else to do.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The exit status and output of a process.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The exit status; 128 and the signal's number if a signal ended it.
    pub status: i32,
    /// Its records.
    pub stdout: String,
    /// Its messages.
    pub stderr: String,
}

impl Outcome {
    /// Returns the records of a type.
    pub fn records(&self, kind: &str) -> Vec<Value> {
        let all = self
            .stdout
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("a JSON line"));
        all.filter(|record| record["type"] == kind).collect()
    }

    /// Returns fields of each scan record, as text with spaces between them.
    pub fn scan_fields(&self, names: &[&str]) -> Vec<String> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let line = |scan: &Value| {
            names.iter().map(|name| text(&scan[*name])).collect::<Vec<_>>().join(" ")
        };
        self.records("scan").iter().map(line).collect()
    }

    /// Returns itself.
    ///
    /// # Panics
    /// If the exit status is not 0.
    #[track_caller]
    pub fn assert_success(self) -> Self {
        assert_eq!(self.status, 0, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("output in UTF-8");
        assert_no_repeated_path(&String::from_utf8_lossy(&output.stderr));
        Self {
            status: exit_status(output.status),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

/// Returns the exit status as shells report it: 128 and the signal's number if a signal ended the
/// process.
pub fn exit_status(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// Returns the path of a filter.
pub fn program(name: &str) -> &'static str {
    match name {
        "scan-find" => env!("CARGO_BIN_EXE_scan-find"),
        "plan-split" => env!("CARGO_BIN_EXE_plan-split"),
        "ai-integrate" => env!("CARGO_BIN_EXE_ai-integrate"),
        "gather" => env!("CARGO_BIN_EXE_gather"),
        "slurm-emit" => env!("CARGO_BIN_EXE_slurm-emit"),
        other => panic!("no filter is called {other}"),
    }
}

/// Runs a filter over `input`.
pub fn run<S: AsRef<OsStr>>(name: &str, arguments: &[S], input: &str) -> Outcome {
    let mut command = Command::new(program(name));
    command.args(arguments);
    capture(command, input).into()
}

/// Runs a command over `input`, and returns its output.
pub fn capture(mut command: Command, input: impl AsRef<[u8]>) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    feed(command, input)
}

/// Runs a command over `input`, with stdout and stderr as they are set in `command`.
pub fn feed(mut command: Command, input: impl AsRef<[u8]>) -> Output {
    let mut child = command.stdin(Stdio::piped()).spawn().expect("the program starts");
    let (mut stdin, input) = (child.stdin.take().expect("stdin is piped"), input.as_ref());
    std::thread::scope(|scope| {
        // A program that stops early closes its input: whether it should is for the test to judge.
        scope.spawn(move || stdin.write_all(input));
        let output = child.wait_with_output().expect("the program ends");
        assert_no_repeated_path(&String::from_utf8_lossy(&output.stderr));
        output
    })
}

/// Runs a command over `input`, with files as its streams so that it never waits for the test.
///
/// # Panics
/// If it has not ended after a minute.
pub fn capture_within_a_minute(mut command: Command, input: &str) -> Outcome {
    let [mut stdin, mut stdout, mut stderr] =
        [(); 3].map(|()| tempfile::tempfile().expect("a temporary file"));
    stdin.write_all(input.as_bytes()).expect("the input is written");
    stdin.rewind().expect("a file");
    let duplicate =
        |file: &std::fs::File| Stdio::from(file.try_clone().expect("a file descriptor"));
    command.stdin(stdin).stdout(duplicate(&stdout)).stderr(duplicate(&stderr));
    let status = wait_for_exit(&mut command.spawn().expect("the program starts"));
    let read = |file: &mut std::fs::File| {
        let mut text = String::new();
        file.rewind().expect("a file");
        file.read_to_string(&mut text).expect("output in UTF-8");
        text
    };
    let ended = Outcome {
        status: exit_status(status),
        stdout: read(&mut stdout),
        stderr: read(&mut stderr),
    };
    assert_no_repeated_path(&ended.stderr);
    ended
}

/// Waits until a process ends.
///
/// # Panics
/// If it has not ended after a minute.
pub fn wait_for_exit(child: &mut Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child of this process") {
            return status;
        }
        if start.elapsed() > TIMEOUT {
            child.kill().expect("it can be killed");
            child.wait().expect("it ends");
            panic!("the program did not end within {TIMEOUT:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
