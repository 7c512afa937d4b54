//! A scan that was integrated is planned again with other settings: refused, unless `--replace` or
//! another recipe name is given.

use std::fs;

use super::uniform_frames::{RawDirectory, StorageKind, field_of_each, list_finals, read_counts};
use crate::support::{NO_ARGUMENTS, run};

#[test]
fn other_settings_are_refused_by_the_plan_which_names_them() {
    let place = RawDirectory::new();
    let operand = place.write(StorageKind::Master, "monday", &[10; 3]);
    let [.., first] = place.process(&[&operand], "out", &[]);
    first.assert_success();
    let region = ["--mask-region", "circle:5,5,3", "--polarization", "0.95"];
    let plan = place.plan(&[&operand], "out", &region);
    assert_eq!((plan.status, plan.records("task").len()), (1, 0), "{}", plan.stderr);
    for word in ["polarization: none, now 0.95", "mask-region", "--replace", "--recipe-name"] {
        assert!(plan.stderr.contains(word), "{word} in {}", plan.stderr);
    }
    assert_eq!(
        plan.stderr.matches("_scan0001_").count(),
        1,
        "a path stands there once: {}",
        plan.stderr
    );
    place
        .plan(&[&operand], "out", &["--recipe-name", "masked", "--polarization", "0.95"])
        .assert_success();
}

#[test]
fn replace_redoes_in_place_and_the_old_result_stays_until_the_new_one_is_whole() {
    let place = RawDirectory::new();
    let operand = place.write(StorageKind::Master, "monday", &[10, 20, 30, 40]);
    let [_, _, first] = place.process(&[&operand], "out", &[]);
    let before = first.assert_success();
    let path = &list_finals(&before)[0];
    let old = fs::read(path).unwrap();
    let by_two = ["--replace", "--npt", "7", "--split", "no", "--by", "frames=2"];
    let plan = place.plan(&[&operand], "out", &by_two).assert_success();
    let (one, _) = plan.stdout.split_once('\n').unwrap();
    let half = run("ai-integrate", &["--threads", "1"], one).assert_success();
    let told = run("gather", NO_ARGUMENTS, &half.stdout);
    assert!(told.stderr.contains("is kept until all frames are integrated"), "{}", told.stderr);
    assert_eq!(fs::read(path).unwrap(), old);
    let rest = run("ai-integrate", &["--threads", "1"], &plan.stdout).assert_success();
    let after = run("gather", NO_ARGUMENTS, &rest.stdout).assert_success();
    assert_eq!(list_finals(&after), list_finals(&before));
    assert_ne!(fs::read(path).unwrap(), old);
    // Now these are the settings, and the old ones would have to replace them.
    place.plan(&[&operand], "out", &["--npt", "7", "--split", "no"]).assert_success();
    assert_eq!(place.plan(&[&operand], "out", &[]).status, 1);
    let out = place.path("out");
    let found = run("gather", &["--from", out.to_str().unwrap()], "").assert_success();
    assert_eq!(
        field_of_each(&found, "summary", "recipe_digest"),
        field_of_each(&after, "summary", "recipe_digest")
    );
}

#[test]
fn a_final_that_was_removed_by_hand_confuses_nobody() {
    let place = RawDirectory::new();
    let operand = place.write(StorageKind::Master, "monday", &[10; 3]);
    let out = place.path("out");
    let from = ["--from", out.to_str().unwrap()];
    let [.., first] = place.process(&[&operand], "out", &[]);
    fs::remove_file(&list_finals(&first.assert_success())[0]).unwrap();
    let nothing = run("gather", &from, "").assert_success();
    assert_eq!((nothing.records("summary").len(), nothing.stderr.as_str()), (0, ""));
    // Other settings may have the place then.
    let [plan, _, other] = place.process(&[&operand], "out", &["--polarization", "0.95"]);
    plan.assert_success();
    let other = other.assert_success();
    assert_eq!(read_counts(&list_finals(&other)[0]).len(), 3);
    let found = run("gather", &from, "").assert_success();
    assert_eq!(
        field_of_each(&found, "summary", "recipe_digest"),
        field_of_each(&other, "summary", "recipe_digest")
    );
}
