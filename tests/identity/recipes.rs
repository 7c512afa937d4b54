//! The same scan by other settings.

use std::fs;

use crate::raw::{Kind, Place, counts, field, finals};
use crate::site::{NOTHING, run};

#[test]
fn other_settings_are_refused_by_the_plan_which_names_them() {
    let place = Place::new();
    let operand = place.write(Kind::Master, "monday", &[10; 3]);
    let [.., first] = place.process(&[&operand], "out", &[]);
    first.good();
    let region = ["--mask-region", "circle:5,5,3", "--polarization", "0.95"];
    let plan = place.plan(&[&operand], "out", &region);
    assert_eq!((plan.status, plan.records("task").len()), (1, 0), "{}", plan.stderr);
    for word in ["polarization: none, now 0.95", "mask-region", "--replace", "--recipe-name"] {
        assert!(plan.stderr.contains(word), "{word} in {}", plan.stderr);
    }
    assert_eq!(plan.stderr.matches("_scan0001_").count(), 1, "a path stands there once: {}", plan.stderr);
    place.plan(&[&operand], "out", &["--recipe-name", "masked", "--polarization", "0.95"]).good();
}

#[test]
fn replace_redoes_in_place_and_the_old_result_stays_until_the_new_one_is_whole() {
    let place = Place::new();
    let operand = place.write(Kind::Master, "monday", &[10, 20, 30, 40]);
    let [_, _, first] = place.process(&[&operand], "out", &[]);
    let before = first.good();
    let path = &finals(&before)[0];
    let old = fs::read(path).unwrap();
    let by_two = ["--replace", "--npt", "7", "--split", "no", "--by", "frames=2"];
    let plan = place.plan(&[&operand], "out", &by_two).good();
    let (one, _) = plan.stdout.split_once('\n').unwrap();
    let half = run("ai-integrate", &["--threads", "1"], one).good();
    let told = run("gather", NOTHING, &half.stdout);
    assert!(told.stderr.contains("stays until all frames are there"), "{}", told.stderr);
    assert_eq!(fs::read(path).unwrap(), old);
    let rest = run("ai-integrate", &["--threads", "1"], &plan.stdout).good();
    let after = run("gather", NOTHING, &rest.stdout).good();
    assert_eq!(finals(&after), finals(&before));
    assert_ne!(fs::read(path).unwrap(), old);
    // Now these are the settings, and the old ones would have to replace them.
    place.plan(&[&operand], "out", &["--npt", "7", "--split", "no"]).good();
    assert_eq!(place.plan(&[&operand], "out", &[]).status, 1);
    let out = place.path("out");
    let found = run("gather", &["--from", out.to_str().unwrap()], "").good();
    assert_eq!(field(&found, "summary", "recipe_digest"), field(&after, "summary", "recipe_digest"));
}

#[test]
fn a_final_that_was_removed_by_hand_confuses_nobody() {
    let place = Place::new();
    let operand = place.write(Kind::Master, "monday", &[10; 3]);
    let out = place.path("out");
    let from = ["--from", out.to_str().unwrap()];
    let [.., first] = place.process(&[&operand], "out", &[]);
    fs::remove_file(&finals(&first.good())[0]).unwrap();
    let nothing = run("gather", &from, "").good();
    assert_eq!((nothing.records("summary").len(), nothing.stderr.as_str()), (0, ""));
    // Other settings may have the place then.
    let [plan, _, other] = place.process(&[&operand], "out", &["--polarization", "0.95"]);
    plan.good();
    let other = other.good();
    assert_eq!(counts(&finals(&other)[0]).len(), 3);
    let found = run("gather", &from, "").good();
    assert_eq!(field(&found, "summary", "recipe_digest"), field(&other, "summary", "recipe_digest"));
}
