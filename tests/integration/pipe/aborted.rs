//! A scan that was to take more frames, and was stopped: it has those that it took, whatever was known of
//! it while it ran.

use serde_json::{Value, json};

use crate::support::{NO_ARGUMENTS, Workspace, run, small_options};

const TAKEN: u64 = 7;

/// Scan records of one scan: while it runs, with one of its files, and after it was stopped.
fn records_of_run(workspace: &Workspace) -> [String; 2] {
    let whole: Value = serde_json::from_str(workspace.scans.lines().next().unwrap()).unwrap();
    let frames = whole["frames"].as_u64().unwrap();
    let mut running = whole.clone();
    running["sources"] = json!([whole["sources"][0]]);
    assert_eq!(running["sources"][0]["frames"], json!([[0, TAKEN]]));
    running["complete"] = json!(false);
    running["end_time"] = Value::Null;
    running["end_reason"] = Value::Null;
    let to_come =
        json!({"range": [[TAKEN, frames]], "kind": "never_taken", "reason": "not taken yet"});
    running["absent"] = json!([to_come]);
    let mut stopped = running.clone();
    stopped["frames"] = json!(TAKEN);
    stopped["absent"] = json!([]);
    stopped["end_time"] = json!("2026-03-04T10:30:30+01:00");
    stopped["end_reason"] = json!("USER_ABORT");
    [running, stopped].map(|record| record.to_string() + "\n")
}

/// Runs the pipe after scan-find for these records, and returns the last summary.
fn process(workspace: &Workspace, out: &str, scans: &str, gather: &[&str]) -> Option<Value> {
    let out = workspace.path(out);
    let poni = workspace.data.poni.to_str().unwrap();
    let plan = ["--poni", poni, "--npt", "100", "--out", out.to_str().unwrap()];
    let tasks = run("plan-split", &plan, scans).assert_success().stdout;
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    run("gather", gather, &results).assert_success().records("summary").pop()
}

#[test]
fn a_scan_that_is_stopped_has_the_frames_that_it_took_whatever_it_was_to_take() {
    let workspace = Workspace::new(&small_options());
    let [running, stopped] = records_of_run(&workspace);
    let check = |case: &str, summary: Option<Value>| {
        let summary = summary.unwrap_or_else(|| panic!("{case}: no final"));
        let found = ["frames", "integrated", "complete", "scan_state", "missing"]
            .map(|name| summary[name].clone());
        let expected = [json!(TAKEN), json!(TAKEN), json!(true), json!("aborted"), Value::Null];
        assert_eq!(found, expected, "{case}: {summary}");
        let file = hdf5::File::open(summary["final"].as_str().unwrap()).unwrap();
        let entry = file.group(summary["entry"].as_str().unwrap()).unwrap();
        let of_process = |group: &hdf5::Group| group.link_exists("integrated");
        let process = entry.groups().unwrap().into_iter().find(of_process).unwrap();
        assert_eq!(process.dataset("integrated/intensity").unwrap().shape()[0] as u64, TAKEN);
    };
    let both = running.clone() + &stopped;
    check("alone", process(&workspace, "alone", &stopped, &[]));
    check("followed", process(&workspace, "followed", &both, &[]));
    check("in the other order", process(&workspace, "reverse", &(stopped.clone() + &running), &[]));
    check("complete only", process(&workspace, "only", &both, &["--complete-only"]));
    // The frames that several tasks have count once.
    let (out, poni) = (workspace.path("followed"), workspace.data.poni.to_str().unwrap());
    let flags = ["--poni", poni, "--npt", "100", "--out", out.to_str().unwrap()];
    let plan = workspace.path("plan.jsonl");
    std::fs::write(&plan, run("plan-split", &flags, &both).assert_success().stdout).unwrap();
    let counted = run("gather", &["--plan", plan.to_str().unwrap(), "--count-done"], "");
    let counts: Value = serde_json::from_str(counted.assert_success().stdout.trim()).unwrap();
    let found = ["finals_complete", "frames", "frames_done", "frames_lost"]
        .map(|name| counts[name].clone());
    assert_eq!(found, [json!(1), json!(TAKEN), json!(TAKEN), json!(0)], "{counts}");
    // A final of the running scan is corrected by a run after its end.
    let early = process(&workspace, "later", &running, &[]).unwrap();
    assert_eq!([&early["complete"], &early["scan_state"]], [&json!(false), &json!("running")]);
    check("later", process(&workspace, "later", &stopped, &[]));
}

/// A detector takes a few frames more than the scan counts as it is stopped. The scan has ended all the same.
#[test]
fn a_scan_is_over_that_was_stopped_before_the_last_frames_of_its_files() {
    let workspace = Workspace::new(&small_options());
    let [running, stopped] = records_of_run(&workspace);
    let mut stopped: Value = serde_json::from_str(&stopped).unwrap();
    let counted = json!(TAKEN - 2);
    stopped["frames"] = counted.clone();
    for held in ["frames", "rows"] {
        stopped["sources"][0][held] = json!([[0, counted]]);
    }
    let stopped = stopped.to_string() + "\n";
    let check = |case: &str, frames: u64, summary: Option<Value>| {
        let summary = summary.unwrap_or_else(|| panic!("{case}: no final"));
        let found = ["frames", "integrated", "complete", "scan_state"];
        let found = found.map(|name| summary[name].clone());
        let expected = [json!(frames), json!(frames), json!(true), json!("aborted")];
        assert_eq!(found, expected, "{case}: {summary}");
    };
    let both = running.clone() + &stopped;
    check("alone", TAKEN - 2, process(&workspace, "alone", &stopped, &[]));
    check("followed", TAKEN, process(&workspace, "followed", &both, &[]));
    let reversed = stopped.clone() + &running;
    check("in the other order", TAKEN, process(&workspace, "reverse", &reversed, &[]));
    check("complete only", TAKEN, process(&workspace, "only", &both, &["--complete-only"]));
    process(&workspace, "later", &running, &[]).unwrap();
    check("later", TAKEN, process(&workspace, "later", &stopped, &[]));
}

#[test]
fn frames_that_files_hold_stay_although_the_scan_says_that_it_took_fewer() {
    let workspace = Workspace::new(&small_options());
    let [_, stopped] = records_of_run(&workspace);
    let whole = process(&workspace, "out", &workspace.scans, &[]).unwrap();
    let summary = process(&workspace, "out", &stopped, &["--allow-missing"]);
    // Nothing changed, or all frames are there.
    if let Some(summary) = summary {
        assert_eq!(summary["integrated"], whole["integrated"], "{summary}");
    }
    let file = hdf5::File::open(whole["final"].as_str().unwrap()).unwrap();
    let entry = file.group(whole["entry"].as_str().unwrap()).unwrap();
    let of_process = |group: &hdf5::Group| group.link_exists("integrated");
    let process = entry.groups().unwrap().into_iter().find(of_process).unwrap();
    let frames = process.dataset("integrated/intensity").unwrap().shape()[0] as u64;
    assert_eq!(Some(frames), whole["frames"].as_u64());
}
