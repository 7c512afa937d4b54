//! Files that can't be read: each is one message and one `fail` record, and the search goes on.

use crate::support::{RawData, create_hdf5, find, nexus_group};

#[test]
fn bad_operands_are_failures_and_the_others_go_on() {
    let directory = RawData::new();
    std::fs::write(directory.path("text.h5"), "no HDF5").unwrap();
    std::fs::create_dir(directory.path("empty")).unwrap();
    let good = directory.write_master("good.h5", "1.1", "p3", 1);
    let operands = [
        directory.path("gone.h5"),
        directory.path("text.h5"),
        directory.path("empty"),
        directory.path("no*such"),
        good.clone(),
    ];
    let ran = find(&operands);
    assert_eq!(ran.status, 1);
    let fails = ran.records("fail");
    let said: Vec<_> = fails.iter().map(|fail| fail["error"].as_str().unwrap()).collect();
    assert_eq!(said[0], "no such file or directory");
    assert!(
        said[1].starts_with("expected HDF5 or an image (TIFF, CBF, EDF, NPY), found \"no HDF5\""),
        "{}",
        said[1]
    );
    assert!(
        said[2].starts_with("no scan in this directory or below: looked for .h5"),
        "{}",
        said[2]
    );
    assert_eq!(said[3], "no file or directory matches this glob");
    assert!(fails.iter().all(|fail| fail["stage"] == "scan-find" && fail["retryable"] == false));
    assert_eq!(ran.scan_fields(&["below"]), ["good.h5"]);
    let lines: Vec<_> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(
        lines[0],
        format!("scan-find: {}: no such file or directory", directory.path("gone.h5").display())
    );

    let ran = find(&[operands[0].as_os_str(), good.as_os_str(), "--fail-fast".as_ref()]);
    assert_eq!((ran.status, ran.records("scan").len(), ran.records("fail").len()), (1, 0, 1));
}

#[test]
fn a_damaged_file_in_a_directory_is_one_failure() {
    let directory = RawData::new();
    let cut = directory.write_master("raw/a.h5", "1.1", "p3", 200);
    let bytes = std::fs::read(&cut).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    directory.write_master("raw/b.h5", "1.1", "p3", 1);
    let ran = find(&[directory.path("raw")]);
    assert_eq!((ran.status, ran.scan_fields(&["below"])), (1, vec!["b.h5".to_owned()]));
    let fail = &ran.records("fail")[0];
    assert!(
        fail["error"].as_str().unwrap().starts_with("not readable as HDF5: truncated file"),
        "{fail}"
    );
    // It may be in the middle of being written.
    assert_eq!(fail["retryable"], true);
}

#[test]
fn files_without_detectors_are_told_apart() {
    let directory = RawData::new();
    let file = create_hdf5(directory.path("raw/diode.h5"));
    nexus_group(&nexus_group(&file, "1.1", "NXentry"), "instrument", "NXinstrument");
    drop(file);
    create_hdf5(directory.path("raw/bare.h5"))
        .new_dataset::<u16>()
        .shape((2, 3, 4))
        .create("d")
        .unwrap();
    // A scan of a diode is a scan that has no frames; a file without an entry is no scan at all.
    let diode = find(&[directory.path("raw/diode.h5")]).assert_success();
    assert!(
        diode.stdout.is_empty() && diode.stderr.contains("no detector with frames"),
        "{}",
        diode.stderr
    );
    let bare = find(&[directory.path("raw/bare.h5")]);
    assert_eq!(bare.status, 1);
    assert!(
        bare.stderr.contains("if it has a dataset of frames, name it: FILE::/PATH"),
        "{}",
        bare.stderr
    );
    let both = find(&[directory.path("raw")]);
    assert_eq!(both.status, 1);
    assert!(both.stderr.contains("no detector with frames in 2 HDF5 files"), "{}", both.stderr);
    // Beside a scan, such files are what they are.
    directory.write_master("raw/good.h5", "1.1", "p3", 1);
    let walked = find(&[directory.path("raw")]).assert_success();
    assert_eq!((walked.records("scan").len(), walked.stderr.as_str()), (1, ""));
}

#[test]
fn a_detector_that_can_not_be_read_is_refused_beside_one_that_can() {
    let directory = RawData::new();
    let file = create_hdf5(directory.path("s.h5"));
    let instrument =
        nexus_group(&nexus_group(&file, "1.1", "NXentry"), "instrument", "NXinstrument");
    let sparse = nexus_group(
        &nexus_group(&instrument, "eiger_sparse", "NXdetector"),
        "data",
        "NXcollection",
    );
    sparse.new_dataset::<u32>().shape(3).create("frame_ptr").unwrap();
    let long = nexus_group(&instrument, "long", "NXdetector");
    long.new_dataset::<i64>().shape((2, 3, 4)).create("data").unwrap();
    let good = nexus_group(&instrument, "p3", "NXdetector");
    good.new_dataset::<u16>().shape((2, 3, 4)).create("data").unwrap();
    drop((instrument, sparse, long, good, file));
    let ran = find(&[directory.path("s.h5")]);
    assert_eq!((ran.status, ran.scan_fields(&["detector"])), (1, vec!["p3".to_owned()]));
    let errors: Vec<_> = ran.records("fail").iter().map(|fail| fail["error"].to_string()).collect();
    assert!(
        errors[0].contains("sparse frames") && errors[1].contains("int64 elements"),
        "{errors:?}"
    );
}

#[test]
fn a_file_that_is_named_and_has_no_frames_is_a_failure() {
    let directory = RawData::new();
    let file = directory.path("x.h5");
    crate::support::nexus_group(&crate::support::create_hdf5(&file), "entry", "NXentry");
    let found = find(&[&file]);
    let error = found.records("fail").remove(0)["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("no detector with frames in this HDF5 file; "), "{error}");
    assert_eq!(found.status, 1);
}
