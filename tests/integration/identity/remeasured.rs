//! A scan that is measured again, in the same files.

use std::fs;
use std::str::FromStr;

use hdf5::types::VarLenUnicode;
use sample::Options;
use serde_json::Value;

use crate::support::{NO_ARGUMENTS, Outcome, Workspace, open_hdf5_to_write, run, small_options};

#[test]
fn a_scan_that_is_measured_again_in_its_place_replaces_the_first_within_a_run() {
    let mut workspace = Workspace::new(&small_options());
    let first = workspace.scans.clone();
    let integrate = |tasks: &str| run("ai-integrate", NO_ARGUMENTS, tasks).assert_success().stdout;
    let early = integrate(&workspace.plan("out", &[]));
    run("gather", NO_ARGUMENTS, &early).assert_success();

    // Measured again: another start, other frames, the same names.
    let other = tempfile::tempdir().unwrap();
    let again = sample::write(other.path(), &Options { mean: 9.0, ..small_options() }).unwrap();
    let root = open_hdf5_to_write(&again.master);
    let start = hdf5::types::VarLenUnicode::from_str("2026-03-05T10:20:30+01:00").unwrap();
    root.unlink("/1.1/start_time").unwrap();
    let group = root.group("/1.1").unwrap();
    group
        .new_dataset::<VarLenUnicode>()
        .create("start_time")
        .unwrap()
        .write_scalar(&start)
        .unwrap();
    drop((group, root));
    for (from, to) in again.lima[0].iter().zip(&workspace.data.lima[0]) {
        fs::copy(from, to).unwrap();
    }
    fs::copy(&again.master, &workspace.data.master).unwrap();
    let second = run("scan-find", &[&workspace.data.raw], "").assert_success().stdout;
    let id = |scans: &str| serde_json::from_str::<Value>(scans.trim()).unwrap()["id"].clone();
    assert_ne!(id(&first), id(&second), "another start is another scan");

    workspace.scans.clone_from(&second);
    let expected = integrate(&workspace.plan("alone", &[]));
    let expected = run("gather", NO_ARGUMENTS, &expected).assert_success();
    workspace.scans = first + &second;
    let tasks = workspace.plan("out", &[]);
    let late: String = tasks
        .lines()
        .filter(|line| line.contains(id(&second).as_str().unwrap()))
        .map(|line| line.to_owned() + "\n")
        .collect();
    assert!(!late.is_empty());
    let gathered = run("gather", NO_ARGUMENTS, &(early + &integrate(&late)));
    let digest =
        |outcome: &Outcome| outcome.records("summary").pop().unwrap()["data_digest"].clone();
    assert_eq!(digest(&gathered), digest(&expected), "{}", gathered.stderr);
    // The patterns of the first are lost, and it is told.
    let why = "the scan was measured again in the same file";
    assert!(gathered.status == 1 && gathered.stderr.contains(why), "{}", gathered.stderr);
    let last = run("gather", &["--from", workspace.path("out").to_str().unwrap()], "");
    assert_eq!((last.status, digest(&last)), (0, digest(&expected)), "{}", last.stderr);
}
