//! `scan-find --follow` and masters whose frames are in other files: a master stays as it is while the
//! file that it links to changes.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use hdf5::Group;

use super::unfinished_files::{assert_ends_as_a_plain_search, follow_while, last_scans};
use crate::support::{RawData, create_hdf5, nexus_group};

const DATASET: &str = "/entry/data/data";

fn write_frames(path: &Path, frames: usize) {
    let file = create_hdf5(path);
    let data = file.create_group("entry").unwrap().create_group("data").unwrap();
    let images = data.new_dataset::<u16>().shape((frames, 3, 4)).no_chunk().create("data");
    images.unwrap().write_raw(&vec![7_u16; frames * 12]).unwrap();
}

/// Makes a file older than what is waited for before a file counts as unchanged.
fn make_old(path: &Path) {
    let old = SystemTime::now() - Duration::from_secs(100);
    File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
}

/// Writes the master of a scan whose frames are in the file `data` beside it.
fn write_master(path: &Path, link: impl FnOnce(&Group, &str)) {
    let entry = nexus_group(&create_hdf5(path), "entry", "NXentry");
    crate::support::write_text(&entry, "start_time", "2026-03-04T10:20:30Z");
    link(&entry, "frames.dat");
}

fn link_as_dectris(entry: &Group, data: &str) {
    nexus_group(entry, "data", "NXdata").link_external(data, DATASET, "data_000001").unwrap();
}

fn link_as_detector(entry: &Group, data: &str) {
    let instrument = nexus_group(entry, "instrument", "NXinstrument");
    nexus_group(&instrument, "eiger", "NXdetector").link_external(data, DATASET, "data").unwrap();
}

#[test]
fn frames_that_come_into_a_linked_file_are_found_while_it_is_followed() {
    for (name, link) in
        [("dectris", link_as_dectris as fn(&Group, &str)), ("detector", link_as_detector)]
    {
        let directory = RawData::new();
        let raw = directory.path("raw");
        fs::create_dir(&raw).unwrap();
        // Not by its name a file that the search looks at.
        let (master, data) = (raw.join("x_master.h5"), raw.join("frames.dat"));
        write_frames(&data, 2);
        write_master(&master, link);
        make_old(&master);
        make_old(&data);
        let found = follow_while(&raw, "4s", || {
            std::thread::sleep(Duration::from_secs(1));
            write_frames(&directory.path("new"), 5);
            fs::rename(directory.path("new"), &data).unwrap();
        });
        assert_eq!(found.records("scan")[0]["frames"], 2, "{name}");
        let last = last_scans(&found);
        let frames: Vec<_> = last.values().map(|scan| scan["frames"].as_u64()).collect();
        assert_eq!(frames, [Some(5)], "{name}: {}\n{}", found.stdout, found.stderr);
        assert_ends_as_a_plain_search(&found, &raw, name);
    }
}

#[test]
fn a_running_scan_that_is_moved_is_not_gone() {
    let directory = RawData::new();
    directory.write_dataset("sample", &[sample::Defect::Running]);
    let top = directory.path("sample");
    let found = follow_while(&top, "2s", || {
        std::thread::sleep(Duration::from_secs(1));
        fs::rename(top.join("RAW_DATA"), top.join("MOVED")).unwrap();
    });
    assert!(found.stdout.contains("/MOVED/"), "{}", found.stdout);
    assert_eq!((found.status, found.records("fail").len()), (0, 0), "{}", found.stderr);
}

#[test]
fn a_running_scan_that_is_removed_is_told_of() {
    let directory = RawData::new();
    directory.write_dataset("", &[sample::Defect::Running]);
    let raw = directory.path("RAW_DATA");
    let found = follow_while(&raw, "2s", || {
        std::thread::sleep(Duration::from_secs(1));
        fs::rename(&raw, directory.path("elsewhere")).unwrap();
    });
    let failures = found.records("fail");
    let errors: Vec<_> = failures.iter().filter_map(|fail| fail["error"].as_str()).collect();
    let why =
        "is gone, and was running when it was last read: its last record tells what there was";
    assert!(errors.contains(&why), "{}{}", found.stdout, found.stderr);
    assert_eq!(found.status, 1);
}
