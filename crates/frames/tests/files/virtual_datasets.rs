//! Tests virtual datasets: each frame is mapped to its row, or reported as absent.

use hdf5_sys::h5s::H5S_UNLIMITED;

use frames::hdf5_array::{Hdf5ArrayError, read_numbers, read_written_numbers};

use crate::ffi::{Mapping, create_virtual};
use crate::support::{
    TestDir, acquisition, all_pixels, assert_whole, frame, json, plain, plain_from, refusal,
    rotations, stack,
};

const FRAME: [usize; 2] = [6, 7];

fn shape(frames: u64) -> [u64; 3] {
    [frames, 6, 7]
}

/// Returns the path of dataset `/v` of the master, `master.h5::/v`.
fn virtual_dataset(dir: &TestDir) -> std::path::PathBuf {
    let mut name = dir.path("master.h5").into_os_string();
    name.push("::/v");
    name.into()
}

fn mapping<'a>(
    here: &'a [(u64, u64, u64)],
    file: &'a str,
    rows: u64,
    there: &'a [(u64, u64, u64)],
) -> Mapping<'a> {
    Mapping { here, file, dataset: "/d", extents: shape(rows), there }
}

#[test]
fn one_file_after_the_other_in_a_directory_below() {
    let dir = TestDir::new();
    for (file, first) in
        [("scan0001/p3_0000.h5", 0), ("scan0001/p3_0001.h5", 3), ("scan0001/p3_0002.h5", 6)]
    {
        plain_from(&dir.create(file), "d", first, [3.min(8 - first), 6, 7]);
    }
    let maps = [
        mapping(&[(0, 3, 1)], "scan0001/p3_0000.h5", 3, &[(0, 3, 1)]),
        mapping(&[(3, 3, 1)], "scan0001/p3_0001.h5", 3, &[(0, 3, 1)]),
        mapping(&[(6, 2, 1)], "scan0001/p3_0002.h5", 2, &[(0, 2, 1)]),
    ];
    create_virtual(&dir.create("master.h5"), "v", shape(8), &maps);
    let scan = acquisition(&virtual_dataset(&dir));
    assert_whole(&scan);
    assert_eq!(scan.sources.iter().map(|source| source.bytes).collect::<Vec<_>>(), [252, 252, 168]);
    assert_eq!((scan.complete, scan.dtype.as_str()), (true, "u16"));
    let metadata = std::fs::metadata(dir.path("scan0001/p3_0002.h5")).unwrap();
    assert_eq!(scan.sources[2].file.as_path(), dir.path("scan0001/p3_0002.h5"));
    assert_eq!(scan.sources[2].size, metadata.len());
    let since = metadata.modified().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(scan.sources[2].mtime as u128, since.as_nanos());
}

#[test]
fn receivers_that_take_turns() {
    let dir = TestDir::new();
    for receiver in 0..3_usize {
        let file = dir.create(&format!("r{receiver}.h5"));
        let rows: Vec<usize> = (receiver..10).step_by(3).collect();
        let frames = stack::<u16>([10, 6, 7]).select(ndarray::Axis(0), &rows);
        let frames = frames.into_shape_with_order((rows.len(), 1, 6, 7)).unwrap();
        file.new_dataset_builder().with_data(&frames).chunk((1, 1, 6, 7)).create("d").unwrap();
    }
    let master = dir.create("master.h5");
    let mut builder = master.new_dataset::<u16>().shape([10, 6, 7]);
    for (receiver, rows) in [4, 3, 3].into_iter().enumerate() {
        let turns = rotations(receiver, 3, 10);
        builder = builder.virtual_map(
            format!("r{receiver}.h5"),
            "/d",
            [rows, 1, 6, 7],
            ..,
            [10, 6, 7],
            turns,
        );
    }
    builder.create("v").unwrap();
    drop((builder, master));
    let scan = acquisition(&virtual_dataset(&dir));
    assert_eq!(json(&scan.sources[1].frames), "[[1,8,3]]");
    assert_eq!(json(&scan.sources[1].rows), "[[0,3]]");
    assert_whole(&scan);
}

#[test]
fn any_frames_in_any_order_of_files() {
    let dir = TestDir::new();
    // Frames 0 1 4 7 8 9 are in one file, and 2 3 5 6 in the other, after two other frames.
    let all = stack::<u16>([10, 6, 7]);
    let one = all.select(ndarray::Axis(0), &[0, 1, 4, 7, 8, 9]);
    let two = all.select(ndarray::Axis(0), &[9, 9, 2, 3, 5, 6]);
    for (name, frames) in [("one.h5", &one), ("two.h5", &two)] {
        dir.create(name)
            .new_dataset_builder()
            .with_data(frames)
            .chunk((1, 6, 7))
            .create("d")
            .unwrap();
    }
    let maps = [
        mapping(&[(2, 2, 1), (5, 2, 1)], "two.h5", 6, &[(2, 4, 1)]),
        mapping(&[(0, 2, 1), (4, 1, 1), (7, 3, 1)], "one.h5", 6, &[(0, 6, 1)]),
    ];
    create_virtual(&dir.create("master.h5"), "v", shape(10), &maps);
    let scan = acquisition(&virtual_dataset(&dir));
    assert_whole(&scan);
    assert!(scan.sources[0].file.ends_with("one.h5"), "in the order of their first frame");
}

#[test]
fn a_mapping_for_each_frame_is_one_source_a_file() {
    let dir = TestDir::new();
    plain(&dir.create("a.h5"), "d", [6, 6, 7]);
    let runs: Vec<[(u64, u64, u64); 1]> = (0..6).map(|number| [(number, 1, 1)]).collect();
    let maps: Vec<_> = runs.iter().map(|run| mapping(run, "a.h5", 6, run)).collect();
    create_virtual(&dir.create("master.h5"), "v", shape(6), &maps);
    let scan = acquisition(&virtual_dataset(&dir));
    assert_eq!((scan.sources.len(), json(&scan.sources[0].frames)), (1, "[[0,6]]".to_owned()));
    assert_whole(&scan);
}

#[test]
fn virtual_datasets_of_virtual_datasets_and_of_their_own_file() {
    let dir = TestDir::new();
    plain(&dir.create("below/raw.h5"), "d", [6, 6, 7]);
    // The middle file names its source relative to itself, and swaps the halves.
    let turned = [
        mapping(&[(0, 3, 1)], "raw.h5", 6, &[(3, 3, 1)]),
        mapping(&[(3, 3, 1)], "raw.h5", 6, &[(0, 3, 1)]),
    ];
    create_virtual(&dir.create("below/middle.h5"), "d", shape(6), &turned);
    let master = dir.create("master.h5");
    plain_from(&master, "d", 6, [2, 6, 7]);
    let maps = [
        mapping(&[(0, 3, 1)], "below/middle.h5", 6, &[(3, 3, 1)]),
        mapping(&[(3, 3, 1)], "below/middle.h5", 6, &[(0, 3, 1)]),
        mapping(&[(6, 2, 1)], ".", 2, &[(0, 2, 1)]),
    ];
    create_virtual(&master, "v", shape(8), &maps);
    drop(master);
    let scan = acquisition(&virtual_dataset(&dir));
    let files: Vec<_> =
        scan.sources.iter().map(|source| source.file.file_name().unwrap().to_owned()).collect();
    assert_eq!(files, ["raw.h5", "master.h5"]);
    assert_whole(&scan);
}

#[test]
fn a_missing_source_is_absent_and_not_zero() {
    let dir = TestDir::new();
    plain(&dir.create("a.h5"), "d", [3, 6, 7]);
    let maps = [
        mapping(&[(0, 3, 1)], "a.h5", 3, &[(0, 3, 1)]),
        mapping(&[(3, 3, 1)], "gone.h5", 3, &[(0, 3, 1)]),
        mapping(&[(6, 1, 1)], "other.h5", 1, &[(0, 1, 1)]),
    ];
    create_virtual(&dir.create("master.h5"), "v", shape(9), &maps);
    std::fs::write(dir.path("other.h5"), "not HDF5").unwrap();
    let scan = acquisition(&virtual_dataset(&dir));
    let reasons: Vec<_> =
        scan.absent.iter().map(|absent| (json(&absent.range), absent.reason.as_str())).collect();
    assert_eq!(reasons[0], ("[[3,6]]".to_owned(), "file missing: gone.h5"));
    assert!(
        reasons[1].0 == "[[6,7]]" && reasons[1].1.starts_with("file unreadable: other.h5: "),
        "{reasons:?}"
    );
    assert_eq!(reasons[2], ("[[7,9]]".to_owned(), "not written"));
    assert!(!scan.complete);
    assert_eq!(all_pixels(&scan).iter().filter(|pixels| pixels.is_some()).count(), 3);
}

#[test]
fn all_sources_missing_is_still_a_scan() {
    let dir = TestDir::new();
    create_virtual(
        &dir.create("master.h5"),
        "v",
        shape(4),
        &[mapping(&[(0, 4, 1)], "gone.h5", 4, &[(0, 4, 1)])],
    );
    let scan = acquisition(&virtual_dataset(&dir));
    assert_eq!(
        (scan.frames, scan.shape, scan.dtype.as_str(), scan.sources.len()),
        (4, [6, 7], "u16", 0)
    );
    assert_eq!(
        json(&scan.absent),
        r#"[{"range":[[0,4]],"kind":"missing","reason":"file missing: gone.h5"}]"#
    );
}

#[test]
fn sources_of_another_kind_are_absent() {
    let dir = TestDir::new();
    plain(&dir.create("a.h5"), "d", [2, 6, 7]);
    plain(&dir.create("turned.h5"), "d", [2, 7, 6]);
    dir.create("wide.h5")
        .new_dataset_builder()
        .with_data(&stack::<u32>([2, 6, 7]))
        .create("d")
        .unwrap();
    let master = dir.create("master.h5");
    let turned =
        Mapping { extents: [2, 6, 7], ..mapping(&[(2, 2, 1)], "turned.h5", 2, &[(0, 2, 1)]) };
    let maps = [
        mapping(&[(0, 2, 1)], "a.h5", 2, &[(0, 2, 1)]),
        turned,
        mapping(&[(4, 2, 1)], "wide.h5", 2, &[(0, 2, 1)]),
    ];
    create_virtual(&master, "v", shape(6), &maps);
    drop(master);
    let scan = acquisition(&virtual_dataset(&dir));
    assert_eq!(
        json(&scan.sources.iter().map(|source| &source.frames).collect::<Vec<_>>()),
        "[[[0,2]]]"
    );
    assert_eq!(
        scan.absent[0].reason,
        "file unreadable: turned.h5: frames of 7 x 6 pixels: expected 6 x 7 pixels like the other frames"
    );
    assert_eq!(scan.absent[1].reason, "uint32 pixels: expected uint16 like the other frames");
}

#[test]
fn mappings_that_go_on_as_far_as_their_source_does() {
    let dir = TestDir::new();
    let file = dir.create("a.h5");
    let grown = file.new_dataset::<u16>().shape((0.., 6, 7)).chunk((1, 6, 7)).create("d").unwrap();
    grown.resize((5, 6, 7)).unwrap();
    grown.write(&stack::<u16>([5, 6, 7])).unwrap();
    drop((grown, file));
    let here = [(0, H5S_UNLIMITED, 1)];
    create_virtual(&dir.create("master.h5"), "v", shape(5), &[mapping(&here, "a.h5", 5, &here)]);
    assert_whole(&acquisition(&virtual_dataset(&dir)));
}

#[test]
fn frames_put_together_from_modules_are_refused() {
    let dir = TestDir::new();
    for half in ["top.h5", "bottom.h5"] {
        plain(&dir.create(half), "d", [2, 3, 7]);
    }
    let master = dir.create("master.h5");
    let builder = master.new_dataset::<u16>().shape([2, 6, 7]);
    let builder = builder.virtual_map("top.h5", "/d", [2, 3, 7], .., [2, 6, 7], (.., 0..3, ..));
    builder
        .virtual_map("bottom.h5", "/d", [2, 3, 7], .., [2, 6, 7], (.., 3..6, ..))
        .create("v")
        .unwrap();
    drop(master);
    let why = refusal(&virtual_dataset(&dir));
    assert!(why.contains("puts frames together from parts of datasets"), "{why}");
}

#[test]
fn a_frame_with_two_sources_and_a_ring_are_refused() {
    let dir = TestDir::new();
    plain(&dir.create("a.h5"), "d", [3, 6, 7]);
    let maps = [
        mapping(&[(0, 3, 1)], "a.h5", 3, &[(0, 3, 1)]),
        mapping(&[(2, 1, 1)], "b.h5", 3, &[(0, 1, 1)]),
    ];
    create_virtual(&dir.create("master.h5"), "v", shape(3), &maps);
    assert_eq!(
        refusal(&virtual_dataset(&dir)),
        "frame 2 is mapped twice: expected one source for each frame"
    );

    let dir = TestDir::new();
    let ring = |other: &'static str| {
        [Mapping { dataset: "/v", ..mapping(&[(0, 3, 1)], other, 3, &[(0, 3, 1)]) }]
    };
    create_virtual(&dir.create("other.h5"), "v", shape(3), &ring("master.h5"));
    create_virtual(&dir.create("master.h5"), "v", shape(3), &ring("other.h5"));
    let scan = acquisition(&virtual_dataset(&dir));
    assert!(scan.absent[0].reason.contains("refer to each other in a cycle"), "{:?}", scan.absent);
}

#[test]
fn a_source_that_shrank_has_not_written_the_rest() {
    let dir = TestDir::new();
    plain(&dir.create("a.h5"), "d", [2, 6, 7]);
    create_virtual(
        &dir.create("master.h5"),
        "v",
        shape(4),
        &[mapping(&[(0, 4, 1)], "a.h5", 4, &[(0, 4, 1)])],
    );
    let scan = acquisition(&virtual_dataset(&dir));
    assert_eq!(
        json(&scan.absent),
        r#"[{"range":[[2,4]],"kind":"not_written","reason":"not written"}]"#
    );
    assert_eq!(all_pixels(&scan)[1].as_deref(), Some(&frame(1, FRAME)[..]));
}

#[test]
fn frames_of_an_edf_file_that_the_dataset_lists_as_its_storage() {
    let dir = TestDir::new();
    let frames = stack::<u16>([2, 6, 7]);
    let mut bytes = Vec::new();
    let mut offsets = Vec::new();
    for image in frames.outer_iter() {
        let header = "{\nByteOrder = LowByteFirst ;\nDataType = UnsignedShort ;\nDim_1 = 7 ;\nDim_2 = 6 ;\nSize = 84 ;\n";
        bytes.extend(format!("{header:<510}}}\n").into_bytes());
        offsets.push(bytes.len());
        bytes.extend(image.iter().flat_map(|pixel| pixel.to_le_bytes()));
    }
    std::fs::write(dir.path("raw.edf"), bytes).unwrap();
    let master = dir.create("master.h5");
    let builder = master.new_dataset::<u16>().shape([2, 6, 7]);
    builder
        .external("raw.edf", offsets[0], 84)
        .external("raw.edf", offsets[1], 84)
        .create("v")
        .unwrap();
    drop(master);
    let scan = acquisition(&virtual_dataset(&dir));
    assert_eq!((scan.codec.as_str(), scan.sources[0].dataset.as_str()), ("edf", ""));
    assert_whole(&scan);
}

#[test]
fn an_array_with_a_source_that_can_not_be_read_is_no_fill_value() {
    let dir = TestDir::new();
    let master = dir.create("master.h5");
    master
        .new_dataset::<f64>()
        .shape(4)
        .virtual_map("counts.h5", "/mon", 2, .., 4, 0..2)
        .virtual_map("counts.h5", "/mon", 2, .., 4, 2..4)
        .create("mon")
        .unwrap();
    let whole =
        || master.new_dataset::<f64>().shape(4).virtual_map("master.h5", "/mon", 4, .., 4, ..);
    whole().create("nested").unwrap();
    drop(master);
    let counts = dir.create("counts.h5");
    counts.new_dataset_builder().with_data(&[3.0, 4.0]).create("mon").unwrap();
    drop(counts);
    let path = dir.path("master.h5");
    for name in ["/mon", "/nested"] {
        assert_eq!(read_written_numbers(&path, name).unwrap(), [3.0, 4.0, 3.0, 4.0]);
        assert_eq!(read_numbers(&path, name).unwrap(), [3.0, 4.0, 3.0, 4.0]);
    }
    let errors = || {
        ["/mon", "/nested"].map(|name| {
            let errors = [read_written_numbers(&path, name), read_numbers(&path, name)];
            let [written, all] = errors.map(|read| read.unwrap_err());
            assert_eq!(written.to_string(), all.to_string());
            (
                matches!(all, Hdf5ArrayError::Io { .. }),
                all.to_string().replace(&path.display().to_string(), "M"),
            )
        })
    };
    std::fs::remove_file(dir.path("counts.h5")).unwrap();
    let why = "file missing: counts.h5: expected the source of this virtual dataset";
    assert_eq!(errors(), ["/mon", "/nested"].map(|name| (false, format!("M::{name}: {why}"))));
    dir.make_unreadable("counts.h5");
    for (is_io, why) in errors() {
        assert!(
            is_io && why.starts_with("M: /") && why.contains("/counts.h5: Too many levels"),
            "{why}"
        );
    }
    std::fs::remove_file(dir.path("counts.h5")).unwrap();
    dir.create("counts.h5").create_group("other").unwrap();
    for (is_io, why) in errors() {
        assert!(!is_io && why.ends_with("/counts.h5::/mon: no such dataset"), "{why}");
    }
}
