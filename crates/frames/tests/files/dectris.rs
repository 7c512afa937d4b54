//! Tests files that Dectris detectors write themselves: a master and its data files, also below a
//! Bliss master.

use std::path::PathBuf;

use crate::bliss::{SHAPE, bliss, detector, ended};
use crate::support::{
    TestDir, acquisition, all_pixels, assert_whole, group, json, open_to_write, plain_from,
    refusal, text,
};
use records::AbsentKind;

/// Writes a Dectris master with three data files: two of two frames, and the last of one.
fn dectris(dir: &TestDir) -> PathBuf {
    dectris_of(dir, [(0, 2), (2, 2), (4, 1)], 5, None)
}

/// Writes a Dectris master of `planned` images with three data files, each with the first of its frames, which
/// gives their pixels, and their number. With `counted_from`, the number of the series' first image, they
/// say where they belong.
fn dectris_of(
    dir: &TestDir,
    files: [(usize, usize); 3],
    planned: u32,
    counted_from: Option<i32>,
) -> PathBuf {
    let master = dir.create("lab6_master.h5");
    let entry = group(&master, "entry", "NXentry");
    let data = group(&entry, "data", "NXdata");
    for (number, (first, frames)) in (1..).zip(files) {
        let name = format!("lab6_data_{number:06}.h5");
        let file = dir.create(&name);
        let entry = group(&file, "entry", "NXentry");
        plain_from(&group(&entry, "data", "NXdata"), "data", first, [frames, 6, 7]);
        if let Some(base) = counted_from {
            let images = file.dataset("entry/data/data").unwrap();
            let low = images.new_attr::<i32>().create("image_nr_low").unwrap();
            low.write_scalar(&(base + first as i32)).unwrap();
        }
        data.link_external(&name, "/entry/data/data", &format!("data_{number:06}")).unwrap();
    }
    let detector = group(&group(&entry, "instrument", "NXinstrument"), "detector", "NXdetector");
    detector.new_dataset::<f64>().create("count_time").unwrap().write_scalar(&0.5).unwrap();
    let applied = detector.new_dataset::<i8>().create("countrate_correction_applied");
    applied.unwrap().write_scalar(&1).unwrap();
    let specific = group(&detector, "detectorSpecific", "NXcollection");
    text(&specific, "data_collection_date", "2026-03-04T10:20:30.123+01:00");
    specific.new_dataset::<u32>().create("nimages").unwrap().write_scalar(&planned).unwrap();
    specific.new_dataset::<u32>().create("ntrigger").unwrap().write_scalar(&1).unwrap();
    dir.path("lab6_master.h5")
}

#[test]
fn a_dectris_master_and_its_data_files() {
    let dir = TestDir::new();
    let master = dectris(&dir);
    let scan = acquisition(&master);
    assert_eq!(
        (scan.entry.as_str(), scan.detector.as_str(), scan.dataset.as_str()),
        ("entry", "detector", "/entry/data")
    );
    assert_eq!(scan.start_time.as_deref(), Some("2026-03-04T10:20:30.123+01:00"));
    assert_eq!(
        (scan.frames, scan.sources.len(), scan.exposure_time, scan.complete),
        (5, 3, Some(0.5), true)
    );
    assert_eq!(scan.countrate_correction_applied, Some(true));
    assert_whole(&scan);
    let alone = acquisition(&dir.path("lab6_data_000002.h5"));
    assert_eq!(
        (alone.frames, alone.detector.as_str(), alone.dataset.as_str()),
        (2, "data", "/entry/data/data")
    );
}

#[test]
fn dectris_files_that_are_missing_leave_their_place() {
    for (gone, range) in [("lab6_data_000002.h5", "[[2,4]]"), ("lab6_data_000003.h5", "[[4,5]]")] {
        let dir = TestDir::new();
        let master = dectris(&dir);
        std::fs::remove_file(dir.path(gone)).unwrap();
        let scan = acquisition(&master);
        assert_eq!(scan.frames, 5);
        assert_eq!(
            (json(&scan.absent[0].range), scan.absent[0].reason.as_str()),
            (range.to_owned(), &*format!("file missing: {gone}"))
        );
        for (number, pixels) in
            all_pixels(&scan).iter().enumerate().filter(|(_, pixels)| pixels.is_some())
        {
            assert_eq!(pixels.as_deref(), Some(&crate::support::frame(number, [6, 7])[..]));
        }
    }
}

#[test]
fn dectris_files_that_a_bliss_master_shows() {
    let dir = TestDir::new();
    dectris(&dir);
    let file = dir.create("s_0001.h5");
    let (entry, instrument) = bliss(&file, "1.1");
    let builder = detector(&instrument, "eiger").new_dataset::<u16>().shape(SHAPE);
    let builder = builder.virtual_map(
        "lab6_data_000001.h5",
        "/entry/data/data",
        [2, 6, 7],
        ..,
        SHAPE,
        (0..2, .., ..),
    );
    let builder = builder.virtual_map(
        "lab6_data_000002.h5",
        "/entry/data/data",
        [2, 6, 7],
        ..,
        SHAPE,
        (2..4, .., ..),
    );
    builder.create("image").unwrap();
    drop(builder);
    ended(&entry);
    drop((entry, instrument, file));
    assert_whole(&acquisition(&dir.path("s_0001.h5")));
}

#[test]
fn a_link_that_the_master_lacks_shifts_no_frames() {
    for (gone, range) in [(2, "[[2,4]]"), (1, "[[0,2]]")] {
        let dir = TestDir::new();
        let master = dectris(&dir);
        let file = open_to_write(&master);
        file.group("entry/data").unwrap().unlink(&format!("data_{gone:06}")).unwrap();
        drop(file);
        let scan = acquisition(&master);
        assert_eq!((scan.frames, scan.absent.len()), (5, 1));
        let absent = &scan.absent[0];
        let reason = format!("the master has no link /entry/data/data_{gone:06}");
        assert_eq!(
            (json(&absent.range), absent.kind, &absent.reason),
            (range.to_owned(), AbsentKind::Missing, &reason)
        );
        for (number, pixels) in
            all_pixels(&scan).iter().enumerate().filter(|(_, pixels)| pixels.is_some())
        {
            assert_eq!(pixels.as_deref(), Some(&crate::support::frame(number, [6, 7])[..]));
        }
    }
}

#[test]
fn the_last_file_alone_does_not_tell_how_many_frames_the_others_have() {
    let dir = TestDir::new();
    let master = dectris(&dir);
    std::fs::remove_file(dir.path("lab6_data_000001.h5")).unwrap();
    std::fs::remove_file(dir.path("lab6_data_000002.h5")).unwrap();
    assert_eq!(refusal(&master), "file missing: lab6_data_000001.h5");
    dir.make_unreadable("lab6_data_000002.h5");
    assert!(refusal(&master).contains("Too many levels of symbolic links"), "{}", refusal(&master));
    // All images that were planned fill all files.
    let file = open_to_write(&master);
    let planned = file.dataset("entry/instrument/detector/detectorSpecific/nimages").unwrap();
    planned.write_scalar(&3).unwrap();
    drop((planned, file));
    let scan = acquisition(&master);
    assert_eq!((scan.frames, json(&scan.sources[0].frames)), (3, "[[2,3]]".to_owned()));
}

/// Asserts that each frame has the pixels of its number, and that these frames have none.
fn assert_in_place(master: &std::path::Path, frames: u64, absent: &str) {
    let scan = acquisition(master);
    let lost = records::Spans::union_all(scan.absent.iter().map(|absent| &absent.range));
    assert_eq!((scan.frames, json(&lost).as_str()), (frames, absent));
    for (number, pixels) in all_pixels(&scan).iter().enumerate() {
        let expected = crate::support::frame(number, [6, 7]);
        assert!(pixels.as_ref().is_none_or(|pixels| *pixels == expected), "frame {number}");
    }
}

#[test]
fn image_numbers_tell_where_the_frames_of_a_file_belong() {
    // A part of a series may begin with any number.
    for base in [1, 101] {
        let dir = TestDir::new();
        let master = dectris_of(&dir, [(0, 5), (5, 3), (10, 2)], 12, Some(base));
        assert_in_place(&master, 12, "[[8,10]]");
        assert!(!acquisition(&master).complete);
        std::fs::remove_file(dir.path("lab6_data_000002.h5")).unwrap();
        assert_in_place(&master, 12, "[[5,10]]");
        std::fs::remove_file(dir.path("lab6_data_000003.h5")).unwrap();
        assert_in_place(&master, 12, "[[5,12]]");
    }
    // Counted from 0, without the first file; and files of several lengths, the middle ones of which are gone.
    let dir = TestDir::new();
    let master = dectris_of(&dir, [(0, 5), (5, 5), (10, 2)], 12, Some(0));
    std::fs::remove_file(dir.path("lab6_data_000001.h5")).unwrap();
    assert_in_place(&master, 12, "[[0,5]]");
    let dir = TestDir::new();
    let master = dectris_of(&dir, [(0, 10), (10, 2), (14, 10)], 24, Some(1));
    let more = open_to_write(&master);
    let link = |gone: &str, name: &str| {
        let data = more.group("entry/data").unwrap();
        data.link_external(gone, "/entry/data/data", name).unwrap();
    };
    more.group("entry/data").unwrap().unlink("data_000003").unwrap();
    link("gone.h5", "data_000003");
    link("lab6_data_000003.h5", "data_000004");
    std::fs::remove_file(dir.path("lab6_data_000002.h5")).unwrap();
    drop(more);
    assert_in_place(&master, 24, "[[10,14]]");
    // Only the last one is there: its number tells how many frames the others have.
    let dir = TestDir::new();
    let master = dectris_of(&dir, [(0, 5), (5, 5), (10, 2)], 12, Some(1));
    std::fs::remove_file(dir.path("lab6_data_000001.h5")).unwrap();
    std::fs::remove_file(dir.path("lab6_data_000002.h5")).unwrap();
    assert_in_place(&master, 12, "[[0,10]]");
}

#[test]
fn image_numbers_that_no_series_has_are_passed_over() {
    // The same number in each file, numbers that go down, and one far beyond what was planned.
    for firsts in [[0, 0, 0], [4, 2, 0], [0, 2, 1_000_000]] {
        let dir = TestDir::new();
        let master = dectris_of(&dir, [(0, 2), (2, 2), (4, 1)], 5, None);
        for (number, first) in (1..).zip(firsts) {
            let data = dir.path(&format!("lab6_data_{number:06}.h5"));
            let images = open_to_write(data).dataset("entry/data/data").unwrap();
            let low = images.new_attr::<i32>().create("image_nr_low").unwrap();
            low.write_scalar(&(first + 1)).unwrap();
        }
        assert_in_place(&master, 5, "[]");
        assert!(acquisition(&master).complete);
    }
}

#[test]
fn a_master_that_planned_more_images_is_not_complete() {
    let dir = TestDir::new();
    let master = dectris_of(&dir, [(0, 2), (2, 2), (4, 1)], 20, None);
    let scan = acquisition(&master);
    assert_eq!((scan.frames, scan.planned_frames, scan.complete), (5, Some(20), false));
    assert_eq!(scan.scan_state(), records::ScanState::Running);
    let planned = |images: u32| {
        let file = open_to_write(&master);
        let number = file.dataset("entry/instrument/detector/detectorSpecific/nimages").unwrap();
        number.write_scalar(&images).unwrap();
    };
    // One trigger of each image, or more images than planned.
    for images in [5, 1] {
        planned(images);
        let scan = acquisition(&master);
        assert_eq!((scan.frames, scan.planned_frames, scan.complete), (5, None, true));
    }
}
