//! One property above all: whatever engine runs the plan, the patterns have the bytes of a plain pipe's.
//! The programs are the real ones here.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sample::{Dataset, Options};
use serde_json::Value;

use crate::cluster::{Cluster, feed, peers, until};

/// A dataset of three scans, in a directory that no shell would like.
struct Site {
    root: PathBuf,
    data: Dataset,
}

/// Scan to digest of its patterns.
type Digests = BTreeMap<String, String>;

impl Site {
    fn new(below: &Path) -> Self {
        let root = below.join("it's \"raw\" $data\n`x`");
        let detector = sample::Detector::named("pilatus-100k").unwrap();
        let options =
            Options { scans: 3, frames: 24, frames_per_file: 7, detector, dtype: detector.dtype, ..Options::default() };
        let data = sample::write(&root, &options).unwrap();
        Self { root, data }
    }

    /// Twelve tasks with results below `out`.
    fn plan(&self, out: &str) -> String {
        let found = run(env!("CARGO_BIN_EXE_scan-find"), [&self.data.raw], "");
        let (out, poni) = (self.root.join(out), &self.data.poni);
        let flags = ["--npt", "300", "--by", "frames=6"].map(OsStr::new);
        let paths = [OsStr::new("--poni"), poni.as_os_str(), OsStr::new("--out"), out.as_os_str()];
        run(env!("CARGO_BIN_EXE_plan-split"), flags.into_iter().chain(paths), &found)
    }

    /// What a plain pipe makes of it.
    fn piped(&self) -> Digests {
        let results = run(env!("CARGO_BIN_EXE_ai-integrate"), ["--threads", "1"], &self.plan("piped"));
        digests(&run::<&str>(env!("CARGO_BIN_EXE_gather"), [], &results))
    }

    /// slurm-emit's directory for results below a directory of the same name.
    fn emit(&self, target: &str, flags: &[&str]) -> PathBuf {
        let dir = self.root.parent().unwrap().join(format!("{target} jobs"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_slurm-emit"));
        command.args(["--target", target, "--dir"]).arg(&dir).args(["--batch-minutes", "0"]);
        command.args(["--ai-engines-per-worker", "2", "--cores-per-worker", "1", "--n-workers", "2"]).args(flags);
        let output = feed(command, &self.plan(target));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        dir
    }
}

fn run<A: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = A>, input: &str) -> String {
    let mut command = Command::new(program);
    command.args(arguments);
    let output = feed(command, input);
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The digests of complete scans.
fn digests(summaries: &str) -> Digests {
    let records = summaries.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let complete = records.filter(|record| record["type"] == "summary" && record["complete"] == true);
    complete.map(|record| (text(&record["scan"]), text(&record["data_digest"]))).collect()
}

fn summary(dir: &Path) -> Digests {
    digests(&fs::read_to_string(dir.join("summary.jsonl")).unwrap_or_default())
}

#[test]
fn the_array_gives_the_bytes_of_the_pipe() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let site = Site::new(cluster.path());
    let dir = site.emit("slurm", &["--mem", "auto"]);
    assert!(cluster.command(dir.join("submit")).status().unwrap().success());
    let piped = site.piped();
    assert_eq!(piped.len(), 3);
    cluster.wait(180);
    assert_eq!(summary(&dir), piped);

    // each scan was put together by an element, before the closing gather
    let early: String = fs::read_dir(dir.join("summaries"))
        .unwrap()
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    assert_eq!(digests(&early), piped);

    let status = cluster.command(dir.join("status")).output().unwrap();
    let status = String::from_utf8_lossy(&status.stdout);
    assert!(status.contains("12 of 12 done, 0 to do") && status.contains("speed"), "{status}");

    // results that are lost are made again
    fs::remove_dir_all(site.root.join("slurm")).unwrap();
    let plan = site.plan("slurm");
    assert_eq!(plan.lines().count(), 12); // and the recipe is back
    fs::remove_file(dir.join("summary.jsonl")).unwrap();
    assert!(cluster.command(dir.join("submit")).status().unwrap().success());
    cluster.wait(180);
    assert_eq!(summary(&dir), piped);
}

#[test]
fn an_array_that_is_drained_and_resubmitted_gives_the_bytes_of_the_pipe() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let site = Site::new(cluster.path());
    let dir = site.emit("slurm", &["--batch-minutes", "10"]);
    for _ in 0..3 {
        assert!(cluster.command(dir.join("submit")).status().unwrap().success());
        until(60, "it runs", || !cluster.ask("squeue", &["--noheader", "--states=R"]).is_empty());
        // whenever it comes: while it starts, integrates, or gathers
        assert!(cluster.command(dir.join("cancel")).status().unwrap().success());
        cluster.wait(60);
    }
    assert!(cluster.command(dir.join("resubmit")).status().unwrap().success());
    let piped = site.piped();
    cluster.wait(180);
    assert_eq!(summary(&dir), piped);
}

#[test]
fn engines_of_one_machine_give_the_bytes_of_the_pipe() {
    let top = tempfile::tempdir().unwrap();
    let site = Site::new(top.path());
    let piped = site.piped();
    for target in ["local", "parallel", "make"] {
        let dir = site.emit(target, &[]);
        let output = Command::new(dir.join("submit")).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{target}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(summary(&dir), piped, "{target}");
    }
}

#[test]
fn dask_gives_the_bytes_of_the_pipe() {
    let Some(python) = peers("dask_jobqueue") else { return };
    let Some(cluster) = Cluster::start(&[]) else { return };
    let site = Site::new(cluster.path());
    let dir = site.emit("dask", &["--memory", "1GB", "--interface", "lo", "--python", &python]);
    assert!(cluster.command(dir.join("submit")).status().unwrap().success());
    let piped = site.piped();
    until(180, "the summary", || dir.join("summary.jsonl").exists());
    assert_eq!(summary(&dir), piped);
    assert!(hosts(&dir).iter().all(|host| host.starts_with("node")), "{:?}", hosts(&dir));
}

#[test]
fn ray_gives_the_bytes_of_the_pipe() {
    let Some(python) = peers("ray") else { return };
    let Some(cluster) = Cluster::start(&[]) else { return };
    let site = Site::new(cluster.path());
    let dir = site.emit("ray", &["--mem", "3G", "--python", &python]);
    assert!(cluster.command(dir.join("submit")).status().unwrap().success());
    let piped = site.piped();
    until(180, "the summary", || dir.join("summary.jsonl").exists());
    assert_eq!(summary(&dir), piped);
    assert!(hosts(&dir).iter().all(|host| host.starts_with("node")), "{:?}", hosts(&dir));
}

/// The nodes that results name.
fn hosts(dir: &Path) -> BTreeSet<String> {
    let files = fs::read_dir(dir.join("results")).unwrap();
    let text: String = files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records.map(|record| record["host"].as_str().unwrap().to_owned()).collect()
}
