//! `plan-split --replace` while raw data is away: an earlier result is not exchanged for less.

use std::fs;

use crate::support::{NO_ARGUMENTS, Outcome, Workspace, run, small_options};

/// Plans the scan as it is now with other bins, integrates it, and gathers it.
fn replace(workspace: &mut Workspace, gather: &[&str]) -> Outcome {
    workspace.scans = run("scan-find", &[&workspace.data.raw], "").stdout;
    let tasks = workspace.plan("out", &["--replace", "--radial-range", "5,30"]);
    run("gather", gather, &run("ai-integrate", NO_ARGUMENTS, &tasks).stdout)
}

#[test]
fn a_result_is_not_replaced_by_one_with_fewer_patterns() {
    let mut workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &[]);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    let first = run("gather", NO_ARGUMENTS, &results).assert_success().records("summary").remove(0);
    let final_file = first["final"].as_str().unwrap();
    let before = fs::read(final_file).unwrap();
    let task: serde_json::Value = serde_json::from_str(tasks.lines().next().unwrap()).unwrap();
    let raw = task["sources"][1]["file"].as_str().unwrap().to_owned();
    let away = workspace.path("away.h5");
    fs::rename(&raw, &away).unwrap();

    for _ in 0..2 {
        let kept = replace(&mut workspace, &[]);
        assert_eq!(kept.status, 1);
        assert!(
            kept.stderr.contains("is kept, because only it has frames 7 to 13"),
            "{}",
            kept.stderr
        );
        assert_eq!(fs::read(final_file).unwrap(), before);
    }
    fs::rename(&away, &raw).unwrap();
    let whole = replace(&mut workspace, &[]).assert_success().records("summary").remove(0);
    assert_eq!(whole["integrated"], 24);
    assert_ne!(fs::read(final_file).unwrap(), before);
}

#[test]
fn a_result_is_replaced_by_one_with_fewer_patterns_if_the_user_allows_it() {
    let mut workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &[]);
    run("gather", NO_ARGUMENTS, &run("ai-integrate", NO_ARGUMENTS, &tasks).stdout).assert_success();
    let task: serde_json::Value = serde_json::from_str(tasks.lines().next().unwrap()).unwrap();
    fs::remove_file(task["sources"][1]["file"].as_str().unwrap()).unwrap();
    let replaced = replace(&mut workspace, &["--allow-missing"]).assert_success();
    assert_eq!(replaced.records("summary")[0]["integrated"], 17);
    assert_eq!(replaced.records("summary")[0]["layout"], "copy");
}

#[test]
fn frames_that_are_done_are_not_lost_when_their_file_is_removed() {
    for keeps_parts in [false, true] {
        let mut workspace = Workspace::new(&small_options());
        let tasks = workspace.plan("out", &[]);
        let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
        if !keeps_parts {
            run("gather", NO_ARGUMENTS, &results).assert_success();
        }
        let task: serde_json::Value = serde_json::from_str(tasks.lines().next().unwrap()).unwrap();
        let raw = task["sources"][1]["file"].as_str().unwrap().to_owned();
        let away = workspace.path("away.h5");
        fs::rename(&raw, &away).unwrap();

        workspace.scans = run("scan-find", &[&workspace.data.raw], "").stdout;
        let tasks = workspace.plan("out", &[]);
        let again = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success();
        assert!(again.records("result").iter().all(|result| result["missing"].is_null()));
        let summary = run("gather", NO_ARGUMENTS, &again.stdout)
            .assert_success()
            .records("summary")
            .remove(0);
        assert_eq!((&summary["integrated"], &summary["complete"]), (&24.into(), &true.into()));

        // Whoever asks for them anew can't have them.
        let forced = run("ai-integrate", &["--force"], &tasks);
        assert_eq!(forced.status, 1, "{}", forced.stderr);
        // Another file in its place is other data, and has fewer frames.
        fs::copy(task["sources"][3]["file"].as_str().unwrap(), &raw).unwrap();
        workspace.scans = run("scan-find", &[&workspace.data.raw], "").stdout;
        let again = run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &[]));
        let missing = &again.records("result")[0]["missing"];
        assert_eq!(again.status, 1, "{}", again.stderr);
        assert!(!missing.is_null(), "{}", again.stdout);
    }
}

#[test]
fn a_final_of_other_settings_that_was_moved_into_the_place_of_another_is_not_replaced() {
    let workspace = Workspace::new(&small_options());
    let process = |out: &str, flags: &[&str]| {
        let tasks = workspace.plan(out, flags);
        let results = run("ai-integrate", NO_ARGUMENTS, &tasks);
        (run("gather", NO_ARGUMENTS, &results.stdout), results)
    };
    let final_of =
        |gathered: &Outcome| gathered.records("summary")[0]["final"].as_str().unwrap().to_owned();
    let (ours, other) = (process("ours", &[]).0, process("other", &["--radial-range", "5,30"]).0);
    let (place, moved) = (final_of(&ours), final_of(&other));
    let moved_bytes = fs::read(moved).unwrap();
    for _ in 0..2 {
        fs::write(&place, &moved_bytes).unwrap();
        let (refused, _) = process("ours", &[]);
        assert_eq!(refused.status, 1, "{}", refused.stderr);
        let why = "the final of another recipe";
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
        assert_eq!(fs::read(&place).unwrap(), moved_bytes);
    }
    let (again, _) = process("ours", &["--replace"]);
    let digest = |gathered: &Outcome| gathered.records("summary")[0]["data_digest"].clone();
    assert_eq!((again.status, digest(&again)), (0, digest(&ours)), "{}", again.stderr);
    assert_ne!(fs::read(&place).unwrap(), moved_bytes);
}

/// A replacement that was planned and of which nothing is integrated: the earlier result is neither
/// passed over nor called complete.
#[test]
fn a_result_whose_replacement_is_planned_alone_is_told_of() {
    let workspace = Workspace::new(&small_options());
    let (tasks, out) = (workspace.plan("out", &[]), workspace.path("out"));
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    let first = run("gather", NO_ARGUMENTS, &results).assert_success().records("summary").remove(0);
    let final_file = first["final"].as_str().unwrap();
    let plan = workspace.path("plan.jsonl");
    fs::write(&plan, &tasks).unwrap();
    let out = out.to_str().unwrap();
    let count = || run("gather", &["--plan", plan.to_str().unwrap(), "--count-done"], "");
    let progress = count().assert_success().records("progress").remove(0);
    assert_eq!((&progress["finals"], &progress["finals_complete"]), (&1.into(), &1.into()));

    workspace.plan("out", &["--replace", "--radial-range", "5,30"]);
    let (there, elsewhere) = (workspace.path("out/LaB6"), workspace.path("elsewhere"));
    for is_linked in [false, true] {
        if is_linked {
            fs::rename(&there, &elsewhere).unwrap();
            std::os::unix::fs::symlink(&elsewhere, &there).unwrap();
        }
        let listed = run("gather", &["--from", out], "");
        assert_eq!(listed.status, 1, "{}", listed.stderr);
        assert_eq!(listed.records("fail").len(), 1, "{}", listed.stdout);
        assert!(listed.stderr.contains("has patterns by earlier settings"), "{}", listed.stderr);
        assert!(listed.records("summary").is_empty(), "{}", listed.stdout);
    }
    let counted = count();
    assert_eq!(counted.status, 1, "{}", counted.stderr);
    assert!(counted.stderr.contains("belongs to another result"), "{}", counted.stderr);
    assert_eq!(counted.records("progress")[0]["finals_complete"], 0);
    let gathered = run("gather", &["--plan", plan.to_str().unwrap()], &results);
    assert_eq!(gathered.status, 1, "as --count-done says");

    // A final that can't be read is not taken for one that is not there.
    let whole = fs::read(final_file).unwrap();
    fs::write(final_file, &whole[..whole.len() / 2]).unwrap();
    let damaged = run("gather", &["--from", out], "");
    assert_eq!((damaged.status, damaged.records("fail").len()), (1, 1), "{}", damaged.stderr);
    fs::write(final_file, whole).unwrap();

    // The way back is to replace the plan by the earlier one; nothing is integrated again.
    let kept = workspace.plan("out", &["--replace"]);
    let again = run("ai-integrate", NO_ARGUMENTS, &kept).assert_success();
    assert_eq!(again.records("result")[0]["skipped"], true, "{}", again.stdout);
    count().assert_success();
    let listed = run("gather", &["--from", out], "").assert_success().records("summary");
    assert_eq!((listed.len(), &listed[0]["complete"]), (1, &true.into()));
}
