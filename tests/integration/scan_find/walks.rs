//! Directories.

use std::os::unix::fs::symlink;

use crate::support::{
    NO_ARGUMENTS, RawData, Workspace, create_hdf5, find, nexus_group, run, small_options,
};
use sample::Defect;

#[test]
fn a_dataset_is_its_scans_and_not_its_lima_files() {
    let directory = RawData::new();
    let data = directory.write_dataset("x", &[]);
    let ran = find(&[&data.raw]).assert_success();
    let scans = ran.scan_fields(&["below", "entry", "frames", "complete"]);
    let (one, two) =
        ("LaB6/LaB6_0001/LaB6_0001.h5 1.1 12 true", "LaB6/LaB6_0001/LaB6_0001.h5 2.1 12 true");
    assert_eq!(scans, [one, two]);
    assert_eq!(ran.stderr, "");
    let scan = &ran.records("scan")[0];
    assert_eq!(scan["sources"].as_array().unwrap().len(), 3);
    assert_eq!(scan["file"], data.master.to_str().unwrap());
}

#[test]
fn the_master_alone_gives_the_same_but_for_where_it_was_found() {
    let directory = RawData::new();
    let data = directory.write_dataset("x", &[]);
    let scans = find(&[&data.master]).assert_success().scan_fields(&["below", "entry"]);
    assert_eq!(scans, ["LaB6_0001.h5 1.1", "LaB6_0001.h5 2.1"]);
}

#[test]
fn where_the_data_were_moved_to_changes_no_id() {
    let directory = RawData::new();
    let data = directory.write_dataset("x", &[]);
    let before = find(&[&data.raw]).assert_success().scan_fields(&["id"]);
    std::fs::rename(directory.path("x"), directory.path("elsewhere")).unwrap();
    let after = find(&[directory.path("elsewhere/RAW_DATA")]).assert_success().scan_fields(&["id"]);
    assert_eq!(before, after);
}

#[test]
fn defects_are_told_frame_by_frame_and_are_no_failure() {
    let directory = RawData::new();
    let defects = [Defect::MissingFile, Defect::UnwrittenChunk, Defect::Aborted, Defect::Running];
    let data = directory.write_dataset("x", &defects);
    let ran = find(&[&data.raw]).assert_success();
    let expected = [
        r#"1.1 false [{"range":[[5,10]],"kind":"missing","reason":"file missing: scan0001/DET_0001.h5"}]"#,
        r#"2.1 false [{"range":[[6,7]],"kind":"not_written","reason":"not written"}]"#,
        r#"3.1 false [{"range":[[6,12]],"kind":"never_taken","reason":"never taken: the scan ended by USER_ABORT"}]"#,
        r#"4.1 false [{"range":[[5,10]],"kind":"never_taken","reason":"being written"},{"range":[[10,12]],"kind":"never_taken","reason":"not taken yet: the scan is still running"}]"#,
    ];
    let detector = ran.records("scan")[0]["detector"].as_str().unwrap().to_owned();
    let expected = expected.map(|line| line.replace("DET", &detector));
    assert_eq!(ran.scan_fields(&["entry", "complete", "absent"]), expected);
    let warnings: Vec<_> = ran.stderr.lines().collect();
    assert_eq!(warnings.len(), 4, "{warnings:?}");
    assert!(
        warnings[2].contains("6 of 12 frames absent: never taken: the scan ended by USER_ABORT"),
        "{}",
        warnings[2]
    );
}

#[test]
fn frames_of_a_killed_scan_are_found_once_its_files_are_old() {
    let directory = RawData::new();
    let data = directory.write_dataset("x", &[Defect::Running]);
    let running = data.lima.last().unwrap();
    let absent = || {
        let ran = find(&[&data.raw]);
        let last = ran.scan_fields(&["absent"]).pop().unwrap();
        (last, ran.records("scan").pop().unwrap(), ran.status)
    };
    let set_age = |file: &std::path::Path, seconds: u64| {
        let changed = std::time::SystemTime::now() - std::time::Duration::from_secs(seconds);
        std::fs::File::options().write(true).open(file).unwrap().set_modified(changed).unwrap();
    };
    let behind = |from: u64, before: &str| {
        let why = r#""kind":"never_taken","reason":"not taken yet: the scan is still running""#;
        format!(r#"[{before}{{"range":[[{from},12]],{why}}}]"#)
    };
    let written = r#"{"range":[[5,10]],"kind":"never_taken","reason":"being written"},"#;
    set_age(&running[1], 3500);
    assert_eq!(absent().0, behind(10, written));
    set_age(&running[1], 3700);
    let (now, scan, status) = absent();
    assert_eq!((now, status), (behind(6, ""), 0));
    assert!(scan["complete"] == false && scan["end_time"].is_null(), "{scan}");

    // What can't be read may be a file that is being copied.
    std::fs::write(&running[1], [0; 4096]).unwrap();
    set_age(&running[1], 3700);
    let (now, _, status) = absent();
    assert_eq!((now, status), (behind(10, written), 0));
}

#[test]
fn files_without_a_master_are_scans_of_their_own_and_images_are_series() {
    let directory = RawData::new();
    let data = directory.write_dataset("x", &[]);
    std::fs::remove_file(&data.master).unwrap();
    let lima = find(&[data.lima[0][0].parent().unwrap()]).assert_success();
    assert_eq!(
        lima.scan_fields(&["entry", "frames"]),
        ["entry_0000 5", "entry_0000 5", "entry_0000 2"]
    );

    for name in [
        "img/fe_0001.edf",
        "img/fe_0002.edf",
        "img/dark.edf",
        "img/.hidden_0001.edf",
        "img/notes.txt",
    ] {
        directory.write_edf(name);
    }
    directory.write_npy("img/mask.npy");
    let images = find(&[directory.path("img")]).assert_success();
    assert_eq!(
        images.scan_fields(&["below", "detector", "frames", "codec"]),
        ["dark.edf dark 1 edf", "fe_0001.edf fe 2 edf"]
    );
}

#[test]
fn a_data_file_that_comes_before_its_master_by_name_is_not_listed_twice() {
    let directory = RawData::new();
    for number in 1..=2 {
        let file = create_hdf5(directory.path(&format!("d/a_data_{number:06}.h5")));
        let group = nexus_group(&nexus_group(&file, "entry", "NXentry"), "data", "NXdata");
        let data = group.new_dataset::<u16>().shape((2, 3, 4)).no_chunk().create("data").unwrap();
        data.write_raw(&[0_u16; 24]).unwrap();
    }
    let master = create_hdf5(directory.path("d/a_master.h5"));
    let group = nexus_group(&nexus_group(&master, "entry", "NXentry"), "data", "NXdata");
    for number in 1..=2 {
        let name = format!("a_data_{number:06}.h5");
        group.link_external(&name, "/entry/data/data", &format!("data_{number:06}")).unwrap();
    }
    drop((group, master));
    let ran = find(&[directory.path("d")]).assert_success();
    assert_eq!(ran.scan_fields(&["below", "frames"]), ["a_master.h5 4"]);
}

#[test]
fn the_lima_files_of_scans_that_are_not_wanted_are_not_listed_either() {
    let directory = RawData::new();
    let data = directory.write_dataset("x", &[]);
    let ran = find(&[data.raw.as_os_str(), "--entry".as_ref(), "2.1".as_ref()]).assert_success();
    assert_eq!(ran.scan_fields(&["entry"]), ["2.1"]);
    let ran =
        find(&[data.raw.as_os_str(), "--title".as_ref(), "loopscan*".as_ref()]).assert_success();
    assert_eq!(ran.scan_fields(&["entry"]), Vec::<String>::new());
    assert!(ran.stderr.contains("the detectors are pilatus"), "{}", ran.stderr);
}

#[test]
fn links_are_followed_once_and_rings_end() {
    let directory = RawData::new();
    directory.write_master("raw/a/a.h5", "1.1", "p3", 2);
    symlink(directory.path("raw"), directory.path("raw/a/up")).unwrap();
    symlink("self", directory.path("raw/self")).unwrap();
    symlink(directory.path("raw/a"), directory.path("raw/z_again")).unwrap();
    symlink("nowhere.h5", directory.path("raw/gone.h5")).unwrap();
    directory.write_master("elsewhere/b.h5", "1.1", "p3", 2);
    symlink(directory.path("elsewhere"), directory.path("raw/linked")).unwrap();
    let ran = find(&[directory.path("raw")]).assert_success();
    assert_eq!(ran.scan_fields(&["below"]), ["a/a.h5", "linked/b.h5"]);
    let told = "raw/gone.h5: passed over: a symbolic link to a file that does not exist";
    assert_eq!(ran.stderr.matches(told).count(), 1, "{}", ran.stderr);
}

#[test]
fn results_below_the_searched_directory_are_no_scans_and_hide_none() {
    let workspace = Workspace::new(&small_options());
    let plan = workspace.plan("RAW_DATA/PROCESSED", &[]);
    let results = run("ai-integrate", NO_ARGUMENTS, &plan).assert_success().stdout;
    let exports = ["--export", "nxazint,nxcansas", "--merge-all", "all"];
    let gathered = run("gather", &exports, &results);
    let summary = gathered.records("summary").remove(0);
    let before = find(&[workspace.path("RAW_DATA")]).assert_success();
    let fields = ["below", "entry", "detector"];
    assert_eq!(before.scan_fields(&fields).len(), 1, "{}", before.stdout);
    assert!(!before.stdout.contains("PROCESSED"), "{}", before.stdout);
    // As an operand, it is refused.
    let path = summary["final"].as_str().unwrap();
    let refused = find(&[path]);
    assert_eq!(refused.status, 1, "{}", refused.stderr);
    assert!(refused.stdout.contains("a final file of azpipe, not raw data"), "{}", refused.stdout);
}

#[test]
fn a_real_directory_goes_before_a_link_to_it() {
    let directory = RawData::new();
    directory.write_master("raw/sample/s.h5", "1.1", "p3", 2);
    symlink(directory.path("raw/sample"), directory.path("raw/current")).unwrap();
    assert_eq!(
        find(&[directory.path("raw")]).assert_success().scan_fields(&["below"]),
        ["sample/s.h5"]
    );
}

#[test]
fn the_order_is_that_of_names_and_entries() {
    let directory = RawData::new();
    for name in ["raw/b/b.h5", "raw/a/a.h5", "raw/c.h5", "raw/a.h5"] {
        directory.write_master(name, "1.1", "p3", 1);
    }
    let first = find(&[directory.path("raw")]).assert_success();
    assert_eq!(first.scan_fields(&["below"]), ["a.h5", "c.h5", "a/a.h5", "b/b.h5"]);
    assert_eq!(find(&[directory.path("raw")]).stdout, first.stdout);
}

#[test]
fn a_collection_and_a_walk_name_the_same_scans() {
    let directory = RawData::new();
    directory.write_master("raw/s/s_0001/s_0001.h5", "1.1", "p3", 2);
    directory.write_master("raw/s/s_0002/s_0002.h5", "1.1", "p3", 2);
    let collection = create_hdf5(directory.path("raw/s.h5"));
    for dataset in ["s_0001", "s_0002"] {
        collection
            .link_external(&format!("s/{dataset}/{dataset}.h5"), "/1.1", &format!("{dataset}_1.1"))
            .unwrap();
    }
    drop(collection);
    let walked = find(&[directory.path("raw")]).assert_success();
    assert_eq!(walked.scan_fields(&["below"]), ["s/s_0001/s_0001.h5", "s/s_0002/s_0002.h5"]);
    assert_eq!(find(&[directory.path("raw/s.h5")]).assert_success().stdout, walked.stdout);
}

#[test]
fn files_that_are_being_made_and_the_pipes_own_are_left_alone() {
    let directory = RawData::new();
    directory.write_master("raw/a.h5", "1.1", "p3", 2);
    directory.write_master("raw/.azpipe/parts/x.h5", "1.1", "p3", 2);
    directory.write_master("raw/.a.h5.tmp.h5", "1.1", "p3", 2);
    assert_eq!(find(&[directory.path("raw")]).assert_success().scan_fields(&["below"]), ["a.h5"]);
}

#[test]
fn all_detectors_of_a_file_that_is_no_bliss_master_are_listed() {
    let directory = RawData::new();
    let file = create_hdf5(directory.path("raw/nexus.h5"));
    let instrument =
        nexus_group(&nexus_group(&file, "entry", "NXentry"), "instrument", "NXinstrument");
    for name in ["saxs", "waxs"] {
        let member = nexus_group(&instrument, name, "NXdetector");
        member
            .new_dataset::<u16>()
            .shape((2, 3, 4))
            .create("data")
            .unwrap()
            .write_raw(&[0_u16; 24])
            .unwrap();
    }
    drop((instrument, file));
    assert_eq!(
        find(&[directory.path("raw")]).assert_success().scan_fields(&["detector"]),
        ["saxs", "waxs"]
    );
}

#[test]
fn an_image_that_is_a_link_to_nothing_has_its_place_in_a_series() {
    // A link without a target, and one that leads to itself.
    for (target, kind) in [("/nowhere/x.edf", "missing"), ("", "unreadable")] {
        for place in [0, 2, 5] {
            let directory = RawData::new();
            std::fs::create_dir(directory.path("raw")).unwrap();
            for number in 0..6 {
                let name = format!("raw/c_{number:04}.edf");
                let path = directory.path(&name);
                match target {
                    _ if number != place => {
                        directory.write_edf(&name);
                    }
                    "" => symlink(&path, &path).unwrap(),
                    _ => symlink(target, &path).unwrap(),
                }
            }
            let ran = find(&[directory.path("raw")]);
            let scans = ran.records("scan");
            let absent = &scans[0]["absent"][0];
            let told = (ran.status, scans.len(), &scans[0]["frames"], &absent["kind"]);
            let status = i32::from(kind == "unreadable");
            assert_eq!(told, (status, 1, &6.into(), &kind.into()), "{}{}", ran.stdout, ran.stderr);
            assert_eq!(absent["range"], serde_json::json!([[place, place + 1]]));
            // One that has no place in a series is passed over.
            symlink("/nowhere/y", directory.path("raw/plot.tif")).unwrap();
            let ran = find(&[directory.path("raw")]);
            assert_eq!((ran.status, ran.records("scan").len()), (status, 1), "{}", ran.stderr);
            assert!(
                ran.stderr.contains("plot.tif: passed over: a symbolic link"),
                "{}",
                ran.stderr
            );
        }
    }
}
