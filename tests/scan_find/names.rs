//! Operands: globs, lists, datasets, and what results are named by.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::field::{Field, find, find_in};

#[test]
fn a_quoted_glob_is_what_the_shell_would_make_of_it() {
    let field = Field::new();
    for name in ["a/x_1.h5", "a/x_2.h5", "a/y_1.h5", "b/x_1.h5"] {
        field.master(name, "1.1", "p3", 1);
    }
    let ran = find_in(&field.path(""), &["*/x_?.h5"], b"").good();
    let files = ran.fields(&["file"]);
    assert!(
        files.iter().zip(["a/x_1.h5", "a/x_2.h5", "b/x_1.h5"]).all(|(file, name)| file.ends_with(name)),
        "{files:?}"
    );
    assert_eq!(find_in(&field.path(""), &["a/x_1.h5", "a/x_2.h5", "b/x_1.h5"], b"").stdout, ran.stdout);
}

#[test]
fn equal_names_from_two_directories_are_two_scans_of_one_place() {
    let field = Field::new();
    let files = ["a/x.h5", "b/x.h5"].map(|name| field.master(name, "1.1", "p3", 1));
    let ran = find(&files).good();
    assert_eq!(ran.fields(&["below"]), ["x.h5", "x.h5"], "whatever else is named; plan-split refuses the second");
    let ids = ran.fields(&["id"]);
    assert_ne!(ids[0], ids[1]);
    assert_eq!(find(&files[..1]).good().fields(&["id"]), ids[..1], "the first is what it is alone");
}

#[test]
fn what_is_named_twice_is_listed_once() {
    let field = Field::new();
    field.master("raw/a.h5", "1.1", "p3", 1);
    let ran = find(&[field.path("raw"), field.path("raw/a.h5"), field.path("raw/../raw")]).good();
    assert_eq!(ran.records("scan").len(), 1);
}

#[test]
fn lists_come_by_lines_or_by_nul_and_hold_any_bytes() {
    let field = Field::new();
    let plain = field.master("with space.h5", "1.1", "p3", 1);
    let odd = field.path("").join(OsStr::from_bytes(b"caf\xe9 \"1\"\n$x.h5"));
    std::fs::copy(&plain, &odd).unwrap();
    let mut list = plain.as_os_str().as_bytes().to_vec();
    list.push(b'\n');
    assert_eq!(find_in(&field.path(""), &[] as &[&str], &list).good().records("scan").len(), 1);
    assert_eq!(find_in(&field.path(""), &["-"], &list).good().records("scan").len(), 1);

    let nul = [plain.as_os_str().as_bytes(), odd.as_os_str().as_bytes()].join(&0);
    let ran = find_in(&field.path(""), &["-0"], &nul).good();
    let scans = ran.records("scan");
    assert_eq!((scans.len(), scans[0]["below"].as_str()), (2, Some("with space.h5")));
    assert!(scans[1]["file_b64"].is_string() && scans[1]["file"].is_null(), "{}", scans[1]);
    let again = find_in(&field.path(""), &[OsStr::from_bytes(b"caf\xe9 \"1\"\n$x.h5")], b"").good();
    assert_eq!(again.fields(&["id"]), [scans[1]["id"].as_str().unwrap()]);
}

#[test]
fn an_empty_list_is_no_failure() {
    let ran = find_in(std::path::Path::new("/"), &["-"], b"\n\n").good();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
}

#[test]
fn a_dataset_is_named_by_file_and_path() {
    let field = Field::new();
    let file = field.master("x.h5", "entry", "eiger", 4);
    let operand = format!("{}::/entry/instrument/eiger/data", file.display());
    let ran = find(&[&operand]).good();
    assert_eq!(ran.fields(&["entry", "detector", "frames", "dataset"]), ["1.1 data 4 /entry/instrument/eiger/data"]);
    let ran = find(&[format!("{}::/entry/none", file.display())]);
    assert_eq!(ran.status, 1);
    assert!(ran.stderr.contains("x.h5::/entry/none: no dataset /entry/none"), "{}", ran.stderr);
}

#[test]
fn images_that_follow_each_other_in_a_list_are_one_scan() {
    let field = Field::new();
    let names = ["a_2.edf", "a_1.edf", "b.edf", "a_3.edf"].map(|name| field.edf(name));
    let ran = find(&names).good();
    assert_eq!(ran.fields(&["detector", "frames"]), ["a 2", "b 1", "a_3 1"]);
    let list = names.map(|name| name.display().to_string()).join("\n");
    assert_eq!(find_in(&field.path(""), &["-"], list.as_bytes()).stdout, ran.stdout);
    // The content decides, not the ending.
    let odd = field.path("image.dat");
    std::fs::copy(field.image("x.npy"), &odd).unwrap();
    assert_eq!(find(&[odd]).good().fields(&["codec"]), ["npy"]);
}
