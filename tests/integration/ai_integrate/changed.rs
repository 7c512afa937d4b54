//! A source that is written again while its frames are read.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sample::Options;
use serde_json::{Value, json};

use crate::support::{NO_ARGUMENTS, Workspace, program, run, small_options};

/// Stops the process while it has the file open; false where it never had, as far as was seen.
fn stop_with_open(child: &mut Child, file: &Path) -> bool {
    let descriptors = format!("/proc/{}/fd", child.id());
    while child.try_wait().unwrap().is_none() {
        let is_open = || {
            let all = std::fs::read_dir(&descriptors).into_iter().flatten().flatten();
            all.filter_map(|entry| std::fs::read_link(entry.path()).ok()).any(|path| path == file)
        };
        if is_open() {
            kill(Pid::from_raw(child.id() as i32), Signal::SIGSTOP).unwrap();
            return is_open();
        }
    }
    false
}

#[test]
fn frames_of_a_source_that_changes_while_it_is_read_are_lost_and_tried_again() {
    let mut workspace =
        Workspace::new(&Options { frames: 400, frames_per_file: 200, ..small_options() });
    let files: Vec<_> =
        workspace.data.lima[0].iter().map(|file| file.canonicalize().unwrap()).collect();
    for attempt in 0..100 {
        let out = format!("out{attempt}");
        workspace.scans = run("scan-find", &[&workspace.data.raw], "").stdout;
        let plan = workspace.plan(&out, &["--by", "scan", "--sigma-clip", "3"]);
        let mut child = Command::new(program("ai-integrate"))
            .args(["--threads", "1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(plan.as_bytes()).unwrap();
        let has_stopped = stop_with_open(&mut child, &files[1]);
        File::options()
            .write(true)
            .open(&files[1])
            .unwrap()
            .set_modified(SystemTime::now())
            .unwrap();
        let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGCONT);
        let output = child.wait_with_output().unwrap();
        let (stdout, stderr) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        if !has_stopped {
            continue;
        }
        let of_type = |kind: &str| -> Vec<Value> {
            let all = stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            all.filter(|record| record["type"] == kind).collect()
        };
        assert!(stderr.contains("changed"), "{stderr}");
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        let (results, fails) = (of_type("result"), of_type("fail"));
        assert_eq!((results.len(), fails.len()), (1, 1), "{stderr}");
        assert_eq!(fails[0]["retryable"], json!(true));
        assert_eq!(results[0]["done"], json!([[0, 200]]), "{stderr}");
        assert_eq!(results[0]["missing"][0]["kind"], json!("source_changed"), "{stderr}");
        // Found again, they are integrated, and the others are not.
        workspace.scans = run("scan-find", &[&workspace.data.raw], "").stdout;
        let results = run(
            "ai-integrate",
            NO_ARGUMENTS,
            &workspace.plan(&out, &["--by", "scan", "--sigma-clip", "3"]),
        )
        .assert_success();
        assert_eq!(results.records("result")[0]["done"], json!([[0, 400]]), "{}", results.stderr);
        if stderr.contains("changed while it was read") {
            return;
        }
    }
    panic!("in no attempt was the file seen open");
}
