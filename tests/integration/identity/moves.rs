//! One file that is moved, linked, or written anew.

use std::fs;
use std::os::unix::fs::symlink;

use super::uniform_frames::{
    RawDirectory, STORAGE_KINDS, StorageKind, field_of_each, list_finals, read_counts, with_pattern,
};
use crate::support::{NO_ARGUMENTS, run};

#[test]
fn a_tree_that_was_moved_is_found_done() {
    for kind in STORAGE_KINDS {
        for keeps_parts in [false, true] {
            let place = RawDirectory::new();
            let written = [10, 20, 30];
            place.write(kind, "raw/p/monday", &written);
            let operand = |root: &str| place.operand(kind, root);
            let plan = place
                .plan(&[&operand("raw/p/monday")], "out", &["--by", "frames=2"])
                .assert_success();
            let results = run("ai-integrate", &["--threads", "1"], &plan.stdout).assert_success();
            let flags: &[&str] = if keeps_parts { &["--keep-parts"] } else { NO_ARGUMENTS };
            let before = run("gather", flags, &results.stdout).assert_success();
            fs::rename(place.path("raw"), place.path("archive")).unwrap();
            let [_, results, after] =
                place.process(&[&operand("archive/p/monday")], "out", &["--by", "frames=2"]);
            assert!(
                field_of_each(&results.assert_success(), "result", "skipped")
                    .iter()
                    .all(|skipped| *skipped == true),
                "{kind:?}"
            );
            let digest = |ran| field_of_each(ran, "summary", "data_digest");
            assert_eq!(digest(&after.assert_success()), digest(&before), "{kind:?}");
            assert_eq!(read_counts(&list_finals(&before)[0]), with_pattern(&written));
        }
    }
}

#[test]
fn a_file_by_another_of_its_names_is_the_same() {
    for kind in STORAGE_KINDS {
        let place = RawDirectory::new();
        place.write(kind, "raw/monday", &[10, 20]);
        symlink(place.path("raw"), place.path("visitor")).unwrap();
        let [.., before] = place.process(&[&place.operand(kind, "raw/monday")], "out", &[]);
        before.assert_success();
        let [plan, results, after] =
            place.process(&[&place.operand(kind, "visitor/monday")], "out", &[]);
        plan.assert_success();
        assert_eq!(
            field_of_each(&results.assert_success(), "result", "skipped"),
            [true],
            "{kind:?}"
        );
        after.assert_success();
    }
}

#[test]
fn a_file_that_was_written_anew_with_fewer_frames_leaves_no_old_row() {
    for kind in STORAGE_KINDS {
        // With the same first frame, and with another.
        for (before, now) in
            [(vec![10; 20], vec![70; 8]), (vec![10; 20], [vec![10], vec![70; 7]].concat())]
        {
            for (keeps_parts, from) in [(false, false), (true, false), (true, true)] {
                let place = RawDirectory::new();
                let operand = place.write(kind, "monday", &before);
                let plan = place.plan(&[&operand], "out", &["--by", "frames=6"]).assert_success();
                let results =
                    run("ai-integrate", &["--threads", "1"], &plan.stdout).assert_success();
                let flags: &[&str] = if keeps_parts { &["--keep-parts"] } else { NO_ARGUMENTS };
                let first = run("gather", flags, &results.stdout).assert_success();
                place.write(kind, "monday", &now);
                let plan = place.plan(&[&operand], "out", &["--by", "frames=6"]).assert_success();
                let results =
                    run("ai-integrate", &["--threads", "1"], &plan.stdout).assert_success();
                let out = place.path("out");
                let again = match from {
                    true => run("gather", &["--from", out.to_str().unwrap()], ""),
                    false => run("gather", NO_ARGUMENTS, &results.stdout),
                };
                let again = again.assert_success();
                assert_eq!(list_finals(&again), list_finals(&first), "{kind:?}: at the same place");
                assert_eq!(
                    read_counts(&list_finals(&again)[0]),
                    with_pattern(&now),
                    "{kind:?} {from}"
                );
                assert_eq!(field_of_each(&again, "summary", "frames"), [now.len()], "{kind:?}");
            }
        }
    }
}

#[test]
fn a_file_that_an_older_one_took_the_place_of_leaves_no_old_row() {
    let place = RawDirectory::new();
    let older = place.write(StorageKind::Master, "other", &[70; 8]);
    let operand = place.write(StorageKind::Master, "monday", &[10; 20]);
    let [.., first] = place.process(&[&operand], "out", &[]);
    first.assert_success();
    fs::rename(older, &operand).unwrap();
    let [.., again] = place.process(&[&operand], "out", &[]);
    assert_eq!(read_counts(&list_finals(&again.assert_success())[0]), with_pattern(&[70; 8]));
}

#[test]
fn a_file_that_grew_keeps_its_id() {
    for kind in STORAGE_KINDS {
        let place = RawDirectory::new();
        let operand = place.write(kind, "monday", &[10; 3]);
        let [plan, .., first] = place.process(&[&operand], "out", &[]);
        first.assert_success();
        place.write(kind, "monday", &[10; 5]);
        let [again, .., second] = place.process(&[&operand], "out", &[]);
        assert_eq!(
            field_of_each(&plan, "task", "scan"),
            field_of_each(&again, "task", "scan"),
            "{kind:?}"
        );
        assert_eq!(
            read_counts(&list_finals(&second.assert_success())[0]),
            with_pattern(&[10; 5]),
            "{kind:?}"
        );
    }
}
