//! Final files of which `OUT/.azpipe` was removed, or that were copied without it: they are results
//! all the same.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{NO_ARGUMENTS, Outcome, Workspace, files_below, run, small_options};

fn gather_from(out: &Path, more: &[&str]) -> Outcome {
    run("gather", &[&["--from", out.to_str().unwrap()], more].concat(), "")
}

/// The entries that summaries are of, and whether each is complete.
fn entries(ran: &Outcome) -> Vec<(Value, bool)> {
    let of_summary = |summary: &Value| (summary["entry"].clone(), summary["complete"] == true);
    let mut entries: Vec<_> = ran.records("summary").iter().map(of_summary).collect();
    entries.sort_by_key(|(entry, _)| entry.to_string());
    entries
}

fn two_scans() -> Workspace {
    let workspace = Workspace::new(&sample::Options { scans: 2, ..small_options() });
    workspace.process("out", &[], NO_ARGUMENTS).assert_success();
    workspace
}

#[test]
fn finals_are_found_without_the_directory_of_parts() {
    let workspace = two_scans();
    let out = workspace.path("out");
    let both = vec![(json!("1.1"), true), (json!("2.1"), true)];
    let before = gather_from(&out, &["--export", "xye"]).assert_success();
    assert_eq!(entries(&before), both);
    let exports = files_below(&out).len();
    fs::remove_dir_all(out.join(".azpipe")).unwrap();
    // Files of others, a final under another name, and one in a hidden directory are not results.
    let finals: Vec<_> =
        before.records("summary").iter().map(|summary| summary["final"].clone()).collect();
    let first = Path::new(finals[0].as_str().unwrap());
    fs::copy(first, first.with_file_name("copy.h5")).unwrap();
    fs::create_dir(out.join(".trash")).unwrap();
    fs::copy(first, out.join(".trash/f.h5")).unwrap();
    fs::write(out.join("notes.h5"), "not HDF5").unwrap();
    drop(hdf5::File::create(out.join("other.h5")).unwrap());
    let after = gather_from(&out, &["--export", "xye"]).assert_success();
    assert_eq!(entries(&after), both);
    assert!(exports > 0 && after.stderr.is_empty(), "{}", after.stderr);

    // An archive: the final files alone, elsewhere.
    let archive = workspace.path("archive");
    for path in &finals {
        let path = Path::new(path.as_str().unwrap());
        let copy = archive.join(path.strip_prefix(&out).unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(path, copy).unwrap();
    }
    let report = workspace.path("report.html");
    let of_archive =
        gather_from(&archive, &["--export", "xye", "--report", report.to_str().unwrap()]);
    assert_eq!(entries(&of_archive.assert_success()), both);
    assert_eq!(
        files_below(&archive)
            .iter()
            .filter(|path| path.extension().is_some_and(|end| end == "xye"))
            .count(),
        2
    );

    // One that can't be read is told of.
    let size = fs::metadata(first).unwrap().len();
    fs::OpenOptions::new().write(true).open(first).unwrap().set_len(size / 2).unwrap();
    let cut = gather_from(&out, &[]);
    assert_eq!(cut.status, 1);
    let failures = cut.records("fail");
    assert_eq!(failures.len(), 1, "{}", cut.stdout);
    assert!(failures[0]["error"].as_str().unwrap().contains(first.to_str().unwrap()));
    assert_eq!(entries(&cut).len(), 1);
}

#[test]
fn finals_of_before_and_after_the_removal_are_found_together() {
    let workspace = two_scans();
    let out = workspace.path("out");
    fs::remove_dir_all(out.join(".azpipe")).unwrap();
    let tasks = workspace.plan("out", &[]);
    let one = tasks.lines().next().unwrap().to_owned() + "\n";
    let results = run("ai-integrate", &["--force"], &one).assert_success();
    run("gather", NO_ARGUMENTS, &results.stdout).assert_success();
    assert_eq!(entries(&gather_from(&out, &[]).assert_success()).len(), 2);
}

#[test]
fn a_stored_plan_without_its_recipe_says_how_to_get_it_back() {
    let workspace = two_scans();
    let tasks = workspace.plan("out", &[]);
    fs::remove_dir_all(workspace.path("out/.azpipe")).unwrap();
    let counted = run("gather", &["--plan", "-"], &tasks).assert_success();
    assert_eq!(entries(&counted).len(), 2);
    let integrated = run("ai-integrate", NO_ARGUMENTS, &tasks);
    assert_eq!(integrated.status, 1);
    for failure in integrated.records("fail") {
        let error = failure["error"].as_str().unwrap();
        assert!(
            error.contains(".azpipe/recipe-") && error.contains("run plan-split again"),
            "{error}"
        );
    }
}

#[test]
fn a_final_whose_parts_were_removed_is_not_linked_to_them_without_a_word() {
    let workspace = two_scans();
    let out = workspace.path("out");
    let asked = gather_from(&out, &["--layout", "virtual"]).assert_success();
    assert_eq!(asked.stderr.matches("ai-integrate --force").count(), 2, "{}", asked.stderr);
    assert!(asked.records("summary").iter().all(|summary| summary["layout"] == "copy"));
    // As it advises.
    let tasks = workspace.plan("out", &[]);
    let results = run("ai-integrate", &["--force"], &tasks).assert_success();
    let linked = run("gather", &["--layout", "virtual"], &results.stdout).assert_success();
    assert!(linked.records("summary").iter().all(|summary| summary["layout"] == "virtual"));
    assert_eq!(linked.stderr, "");
    let again = gather_from(&out, &["--layout", "virtual"]).assert_success();
    assert_eq!(again.stderr, "");
}
