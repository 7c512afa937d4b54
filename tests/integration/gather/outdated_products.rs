//! Products of a final (exports, maps, subtracted patterns, merged finals) are told to be outdated by what the
//! final holds now: also if it was removed, or a run ended before its warning or before the new export.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::fault_shim::preload;
use crate::support::{
    NO_ARGUMENTS, Outcome, Workspace, capture, open_hdf5_to_write, program, run, small_options,
};

const OUTDATED: &str = "changed; exports of the earlier";

/// Scans, and the final of the first one.
fn scans(scans: usize) -> (Workspace, PathBuf) {
    let workspace = Workspace::new(&sample::Options { scans, ..small_options() });
    let first = final_of(&workspace, "scan0001_pilatus");
    (workspace, first)
}

fn final_of(workspace: &Workspace, name: &str) -> PathBuf {
    workspace.path(&format!("out/LaB6/LaB6_0001/LaB6_0001_{name}.h5"))
}

/// Integrates with these flags of plan-split, and returns the results.
fn integrate(workspace: &Workspace, plan: &[&str]) -> String {
    run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", plan)).assert_success().stdout
}

fn gather_from(workspace: &Workspace, flags: &[&str]) -> Outcome {
    let out = workspace.path("out");
    run("gather", &[&["--from", out.to_str().unwrap()], flags].concat(), "")
}

/// Asserts that gathering tells of this export until it is written again.
fn assert_told_until_written(workspace: &Workspace, export: &Path, flags: &[&str]) {
    for _ in 0..2 {
        let told = gather_from(workspace, NO_ARGUMENTS).stderr;
        assert!(told.contains(OUTDATED) && told.contains(export.to_str().unwrap()), "{told}");
    }
    assert!(!gather_from(workspace, flags).assert_success().stderr.contains(OUTDATED));
    let settled = gather_from(workspace, NO_ARGUMENTS).assert_success().stderr;
    assert!(!settled.contains(OUTDATED), "{settled}");
}

/// Multiplies a counter or motor of a scan by 10.
fn correct(workspace: &Workspace, dataset: &str) {
    let file = open_hdf5_to_write(&workspace.data.master);
    let counter = file.dataset(dataset).unwrap();
    let values: Vec<f64> = counter.read_raw().unwrap();
    let values: Vec<f64> = values.into_iter().map(|value| value * 10.0 + 1.0).collect();
    counter.write_raw(&values).unwrap();
}

#[test]
fn exports_of_a_final_that_was_removed_are_told() {
    let (workspace, path) = scans(1);
    let results = integrate(&workspace, &[]);
    run("gather", &["--export", "xye"], &results).assert_success();
    fs::remove_file(&path).unwrap();
    // The same patterns once more.
    let same = run("gather", NO_ARGUMENTS, &integrate(&workspace, &[])).assert_success();
    assert!(!same.stderr.contains(OUTDATED), "{}", same.stderr);
    fs::remove_file(&path).unwrap();
    let results = integrate(&workspace, &["--valid-max", "9", "--replace"]);
    let other = run("gather", NO_ARGUMENTS, &results).assert_success();
    assert!(other.stderr.contains(OUTDATED), "{}", other.stderr);
    assert_told_until_written(&workspace, &path.with_extension("xye"), &["--export", "xye"]);
}

#[test]
fn exports_are_told_after_a_run_that_ended_before_it_could() {
    let (workspace, path) = scans(1);
    run("gather", &["--export", "xye,csv"], &integrate(&workspace, &[])).assert_success();
    // Somebody's file now, which is not replaced, and ends the run.
    let csv = path.with_extension("csv");
    fs::write(&csv, fs::read_to_string(&csv).unwrap() + "# a note\n").unwrap();
    let results = integrate(&workspace, &["--valid-max", "9", "--replace"]);
    let ended = run("gather", &["--export", "csv", "--fail-fast"], &results);
    assert!(ended.status != 0 && !ended.stderr.contains(OUTDATED), "{}", ended.stderr);
    fs::remove_file(&csv).unwrap();
    assert_told_until_written(&workspace, &path.with_extension("xye"), &["--export", "xye"]);
}

#[test]
fn an_export_that_could_not_be_replaced_stays_outdated() {
    let (workspace, path) = scans(1);
    let exports = ["--export", "xye,nxazint"];
    run("gather", &exports, &integrate(&workspace, &[])).assert_success();
    let results = integrate(&workspace, &["--valid-max", "9", "--replace"]);
    assert!(run("gather", NO_ARGUMENTS, &results).stderr.contains(OUTDATED));
    // The notes are written, and the files are not put in their place; that ends the run.
    for format in ["xye", "nxazint"] {
        let mut command = Command::new(program("gather"));
        command.arg("--from").arg(workspace.path("out")).args(["--export", format]);
        let finals = workspace.path("out/LaB6");
        preload(&mut command, &finals).env("FAULTS_AT", "rename 1-99 ENOSPC");
        assert_ne!(Outcome::from(capture(command, "")).status, 0);
    }
    let told = gather_from(&workspace, NO_ARGUMENTS).stderr;
    assert!(told.contains(path.with_extension("xye").to_str().unwrap()), "{told}");
    assert_told_until_written(&workspace, &path.with_extension("nxs"), &exports);
}

#[test]
fn maps_are_told_of_counters_that_a_removed_final_had() {
    let (workspace, path) = scans(1);
    let map = ["--map", "rot,epoch"];
    run("gather", &map, &integrate(&workspace, &[])).assert_success();
    fs::remove_file(&path).unwrap();
    correct(&workspace, "1.1/measurement/rot");
    let told = run("gather", NO_ARGUMENTS, &integrate(&workspace, &[])).assert_success();
    assert!(told.stderr.contains("its counters changed"), "{}", told.stderr);
    assert_told_until_written(&workspace, &path.with_extension("map.h5"), &map);
}

#[test]
fn a_merged_final_with_another_average_has_the_same_data() {
    let (workspace, _) = scans(1);
    let of_half = |name: &str, range: &str| {
        let range = format!("--azimuth-range={range}");
        let plan = ["--recipe-name", name, "--radial-range", "5,40", &range];
        integrate(&workspace, &plan)
    };
    let results = of_half("p", "0,90") + &of_half("m", "-180,-90");
    let flags = ["--merge", "both", "--keep-sums", "--map", "rot,epoch"];
    run("gather", &flags, &results).assert_success();
    let average = ["--merge", "both", "--keep-sums", "--average", "mean"];
    let averaged = gather_from(&workspace, &average).assert_success();
    assert!(!averaged.stderr.contains(OUTDATED), "{}", averaged.stderr);

    // Counters of its members that were corrected.
    correct(&workspace, "1.1/measurement/rot");
    for _ in 0..2 {
        let told = gather_from(&workspace, NO_ARGUMENTS).stderr;
        assert!(told.contains("_both.h5: was merged from earlier counters of "), "{told}");
    }
    let merged = gather_from(&workspace, &flags).assert_success().stderr;
    assert!(!merged.contains("was merged from earlier"), "{merged}");
    let settled = gather_from(&workspace, NO_ARGUMENTS).assert_success().stderr;
    assert!(
        !settled.contains("was merged from earlier") && !settled.contains(OUTDATED),
        "{settled}"
    );
}

#[test]
fn subtractions_of_an_earlier_background_are_told_at_each_gather_with_their_exports() {
    let (workspace, path) = scans(2);
    run("gather", NO_ARGUMENTS, &integrate(&workspace, &[])).assert_success();
    let background = final_of(&workspace, "scan0002_pilatus");
    let subtract = ["--subtract", background.to_str().unwrap(), "--subtract-scale", "monitor"];
    let subtract = [&subtract[..], &["--export", "xye"]].concat();
    gather_from(&workspace, &subtract).assert_success();
    let assert_told = |what: &str| {
        for _ in 0..2 {
            let told = gather_from(&workspace, NO_ARGUMENTS).stderr;
            let line = told.lines().find(|line| line.contains(what)).expect(&told);
            let export = path.with_extension("subtracted.xye");
            assert!(line.contains(export.to_str().unwrap()), "{line}");
        }
        gather_from(&workspace, &subtract).assert_success();
        let settled = gather_from(&workspace, NO_ARGUMENTS).assert_success().stderr;
        assert!(!settled.contains(what), "{settled}");
    };
    correct(&workspace, "2.1/measurement/monitor");
    gather_from(&workspace, NO_ARGUMENTS).assert_success();
    assert_told("was scaled by earlier counters");
    // The background was removed, and is another.
    fs::remove_file(&background).unwrap();
    let tasks = workspace.plan("out", &["--valid-max", "9", "--replace"]);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    run("gather", NO_ARGUMENTS, &results).assert_success();
    assert_told("earlier data of the background");
}

#[test]
fn a_changed_export_is_not_replaced_after_its_note_was_damaged() {
    let (workspace, path) = scans(1);
    run("gather", &["--export", "nxazint"], &integrate(&workspace, &[])).assert_success();
    let export = path.with_extension("nxs");
    open_hdf5_to_write(&export).create_group("my_note").unwrap();
    let changed = fs::read(&export).unwrap();
    let note =
        workspace.path("out/.azpipe/exports/LaB6/LaB6_0001/LaB6_0001_scan0001_pilatus.h5.json");
    fs::OpenOptions::new().write(true).open(&note).unwrap().set_len(20).unwrap();
    gather_from(&workspace, &["--export", "csv"]).assert_success();
    for _ in 0..2 {
        assert_eq!(gather_from(&workspace, &["--export", "csv,nxazint"]).status, 1);
        assert_eq!(fs::read(&export).unwrap(), changed);
    }
    gather_from(&workspace, &["--export", "nxazint", "--overwrite"]).assert_success();
    gather_from(&workspace, &["--export", "nxazint"]).assert_success();
}

#[test]
fn an_export_of_the_mean_that_replaces_averages_says_how_to_get_them_back() {
    let (workspace, path) = scans(1);
    let results = integrate(&workspace, &[]);
    run("gather", &["--average", "mean,2"], &results).assert_success();
    let told = gather_from(&workspace, &["--export", "xye"]).assert_success().stderr;
    let expected = format!("{}: its averages (mean,2) were replaced by", path.display());
    assert!(told.contains(&expected) && told.contains("gather --average mean,2"), "{told}");
    assert_eq!(gather_from(&workspace, &["--export", "xye"]).assert_success().stderr, "");
    let again = gather_from(&workspace, &["--average", "mean,2"]).assert_success().stderr;
    assert!(!again.contains("were replaced by"), "{again}");
}

#[test]
fn a_gather_that_goes_on_writes_products_of_corrected_counters() {
    let (workspace, path) = scans(1);
    let results = integrate(&workspace, &[]);
    let mut gather = Command::new(program("gather"))
        .args(["--map", "rot,epoch", "--line-buffered"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = gather.stdin.take().unwrap();
    input.write_all(results.as_bytes()).unwrap();
    let map = path.with_extension("map.h5");
    for _ in 0..600 {
        if map.exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let before = fs::read(&map).unwrap();
    correct(&workspace, "1.1/measurement/rot");
    input.write_all(results.as_bytes()).unwrap();
    drop(input);
    assert!(gather.wait().unwrap().success());
    assert_ne!(fs::read(&map).unwrap(), before);
}
