//! slurm-emit's scripts for one machine: xargs, GNU parallel and make run them, and stand-ins integrate.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::cluster::{feed, stub};
use crate::task;

/// A directory of scripts with an awkward name, and where the stand-ins keep what is done.
struct Jobs {
    top: TempDir,
}

impl Jobs {
    /// Six tasks of two scans, each a batch.
    fn emit(target: &str, flags: &[&str]) -> Self {
        let jobs = Self { top: tempfile::tempdir().unwrap() };
        let mut command = Command::new(env!("CARGO_BIN_EXE_slurm-emit"));
        command.args(["--target", target, "--batch-minutes", "0", "--n-workers", "2"]);
        command.args(["--ai-engines-per-worker", "1", "--cores-per-worker", "1", "--dir"]).arg(jobs.dir());
        command.arg("--bin").arg(stub()).args(flags);
        assert!(feed(command, &task::lines(6)).status.success());
        jobs
    }

    fn dir(&self) -> PathBuf {
        self.top.path().join("it's \"50%\" $HOME `id` #\nx")
    }

    fn script(&self, name: &str) -> Command {
        let mut command = Command::new(self.dir().join(name));
        command.env("STUB", self.top.path().join("done")).env_remove("CUDA_VISIBLE_DEVICES");
        command
    }

    fn submit(&self) -> Output {
        self.script("submit").output().unwrap()
    }

    /// What the stand-in was started with, a line each.
    fn runs(&self) -> Vec<Vec<String>> {
        let runs = fs::read_to_string(self.top.path().join("done/runs")).unwrap_or_default();
        runs.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
    }

    fn done(&self) -> usize {
        (0..6).filter(|&index| self.top.path().join("done").join(task::id(index)).exists()).count()
    }

    fn summary(&self) -> String {
        fs::read_to_string(self.dir().join("summary.jsonl")).unwrap_or_default()
    }
}

fn wait(mut child: Child) -> Option<i32> {
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().unwrap();
    panic!("still at work after a minute");
}

/// All is done once, a failure is told and mended by running it again, and nothing is done twice.
fn runs_what_is_missing(target: &str) {
    let jobs = Jobs::emit(target, &[]);
    let output = jobs.script("submit").env("STUB_CRASH", task::id(4)).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(jobs.done(), 5);
    assert!(jobs.summary().contains("\"missing\":1"));
    let output = jobs.submit();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(jobs.done() == 6 && jobs.summary().contains("\"missing\":0"));
    assert!(jobs.runs().iter().all(|run| run[7..].join(" ") == "--engines 1 --threads 1"), "{:?}", jobs.runs());
}

#[test]
fn this_machine_runs_the_plan() {
    runs_what_is_missing("local");
}

#[test]
fn gnu_parallel_runs_the_plan() {
    runs_what_is_missing("parallel");
}

#[test]
fn make_runs_the_plan() {
    runs_what_is_missing("make");
}

#[test]
fn make_and_parallel_pass_over_what_is_done() {
    for target in ["make", "parallel"] {
        let jobs = Jobs::emit(target, &[]);
        assert!(jobs.submit().status.success() && jobs.submit().status.success());
        assert_eq!(jobs.runs().len(), 6, "{target}");
    }
}

#[test]
fn make_puts_each_scan_together_when_its_tasks_are_done() {
    let jobs = Jobs::emit("make", &[]);
    assert!(jobs.script("submit").args(["-j1", "summaries/5ca1.jsonl"]).output().unwrap().status.code() == Some(1));
    assert_eq!(jobs.done(), 3);
    assert!(jobs.dir().join("summaries/5ca1.jsonl").exists() && !jobs.dir().join("summaries/5ca0.jsonl").exists());
}

#[test]
fn workers_have_cpus_and_gpus_of_their_own() {
    let cpus = std::thread::available_parallelism().unwrap().get();
    let jobs = Jobs::emit("local", &[]);
    let output =
        jobs.script("submit").env("CUDA_VISIBLE_DEVICES", "3,GPU-5,7").env("STUB_SECONDS", "1").output().unwrap();
    assert!(output.status.success());
    let runs = jobs.runs();
    let of = |gpu: &str| runs.iter().filter(|run| run[3] == gpu).map(|run| run[5].clone()).collect::<HashSet<_>>();
    let (first, second) = (of("3"), of("GPU-5"));
    assert!(first.len() == 1 && second.len() == 1, "a worker keeps its GPU and its CPUs: {runs:?}");
    if cpus > 1 {
        assert_ne!(first, second);
    }
    let none = Jobs::emit("local", &[]);
    assert!(none.script("submit").env("CUDA_VISIBLE_DEVICES", "").output().unwrap().status.success());
    assert!(none.runs().iter().all(|run| run[3].is_empty()), "no GPU stays no GPU");
}

#[test]
fn a_terminated_run_drains_and_goes_on_later() {
    let jobs = Jobs::emit("local", &["--batch-minutes", "1"]);
    let child = jobs.script("submit").env("STUB_SECONDS", "1").spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    while jobs.done() < 2 {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(50));
    }
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert_eq!(wait(child), Some(75));
    let done = jobs.done();
    assert!(done < 6, "{done}");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(jobs.done(), done, "nothing goes on behind its back");
    assert!(jobs.submit().status.success());
    assert_eq!(jobs.done(), 6);
}
