//! A directory that slurm-emit writes, of a plan that real programs run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::cluster::{Cluster, said, top, until};
use crate::data::{Data, Digests, content, digests, feed, programs, records, text};

/// Two engines of two threads, which a node has place for twice.
const SIZE: [&str; 4] = ["--ai-engines-per-worker", "2", "--cores-per-worker", "2"];

/// A directory of scripts for a plan.
pub struct Jobs {
    /// Where it is.
    pub dir: PathBuf,
    /// The tasks.
    pub plan: String,
    name: String,
    by: String,
    scans: usize,
}

/// What ai-integrate was started with.
#[derive(Debug)]
pub struct Run {
    pub job: String,
    pub element: String,
    pub cpus: String,
    pub gpus: String,
    pub node: String,
    pub cpu_set: String,
    pub program: String,
    pub arguments: String,
}

impl Jobs {
    /// A plan of the first scans, cut in this way. `name` is that of its results and of the notes; the directory of
    /// scripts has an awkward one.
    pub fn new(name: &str, by: &str, scans: usize) -> Self {
        fs::create_dir(top().join(name)).unwrap();
        let dir = top().join(name).join("it's 50%a \"of\" $HOME `id`; # \u{e9}");
        Self { dir, plan: Data::get().plan(name, by, scans), name: name.to_owned(), by: by.to_owned(), scans }
    }

    /// The same where no SLURM is: its directory may have any name.
    pub fn awkward(name: &str, by: &str, scans: usize) -> Self {
        let jobs = Self::new(name, by, scans);
        Self { dir: top().join(name).join("it's \"50%\" $HOME `id` #\n\\x"), ..jobs }
    }

    /// Runs slurm-emit on the plan.
    pub fn try_emit(&self, flags: &[&str]) -> Output {
        let mut command = self.command(env!("CARGO_BIN_EXE_slurm-emit"));
        command.arg("--dir").arg(&self.dir).arg("--bin").arg(programs("bin")).args(SIZE).args(flags);
        feed(command, &self.plan)
    }

    /// The same; it has to succeed. What it says.
    pub fn emit(&self, flags: &[&str]) -> String {
        let output = self.try_emit(flags);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        said
    }

    /// Flags for so many batches of about equal bytes, where the plan is of one scan.
    pub fn batches(&self, count: u64) -> [String; 6] {
        let bytes: u64 = records(&self.plan).map(|task| task["bytes"].as_u64().unwrap()).sum();
        let rate = bytes.div_ceil(count) / 60 + 1;
        // and a worker each, for they share the first scan
        ["--batch-minutes", "1", "--rate", &rate.to_string(), "--n-workers", &count.to_string()].map(str::to_owned)
    }

    /// A program with the cluster, where there is one, and the notes in its environment.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Cluster.command(program);
        command.env("NOTES", top().join(&self.name)).env_remove("CUDA_VISIBLE_DEVICES");
        command
    }

    /// A script of the directory, not yet run.
    pub fn script(&self, name: &str) -> Command {
        self.command(self.dir.join(name))
    }

    /// What a script of the directory says; it has to succeed.
    pub fn call(&self, name: &str) -> String {
        said(&mut self.script(name))
    }

    /// Calls submit with this in the environment of the jobs.
    pub fn submit(&self, environment: &[(&str, &str)]) -> String {
        said(self.script("submit").envs(environment.iter().copied()))
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

    /// The jobs that were submitted and are in these states, `all` for whatever is waiting or running; one a line.
    pub fn queued(&self, states: &str) -> Vec<String> {
        let submitted = fs::read_to_string(self.dir.join("submitted")).unwrap_or_default();
        let ids: Vec<_> = submitted.lines().map(|line| line.split(' ').next().unwrap()).collect();
        let mut squeue = self.command("squeue");
        squeue.args(["--noheader", "--array", "--format=%F_%K", "--jobs", &ids.join(",")]);
        if states != "all" {
            squeue.args(["--states", states]);
        }
        // jobs that ended long ago are forgotten
        let output = squeue.output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    /// Waits until none of its jobs is left.
    pub fn wait(&self) {
        until(&format!("the jobs of {} end", self.name), || self.queued("all").is_empty());
    }

    /// The tasks that results say are done as a whole, by their ids.
    pub fn done(&self) -> BTreeSet<String> {
        let lines = content(&self.dir.join("results"));
        let is_done = |record: &Value| record["skipped"] == true || record["done"] == record["range"];
        records(&lines)
            .filter(|record| record["type"] == "result" && is_done(record))
            .map(|one| text(&one["id"]))
            .collect()
    }

    /// The plan's tasks, by their ids.
    pub fn tasks(&self) -> Vec<String> {
        records(&self.plan).map(|task| text(&task["id"])).collect()
    }

    /// What ai-integrate was started with, once a start.
    pub fn runs(&self) -> Vec<Run> {
        let runs = fs::read_to_string(top().join(&self.name).join("runs")).unwrap_or_default();
        runs.lines().map(run).collect()
    }

    /// Whether an ai-integrate runs that has got as far as to drain on USR1.
    pub fn drains(&self) -> bool {
        let notes = format!("NOTES={}", top().join(&self.name).display());
        let is_ours = |process: &Path| {
            let of = |file: &str| fs::read(process.join(file)).unwrap_or_default();
            let environment = of("environ");
            of("comm") == b"real\n" && environment.split(|&byte| byte == 0).any(|one| one == notes.as_bytes())
        };
        let catches = |process: PathBuf| {
            let status = fs::read_to_string(process.join("status")).unwrap_or_default();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
            // USR1 is number 10, and bit 9
            u64::from_str_radix(caught.trim(), 16).unwrap() >> 9 & 1 == 1
        };
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        processes.filter(|process| is_ours(process)).any(catches)
    }

    /// The hosts that results name.
    pub fn hosts(&self) -> BTreeSet<String> {
        let lines = content(&self.dir.join("results"));
        records(&lines).filter(|record| record["type"] == "result").map(|record| text(&record["host"])).collect()
    }

    /// What the closing gather says of complete scans, nothing where it has not run.
    pub fn summary(&self) -> Digests {
        digests(&fs::read_to_string(self.dir.join("summary.jsonl")).unwrap_or_default())
    }

    /// Whether the closing gather has run.
    pub fn is_judged(&self) -> bool {
        self.dir.join("summary.jsonl").exists()
    }

    /// Loses all patterns: results, logs and summaries of the jobs still speak of them.
    pub fn lose_patterns(&self) {
        fs::remove_dir_all(Data::get().out(&self.name)).unwrap();
        assert_eq!(Data::get().plan(&self.name, &self.by, self.scans), self.plan, "and the recipe is back");
    }

    /// The patterns are those of a plain pipe.
    #[track_caller]
    pub fn assert_complete(&self) {
        assert_eq!(self.summary(), Data::get().piped(self.scans), "{}", self.name);
    }
}

fn run(line: &str) -> Run {
    let mut fields = line.split('\t').map(str::to_owned);
    let mut next = || fields.next().unwrap();
    let (job, element, cpus, gpus, node) = (next(), next(), next(), next(), next());
    Run { job, element, cpus, gpus, node, cpu_set: next(), program: next(), arguments: next() }
}
