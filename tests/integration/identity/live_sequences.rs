//! Random sequences of what happens while scans are followed: files come whole or in pieces, out of order,
//! masters are written again as scans end, further scans begin, filters are killed and started again, and
//! somebody runs the plain pipe meanwhile. At no time does a final show a pattern of another frame. The
//! pipe that ends by itself has told of the finals that a plain pipe makes into an empty directory, with
//! the same statuses and exports, has counted each frame once, and leaves nothing to do.
//!
//! `AZPIPE_LIVE="SEED NUMBER"` runs so many sequences from a seed on; a failure prints the one to repeat.
//! Without it, a few run, by the seed of the tests.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sample::random::Random;
use serde_json::Value;

use super::live_raw_data::{Format, How, LiveRawData, Scan};
use super::operations::read_counters;
use super::uniform_frames::{RawDirectory, read_counts};
use crate::support::{
    Outcome, exit_status, files_below, program, run, sequence_seeds, wait_for_exit,
};

/// Sequences of a run that asks for no number.
const SEQUENCES: u64 = 3;
/// The longest time without a change before a wait: a pipe ends after three seconds.
const MOST_IDLE: Duration = Duration::from_secs(1);
const MOST_SCANS: usize = 3;
const FILTERS: [&str; 4] = ["scan-find", "plan-split", "ai-integrate", "gather"];

#[derive(Clone, Copy, Debug)]
enum Event {
    NewScan,
    /// The next file of a scan, all at once.
    WholeFile,
    /// The next file of a scan, in two pieces.
    Pieces,
    /// The file after the next one; the next one comes later.
    OutOfOrder,
    /// The next file of a scan, cut short; the whole one comes later.
    CutShort,
    /// The master of a scan that goes on has the points of the frames that are there.
    Points,
    End,
    /// The scan ends with what is there.
    Abort,
    Wait,
    Stop,
    Kill,
    PlainPipe,
}

use Event::*;

const EVENTS: [Event; 21] = [
    NewScan, WholeFile, WholeFile, WholeFile, WholeFile, Pieces, Pieces, Pieces, OutOfOrder,
    OutOfOrder, CutShort, CutShort, End, Abort, Wait, Wait, Stop, Kill, PlainPipe, Points, Points,
];

/// A pipe that follows, and the files that it writes its streams to.
struct LivePipe {
    filters: Vec<Child>,
    logs: PathBuf,
}

impl LivePipe {
    /// Waits until it has ended, and returns its statuses.
    fn wait(&mut self) -> Vec<i32> {
        self.filters.iter_mut().map(|filter| exit_status(wait_for_exit(filter))).collect()
    }

    fn signal(&self, filter: usize, signal: Signal) {
        // It may have ended.
        let _ = kill(Pid::from_raw(self.filters[filter].id() as i32), signal);
    }

    fn summaries(&self) -> String {
        fs::read_to_string(self.logs.join("summaries")).unwrap()
    }

    fn messages(&self) -> String {
        FILTERS.map(|name| fs::read_to_string(self.logs.join(name)).unwrap()).concat()
    }

    /// The progress that a filter told of last.
    fn last_progress(&self, filter: &str) -> Option<Value> {
        let told = fs::read_to_string(self.logs.join(filter)).unwrap();
        told.lines().rev().find_map(|line| serde_json::from_str(line).ok())
    }
}

impl Drop for LivePipe {
    fn drop(&mut self) {
        for filter in &mut self.filters {
            let _ = filter.kill();
            let _ = filter.wait();
        }
    }
}

/// The flags of a sequence.
#[derive(Clone, Copy, Debug)]
struct Flags {
    by: &'static str,
    engines: &'static str,
    layout: &'static str,
    /// The averages and exports of gather.
    products: &'static [&'static str],
}

impl Flags {
    fn draw(random: &mut Random) -> Self {
        let products: [&[&str]; 4] = [
            &[],
            &["--average", "mean"],
            &["--export", "xye"],
            &["--average", "mean,2", "--export", "csv"],
        ];
        let mut one_of = |choices: &[&'static str]| choices[random.index(choices.len())];
        Self {
            by: one_of(&["file", "frames=2", "scan"]),
            engines: one_of(&["1", "1", "2"]),
            layout: one_of(&["copy", "copy", "virtual"]),
            products: products[random.index(products.len())],
        }
    }

    fn of_gather(&self) -> Vec<&'static str> {
        [&["--layout", self.layout], self.products].concat()
    }
}

struct Model {
    raw: LiveRawData,
    pipe: LivePipe,
    pipes: usize,
    flags: Flags,
    done: Vec<(Event, usize)>,
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(&[seed]);
        let flags = Flags::draw(&mut random);
        let mut raw = LiveRawData::new(random);
        let pipe = start_pipe(&raw.place, 0, flags);
        raw.begin();
        Self { raw, pipe, pipes: 1, flags, done: Vec::new() }
    }

    fn apply(&mut self, event: Event, scan: usize) {
        match event {
            NewScan if self.raw.scans.len() < MOST_SCANS => self.raw.begin(),
            WholeFile | Pieces => {
                if let Some(file) = self.raw.scans[scan].next() {
                    let how = if matches!(event, Pieces) { How::InPieces } else { How::Whole };
                    self.raw.write(scan, file, how);
                }
            }
            OutOfOrder => {
                let all = &self.raw.scans[scan].written;
                let later = self.raw.scans[scan].next().map(|next| next + 1);
                if let Some(file) = later.filter(|later| all.get(*later) == Some(&false)) {
                    self.raw.write(scan, file, How::Whole);
                }
            }
            End if self.raw.scans[scan].next().is_none() => self.raw.end(scan),
            CutShort => {
                if let Some(file) = self.raw.scans[scan].next() {
                    self.raw.write(scan, file, How::CutShort);
                }
            }
            Abort => self.raw.abort(scan),
            Points if !self.raw.scans[scan].has_ended => self.raw.write_master(scan),
            Wait if self.raw.changed.elapsed() < MOST_IDLE => self.raw.pause(1500),
            Stop | Kill => {
                let filter = self.raw.random.index(FILTERS.len());
                let signal = if matches!(event, Stop) { Signal::SIGTERM } else { Signal::SIGKILL };
                self.pipe.signal(filter, signal);
                // One that waits for its input learns of it as something comes.
                self.pipe.signal(0, Signal::SIGTERM);
                self.restart();
            }
            PlainPipe => drop(self.run_plain_pipe("out")),
            NewScan | Points | End | Wait => (),
        }
    }

    fn restart(&mut self) {
        self.pipe.wait();
        self.pipe = start_pipe(&self.raw.place, self.pipes, self.flags);
        self.pipes += 1;
    }

    fn run_plain_pipe(&self, out: &str) -> [Outcome; 4] {
        let scans = run("scan-find", &[self.raw.place.path("raw")], "");
        let plan = self.raw.place.plan_scans(&scans.stdout, out, &["--by", self.flags.by]);
        let threads = ["--threads", "1", "--engines", self.flags.engines];
        let results = run("ai-integrate", &threads, &plan.stdout);
        let summaries = run("gather", &self.flags.of_gather(), &results.stdout);
        [scans, plan, results, summaries]
    }

    /// Checks what must be true at any time.
    fn check(&self) -> Result<(), String> {
        // Not what a filter that was killed has left, and no exports.
        let is_hidden = |path: &PathBuf| {
            path.iter().any(|name| name == ".azpipe")
                || path.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'.')
                || path.extension().is_none_or(|extension| extension != "h5")
        };
        for path in
            files_below(&self.raw.place.path("out")).into_iter().filter(|path| !is_hidden(path))
        {
            let shown = read_counts(path.to_str().unwrap());
            let is_right = |scan: &Scan| {
                let is = |(frame, count): (usize, &Option<u16>)| {
                    count.is_none_or(|count| count == scan.first_count + frame as u16)
                };
                shown.iter().enumerate().all(is)
            };
            // A series is a scan of its own while earlier images of it are still to come.
            let is_part = |scan: &Scan| {
                let of_scan = scan.first_count..scan.first_count + 20;
                let counts: Vec<u16> = shown.iter().flatten().copied().collect();
                scan.format == Format::Series
                    && counts.iter().all(|count| of_scan.contains(count))
                    && counts.is_sorted_by(|one, next| one < next)
            };
            // The directory is that of the scan.
            let directory = path.parent().unwrap().file_name().unwrap().to_str().unwrap();
            let scan = &self.raw.scans[directory[1..].parse::<usize>().unwrap()];
            if !is_right(scan) && !is_part(scan) {
                return Err(format!("{}: {shown:?}", path.display()));
            }
        }
        Ok(())
    }

    /// Lets the scans end, and compares what the pipe has told with what a plain one makes.
    fn check_end(&mut self) -> Result<(), String> {
        // It may have ended by itself before all was there.
        if self.pipe.filters[0].try_wait().unwrap().is_some() {
            self.restart();
        }
        for scan in 0..self.raw.scans.len() {
            while let Some(file) = self.raw.scans[scan].next() {
                self.raw.write(scan, file, How::Whole);
            }
            self.raw.end(scan);
        }
        let statuses = self.pipe.wait();
        self.check()?;
        let live = last_summaries(&self.pipe.summaries());
        let plain = self.run_plain_pipe("other");
        let expected = last_summaries(&plain[3].stdout);
        let plain_statuses = plain.each_ref().map(|ran| ran.status);
        if statuses != plain_statuses || plain_statuses != [0; 4] {
            return Err(format!("statuses {statuses:?}, of a plain pipe {plain_statuses:?}"));
        }
        self.check_exports()?;
        for name in expected.keys() {
            let [found, expected] =
                ["out", "other"].map(|out| read_counters(&self.raw.place.path(out).join(name)));
            // A series has none.
            let has_any = !name.file_name().unwrap().as_encoded_bytes().starts_with(b"a_");
            if found != expected || found.is_empty() == has_any {
                return Err(format!("{name:?}: counters {found:?}, of a plain pipe {expected:?}"));
            }
        }
        // Those that an earlier pipe had made are told of by none since if nothing has changed.
        let again = self.run_plain_pipe("out");
        let found = last_summaries(&again[3].stdout);
        if found != expected {
            return Err(format!("{found:?}, of a plain pipe {expected:?}"));
        }
        let is_untold = |name: &PathBuf| !live.contains_key(name);
        if self.pipes == 1 && expected.keys().any(is_untold) {
            return Err(format!("{live:?} was told, of a plain pipe {expected:?}"));
        }
        for (name, told) in &live {
            // A series was one of its own until its first images came: scan-find has told so.
            let is_end_of_series = |name: &Path| {
                let name = name.file_name().unwrap().as_encoded_bytes();
                name.starts_with(b"a_") && !name.starts_with(b"a_0000_")
            };
            if expected.get(name) != Some(told) && !is_end_of_series(name) {
                return Err(format!("{name:?}: {told:?} was told, of a plain pipe {expected:?}"));
            }
        }
        self.check_progress(&expected)?;
        let up_to_date = |summary: &Value| summary["up_to_date"] == true;
        let is_done = |result: &Value| result["read_bytes"] == 0;
        let [results, summaries] = [again[2].records("result"), again[3].records("summary")];
        if !summaries.iter().all(up_to_date) || !results.iter().all(is_done) {
            return Err(format!("there was something left to do: {results:?} {summaries:?}"));
        }
        Ok(())
    }

    /// The exported files in an output root, but for those of the end of a series that was one of its own.
    fn read_exports(&self, out: &str) -> BTreeMap<PathBuf, String> {
        let root = self.raw.place.path(out);
        let is_export = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_hidden = name.starts_with('.') || path.iter().any(|part| part == ".azpipe");
            let is_of_end = name.starts_with("a_") && !name.starts_with("a_0000_");
            !is_hidden && !is_of_end && !name.ends_with(".h5")
        };
        let files = files_below(&root).into_iter().filter(is_export);
        let read = |path: PathBuf| {
            (path.strip_prefix(&root).unwrap().to_owned(), fs::read_to_string(&path).unwrap())
        };
        files.map(read).collect()
    }

    /// Checks that the exports are those of the plain pipe, but for rounding where the sums of earlier
    /// frames had been removed, and that any other is told of.
    fn check_exports(&self) -> Result<(), String> {
        let [found, expected] = ["out", "other"].map(|out| self.read_exports(out));
        for (name, text) in &expected {
            let Some(other) = found.get(name) else { return Err(format!("no export {name:?}")) };
            if !is_close(text, other) {
                return Err(format!("{name:?}: {other}\nof a plain pipe {text}"));
            }
        }
        let told = self.pipe.messages();
        let is_untold = |name: &&PathBuf| {
            !expected.contains_key(*name)
                && !told.contains(name.file_name().unwrap().to_str().unwrap())
        };
        match found.keys().find(is_untold) {
            // An earlier pipe may have told of it.
            Some(name)
                if self.pipes == 1
                    && !self.done.iter().any(|(event, _)| matches!(event, PlainPipe)) =>
            {
                Err(format!("{name:?} is not of the final, and not told of"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the pipe has counted each frame once.
    fn check_progress(&self, expected: &BTreeMap<PathBuf, [Value; 4]>) -> Result<(), String> {
        let frames: u64 = expected.values().map(|told| told[0].as_u64().unwrap()).sum();
        // The end of a series has counted as another one; a later pipe need not look.
        let is_all =
            self.pipes == 1 && self.raw.scans.iter().all(|scan| scan.format == Format::Bliss);
        for filter in ["ai-integrate", "gather"] {
            let told = self.pipe.last_progress(filter).ok_or("no progress was told")?;
            let of = |name: &str| told[name].as_u64().unwrap();
            let is_consistent = of("done") + of("never_taken") == of("total")
                && of("failed") == 0
                && of("kept") == of("done");
            if !is_consistent || (is_all && of("done") != frames) {
                return Err(format!("{filter} counted {told}, of {frames} frames"));
            }
        }
        Ok(())
    }

    fn run(&mut self) -> Result<(), String> {
        for _ in 0..6 + self.raw.random.index(14) {
            let (event, scan) = (
                EVENTS[self.raw.random.index(EVENTS.len())],
                self.raw.random.index(self.raw.scans.len()),
            );
            self.done.push((event, scan));
            self.apply(event, scan);
            self.check()?;
            self.raw.pause(300);
        }
        self.check_end()
    }
}

/// Starts a pipe that follows the raw data, and ends when nothing has changed for three seconds.
fn start_pipe(place: &RawDirectory, number: usize, flags: Flags) -> LivePipe {
    let logs = place.path(&format!("pipe{number}"));
    fs::create_dir(&logs).unwrap();
    let text = |name: &str| place.path(name).to_str().unwrap().to_owned();
    let (raw, poni, out) = (text("raw"), text("x.poni"), text("out"));
    let arguments: [&[&str]; 4] = [
        &["--follow=0.2", "--until-idle", "3s", &raw],
        &[
            "--poni",
            &poni,
            "--out",
            &out,
            "--solid-angle",
            "off",
            "--npt",
            "10",
            "--split",
            "no",
            "--by",
            flags.by,
        ],
        &["--threads", "1", "--engines", flags.engines, "--progress", "json"],
        &[&flags.of_gather()[..], &["--progress", "json"]].concat(),
    ];
    let mut filters: Vec<Child> = Vec::new();
    for (name, arguments) in FILTERS.into_iter().zip(arguments) {
        let mut command = Command::new(program(name));
        let input = filters.last_mut().and_then(|before| before.stdout.take());
        let output = if name == "gather" {
            File::create(logs.join("summaries")).unwrap().into()
        } else {
            Stdio::piped()
        };
        command
            .args(arguments)
            .stdin(input.map_or_else(Stdio::null, Stdio::from))
            .stdout(output)
            .stderr(File::create(logs.join(name)).unwrap());
        filters.push(command.spawn().unwrap());
    }
    LivePipe { filters, logs }
}

/// Of the last summary of each final: how many frames have a pattern, the digest of its data, and what
/// it lacks.
fn last_summaries(text: &str) -> BTreeMap<PathBuf, [Value; 4]> {
    let mut last = BTreeMap::new();
    for line in text.lines() {
        // A filter that was killed may have cut its last line short.
        let Ok(record) = serde_json::from_str::<Value>(line) else { continue };
        if record["type"] == "summary" {
            // With its directory: scans of several directories have files of one name.
            let path = Path::new(record["final"].as_str().unwrap());
            let name = path.strip_prefix(path.ancestors().nth(2).unwrap()).unwrap();
            let told = ["integrated", "data_digest", "complete", "missing"]
                .map(|field| record[field].clone());
            last.insert(name.to_owned(), told);
        }
    }
    last
}

/// Returns whether all numbers of two texts are equal to six digits.
fn is_close(one: &str, other: &str) -> bool {
    let numbers = |text: &str| -> Vec<f64> {
        text.split(|end: char| end.is_whitespace() || end == ',')
            .filter_map(|word| word.parse().ok())
            .collect()
    };
    let [one, other] = [one, other].map(numbers);
    let is_near = |(one, other): (&f64, &f64)| {
        (one.is_nan() && other.is_nan()) || (one - other).abs() <= 1e-6 * one.abs()
    };
    one.len() == other.len() && !one.is_empty() && one.iter().zip(&other).all(is_near)
}

#[test]
fn no_sequence_of_events_of_scans_that_are_followed_loses_or_mixes_patterns() {
    let seeds = sequence_seeds("AZPIPE_LIVE", SEQUENCES);
    let count = seeds.end - seeds.start;
    let mut failures = Vec::new();
    for seed in seeds {
        eprintln!("AZPIPE_LIVE={seed}"); // for a panic
        let mut model = Model::new(seed);
        if let Err(why) = model.run() {
            let (flags, done, said) = (model.flags, &model.done, model.pipe.messages());
            failures
                .push(format!("AZPIPE_LIVE={seed}: {why}\n  {flags:?} after {done:?}\n  {said}"));
        }
    }
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n"));
}
