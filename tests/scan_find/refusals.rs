//! What can't be read: one line, one record, and the rest goes on.

use hdf5::File;

use crate::field::{Field, class, find};

#[test]
fn bad_operands_are_failures_and_the_others_go_on() {
    let field = Field::new();
    std::fs::write(field.path("text.h5"), "no HDF5").unwrap();
    std::fs::create_dir(field.path("empty")).unwrap();
    let good = field.master("good.h5", "1.1", "p3", 1);
    let operands =
        [field.path("gone.h5"), field.path("text.h5"), field.path("empty"), field.path("no*such"), good.clone()];
    let ran = find(&operands);
    assert_eq!(ran.status, 1);
    let fails = ran.records("fail");
    let said: Vec<_> = fails.iter().map(|fail| fail["error"].as_str().unwrap()).collect();
    assert_eq!(said[0], "no such file or directory");
    assert!(said[1].starts_with("neither HDF5 nor an image (TIFF, CBF, EDF, NPY): found \"no HDF5\""), "{}", said[1]);
    assert!(said[2].starts_with("no scan in this directory or below: looked for .h5"), "{}", said[2]);
    assert_eq!(said[3], "no file or directory of such a name");
    assert!(fails.iter().all(|fail| fail["stage"] == "scan-find" && fail["retryable"] == false));
    assert_eq!(ran.fields(&["below"]), ["good.h5"]);
    let lines: Vec<_> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(lines[0], format!("scan-find: {}: no such file or directory", field.path("gone.h5").display()));

    let ran = find(&[operands[0].as_os_str(), good.as_os_str(), "--fail-fast".as_ref()]);
    assert_eq!((ran.status, ran.records("scan").len(), ran.records("fail").len()), (1, 0, 1));
}

#[test]
fn a_damaged_file_in_a_directory_is_one_failure() {
    let field = Field::new();
    let cut = field.master("raw/a.h5", "1.1", "p3", 200);
    let bytes = std::fs::read(&cut).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    field.master("raw/b.h5", "1.1", "p3", 1);
    let ran = find(&[field.path("raw")]);
    assert_eq!((ran.status, ran.fields(&["below"])), (1, vec!["b.h5".to_owned()]));
    let fail = &ran.records("fail")[0];
    assert!(fail["error"].as_str().unwrap().starts_with("not readable as HDF5: truncated file"), "{fail}");
    // It may be in the middle of being written.
    assert_eq!(fail["retryable"], true);
}

#[test]
fn files_without_detectors_are_told_apart() {
    let field = Field::new();
    let file = File::create(field.path("raw/diode.h5")).unwrap();
    class(&class(&file, "1.1", "NXentry"), "instrument", "NXinstrument");
    drop(file);
    File::create(field.path("raw/bare.h5")).unwrap().new_dataset::<u16>().shape((2, 3, 4)).create("d").unwrap();
    // A scan of a diode is a scan that has no frames; a file without an entry is no scan at all.
    let diode = find(&[field.path("raw/diode.h5")]).good();
    assert!(diode.stdout.is_empty() && diode.stderr.contains("no detector with frames"), "{}", diode.stderr);
    let bare = find(&[field.path("raw/bare.h5")]);
    assert_eq!(bare.status, 1);
    assert!(bare.stderr.contains("name a dataset of frames: FILE::/PATH"), "{}", bare.stderr);
    let both = find(&[field.path("raw")]);
    assert_eq!(both.status, 1);
    assert!(both.stderr.contains("HDF5 files: 2, detectors with frames in them: none"), "{}", both.stderr);
    // Beside a scan, such files are what they are.
    field.master("raw/good.h5", "1.1", "p3", 1);
    let walked = find(&[field.path("raw")]).good();
    assert_eq!((walked.records("scan").len(), walked.stderr.as_str()), (1, ""));
}

#[test]
fn a_detector_that_can_not_be_read_is_refused_beside_one_that_can() {
    let field = Field::new();
    let file = File::create(field.path("s.h5")).unwrap();
    let instrument = class(&class(&file, "1.1", "NXentry"), "instrument", "NXinstrument");
    let sparse = class(&class(&instrument, "eiger_sparse", "NXdetector"), "data", "NXcollection");
    sparse.new_dataset::<u32>().shape(3).create("frame_ptr").unwrap();
    let long = class(&instrument, "long", "NXdetector");
    long.new_dataset::<i64>().shape((2, 3, 4)).create("data").unwrap();
    let good = class(&instrument, "p3", "NXdetector");
    good.new_dataset::<u16>().shape((2, 3, 4)).create("data").unwrap();
    drop((instrument, sparse, long, good, file));
    let ran = find(&[field.path("s.h5")]);
    assert_eq!((ran.status, ran.fields(&["detector"])), (1, vec!["p3".to_owned()]));
    let errors: Vec<_> = ran.records("fail").iter().map(|fail| fail["error"].to_string()).collect();
    assert!(errors[0].contains("sparse frames") && errors[1].contains("elements are i64"), "{errors:?}");
}
