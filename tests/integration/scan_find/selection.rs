//! Which scans are wanted.

use crate::support::{RawData, create_hdf5, find, nexus_group, write_text};
use sample::Defect;

/// A master with two scans a day apart and two detectors each, one scan without a start time.
fn write_four_scans(directory: &RawData) -> String {
    let file = create_hdf5(directory.path("raw/s_0001.h5"));
    let times = [Some("2026-03-04T10:00:00+01:00"), Some("2026-03-05T10:00:00+01:00"), None];
    for (number, time) in (1..).zip(times) {
        let entry = nexus_group(&file, &format!("{number}.1"), "NXentry");
        write_text(
            &entry,
            "title",
            if number == 1 { "ascan rot 0 90 2 0.1" } else { "loopscan 2 0.1" },
        );
        if let Some(time) = time {
            write_text(&entry, "start_time", time);
        }
        write_text(&entry, "end_time", "2026-03-06T10:00:00+01:00");
        let instrument = nexus_group(&entry, "instrument", "NXinstrument");
        for detector in ["pilatus", "eiger"] {
            let detector = nexus_group(&instrument, detector, "NXdetector");
            let data =
                detector.new_dataset::<u16>().shape((2, 3, 4)).no_chunk().create("data").unwrap();
            data.write_raw(&[0_u16; 24]).unwrap();
        }
    }
    directory.path("raw").display().to_string()
}

fn find_selected(directory: &RawData, flags: &[&str]) -> Vec<String> {
    let raw = write_four_scans(directory);
    let ran = find(&[&[raw.as_str()], flags].concat()).assert_success();
    ran.scan_fields(&["entry", "detector"])
}

#[test]
fn by_detector_entry_and_title() {
    let directory = RawData::new();
    assert_eq!(
        find_selected(&directory, &["--detector", "pilatus"]),
        ["1.1 pilatus", "2.1 pilatus", "3.1 pilatus"]
    );
    assert_eq!(
        find_selected(&directory, &["--detector", "p*", "--entry", "[23].1"]),
        ["2.1 pilatus", "3.1 pilatus"]
    );
    assert_eq!(find_selected(&directory, &["--title", "ascan*"]), ["1.1 eiger", "1.1 pilatus"]);
    let either = find_selected(
        &directory,
        &["--entry", "1.1", "--entry", "3.1", "--detector", "{eiger,basler}"],
    );
    assert_eq!(either, ["1.1 eiger", "3.1 eiger"]);
}

#[test]
fn by_start_time_on_the_clock_of_the_beamline_or_on_any() {
    let directory = RawData::new();
    let since = |time: &str| {
        let mut entries = find_selected(&directory, &["--since", time, "--detector", "eiger"]);
        // The scan that does not say when it began counts by its file, which is new.
        assert_eq!(entries.pop().as_deref(), Some("3.1 eiger"), "{time}");
        entries.len()
    };
    assert_eq!(since("2026-03-04"), 2);
    assert_eq!(since("2026-03-04T10:00"), 2);
    assert_eq!(since("2026-03-04T10:00:01"), 1);
    assert_eq!(since("2026-03-04T09:00:00Z"), 2);
    assert_eq!(since("2026-03-04T09:00:01Z"), 1);
    let ran = find(&[&write_four_scans(&directory), "--since", "2200-01-01"]).assert_success();
    assert_eq!(ran.stdout, "");
}

#[test]
fn an_impossible_wish_is_refused() {
    for (flag, value, said) in [
        ("--since", "yesterday", "expected a time such as 2026-03-04"),
        ("--since", "2026-02-30", "expected a time such as 2026-03-04"),
        ("--detector", "[", "unclosed character class"),
        ("--incomplete", "maybe", "[possible values: emit, skip]"),
        ("--follow=never", "x", "expected a number of seconds"),
    ] {
        let ran = find(&[flag, value]);
        assert_eq!(ran.status, 2, "{flag} {value}");
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    }
}

#[test]
fn incomplete_scans_are_left_out_on_request_and_counted() {
    let directory = RawData::new();
    let data = directory
        .write_dataset("x", &[Defect::UnwrittenChunk, Defect::TruncatedChunk, Defect::Running]);
    let ran = find(&[data.raw.as_os_str(), "--incomplete=skip".as_ref()]).assert_success();
    assert_eq!(ran.scan_fields(&["entry", "complete"]), ["2.1 true"]);
    assert!(ran.stderr.contains("2 incomplete scans left out"), "{}", ran.stderr);
}

#[test]
fn what_is_there_is_said_where_nothing_matches() {
    let directory = RawData::new();
    let ran = find(&[&write_four_scans(&directory), "--detector", "pilatsu"]).assert_success();
    assert_eq!(ran.stdout, "");
    assert!(
        ran.stderr.contains("the detectors are eiger in 1.1")
            && ran.stderr.contains("pilatus in 3.1"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_scan_without_a_start_time_whose_files_can_not_be_read_is_reported() {
    let directory = RawData::new();
    let master = create_hdf5(directory.path("raw/s_0001.h5"));
    let instrument =
        nexus_group(&nexus_group(&master, "1.1", "NXentry"), "instrument", "NXinstrument");
    let detector = nexus_group(&instrument, "p3", "NXdetector");
    let shape = [2, 3, 4];
    let images = detector.new_dataset::<u16>().shape(shape).virtual_map(
        "p3_0000.h5",
        "/data",
        shape,
        ..,
        shape,
        ..,
    );
    images.create("data").unwrap();
    drop((images, detector, instrument, master));
    let frames = directory.path("raw/p3_0000.h5");
    std::os::unix::fs::symlink(&frames, &frames).unwrap();
    let ran = find(&[directory.path("raw").to_str().unwrap(), "--since", "1d"]);
    assert_eq!((ran.status, ran.records("scan").len()), (1, 1), "{}", ran.stderr);
    let fail = ran.records("fail").remove(0);
    assert!(
        fail["error"].as_str().unwrap().contains("Too many levels of symbolic links"),
        "{fail}"
    );
    assert_eq!(fail["retryable"], true);
}
