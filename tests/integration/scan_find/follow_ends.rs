//! How `scan-find --follow` ends: with nothing lost, whatever happens during its last looks.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sample::Defect;

use super::unfinished_files::{assert_ends_as_a_plain_search, failures, follow_while, last_scans};
use crate::support::{Outcome, RawData, exit_status, find, program};

/// Starts a following search.
fn start(raw: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(program("scan-find"));
    command.arg(raw).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Cuts a file in half, and returns what it held.
fn truncate(file: &Path) -> Vec<u8> {
    let bytes = fs::read(file).unwrap();
    fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
    bytes
}

#[test]
fn what_changes_during_the_last_look_is_found() {
    let directory = RawData::new();
    // So many that their failures don't fit into a small pipe: until the test reads on, the last look
    // waits.
    for number in 0..300 {
        fs::write(directory.path(&format!("raw/a/{number:03}.h5")), b"nothing").unwrap();
    }
    let whole = directory.write_master("there.h5", "1.1", "p3", 5);
    let cut = directory.write_master("raw/z/cut.h5", "1.1", "p3", 4);
    let bytes = truncate(&cut);
    let raw = directory.path("raw");
    let mut child = start(&raw, &["--follow=0.1", "--until-idle=1"]);
    let pipe = child.stdout.take().unwrap();
    fcntl(&pipe, FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
    let mut lines = BufReader::new(pipe);
    let mut stdout = String::new();
    while !stdout.contains("\"fail\"") {
        assert!(lines.read_line(&mut stdout).unwrap() > 0, "it ended: {stdout}");
    }
    fs::write(&cut, bytes).unwrap();
    fs::copy(whole, raw.join("z/new.h5")).unwrap();
    lines.read_to_string(&mut stdout).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let followed = Outcome { status: exit_status(output.status), stdout, stderr };
    let plain = find(&[&raw]);
    assert_eq!((followed.status, last_scans(&followed)), (1, last_scans(&plain)));
    assert_eq!(last_scans(&plain).len(), 2);
    assert!(failures(&plain).is_subset(&failures(&followed)));
}

#[test]
fn sigterm_asks_for_a_last_look_that_reports_the_failures_that_remain() {
    let directory = RawData::new();
    let cut = directory.write_master("raw/cut.h5", "1.1", "p3", 4);
    truncate(&cut);
    directory.write_master("raw/whole.h5", "1.1", "p3", 4);
    let raw = directory.path("raw");
    for seconds in [1, 4] {
        let child = start(&raw, &["--follow=0.1"]);
        std::thread::sleep(Duration::from_secs(seconds));
        kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
        let followed = Outcome::from(child.wait_with_output().unwrap());
        assert_ends_as_a_plain_search(&followed, &raw, "");
        assert_eq!((followed.status, failures(&followed).len()), (1, 1));
    }
}

#[test]
fn a_data_file_whose_copy_stalls_is_no_failure_when_it_is_whole() {
    let directory = RawData::new();
    let data = directory.write_dataset("", &[]);
    let lima = &data.lima[0][1];
    let bytes = truncate(lima);
    let found = follow_while(&data.raw, "9s", || {
        std::thread::sleep(Duration::from_secs(5));
        fs::write(lima, bytes).unwrap();
    });
    assert_ends_as_a_plain_search(&found, &data.raw, "");
    assert_eq!(found.status, 0);
    assert_eq!(found.stderr.matches("will be tried again").count(), 1, "{}", found.stderr);
}

#[test]
fn a_series_whose_first_image_comes_last_is_one_scan() {
    let directory = RawData::new();
    let images = [0, 1, 2].map(|number| directory.write_edf(&format!("raw/fe_{number:04}.edf")));
    let bytes = truncate(&images[0]);
    let raw = directory.path("raw");
    let found = follow_while(&raw, "3s", || {
        std::thread::sleep(Duration::from_secs(2));
        fs::write(&images[0], bytes).unwrap();
    });
    assert_ends_as_a_plain_search(&found, &raw, "");
    assert_eq!((last_scans(&found).len(), found.status), (1, 0));
}

#[test]
fn a_collection_is_read_again_when_what_it_links_to_can_be() {
    let directory = RawData::new();
    let elsewhere = directory.write_master("elsewhere/x.h5", "entry", "p3", 4);
    let bytes = truncate(&elsewhere);
    let raw = directory.path("raw");
    fs::create_dir(&raw).unwrap();
    let collection = crate::support::create_hdf5(raw.join("c.h5"));
    collection.link_external(elsewhere.to_str().unwrap(), "/entry", "sample_1").unwrap();
    drop(collection);
    let old = SystemTime::now() - Duration::from_secs(60);
    for file in [raw.join("c.h5"), elsewhere.clone()] {
        File::options().write(true).open(file).unwrap().set_modified(old).unwrap();
    }
    let found = follow_while(&raw, "6s", || {
        std::thread::sleep(Duration::from_secs(4));
        fs::write(&elsewhere, bytes).unwrap();
    });
    assert_ends_as_a_plain_search(&found, &raw, "");
    assert_eq!((last_scans(&found).len(), found.status), (1, 0), "{}", found.stderr);
}

#[test]
fn a_file_from_the_future_does_not_keep_the_search_from_ending() {
    let directory = RawData::new();
    let file = directory.write_master("raw/a.h5", "1.1", "p3", 4);
    let future = SystemTime::now() + Duration::from_secs(3600);
    File::options().write(true).open(file).unwrap().set_modified(future).unwrap();
    let raw = directory.path("raw");
    let began = Instant::now();
    let child = start(&raw, &["--follow=0.1", "--until-idle=1"]);
    let pid = Pid::from_raw(child.id() as i32);
    let waits = std::thread::spawn(move || Outcome::from(child.wait_with_output().unwrap()));
    while !waits.is_finished() && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(50));
    }
    if !waits.is_finished() {
        kill(pid, Signal::SIGKILL).unwrap();
    }
    let found = waits.join().unwrap();
    assert_ends_as_a_plain_search(&found, &raw, "");
    assert_eq!((last_scans(&found).len(), found.status), (1, 0));
}

#[test]
fn options_that_exclude_all_scans_are_told_of_at_once() {
    let directory = RawData::new();
    directory.write_master("raw/there.h5", "1.1", "p3", 5);
    let began = Instant::now();
    let arguments = ["--follow=0.1", "--until-idle=6", "--detector=p4"];
    let mut child = start(&directory.path("raw"), &arguments);
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut first = String::new();
    lines.read_line(&mut first).unwrap();
    assert!(began.elapsed() < Duration::from_secs(5), "only at the end: {first}");
    let expected = "no scan matches --detector; the detectors are p3 in 1.1";
    assert!(first.contains(expected), "{first}");
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    child.wait().unwrap();
    assert!(!rest.contains("no scan matches"), "{rest}");
}

#[test]
fn a_scan_that_is_left_out_in_each_look_is_one() {
    let directory = RawData::new();
    directory.write_dataset("raw", &[Defect::MissingFile]);
    let arguments = ["--follow=0.1", "--until-idle=1", "--incomplete=skip"];
    let child = start(&directory.path("raw"), &arguments);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("1 incomplete scan left out"), "{stderr}");
}

#[test]
fn a_last_look_waits_for_files_that_had_just_changed() {
    let directory = RawData::new();
    let raw = directory.path("raw");
    fs::create_dir_all(&raw).unwrap();
    directory.write_master("raw/old.h5", "1.1", "p3", 4);
    for (milliseconds, entry) in [(0, "1.1"), (100, "1.1"), (0, "entry"), (100, "entry")] {
        let mut child = start(&raw, &["--follow=5"]);
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut stdout = String::new();
        assert!(lines.read_line(&mut stdout).unwrap() > 0, "the first look finds a scan");
        std::thread::sleep(Duration::from_secs(1));
        directory.write_master(&format!("raw/new{milliseconds}{entry}.h5"), entry, "p3", 4);
        std::thread::sleep(Duration::from_millis(milliseconds));
        kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
        lines.read_to_string(&mut stdout).unwrap();
        let output = child.wait_with_output().unwrap();
        let followed = Outcome::from(Output { stdout: stdout.into_bytes(), ..output });
        assert_ends_as_a_plain_search(&followed, &raw, "");
    }
}

#[test]
fn a_pause_that_is_taken_for_a_path_is_refused() {
    let directory = RawData::new();
    let raw = directory.path("raw");
    let found = find(&["--follow", "1", "--until-idle=1", raw.to_str().unwrap()]);
    assert_eq!(found.status, 2);
    assert!(found.stderr.contains("--follow=1"), "{}", found.stderr);
}

#[test]
fn a_search_that_follows_and_finds_nothing_until_its_end_is_a_failure() {
    let directory = RawData::new();
    let raw = directory.path("raw");
    fs::create_dir_all(&raw).unwrap();
    let notes = directory.path("notes");
    fs::create_dir_all(&notes).unwrap();
    drop(crate::support::create_hdf5(notes.join("notes.h5")));
    for operand in [raw.clone(), raw.join("*.h5"), notes] {
        let found = find(&[operand.to_str().unwrap(), "--follow=0.1", "--until-idle=1"]);
        assert_eq!((found.status, found.records("scan").len()), (1, 0), "{}", found.stderr);
        assert!(found.stderr.contains("no scan until the end"), "{}", found.stderr);
    }
    directory.write_master("raw/there.h5", "1.1", "p3", 5);
    find(&[raw.to_str().unwrap(), "--follow=0.1", "--until-idle=1"]).assert_success();
}
