//! The numbers of files tell which frames they have. Where they can't, that is said.

use std::fs;
use std::path::Path;

use crate::support::{RawData, create_hdf5, find, nexus_group, write_text};

#[test]
fn two_images_of_one_number_are_refused() {
    let directory = RawData::new();
    for name in ["series/im_1.edf", "series/im_01.edf", "series/im_2.edf"] {
        directory.write_edf(name);
    }
    let found = find(&[directory.path("series")]);
    assert_eq!((found.status, found.records("scan").len()), (1, 0), "{}", found.stderr);
    let why = "im_01.edf and im_1.edf have the same number: expected one file for each";
    assert!(found.stderr.contains(why), "{}", found.stderr);
}

#[test]
fn images_with_scattered_numbers_are_in_a_row_and_that_is_told() {
    let directory = RawData::new();
    for number in [0, 1, 2, 3, 12] {
        directory.write_edf(&format!("series/im_{number:04}.edf"));
    }
    let series = directory.path("series");
    let found = find(&[&series]).assert_success();
    assert_eq!(found.records("scan")[0]["frames"], 5);
    let why = "5 images with numbers from 0 to 12: taken one after the other";
    assert!(found.stderr.contains(why), "{}", found.stderr);
    // A gap that may be one of frames is one.
    fs::rename(series.join("im_0012.edf"), series.join("im_0007.edf")).unwrap();
    let found = find(&[&series]).assert_success();
    assert_eq!(found.records("scan")[0]["frames"], 8);
    assert!(!found.stderr.contains("one after the other"), "{}", found.stderr);
}

/// Writes a Lima file of so many frames.
fn write_lima(path: &Path, frames: usize) {
    let file = create_hdf5(path);
    let entry = nexus_group(&file, "entry_0000", "NXentry");
    write_text(&entry, "end_time", "2026-03-04T10:20:50+01:00");
    let data = nexus_group(&entry, "measurement", "NXcollection")
        .new_dataset::<u16>()
        .shape((frames, 3, 4))
        .chunk((1, 3, 4))
        .create("data")
        .unwrap();
    data.write_raw(&vec![7_u16; frames * 12]).unwrap();
}

/// Writes the master of a scan that ended without a virtual dataset.
fn write_master(directory: &RawData, requested: u64, per_file: Option<u64>) {
    let file = create_hdf5(directory.path("s.h5"));
    let entry = nexus_group(&file, "1.1", "NXentry");
    write_text(&entry, "start_time", "2026-03-04T10:20:30+01:00");
    write_text(&entry, "end_time", "2026-03-04T10:30:30+01:00");
    let detector =
        nexus_group(&nexus_group(&entry, "instrument", "NXinstrument"), "p3", "NXdetector");
    write_text(&detector, "type", "lima");
    let number = |group: &str, name: &str, value: u64| {
        let group = detector.group(group).or_else(|_| detector.create_group(group)).unwrap();
        group.new_dataset_builder().with_data(&[value]).create(name).unwrap();
    };
    number("acq_parameters", "acq_nb_frames", requested);
    if let Some(per_file) = per_file {
        number("ctrl_parameters", "saving_frame_per_file", per_file);
    }
}

#[test]
fn a_last_lima_file_is_put_where_its_number_says() {
    let directory = RawData::new();
    write_master(&directory, 10, Some(4));
    write_lima(&directory.path("scan0001/p3_0002.h5"), 2);
    let found = find(&[directory.path("s.h5")]);
    let scan = &found.records("scan")[0];
    assert_eq!(scan["sources"][0]["frames"], serde_json::json!([[8, 10]]), "{}", found.stdout);
    assert!(found.stderr.contains("p3_0000.h5 to "), "{}", found.stderr);
    assert!(!found.stderr.contains("p3_0003.h5"), "{}", found.stderr);
}

#[test]
fn lima_files_of_more_frames_than_the_first_are_refused() {
    let directory = RawData::new();
    write_master(&directory, 10, None);
    for (number, frames) in [(0, 3), (1, 5), (2, 2)] {
        write_lima(&directory.path(&format!("scan0001/p3_000{number}.h5")), frames);
    }
    let found = find(&[directory.path("s.h5")]);
    assert_eq!((found.status, found.records("scan").len()), (1, 0), "{}", found.stdout);
    assert!(found.stderr.contains("has 5 frames: expected at most 3"), "{}", found.stderr);
}
