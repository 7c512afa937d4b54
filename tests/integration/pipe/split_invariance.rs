//! However the work is cut, ordered and shared out, the final's data are the same bytes.

use serde_json::Value;

use crate::support::{NO_ARGUMENTS, Workspace, run, small_options};

fn first_digest(summaries: &[Value]) -> String {
    assert_eq!(summaries.len(), 1, "one scan, one summary");
    summaries[0]["data_digest"].as_str().expect("a digest").to_owned()
}

#[test]
fn any_cut_order_and_number_of_threads_gives_the_same_bytes() {
    assert_same_bytes_however_cut(&[]);
}

#[test]
fn frames_that_are_looked_at_whole_give_the_same_bytes_too() {
    assert_same_bytes_however_cut(&[
        "--sigma-clip",
        "3",
        "--error-model",
        "azimuthal",
        "--error",
        "std",
    ]);
    assert_same_bytes_however_cut(&[
        "--median",
        "25,75",
        "--npt-azim",
        "4",
        "--split",
        "full",
        "--monitor",
        "monitor",
    ]);
}

/// Integrates in several ways, with these flags of plan-split.
fn assert_same_bytes_however_cut(flags: &[&str]) {
    let workspace = Workspace::new(&small_options());
    let whole = [&["--by", "scan"], flags].concat();
    let reference = first_digest(
        &workspace.process("all", &whole, &["--threads", "1"]).assert_success().records("summary"),
    );
    let ways: [(&str, &[&str]); 6] = [
        ("file", &["--threads", "2"]),
        ("frames=1", &["--threads", "1", "--engines", "3"]),
        ("frames=5", &["--threads", "3", "--batch-frames", "2"]),
        ("workers=4", &["--threads", "2", "--batch-frames", "7"]),
        ("bytes=1M", &["--threads", "2", "--engines", "2"]),
        ("bytes=100K", &["--threads", "1", "--batch-frames", "1"]),
    ];
    for (number, (by, integrate)) in ways.iter().enumerate() {
        let out = format!("out{number}");
        let tasks = workspace.plan(&out, &[&["--by", by], flags].concat());
        // Any order: the last task first, every third before the others.
        let mut lines: Vec<&str> = tasks.lines().rev().collect();
        lines.sort_by_key(|line| line.len() % 3);
        let results = run("ai-integrate", integrate, &(lines.join("\n") + "\n")).assert_success();
        let gathered = run("gather", NO_ARGUMENTS, &results.stdout).assert_success();
        assert_eq!(first_digest(&gathered.records("summary")), reference, "--by {by}");
    }
}

#[test]
fn the_plan_depends_on_its_input_and_options_alone() {
    let workspace = Workspace::new(&small_options());
    assert_eq!(
        workspace.plan("out", &["--by", "frames=3"]),
        workspace.plan("out", &["--by", "frames=3"])
    );
}

#[test]
fn a_rerun_with_another_cut_integrates_only_what_is_not_covered() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "frames=8"]);
    let first: Vec<&str> = tasks.lines().take(2).collect();
    run("ai-integrate", NO_ARGUMENTS, &(first.join("\n") + "\n")).assert_success();
    let rerun = run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &["--by", "frames=6"]))
        .assert_success();
    let results = rerun.records("result");
    let skipped: Vec<bool> =
        results.iter().map(|result| result["skipped"].as_bool().unwrap()).collect();
    assert_eq!(skipped, [true, true, false, false]);
    // Frames 16 and 17 were covered by nobody, 12 to 15 were: only two of the third task's six are
    // read.
    let read = results[2]["read_bytes"].as_u64().unwrap();
    let whole = results[3]["read_bytes"].as_u64().unwrap();
    assert!(read < whole / 2, "{read} of {whole} bytes");
    let gathered = run("gather", NO_ARGUMENTS, &rerun.stdout).assert_success();
    let fresh = workspace.process("fresh", &["--by", "scan"], &[]).assert_success();
    assert_eq!(first_digest(&gathered.records("summary")), first_digest(&fresh.records("summary")));
    assert_eq!(gathered.records("summary")[0]["complete"], true);
}

#[test]
fn a_second_run_finds_all_done_in_the_final() {
    let workspace = Workspace::new(&small_options());
    let first = workspace.process("out", &[], &[]).assert_success();
    let again = run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &["--by", "frames=5"]))
        .assert_success();
    assert!(again.records("result").iter().all(|result| result["skipped"] == true));
    let gathered = run("gather", NO_ARGUMENTS, &again.stdout).assert_success();
    assert_eq!(first_digest(&gathered.records("summary")), first_digest(&first.records("summary")));
}

#[test]
fn a_changed_recipe_or_source_makes_the_affected_parts_stale_and_no_others() {
    let mut workspace = Workspace::new(&small_options());
    run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &["--by", "file"])).assert_success();
    let finer = run(
        "ai-integrate",
        NO_ARGUMENTS,
        &workspace.plan("out", &["--by", "file", "--unit", "2th_deg"]),
    )
    .assert_success();
    assert!(finer.records("result").iter().all(|result| result["skipped"] == false));
    let touched = &workspace.data.lima[0][1];
    let bytes = std::fs::read(touched).unwrap();
    std::fs::write(touched, bytes).unwrap();
    workspace.scans = run("scan-find", &[&workspace.data.raw], "").assert_success().stdout;
    let rerun = run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &["--by", "file"]))
        .assert_success();
    let skipped: Vec<bool> =
        rerun.records("result").iter().map(|result| result["skipped"] == true).collect();
    assert_eq!(skipped, [true, false, true, true]);
}

#[test]
fn one_flipped_byte_in_a_part_redoes_that_part_and_nothing_else() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "file"]);
    run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success();
    let parts = workspace.parts("out");
    assert_eq!(parts.len(), 4);
    let length = std::fs::metadata(&parts[2]).unwrap().len() as usize;
    for at in [3, 100, 600, length / 3, length / 2, length - 1] {
        let mut bytes = std::fs::read(&parts[2]).unwrap();
        bytes[at] ^= 0x10;
        std::fs::write(&parts[2], bytes).unwrap();
        let rerun = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success();
        let skipped: Vec<bool> =
            rerun.records("result").iter().map(|result| result["skipped"] == true).collect();
        assert_eq!(skipped, [true, true, false, true], "byte {at}");
        assert!(
            rerun.stderr.contains("00000014-00000020.h5"),
            "byte {at}: the damaged part is named: {}",
            rerun.stderr
        );
    }
}
