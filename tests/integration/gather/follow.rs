//! Results that come again and again, as of a scan that is followed.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{NO_ARGUMENTS, Workspace, program, run, small_options};

/// A gather at work.
struct Live {
    child: Child,
    summaries: BufReader<ChildStdout>,
}

impl Live {
    fn start() -> Self {
        let mut command = Command::new(program("gather"));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let summaries = BufReader::new(child.stdout.take().unwrap());
        Self { child, summaries }
    }

    fn send(&mut self, results: &str) {
        self.child.stdin.as_mut().unwrap().write_all(results.as_bytes()).unwrap();
    }

    /// Ends the input, and returns the messages.
    fn end(self) -> String {
        String::from_utf8(self.child.wait_with_output().unwrap().stderr).unwrap()
    }

    /// The next summary, however long it takes; `None` at the end. Failures that pass are left out.
    fn next(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            self.summaries.read_line(&mut line).unwrap();
            let record = (!line.is_empty()).then(|| serde_json::from_str::<Value>(&line).unwrap());
            if record.as_ref().is_none_or(|record| record["type"] == "summary") {
                return record;
            }
        }
    }
}

/// The scan record while its frames up to `there` are written.
fn scan_while_running(scan: &str, there: u64) -> String {
    let mut scan: Value = serde_json::from_str(scan).unwrap();
    let fields = scan.as_object_mut().unwrap();
    let frames = fields["frames"].as_u64().unwrap();
    fields["sources"]
        .as_array_mut()
        .unwrap()
        .retain(|source| source["frames"][0][1].as_u64() <= Some(there));
    if there < frames {
        fields.shift_remove("end_time");
        fields.shift_remove("end_reason");
        fields.insert("complete".to_owned(), false.into());
        fields.insert(
            "absent".to_owned(),
            json!([{"range": [[there, frames]], "kind": "never_taken", "reason": "being written"}]),
        );
    }
    format!("{scan}\n")
}

#[test]
fn what_is_said_already_is_not_said_again() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "file"]);
    let first = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    // As four overlapping runs and a rerun of each would have it: the same results, found done, a
    // hundred times.
    let again = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    let gathered = run("gather", &["-v"], &(first + &again.repeat(100))).assert_success();
    assert_eq!(gathered.records("summary").len(), 1, "{}", gathered.stdout);
    // One look at the first word, one at the end, and at a slow machine's pauses.
    let looks = gathered.stderr.lines().filter(|line| line.contains(".h5: ")).count();
    assert!(
        (2..20).contains(&looks),
        "400 results, {looks} looks at the final: {}",
        gathered.stderr
    );
}

#[test]
fn a_scan_that_grows_is_told_step_by_step_and_its_end_without_an_end_of_the_input() {
    let mut workspace = Workspace::new(&small_options());
    let whole = workspace.scans.clone();
    let mut live = Live::start();
    let mut said = Vec::new();
    let mut inode = 0;
    for there in [7, 14, 21, 24] {
        workspace.scans = scan_while_running(&whole, there);
        // Each look at the scan has all its tasks again.
        let tasks = workspace.plan("out", &["--by", "file"]);
        live.send(&run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout);
        // The input stays open: the summary comes because no more results do.
        let summary = live.next().unwrap();
        let file = std::fs::metadata(summary["final"].as_str().unwrap()).unwrap();
        assert_ne!(file.ino(), inode, "the final is a new one");
        inode = file.ino();
        let words = ["integrated", "complete", "up_to_date", "scan_state"];
        said.push(words.map(|word| summary[word].to_string()).join(" "));
    }
    let expected = [
        "7 false true \"running\"",
        "14 false true \"running\"",
        "21 false true \"running\"",
        "24 true true \"ended\"",
    ];
    assert_eq!(said, expected);
    drop(live.child.stdin.take());
    assert_eq!(live.next(), None, "all is said");
    assert_eq!(live.child.wait().unwrap().code(), Some(0));
    let fresh = workspace.process("fresh", &[], &[]).assert_success().records("summary").remove(0);
    let found = run("gather", &["--from", workspace.path("out").to_str().unwrap()], "")
        .assert_success()
        .records("summary")
        .remove(0);
    assert_eq!(found["data_digest"], fresh["data_digest"], "the bytes of a plain run");
}

#[test]
fn what_lacks_while_results_come_is_no_failure_once_it_is_there() {
    let mut workspace = Workspace::new(&small_options());
    let whole = workspace.scans.clone();
    let mut unreadable: Value = serde_json::from_str(&whole).unwrap();
    unreadable["sources"].as_array_mut().unwrap().remove(2);
    unreadable["complete"] = false.into();
    unreadable["absent"] =
        json!([{"range": [[14, 21]], "kind": "unreadable", "reason": "Stale file handle"}]);
    workspace.scans = format!("{unreadable}\n");
    let early = run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &[]));
    assert_eq!(early.status, 1);
    let mut live = Live::start();
    live.send(&early.stdout);
    let summary = live.next().unwrap();
    assert_eq!(
        (&summary["integrated"], &summary["missing"][0]["reason"]),
        (&17.into(), &"Stale file handle".into())
    );
    workspace.scans = whole;
    live.send(
        &run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &[])).assert_success().stdout,
    );
    assert_eq!(live.next().unwrap()["complete"], true);
    drop(live.child.stdin.take());
    assert_eq!((live.next(), live.child.wait().unwrap().code()), (None, Some(0)));
}

#[test]
fn pictures_and_the_page_have_a_final_once_however_often_it_is_made() {
    let mut workspace = Workspace::new(&small_options());
    let whole = workspace.scans.clone();
    let mut results = String::new();
    for there in [7, 24] {
        workspace.scans = scan_while_running(&whole, there);
        results += &run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &["--by", "file"]))
            .assert_success()
            .stdout;
    }
    let (picture, page) = (workspace.path("p.png"), workspace.path("run.html"));
    let flags = ["--plot".as_ref(), picture.as_os_str(), "--report".as_ref(), page.as_os_str()];
    let gathered = run("gather", &flags, &results).assert_success().records("summary");
    let named = gathered.last().unwrap()["plot"].as_str().unwrap();
    assert_eq!(std::fs::read(named).unwrap(), std::fs::read(&picture).unwrap());
    let pictures = std::fs::read_dir(workspace.path("")).unwrap();
    let pictures =
        pictures.filter(|entry| entry.as_ref().unwrap().path().extension() == Some("png".as_ref()));
    assert_eq!(pictures.count(), 2, "that of the final, and that of the run");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(
        page.contains("1 final, 24 of 24 frames") && page.matches("<h2 id=\"s").count() == 1,
        "{page:.600}"
    );
}

#[test]
fn frames_that_still_lack_a_pattern_are_not_told_of_again_at_each_update() {
    let workspace = Workspace::new(&small_options());
    let lima = &workspace.data.lima[0];
    let away = |path: &Path| path.with_extension("away");
    for path in &lima[1..3] {
        fs::rename(path, away(path)).unwrap();
    }
    let plan = workspace.plan("out", &["--by", "file"]);
    let integrate = || run("ai-integrate", NO_ARGUMENTS, &plan).stdout;
    let mut gather = Live::start();
    gather.send(&integrate());
    assert_eq!(gather.next().unwrap()["integrated"], 10);
    fs::rename(away(&lima[1]), &lima[1]).unwrap();
    gather.send(&integrate());
    assert_eq!(gather.next().unwrap()["integrated"], 17);
    let told = gather.end();
    for frames in ["(7 to 13)", "(14 to 20)"] {
        let lines = told.lines().filter(|line| line.contains(frames));
        assert_eq!(lines.count(), 1, "{frames}: {told}");
    }
}
