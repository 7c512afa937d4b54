//! A dataset in a directory of its own, and the filters run on it.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sample::{Dataset, Options};
use serde_json::Value;
use tempfile::TempDir;

/// What a filter did.
pub struct Ran {
    /// Its exit status.
    pub status: i32,
    /// Its records.
    pub stdout: String,
    /// Its messages.
    pub stderr: String,
}

impl Ran {
    /// The records of a type.
    pub fn records(&self, kind: &str) -> Vec<Value> {
        let all = self.stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect("a JSON line"));
        all.filter(|record| record["type"] == kind).collect()
    }

    /// The same, where it ended well.
    pub fn good(self) -> Self {
        assert_eq!(self.status, 0, "stderr: {}", self.stderr);
        self
    }
}

/// The path of a filter.
pub fn binary(name: &str) -> &'static str {
    match name {
        "scan-find" => env!("CARGO_BIN_EXE_scan-find"),
        "plan-split" => env!("CARGO_BIN_EXE_plan-split"),
        "ai-integrate" => env!("CARGO_BIN_EXE_ai-integrate"),
        "gather" => env!("CARGO_BIN_EXE_gather"),
        other => panic!("no filter is called {other}"),
    }
}

/// Runs a filter over `input`.
pub fn run<S: AsRef<OsStr>>(name: &str, arguments: &[S], input: &str) -> Ran {
    let mut child = Command::new(binary(name))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the filter starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let output = std::thread::scope(|scope| {
        // A filter that stops early closes its input: what it then does is for the test to judge.
        scope.spawn(move || stdin.write_all(input.as_bytes()));
        child.wait_with_output().expect("the filter ends")
    });
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ran { status: status(&output.status), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn status(status: &std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// A dataset, and where its results go.
pub struct Site {
    directory: TempDir,
    /// The dataset.
    pub data: Dataset,
    /// What scan-find says of it.
    pub scans: String,
}

/// A small detector, so that a test takes a second.
pub fn small() -> Options {
    let detector = sample::Detector::named("pilatus-100k").expect("a detector of the sample");
    Options { scans: 1, frames: 24, frames_per_file: 7, detector, dtype: detector.dtype, ..Options::default() }
}

impl Site {
    /// Writes the dataset and finds its scans.
    pub fn new(options: &Options) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let data = sample::write(directory.path(), options).expect("the dataset can be written");
        let scans = run("scan-find", &[&data.raw], "").stdout;
        Self { directory, data, scans }
    }

    /// A path in the site's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The tasks for results below `out`, with more flags for plan-split.
    pub fn plan(&self, out: &str, flags: &[&str]) -> String {
        self.plan_without_bins(out, &[&["--npt", "300"], flags].concat())
    }

    /// The same, but that the flags say which bins there are.
    pub fn plan_without_bins(&self, out: &str, flags: &[&str]) -> String {
        let out = self.path(out);
        let mut all = vec![OsStr::new("--poni"), self.data.poni.as_os_str(), OsStr::new("--out"), out.as_os_str()];
        all.extend(flags.iter().map(OsStr::new));
        run("plan-split", &all, &self.scans).good().stdout
    }

    /// The tasks of a plan that was made elsewhere, whose monitor is a counter that the scans don't have: plan-split itself would
    /// refuse it.
    pub fn plan_without_counter(&self, out: &str, name: &str) -> String {
        let out = self.path(out);
        let plan = ["--poni".as_ref(), self.data.poni.as_os_str(), "--out".as_ref(), out.as_os_str()];
        let plan = [&plan[..], &["--monitor".as_ref(), OsStr::new(name)]].concat();
        without_counter(&run("plan-split", &plan, &with_counter(&self.scans, name)).good().stdout, name)
    }

    /// Plans, integrates and gathers below `out`; gather's answer.
    pub fn process(&self, out: &str, plan: &[&str], integrate: &[&str]) -> Ran {
        let results = run("ai-integrate", integrate, &self.plan(out, plan));
        run("gather", NOTHING, &results.stdout)
    }

    /// The parts below `out`.
    pub fn parts(&self, out: &str) -> Vec<PathBuf> {
        self.working_files(out).into_iter().filter(|path| path.extension().is_some_and(|end| end == "h5")).collect()
    }

    /// All files where the parts of `out` lie.
    pub fn working_files(&self, out: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        walk(&self.path(out).join(".azpipe/parts"), &mut found);
        found.sort();
        found
    }
}

/// The records, with a counter of this name in each.
pub fn with_counter(records: &str, name: &str) -> String {
    edit_counters(records, |counters| {
        counters.insert(name.to_owned(), format!("/1.1/measurement/{name}").into());
    })
}

/// The records, without the counter of this name.
pub fn without_counter(records: &str, name: &str) -> String {
    edit_counters(records, |counters| {
        counters.remove(name);
    })
}

fn edit_counters(records: &str, change: impl Fn(&mut serde_json::Map<String, Value>)) -> String {
    let edited = records.lines().map(|line| {
        let mut record: Value = serde_json::from_str(line).expect("a JSON line");
        change(record["counters"].as_object_mut().expect("counters"));
        format!("{record}\n")
    });
    edited.collect()
}

/// No arguments.
pub const NOTHING: &[&str] = &[];

fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => walk(&path, found),
            path => found.push(path),
        }
    }
}
