//! A pipe of 20 tasks, run filter by filter over what the filter before it said, each from the files as they were then.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sample::{Dataset, Options};
use serde_json::Value;
use tempfile::TempDir;

use super::state::Tree;
use crate::support::{Outcome, exit_status, fault_shim, program};

/// The filters, in the order in which they are run: ai-integrate also where all is done, and gather also over what it finds
/// below the output.
pub const FILTERS: [&str; 7] =
    ["scan-find", "plan-split", "slurm-emit", "ai-integrate", "ai-integrate-again", "gather", "gather-from"];

/// Fields that differ from run to run, or say how much of the work was done before.
const VOLATILE: [&str; 9] =
    ["seconds", "host", "decode_path", "skipped", "read_bytes", "part_digest", "engine", "device", "sent_bytes"];

/// Returns the records of a run without the fields that differ from run to run, sorted.
pub fn comparable_records(outcome: &Outcome) -> Vec<String> {
    let mut records: Vec<String> = outcome.stdout.lines().map(without_volatile_fields).collect();
    records.sort();
    records
}

fn without_volatile_fields(line: &str) -> String {
    let Ok(mut record) = serde_json::from_str::<Value>(line) else { return line.to_owned() };
    if let Some(fields) = record.as_object_mut() {
        fields.retain(|name, _| !VOLATILE.contains(&name.as_str()));
    }
    record.to_string()
}

/// The input and output of one filter in a run without faults.
pub struct Step {
    pub filter: &'static str,
    pub input: String,
    pub before: Tree,
    pub after: Tree,
    pub quiet: Outcome,
    /// The calls of a quiet run to the file system, each counted.
    pub counts: Vec<(&'static str, usize)>,
}

/// A dataset with its results, in memory where the machine has such a place: a full matrix writes them often.
pub struct Pipe {
    directory: TempDir,
    data: Dataset,
    tasks: usize,
}

impl Pipe {
    /// Writes a dataset of `tasks` frames, each of them a task.
    pub fn new(tasks: usize) -> Self {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let directory = tempfile::Builder::new().prefix("azpipe-faults-").tempdir_in(place).expect("a directory");
        let top = fs::canonicalize(directory.path()).expect("a path").join("site");
        fs::create_dir_all(top.join("io")).expect("a directory");
        let detector = sample::Detector::named("pilatus-100k").expect("a detector of the sample");
        let options = Options {
            scans: 1,
            frames: tasks,
            frames_per_file: 7,
            detector,
            dtype: detector.dtype,
            ..Options::default()
        };
        let data = sample::write(&top, &options).expect("a dataset");
        Self { directory, data, tasks }
    }

    /// The directory in which calls can fail: data, results, and what the filters read and write as streams.
    pub fn top(&self) -> PathBuf {
        fs::canonicalize(self.directory.path()).expect("a path").join("site")
    }

    /// The directory of all that filters write.
    pub fn state(&self) -> PathBuf {
        self.top().join("state")
    }

    /// Where the shim writes its log, which must not fail.
    pub fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    fn command(&self, filter: &str) -> Command {
        let mut command = Command::new(program(filter.trim_end_matches("-again").trim_end_matches("-from")));
        let state = self.state();
        match filter {
            "scan-find" => command.arg(&self.data.raw),
            "plan-split" => {
                let out = state.join("out");
                command
                    .arg("--poni")
                    .arg(&self.data.poni)
                    .arg("--out")
                    .arg(out)
                    .args(["--npt", "50", "--by", "frames=1"])
            }
            "slurm-emit" => command.arg("--dir").arg(state.join("job")).args(["--target", "local"]),
            "ai-integrate" | "ai-integrate-again" => command.args(["--threads", "1"]),
            "gather-from" => command.arg("--from").arg(state.join("out")),
            _ => &mut command,
        };
        command
    }

    /// Runs a filter over `input`. Its streams are files below the top, so that reading and writing them can fail, too.
    pub fn run(&self, filter: &str, input: &str, environment: &[(&str, &str)]) -> Outcome {
        let io = self.top().join("io");
        fs::write(io.join("stdin"), input).expect("a file");
        let stderr = self.directory.path().join("stderr");
        let mut command = self.command(filter);
        command.stdin(File::open(io.join("stdin")).expect("a file"));
        command.stdout(File::create(io.join("stdout")).expect("a file"));
        command.stderr(Stdio::from(File::create(&stderr).expect("a file")));
        if !environment.is_empty() {
            fault_shim::preload(&mut command, &self.top()).envs(environment.iter().copied());
        }
        let status = command.status().expect("the filter starts");
        let text = |path: &Path| String::from_utf8_lossy(&fs::read(path).expect("a file")).into_owned();
        Outcome { status: exit_status(status), stdout: text(&io.join("stdout")), stderr: text(&stderr) }
    }

    /// Runs the whole pipe without a fault, under the shim that counts.
    pub fn quiet(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        for filter in FILTERS {
            let find = |filter: &str| steps.iter().find(|step| step.filter == filter).expect("a step");
            let input = match filter {
                "scan-find" | "gather-from" => String::new(),
                "plan-split" => find("scan-find").quiet.stdout.clone(),
                "gather" => find("ai-integrate").quiet.stdout.clone(),
                _ => find("plan-split").quiet.stdout.clone(),
            };
            if filter == "gather-from" {
                find("gather").before.write(&self.state());
            }
            let before = Tree::read(&self.state());
            let _ = fs::remove_file(self.log());
            let log = self.log();
            let log = log.to_str().expect("UTF-8");
            let ran = self.run(filter, &input, &[("FAULTS_LOG", log), ("FAULTS_COUNT", "1")]);
            assert_eq!(ran.status, 0, "{filter}: {}", ran.stderr);
            let calls = fs::read_to_string(self.log()).expect("the shim was loaded, and counted");
            let count = |call: &str| calls.lines().filter(|line| line.split(' ').next() == Some(call)).count();
            let counts = fault_shim::CALLS.iter().map(|(call, _)| (*call, count(call))).collect();
            steps.push(Step { filter, input, before, after: Tree::read(&self.state()), quiet: ran, counts });
        }
        let tasks = steps[1].quiet.stdout.lines().count();
        assert_eq!(tasks, self.tasks, "a task a frame");
        steps
    }
}
