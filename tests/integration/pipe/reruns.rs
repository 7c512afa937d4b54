//! A rerun that finds all done says what the first run said: the same status, frames and reasons.

use std::collections::BTreeSet;

use sample::{Defect, Options};
use serde_json::{Value, json};

use crate::support::{NO_ARGUMENTS, Outcome, Workspace, open_hdf5_to_write, run, small_options};

/// The part of a run that a user notices: its status, the frames that lack a pattern, the frames
/// that failed, and the warnings.
#[derive(Debug, PartialEq, Eq)]
struct Noticed {
    status: i32,
    missing: BTreeSet<String>,
    failed: BTreeSet<String>,
    warnings: BTreeSet<String>,
}

impl Noticed {
    fn new(ran: &Outcome) -> Self {
        let of = |kind: &str| ran.records(kind);
        let missing = of("result").into_iter().chain(of("summary")).map(|record| {
            let missing = record["missing"].as_array().cloned().unwrap_or_default();
            let missing: BTreeSet<String> = missing.iter().map(Value::to_string).collect();
            format!(
                "{} done {} integrated {} missing {missing:?}",
                record["final"], record["done"], record["integrated"]
            )
        });
        // Of a frame that has no data in its file, a part keeps that, and not the words.
        let frames =
            |fail: &Value| fail["error"].as_str().unwrap().split(": ").next().unwrap().to_owned();
        let failed = of("fail")
            .into_iter()
            .map(|fail| format!("{} {} {}", fail["about"], fail["retryable"], frames(&fail)));
        let warnings =
            ran.stderr.lines().filter(|line| line.contains(": warning: ")).map(str::to_owned);
        Self {
            status: ran.status,
            missing: missing.collect(),
            failed: failed.collect(),
            warnings: warnings.collect(),
        }
    }
}

/// Writes 0 and NaN into a scan's monitor.
pub fn without_monitors() -> Workspace {
    let workspace = Workspace::new(&small_options());
    let master = open_hdf5_to_write(&workspace.data.master);
    let counter = master.dataset("/1.1/measurement/monitor").unwrap();
    let mut values = counter.read_raw::<f64>().unwrap();
    (values[3], values[5]) = (0.0, f64::NAN);
    counter.write_raw(&values).unwrap();
    drop((counter, master));
    workspace
}

fn with(defect: Defect) -> Workspace {
    Workspace::new(&Options { scans: 0, defects: vec![defect], ..small_options() })
}

/// The tasks with another value at a place of each.
fn edited(tasks: &str, edit: impl Fn(&mut Value)) -> String {
    let edited = tasks.lines().map(|line| {
        let mut task: Value = serde_json::from_str(line).unwrap();
        edit(&mut task);
        format!("{task}\n")
    });
    edited.collect()
}

/// Runs twice, gathers twice, and runs once more over the final: the same is to be noticed each
/// time.
fn says_the_same(name: &str, tasks: &str, expected_status: i32) {
    let integrate = || {
        let ran = run("ai-integrate", NO_ARGUMENTS, tasks);
        (Noticed::new(&ran), ran.stdout)
    };
    let (first, results) = integrate();
    assert_eq!(first.status, expected_status, "{name}: {first:?}");
    assert!(
        first.status == 0 || !(first.warnings.is_empty() && first.failed.is_empty()),
        "{name}: status 1 and no word"
    );
    assert_eq!(first, integrate().0, "{name}: the rerun");
    let gather = || Noticed::new(&run("gather", NO_ARGUMENTS, &results));
    let gathered = gather();
    assert_eq!(gathered.status, expected_status, "{name}: {gathered:?}");
    assert_eq!(gathered, gather(), "{name}: gather's rerun");
    assert_eq!(first, integrate().0, "{name}: the rerun over the final");
    let counted = run("gather", &["--plan", "-", "--count-done"], tasks);
    assert_eq!(counted.status, expected_status, "{name}, counted: {counted:?}");
}

#[test]
fn frames_without_a_monitor_are_told_by_a_rerun_that_skips_them() {
    let workspace = without_monitors();
    let tasks = workspace.plan("one", &["--monitor", "monitor"]);
    says_the_same("monitor", &tasks, 1);
    let rerun = run("ai-integrate", NO_ARGUMENTS, &tasks);
    let result = &rerun.records("result")[0];
    assert_eq!(
        (&result["skipped"], &result["done"]),
        (&true.into(), &json!([[0, 3], [4, 5], [6, 24]]))
    );
    let told = json!([{"range": [[3, 6, 2]], "kind": "no_monitor", "reason": "monitor zero, negative, out of range, or missing"}]);
    assert_eq!(result["missing"], told);
    let counted = run("gather", &["--plan", "-", "--count-done"], &tasks).records("progress");
    let count = |name: &str| counted[0][name].clone();
    assert_eq!(
        ["frames", "frames_done", "frames_lost", "lost", "finals_done"].map(count),
        [json!(24), json!(22), json!(2), json!({"no_monitor": 2}), json!(1)]
    );
    assert!(
        rerun.stderr.contains("entry 1.1: 2 frames without a pattern: monitor zero"),
        "{}",
        rerun.stderr
    );
    assert_eq!(run("ai-integrate", &["--allow-missing"], &tasks).status, 0);
    says_the_same(
        "monitor, a task a file",
        &workspace.plan("many", &["--monitor", "monitor", "--by", "file"]),
        1,
    );
    says_the_same(
        "monitor, its mean",
        &workspace.plan("mean", &["--monitor", "monitor", "--monitor-reference", "mean"]),
        1,
    );
}

#[test]
fn losses_are_told_by_a_rerun_as_by_the_first_run() {
    says_the_same("missing file", &with(Defect::MissingFile).plan("out", &[]), 1);
    says_the_same("unwritten chunk", &with(Defect::UnwrittenChunk).plan("out", &[]), 1);
    says_the_same("truncated chunk", &with(Defect::TruncatedChunk).plan("out", &[]), 1);
    says_the_same("aborted", &with(Defect::Aborted).plan("out", &[]), 0);
    says_the_same("nothing", &Workspace::new(&small_options()).plan("out", &[]), 0);
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &[]);
    let rows = |task: &mut Value| task["sources"][0]["rows"] = json!([[100, 107]]);
    says_the_same("rows that are not in the file", &edited(&tasks, rows), 1);
    let range = |task: &mut Value| task["range"] = json!([[20, 30]]);
    says_the_same("frames without a source", &edited(&workspace.plan("sources", &[]), range), 1);
    std::fs::rename(&workspace.data.lima[0][1], workspace.path("kept.h5")).unwrap();
    std::fs::write(&workspace.data.lima[0][2], b"not what it was").unwrap();
    says_the_same("vanished and changed", &workspace.plan("vanished", &[]), 1);
}
