//! Success is not told of what was asked for and is not there: plans without tasks or with tasks that are
//! not done, output directories that are gone, a background without a sample.

use std::fs;

use serde_json::json;

use crate::support::{NO_ARGUMENTS, Workspace, run, small_options};

#[test]
fn a_plan_without_tasks_is_a_failure_but_not_where_tasks_are_listed() {
    let workspace = Workspace::new(&small_options());
    let plan = workspace.path("empty.jsonl");
    fs::write(&plan, "").unwrap();
    let plan = plan.to_str().unwrap();
    for more in [NO_ARGUMENTS, &["--count-done"], &["--complete-only"]] {
        let gathered = run("gather", &[&["--plan", plan], more].concat(), "");
        assert_eq!(gathered.status, 1, "{more:?}");
        assert!(gathered.stderr.contains("holds no tasks"), "{}", gathered.stderr);
    }
    // The list of what is missing may be empty, and the list of what that lacks.
    run("gather", &["--plan", plan, "--missing"], "").assert_success();
}

#[test]
fn required_tasks_that_are_not_done_are_a_failure_though_no_final_is_complete() {
    let workspace = Workspace::new(&sample::Options { scans: 2, ..small_options() });
    let tasks = workspace.plan("out", &["--by", "frames=5"]);
    let plan = workspace.path("plan.jsonl");
    fs::write(&plan, &tasks).unwrap();
    let flags = ["--complete-only", "--plan", plan.to_str().unwrap()];
    let some: String = tasks.lines().take(2).map(|line| line.to_owned() + "\n").collect();
    let results = run("ai-integrate", NO_ARGUMENTS, &some).assert_success();
    let early = run("gather", &flags, &results.stdout);
    assert_eq!((early.status, early.records("summary").len()), (1, 0), "{}", early.stderr);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success();
    let whole = run("gather", &flags, &results.stdout).assert_success();
    assert_eq!(whole.records("summary").len(), 2);
    run("gather", &flags, "").assert_success();
}

#[test]
fn results_whose_output_directory_is_gone_are_not_gathered_as_empty() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &[]);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success();
    let (out, away) = (workspace.path("out"), workspace.path("away"));
    fs::rename(&out, &away).unwrap();
    let gathered = run("gather", NO_ARGUMENTS, &results.stdout);
    assert_eq!(gathered.status, 1);
    assert!(gathered.stderr.contains("no such directory, though"), "{}", gathered.stderr);
    assert!(!out.exists() && gathered.records("summary").is_empty());
    fs::rename(&away, &out).unwrap();
    run("gather", NO_ARGUMENTS, &results.stdout).assert_success();
}

#[test]
fn a_background_alone_is_told() {
    let workspace = Workspace::new(&small_options());
    let gathered = workspace.process("out", &[], NO_ARGUMENTS).assert_success();
    let path = gathered.records("summary")[0]["final"].as_str().unwrap().to_owned();
    let out = workspace.path("out");
    let flags = ["--from", out.to_str().unwrap(), "--subtract", &path];
    let alone = run("gather", &flags, "");
    assert_eq!(alone.status, 1);
    assert!(alone.stderr.contains("no scan but the background"), "{}", alone.stderr);
}

#[test]
fn an_average_of_no_frames_is_unknown_also_where_empty_bins_are_zero() {
    // Frames from 7 on are in files that are gone.
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--empty", "0"]);
    for file in &workspace.data.lima[0][1..] {
        fs::remove_file(file).unwrap();
    }
    for average in ["mean,7", "median,7"] {
        let results = run("ai-integrate", &["--keep-sums"], &tasks).stdout;
        let flags = ["--keep-sums", "--allow-missing", "--average", average];
        let gathered = run("gather", &flags, &results);
        let path = gathered.records("summary")[0]["final"].as_str().unwrap().to_owned();
        let file = hdf5::File::open(path).unwrap();
        let group = file.group("1.1/pilatus_integrate/averaged").unwrap();
        let frames = group.dataset("frames").unwrap().read_raw::<u64>().unwrap();
        assert_eq!(json!(frames), json!([7, 0, 0, 0]), "{average}");
        for name in ["intensity", "intensity_errors"] {
            let values = group.dataset(name).unwrap().read_2d::<f64>().unwrap();
            assert!(values.row(0).iter().all(|value| !value.is_nan()), "{average}: {name}");
            assert!(values.row(1).iter().all(|value| value.is_nan()), "{average}: {name}");
        }
    }
}
