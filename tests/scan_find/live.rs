//! Records as soon as there is something to say.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use sample::Defect;
use serde_json::Value;

use crate::field::Field;

/// Long enough for a slow machine; reached where a test fails alone.
const PATIENCE: Duration = Duration::from_secs(60);

/// scan-find at work, ended when dropped.
struct Live {
    child: Child,
    lines: Receiver<Value>,
}

impl Live {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_scan-find"))
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
    let field = Field::new();
    let mut live = Live::start(&["-"]);
    let mut stdin = live.child.stdin.take().unwrap();
    for name in ["a.h5", "b.h5"] {
        writeln!(stdin, "{}", field.master(name, "1.1", "p3", 1).display()).unwrap();
        assert_eq!(live.next()["below"], name);
    }
    drop(stdin);
    assert!(live.child.wait().unwrap().success());
}

#[test]
fn following_tells_of_new_scans_once_and_of_running_ones_as_they_end() {
    let field = Field::new();
    std::fs::create_dir(field.path("RAW_DATA")).unwrap();
    let raw = field.path("RAW_DATA").display().to_string();
    // An empty directory is nothing to complain of: something may come.
    let live = Live::start(&[&raw, "--follow=0.1"]);
    std::thread::sleep(Duration::from_millis(300));
    let data = field.dataset("", &[Defect::Running]);
    let first = live.next();
    assert_eq!((first["entry"].as_str(), first["complete"].as_bool()), (Some("1.1"), Some(false)));
    let running = &first["sources"];
    assert_eq!(running.as_array().unwrap().len(), 1, "{running}");

    // The scan ends: its master is written anew, as if Bliss had closed it.
    let finished = Field::new();
    let whole = finished.dataset("", &[Defect::MissingFile]);
    for (from, to) in whole.lima[0].iter().zip(&data.lima[0]) {
        std::fs::copy(if from.exists() { from } else { &whole.lima[0][0] }, to).unwrap();
    }
    let new = field.path("new.h5");
    std::fs::copy(&whole.master, &new).unwrap();
    std::fs::rename(&new, &data.master).unwrap();
    let mut last = live.next();
    while last["complete"] != true {
        last = live.next();
    }
    assert_eq!((last["id"].as_str(), last["frames"].as_u64()), (first["id"].as_str(), Some(12)));

    // Nothing more is said of it, and of another scan once.
    field.master("RAW_DATA/other.h5", "1.1", "p3", 1);
    assert_eq!(live.next()["below"], "other.h5");
    assert!(live.lines.recv_timeout(Duration::from_millis(500)).is_err(), "it was told twice");
}
