//! Tests files of beamlines: Bliss masters of every writer, Lima, and Lima 2.

use std::path::{Path, PathBuf};

use frames::discover::{AllScans, Discovery, DiscoveryKind, ScanFilter, discover};
use hdf5::{File, Group};
use sample::{Defect, Options};

use crate::support::{
    TestDir, acquisition, acquisitions, assert_whole, attribute, group, json, open_to_write, plain,
    plain_from, rotations, text,
};

/// Extents of the datasets in the masters.
pub const SHAPE: [usize; 3] = [4, 6, 7];

/// Writes a Lima 1 file with `frames` frames, starting at frame `first`.
pub fn lima(dir: &TestDir, name: &str, first: usize, frames: usize) {
    let file = dir.create(name);
    attribute(&file, "creator", "LIMA-1.10.0");
    let entry = group(&file, "entry_0000", "NXentry");
    text(&entry, "start_time", "2026-03-04T09:20:30Z");
    let detector = group(&group(&entry, "ESRF-ID31", "NXinstrument"), "p3", "NXdetector");
    plain_from(&detector, "data", first, [frames, 6, 7]);
    let acquisition = group(&detector, "acquisition", "NXcollection");
    acquisition.new_dataset::<f64>().create("exposure_time").unwrap().write_scalar(&0.25).unwrap();
    group(&entry, "measurement", "NXcollection")
        .link_soft("//entry_0000/ESRF-ID31/p3/data", "data")
        .unwrap();
    text(&entry, "end_time", "2026-03-04T09:20:50Z");
}

/// Writes a Bliss entry with a monitor and a motor, but without a detector.
pub fn bliss(file: &File, name: &str) -> (Group, Group) {
    let entry = group(file, name, "NXentry");
    text(&entry, "title", "ascan rot -90 90 3 0.1");
    text(&entry, "start_time", "2026-03-04T10:20:30.000000+01:00");
    let instrument = group(&entry, "instrument", "NXinstrument");
    text(&instrument, "name", "ESRF-ID31");
    let measurement = group(&entry, "measurement", "NXcollection");
    for counter in ["monitor", "epoch"] {
        let values = [1.0, 2.0, 3.0, 4.0];
        let member = group(&instrument, counter, "NXdetector");
        member.new_dataset_builder().with_data(&values).create("data").unwrap();
        measurement.link_soft(&format!("/{name}/instrument/{counter}/data"), counter).unwrap();
    }
    (entry, instrument)
}

/// Writes what Bliss adds at the end of a scan.
pub fn ended(entry: &Group) {
    text(entry, "end_time", "2026-03-04T10:21:30.000000+01:00");
}

/// Writes the group of a detector in an instrument, and links to it from `measurement`.
pub fn detector(instrument: &Group, name: &str) -> Group {
    let entry = instrument.name().trim_end_matches("/instrument").to_owned();
    let detector = group(instrument, name, "NXdetector");
    text(&detector, "type", "lima");
    let measurement = instrument.group(&format!("{entry}/measurement")).unwrap();
    measurement.link_soft(&format!("{entry}/instrument/{name}/data"), name).unwrap();
    detector
}

/// Writes two Lima files of two frames each, and a virtual dataset over both.
fn two_files(detector: &Group, name: &str, directory: &str) {
    let mut builder = detector.new_dataset::<u16>().shape(SHAPE);
    for (file, frames) in [(0, 0..2), (1, 2..4)] {
        let source = format!("{directory}/p3_{file:04}.h5");
        builder = builder.virtual_map(
            source,
            "/entry_0000/ESRF-ID31/p3/data",
            [2, 6, 7],
            ..,
            SHAPE,
            (frames, .., ..),
        );
    }
    builder.create(name).unwrap();
}

fn two_lima_files(dir: &TestDir, directory: &str) {
    lima(dir, &format!("{directory}/p3_0000.h5"), 0, 2);
    lima(dir, &format!("{directory}/p3_0001.h5"), 2, 2);
}

#[test]
fn bliss_1_shows_the_virtual_dataset_as_data() {
    let dir = TestDir::new();
    two_lima_files(&dir, "scan0001");
    let file = dir.create("s_0001.h5");
    let (entry, instrument) = bliss(&file, "1.1");
    two_files(&detector(&instrument, "p3"), "data", "scan0001");
    ended(&entry);
    drop((entry, instrument, file));
    let scan = acquisition(&dir.path("s_0001.h5"));
    assert_eq!((scan.entry.as_str(), scan.detector.as_str()), ("1.1", "p3"));
    assert_eq!(scan.dataset, "/1.1/instrument/p3/data");
    assert_eq!(scan.title.as_deref(), Some("ascan rot -90 90 3 0.1"));
    assert_eq!(scan.start_time.as_deref(), Some("2026-03-04T10:20:30.000000+01:00"));
    assert_eq!((scan.end_reason.as_deref(), scan.complete), (None, true));
    let counters: Vec<_> =
        scan.counters.iter().map(|(name, path)| (name.as_str(), path.as_str())).collect();
    assert_eq!(
        counters,
        [("epoch", "/1.1/measurement/epoch"), ("monitor", "/1.1/measurement/monitor")]
    );
    assert_eq!(scan.sources[0].dataset, "/entry_0000/ESRF-ID31/p3/data");
    assert_whole(&scan);
    let monitor = frames::hdf5_array::read_numbers(&scan.file, &scan.counters["monitor"]).unwrap();
    assert_eq!(monitor, [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn bliss_2_shows_it_as_image_with_a_link_and_has_a_slow_chain() {
    let dir = TestDir::new();
    two_lima_files(&dir, "scan0001");
    let file = dir.create("s_0001.h5");
    let (entry, instrument) = bliss(&file, "1.1");
    let p3 = detector(&instrument, "p3");
    two_files(&p3, "image", "scan0001");
    p3.link_soft("image", "data").unwrap();
    let parameters = group(&p3, "acq_parameters", "NXcollection");
    parameters.new_dataset::<f64>().create("acq_expo_time").unwrap().write_scalar(&0.1).unwrap();
    ended(&entry);
    text(&entry, "end_reason", "SUCCESS");
    let (slow, _) = bliss(&file, "1.2");
    ended(&slow);
    drop((entry, instrument, p3, parameters, slow, file));
    let scan = acquisition(&dir.path("s_0001.h5"));
    assert_eq!(
        (scan.entry.as_str(), scan.exposure_time, scan.end_reason.as_deref()),
        ("1.1", Some(0.1), Some("SUCCESS"))
    );
    assert_whole(&scan);
}

#[test]
fn bliss_3_links_to_the_master_of_lima_2() {
    let dir = TestDir::new();
    for receiver in 0..2 {
        let file = dir.create(&format!("scan0001/e4m_{receiver}_00000.h5"));
        let frames =
            crate::support::stack::<u16>(SHAPE).select(ndarray::Axis(0), &[receiver, receiver + 2]);
        let frames = frames.into_shape_with_order((2, 1, 6, 7)).unwrap();
        let entry = group(&file, "entry_0000", "NXentry");
        let member = group(&group(&entry, "instrument", "NXinstrument"), "e4m", "NXdetector");
        member.new_dataset_builder().with_data(&frames).chunk((1, 1, 6, 7)).create("data").unwrap();
    }
    let lima = dir.create("scan0001/e4m_master.h5");
    let entry = group(&lima, "entry_0000", "NXentry");
    let member = group(&group(&entry, "instrument", "NXinstrument"), "e4m", "NXdetector");
    let mut builder = member.new_dataset::<u16>().shape(SHAPE);
    for receiver in 0..2 {
        let (file, data) = (format!("e4m_{receiver}_00000.h5"), "/entry_0000/instrument/e4m/data");
        builder =
            builder.virtual_map(file, data, [2, 1, 6, 7], .., SHAPE, rotations(receiver, 2, 4));
    }
    builder.create("data").unwrap();
    let (raw, path) = ("scan0001/e4m_master.h5", "/entry_0000/instrument/e4m/data");
    drop((builder, lima, entry, member));

    let file = dir.create("s_0001.h5");
    let (entry, instrument) = bliss(&file, "1.1");
    detector(&instrument, "e4m_raw_frame").link_external(raw, path, "data").unwrap();
    detector(&instrument, "e4m_processed_frame")
        .link_external("scan0001/gone_master.h5", path, "data")
        .unwrap();
    ended(&entry);
    drop((entry, instrument, file));
    let found = discover(&dir.path("s_0001.h5"), &AllScans);
    let DiscoveryKind::Failed { why, .. } = &found[0].kind else { panic!("{found:?}") };
    assert_eq!(why, "file missing: scan0001/gone_master.h5");
    assert_eq!(found[0].dataset, "/1.1/instrument/e4m_processed_frame/data");
    let DiscoveryKind::Scan(scan) = &found[1].kind else { panic!("{found:?}") };
    assert_eq!(json(&scan.sources[1].frames), "[[1,4,2]]");
    assert_whole(scan);
    // All four files belong to the scan, although two contain none of its frames.
    assert!(
        found[1].files.iter().any(|file| file.ends_with("e4m_master.h5")),
        "{:?}",
        found[1].files
    );
    // Lima 2's own master shows the same frames.
    let own = acquisition(&dir.path("scan0001/e4m_master.h5"));
    assert_eq!(
        (own.entry.as_str(), own.detector.as_str(), own.complete),
        ("entry_0000", "e4m", true)
    );
    assert_whole(&own);
    // Each receiver's file shows its own frames.
    assert_eq!(acquisition(&dir.path("scan0001/e4m_1_00000.h5")).frames, 2);
}

#[test]
fn sparse_frames_of_lima_2_are_refused() {
    let dir = TestDir::new();
    let file = dir.create("s_0001.h5");
    let (entry, instrument) = bliss(&file, "1.1");
    let sparse = group(&detector(&instrument, "e4m_sparse"), "data", "NXcollection");
    for name in ["frame_ptr", "index", "intensity"] {
        sparse.new_dataset_builder().with_data(&[0_u32, 1]).create(name).unwrap();
    }
    ended(&entry);
    drop((entry, instrument, sparse, file));
    let why = crate::support::refusal(&dir.path("s_0001.h5"));
    assert!(why.contains("sparse frames") && why.contains("expected images"), "{why}");
}

#[test]
fn images_copied_into_the_master_and_several_detectors_and_scans() {
    let dir = TestDir::new();
    let file = dir.create("s_0001.h5");
    for name in ["10.1", "2.1"] {
        let (entry, instrument) = bliss(&file, name);
        plain(&detector(&instrument, "basler"), "data", [4, 3, 5]);
        plain(&detector(&instrument, "p3"), "data", SHAPE);
        // One spectrum per point is not an image.
        let mca = group(&instrument, "mca", "NXdetector");
        text(&mca, "type", "mca");
        mca.new_dataset::<f32>().shape((4, 2048)).create("data").unwrap();
        ended(&entry);
    }
    drop(file);
    let all = acquisitions(&dir.path("s_0001.h5"));
    let names: Vec<_> =
        all.iter().map(|scan| (scan.entry.as_str(), scan.detector.as_str())).collect();
    assert_eq!(names, [("2.1", "basler"), ("2.1", "p3"), ("10.1", "basler"), ("10.1", "p3")]);
    all.iter().for_each(assert_whole);
    assert_eq!(all[0].shape, [3, 5]);
    let ids: std::collections::BTreeSet<_> =
        all.iter().map(records::Acquisition::compute_id).collect();
    assert_eq!(ids.len(), 4);
}

#[test]
fn a_collection_stands_for_the_masters_that_it_links_to() {
    let dir = TestDir::new();
    for (name, entries) in [("a/a_0001.h5", &["1.1", "2.1"][..]), ("b/b_0001.h5", &["1.1"])] {
        let file = dir.create(name);
        for number in entries {
            let (entry, instrument) = bliss(&file, number);
            plain(&detector(&instrument, "p3"), "data", SHAPE);
            ended(&entry);
        }
    }
    let samples = dir.create("samples.h5");
    samples.link_external("a/a_0001.h5", "/1.1", "a_0001_1.1").unwrap();
    samples.link_external("a/a_0001.h5", "/2.1", "a_0001_2.1").unwrap();
    samples.link_external("b/b_0001.h5", "/1.1", "b_0001_1.1").unwrap();
    samples.link_external("gone.h5", "/1.1", "gone_1.1").unwrap();
    let proposal = dir.create("proposal.h5");
    proposal.link_external("samples.h5", "/", "samples").unwrap();
    drop((samples, proposal));
    for collection in ["samples.h5", "proposal.h5"] {
        let found = discover(&dir.path(collection), &AllScans);
        let of: Vec<_> = found
            .iter()
            .map(|found| match &found.kind {
                DiscoveryKind::Scan(scan) => {
                    format!("{} {}", scan.file.file_name().unwrap().display(), scan.entry)
                }
                DiscoveryKind::Failed { why, .. } => why.clone(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            of,
            ["a_0001.h5 1.1", "a_0001.h5 2.1", "b_0001.h5 1.1", "file missing: gone.h5"],
            "{collection}"
        );
    }
    struct Second;
    impl ScanFilter for Second {
        fn includes_entry(&self, name: &str) -> bool {
            name == "a_0001_2.1"
        }
    }
    let found = discover(&dir.path("samples.h5"), &Second);
    let wanted = found.iter().filter(|found| matches!(found.kind, DiscoveryKind::Scan(_))).count();
    assert_eq!(wanted, 1, "{found:?}");
}

#[test]
fn results_that_link_to_a_raw_scan_are_no_scans() {
    let dir = TestDir::new();
    let raw = dir.create("raw.h5");
    let (entry, instrument) = bliss(&raw, "1.1");
    plain(&detector(&instrument, "p3"), "data", SHAPE);
    ended(&entry);
    drop((entry, instrument, raw));
    let result = dir.create("processed.h5");
    let entry = group(&result, "1.1", "NXentry");
    entry.link_external("raw.h5", "/1.1/instrument", "instrument").unwrap();
    let integrated = group(&group(&entry, "p3_integrate", "NXprocess"), "integrated", "NXdata");
    integrated.new_dataset::<f32>().shape((4, 36, 100)).create("intensity").unwrap();
    drop((entry, integrated, result));
    let found = discover(&dir.path("processed.h5"), &AllScans);
    assert!(
        matches!(
            found[..],
            [Discovery { kind: DiscoveryKind::NoDetectors { entries: 1, bliss_entries: 1 }, .. }]
        ),
        "{found:?}"
    );
}

#[test]
fn a_lima_file_alone() {
    let dir = TestDir::new();
    lima(&dir, "p3_0000.h5", 0, 4);
    let scan = acquisition(&dir.path("p3_0000.h5"));
    assert_eq!(
        (scan.entry.as_str(), scan.detector.as_str(), scan.complete),
        ("entry_0000", "p3", true)
    );
    assert_eq!(
        (scan.dataset.as_str(), scan.exposure_time),
        ("/entry_0000/ESRF-ID31/p3/data", Some(0.25))
    );
    assert_whole(&scan);
    // Lima writes end_time when it closes the file.
    open_to_write(dir.path("p3_0000.h5")).unlink("/entry_0000/end_time").unwrap();
    assert!(!acquisition(&dir.path("p3_0000.h5")).complete);
}

/// Writes a scan of 12 frames, five per file, with a defect, and finds it.
pub fn sampled(defect: Option<Defect>) -> (TestDir, Vec<Discovery>) {
    let dir = TestDir::new();
    let scans_ = usize::from(defect.is_none());
    let options = Options {
        scans: scans_,
        defects: defect.into_iter().collect(),
        frames: 12,
        frames_per_file: 5,
        distinct: 1,
        ..Options::default()
    };
    let dataset = sample::write(&dir.path(""), &options).unwrap();
    let found = discover(&dataset.master, &AllScans);
    (dir, found)
}

/// Returns whether the only scan is complete, and its absent frames with the reason of each.
pub fn absences(found: &[Discovery]) -> (bool, Vec<(String, String)>) {
    let DiscoveryKind::Scan(scan) = &found[0].kind else { panic!("{found:?}") };
    assert_eq!((found.len(), scan.frames), (1, 12));
    (
        scan.complete,
        scan.absent.iter().map(|absent| (json(&absent.range), absent.reason.clone())).collect(),
    )
}

#[test]
fn scans_that_lack_something_say_what() {
    let said = |defect| absences(&sampled(defect).1);
    let not_written = |range: &str| (range.to_owned(), "not written".to_owned());
    let missing = |range: &str, file: usize| {
        let name = format!("scan0001/{}_{file:04}.h5", Options::default().detector.device);
        (range.to_owned(), format!("file missing: {name}"))
    };
    assert_eq!(said(None), (true, vec![]));
    assert_eq!(said(Some(Defect::MissingFile)), (false, vec![missing("[[5,10]]", 1)]));
    assert_eq!(said(Some(Defect::UnwrittenChunk)), (false, vec![not_written("[[6,7]]")]));
    // A truncated chunk has an entry in the index: only decoding reveals the damage.
    assert_eq!(said(Some(Defect::TruncatedChunk)), (true, vec![]));
    let aborted =
        vec![("[[6,12]]".to_owned(), "never taken: the scan ended by USER_ABORT".to_owned())];
    assert_eq!(said(Some(Defect::Aborted)), (false, aborted));
}

#[test]
fn a_file_that_an_aborted_scan_had_written_is_missing_and_not_never_taken() {
    let absent_without = |file: &str| {
        let (_place, found) = sampled(Some(Defect::Aborted));
        let DiscoveryKind::Scan(scan) = &found[0].kind else { panic!("{found:?}") };
        let name = format!("scan0001/{}_{file}.h5", Options::default().detector.device);
        std::fs::remove_file(scan.file.with_file_name(name)).unwrap();
        absences(&discover(&scan.file, &AllScans))
            .1
            .into_iter()
            .map(|(range, reason)| (range, reason.starts_with("never")))
            .collect::<Vec<_>>()
    };
    // Frames 0 to 5 were taken: five are in file 0 and one in file 1, as the counters confirm.
    assert_eq!(
        absent_without("0000"),
        [("[[0,5]]".to_owned(), false), ("[[6,12]]".to_owned(), true)]
    );
    assert_eq!(
        absent_without("0001"),
        [("[[5,6]]".to_owned(), false), ("[[6,12]]".to_owned(), true)]
    );
}

#[test]
fn a_running_scan_shows_the_frames_of_the_files_that_are_closed() {
    let (dir, found) = sampled(Some(Defect::Running));
    let (complete, absent) = absences(&found);
    assert!(!complete);
    let of = |range: &str, reason: &str| (range.to_owned(), reason.to_owned());
    assert_eq!(
        absent,
        [
            of("[[5,10]]", "being written"),
            of("[[10,12]]", "not taken yet: the scan is still running")
        ]
    );
    let DiscoveryKind::Scan(scan) = &found[0].kind else { panic!() };
    assert_eq!((json(&scan.sources[0].frames), scan.sources.len()), ("[[0,5]]".to_owned(), 1));
    assert!(
        scan.sources[0].dataset.starts_with("/entry_0000/ESRF-ID31/"),
        "{}",
        scan.sources[0].dataset
    );
    // Even the first file is missing.
    let directory = scan.sources[0].file.parent().unwrap().to_owned();
    std::fs::remove_dir_all(directory).unwrap();
    let found = discover(&scan.file, &AllScans);
    assert!(
        matches!(&found[0].kind, DiscoveryKind::NoFrames(why) if why.contains("still running")),
        "{found:?}"
    );
    drop(dir);
}

/// Returns the path of a real file, if the collection of real files is available.
fn shared(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    path.exists().then_some(path)
}

#[test]
fn the_genuine_bliss_files_of_2021_resolve() {
    let Some(collection) = shared("esrf-id11-bliss-2021/ma4500_demoh5.h5") else { return };
    let all = acquisitions(&collection);
    assert_eq!(
        all.iter().map(|scan| (scan.entry.as_str(), scan.frames)).collect::<Vec<_>>(),
        [("1.1", 2), ("2.1", 5)]
    );
    let scan = &all[1];
    assert_eq!(
        (scan.detector.as_str(), scan.dtype.as_str(), scan.codec.as_str()),
        ("marana", "u16", "bslz4")
    );
    assert_eq!(
        (scan.shape, scan.title.as_deref(), scan.complete),
        ([2048, 2048], Some("loopscan 5 0.1"), true)
    );
    assert!(scan.file.ends_with("demoh5_dataset/demoh5_dataset.h5"));
    assert_eq!(scan.start_time.as_deref(), Some("2021-01-29T11:00:46.677273+01:00"));
    assert_eq!(
        (scan.exposure_time, scan.counters["epoch"].as_str()),
        (Some(0.1), "/2.1/measurement/epoch")
    );
    assert!(scan.sources[0].file.ends_with("demoh5_dataset/scan0002/marana_0000.h5"));
}

#[test]
fn a_master_of_blisswriter_2_resolves() {
    let Some(master) = shared("dioptas-fe3o4-map-bliss2/Fe3O4C_0001.h5") else { return };
    let scan = acquisition(&master);
    let frames = json(&scan.sources.iter().map(|source| &source.frames).collect::<Vec<_>>());
    assert_eq!(
        (frames.as_str(), scan.shape, scan.dtype.as_str()),
        ("[[[0,3]],[[3,4]]]", [1043, 981], "i32")
    );
    assert_eq!(
        scan.counters.keys().collect::<Vec<_>>(),
        ["elapsed_time", "epoch", "mondio", "rot"]
    );
    assert_eq!(scan.end_reason.as_deref(), Some("SUCCESS"));
    // The counter's link leads to `signal`, the name that this writer uses.
    assert_eq!(
        frames::hdf5_array::read_numbers(&scan.file, &scan.counters["mondio"]).unwrap().len(),
        4
    );
}
