//! A throw-away SLURM of three nodes with eight CPUs and two fake GPUs each, and directories of jobs on it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::task;

/// A running cluster; dropped, it ends with all its jobs.
pub struct Cluster {
    dir: TempDir,
}

impl Cluster {
    /// Starts a cluster with more lines in its slurm.conf. `None` on a machine without SLURM, but never in CI.
    pub fn start(lines: &[&str]) -> Option<Self> {
        if std::env::var_os("CI").is_none() && !is_installed() {
            eprintln!("skipped: needs root and the packages slurmctld slurmd slurm-client munge");
            return None;
        }
        // sockets in it allow 60 characters
        let dir = tempfile::Builder::new().prefix("azpipe-slurm-").tempdir_in("/tmp").unwrap();
        // ports are looked for before they are taken: one cluster after the other
        let lock = File::create("/tmp/azpipe-slurm.lock").unwrap();
        lock.lock().unwrap();
        let mut start = Command::new(script());
        start.arg("start").arg(dir.path().join("c"));
        start.args(lines.iter().flat_map(|line| ["-o", line]));
        let output = start.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(Self { dir })
    }

    /// A program that sees this cluster and the stand-ins' directory of what is done.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.dir.path().join("c/slurm.conf")).env("STUB", self.dir.path().join("done"));
        command
    }

    /// What a program of SLURM prints.
    pub fn ask(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.command(program).args(arguments).output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// A directory for a test's own files, on all nodes.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// What the stand-in for ai-integrate was started with: job, element, CPUs, GPUs, node, CPU set, program and arguments.
    pub fn runs(&self) -> Vec<Vec<String>> {
        let runs = fs::read_to_string(self.path().join("done/runs")).unwrap_or_default();
        runs.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
    }

    /// Which job finished a task, by the stand-in's account.
    pub fn is_done(&self, task: usize) -> bool {
        self.path().join("done").join(task::id(task)).exists()
    }

    /// Waits until no job is left, and at most so many seconds.
    pub fn wait(&self, seconds: u64) {
        until(seconds, "the queue is empty", || self.ask("squeue", &["--noheader"]).is_empty());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let stopped = Command::new(script()).arg("stop").arg(self.dir.path().join("c")).output();
        if !stopped.is_ok_and(|output| output.status.success()) {
            eprintln!("{}: the cluster did not stop", self.dir.path().display());
        }
    }
}

/// A directory that slurm-emit writes.
pub struct Jobs<'a> {
    cluster: &'a Cluster,
    /// Where it is.
    pub dir: PathBuf,
}

impl<'a> Jobs<'a> {
    pub fn new(cluster: &'a Cluster, name: &str) -> Self {
        Self { cluster, dir: cluster.path().join(name) }
    }

    /// Runs slurm-emit on lines, with stand-ins for the programs that the jobs call.
    pub fn emit(&self, lines: &str, flags: &[&str]) -> Output {
        let mut command = self.cluster.command(env!("CARGO_BIN_EXE_slurm-emit"));
        command.arg("--dir").arg(&self.dir).arg("--bin").arg(stub());
        command.args(["--ai-engines-per-worker", "2", "--cores-per-worker", "2"]).args(flags);
        feed(command, lines)
    }

    /// Runs slurm-emit on that many tasks of a million bytes each; it has to succeed.
    pub fn emit_tasks(&self, count: usize, flags: &[&str]) {
        let output = self.emit(&task::lines(count), flags);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// A script of the directory, not yet run.
    pub fn script(&self, name: &str) -> Command {
        self.cluster.command(self.dir.join(name))
    }

    /// What a script of the directory says; it has to succeed.
    pub fn call(&self, name: &str) -> String {
        said(self.script(name))
    }

    /// The id of the array that was submitted last.
    pub fn array(&self) -> String {
        let submitted = fs::read_to_string(self.dir.join("submitted")).unwrap();
        let line = submitted.lines().rfind(|line| line.contains(" array ")).unwrap();
        line.split(' ').next().unwrap().to_owned()
    }

    /// The log of an element of the last array, empty where there is none yet.
    pub fn log(&self, element: usize) -> String {
        let path = self.dir.join(format!("logs/{}_{element}.log", self.array()));
        fs::read_to_string(path).unwrap_or_default()
    }

    /// What the closing gather wrote.
    pub fn summary(&self) -> String {
        fs::read_to_string(self.dir.join("summary.jsonl")).unwrap_or_default()
    }
}

/// What a program prints; it has to succeed.
pub fn said(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Waits until something is so, and fails after so many seconds.
pub fn until(seconds: u64, what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(seconds);
    while !is_so() {
        assert!(Instant::now() < end, "not within {seconds} s: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The Python of the peers, `AZPIPE_PEERS` or `.venv` in the root, which has this module; none where a developer
/// has not set it up, an error in CI.
pub fn peers(module: &str) -> Option<String> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let peers = std::env::var_os("AZPIPE_PEERS").map_or_else(|| root.join(".venv"), PathBuf::from);
    let python = peers.join("bin/python");
    let found = Command::new(&python).args(["-c", &format!("import {module}")]).output();
    if found.is_ok_and(|output| output.status.success()) {
        return Some(python.to_str().unwrap().to_owned());
    }
    assert!(std::env::var_os("CI").is_none(), "{} has no {module}: scripts/test installs it", python.display());
    eprintln!("skipped: {} has no {module}", python.display());
    None
}

/// Where the stand-ins for ai-integrate and gather are.
pub fn stub() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/stub")
}

/// Runs a program on lines.
pub fn feed(mut command: Command, lines: &str) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // one that refuses its flags does not read
    let _ = child.stdin.take().unwrap().write_all(lines.as_bytes());
    child.wait_with_output().unwrap()
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/slurm-cluster")
}

fn is_installed() -> bool {
    let found = |program: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|directory| directory.join(program).exists())
    };
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    is_root && ["slurmctld", "slurmd", "sbatch", "munged"].into_iter().all(found)
}
