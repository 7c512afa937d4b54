//! Tests Lima files that can't all be read, and what Lima says that it did to the images.

use frames::discover::{AllScans, Discovery, DiscoveryKind, discover};
use hdf5::Group;
use sample::{Defect, Options};

use crate::bliss::{absences, lima, sampled};
use crate::support::{TestDir, group, open_to_write, refusal, text};

#[test]
fn the_last_lima_file_alone_takes_the_frames_per_file_from_the_master() {
    let (dir, found) = sampled(Some(Defect::Running));
    let DiscoveryKind::Scan(scan) = &found[0].kind else { panic!("{found:?}") };
    let frames = |number: usize| {
        let name = format!("scan0001/{}_{number:04}.h5", Options::default().detector.device);
        scan.sources[0].file.ancestors().nth(2).unwrap().join(name)
    };
    // The first file can't be read; the second one, which is closed now, has two frames, as the
    // last one of a scan may.
    let second = frames(1);
    let detector = scan.sources[0].dataset.trim_end_matches("/data");
    let file = open_to_write(&second);
    let path = format!("{detector}/data");
    let images = file.dataset(&path).unwrap();
    let kind = images.dtype().unwrap().to_descriptor().unwrap();
    let [_, rows, columns] = images.shape()[..] else { panic!("{images:?}") };
    drop(images);
    file.unlink(&path).unwrap();
    file.new_dataset_builder()
        .empty_as(&kind)
        .chunk((1, rows, columns))
        .shape((2, rows, columns))
        .create(&*path)
        .unwrap();
    text(&file.group("entry_0000").unwrap(), "end_time", "2026-03-04T09:20:50Z");
    drop(file);
    std::fs::remove_file(frames(0)).unwrap();
    std::os::unix::fs::symlink(frames(0), frames(0)).unwrap();
    let ranges = |found: &[Discovery]| {
        absences(found).1.into_iter().map(|(range, _)| range).collect::<Vec<_>>()
    };
    let again = discover(&scan.file, &AllScans);
    assert_eq!(ranges(&again)[0], "[[0,5]]", "{again:?}");
    // A master that doesn't say how many frames each file has leaves it open where the frames
    // belong.
    let file = open_to_write(&scan.file);
    let master_detector = scan.dataset.trim_end_matches("/data").trim_end_matches("/image");
    file.unlink(&format!("{master_detector}/ctrl_parameters/saving_frame_per_file")).unwrap();
    drop(file);
    let again = discover(&scan.file, &AllScans);
    let DiscoveryKind::Failed { why, retryable, .. } = &again[0].kind else { panic!("{again:?}") };
    assert!(why.contains("Too many levels of symbolic links") && *retryable, "{why}");
    drop(dir);
}

#[test]
fn a_scan_whose_first_lima_file_is_missing_keeps_its_frame_numbers() {
    for defect in [Defect::Running, Defect::Aborted] {
        let (dir, found) = sampled(Some(defect));
        let DiscoveryKind::Scan(before) = &found[0].kind else { panic!("{found:?}") };
        std::fs::remove_file(&before.sources[0].file).unwrap();
        // The second file is closed, or all frames would be absent.
        let second = before.sources[0]
            .file
            .with_file_name(format!("{}_0001.h5", Options::default().detector.device));
        let file = open_to_write(&second);
        let entry = file.group("entry_0000").unwrap();
        if !entry.link_exists("end_time") {
            text(&entry, "end_time", "2026-03-04T09:20:50Z");
        }
        drop((entry, file));
        let found = discover(&before.file, &AllScans);
        let DiscoveryKind::Scan(scan) = &found[0].kind else { panic!("{found:?}") };
        assert_eq!(*scan.sources[0].file, *second);
        assert_eq!(scan.sources[0].frames.iter().next(), Some(5), "{defect:?}: {scan:?}");
        let (_, absent) = absences(&found);
        let (range, why) = &absent[0];
        assert_eq!(range, "[[0,5]]", "{defect:?}");
        assert!(
            why.starts_with("file missing: ") && why.ends_with("_0000.h5"),
            "{defect:?}: {why}"
        );
        drop(dir);
    }
}

#[test]
fn an_image_operation_that_is_not_understood_is_refused() {
    let refused = |edit: &dyn Fn(&Group)| {
        let dir = TestDir::new();
        lima(&dir, "p3_0000.h5", 0, 4);
        let file = open_to_write(dir.path("p3_0000.h5"));
        let operation = group(
            &file.group("entry_0000/ESRF-ID31/p3").unwrap(),
            "image_operation",
            "NXcollection",
        );
        edit(&operation);
        drop((operation, file));
        refusal(&dir.path("p3_0000.h5"))
    };
    let number = |operation: &Group, name: &str, value: f64| {
        let binning = operation
            .group("binning")
            .unwrap_or_else(|_| group(operation, "binning", "NXcollection"));
        binning.new_dataset::<f64>().create(name).unwrap().write_scalar(&value).unwrap();
    };
    let rotations = "expected Rotation_0, Rotation_90, Rotation_180 or Rotation_270";
    for turned in ["Rotation_45", "90", "Unknown"] {
        let why = refused(&|operation| text(operation, "rotation", turned));
        assert_eq!(why, format!("image_operation: rotation is {turned}: {rotations}"));
    }
    let why = refused(&|operation| number(operation, "x", 2.0));
    assert_eq!(why, "image_operation: binning/y is missing: expected a whole number");
    let why = refused(&|operation| {
        number(operation, "x", 2.0);
        number(operation, "y", -1.0);
    });
    assert_eq!(why, "image_operation: binning/y is -1: expected a whole number");
    let why = refused(&|operation| text(&group(operation, "binning", "NXcollection"), "y", "two"));
    assert_eq!(why, "image_operation: binning/y is no number: expected a whole number");
}

#[test]
fn files_that_fit_only_if_numbered_from_1_are_refused() {
    let (dir, found) = sampled(Some(Defect::Running));
    let DiscoveryKind::Scan(before) = &found[0].kind else { panic!("{found:?}") };
    let file = |number: usize| {
        let name = format!("{}_{number:04}.h5", Options::default().detector.device);
        before.sources[0].file.with_file_name(name)
    };
    let last = (0..).take_while(|number| file(*number).exists()).last().unwrap();
    assert!(last > 0);
    for number in (0..=last).rev() {
        std::fs::rename(file(number), file(number + 1)).unwrap();
    }
    let master = open_to_write(&before.file);
    let detector = before.dataset.trim_end_matches("/data").trim_end_matches("/image");
    let parameters = master.group(&format!("{detector}/acq_parameters")).unwrap();
    parameters.unlink("acq_nb_frames").unwrap();
    let requested = before.sources[0].frames.count() * (last as u64 + 1);
    parameters.new_dataset_builder().with_data(&[requested]).create("acq_nb_frames").unwrap();
    drop((parameters, master));
    let again = discover(&before.file, &AllScans);
    let DiscoveryKind::Failed { why, .. } = &again[0].kind else { panic!("{again:?}") };
    assert!(why.contains("expected files numbered from 0"), "{why}");
    drop(dir);
}
