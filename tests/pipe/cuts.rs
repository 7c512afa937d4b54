//! However the work is cut, ordered and shared out, the final's data are the same bytes.

use serde_json::Value;

use crate::site::{NOTHING, Site, run, small};

fn digest(summaries: &[Value]) -> String {
    assert_eq!(summaries.len(), 1, "one scan, one summary");
    summaries[0]["data_digest"].as_str().expect("a digest").to_owned()
}

#[test]
fn any_cut_order_and_number_of_threads_gives_the_same_bytes() {
    same_bytes(&[]);
}

#[test]
fn frames_that_are_looked_at_whole_give_the_same_bytes_too() {
    same_bytes(&["--sigma-clip", "3", "--error-model", "azimuthal", "--error", "std"]);
    same_bytes(&["--median", "25,75", "--npt-azim", "4", "--split", "full", "--monitor", "monitor"]);
}

/// Integrates in several ways, with these flags of plan-split.
fn same_bytes(flags: &[&str]) {
    let site = Site::new(&small());
    let whole = [&["--by", "scan"], flags].concat();
    let reference = digest(&site.process("all", &whole, &["--threads", "1"]).good().records("summary"));
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
        let tasks = site.plan(&out, &[&["--by", by], flags].concat());
        // Any order: the last task first, every third before the others.
        let mut lines: Vec<&str> = tasks.lines().rev().collect();
        lines.sort_by_key(|line| line.len() % 3);
        let results = run("ai-integrate", integrate, &(lines.join("\n") + "\n")).good();
        let gathered = run("gather", NOTHING, &results.stdout).good();
        assert_eq!(digest(&gathered.records("summary")), reference, "--by {by}");
    }
}

#[test]
fn the_plan_depends_on_its_input_and_options_alone() {
    let site = Site::new(&small());
    assert_eq!(site.plan("out", &["--by", "frames=3"]), site.plan("out", &["--by", "frames=3"]));
}

#[test]
fn a_rerun_with_another_cut_integrates_only_what_is_not_covered() {
    let site = Site::new(&small());
    let tasks = site.plan("out", &["--by", "frames=8"]);
    let first: Vec<&str> = tasks.lines().take(2).collect();
    run("ai-integrate", NOTHING, &(first.join("\n") + "\n")).good();
    let rerun = run("ai-integrate", NOTHING, &site.plan("out", &["--by", "frames=6"])).good();
    let results = rerun.records("result");
    let skipped: Vec<bool> = results.iter().map(|result| result["skipped"].as_bool().unwrap()).collect();
    assert_eq!(skipped, [true, true, false, false]);
    // Frames 16 and 17 were covered by nobody, 12 to 15 were: only two of the third task's six are read.
    let read = results[2]["read_bytes"].as_u64().unwrap();
    let whole = results[3]["read_bytes"].as_u64().unwrap();
    assert!(read < whole / 2, "{read} of {whole} bytes");
    let gathered = run("gather", NOTHING, &rerun.stdout).good();
    let fresh = site.process("fresh", &["--by", "scan"], &[]).good();
    assert_eq!(digest(&gathered.records("summary")), digest(&fresh.records("summary")));
    assert_eq!(gathered.records("summary")[0]["complete"], true);
}

#[test]
fn a_second_run_finds_all_done_in_the_final() {
    let site = Site::new(&small());
    let first = site.process("out", &[], &[]).good();
    let again = run("ai-integrate", NOTHING, &site.plan("out", &["--by", "frames=5"])).good();
    assert!(again.records("result").iter().all(|result| result["skipped"] == true));
    let gathered = run("gather", NOTHING, &again.stdout).good();
    assert_eq!(digest(&gathered.records("summary")), digest(&first.records("summary")));
}

#[test]
fn a_changed_recipe_or_source_makes_the_affected_parts_stale_and_no_others() {
    let mut site = Site::new(&small());
    run("ai-integrate", NOTHING, &site.plan("out", &["--by", "file"])).good();
    let finer = run("ai-integrate", NOTHING, &site.plan("out", &["--by", "file", "--unit", "2th_deg"])).good();
    assert!(finer.records("result").iter().all(|result| result["skipped"] == false));
    let touched = &site.data.lima[0][1];
    let bytes = std::fs::read(touched).unwrap();
    std::fs::write(touched, bytes).unwrap();
    site.scans = run("scan-find", &[&site.data.raw], "").good().stdout;
    let rerun = run("ai-integrate", NOTHING, &site.plan("out", &["--by", "file"])).good();
    let skipped: Vec<bool> = rerun.records("result").iter().map(|result| result["skipped"] == true).collect();
    assert_eq!(skipped, [true, false, true, true]);
}

#[test]
fn one_flipped_byte_in_a_part_redoes_that_part_and_nothing_else() {
    let site = Site::new(&small());
    let tasks = site.plan("out", &["--by", "file"]);
    run("ai-integrate", NOTHING, &tasks).good();
    let parts = site.parts("out");
    assert_eq!(parts.len(), 4);
    let length = std::fs::metadata(&parts[2]).unwrap().len() as usize;
    for at in [3, 100, 600, length / 3, length / 2, length - 1] {
        let mut bytes = std::fs::read(&parts[2]).unwrap();
        bytes[at] ^= 0x10;
        std::fs::write(&parts[2], bytes).unwrap();
        let rerun = run("ai-integrate", NOTHING, &tasks).good();
        let skipped: Vec<bool> = rerun.records("result").iter().map(|result| result["skipped"] == true).collect();
        assert_eq!(skipped, [true, true, false, true], "byte {at}");
        assert!(
            rerun.stderr.contains("00000014-00000020.h5"),
            "byte {at}: the damaged part is named: {}",
            rerun.stderr
        );
    }
}
