//! Records that no scan-find and no plan-split wrote: refused in a line, at once.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{NO_ARGUMENTS, Outcome, Workspace, run, small_options};

const HUGE: u64 = 1_000_000_000_000_000_000;

/// Nothing may take long over a record that can't be.
fn assert_refused_quickly(ran: impl FnOnce() -> Outcome, about: &str) -> String {
    let began = Instant::now();
    let ran = ran();
    assert!(began.elapsed() < Duration::from_secs(20), "{about} took {:?}", began.elapsed());
    assert_eq!(ran.status, 1, "{about}: {}", ran.stderr);
    assert_eq!(ran.records("fail").len(), 1, "{about}: {}", ran.stdout);
    assert_eq!(ran.stderr.lines().count(), 1, "{about}: {}", ran.stderr);
    ran.stderr
}

/// Returns values that would hang, overflow or take all memory if they were believed, each with the
/// field that holds it.
fn absurd_values() -> Vec<(&'static str, Value)> {
    vec![
        ("/frames", json!(HUGE)),
        ("/shape", json!([1u64 << 40, 1u64 << 40])),
        ("/sources/0/frames", json!([[0, HUGE]])),
        ("/sources/0/frames", json!([[0, u64::MAX, 1u64 << 63]])),
        ("/sources/0/frames", json!([[0, u64::MAX], [0, u64::MAX]])),
        ("/sources/0/frames", json!([[7, 0]])),
        ("/sources/0/frames", json!([[0, 5], [3, 5]])),
        ("/sources/0/rows", json!([[0, 3]])),
        ("/absent", json!([{"range": [[0, HUGE, 3]], "reason": "lost"}])),
    ]
}

fn with_field(record: &str, field: &str, value: Value) -> String {
    let mut record: Value = serde_json::from_str(record).unwrap();
    match record.pointer_mut(field) {
        Some(there) => *there = value,
        None => record[field.trim_start_matches('/')] = value,
    }
    format!("{record}\n")
}

#[test]
fn absurd_numbers_are_refused_by_all_who_read_them() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "scan"]);
    let (poni, out) = (workspace.data.poni.to_str().unwrap(), workspace.path("out"));
    for (field, value) in absurd_values() {
        let about = format!("{field} = {value}");
        let plan = ["--poni", poni, "--out", out.to_str().unwrap(), "--by", "frames=1"];
        assert_refused_quickly(
            || run("plan-split", &plan, &with_field(&workspace.scans, field, value.clone())),
            &about,
        );
        assert_refused_quickly(
            || run("ai-integrate", NO_ARGUMENTS, &with_field(&tasks, field, value.clone())),
            &about,
        );
    }
    for range in [json!([[0, HUGE]]), json!([[0, HUGE, 7]]), json!([[0, u64::MAX, 1u64 << 63]])] {
        assert_refused_quickly(
            || run("ai-integrate", NO_ARGUMENTS, &with_field(&tasks, "/range", range.clone())),
            &range.to_string(),
        );
    }
}

#[test]
fn an_id_leads_nowhere_else_and_spoils_no_other_task() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "scan"]);
    for (field, value) in
        [("/scan", "../../../x"), ("/scan", "/etc"), ("/scan", ""), ("/recipe_digest", "../..")]
    {
        let input = with_field(&tasks, field, json!(value)) + &tasks;
        let ran = run("ai-integrate", NO_ARGUMENTS, &input);
        assert_eq!(
            (ran.status, ran.records("fail").len(), ran.records("result").len()),
            (1, 1, 1),
            "{}",
            ran.stderr
        );
    }
    let long = "5".repeat(600);
    assert_refused_quickly(
        || run("ai-integrate", NO_ARGUMENTS, &with_field(&tasks, "/scan", json!(long))),
        "a long id",
    );
}

#[test]
fn rows_beyond_the_file_and_frames_beyond_the_scan_are_told_once() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "scan"]);
    let beyond = run(
        "ai-integrate",
        NO_ARGUMENTS,
        &with_field(&tasks, "/sources/0/rows", json!([[100, 107]])),
    );
    assert_eq!(beyond.status, 1);
    let fails = beyond.records("fail");
    assert_eq!(fails.len(), 1, "{}", beyond.stderr);
    assert!(
        fails[0]["error"].as_str().unwrap().contains("frames 0 to 6: no row 100"),
        "{}",
        fails[0]
    );
    assert_eq!(beyond.records("result")[0]["done"], json!([[7, 24]]));
    let orphans =
        run("ai-integrate", NO_ARGUMENTS, &with_field(&tasks, "/range", json!([[20, 30]])));
    assert!(
        orphans.stderr.contains("frames 24 to 29: no file of the task has them"),
        "{}",
        orphans.stderr
    );
    assert_eq!(
        orphans.records("result")[0]["missing"],
        json!([{"range": [[24, 30]], "kind": "missing", "reason": "no source"}])
    );
}

#[test]
fn an_unknown_dtype_and_files_that_are_none_are_failures_of_their_own() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "scan"]);
    let error = assert_refused_quickly(
        || {
            run(
                "ai-integrate",
                &["--progress", "none"],
                &with_field(&tasks, "/dtype", json!("complex")),
            )
        },
        "dtype",
    );
    assert!(error.contains("complex") && error.contains("u8 i8 u16"), "{error}");
    let error = assert_refused_quickly(
        || {
            run(
                "ai-integrate",
                NO_ARGUMENTS,
                &with_field(&tasks, "/sources/0/file", json!("relative/x.h5")),
            )
        },
        "file",
    );
    assert!(error.contains("expected an absolute path"), "{error}");
    for (file, why) in
        [("/proc/nowhere/x.h5", "No such file"), ("/tmp", "changed"), ("/dev/zero", "changed")]
    {
        let ran =
            run("ai-integrate", NO_ARGUMENTS, &with_field(&tasks, "/sources/0/file", json!(file)));
        assert_eq!((ran.status, ran.records("result").len()), (1, 1), "{file}");
        assert!(ran.stderr.contains(why), "{file}: {}", ran.stderr);
        assert_eq!(ran.records("fail")[0]["retryable"], true);
    }
}

#[test]
fn paths_of_any_bytes_are_integrated() {
    use std::os::unix::ffi::OsStrExt as _;
    let workspace = Workspace::new(&small_options());
    let odd =
        workspace.path("x").with_file_name(std::ffi::OsStr::from_bytes(b"caf\xe9 \"$1\"\n%j"));
    std::fs::rename(&workspace.data.raw, &odd).unwrap();
    let scans = run("scan-find", &[&odd], "").assert_success().stdout;
    let out = odd.with_file_name(std::ffi::OsStr::from_bytes(b"out\n\xff"));
    let mut plan =
        vec!["--poni".as_ref(), workspace.data.poni.as_os_str(), "--out".as_ref(), out.as_os_str()];
    plan.extend(["--mask".as_ref(), workspace.data.mask.as_os_str()]);
    let tasks = run("plan-split", &plan, &scans).assert_success();
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks.stdout).assert_success();
    assert_eq!(results.records("result")[0]["done"], json!([[0, 24]]));
    assert_eq!(super::parts::list_parts(&out).len(), 1);
}
