//! Random sequences of what happens to a scan and its results: raw files are touched, written again, moved
//! to an archive and back, the scan grows, the pipe runs in whole, in part and by old plans. After each
//! step no final has counters of another state than its patterns, and none that was ever shown is lost; a
//! last run of the pipe gives all that is there.
//!
//! `AZPIPE_OPERATIONS="SEED NUMBER"` runs so many sequences from a seed on; a failure prints the one to
//! repeat. Without it, a few run, by the seed of the tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use hdf5::File;
use sample::random::Random;

use super::uniform_frames::{RawDirectory, StorageKind, read_counts};
use crate::support::{NO_ARGUMENTS, Outcome, files_below, run, sequence_seeds};

/// Sequences of a run that asks for no number.
const SEQUENCES: u64 = 6;
const MOST_FILES: usize = 6;

#[derive(Clone, Copy, Debug)]
enum Operation {
    Pipe,
    VirtualPipe,
    OtherName,
    Part,
    IntegrateOnly,
    From,
    Average,
    OldPlan,
    Touch,
    Rewrite,
    Archive,
    Restore,
    Extend,
    OtherSettings,
}

use Operation::*;

const OPERATIONS: [Operation; 20] = [
    Pipe,
    Pipe,
    VirtualPipe,
    OtherName,
    Part,
    Part,
    IntegrateOnly,
    From,
    From,
    Average,
    OldPlan,
    Touch,
    Touch,
    Rewrite,
    Rewrite,
    Archive,
    Archive,
    Restore,
    Extend,
    OtherSettings,
];

/// A raw file of one frame.
struct RawFile {
    count: u16,
    is_archived: bool,
    /// True if the pipe ran to its end since the file was written.
    is_integrated: bool,
}

/// A scan, and what has been shown of it.
struct Model {
    place: RawDirectory,
    files: Vec<RawFile>,
    bins: u32,
    /// The counts that finals have shown, by frame.
    shown: Vec<BTreeSet<u16>>,
    old_plan: Option<String>,
    random: Random,
    done: Vec<(Operation, usize)>,
    last: String,
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut new = Self {
            place: RawDirectory::new(),
            files: Vec::new(),
            bins: 10,
            shown: vec![BTreeSet::new(); MOST_FILES],
            old_plan: None,
            random: Random::new(&[seed]),
            done: Vec::new(),
            last: String::new(),
        };
        (0..3).for_each(|_| new.extend());
        new
    }

    fn raw(&self, file: usize) -> PathBuf {
        self.place.lima_file("raw", file)
    }

    fn archived(&self, file: usize) -> PathBuf {
        self.place.path(&format!("archive{file}"))
    }

    fn write_master(&self) {
        let counts: Vec<u16> = self.files.iter().map(|file| file.count).collect();
        self.place.write_master_of_files("raw", &counts);
    }

    fn next_count(&self) -> u16 {
        100 + self.done.len() as u16 * 7 + self.files.len() as u16
    }

    fn write(&mut self, file: usize) {
        self.place.write_lima_file("raw", file, self.files[file].count);
        self.write_master();
    }

    fn extend(&mut self) {
        let count = self.next_count();
        self.files.push(RawFile { count, is_archived: false, is_integrated: false });
        self.write(self.files.len() - 1);
    }

    fn plan(&self, flags: &[&str]) -> String {
        let bins = self.bins.to_string();
        let all = [&["--npt", &bins, "--split", "no"], flags].concat();
        self.place.plan(&[&self.place.operand(StorageKind::Master, "raw")], "out", &all).stdout
    }

    fn integrate(tasks: &str) -> Outcome {
        run("ai-integrate", &["--threads", "1"], tasks)
    }

    fn pipe(&mut self, plan: &[&str], gather: &[&str]) -> Outcome {
        let tasks = self.plan(plan);
        let results = Self::integrate(&tasks);
        let gathered = run("gather", gather, &results.stdout);
        self.last = format!("{}{}", results.stderr, gathered.stderr);
        self.old_plan.get_or_insert(tasks);
        if gathered.records("summary").iter().any(|summary| summary["up_to_date"] == true) {
            self.files
                .iter_mut()
                .filter(|file| !file.is_archived)
                .for_each(|file| file.is_integrated = true);
        }
        gathered
    }

    fn from(&mut self, flags: &[&str]) {
        let out = self.place.path("out");
        let gathered = run("gather", &[&["--from", out.to_str().unwrap()], flags].concat(), "");
        self.last = gathered.stderr;
    }

    /// Does the operation on a file, if it is possible.
    fn apply(&mut self, operation: Operation, file: usize) {
        let is_archived = self.files[file].is_archived;
        match operation {
            Pipe => drop(self.pipe(&["--by", "frames=2"], NO_ARGUMENTS)),
            VirtualPipe => drop(self.pipe(&[], &["--layout", "virtual"])),
            OtherName => drop(self.pipe(&["--recipe-name", "b"], NO_ARGUMENTS)),
            OtherSettings => {
                self.bins += 1;
                drop(self.pipe(&["--replace"], NO_ARGUMENTS));
            }
            Part | IntegrateOnly => {
                let tasks = self.plan(&["--by", "frames=1"]);
                let some: Vec<&str> = tasks.lines().take(1 + file).collect();
                let results = Self::integrate(&(some.join("\n") + "\n"));
                self.last = results.stderr;
                if matches!(operation, Part) {
                    self.last += &run("gather", NO_ARGUMENTS, &results.stdout).stderr;
                }
            }
            From => self.from(NO_ARGUMENTS),
            Average => self.from(&["--average", "mean"]),
            OldPlan => {
                let Some(tasks) = &self.old_plan else { return };
                let results = Self::integrate(tasks);
                self.last = run("gather", NO_ARGUMENTS, &results.stdout).stderr;
            }
            Touch if !is_archived => {
                let touched = fs::File::options().write(true).open(self.raw(file)).unwrap();
                touched.set_modified(SystemTime::now()).unwrap();
            }
            Rewrite if !is_archived => {
                self.files[file].count = self.next_count();
                self.files[file].is_integrated = false;
                self.write(file);
            }
            // Nobody can tell that a file which is away was written again before.
            Archive if !is_archived && self.files[file].is_integrated => {
                fs::rename(self.raw(file), self.archived(file)).unwrap();
                self.files[file].is_archived = true;
            }
            Restore if is_archived => {
                fs::rename(self.archived(file), self.raw(file)).unwrap();
                self.files[file].is_archived = false;
            }
            Extend if self.files.len() < MOST_FILES => self.extend(),
            Touch | Rewrite | Archive | Restore | Extend => (),
        }
    }

    /// Checks what must be true at any time.
    fn check(&mut self) -> Result<(), String> {
        let mut now = vec![BTreeSet::new(); MOST_FILES];
        let is_shown = |path: &PathBuf| !path.iter().any(|name| name == ".azpipe");
        for path in files_below(&self.place.path("out")).into_iter().filter(is_shown) {
            let counts = read_counts(path.to_str().unwrap());
            let counters = read_counters(&path);
            for (frame, count) in counts.iter().enumerate() {
                let Some(count) = count else { continue };
                now[frame].insert(*count);
                // NaN where it is not known any more.
                let is_other = |counter: &f64| !counter.is_nan() && *counter != f64::from(*count);
                if counters.get(frame).is_some_and(is_other) {
                    let path = path.display();
                    return Err(format!("{path}: {counts:?} beside the counter {counters:?}"));
                }
            }
        }
        for (frame, file) in self.files.iter().enumerate() {
            if self.shown[frame].contains(&file.count) && !now[frame].contains(&file.count) {
                return Err(format!("the pattern of frame {frame}, {}, is in no file", file.count));
            }
            self.shown[frame].extend(&now[frame]);
        }
        Ok(())
    }

    /// Runs the whole pipe, and checks its final.
    fn check_last_run(&mut self) -> Result<(), String> {
        let gathered = self.pipe(&[], NO_ARGUMENTS);
        let summaries = gathered.records("summary");
        let [summary] = &summaries[..] else { return Err(format!("{summaries:?}")) };
        // A final of other settings is kept for what only it has.
        if summary["data_digest"] == "" && gathered.status == 1 {
            return Ok(());
        }
        let path = summary["final"].as_str().unwrap();
        let counts = read_counts(path);
        // Those of archived files may be in a final of another name or other settings alone.
        let is_right = |(file, count): (&RawFile, &Option<u16>)| {
            *count == Some(file.count) || (file.is_archived && count.is_none())
        };
        let are_right =
            counts.len() == self.files.len() && self.files.iter().zip(&counts).all(is_right);
        let is_whole = summary["integrated"] == self.files.len();
        let is_told = summary["complete"] == is_whole && (gathered.status == 0) == is_whole;
        let has_all = self.files.iter().all(|file| !file.is_archived);
        if !are_right || !is_told || (has_all && !is_whole) {
            let expected: Vec<u16> = self.files.iter().map(|file| file.count).collect();
            return Err(format!(
                "{counts:?} of {expected:?}, status {}: {summary}",
                gathered.status
            ));
        }
        let counters = read_counters(Path::new(path));
        if has_all && counters.iter().any(|counter| counter.is_nan()) {
            return Err(format!("counters {counters:?} of a scan that is there"));
        }
        Ok(())
    }

    fn run(&mut self) -> Result<(), String> {
        for _ in 0..5 + self.random.index(6) {
            let (operation, file) = (
                OPERATIONS[self.random.index(OPERATIONS.len())],
                self.random.index(self.files.len()),
            );
            self.apply(operation, file);
            self.done.push((operation, file));
            self.check()?;
        }
        self.check_last_run()?;
        self.check()
    }
}

/// The counter of each frame in a final.
pub fn read_counters(path: &Path) -> Vec<f64> {
    let file = File::open(path).unwrap();
    let entry = file.group("1.1").unwrap();
    let groups = entry.groups().unwrap().into_iter();
    let counters = groups.filter_map(|group| group.dataset("counters/value").ok()).next();
    counters.map_or_else(Vec::new, |counter| counter.read_raw().unwrap())
}

#[test]
fn no_sequence_of_operations_loses_or_mixes_patterns() {
    let seeds = sequence_seeds("AZPIPE_OPERATIONS", SEQUENCES);
    let count = seeds.end - seeds.start;
    let mut failures = Vec::new();
    for seed in seeds {
        let mut model = Model::new(seed);
        if let Err(why) = model.run() {
            let (done, last) = (&model.done, &model.last);
            failures.push(format!("AZPIPE_OPERATIONS={seed}: {why}\n  after {done:?}\n  {last}"));
        }
    }
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n"));
}
