//! Records as soon as there is something to say.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::support::{RawData, program};
use sample::Defect;
use serde_json::Value;

/// Long enough for a slow machine; reached where a test fails alone.
const PATIENCE: Duration = Duration::from_secs(60);

/// scan-find at work, ended when dropped.
struct Live {
    child: Child,
    lines: Receiver<Value>,
}

impl Live {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(program("scan-find"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout: ChildStdout = child.stdout.take().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(serde_json::from_str(&line).unwrap()).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    fn next(&self) -> Value {
        self.lines.recv_timeout(PATIENCE).expect("a record, soon")
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_path_on_stdin_is_answered_before_the_next_one_comes() {
    let directory = RawData::new();
    let mut live = Live::start(&["-"]);
    let mut stdin = live.child.stdin.take().unwrap();
    for name in ["a.h5", "b.h5"] {
        writeln!(stdin, "{}", directory.write_master(name, "1.1", "p3", 1).display()).unwrap();
        assert_eq!(live.next()["below"], name);
    }
    drop(stdin);
    assert!(live.child.wait().unwrap().success());
}

/// How often a process has called read(2) and its like.
fn count_reads(child: &Child) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap();
    text.lines().find_map(|line| line.strip_prefix("syscr: ")).unwrap().parse().unwrap()
}

#[test]
fn what_has_not_changed_is_not_opened_again() {
    let directory = RawData::new();
    directory.write_dataset("", &[]);
    let raw = directory.path("RAW_DATA").display().to_string();
    let live = Live::start(&[&raw, "--follow=0.05"]);
    live.next();
    let begun = std::time::Instant::now();
    let mut before = count_reads(&live.child);
    loop {
        // Many looks at the directory.
        std::thread::sleep(Duration::from_secs(1));
        let now = count_reads(&live.child);
        // The one read is of the pipe that tells of changes.
        if now <= before + 1 {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "it reads again and again");
        before = now;
    }
    // A change is seen all the same.
    directory.write_master("RAW_DATA/other.h5", "1.1", "p3", 1);
    let mut next = live.next();
    while next["below"] != "other.h5" {
        next = live.next();
    }
}

#[test]
fn following_ends_when_nothing_has_changed_for_so_long() {
    let directory = RawData::new();
    directory.write_dataset("", &[Defect::Running]);
    let raw = directory.path("RAW_DATA").display().to_string();
    let mut live = Live::start(&[&raw, "--follow=0.1", "--until-idle", "1s"]);
    // While something changes now and then, it goes on.
    for number in 0..4 {
        directory.write_master(&format!("RAW_DATA/other{number}.h5"), "1.1", "p3", 1);
        std::thread::sleep(Duration::from_millis(300));
    }
    assert!(live.child.wait().unwrap().success());
    let mut told: Vec<String> =
        live.lines.iter().map(|record| record["below"].as_str().unwrap().to_owned()).collect();
    told.sort();
    told.dedup();
    assert_eq!(told.iter().filter(|below| below.starts_with("other")).count(), 4, "{told:?}");

    let gone = directory.path("gone").display().to_string();
    let mut live = Live::start(&[&gone, "--follow=0.1", "--until-idle=1"]);
    assert_eq!(live.next()["type"], "fail");
    assert_eq!(live.child.wait().unwrap().code(), Some(1));
}

#[test]
fn following_tells_of_new_scans_once_and_of_running_ones_as_they_end() {
    let directory = RawData::new();
    std::fs::create_dir(directory.path("RAW_DATA")).unwrap();
    let raw = directory.path("RAW_DATA").display().to_string();
    // An empty directory is nothing to complain of: something may come.
    let live = Live::start(&[&raw, "--follow=0.1"]);
    std::thread::sleep(Duration::from_millis(300));
    let data = directory.write_dataset("", &[Defect::Running]);
    let first = live.next();
    assert_eq!((first["entry"].as_str(), first["complete"].as_bool()), (Some("1.1"), Some(false)));
    let running = &first["sources"];
    assert_eq!(running.as_array().unwrap().len(), 1, "{running}");

    // The scan ends: its master is written anew, as if Bliss had closed it.
    let finished = RawData::new();
    let whole = finished.write_dataset("", &[Defect::MissingFile]);
    for (from, to) in whole.lima[0].iter().zip(&data.lima[0]) {
        std::fs::copy(if from.exists() { from } else { &whole.lima[0][0] }, to).unwrap();
    }
    let new = directory.path("new.h5");
    std::fs::copy(&whole.master, &new).unwrap();
    std::fs::rename(&new, &data.master).unwrap();
    let mut last = live.next();
    while last["complete"] != true {
        last = live.next();
    }
    assert_eq!((last["id"].as_str(), last["frames"].as_u64()), (first["id"].as_str(), Some(12)));

    // Nothing more is said of it, and of another scan once.
    directory.write_master("RAW_DATA/other.h5", "1.1", "p3", 1);
    assert_eq!(live.next()["below"], "other.h5");
    assert!(live.lines.recv_timeout(Duration::from_millis(500)).is_err(), "it was told twice");
}
