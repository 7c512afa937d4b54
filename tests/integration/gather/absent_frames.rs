//! Lists of absent frames: cut to the tasks, and put together again from what records, parts and
//! finals say.

use sample::{Defect, Options};
use serde_json::{Value, json};

use crate::support::{NO_ARGUMENTS, Workspace, run, small_options};

/// A scan of 2 * `files` images, every second of which is missing, each for a reason of its own.
fn scan_with_every_second_image_missing(scans: &str, files: u64) -> Value {
    let mut scan: Value = serde_json::from_str(scans).unwrap();
    let source = scan["sources"][0].clone();
    let of = |file: u64| {
        let mut source = source.clone();
        source["file"] = format!("/raw/{file:06}.h5").into();
        (source["frames"], source["rows"], source["bytes"]) =
            (json!([[2 * file, 2 * file + 1]]), json!([[0, 1]]), json!(1000));
        source
    };
    let absent = |file: u64| {
        let kind = ["missing", "unreadable"][file as usize % 2];
        json!({"range": [[2 * file + 1, 2 * file + 2]], "kind": kind, "reason": format!("/raw/{file:06}.h5: {kind}")})
    };
    scan["frames"] = (2 * files).into();
    scan["sources"] = (0..files).map(of).collect();
    scan["absent"] = (0..files).map(absent).collect();
    scan
}

/// A result of a task that has integrated nothing.
fn result_without_frames(task: &Value) -> Value {
    let mut result = task.clone();
    result["type"] = "result".into();
    result["v"] = 1.into();
    result["done"] = json!([]);
    result["skipped"] = false.into();
    result["read_bytes"] = 0.into();
    result["seconds"] = json!({"read": 0.0, "integrate": 0.0, "write": 0.0, "wall": 0.0});
    for field in ["device", "engine", "host"] {
        result[field] = "cpu".into();
    }
    result
}

#[test]
fn a_final_that_is_not_written_is_told_of() {
    let mut workspace = Workspace::new(&Options { scans: 2, ..small_options() });
    for file in &workspace.data.lima[1] {
        std::fs::remove_file(file).unwrap();
    }
    workspace.find_scans();
    let plan = workspace.plan("out", &[]);
    let results = run("ai-integrate", &["--allow-missing"], &plan).assert_success().stdout;
    let gather = |more: &[&str]| run("gather", &[&["--allow-missing"], more].concat(), &results);
    let ran = gather(NO_ARGUMENTS).assert_success();
    let summary = ran.records("summary").pop().unwrap();
    let path = summary["final"].as_str().unwrap();
    assert_eq!(
        (summary["entry"].as_str(), std::path::Path::new(path).exists()),
        (Some("2.1"), false)
    );
    let told = format!("{path}: not written, because no frame has a pattern");
    assert_eq!(ran.stderr.matches(&told).count(), 1, "{}", ran.stderr);
    // What was asked for and can't be is a failure.
    let ran = gather(&["--export", "xye"]);
    let failures = ran.records("fail");
    assert_eq!((ran.status, failures.len()), (1, 1), "{}", ran.stderr);
    assert!(
        failures[0]["error"].as_str().unwrap().contains("no frame has a pattern"),
        "{}",
        failures[0]
    );
}

#[test]
fn a_plan_of_many_tasks_names_each_absent_frame_once_and_gather_all_of_them() {
    let mut workspace = Workspace::new(&small_options());
    let files = 5000;
    let scan = scan_with_every_second_image_missing(&workspace.scans, files);
    workspace.scans = format!("{scan}\n");
    for by in ["file", "frames=2", "frames=1", "workers=5000", "bytes=1500"] {
        let plan = workspace.plan(by, &["--by", by]);
        let tasks: Vec<Value> =
            plan.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(tasks.len() as u64, files, "{by}");
        let longest = plan.lines().map(str::len).max().unwrap();
        assert!(longest < 3000, "{by}: a task of {longest} bytes");
        let own: Vec<&Value> =
            tasks.iter().flat_map(|task| task["absent"].as_array().unwrap()).collect();
        assert_eq!(json!(own), scan["absent"], "{by}");
        assert!(tasks.iter().all(|task| task["absent_elsewhere"] == files - 1), "{by}");
        if by != "file" {
            continue;
        }
        for reverse in [false, true] {
            let mut results: Vec<String> =
                tasks.iter().map(|task| format!("{}\n", result_without_frames(task))).collect();
            if reverse {
                results.reverse();
            }
            let gathered = run("gather", NO_ARGUMENTS, &results.concat());
            assert!(!gathered.records("summary").is_empty(), "{:.2000}", gathered.stderr);
            let summary = gathered.records("summary").remove(0);
            let (known, others): (Vec<Value>, Vec<Value>) = summary["missing"]
                .as_array()
                .unwrap()
                .iter()
                .cloned()
                .partition(|entry| entry["kind"] != "not_integrated");
            assert_eq!(json!(known), scan["absent"]);
            assert_eq!(others[0]["range"], json!([[0, 2 * files - 1, 2]]), "those with a file");
        }
    }
}

#[test]
fn one_task_of_a_scan_loses_no_absent_frames_that_parts_and_the_final_know() {
    for flags in [&["--keep-parts"][..], &[]] {
        let workspace = Workspace::new(&Options {
            scans: 0,
            defects: vec![Defect::MissingFile],
            ..small_options()
        });
        let results =
            run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &["--by", "frames=4"])).stdout;
        let summary = run("gather", flags, &results).records("summary").remove(0);
        assert_eq!(summary["missing"][0]["range"], json!([[7, 14]]));
        let lines: Vec<&str> =
            results.lines().filter(|line| line.contains("\"type\":\"result\"")).collect();
        assert!(lines.len() > 3, "{results}");
        for line in &lines {
            let again = run("gather", flags, &format!("{line}\n")).records("summary").remove(0);
            assert_eq!(again["missing"], summary["missing"], "{line}");
        }
        let root = workspace.path("out");
        if !flags.is_empty() {
            std::fs::remove_file(summary["final"].as_str().unwrap()).unwrap();
            let early =
                run("gather", &["--complete-only", "--keep-parts"], &format!("{}\n", lines[0]));
            let early = early.records("summary").remove(0);
            assert_eq!(
                (&early["missing"], &early["up_to_date"]),
                (&summary["missing"], &true.into()),
                "by the parts"
            );
        }
        let from =
            run("gather", &["--from".as_ref(), root.as_os_str()], "").records("summary").remove(0);
        assert_eq!(from["missing"], summary["missing"]);
    }
}

#[test]
fn the_tasks_that_are_left_tell_of_each_absent_frame_once() {
    let workspace = Workspace::new(&Options {
        scans: 0,
        defects: vec![Defect::MissingFile],
        ..small_options()
    });
    let plan = workspace.plan("out", &["--by", "scan"]);
    let path = workspace.path("plan.jsonl");
    std::fs::write(&path, &plan).unwrap();
    let left =
        run("gather", &["--plan", path.to_str().unwrap(), "--missing", "--task-bytes", "1"], "")
            .assert_success();
    let tasks = left.records("task");
    assert!(tasks.len() > 1);
    let told: Vec<Value> = tasks.iter().filter_map(|task| task.get("absent").cloned()).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0][0]["range"], json!([[7, 14]]));
    let results = run("ai-integrate", NO_ARGUMENTS, &left.stdout).stdout;
    let summary = run("gather", NO_ARGUMENTS, &results).records("summary").remove(0);
    assert_eq!(
        (&summary["missing"][0]["range"], &summary["integrated"]),
        (&json!([[7, 14]]), &17.into())
    );
}

#[test]
fn images_of_which_some_are_missing_are_no_running_scan_to_the_tasks_without_these() {
    let mut workspace = Workspace::new(&Options {
        scans: 0,
        defects: vec![Defect::MissingFile],
        ..small_options()
    });
    let mut scan: Value = serde_json::from_str(&workspace.scans).unwrap();
    for field in ["start_time", "end_time", "end_reason"] {
        scan.as_object_mut().unwrap().shift_remove(field);
    }
    scan["complete"] = false.into();
    workspace.scans = format!("{scan}\n");
    let results =
        run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &["--by", "frames=4"])).stdout;
    for results in [results.as_str(), &results[..=results.find('\n').unwrap()]] {
        let summary = run("gather", NO_ARGUMENTS, results).records("summary").remove(0);
        assert_eq!(summary["scan_state"], "unknown");
    }
}
