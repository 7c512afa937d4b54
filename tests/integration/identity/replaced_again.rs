//! Scans that take the place of each other within one run.

use super::uniform_frames::{RawDirectory, StorageKind, read_counts, with_pattern};
use crate::support::{NO_ARGUMENTS, run};

/// The records of two series that were measured in one place, one after the other, and the directory.
fn two_series() -> (RawDirectory, [String; 2]) {
    let place = RawDirectory::new();
    let scans = [[5, 6], [8, 9]].map(|counts| {
        let raw = place.write(StorageKind::Series, "raw", &counts);
        run("scan-find", &[&raw], "").assert_success().stdout
    });
    (place, scans)
}

#[test]
fn the_later_of_two_scans_of_a_run_has_a_final_that_is_not_written_yet() {
    let (place, scans) = two_series();
    let plan = place.plan_scans(&scans.concat(), "out", &[]).assert_success();
    let results = run("ai-integrate", &["--threads", "1"], &plan.stdout);
    let gathered = run("gather", NO_ARGUMENTS, &results.stdout);
    let last = gathered.records("summary").pop().expect("a summary");
    let path = last["final"].as_str().unwrap();
    assert_eq!(read_counts(path), with_pattern(&[8, 9]), "{}", gathered.stderr);
    assert!(!gathered.stderr.contains("--replace"), "{}", gathered.stderr);
    let again = place.plan_scans(&scans[1], "out", &[]).assert_success();
    let results = run("ai-integrate", NO_ARGUMENTS, &again.stdout).assert_success();
    run("gather", NO_ARGUMENTS, &results.stdout).assert_success();
}

#[test]
fn a_scan_that_comes_back_to_its_place_within_a_run_has_the_final_again() {
    let (place, scans) = two_series();
    let raw = place.write(StorageKind::Series, "raw", &[5, 6]);
    let first = run("scan-find", &[&raw], "").assert_success().stdout;
    let told = [&scans[0], &scans[1], &first].map(String::as_str).concat();
    let plan = place.plan_scans(&told, "out", &[]).assert_success();
    let ids: Vec<_> = plan.records("task").iter().map(|task| task["scan"].clone()).collect();
    assert_eq!((ids.len(), &ids[0]), (3, &ids[2]), "{}", plan.stdout);
    let results = run("ai-integrate", &["--threads", "1"], &plan.stdout);
    let gathered = run("gather", NO_ARGUMENTS, &results.stdout);
    let last = gathered.records("summary").pop().expect("a summary");
    let path = last["final"].as_str().unwrap();
    assert_eq!(read_counts(path), with_pattern(&[5, 6]), "{}", gathered.stderr);
}
