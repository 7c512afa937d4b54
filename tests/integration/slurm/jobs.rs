//! A directory of scripts that slurm-emit writes, for a plan that the real programs run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use super::cluster::{Cluster, output_of, shared_directory, wait_until};
use super::dataset::{
    Digests, SharedDataset, make_program_directory, parse_digests, read_record_files, records, text,
};
use crate::support::{capture, program};

/// Flags for jobs of two engines with two threads each. A node has room for two such jobs.
const SIZE: [&str; 4] = ["--ai-engines-per-worker", "2", "--cores-per-worker", "2"];

/// A plan, and the directory of its scripts.
pub struct Jobs {
    /// The directory of the scripts.
    pub dir: PathBuf,
    /// The records of the tasks, one per line.
    pub plan: String,
    name: String,
    by: String,
    scans: usize,
}

/// A start of ai-integrate: its job, CPUs, GPUs, node and arguments.
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
    /// Creates a plan of the first scans, split as `plan-split --by` does. `name` names its results
    /// and notes; the directory of scripts has an awkward name.
    pub fn new(name: &str, by: &str, scans: usize) -> Self {
        fs::create_dir(shared_directory().join(name)).unwrap();
        let dir = shared_directory().join(name).join("it's 50%a \"of\" $HOME `id`; # \u{e9}");
        Self {
            dir,
            plan: SharedDataset::get().plan(name, by, scans),
            name: name.to_owned(),
            by: by.to_owned(),
            scans,
        }
    }

    /// Creates a plan as [`Jobs::new`] does, with a directory whose name SLURM would refuse.
    pub fn new_without_slurm(name: &str, by: &str, scans: usize) -> Self {
        let jobs = Self::new(name, by, scans);
        Self { dir: shared_directory().join(name).join("it's \"50%\" $HOME `id` #\n\\x"), ..jobs }
    }

    /// Runs slurm-emit on the plan.
    pub fn try_emit(&self, flags: &[&str]) -> Output {
        let mut command = self.command(program("slurm-emit"));
        command
            .arg("--dir")
            .arg(&self.dir)
            .arg("--bin")
            .arg(make_program_directory("bin"))
            .args(SIZE)
            .args(flags);
        capture(command, &self.plan)
    }

    /// Runs slurm-emit on the plan, which has to succeed. Returns its messages.
    pub fn emit(&self, flags: &[&str]) -> String {
        let output = self.try_emit(flags);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        said
    }

    /// Returns flags for `count` batches of about equal bytes, for a plan of one scan.
    pub fn batches(&self, count: u64) -> [String; 6] {
        let bytes: u64 = records(&self.plan).map(|task| task["bytes"].as_u64().unwrap()).sum();
        let rate = bytes.div_ceil(count) / 60 + 1;
        // One worker per batch, because all workers share the first scan.
        ["--batch-minutes", "1", "--rate", &rate.to_string(), "--n-workers", &count.to_string()]
            .map(str::to_owned)
    }

    /// Returns a command with the cluster, if there is one, and the notes in its environment.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Cluster.command(program);
        command
            .env("NOTES", shared_directory().join(&self.name))
            .env_remove("CUDA_VISIBLE_DEVICES");
        command
    }

    /// Returns the command of a script of the directory.
    pub fn script(&self, name: &str) -> Command {
        self.command(self.dir.join(name))
    }

    /// Runs a script of the directory, which has to succeed. Returns its output.
    pub fn call(&self, name: &str) -> String {
        output_of(&mut self.script(name))
    }

    /// Runs `status`, whose exit status must agree with what it prints.
    pub fn status(&self) -> String {
        let output = self.script("status").output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        let words: Vec<&str> = told.split_whitespace().take(5).collect();
        let [_, complete, _, all, _] = words[..] else { panic!("{words:?}") };
        let expected = i32::from(complete != all);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(expected), "{told}{errors}");
        told
    }

    /// Runs `submit` with these variables in the environment of the jobs.
    pub fn submit(&self, environment: &[(&str, &str)]) -> String {
        output_of(self.script("submit").envs(environment.iter().copied()))
    }

    /// Lets the jobs begin no more than so many tasks for now, whatever their speed and that of the
    /// test: in all, or with `"element_limit"` in each element of an array.
    pub fn set_limit(&self, kind: &str, tasks: usize) {
        let path = shared_directory().join(&self.name).join(kind);
        let new = path.with_extension("new");
        fs::write(&new, tasks.to_string()).unwrap();
        fs::rename(new, path).unwrap();
    }

    /// Lets the jobs begin all tasks.
    pub fn lift_limit(&self, kind: &str) {
        fs::remove_file(shared_directory().join(&self.name).join(kind)).unwrap();
    }

    /// Returns the id of the job array that was submitted last.
    pub fn array(&self) -> String {
        let submitted = fs::read_to_string(self.dir.join("submitted")).unwrap();
        let line = submitted.lines().rfind(|line| line.contains(" array ")).unwrap();
        line.split(' ').next().unwrap().to_owned()
    }

    /// Returns the log of an element of the last job array; empty if there is none yet.
    pub fn log(&self, element: usize) -> String {
        let path = self.dir.join(format!("logs/{}_{element}.log", self.array()));
        fs::read_to_string(path).unwrap_or_default()
    }

    /// Returns the logs of all drivers of dask that ran as jobs.
    pub fn driver_log(&self) -> String {
        let logs = fs::read_dir(self.dir.join("logs")).unwrap().map(|entry| entry.unwrap().path());
        let is_drivers =
            |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("driver_");
        logs.filter(is_drivers).map(|path| fs::read_to_string(path).unwrap()).collect()
    }

    /// Returns the submitted jobs that are in these states, or `all` that are waiting or running.
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

    /// Waits until all submitted jobs have ended.
    pub fn wait(&self) {
        wait_until(&format!("the jobs of {} end", self.name), || self.queued("all").is_empty());
    }

    /// Returns the ids of the tasks that are done as a whole, by the result records.
    pub fn done(&self) -> BTreeSet<String> {
        let lines = read_record_files(&self.dir.join("results"));
        let is_done =
            |record: &Value| record["skipped"] == true || record["done"] == record["range"];
        records(&lines)
            .filter(|record| record["type"] == "result" && is_done(record))
            .map(|one| text(&one["id"]))
            .collect()
    }

    /// Returns the ids of all tasks.
    pub fn tasks(&self) -> Vec<String> {
        records(&self.plan).map(|task| text(&task["id"])).collect()
    }

    /// Returns all starts of ai-integrate.
    pub fn runs(&self) -> Vec<Run> {
        let runs = fs::read_to_string(shared_directory().join(&self.name).join("runs"))
            .unwrap_or_default();
        runs.lines().map(run).collect()
    }

    /// Returns whether an ai-integrate is running that handles USR1 already.
    pub fn handles_usr1(&self) -> bool {
        let notes = format!("NOTES={}", shared_directory().join(&self.name).display());
        let is_ours = |process: &Path| {
            let of = |file: &str| fs::read(process.join(file)).unwrap_or_default();
            let environment = of("environ");
            of("comm") == b"real\n"
                && environment.split(|&byte| byte == 0).any(|one| one == notes.as_bytes())
        };
        let catches = |process: PathBuf| {
            let status = fs::read_to_string(process.join("status")).unwrap_or_default();
            let caught =
                status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
            // USR1 is number 10, and bit 9
            u64::from_str_radix(caught.trim(), 16).unwrap() >> 9 & 1 == 1
        };
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        processes.filter(|process| is_ours(process)).any(catches)
    }

    /// Returns the hosts that the result records name.
    pub fn hosts(&self) -> BTreeSet<String> {
        let lines = read_record_files(&self.dir.join("results"));
        records(&lines)
            .filter(|record| record["type"] == "result")
            .map(|record| text(&record["host"]))
            .collect()
    }

    /// Returns the digests of complete scans from the closing gather; empty if it has not run.
    pub fn summary(&self) -> Digests {
        parse_digests(&fs::read_to_string(self.dir.join("summary.jsonl")).unwrap_or_default())
    }

    /// Returns whether the closing gather has run.
    pub fn is_gathered(&self) -> bool {
        self.dir.join("summary.jsonl").exists()
    }

    /// Returns the directory of the results.
    pub fn out(&self) -> PathBuf {
        SharedDataset::get().out(&self.name)
    }

    /// Removes all patterns. Results, logs and summaries of the jobs still list them.
    pub fn lose_patterns(&self) {
        fs::remove_dir_all(SharedDataset::get().out(&self.name)).unwrap();
        assert_eq!(
            SharedDataset::get().plan(&self.name, &self.by, self.scans),
            self.plan,
            "and the recipe is back"
        );
    }

    /// Asserts that the patterns of all scans are those of a plain pipe; there may be merged ones
    /// beside them.
    #[track_caller]
    pub fn assert_complete_beside_merged(&self) {
        let expected = SharedDataset::get().piped(self.scans);
        let summary = self.summary();
        assert!(
            expected.iter().all(|(scan, digest)| summary.get(scan) == Some(digest)),
            "{summary:?}"
        );
    }

    /// Asserts that the patterns are those of a plain pipe.
    #[track_caller]
    pub fn assert_complete(&self) {
        assert_eq!(self.summary(), SharedDataset::get().piped(self.scans), "{}", self.name);
    }
}

fn run(line: &str) -> Run {
    let mut fields = line.split('\t').map(str::to_owned);
    let mut next = || fields.next().unwrap();
    let (job, element, cpus, gpus, node) = (next(), next(), next(), next(), next());
    Run { job, element, cpus, gpus, node, cpu_set: next(), program: next(), arguments: next() }
}
