//! Operands: globs, lists, datasets, and what results are named by.

use crate::support::{RawData, find, find_in};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

#[test]
fn a_quoted_glob_is_what_the_shell_would_make_of_it() {
    let directory = RawData::new();
    for name in ["a/x_1.h5", "a/x_2.h5", "a/y_1.h5", "b/x_1.h5"] {
        directory.write_master(name, "1.1", "p3", 1);
    }
    let ran = find_in(&directory.path(""), &["*/x_?.h5"], b"").assert_success();
    let files = ran.scan_fields(&["file"]);
    assert!(
        files
            .iter()
            .zip(["a/x_1.h5", "a/x_2.h5", "b/x_1.h5"])
            .all(|(file, name)| file.ends_with(name)),
        "{files:?}"
    );
    assert_eq!(
        find_in(&directory.path(""), &["a/x_1.h5", "a/x_2.h5", "b/x_1.h5"], b"").stdout,
        ran.stdout
    );
}

#[test]
fn equal_names_from_two_directories_are_two_scans_of_one_place() {
    let directory = RawData::new();
    let files = ["a/x.h5", "b/x.h5"].map(|name| directory.write_master(name, "1.1", "p3", 1));
    let ran = find(&files).assert_success();
    assert_eq!(
        ran.scan_fields(&["below"]),
        ["x.h5", "x.h5"],
        "whatever else is named; plan-split refuses the second"
    );
    let ids = ran.scan_fields(&["id"]);
    assert_ne!(ids[0], ids[1]);
    assert_eq!(
        find(&files[..1]).assert_success().scan_fields(&["id"]),
        ids[..1],
        "the first is what it is alone"
    );
}

#[test]
fn what_is_named_twice_is_listed_once() {
    let directory = RawData::new();
    directory.write_master("raw/a.h5", "1.1", "p3", 1);
    let ran =
        find(&[directory.path("raw"), directory.path("raw/a.h5"), directory.path("raw/../raw")])
            .assert_success();
    assert_eq!(ran.records("scan").len(), 1);
}

#[test]
fn lists_come_by_lines_or_by_nul_and_hold_any_bytes() {
    let directory = RawData::new();
    let plain = directory.write_master("with space.h5", "1.1", "p3", 1);
    let odd = directory.path("").join(OsStr::from_bytes(b"caf\xe9 \"1\"\n$x.h5"));
    std::fs::copy(&plain, &odd).unwrap();
    let mut list = plain.as_os_str().as_bytes().to_vec();
    list.push(b'\n');
    assert_eq!(
        find_in(&directory.path(""), &[] as &[&str], &list).assert_success().records("scan").len(),
        1
    );
    assert_eq!(
        find_in(&directory.path(""), &["-"], &list).assert_success().records("scan").len(),
        1
    );

    let nul = [plain.as_os_str().as_bytes(), odd.as_os_str().as_bytes()].join(&0);
    let ran = find_in(&directory.path(""), &["-0"], &nul).assert_success();
    let scans = ran.records("scan");
    assert_eq!((scans.len(), scans[0]["below"].as_str()), (2, Some("with space.h5")));
    assert!(scans[1]["file_b64"].is_string() && scans[1]["file"].is_null(), "{}", scans[1]);
    assert_eq!(ran.stderr, "");
    let of_no_list = find_in(&directory.path(""), &["-0", "with space.h5"], b"").assert_success();
    assert!(of_no_list.stderr.contains("--null: no effect"), "{}", of_no_list.stderr);
    let again = find_in(&directory.path(""), &[OsStr::from_bytes(b"caf\xe9 \"1\"\n$x.h5")], b"")
        .assert_success();
    assert_eq!(again.scan_fields(&["id"]), [scans[1]["id"].as_str().unwrap()]);
}

#[test]
fn an_empty_list_is_no_failure() {
    let ran = find_in(std::path::Path::new("/"), &["-"], b"\n\n").assert_success();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
}

#[test]
fn a_dataset_is_named_by_file_and_path() {
    let directory = RawData::new();
    let file = directory.write_master("x.h5", "entry", "eiger", 4);
    let operand = format!("{}::/entry/instrument/eiger/data", file.display());
    let ran = find(&[&operand]).assert_success();
    assert_eq!(
        ran.scan_fields(&["entry", "detector", "frames", "dataset"]),
        ["1.1 data 4 /entry/instrument/eiger/data"]
    );
    let ran = find(&[format!("{}::/entry/none", file.display())]);
    assert_eq!(ran.status, 1);
    assert!(ran.stderr.contains("x.h5::/entry/none: no dataset /entry/none"), "{}", ran.stderr);
}

#[test]
fn images_that_follow_each_other_in_a_list_are_one_scan() {
    let directory = RawData::new();
    let names = ["a_2.edf", "a_1.edf", "b.edf", "a_3.edf"].map(|name| directory.write_edf(name));
    let ran = find(&names).assert_success();
    assert_eq!(ran.scan_fields(&["detector", "frames"]), ["a 2", "b 1", "a 1"]);
    let list = names.map(|name| name.display().to_string()).join("\n");
    assert_eq!(find_in(&directory.path(""), &["-"], list.as_bytes()).stdout, ran.stdout);
    // The content decides, not the ending.
    let odd = directory.path("image.dat");
    std::fs::copy(directory.write_npy("x.npy"), &odd).unwrap();
    assert_eq!(find(&[odd]).assert_success().scan_fields(&["codec"]), ["npy"]);
}
