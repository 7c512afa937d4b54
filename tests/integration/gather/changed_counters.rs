//! Counters and motors that were written or corrected after a final file was: the final file has
//! what they are now, and so do maps and backgrounds.

use std::fs;
use std::path::Path;

use hdf5::File;

use crate::support::{
    NO_ARGUMENTS, Outcome, Workspace, open_hdf5_to_write, run, small_options, write_text,
};

const FRAMES: usize = 24;

/// Finds the scan, integrates and gathers it.
fn process(workspace: &mut Workspace, flags: &[&str]) -> Outcome {
    workspace.find_scans();
    let integrated = run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", NO_ARGUMENTS));
    run("gather", flags, &integrated.stdout)
}

fn final_file(gathered: &Outcome) -> String {
    gathered.records("summary")[0]["final"].as_str().expect("a path").to_owned()
}

/// Reads a list of the final file, below the entry.
fn read(gathered: &Outcome, name: &str) -> Vec<f64> {
    let file = File::open(final_file(gathered)).expect("a final file");
    file.dataset(&format!("1.1/{name}")).expect(name).read_raw().expect(name)
}

fn counter(gathered: &Outcome, name: &str) -> Vec<f64> {
    read(gathered, &format!("pilatus_integrate/counters/{name}"))
}

/// Replaces a counter of the scan, or adds one.
fn write(master: &Path, name: &str, values: &[f64]) {
    let file = open_hdf5_to_write(master);
    let group = file.group("1.1/measurement").expect("a group");
    if group.link_exists(name) {
        group.unlink(name).expect("unlinked");
    }
    group.new_dataset_builder().with_data(values).create(name).expect("written");
}

/// Replaces a counter of the scan by the first of its values, and returns all.
fn shorten(master: &Path, name: &str, count: usize) -> Vec<f64> {
    let all = File::open(master).expect("a file").dataset(&format!("1.1/measurement/{name}"));
    let all: Vec<f64> = all.expect(name).read_raw().expect(name);
    write(master, name, &all[..count]);
    all
}

/// Adds a number to the values of a counter.
fn add(master: &Path, name: &str, offset: f64) {
    let file = open_hdf5_to_write(master);
    let counter = file.dataset(&format!("1.1/measurement/{name}")).expect(name);
    let values: Vec<f64> = counter.read_raw().expect(name);
    let values: Vec<f64> = values.into_iter().map(|value| value + offset).collect();
    counter.write_raw(&values).expect("written");
}

/// Asserts that gathering again changes nothing.
fn assert_settled(workspace: &mut Workspace, flags: &[&str]) {
    let path = final_file(&process(workspace, flags));
    let written = || fs::metadata(&path).expect("there").modified().expect("a time");
    let before = written();
    process(workspace, flags).assert_success();
    assert_eq!(written(), before);
}

#[test]
fn a_final_of_a_running_scan_gets_the_counters_and_the_end_of_the_scan() {
    let mut workspace = Workspace::new(&small_options());
    let master = &workspace.data.master.clone();
    let all = shorten(master, "rot", 12);
    open_hdf5_to_write(master).group("1.1").expect("a group").unlink("end_time").expect("unlinked");
    let running = process(&mut workspace, NO_ARGUMENTS);
    assert_eq!(counter(&running, "rot").len(), 12);

    // All frames were there before the counters were.
    write(master, "rot", &all);
    assert_eq!(counter(&process(&mut workspace, NO_ARGUMENTS), "rot"), all, "while it runs");

    let file = open_hdf5_to_write(master);
    write_text(&file.group("1.1").expect("a group"), "end_time", "2026-03-04T10:30:30+01:00");
    drop(file);
    let ended = process(&mut workspace, &["--map", "rot,epoch"]).assert_success();
    let file = File::open(final_file(&ended)).expect("a final file");
    assert!(file.group("1.1").expect("an entry").link_exists("end_time"));
    drop(file);
    assert_settled(&mut workspace, NO_ARGUMENTS);
}

#[test]
fn corrected_counters_and_motors_are_copied_again_with_all_else_that_the_final_has() {
    let mut workspace = Workspace::new(&small_options());
    let flags = ["--keep-sums", "--average", "mean"];
    let exports = ["--map", "rot,epoch", "--export", "xye"];
    let before = process(&mut workspace, &[&flags[..], &exports].concat()).assert_success();
    let patterns = read(&before, "pilatus_integrate/integrated/intensity");
    let (rot, average) =
        (counter(&before, "rot"), read(&before, "pilatus_integrate/averaged/intensity"));
    add(&workspace.data.master, "rot", 100.);
    // Without the flags: sums and averages are kept.
    let after = process(&mut workspace, NO_ARGUMENTS).assert_success();
    let told = "its counters changed; exports of the earlier counters: ";
    assert_eq!(after.stderr.matches(told).count(), 1, "{}", after.stderr);
    assert!(after.stderr.contains(".map.h5;"), "{}", after.stderr);
    assert_eq!(counter(&after, "rot"), rot.iter().map(|value| value + 100.).collect::<Vec<_>>());
    assert_eq!(read(&after, "pilatus_integrate/integrated/intensity"), patterns);
    assert_eq!(read(&after, "pilatus_integrate/averaged/intensity"), average);
    assert_settled(&mut workspace, &flags);

    // One that was not there, also with `gather --from`.
    write(&workspace.data.master, "late", &[2.; FRAMES]);
    assert_eq!(counter(&process(&mut workspace, NO_ARGUMENTS), "late"), [2.; FRAMES]);
    add(&workspace.data.master, "late", 2.);
    let root = workspace.path("out");
    let gathered = run("gather", &["--from", root.to_str().expect("a path")], "").assert_success();
    assert_eq!(counter(&gathered, "late"), [4.; FRAMES]);
}

#[test]
fn a_background_with_counters_of_before_is_told_of_until_it_is_gathered_again() {
    let mut workspace = Workspace::new(&sample::Options { scans: 2, ..small_options() });
    process(&mut workspace, NO_ARGUMENTS).assert_success();
    let tasks = workspace.plan("out", NO_ARGUMENTS);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    let of_first: String = results
        .lines()
        .filter(|line| line.contains("/1.1/"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(!of_first.is_empty() && of_first.len() < results.len());
    let background = workspace.path("out/LaB6/LaB6_0001/LaB6_0001_scan0002_pilatus.h5");
    let flags = ["--subtract", background.to_str().expect("a path"), "--subtract-scale", "monitor"];
    let gather = |of: &str| run("gather", &flags, of);
    let told = "counters or motors of its scan were written or corrected since";
    assert!(!gather(&of_first).assert_success().stderr.contains(told));
    let file = open_hdf5_to_write(&workspace.data.master);
    let monitor = file.dataset("2.1/measurement/monitor").expect("a counter");
    let doubled: Vec<f64> =
        monitor.read_raw::<f64>().expect("values").iter().map(|value| value * 2.0).collect();
    monitor.write_raw(&doubled).expect("written");
    drop((monitor, file));
    let outdated = gather(&of_first);
    assert!(outdated.stderr.contains(told) && outdated.status == 1, "{}", outdated.stderr);
    run("gather", NO_ARGUMENTS, &results).assert_success();
    assert!(!gather(&of_first).assert_success().stderr.contains(told));
}

#[test]
fn a_raw_file_that_can_not_be_read_any_more_changes_nothing() {
    let mut workspace = Workspace::new(&small_options());
    let before = process(&mut workspace, NO_ARGUMENTS).assert_success();
    let rot = counter(&before, "rot");
    let root = workspace.path("out");
    let gather = || run("gather", &["--from", root.to_str().expect("a path")], "");
    let master = &workspace.data.master;
    let content = fs::read(master).expect("a file");
    fs::write(master, &content[..content.len() / 2]).expect("written");
    let damaged = gather().assert_success();
    assert!(
        damaged.stderr.contains("its counters and positions are not compared"),
        "{}",
        damaged.stderr
    );
    fs::remove_file(master).expect("removed");
    let gone = gather().assert_success();
    assert_eq!((gone.stderr.as_str(), counter(&gone, "rot")), ("", rot));
}

/// The pipe with two recipes, whose patterns are merged.
fn process_merged(workspace: &mut Workspace, flags: &[&str]) -> Outcome {
    workspace.find_scans();
    let mut results = String::new();
    for (name, range) in [("right", "--azimuth-range=0,90"), ("left", "--azimuth-range=90,180")] {
        let flags = [range, "--recipe-name", name, "--radial-range", "5,40"];
        let integrated = run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &flags));
        results += &integrated.assert_success().stdout;
    }
    run("gather", &[&["--merge", "both"], flags].concat(), &results).assert_success()
}

#[test]
fn a_merged_final_follows_the_counters_and_the_end_of_its_scan() {
    let mut workspace = Workspace::new(&small_options());
    let master = &workspace.data.master.clone();
    let all = shorten(master, "rot", 12);
    open_hdf5_to_write(master).group("1.1").expect("a group").unlink("end_time").expect("unlinked");
    let merged = |gathered: &Outcome| {
        let paths: Vec<String> = gathered
            .records("summary")
            .iter()
            .map(|summary| summary["final"].as_str().expect("a path").to_owned())
            .collect();
        let path = paths.iter().find(|path| path.ends_with("_both.h5"));
        File::open(path.expect("a merged final")).expect("a final file")
    };
    let rot = |file: &File| -> Vec<f64> {
        let counter = file.dataset("1.1/both_integrate/counters/rot").expect("a counter");
        counter.read_raw().expect("numbers")
    };
    assert_eq!(rot(&merged(&process_merged(&mut workspace, NO_ARGUMENTS))).len(), 12);

    write(master, "rot", &all);
    let file = open_hdf5_to_write(master);
    write_text(&file.group("1.1").expect("a group"), "end_time", "2026-03-04T10:30:30+01:00");
    drop(file);
    let file = merged(&process_merged(&mut workspace, NO_ARGUMENTS));
    assert_eq!(rot(&file), all);
    assert!(file.group("1.1").expect("an entry").link_exists("end_time"));
    drop(file);

    add(master, "rot", 0.25);
    let corrected: Vec<f64> = all.iter().map(|value| value + 0.25).collect();
    assert_eq!(rot(&merged(&process_merged(&mut workspace, NO_ARGUMENTS))), corrected);
}
