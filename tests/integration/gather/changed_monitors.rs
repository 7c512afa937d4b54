//! A monitor that was corrected after its frames were integrated: the frames are divided by what it
//! is now, and no others are integrated again.

use std::fs;

use hdf5::File;
use serde_json::{Value, json};

use super::monitors::{change_counter, read_rows};
use crate::support::{NO_ARGUMENTS, Outcome, Workspace, open_hdf5_to_write, run, small_options};

const FRAMES: usize = 24;

/// Integrates the scan and gathers it.
fn process(workspace: &Workspace, out: &str, flags: &[&str]) -> (Outcome, Outcome) {
    let integrated = run("ai-integrate", NO_ARGUMENTS, &workspace.plan(out, flags));
    let gathered = run("gather", NO_ARGUMENTS, &integrated.stdout);
    (integrated, gathered)
}

fn data_digest(gathered: &Outcome) -> Value {
    gathered.records("summary").pop().unwrap()["data_digest"].clone()
}

/// The frames in parts that no final has absorbed.
fn frames_in_parts(workspace: &Workspace, out: &str) -> Vec<u64> {
    let read = |part| File::open(part).unwrap().dataset("frames").unwrap().read_raw::<u64>();
    workspace.parts(out).into_iter().flat_map(|part| read(part).unwrap()).collect()
}

/// Changes the counter, runs the pipe again, and compares the final with that of a fresh run.
/// Returns the frames that were integrated again.
fn correct_and_rerun(
    workspace: &Workspace,
    out: &str,
    flags: &[&str],
    change: impl Fn(usize, f64) -> f64,
) -> Vec<u64> {
    change_counter(&workspace.data.master, 1, change);
    let tasks = workspace.plan(out, flags);
    let integrated = run("ai-integrate", NO_ARGUMENTS, &tasks);
    let again = frames_in_parts(workspace, out);
    let gathered = run("gather", NO_ARGUMENTS, &integrated.stdout);
    let fresh = format!("{out}-fresh");
    let _ = fs::remove_dir_all(workspace.path(&fresh));
    let (_, expected) = process(workspace, &fresh, flags);
    assert_eq!(data_digest(&gathered), data_digest(&expected), "{out}");
    assert_eq!(gathered.status, expected.status, "{out}");
    assert_eq!(format!("{:?}", read_rows(&gathered)), format!("{:?}", read_rows(&expected)));
    let rerun = run("ai-integrate", NO_ARGUMENTS, &tasks);
    assert!(frames_in_parts(workspace, out).is_empty(), "{out}: the rerun integrates nothing");
    let path = gathered.records("summary")[0]["final"].as_str().unwrap().to_owned();
    let last_change = || fs::metadata(&path).unwrap().modified().unwrap();
    let before = last_change();
    run("gather", NO_ARGUMENTS, &rerun.stdout);
    assert_eq!(last_change(), before, "{out}: the rerun changes nothing");
    again
}

#[test]
fn frames_whose_monitor_was_corrected_are_divided_by_what_it_is_now() {
    for cut in ["scan", "frames=5"] {
        let workspace = Workspace::new(&small_options());
        let flags = ["--monitor", "monitor", "--by", cut];
        process(&workspace, "out", &flags).1.assert_success();
        let twice = |frame, value| if [3, 7].contains(&frame) { 2.0 * value } else { value };
        assert_eq!(correct_and_rerun(&workspace, "out", &flags, twice), [3, 7], "{cut}");
        let lost = |frame, value| if frame == 7 { 0.0 } else { value };
        assert_eq!(correct_and_rerun(&workspace, "out", &flags, lost), [7], "{cut}");
        let back = |frame, value| if frame == 7 { 5.0 } else { value };
        assert_eq!(correct_and_rerun(&workspace, "out", &flags, back), [7], "{cut}");
    }
}

#[test]
fn a_new_mean_of_the_monitor_divides_all_frames() {
    let workspace = Workspace::new(&small_options());
    let flags = ["--monitor", "monitor", "--monitor-reference", "mean", "--by", "frames=5"];
    process(&workspace, "out", &flags).1.assert_success();
    let twice = |frame, value| if frame == 3 { 2.0 * value } else { value };
    let again = correct_and_rerun(&workspace, "out", &flags, twice);
    assert_eq!(again.len(), FRAMES, "the final has no sums to divide by the new mean");
    let thrice = |frame, value| if frame == 3 { 1.5 * value } else { value };
    let tasks = workspace.plan("kept", &flags);
    let gather = || {
        let integrated = run("ai-integrate", NO_ARGUMENTS, &tasks).stdout;
        let again = frames_in_parts(&workspace, "kept");
        (again, run("gather", &["--keep-sums"], &integrated).assert_success())
    };
    gather();
    change_counter(&workspace.data.master, 1, thrice);
    let (again, gathered) = gather();
    assert_eq!(again, [3], "the sums of the others are in the final");
    let expected = process(&workspace, "kept-fresh", &flags).1;
    assert_eq!(format!("{:?}", read_rows(&gathered)), format!("{:?}", read_rows(&expected)));
}

#[test]
fn parts_that_differ_in_a_monitor_are_told_apart_by_what_it_is_now() {
    let workspace = Workspace::new(&small_options());
    let flags = ["--monitor", "monitor", "--by", "frames=5"];
    let tasks = workspace.plan("out", &flags);
    run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success();
    change_counter(&workspace.data.master, 1, |frame, value| {
        if [3, 7].contains(&frame) { 2.0 * value } else { value }
    });
    run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success();
    assert_eq!(frames_in_parts(&workspace, "out").len(), FRAMES + 2, "the old parts are there");
    let root = workspace.path("out");
    let gathered = run("gather", &["--from", root.to_str().unwrap()], "").assert_success();
    let (_, expected) = process(&workspace, "fresh", &flags);
    assert_eq!(data_digest(&gathered), data_digest(&expected));
}

#[test]
fn a_monitor_that_can_not_be_read_any_more_keeps_what_there_is() {
    let workspace = Workspace::new(&small_options());
    let flags = ["--monitor", "monitor", "--by", "frames=5"];
    let tasks = workspace.plan("out", &flags);
    let first = process(&workspace, "out", &flags).1.assert_success();
    let file = open_hdf5_to_write(&workspace.data.master);
    file.group("/1.1/measurement").unwrap().unlink("monitor").unwrap();
    drop(file);
    let rerun = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success();
    assert!(
        rerun.stderr.contains("earlier patterns are kept, but their monitor can't be compared"),
        "{}",
        rerun.stderr
    );
    assert!(frames_in_parts(&workspace, "out").is_empty());
    let gathered = run("gather", NO_ARGUMENTS, &rerun.stdout).assert_success();
    assert_eq!(data_digest(&gathered), data_digest(&first));
    let root = workspace.path("out");
    let gathered = run("gather", &["--from", root.to_str().unwrap()], "").assert_success();
    assert_eq!(data_digest(&gathered), data_digest(&first));
}

#[test]
fn both_filters_judge_a_monitor_alike() {
    let workspace = Workspace::new(&small_options());
    let bad = [-1.0, 0.0, f64::NAN, f64::INFINITY, 1e-300, 1e300];
    change_counter(&workspace.data.master, 1, |frame, value| {
        bad.get(frame).copied().unwrap_or(value)
    });
    for reference in ["1", "2.5"] {
        let flags = ["--monitor", "monitor", "--monitor-reference", reference];
        let (integrated, gathered) = process(&workspace, reference, &flags);
        assert_eq!([integrated.status, gathered.status], [1, 1], "{reference}");
        let told = json!([{
            "range": [[0, bad.len()]], "kind": "no_monitor",
            "reason": "monitor zero, negative, out of range, or missing"
        }]);
        assert_eq!(integrated.records("result")[0]["missing"], told, "{reference}");
        assert_eq!(gathered.records("summary")[0]["missing"], told, "{reference}");
    }
}

#[test]
fn frames_of_a_running_scan_wait_for_a_counter_that_it_gets_later() {
    let workspace = Workspace::new(&small_options());
    let ended: Value = serde_json::from_str(workspace.scans.lines().next().unwrap()).unwrap();
    let mut running = ended.clone();
    running["complete"] = json!(false);
    running["end_time"] = Value::Null;
    running["end_reason"] = Value::Null;
    running["counters"].as_object_mut().unwrap().remove("monitor").unwrap();
    let (out, poni) = (workspace.path("out"), workspace.data.poni.to_str().unwrap());
    let flags = ["--poni", poni, "--npt", "100", "--monitor", "monitor", "--out"];
    let flags = [&flags[..], &[out.to_str().unwrap()]].concat();
    let both = format!("{running}\n{ended}\n");
    let planned = run("plan-split", &flags, &both).assert_success();
    assert_eq!(planned.stderr.matches("wait for the monitor").count(), 1, "{}", planned.stderr);
    // The file has it by now, whatever the record says.
    let integrated = run("ai-integrate", NO_ARGUMENTS, &planned.stdout).assert_success();
    let gathered = run("gather", NO_ARGUMENTS, &integrated.stdout).assert_success();
    let summary = gathered.records("summary").pop().unwrap();
    assert_eq!([&summary["integrated"], &summary["complete"]], [&json!(FRAMES), &json!(true)]);
    // An older record that comes again costs no pattern.
    let old: String = planned.stdout.lines().take(1).map(|line| line.to_owned() + "\n").collect();
    let again = run("ai-integrate", NO_ARGUMENTS, &old);
    run("gather", NO_ARGUMENTS, &again.stdout);
    let out = workspace.path("out");
    let kept = run("gather", &["--from", out.to_str().unwrap()], "").assert_success();
    let summary = kept.records("summary").pop().unwrap();
    assert_eq!([&summary["integrated"], &summary["complete"]], [&json!(FRAMES), &json!(true)]);
    // One that it never gets is an error once it has ended.
    let mut without = ended.clone();
    without["counters"].as_object_mut().unwrap().remove("monitor").unwrap();
    let refused = run("plan-split", &flags, &format!("{without}\n"));
    assert!(
        refused.status == 1 && refused.stderr.contains("no counter `monitor`"),
        "{}",
        refused.stderr
    );
}
