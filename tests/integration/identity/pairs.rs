//! Two files of one name.

use std::fs;
use std::path::Path;

use super::uniform_frames::{
    RawDirectory, STORAGE_KINDS, StorageKind, field_of_each, list_finals, read_counts, with_pattern,
};
use crate::support::{NO_ARGUMENTS, create_hdf5, run};

#[test]
fn the_result_of_a_file_of_the_same_name_is_refused_and_the_first_stays() {
    for kind in STORAGE_KINDS {
        let place = RawDirectory::new();
        let (monday, tuesday) = ([10; 20], [70; 8]);
        let first = place.write(kind, "monday", &monday);
        let second = place.write(kind, "tuesday", &tuesday);
        let [.., gathered] = place.process(&[&first], "out", &[]);
        let of_monday = list_finals(&gathered.assert_success());
        assert_eq!(read_counts(&of_monday[0]), with_pattern(&monday), "{kind:?}");
        let plan = place.plan(&[&second], "out", &[]);
        assert_eq!(plan.status, 1, "{kind:?}: {}", plan.stderr);
        assert!(
            plan.stderr.contains("which is another scan") && plan.stderr.contains("monday"),
            "{}",
            plan.stderr
        );
        assert!(plan.records("task").is_empty(), "{kind:?}");
        let replaced = place.plan(&[&second], "out", &["--replace"]);
        assert_eq!(replaced.status, 1, "{kind:?}: --replace is for settings: {}", replaced.stderr);
        assert_eq!(read_counts(&of_monday[0]), with_pattern(&monday), "{kind:?}");
        // The other one goes to a place of its own.
        let [.., gathered] = place.process(&[&second], "other", &[]);
        assert_eq!(
            read_counts(&list_finals(&gathered.assert_success())[0]),
            with_pattern(&tuesday),
            "{kind:?}"
        );
    }
}

#[test]
fn two_plans_made_before_either_is_done_do_not_mix() {
    for kind in STORAGE_KINDS {
        for (one, two) in
            [(vec![10; 12], vec![70; 5]), (vec![10; 5], vec![70; 12]), (vec![10; 5], vec![70; 5])]
        {
            let place = RawDirectory::new();
            let operands = [place.write(kind, "monday", &one), place.write(kind, "tuesday", &two)];
            let plans = operands.each_ref().map(|operand| {
                place.plan(&[operand], "out", &["--by", "frames=4"]).assert_success()
            });
            let results = plans.map(|plan| run("ai-integrate", &["--threads", "1"], &plan.stdout));
            let gathered = results.map(|results| run("gather", NO_ARGUMENTS, &results.stdout));
            let told = gathered.each_ref().map(|ran| ran.status);
            let found = read_counts(&list_finals(&gathered[0])[0]);
            assert!(
                found == with_pattern(&one) || found == with_pattern(&two),
                "{kind:?}: {found:?}"
            );
            assert!(told.contains(&1), "{kind:?}: somebody is told: {told:?}");
        }
    }
}

#[test]
fn files_that_tell_nothing_apart_but_their_place_are_refused_too() {
    // Equal first frames, sizes and times of last change, in files that both are there.
    for kind in STORAGE_KINDS {
        let place = RawDirectory::new();
        let first = place.write(kind, "monday", &[0, 10, 10]);
        let second = place.write(kind, "tuesday", &[0, 70, 70]);
        for name in
            fs::read_dir(place.path("monday")).unwrap().map(|entry| entry.unwrap().file_name())
        {
            let time = fs::metadata(place.path("monday").join(&name)).unwrap().modified().unwrap();
            fs::File::options()
                .append(true)
                .open(place.path("tuesday").join(&name))
                .unwrap()
                .set_modified(time)
                .unwrap();
        }
        let plans =
            [&first, &second].map(|operand| place.plan(&[operand], "out", &[]).assert_success());
        assert_eq!(
            field_of_each(&plans[0], "task", "scan"),
            field_of_each(&plans[1], "task", "scan"),
            "{kind:?}: nothing tells them apart"
        );
        let one = run("ai-integrate", &["--threads", "1"], &plans[0].stdout).assert_success();
        let other = run("ai-integrate", &["--threads", "1"], &plans[1].stdout);
        assert_eq!(other.status, 1, "{kind:?}: {}", other.stderr);
        assert!(other.stderr.contains("another file"), "{}", other.stderr);
        let gathered = run("gather", NO_ARGUMENTS, &one.stdout).assert_success();
        assert_eq!(read_counts(&list_finals(&gathered)[0]), with_pattern(&[0, 10, 10]), "{kind:?}");
        assert_eq!(
            run("ai-integrate", &["--threads", "1"], &plans[1].stdout).status,
            1,
            "{kind:?}: nor by its final"
        );
        assert_eq!(place.plan(&[&second], "out", &[]).status, 1, "{kind:?}: nor by a plan");
    }
}

#[test]
fn two_in_one_command_are_told_apart_and_the_second_is_refused() {
    for kind in STORAGE_KINDS {
        let place = RawDirectory::new();
        let operands =
            [place.write(kind, "monday", &[10; 3]), place.write(kind, "tuesday", &[70; 3])];
        let paths: Vec<&Path> = operands.iter().map(|path| path.as_path()).collect();
        let scans = run("scan-find", &paths, "").assert_success();
        let ids = field_of_each(&scans, "scan", "id");
        assert!(ids.len() == 2 && ids[0] != ids[1], "{kind:?}: {ids:?}");
        let plan = place.plan_scans(&scans.stdout, "out", &[]);
        assert_eq!(
            (plan.status, plan.records("task").len(), plan.records("fail").len()),
            (1, 1, 1),
            "{kind:?}"
        );
        // A directory above both has a place for each.
        if kind != StorageKind::Dataset {
            let [.., gathered] = place.process(&[&place.path("")], "both", &[]);
            let mut found: Vec<_> = list_finals(&gathered.assert_success())
                .iter()
                .map(|path| read_counts(path)[0])
                .collect();
            found.sort_unstable();
            assert_eq!(found, [Some(10), Some(70)], "{kind:?}");
        }
    }
}

#[test]
fn the_place_of_a_result_depends_on_no_other_operand() {
    for kind in STORAGE_KINDS {
        let place = RawDirectory::new();
        let own = place.write(kind, "monday", &[10; 3]);
        let others =
            [place.write(kind, "a/monday", &[20; 3]), place.write(kind, "tuesday", &[30; 3])];
        let below = |operands: &[&Path]| {
            let scans = run("scan-find", operands, "").assert_success().records("scan");
            let own = place.path("monday");
            let scan = scans
                .iter()
                .find(|scan| Path::new(scan["file"].as_str().unwrap()).starts_with(&own))
                .unwrap();
            (
                scan["below"].clone(),
                if operands[0] == own { None } else { Some(scan["id"].clone()) },
            )
        };
        let alone = below(&[&own]);
        for operands in [vec![&*own, &others[0]], vec![&own, &others[1], &others[0]]] {
            assert_eq!(below(&operands), alone, "{kind:?}");
        }
        assert_eq!(below(&[&others[1], &own]).0, alone.0, "{kind:?}: whichever comes first");
        if kind != StorageKind::Dataset {
            assert_eq!(below(&[&place.path("monday")]).0, alone.0, "{kind:?}: its directory");
        }
    }
}

#[test]
fn a_file_of_others_in_the_place_of_a_final_is_refused_before_anything_is_integrated() {
    let place = RawDirectory::new();
    let operand = place.write(STORAGE_KINDS[0], "monday", &[10; 5]);
    let planned = || place.plan(&[&operand], "out", &[]);
    let task = planned().assert_success().records("task").remove(0);
    let path = |field: &str| Path::new(task[field].as_str().unwrap()).to_owned();
    let final_file = path("out").join(path("final"));
    fs::create_dir_all(final_file.parent().unwrap()).unwrap();
    let foreign: [(&str, &dyn Fn()); 5] = [
        ("empty", &|| fs::write(&final_file, "").unwrap()),
        ("text", &|| fs::write(&final_file, "my notes\n").unwrap()),
        ("HDF5", &|| drop(create_hdf5(&final_file).create_group("note").unwrap())),
        ("directory", &|| fs::create_dir(&final_file).unwrap()),
        ("FIFO", &|| {
            nix::unistd::mkfifo(&final_file, nix::sys::stat::Mode::S_IRWXU).unwrap();
        }),
    ];
    for (what, make) in foreign {
        make();
        let refused = planned();
        assert_eq!(refused.status, 1, "{what}: {}", refused.stderr);
        assert!(refused.records("task").is_empty(), "{what}");
        let told = format!("{} exists, and is not a file of azpipe", final_file.display());
        assert!(refused.stderr.contains(&told), "{what}: {}", refused.stderr);
        assert!(final_file.symlink_metadata().is_ok(), "{what}");
        if what == "directory" {
            fs::remove_dir(&final_file).unwrap();
        } else {
            fs::remove_file(&final_file).unwrap();
        }
    }
    planned().assert_success();
}
