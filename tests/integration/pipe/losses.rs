//! Nothing is lost in silence: what is not there is NaN with a reason, never zero.

use hdf5::File;
use sample::{Defect, Options};
use serde_json::Value;

use crate::support::{NO_ARGUMENTS, Outcome, Workspace, open_hdf5_to_write, run, small_options};

fn workspace_with_defect(defect: Defect) -> Workspace {
    Workspace::new(&Options { scans: 0, defects: vec![defect], ..small_options() })
}

/// The final of the only summary: whether each row is all NaN, and the rows' statuses.
fn read_rows(gathered: &Outcome) -> (Vec<bool>, Vec<u8>) {
    let summary = &gathered.records("summary")[0];
    let file = File::open(summary["final"].as_str().unwrap()).unwrap();
    let group = format!(
        "/{0}/{1}_integrate/integrated",
        summary["entry"].as_str().unwrap(),
        summary["detector"].as_str().unwrap()
    );
    let intensity = file.dataset(&format!("{group}/intensity")).unwrap().read_2d::<f32>().unwrap();
    let status = file.dataset(&format!("{group}/frame_status")).unwrap().read_raw::<u8>().unwrap();
    (
        intensity.rows().into_iter().map(|row| row.iter().all(|value| value.is_nan())).collect(),
        status,
    )
}

fn list_missing(summary: &Value) -> Vec<(String, String)> {
    let all = summary["missing"].as_array().cloned().unwrap_or_default();
    all.iter()
        .map(|gap| (gap["range"].to_string(), gap["reason"].as_str().unwrap().to_owned()))
        .collect()
}

#[test]
fn a_missing_lima_file_is_nan_rows_that_were_known_before() {
    let workspace = workspace_with_defect(Defect::MissingFile);
    let gathered = workspace.process("out", &[], &[]);
    let (nan, status) = read_rows(&gathered);
    let expected: Vec<bool> = (0..24).map(|frame| (7..14).contains(&frame)).collect();
    assert_eq!(nan, expected);
    assert!(
        status.iter().zip(&expected).all(|(&status, &lost)| status == if lost { 2 } else { 0 }),
        "{status:?}"
    );
    assert_eq!(
        gathered.status, 1,
        "what scan-find knew is a loss all the same: {}",
        gathered.stderr
    );
    let summary = &gathered.records("summary")[0];
    assert_eq!(
        (&summary["complete"], &summary["up_to_date"]),
        (&false.into(), &true.into()),
        "{summary}"
    );
    assert!(
        workspace.parts("out").is_empty(),
        "no rerun adds anything: the final answers for all frames"
    );
}

#[test]
fn an_unwritten_chunk_is_a_nan_row() {
    let workspace = workspace_with_defect(Defect::UnwrittenChunk);
    let (nan, status) = read_rows(&workspace.process("out", &[], &[]));
    assert_eq!(nan.iter().filter(|&&nan| nan).count(), 1);
    assert_eq!(status[12], 2);
}

#[test]
fn a_truncated_chunk_is_a_nan_row_and_a_failure() {
    let workspace = workspace_with_defect(Defect::TruncatedChunk);
    let integrated = run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &[]));
    assert_eq!(integrated.status, 1);
    let fails = integrated.records("fail");
    assert_eq!(fails.len(), 1);
    assert!(fails[0]["error"].as_str().unwrap().contains("frame 12: "), "{}", fails[0]);
    let gathered = run("gather", NO_ARGUMENTS, &integrated.stdout);
    assert_eq!(gathered.status, 1);
    let (nan, status) = read_rows(&gathered);
    assert_eq!((nan[12], status[12]), (true, 4));
    assert_eq!(nan.iter().filter(|&&nan| nan).count(), 1);
    let summary = &gathered.records("summary")[0];
    assert_eq!(summary["complete"], false);
    assert_eq!(list_missing(summary).len(), 1);
}

#[test]
fn an_aborted_scan_keeps_its_frames() {
    let workspace = workspace_with_defect(Defect::Aborted);
    let gathered = workspace.process("out", &["--monitor", "monitor"], &[]);
    let summary = &gathered.records("summary")[0];
    let integrated = summary["integrated"].as_u64().unwrap();
    assert!(integrated == 12 && gathered.status == 0, "{summary} {}", gathered.stderr);
    let words = ["complete", "up_to_date", "scan_state"].map(|word| summary[word].to_string());
    assert_eq!(words, ["false", "true", "\"aborted\""]);
    let never_taken = summary["missing"][0].to_string();
    assert_eq!(
        never_taken,
        r#"{"range":[[12,24]],"kind":"never_taken","reason":"never taken: the scan ended by USER_ABORT"}"#
    );
}

#[test]
fn a_known_absence_is_a_failure_unless_it_is_allowed() {
    let workspace = workspace_with_defect(Defect::MissingFile);
    let status = |flags: &[&str]| run("ai-integrate", flags, &workspace.plan("out", &[])).status;
    assert_eq!(
        [status(&[]), status(&["--strict"]), status(&["--allow-missing", "--strict"])],
        [1; 3]
    );
    assert_eq!([status(&["--allow-missing"]), status(&["--strict", "--allow-missing"])], [0; 2]);
}

#[test]
fn a_source_that_vanishes_or_changes_after_scan_find_is_a_failure_that_can_be_tried_again() {
    let workspace = Workspace::new(&small_options());
    let (away, kept) = (&workspace.data.lima[0][1], workspace.path("kept.h5"));
    std::fs::rename(away, &kept).unwrap();
    std::fs::write(&workspace.data.lima[0][2], b"not what it was").unwrap();
    let integrated = run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &[]));
    assert_eq!(integrated.status, 1);
    let fails = integrated.records("fail");
    assert_eq!(fails.len(), 2, "{}", integrated.stdout);
    assert!(fails.iter().all(|fail| fail["retryable"] == true));
    let (nan, status) = read_rows(&run("gather", NO_ARGUMENTS, &integrated.stdout));
    assert!((7..14).all(|frame| nan[frame] && status[frame] == 3), "{status:?}");
    assert!((14..21).all(|frame| nan[frame] && status[frame] == 6), "{status:?}");
    // Back in its place, with its size and time: the rerun integrates those frames and no others.
    std::fs::rename(&kept, away).unwrap();
    let rerun = run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &[]));
    let result = &rerun.records("result")[0];
    assert_eq!(result["done"].to_string(), "[[0,14],[21,24]]");
}

#[test]
fn what_an_earlier_run_found_in_a_file_gives_way_to_what_scan_find_says_now() {
    let mut workspace = workspace_with_defect(Defect::TruncatedChunk);
    let tasks = workspace.plan("out", &[]);
    let files: Vec<_> = workspace.data.lima.iter().flatten().cloned().collect();
    let kept = workspace.path("kept.h5");
    std::fs::rename(&files[2], &kept).unwrap();
    std::fs::write(&files[2], b"not what it was").unwrap();
    let integrated = run("ai-integrate", NO_ARGUMENTS, &tasks);
    let gathered = run("gather", NO_ARGUMENTS, &integrated.stdout);
    let kinds = |gathered: &Outcome| {
        let summary = gathered.records("summary").remove(0);
        let entries = summary["missing"].as_array().unwrap().iter();
        let mut lines: Vec<String> =
            entries.map(|lost| format!("{} {}", lost["kind"], lost["range"])).collect();
        lines.sort();
        lines
    };
    assert_eq!(kinds(&gathered), [r#""corrupt" [[12,13]]"#, r#""source_changed" [[14,21]]"#]);
    for file in &files[1..3] {
        std::fs::remove_file(file).unwrap();
    }
    workspace.find_scans();
    // Frames 7 to 13 have patterns, but for the damaged one.
    let integrated = run("ai-integrate", &["--allow-missing"], &workspace.plan("out", &[]));
    let gathered = run("gather", &["--allow-missing"], &integrated.stdout);
    let found = kinds(&gathered);
    assert!(
        found.iter().all(|line| line.starts_with(r#""missing""#)) && !found.is_empty(),
        "{found:?}"
    );
    assert_eq!([integrated.status, gathered.status], [0; 2], "{}", gathered.stderr);
    let (nan, status) = read_rows(&gathered);
    assert_eq!([&status[12..13], &status[14..21]].concat(), [2; 8]);
    assert!(nan[12] && nan[14..21].iter().all(|nan| *nan));
    // Back in its place as it was, it is integrated.
    std::fs::rename(&kept, &files[2]).unwrap();
    workspace.find_scans();
    let integrated = run("ai-integrate", &["--allow-missing"], &workspace.plan("out", &[]));
    let gathered = run("gather", &["--allow-missing"], &integrated.stdout);
    let (_, status) = read_rows(&gathered);
    assert_eq!(status[14..21], [0; 7], "{}", integrated.stdout);
}

#[test]
fn a_dead_ai_integrate_leaves_an_incomplete_summary() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "file"]);
    let two: Vec<&str> = tasks.lines().take(2).collect();
    let results = run("ai-integrate", NO_ARGUMENTS, &(two.join("\n") + "\n")).assert_success();
    let gathered = run("gather", NO_ARGUMENTS, &results.stdout);
    let summary = &gathered.records("summary")[0];
    assert_eq!(
        (summary["complete"].as_bool(), summary["integrated"].as_u64(), gathered.status),
        (Some(false), Some(14), 1)
    );
    let (nan, status) = read_rows(&gathered);
    assert_eq!(nan.len(), 24);
    assert!((14..24).all(|frame| nan[frame] && status[frame] == 1), "{status:?}");
    // What the plan still lacks can be asked for, and completes it.
    let plan = workspace.path("plan.jsonl");
    std::fs::write(&plan, &tasks).unwrap();
    let missing = run(
        "gather",
        &[
            "--plan",
            plan.to_str().unwrap(),
            "--missing",
            "--from",
            workspace.path("out").to_str().unwrap(),
        ],
        "",
    );
    let rest = run("ai-integrate", NO_ARGUMENTS, &missing.stdout).assert_success();
    assert_eq!(rest.records("result").len(), 2);
    let whole = run("gather", NO_ARGUMENTS, &rest.stdout).assert_success();
    let fresh = workspace.process("fresh", &[], &[]).assert_success();
    assert_eq!(
        whole.records("summary")[0]["data_digest"],
        fresh.records("summary")[0]["data_digest"]
    );
}

#[test]
fn a_monitor_that_is_zero_or_missing_is_nan_with_that_reason() {
    let workspace = Workspace::new(&small_options());
    let master = open_hdf5_to_write(&workspace.data.master);
    let counter = master.dataset("/1.1/measurement/monitor").unwrap();
    let mut values = counter.read_raw::<f64>().unwrap();
    (values[3], values[5]) = (0.0, f64::NAN);
    counter.write_raw(&values).unwrap();
    drop((counter, master));
    let flags = ["--monitor", "monitor", "--monitor-reference", "mean"];
    let integrated = run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &flags));
    let gathered = run("gather", NO_ARGUMENTS, &integrated.stdout);
    assert_eq!(
        (integrated.status, gathered.status),
        (1, 1),
        "frames that should have a pattern have none"
    );
    let (nan, status) = read_rows(&gathered);
    for frame in 0..24 {
        assert_eq!(
            (nan[frame], status[frame]),
            if [3, 5].contains(&frame) { (true, 5) } else { (false, 0) },
            "{frame}"
        );
    }
    assert_eq!(run("gather", &["--allow-missing"], &integrated.stdout).status, 0);
    let rerun = run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &flags));
    assert_eq!(
        rerun.records("result")[0]["skipped"],
        true,
        "the scan has ended: it will have no other monitor"
    );
    assert_eq!(rerun.status, 1, "the frames have no pattern all the same");
    let unknown =
        run("ai-integrate", NO_ARGUMENTS, &workspace.plan_without_counter("other", "mondio"));
    assert_eq!(unknown.status, 1);
    assert!(
        unknown.stderr.contains("mondio") && unknown.stderr.contains("monitor"),
        "{}",
        unknown.stderr
    );
}

/// Changes the scan record into one of a scan that has not ended yet.
fn mark_as_running(workspace: &mut Workspace) {
    let mut scan: Value = serde_json::from_str(&workspace.scans).unwrap();
    let fields = scan.as_object_mut().unwrap();
    fields.remove("end_time");
    fields.insert("complete".to_owned(), false.into());
    workspace.scans = format!("{scan}\n");
}

#[test]
fn a_monitor_that_is_short_while_the_scan_goes_on_is_read_again() {
    let mut workspace = Workspace::new(&small_options());
    mark_as_running(&mut workspace);
    let values = {
        let master = open_hdf5_to_write(&workspace.data.master);
        let counter = master.dataset("/1.1/measurement/monitor").unwrap();
        let values = counter.read_raw::<f64>().unwrap();
        let so_far: Vec<f64> = (0..)
            .zip(&values)
            .map(|(frame, value)| if frame < 20 { *value } else { f64::NAN })
            .collect();
        counter.write_raw(&so_far).unwrap();
        values
    };
    let flags = ["--monitor", "monitor", "--monitor-reference", "1000"];
    let (nan, status) = read_rows(&workspace.process("out", &flags, &[]));
    assert!(
        (0..24)
            .all(|frame| (nan[frame], status[frame])
                == if frame < 20 { (false, 0) } else { (true, 7) }),
        "{status:?}"
    );
    open_hdf5_to_write(&workspace.data.master)
        .dataset("/1.1/measurement/monitor")
        .unwrap()
        .write_raw(&values)
        .unwrap();
    let rerun = run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &flags)).assert_success();
    assert_eq!(rerun.records("result")[0]["skipped"], false);
    let (nan, status) = read_rows(&run("gather", NO_ARGUMENTS, &rerun.stdout));
    assert!((0..24).all(|frame| !nan[frame] && status[frame] == 0), "{status:?}");
}
