//! Ids of scans without a time of start, and records of scans that take the place of each other.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::unfinished_files::{assert_ends_as_a_plain_search, follow_while};
use crate::support::{
    Outcome, RawData, Workspace, create_hdf5, find, nexus_group, small_options, uniform_edf,
};
use sample::Defect;

fn ids(operands: &[&Path]) -> Vec<String> {
    find(operands).assert_success().scan_fields(&["file", "id"])
}

/// Writes a Dectris master without a time of start, and its data file.
fn write_dectris(master: &Path, data: &Path) {
    let file = create_hdf5(data);
    let group = nexus_group(&nexus_group(&file, "entry", "NXentry"), "data", "NXdata");
    let frames = group.new_dataset::<u16>().shape((2, 3, 4)).no_chunk().create("data");
    frames.unwrap().write_raw(&[7_u16; 24]).unwrap();
    drop((group, file));
    let group =
        nexus_group(&nexus_group(&create_hdf5(master), "entry", "NXentry"), "data", "NXdata");
    let name = data.file_name().unwrap().to_str().unwrap();
    group.link_external(name, "/entry/data/data", "data_000001").unwrap();
}

#[test]
fn an_id_does_not_depend_on_what_was_found_before() {
    let directory = RawData::new();
    let (master, data) = (directory.path("x_master.h5"), directory.path("x_data_000001.h5"));
    write_dectris(&master, &data);
    let alone = [ids(&[&data]), ids(&[&master])].concat();
    assert_eq!(alone.len(), 2);
    let found = find(&[&data, &master]).scan_fields(&["file", "id"]);
    assert_eq!(found, alone);
}

#[test]
fn an_id_stays_while_images_are_appended_to_a_file() {
    let directory = RawData::new();
    let file = directory.path("a_0000.edf");
    let images = [7, 8, 9].map(|value| uniform_edf([3, 4], value));
    let found: Vec<_> = (1..=3)
        .map(|count| {
            fs::write(&file, images[..count].concat()).unwrap();
            ids(&[&file])
        })
        .collect();
    assert_eq!(found[1..], [found[0].clone(), found[0].clone()]);
    fs::write(&file, images[1..].concat()).unwrap();
    assert_ne!(ids(&[&file]), found[0], "another first frame");
}

#[test]
fn a_series_that_comes_back_to_its_place_is_told_again() {
    let directory = RawData::new();
    let raw = directory.path("raw");
    fs::create_dir(&raw).unwrap();
    let (place, away) = (raw.join("a_0000.edf"), directory.path("away.edf"));
    fs::write(&place, uniform_edf([3, 4], 1)).unwrap();
    let other = directory.path("other.edf");
    fs::write(&other, uniform_edf([3, 4], 2)).unwrap();
    let pause = Duration::from_millis(1500);
    let found = follow_while(&raw, "2s", || {
        std::thread::sleep(pause);
        fs::rename(&place, &away).unwrap();
        fs::rename(&other, &place).unwrap();
        std::thread::sleep(pause);
        fs::remove_file(&place).unwrap();
        fs::rename(&away, &place).unwrap();
    });
    let told = found.scan_fields(&["id"]);
    assert_eq!((told.len(), &told[0]), (3, &told[2]), "{}", found.stdout);
    assert_ne!(told[0], told[1]);
    assert_eq!(told.last(), find(&[&raw]).scan_fields(&["id"]).last());
}

#[test]
fn copies_of_a_series_are_told_once_each() {
    let directory = RawData::new();
    let raw = directory.path("raw");
    for name in ["raw/one/a_0000.edf", "raw/two/a_0000.edf"] {
        fs::create_dir_all(directory.path(name).parent().unwrap()).unwrap();
        directory.write_edf(name);
    }
    let found = follow_while(&raw, "1s", || ());
    assert_eq!(found.records("scan").len(), 2, "{}", found.stdout);
    assert_ends_as_a_plain_search(&found, &raw, "");
}

#[test]
fn a_tiff_that_is_being_copied_is_not_damaged() {
    let directory = RawData::new();
    let raw = directory.path("raw");
    fs::create_dir(&raw).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/frames/tests/data/counts.tif");
    let whole = fs::read(source).unwrap();
    let (file, cut) = (raw.join("a_0000.tif"), whole.len() - 20);
    let found = follow_while(&raw, "3s", || {
        fs::write(&file, &whole[..cut]).unwrap();
        std::thread::sleep(Duration::from_millis(1500));
        fs::write(&file, &whole).unwrap();
    });
    assert_ends_as_a_plain_search(&found, &raw, "");
    assert_eq!((found.status, found.records("scan").len()), (0, 1), "{}", found.stdout);
    fs::write(&file, &whole[..cut]).unwrap();
    let found = find(&[&raw]);
    let failures = found.records("fail");
    let error = failures[0]["error"].as_str().unwrap();
    assert!(error.contains("the file ends before the image does: strip 0 of image 0"), "{error}");
    assert_eq!((found.status, failures.len()), (1, 1));
}

/// A scan that is measured again under its name and ends early leaves files of the earlier one.
#[test]
fn files_that_are_older_than_their_scan_are_told_of() {
    const START: u64 = 1_772_616_090;
    let workspace = Workspace::new(&small_options());
    let raw = Path::new(&workspace.data.raw);
    let files = ["pilatus_0001.h5", "pilatus_0003.h5"]
        .map(|name| raw.join("LaB6/LaB6_0001/scan0001").join(name));
    let search = |seconds: u64| {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        for file in &files {
            fs::File::options().write(true).open(file).unwrap().set_modified(time).unwrap();
        }
        let found = find(&[raw]).assert_success();
        assert!(found.records("scan")[0]["start_time"] == "2026-03-04T10:21:30.000000+01:00");
        found.stderr
    };
    assert_eq!(search(START), "");
    assert_eq!(search(START - 50), "", "clocks differ");
    let said = search(START - 3600);
    let why = "pilatus_0001.h5 and 1 other file were last written 60 minutes before the scan began";
    assert!(said.contains(why), "{said}");
}

/// While it runs, the scan may write over them.
#[test]
fn files_older_than_a_scan_that_is_followed_are_told_of_once() {
    let (directory, finished) = (RawData::new(), RawData::new());
    let running = directory.write_dataset("", &[Defect::Running]);
    let whole = finished.write_dataset("", &[Defect::MissingFile]);
    let follow = || {
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        fs::File::options()
            .write(true)
            .open(&running.lima[0][0])
            .unwrap()
            .set_modified(old)
            .unwrap();
        follow_while(&directory.path("RAW_DATA"), "1s", || ())
    };
    let said_of = |found: &Outcome| found.stderr.matches("before the scan began").count();
    let found = follow();
    assert_eq!(found.records("scan")[0]["complete"], false);
    assert_eq!(said_of(&found), 1, "{}", found.stderr);
    for (from, to) in whole.lima[0].iter().zip(&running.lima[0]) {
        fs::copy(if from.exists() { from } else { &whole.lima[0][0] }, to).unwrap();
    }
    fs::copy(&whole.master, &running.master).unwrap();
    let found = follow();
    assert_eq!(found.records("scan").last().unwrap()["complete"], true);
    assert_eq!(said_of(&found), 1, "{}", found.stderr);
}
