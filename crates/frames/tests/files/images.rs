//! Tests image files, and numbered series of them.

use std::path::{Path, PathBuf};

use frames::discover::{AllScans, DiscoveryKind, discover_series, group_series};
use frames::source::{Dtype, FrameChunks, SourceReader};

use crate::support::{TestDir, acquisition, frame, json, numbers, refusal, value};

/// Writes an NPY file with an array of `count` frames, or with one image if `count` is 1.
fn npy(path: &Path, first: usize, count: usize) {
    let shape = if count == 1 { "(6, 7)".to_owned() } else { format!("({count}, 6, 7)") };
    let header = format!("{{'descr': '<u2', 'fortran_order': False, 'shape': {shape}, }}");
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend(format!("{header:<117}\n").into_bytes());
    for number in first..first + count {
        let pixels =
            (0..6).flat_map(|row| (0..7).map(move |column| u16::from(value(number, row, column))));
        bytes.extend(pixels.flat_map(u16::to_le_bytes));
    }
    std::fs::write(path, bytes).unwrap();
}

fn written(dir: &TestDir, names: &[&str]) -> Vec<PathBuf> {
    names.iter().enumerate().for_each(|(number, name)| npy(&dir.path(name), number, 1));
    names.iter().map(|name| dir.path(name)).collect()
}

#[test]
fn a_single_image_is_a_scan_of_one_frame() {
    let dir = TestDir::new();
    npy(&dir.path("lab6_0012.npy"), 0, 1);
    let scan = acquisition(&dir.path("lab6_0012.npy"));
    assert_eq!(
        (scan.entry.as_str(), scan.detector.as_str(), scan.codec.as_str()),
        ("1.1", "lab6", "npy")
    );
    assert_eq!(
        (scan.frames, scan.shape, scan.dtype.as_str(), scan.complete),
        (1, [6, 7], "u16", true)
    );
    let reader = SourceReader::open(&scan.sources[0], scan.shape).unwrap();
    let FrameChunks::Whole(chunk) = reader.frame_chunks(0) else { panic!() };
    let mut bytes = Vec::new();
    reader.read_chunk(&chunk, &mut bytes).unwrap();
    assert_eq!(numbers(&bytes, Dtype::U16, reader.coding().big_endian), frame(0, [6, 7]));
    assert!(reader.coding().filters.is_empty());
    assert!(matches!(reader.frame_chunks(1), FrameChunks::NoData(_)));
}

#[test]
fn a_single_image_has_the_name_of_its_series_and_keeps_a_number_that_belongs_to_it() {
    let dir = TestDir::new();
    for (file, name) in [
        ("lab6_0012", "lab6"),
        ("lab6-1", "lab6"),
        ("lab0012", "lab"),
        ("LaB6", "LaB6"),
        ("Si640", "Si640"),
        ("0012", "0012"),
        ("mask", "mask"),
    ] {
        let path = dir.path(&format!("{file}.npy"));
        npy(&path, 0, 1);
        assert_eq!(acquisition(&path).detector, name);
    }
}

#[test]
fn every_image_of_a_stack_is_a_frame() {
    let dir = TestDir::new();
    npy(&dir.path("stack.npy"), 0, 3);
    let scan = acquisition(&dir.path("stack.npy"));
    assert_eq!(scan.frames, 3);
    let reader = SourceReader::open(&scan.sources[0], scan.shape).unwrap();
    let FrameChunks::Whole(chunk) = reader.frame_chunks(2) else { panic!() };
    let mut bytes = Vec::new();
    reader.read_chunk(&chunk, &mut bytes).unwrap();
    assert_eq!(numbers(&bytes, Dtype::U16, false), frame(2, [6, 7]));
}

#[test]
fn files_that_differ_in_their_last_number_are_a_series() {
    let dir = TestDir::new();
    let names = [
        "b_9.npy",
        "a/x_0002.npy",
        "b_10.npy",
        "a/x_0001.npy",
        "mask.npy",
        "a/y_0001.npy",
        "a/x_0001.tif",
    ];
    let files = names.map(|name| dir.path(name));
    let groups: Vec<Vec<String>> = group_series(files)
        .iter()
        .map(|group| {
            group
                .iter()
                .map(|file| file.file_name().unwrap().to_string_lossy().into_owned())
                .collect()
        })
        .collect();
    let expected: [&[&str]; 5] = [
        &["x_0001.npy", "x_0002.npy"],
        &["x_0001.tif"],
        &["y_0001.npy"],
        &["b_9.npy", "b_10.npy"],
        &["mask.npy"],
    ];
    assert_eq!(groups, expected);
}

#[test]
fn a_series_is_one_scan_in_the_order_of_its_numbers() {
    let dir = TestDir::new();
    let files = written(&dir, &["fe_0008.npy", "fe_0009.npy", "fe_0010.npy"]);
    let found = discover_series(&files, &AllScans);
    let DiscoveryKind::Scan(scan) = &found.kind else { panic!("{found:?}") };
    assert_eq!(
        (scan.detector.as_str(), scan.frames, scan.sources.len(), scan.complete),
        ("fe", 3, 3, true)
    );
    assert_eq!(scan.below.to_str(), Some("fe_0008.npy"));
    assert_eq!(json(&scan.sources[2].frames), "[[2,3]]");
    assert_eq!(json(&scan.sources[2].rows), "[[0,1]]");
    assert_eq!(found.files, files);
}

#[test]
fn a_number_that_is_left_out_is_a_missing_file() {
    let dir = TestDir::new();
    let files = written(&dir, &["fe_10.npy", "fe_20.npy", "fe_40.npy"]);
    let DiscoveryKind::Scan(scan) = discover_series(&files, &AllScans).kind else { panic!() };
    assert_eq!(
        json(&scan.absent),
        r#"[{"range":[[2,3]],"kind":"missing","reason":"file missing: fe_30.npy"}]"#
    );
    assert_eq!((scan.frames, scan.complete), (4, false));
    // Dates are not frame numbers.
    let files = written(&dir, &["fe_1.npy", "fe_2.npy", "fe_20260304.npy"]);
    let DiscoveryKind::Scan(scan) = discover_series(&files, &AllScans).kind else { panic!() };
    assert_eq!((scan.frames, scan.absent.len()), (3, 0));
}

#[test]
fn an_image_of_another_shape_or_none_at_all_is_absent() {
    let dir = TestDir::new();
    let files = written(&dir, &["fe_1.npy", "fe_2.npy", "fe_3.npy"]);
    std::fs::write(&files[1], "not an image").unwrap();
    let bytes = std::fs::read(&files[2]).unwrap();
    std::fs::write(
        &files[2],
        String::from_utf8_lossy(&bytes[..80]).replace("(6, 7)", "(7, 6)").into_bytes(),
    )
    .unwrap();
    let DiscoveryKind::Scan(scan) = discover_series(&files, &AllScans).kind else { panic!() };
    let reasons: Vec<_> = scan.absent.iter().map(|absent| absent.reason.as_str()).collect();
    assert!(reasons[0].starts_with("file unreadable: fe_2.npy: "), "{reasons:?}");
    assert!(reasons[1].starts_with("file unreadable: fe_3.npy: "), "{reasons:?}");
    assert_eq!(scan.sources.len(), 1);
}

#[test]
fn an_image_that_changed_under_us_is_an_error() {
    let dir = TestDir::new();
    npy(&dir.path("fe.npy"), 0, 1);
    let scan = acquisition(&dir.path("fe.npy"));
    let reader = SourceReader::open(&scan.sources[0], scan.shape).unwrap();
    std::fs::write(dir.path("fe.npy"), "gone").unwrap();
    let FrameChunks::Whole(chunk) = reader.frame_chunks(0) else { panic!() };
    assert!(reader.read_chunk(&chunk, &mut Vec::new()).is_err());
    assert!(SourceReader::open(&scan.sources[0], scan.shape).is_err());
    assert!(refusal(&dir.path("fe.npy")).contains("expected HDF5 or an image"));
}

#[test]
fn an_image_that_the_system_does_not_give_is_an_error_of_the_system() {
    let dir = TestDir::new();
    npy(&dir.path("fe.npy"), 0, 1);
    let scan = acquisition(&dir.path("fe.npy"));
    let reader = SourceReader::open(&scan.sources[0], scan.shape).unwrap();
    let FrameChunks::Whole(chunk) = reader.frame_chunks(0) else { panic!() };
    std::fs::remove_file(dir.path("fe.npy")).unwrap();
    let why = reader.read_chunk(&chunk, &mut Vec::new()).unwrap_err();
    assert_eq!((why.kind(), why.raw_os_error()), (std::io::ErrorKind::NotFound, Some(2)));
}

#[test]
fn the_last_stack_alone_does_not_tell_how_many_images_the_others_have() {
    let dir = TestDir::new();
    let files = ["fe_1.npy", "fe_2.npy", "fe_3.npy"].map(|name| dir.path(name));
    let reason = || match discover_series(&files, &AllScans).kind {
        DiscoveryKind::Failed { why, retryable, .. } => (why, retryable),
        other => panic!("{other:?}"),
    };
    std::fs::write(&files[0], "not an image").unwrap();
    std::fs::write(&files[1], "not an image").unwrap();
    npy(&files[2], 0, 2);
    assert!(reason().0.contains("expected HDF5 or an image"), "{:?}", reason());
    dir.make_unreadable("fe_2.npy");
    let (why, retryable) = reason();
    assert!(why.contains("Too many levels of symbolic links") && retryable, "{why}");
    npy(&files[2], 0, 1);
    assert!(reason().1);
    // Files that are damaged for good are taken for single images before a single image.
    std::fs::remove_file(&files[1]).unwrap();
    std::fs::write(&files[1], "not an image").unwrap();
    let DiscoveryKind::Scan(scan) = discover_series(&files, &AllScans).kind else { panic!() };
    assert_eq!((scan.frames, json(&scan.sources[0].frames)), (3, "[[2,3]]".to_owned()));
}
