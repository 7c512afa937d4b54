//! Files that say nonsense: each is a failure of its own, and the next one is looked at.

use crate::support::{
    Outcome, RawData, create_hdf5, find, nexus_group, open_hdf5_to_write, write_text,
};
use hdf5::{File, Group};

fn write_detector_group(file: &File) -> Group {
    let entry = nexus_group(file, "1.1", "NXentry");
    write_text(&entry, "title", "ascan");
    write_text(&entry, "start_time", "2026-03-04T10:20:30+01:00");
    nexus_group(&nexus_group(&entry, "instrument", "NXinstrument"), "p3", "NXdetector")
}

/// scan-find of a directory with a file that `make` writes, and a good one behind it.
fn find_beside_good_file(name: &str, make: impl FnOnce(&File)) -> Outcome {
    let directory = RawData::new();
    let file = create_hdf5(directory.path(&format!("raw/{name}.h5")));
    make(&file);
    drop(file);
    directory.write_master("raw/z_good.h5", "1.1", "p3", 1);
    let ran = find(&[directory.path("raw")]);
    assert!(
        ran.scan_fields(&["below"]).contains(&"z_good.h5".to_owned()),
        "{name}: {} {}",
        ran.stdout,
        ran.stderr
    );
    ran
}

fn assert_one_failure(ran: &Outcome, part: &str) {
    let fails = ran.records("fail");
    let said = fails.first().and_then(|fail| fail["error"].as_str()).unwrap_or_default();
    assert!(
        ran.status == 1 && fails.len() == 1 && said.contains(part),
        "{}\n{}",
        ran.stdout,
        ran.stderr
    );
}

#[test]
fn more_frames_than_there_can_be_are_refused_before_memory_is_taken() {
    let ran = find_beside_good_file("frames", |file| {
        let extents = (1_usize << 40, 4, 5);
        write_detector_group(file)
            .new_dataset::<u16>()
            .shape(extents)
            .chunk((1, 4, 5))
            .create("data")
            .unwrap();
    });
    assert_one_failure(&ran, "1099511627776 frames: expected at most 134217728");
    let ran = find_beside_good_file("pixels", |file| {
        let extents = (1, 1_usize << 30, 1_usize << 30);
        write_detector_group(file)
            .new_dataset::<u16>()
            .shape(extents)
            .chunk((1, 4, 5))
            .create("data")
            .unwrap();
    });
    assert_one_failure(&ran, "frames of 1073741824 x 1073741824 pixels");
}

#[test]
fn links_in_a_ring_end() {
    let ran = find_beside_good_file("ring", |file| {
        let detector = write_detector_group(file);
        write_text(&detector, "type", "lima");
        detector.link_soft("two", "data").unwrap();
        detector.link_soft("data", "two").unwrap();
    });
    assert_one_failure(&ran, "do they form a cycle");
    let ran = find_beside_good_file("ring", |file| {
        let detector = write_detector_group(file);
        write_text(&detector, "type", "lima");
        detector.link_external("ring.h5", "/1.1/instrument/p3/data", "data").unwrap();
    });
    assert_one_failure(&ran, "do they form a cycle");
}

/// A running scan with one closed Lima file of two frames, and a number of frames that Lima was
/// asked for.
fn find_running_scan(asked: f64, stray: Option<&str>) -> Outcome {
    let directory = RawData::new();
    let master = create_hdf5(directory.path("raw/m.h5"));
    let detector = write_detector_group(&master);
    write_text(&detector, "type", "lima");
    let parameters = detector.create_group("acq_parameters").unwrap();
    parameters.new_dataset::<f64>().create("acq_nb_frames").unwrap().write_scalar(&asked).unwrap();
    drop((parameters, detector, master));
    for name in ["p3_0000.h5"].into_iter().chain(stray) {
        let lima = create_hdf5(directory.path(&format!("raw/scan0001/{name}")));
        let entry = nexus_group(&lima, "entry_0000", "NXentry");
        write_text(&entry, "end_time", "2026-03-04T10:30:30+01:00");
        let data = entry.create_group("measurement").unwrap();
        let data =
            data.new_dataset::<u16>().shape((2, 4, 5)).chunk((1, 4, 5)).create("data").unwrap();
        data.write_raw(&[1_u16; 40]).unwrap();
    }
    directory.write_master("raw/z_good.h5", "1.1", "p3", 1);
    let ran = find(&[directory.path("raw")]);
    assert!(
        ran.scan_fields(&["below"]).contains(&"z_good.h5".to_owned()),
        "{} {}",
        ran.stdout,
        ran.stderr
    );
    ran
}

#[test]
fn numbers_of_frames_that_are_none_are_refused() {
    for asked in [f64::INFINITY, 1e18] {
        let ran = find_running_scan(asked, None);
        let said = ran.records("fail");
        assert_eq!(ran.status, 1);
        let said: Vec<_> = said.iter().map(|fail| fail["error"].as_str().unwrap()).collect();
        assert!(said.iter().any(|why| why.contains("acq_nb_frames is")), "{said:?}");
    }
    for asked in [f64::NAN, -5.0, 0.0] {
        assert_eq!(
            find_running_scan(asked, None).assert_success().scan_fields(&["below", "frames"]),
            ["m.h5 2", "z_good.h5 1"],
            "{asked}"
        );
    }
}

#[test]
fn a_file_whose_number_no_scan_gets_to_is_told_and_the_others_are_found() {
    for stray in
        ["p3_99999999999.h5", "p3_18446744073709551615.h5", "p3_99999999999999999999999.h5"]
    {
        let ran = find_running_scan(2.0, Some(stray));
        assert_one_failure(&ran, "expected a number below");
        assert_eq!(ran.scan_fields(&["below", "frames"]), ["m.h5 2", "z_good.h5 1"], "{stray}");
        assert!(ran.records("fail")[0]["error"].as_str().unwrap().contains(stray));
    }
    // A file behind those that were asked for holds frames all the same.
    let ran = find_running_scan(2.0, Some("p3_0003.h5")).assert_success();
    assert_eq!(ran.scan_fields(&["below", "frames"]), ["m.h5 8", "z_good.h5 1"]);
}

#[test]
fn a_file_that_has_just_been_made_can_be_tried_again() {
    let directory = RawData::new();
    for (name, content, retryable) in
        [("a.h5", &b""[..], true), ("b.h5", &[0; 4096], true), ("c.h5", b"text", false)]
    {
        std::fs::write(directory.path(name), content).unwrap();
        let ran = find(&[directory.path(name)]);
        assert_eq!(
            (ran.status, &ran.records("fail")[0]["retryable"]),
            (1, &retryable.into()),
            "{name}"
        );
    }
}

#[test]
fn a_counter_is_one_number_a_frame_in_whatever_shape() {
    let directory = RawData::new();
    directory.write_master("m.h5", "1.1", "p3", 3);
    let file = open_hdf5_to_write(directory.path("m.h5"));
    let measurement = nexus_group(&file.group("1.1").unwrap(), "measurement", "NXcollection");
    measurement.new_dataset::<f64>().shape(3).create("list").unwrap();
    measurement.new_dataset::<f64>().shape((3, 1)).create("column").unwrap();
    measurement.new_dataset::<f64>().shape((3, 2)).create("table").unwrap();
    write_text(&measurement, "words", "none");
    measurement.link_soft("/1.1/measurement/list", "linked").unwrap();
    measurement.link_soft("/nowhere", "dangling").unwrap();
    drop((measurement, file));
    let counters =
        find(&[directory.path("m.h5")]).assert_success().records("scan")[0]["counters"].clone();
    let names: Vec<&String> = counters.as_object().unwrap().keys().collect();
    assert_eq!(names, ["column", "linked", "list"]);
}
