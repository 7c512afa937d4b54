//! A pipe of 20 tasks, run step by step over what the filter before it said, each from the files as
//! they were then.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use sample::{Dataset, Options};
use serde_json::Value;
use tempfile::TempDir;

use super::state::Tree;
use crate::support::{Outcome, exit_status, fault_shim, files_below, program};

/// The steps of a pipe, in the order in which they are run: ai-integrate also where all is done,
/// and gather also over what it finds below the output.
pub const PIPE: [&str; 7] = [
    "scan-find",
    "plan-split",
    "slurm-emit",
    "ai-integrate",
    "ai-integrate-again",
    "gather",
    "gather-from",
];

/// The steps of a pipe, and more runs of its filters: a search that follows until nothing changes;
/// gather with an average, exports, a plot and a report, where the final is damaged; gather that
/// removes what a replaced result left; gather that merges two results; and a plan with a preview, a
/// mask and a monitor.
pub const STEPS: [&str; 12] = [
    "scan-find",
    "plan-split",
    "slurm-emit",
    "ai-integrate",
    "ai-integrate-again",
    "gather",
    "gather-from",
    "scan-find-follow",
    "gather-exports",
    "gather-clean",
    "gather-merge",
    "plan-split-preview",
];

/// Returns the name of the filter that a step runs.
fn filter_of(step: &str) -> &'static str {
    let filters = ["scan-find", "plan-split", "slurm-emit", "ai-integrate", "gather"];
    filters.into_iter().find(|filter| step.starts_with(filter)).expect("a step of a filter")
}

/// Fields that differ from run to run, or say how much of the work was done before.
const VOLATILE: [&str; 9] = [
    "seconds",
    "host",
    "decode_path",
    "skipped",
    "read_bytes",
    "part_digest",
    "engine",
    "device",
    "sent_bytes",
];

/// Returns the records of a run without the fields that differ from run to run, sorted. The last
/// record of a scan counts: a search that follows writes another if it has met a fault that passed.
pub fn comparable_records(outcome: &Outcome) -> Vec<String> {
    let mut scans = HashSet::new();
    let mut records: Vec<String> = outcome
        .stdout
        .lines()
        .rev()
        .filter(|line| scan_id(line).is_none_or(|id| scans.insert(id)))
        .map(without_volatile_fields)
        .collect();
    records.sort();
    records
}

/// Returns the id of a scan record.
fn scan_id(line: &str) -> Option<String> {
    let record = serde_json::from_str::<Value>(line).ok()?;
    (record["type"] == "scan").then(|| record["id"].to_string())
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
    /// The places of each kind of call in a quiet run, in order. The filter and its worker process
    /// count for themselves; of calls with the same number, one is here.
    pub calls: Vec<(&'static str, Vec<Place>)>,
}

/// Kind of file that a call is about. Two calls at one place differ only in which of many like
/// files they are about.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Path, with `#` for each number; empty for a call without one.
    path: String,
    /// Number of earlier calls of this kind on exactly this path; of allocations, the logarithm.
    nth: usize,
}

/// A dataset with its results, in memory where the machine has such a place: a full matrix writes
/// them often.
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
        let directory = tempfile::Builder::new()
            .prefix("azpipe-faults-")
            .tempdir_in(place)
            .expect("a directory");
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
        // A search that follows waits for files that have just changed.
        let hour_ago = SystemTime::now() - Duration::from_secs(3600);
        for path in files_below(&top) {
            let file = File::options().write(true).open(&path).expect("a file");
            file.set_modified(hour_ago).expect("the time is set");
        }
        Self { directory, data, tasks }
    }

    /// The directory in which calls can fail: data, results, and what the filters read and write as
    /// streams.
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
        let mut command = Command::new(program(filter_of(filter)));
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
            "plan-split-preview" => command
                .arg("--poni")
                .arg(&self.data.poni)
                .arg("--mask")
                .arg(&self.data.mask)
                .arg("--out")
                .arg(state.join("out"))
                .arg("--preview")
                .arg(state.join("preview.png"))
                .args(["--npt", "50", "--monitor", "monitor", "--monitor-reference", "mean"]),
            "slurm-emit" => command.arg("--dir").arg(state.join("job")).args(["--target", "local"]),
            // An OpenCL driver may end the process if it can't have a thread: PoCL does. Without
            // its closing line, what ai-integrate writes to stderr is a message.
            "ai-integrate" | "ai-integrate-again" => {
                command.args(["--threads", "1", "--engine", "cpu", "--progress", "none"])
            }
            "scan-find-follow" => {
                command.args(["--follow=0.05", "--until-idle=0"]).arg(&self.data.raw)
            }
            "gather-from" => command.arg("--from").arg(state.join("out")),
            "gather-exports" => command
                .args([
                    "--export",
                    "xye,dat,csv,fxye,nxazint",
                    "--average",
                    "mean,5",
                    "--map",
                    "rot,elapsed_time",
                    "--plot",
                ])
                .arg(state.join("plot.svg"))
                .arg("--report")
                .arg(state.join("report.html")),
            "gather-merge" => command.args(["--merge-all", "both", "--keep-sums"]),
            "gather-clean" => command.arg("--clean").arg("--from").arg(state.join("out")),
            _ => &mut command,
        };
        command
    }

    /// Runs a step over `input`. Its streams are files below the top, so that reading and writing
    /// them can fail, too.
    pub fn run(&self, step: &str, input: &str, environment: &[(&str, &str)]) -> Outcome {
        self.run_with(step, &[], input, environment)
    }

    /// Runs a step with more arguments.
    fn run_with(
        &self,
        step: &str,
        arguments: &[&str],
        input: &str,
        environment: &[(&str, &str)],
    ) -> Outcome {
        let io = self.top().join("io");
        // Below the directory that is watched, the record itself is a change of which the system
        // tells.
        let stdout = if step == "scan-find-follow" {
            self.data.raw.join("scans.jsonl")
        } else {
            io.join("stdout")
        };
        fs::write(io.join("stdin"), input).expect("a file");
        let stderr = self.directory.path().join("stderr");
        let mut command = self.command(step);
        command.args(arguments);
        command.stdin(File::open(io.join("stdin")).expect("a file"));
        command.stdout(File::create(&stdout).expect("a file"));
        command.stderr(Stdio::from(File::create(&stderr).expect("a file")));
        if !environment.is_empty() {
            fault_shim::preload(&mut command, &self.top()).envs(environment.iter().copied());
        }
        let status = command.status().expect("the filter starts");
        let text =
            |path: &Path| String::from_utf8_lossy(&fs::read(path).expect("a file")).into_owned();
        Outcome { status: exit_status(status), stdout: text(&stdout), stderr: text(&stderr) }
    }

    /// Runs steps without a fault, under the shim that counts.
    pub fn quiet(&self, names: &[&'static str]) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        for filter in names.iter().copied() {
            let find =
                |filter: &str| steps.iter().find(|step| step.filter == filter).expect("a step");
            let input = match filter {
                "scan-find" | "scan-find-follow" | "gather-from" | "gather-clean" => String::new(),
                "plan-split" | "plan-split-preview" => find("scan-find").quiet.stdout.clone(),
                "gather-merge" => {
                    find("gather").before.write(&self.state());
                    let integrated = &find("ai-integrate").quiet.stdout;
                    integrated.clone() + &self.integrate_sector(find("scan-find"))
                }
                "gather" | "gather-exports" => find("ai-integrate").quiet.stdout.clone(),
                _ => find("plan-split").quiet.stdout.clone(),
            };
            match filter {
                "gather-from" => find("gather").before.write(&self.state()),
                "plan-split-preview" => Tree::default().write(&self.state()),
                "gather-exports" => with_damaged_final(find("gather")).write(&self.state()),
                "gather-clean" => {
                    find("gather").before.write(&self.state());
                    self.replace_result(find("scan-find"), find("ai-integrate"));
                }
                _ => (),
            }
            let before = Tree::read(&self.state());
            let _ = fs::remove_file(self.log());
            let log = self.log();
            let log = log.to_str().expect("UTF-8");
            let ran = self.run(filter, &input, &[("FAULTS_LOG", log), ("FAULTS_COUNT", "1")]);
            assert_eq!(ran.status, 0, "{filter}: {}", ran.stderr);
            let calls = fs::read_to_string(self.log()).expect("the shim was loaded, and counted");
            let calls = fault_shim::CALLS
                .iter()
                .map(|(call, _)| (*call, find_places(&calls, call)))
                .collect();
            steps.push(Step {
                filter,
                input,
                before,
                after: Tree::read(&self.state()),
                quiet: ran,
                calls,
            });
        }
        let tasks = steps[1].quiet.stdout.lines().count();
        assert_eq!(tasks, self.tasks, "a task a frame");
        steps
    }

    /// Runs a step with more arguments, which must succeed, and returns its records.
    fn run_well(&self, step: &str, arguments: &[&str], input: &str) -> String {
        let ran = self.run_with(step, arguments, input, &[]);
        assert_eq!(ran.status, 0, "{step}: {}", ran.stderr);
        ran.stdout
    }

    /// Makes the final of results whose parts are kept, and then that of other settings in its
    /// place.
    fn replace_result(&self, found: &Step, integrated: &Step) {
        self.run_well("gather", &["--keep-parts"], &integrated.quiet.stdout);
        let flags = ["--replace", "--polarization", "0.95"];
        let planned = self.run_well("plan-split", &flags, &found.quiet.stdout);
        let results = self.run_well("ai-integrate", &[], &planned);
        self.run_well("gather", &["--keep-parts"], &results);
    }

    /// Integrates a sector of the frames into parts of another recipe, and returns the results.
    fn integrate_sector(&self, found: &Step) -> String {
        let flags = ["--recipe-name", "sector", "--azimuth-range", "0,90"];
        let planned = self.run_well("plan-split", &flags, &found.quiet.stdout);
        self.run_well("ai-integrate", &[], &planned)
    }
}

/// Returns the files before gather, with a final whose data was damaged later.
fn with_damaged_final(gather: &Step) -> Tree {
    let mut tree = gather.before.clone();
    let is_final = |name: &Path| {
        name.extension().is_some_and(|end| end == "h5") && !gather.before.0.contains_key(name)
    };
    let (name, content) = gather.after.0.iter().find(|(name, _)| is_final(name)).expect("a final");
    let mut bytes = content.clone().expect("a file");
    let middle = bytes.len() / 2;
    bytes[middle..][..64].fill(0x55);
    tree.0.insert(name.clone(), Some(bytes));
    tree
}

/// Returns the places of the calls of one kind in a log, in order.
fn find_places(log: &str, call: &str) -> Vec<Place> {
    let calls = log.lines().filter_map(|line| {
        let (number, rest) = line.strip_prefix(call)?.strip_prefix(' ')?.split_once(' ')?;
        let path = rest.split_once(' ').map_or("", |(_, path)| path);
        Some((number.parse::<usize>().ok()?, path))
    });
    let mut earlier: HashMap<&str, usize> = HashMap::new();
    let mut places = BTreeMap::new();
    for (number, path) in calls {
        let nth = earlier.entry(path).or_default();
        // One place in the library allocates thousands of times.
        let nth_of_place = if call == "malloc" {
            nth.checked_ilog2().map_or(0, |log| log as usize + 1)
        } else {
            *nth
        };
        places.insert(number, Place { path: without_numbers(path), nth: nth_of_place });
        *nth += 1;
    }
    let last = places.keys().next_back().copied().unwrap_or_default();
    (1..=last).map(|number| places.remove(&number).unwrap_or_default()).collect()
}

/// Returns a path with `#` for each number and digest, so that all parts of a scan have one name.
fn without_numbers(path: &str) -> String {
    let is_number = |word: &str| {
        (!word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()))
            || (word.len() >= 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    let (mut out, mut word) = (String::new(), String::new());
    for letter in path.chars() {
        if letter.is_alphanumeric() {
            word.push(letter);
            continue;
        }
        out += if is_number(&word) { "#" } else { &word };
        out.push(letter);
        word.clear();
    }
    out += if is_number(&word) { "#" } else { &word };
    out
}
