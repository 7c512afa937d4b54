//! A storm of faults over one output, then a calm run: its bytes are the quiet run's, whatever came
//! before.
//!
//! In each round one to three runs of ai-integrate at once take some of the tasks, each with a
//! fault of its own: killed or terminated after some results, calls that fail by chance, a disk
//! that is full for a while. Files of frames go away and come back, bytes of parts and finals flip,
//! and gather runs with faults as well.
//!
//! `AZPIPE_CHAOS` is `SEED` or `SEED TASKS`; what is run without it is a short storm by a new seed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sample::{Dataset, Options, Random};
use serde_json::Value;

use super::every_call::say;
use super::state::Tree;
use crate::support::{exit_status, fault_shim, files_below, new_seed, program};

/// Tasks of a short storm.
const TASKS: usize = 60;

/// A fault that is injected into a run of a filter.
#[derive(Clone, Debug)]
enum InjectedFault {
    Nothing,
    /// A signal after so many records.
    Signal(Signal, usize),
    /// An environment of the shim.
    Calls(&'static str, String),
}

impl InjectedFault {
    fn draw(random: &mut Random, tasks: usize) -> Self {
        let seed = random.below(1 << 30);
        match random.below(7) {
            0 => Self::Nothing,
            1 => Self::Signal(Signal::SIGKILL, random.index(tasks)),
            2 => Self::Signal(Signal::SIGTERM, random.index(tasks)),
            3 => Self::Calls("FAULTS_ODDS", format!("{seed} 2 kill")),
            4 => Self::Calls(
                "FAULTS_ODDS",
                format!("{seed} {} EIO,ESTALE,EINTR,short", 1 + random.index(20)),
            ),
            5 => Self::Calls(
                "FAULTS_ODDS",
                format!("{seed} {} EIO,ENOSPC,EDQUOT,ENOLCK", 1 + random.index(20)),
            ),
            _ => {
                let first = 1 + random.index(30 * tasks);
                Self::Calls(
                    "FAULTS_AT",
                    format!("space {first}-{} ENOSPC", first + random.index(300)),
                )
            }
        }
    }

    /// Returns its name in the table of faults.
    fn name(&self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Signal(Signal::SIGKILL, _) => "kill -9",
            Self::Signal(..) => "SIGTERM",
            Self::Calls("FAULTS_AT", _) => "disk full for a while",
            Self::Calls(_, odds) if odds.ends_with("kill") => "kill -9 at a call",
            Self::Calls(..) => "calls that fail",
        }
    }
}

/// The result of a run with a fault.
struct FaultyRun {
    /// The exit status; 128 and the signal's number where one ended it.
    status: i32,
    stdout: String,
    stderr: String,
    /// How many calls the shim made fail.
    faults: usize,
    /// True if an allocation of the HDF5 library was among them.
    lacked_memory: bool,
}

impl FaultyRun {
    fn records(&self, kind: &str) -> Vec<Value> {
        let all = self.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        all.filter(|record| record["type"] == kind).collect()
    }

    fn digest(&self) -> Option<Value> {
        self.records("summary").last().map(|summary| summary["data_digest"].clone())
    }

    /// A program never dies of a fault but by the signal that was sent, or because the HDF5 library
    /// crashes without memory.
    fn check(&self, fault: &InjectedFault) {
        let was_sent = match fault {
            // Terminated, it ends by itself and says so by its status, unless it has not begun yet.
            InjectedFault::Signal(Signal::SIGTERM, _) => matches!(self.status, 75 | 76 | 143),
            InjectedFault::Signal(signal, _) => self.status == 128 + *signal as i32,
            InjectedFault::Calls(_, odds) => {
                (odds.ends_with("kill") && self.status == 128 + 9)
                    || (self.lacked_memory && [128 + 6, 128 + 11].contains(&self.status))
            }
            InjectedFault::Nothing => false,
        };
        let is_crash = (self.status >= 128 && !was_sent)
            || self.status == 101
            || self.stderr.contains("panicked at");
        assert!(!is_crash, "{fault:?}: status {}: {}", self.status, self.stderr);
        let says_why = !self.stderr.trim().is_empty() || !self.records("fail").is_empty();
        assert!(
            self.status == 0 || was_sent || says_why,
            "{fault:?}: status {} without a word",
            self.status
        );
    }
}

/// A dataset under random faults, and how often each kind was injected.
struct Storm {
    top: PathBuf,
    data: Dataset,
    random: Random,
    injected: BTreeMap<&'static str, usize>,
}

impl Storm {
    fn run(
        &self,
        filter: &str,
        arguments: &[&str],
        input: &str,
        fault: &InjectedFault,
    ) -> FaultyRun {
        run(&self.top, filter, arguments, input, fault)
    }

    fn count(&mut self, name: &'static str, number: usize) {
        *self.injected.entry(name).or_default() += number;
    }

    /// Changes one bit of a file of the output, as a medium or a network may; the name of what was
    /// changed.
    fn flip(&mut self, out: &Path) -> Option<String> {
        let mut files = files_below(out);
        let is_result = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.ends_with(".h5") && !name.starts_with('.')
        };
        files.retain(is_result);
        if files.is_empty() {
            return None;
        }
        let path = files.swap_remove(self.random.index(files.len()));
        let mut bytes = fs::read(&path).ok().filter(|bytes| !bytes.is_empty())?;
        let at = self.random.index(bytes.len());
        bytes[at] ^= 1 << self.random.below(8);
        fs::write(&path, bytes).expect("a file");
        let is_part = path.components().any(|part| part.as_os_str() == "parts");
        self.count(if is_part { "bit of a part" } else { "bit of a final" }, 1);
        Some(format!("{} at {at}", path.display()))
    }
}

/// Runs a filter with a fault.
fn run(
    top: &Path,
    filter: &str,
    arguments: &[&str],
    input: &str,
    fault: &InjectedFault,
) -> FaultyRun {
    static RUNS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = RUNS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let log = top.with_extension(format!("log{number}"));
    let mut command = Command::new(program(filter));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let InjectedFault::Calls(name, value) = fault {
        fault_shim::preload(&mut command, top).env(name, value).env("FAULTS_LOG", &log);
    }
    let mut child = command.spawn().expect("the filter starts");
    let (mut stdin, stdout) =
        (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    let stderr = child.stderr.take().expect("piped");
    let pid = Pid::from_raw(child.id() as i32);
    let (stdout, stderr) = std::thread::scope(|scope| {
        // Who is killed does not read all of it.
        scope.spawn(move || stdin.write_all(input.as_bytes()));
        let messages = scope.spawn(|| {
            let mut text = Vec::new();
            let _ = std::io::Read::read_to_end(&mut BufReader::new(stderr), &mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let mut text = String::new();
        let mut lines = BufReader::new(stdout);
        for records in 0.. {
            if let InjectedFault::Signal(signal, after) = fault
                && records == *after
            {
                // It may have ended.
                let _ = kill(pid, *signal);
            }
            let mut line = Vec::new();
            if lines.read_until(b'\n', &mut line).expect("a pipe") == 0 {
                break;
            }
            text.push_str(&String::from_utf8_lossy(&line));
        }
        (text, messages.join().expect("no panic"))
    });
    let status = child.wait().expect("the filter ends");
    let failed = fs::read_to_string(&log).unwrap_or_default();
    let _ = fs::remove_file(&log);
    let lacked_memory = failed.lines().any(|call| call.starts_with("malloc "));
    let (status, faults) = (exit_status(status), failed.lines().count());
    FaultyRun { status, stdout, stderr, faults, lacked_memory }
}

#[test]
fn after_a_storm_of_faults_the_bytes_are_the_quiet_runs() {
    let asked = std::env::var("AZPIPE_CHAOS").unwrap_or_default();
    let mut words = asked.split_whitespace();
    let seed = words.next().map_or_else(new_seed, |seed| seed.parse().expect("a seed"));
    let tasks = words.next().map_or(TASKS, |tasks| tasks.parse().expect("a number"));
    let rounds = if tasks > TASKS { 40 } else { 10 };
    say(&format!(
        "a storm of {rounds} rounds over {tasks} tasks, chosen by AZPIPE_CHAOS='{seed} {tasks}'"
    ));

    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let directory =
        tempfile::Builder::new().prefix("azpipe-chaos-").tempdir_in(place).expect("a directory");
    let top = fs::canonicalize(directory.path()).expect("a path").join("site");
    let detector = sample::Detector::named("pilatus-100k").expect("a detector of the sample");
    let options = Options {
        scans: 1,
        frames: tasks,
        frames_per_file: 1 + tasks / 7,
        detector,
        dtype: detector.dtype,
        ..Options::default()
    };
    let data = sample::write(&top, &options).expect("a dataset");
    let mut storm = Storm { top, data, random: Random::new(&[seed]), injected: BTreeMap::new() };
    let raw = storm.data.raw.clone();
    let scans =
        storm.run("scan-find", &[raw.to_str().expect("UTF-8")], "", &InjectedFault::Nothing).stdout;
    let plan = |storm: &Storm, out: &str| {
        let out = storm.top.join(out);
        let (poni, out) = (storm.data.poni.to_str().expect("UTF-8"), out.to_str().expect("UTF-8"));
        let arguments = ["--poni", poni, "--out", out, "--npt", "50", "--by", "frames=1"];
        storm.run("plan-split", &arguments, &scans, &InjectedFault::Nothing).stdout
    };

    let calm = storm.run("ai-integrate", &[], &plan(&storm, "quiet"), &InjectedFault::Nothing);
    let expected = storm.run("gather", &[], &calm.stdout, &InjectedFault::Nothing);
    assert_eq!(expected.status, 0, "{}", expected.stderr);
    let expected_digest = expected.digest();

    let out = storm.top.join("storm");
    let planned = plan(&storm, "storm");
    let lines: Vec<&str> = planned.lines().collect();
    assert_eq!(lines.len(), tasks);
    let mut done: BTreeMap<u64, usize> = BTreeMap::new();
    let mut away: Vec<PathBuf> = Vec::new();
    for round in 0..rounds {
        for path in away.drain(..) {
            fs::rename(path.with_extension("away"), &path).expect("a file comes back");
        }
        if storm.random.index(3) == 0 {
            let files = storm.data.lima[0].clone();
            let path = files[storm.random.index(files.len())].clone();
            fs::rename(&path, path.with_extension("away")).expect("a file goes away");
            storm.count("file of frames away", 1);
            away.push(path);
        }
        let runs = 1 + storm.random.index(3);
        let jobs: Vec<(String, InjectedFault)> = (0..runs)
            .map(|_| {
                let some =
                    (0..tasks).filter(|_| storm.random.index(rounds) < 3).map(|task| lines[task]);
                let some: Vec<&str> = some.collect();
                (some.join("\n") + "\n", InjectedFault::draw(&mut storm.random, some.len().max(1)))
            })
            .collect();
        if runs > 1 {
            storm.count("runs at once", runs);
        }
        let ran: Vec<FaultyRun> = std::thread::scope(|scope| {
            let top = &storm.top;
            let run_one = |(tasks, fault): &(String, InjectedFault)| {
                // PoCL, which stands in for a GPU's driver, ends the process where one of its own
                // calls fails.
                let arguments = ["--engine", "cpu", "--threads", "2", "--progress", "none"];
                run(top, "ai-integrate", &arguments, tasks, fault)
            };
            let runs: Vec<_> = jobs.iter().map(|job| scope.spawn(move || run_one(job))).collect();
            runs.into_iter().map(|run| run.join().expect("no panic")).collect()
        });
        for (ran, (_, fault)) in ran.iter().zip(&jobs) {
            ran.check(fault);
            storm.count(
                fault.name(),
                if let InjectedFault::Calls(..) = fault { ran.faults } else { 1 },
            );
            count_done(ran, &mut done);
        }
        if storm.random.index(3) == 0 {
            storm.flip(&out);
        }
        if storm.random.index(2) == 0 {
            let fault = InjectedFault::draw(&mut storm.random, 1);
            let from = out.to_str().expect("UTF-8");
            let gathered = storm.run("gather", &["--from", from], "", &fault);
            gathered.check(&fault);
            storm.count(
                fault.name(),
                if let InjectedFault::Calls(..) = fault { gathered.faults } else { 1 },
            );
            for summary in gathered.records("summary") {
                let is_success = gathered.status == 0 && summary["complete"] == true;
                assert!(
                    !is_success || Some(&summary["data_digest"]) == expected_digest.as_ref(),
                    "round {round}, {fault:?}: a success with other bytes: {summary}"
                );
            }
        }
    }
    for path in away {
        fs::rename(path.with_extension("away"), &path).expect("a file comes back");
    }

    let (mut last, mut gathered) = finish(&storm, &planned);
    count_done(&last, &mut done);
    // A part with a flipped bit whose frames a final file has is told, and then removed.
    if names_damaged_part(&gathered.stderr) {
        assert_eq!(gathered.status, 1, "{}", gathered.stderr);
        (last, gathered) = finish(&storm, &planned);
        count_done(&last, &mut done);
    }
    assert_eq!(gathered.status, 0, "after the storm: {}", gathered.stderr);
    let summary = &gathered.records("summary")[0];
    let lost = tasks as u64 - summary["integrated"].as_u64().unwrap_or_default();
    let twice: usize = done.values().map(|times| times - 1).sum();
    for (name, number) in &storm.injected {
        say(&format!("{number:6} {name}"));
    }
    say(&format!("{lost:6} frames lost\n{twice:6} frames done twice"));
    assert_eq!((lost, gathered.digest()), (0, expected_digest), "{summary}");
    let names = |out: &str| {
        let tree = Tree::read(&storm.top.join(out));
        tree.files()
            .into_iter()
            .filter(|name| !is_kept(name))
            .map(Path::to_owned)
            .collect::<BTreeSet<_>>()
    };
    let litter: Vec<PathBuf> = names("storm").difference(&names("quiet")).cloned().collect();
    assert!(litter.is_empty(), "after the storm there is {litter:?}");
}

/// Integrates what is left after the storm, and gathers all results.
fn finish(storm: &Storm, planned: &str) -> (FaultyRun, FaultyRun) {
    let last = storm.run("ai-integrate", &[], planned, &InjectedFault::Nothing);
    assert_eq!(last.status, 0, "after the storm: {}", last.stderr);
    let gathered = storm.run("gather", &[], &last.stdout, &InjectedFault::Nothing);
    (last, gathered)
}

/// Returns whether gather said that a part is damaged.
fn names_damaged_part(stderr: &str) -> bool {
    stderr.lines().any(|line| line.contains("/parts/") && line.contains(": damaged: "))
}

/// Files that are no litter though the quiet run has others: recipes and matrices are named by
/// their content, and a final file that is damaged is kept beside the new one.
fn is_kept(name: &Path) -> bool {
    name.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.'))
        && name.extension().is_some_and(|end| end == "toml" || end == "matrix" || end == "damaged")
}

/// Counts how often each frame was told to be done, and not found done.
fn count_done(ran: &FaultyRun, done: &mut BTreeMap<u64, usize>) {
    for result in ran.records("result").iter().filter(|result| result["skipped"] != true) {
        let ranges = result["done"].as_array().cloned().unwrap_or_default();
        for range in ranges {
            let edge = |index: usize| range[index].as_u64().unwrap_or_default();
            (edge(0)..edge(1)).for_each(|frame| *done.entry(frame).or_default() += 1);
        }
    }
}
