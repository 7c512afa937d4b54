//! The shared behavior that only shows where there is work: scans from raw data to output files.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use records::Record;
use sample::{Detector, Options};
use serde_json::Value;
use tempfile::TempDir;

use super::signals::send;
use crate::support::filters::{AI_INTEGRATE, GATHER, PLAN_SPLIT, SCAN_FIND};
use crate::support::{feed, json, lines, wait_for_exit};

/// Makes a temporary directory with a scan of twelve frames, its geometry and its mask.
pub fn directory_with_scan() -> TempDir {
    let place = tempfile::tempdir().expect("a directory");
    write(place.path());
    place
}

fn write(root: &Path) {
    let detector = Detector::named("pilatus-100k").expect("the sample knows it");
    let options =
        Options { scans: 1, frames: 12, frames_per_file: 5, detector, ..Options::default() };
    sample::write(root, &options).expect("a dataset");
}

/// Returns the scan records of the directory.
fn scans(place: &Path) -> Vec<u8> {
    let mut command = SCAN_FIND.command_without_arguments(place);
    command.arg("RAW_DATA");
    feed(command, b"").stdout
}

/// Tasks of four frames each.
pub fn tasks(place: &Path) -> Vec<u8> {
    PLAN_SPLIT.run(place, &["--by", "frames=4", "--npt", "100"], scans(place)).stdout
}

#[test]
fn fields_of_others_survive_every_step_that_makes_one_record_of_one() {
    let place = directory_with_scan();
    let mut scan = json(lines(&scans(place.path()))[0]);
    scan["beamline"] = "id31".into();
    scan["proposal"] = serde_json::json!({"number": 1234, "session": ["a", 2.5, null]});
    let by_scan = PLAN_SPLIT.run(place.path(), &["--by", "scan"], scan.to_string());
    let results = AI_INTEGRATE.run(place.path(), &[], &by_scan.stdout);
    for step in [&by_scan.stdout, &results.stdout] {
        let [record] = lines(step)[..] else { panic!("one record of one: {step:?}") };
        let record = json(record);
        assert_eq!(
            [&record["beamline"], &record["proposal"]],
            [&scan["beamline"], &scan["proposal"]]
        );
    }
}

#[test]
fn names_of_any_bytes_go_all_the_way() {
    let home = tempfile::tempdir().expect("a directory");
    let odd = OsStr::from_bytes(b"it's \"$HOME\"; 50%:\n \xff");
    let place = home.path().join("place");
    write(&place);
    // The library that writes the sample takes no such names; the filters do.
    let raw = place.join("raw").join(odd);
    std::fs::create_dir_all(raw.parent().expect("a parent")).expect("a directory");
    std::fs::rename(place.join("RAW_DATA"), &raw).expect("a new name");
    for name in ["lab6.poni", "mask.edf"] {
        let mut other = odd.to_owned();
        other.push(name);
        std::fs::rename(place.join(name), place.join(other)).expect("a new name");
    }
    let with_suffix = |suffix: &str| {
        let mut name = odd.to_owned();
        name.push(suffix);
        name
    };
    let mut find = SCAN_FIND.command_without_arguments(&place);
    find.arg("raw");
    let mut plan = PLAN_SPLIT.command_without_arguments(&place);
    plan.arg("--poni").arg(with_suffix("lab6.poni")).arg("--mask").arg(with_suffix("mask.edf"));
    plan.arg("--out").arg(with_suffix("out"));
    let mut stream = Vec::new();
    for command in [
        find,
        plan,
        AI_INTEGRATE.command_without_arguments(&place),
        GATHER.command_without_arguments(&place),
    ] {
        let done = feed(command, &stream);
        assert_eq!(done.status.code(), Some(0), "{done:?}");
        stream = done.stdout;
    }
    let [line] = lines(&stream)[..] else { panic!("one scan") };
    let Ok(Record::Summary(summary)) = Record::parse(line) else { panic!("{line}") };
    assert!(summary.complete && line.contains("\"final_b64\":"), "{line}");
    let path = summary.final_file;
    assert!(path.is_file());
    assert!(
        path.starts_with(place.join(with_suffix("out")).join(odd)),
        "it lies as its master lay: {path:?}"
    );
}

#[test]
fn a_drained_run_says_that_there_is_more_and_the_next_goes_on() {
    let place = directory_with_scan();
    let tasks = tasks(place.path());
    let mut child =
        AI_INTEGRATE.command(place.path()).stdin(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    // One of the three tasks, and nobody knows whether there are more.
    writeln!(stdin, "{}", lines(&tasks)[0]).expect("it reads");
    let mut result = String::new();
    stdout.read_line(&mut result).expect("a result, though the input is still open");
    assert_eq!(json(&result)["type"], "result");
    send(&child, Signal::SIGTERM);
    assert_eq!(wait_for_exit(&mut child).code(), Some(75));

    let again = AI_INTEGRATE.run(place.path(), &[], &tasks);
    assert_eq!(again.status.code(), Some(0), "{again:?}");
    let skipped: Vec<Value> =
        lines(&again.stdout).into_iter().map(|line| json(line)["skipped"].clone()).collect();
    assert_eq!(skipped, [true, false, false]);
}

#[test]
fn a_deadline_drains_what_waits_for_input() {
    let place = directory_with_scan();
    let mut command = AI_INTEGRATE.command(place.path());
    let begin = Instant::now();
    let mut child =
        command.args(["--deadline", "1s"]).stdin(Stdio::piped()).spawn().expect("it starts");
    let _open = child.stdin.take();
    assert_eq!(wait_for_exit(&mut child).code(), Some(76));
    assert!(begin.elapsed() >= Duration::from_secs(1));
}

#[test]
fn a_failure_of_one_engine_ends_those_that_wait() {
    let place = directory_with_scan();
    let mut command = AI_INTEGRATE.command(place.path());
    command.args(["--fail-fast", "--engines", "3", "--threads", "1"]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    writeln!(stdin, "bad").expect("it reads");
    assert_eq!(wait_for_exit(&mut child).code(), Some(1), "it ends though its input is open");
}

#[test]
fn files_that_a_writer_has_locked_are_read_whatever_the_environment_says() {
    let place = directory_with_scan();
    let raw: Vec<_> = walk(&place.path().join("RAW_DATA"));
    let locks: Vec<_> = raw
        .iter()
        .map(|path| std::fs::File::options().append(true).open(path).expect("it opens"))
        .collect();
    locks.iter().for_each(|file| file.lock().expect("nobody else has it"));
    let run = |mut command: std::process::Command, input: &[u8]| {
        command.env("HDF5_USE_FILE_LOCKING", "TRUE");
        let done = feed(command, input);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        done.stdout
    };
    let mut find = SCAN_FIND.command_without_arguments(place.path());
    find.arg("RAW_DATA");
    let found = run(find, b"");
    let planned = run(PLAN_SPLIT.command(place.path()), &found);
    let results = run(AI_INTEGRATE.command(place.path()), &planned);
    let summary = run(GATHER.command(place.path()), &results);
    assert_eq!(json(lines(&summary)[0])["complete"], true);
}

fn walk(directory: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}
