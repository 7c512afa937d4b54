//! One file that is moved, linked, or written anew.

use std::fs;
use std::os::unix::fs::symlink;

use crate::raw::{KINDS, Kind, Place, all, counts, field, finals};
use crate::site::{NOTHING, run};

#[test]
fn a_tree_that_was_moved_is_found_done() {
    for kind in KINDS {
        for keeps_parts in [false, true] {
            let place = Place::new();
            let written = [10, 20, 30];
            place.write(kind, "raw/p/monday", &written);
            let operand = |root: &str| place.write_name(kind, root);
            let plan = place.plan(&[&operand("raw/p/monday")], "out", &["--by", "frames=2"]).good();
            let results = run("ai-integrate", &["--threads", "1"], &plan.stdout).good();
            let flags: &[&str] = if keeps_parts { &["--keep-parts"] } else { NOTHING };
            let before = run("gather", flags, &results.stdout).good();
            fs::rename(place.path("raw"), place.path("archive")).unwrap();
            let [_, results, after] = place.process(&[&operand("archive/p/monday")], "out", &["--by", "frames=2"]);
            assert!(field(&results.good(), "result", "skipped").iter().all(|skipped| *skipped == true), "{kind:?}");
            let digest = |ran| field(ran, "summary", "data_digest");
            assert_eq!(digest(&after.good()), digest(&before), "{kind:?}");
            assert_eq!(counts(&finals(&before)[0]), all(&written));
        }
    }
}

#[test]
fn a_file_by_another_of_its_names_is_the_same() {
    for kind in KINDS {
        let place = Place::new();
        place.write(kind, "raw/monday", &[10, 20]);
        symlink(place.path("raw"), place.path("visitor")).unwrap();
        let [.., before] = place.process(&[&place.write_name(kind, "raw/monday")], "out", &[]);
        before.good();
        let [plan, results, after] = place.process(&[&place.write_name(kind, "visitor/monday")], "out", &[]);
        plan.good();
        assert_eq!(field(&results.good(), "result", "skipped"), [true], "{kind:?}");
        after.good();
    }
}

#[test]
fn a_file_that_was_written_anew_with_fewer_frames_leaves_no_old_row() {
    for kind in KINDS {
        // With the same first frame, and with another.
        for (before, now) in [(vec![10; 20], vec![70; 8]), (vec![10; 20], [vec![10], vec![70; 7]].concat())] {
            for (keeps_parts, from) in [(false, false), (true, false), (true, true)] {
                let place = Place::new();
                let operand = place.write(kind, "monday", &before);
                let plan = place.plan(&[&operand], "out", &["--by", "frames=6"]).good();
                let results = run("ai-integrate", &["--threads", "1"], &plan.stdout).good();
                let flags: &[&str] = if keeps_parts { &["--keep-parts"] } else { NOTHING };
                let first = run("gather", flags, &results.stdout).good();
                place.write(kind, "monday", &now);
                let plan = place.plan(&[&operand], "out", &["--by", "frames=6"]).good();
                let results = run("ai-integrate", &["--threads", "1"], &plan.stdout).good();
                let out = place.path("out");
                let again = match from {
                    true => run("gather", &["--from", out.to_str().unwrap()], ""),
                    false => run("gather", NOTHING, &results.stdout),
                };
                let again = again.good();
                assert_eq!(finals(&again), finals(&first), "{kind:?}: at the same place");
                assert_eq!(counts(&finals(&again)[0]), all(&now), "{kind:?} {from}");
                assert_eq!(field(&again, "summary", "frames"), [now.len()], "{kind:?}");
            }
        }
    }
}

#[test]
fn a_file_that_an_older_one_took_the_place_of_leaves_no_old_row() {
    let place = Place::new();
    let older = place.write(Kind::Master, "other", &[70; 8]);
    let operand = place.write(Kind::Master, "monday", &[10; 20]);
    let [.., first] = place.process(&[&operand], "out", &[]);
    first.good();
    fs::rename(older, &operand).unwrap();
    let [.., again] = place.process(&[&operand], "out", &[]);
    assert_eq!(counts(&finals(&again.good())[0]), all(&[70; 8]));
}

#[test]
fn a_file_that_grew_keeps_its_id() {
    for kind in KINDS {
        let place = Place::new();
        let operand = place.write(kind, "monday", &[10; 3]);
        let [plan, .., first] = place.process(&[&operand], "out", &[]);
        first.good();
        place.write(kind, "monday", &[10; 5]);
        let [again, .., second] = place.process(&[&operand], "out", &[]);
        assert_eq!(field(&plan, "task", "scan"), field(&again, "task", "scan"), "{kind:?}");
        assert_eq!(counts(&finals(&second.good())[0]), all(&[10; 5]), "{kind:?}");
    }
}
