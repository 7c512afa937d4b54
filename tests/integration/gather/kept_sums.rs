//! Sums and averages of a final file stay in it, whatever else it is written anew for.

use std::fs;

use hdf5::File;

use crate::support::{NO_ARGUMENTS, Workspace, run, small_options};

/// The number of sums, and of averages, of a final file of one scan.
fn kept(path: &str) -> (usize, usize) {
    let file = File::open(path).expect("a final file");
    let group = file.group("1.1/pilatus_integrate").expect("a group");
    let rows = |name: &str| group.dataset(name).map_or(0, |dataset| dataset.shape()[0]);
    (rows("integrated/signal"), rows("averaged/frames"))
}

#[test]
fn sums_and_averages_outlast_what_else_is_asked_for() {
    let mut workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", NO_ARGUMENTS);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success();
    let flags = ["--keep-sums", "--average", "median,7"];
    let gathered = run("gather", &flags, &results.stdout).assert_success();
    let path = gathered.records("summary")[0]["final"].as_str().expect("a path").to_owned();
    assert_eq!(kept(&path), (24, 4));
    let root = workspace.path("out");
    let again = |flags: &[&str]| {
        run("gather", &[&["--from", root.to_str().unwrap()], flags].concat(), "").assert_success()
    };
    again(&["--layout", "integrator"]);
    assert_eq!(kept(&path), (24, 4));
    again(&["--average", "sum,12"]);
    assert_eq!(kept(&path), (24, 2), "another average");
    again(&["--export", "xye"]);
    assert_eq!(kept(&path), (24, 1), "the mean of all frames, which is exported");

    // A file that was written again: its frames are integrated again, and the sums of all stay.
    let raw = workspace.data.master.parent().unwrap().join("scan0001/pilatus_0000.h5");
    let bytes = fs::read(&raw).unwrap();
    fs::write(&raw, bytes).unwrap();
    let scans = run("scan-find", &[&workspace.data.raw], "").assert_success().stdout;
    workspace.scans = scans;
    let tasks = workspace.plan("out", NO_ARGUMENTS);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success();
    run("gather", NO_ARGUMENTS, &results.stdout).assert_success();
    assert_eq!(kept(&path), (24, 1));
}
