//! Detectors configured by PONI files and detector files.

use super::*;

fn poni(detector: &str) -> Poni {
    Poni::parse(&format!("{detector}\nDistance: 0.1\nPoni1: 0.02\nPoni2: 0.03\n")).unwrap()
}

fn configured(name: &str, config: &str) -> Result<Detector, DetectorError> {
    Detector::from_poni(&poni(&format!("Detector: {name}\nDetector_config: {config}")))
}

#[test]
fn a_named_detector_has_its_facts() {
    let eiger = configured("Eiger2 CdTe 4M", "{\"orientation\": 2}").unwrap();
    assert_eq!(
        (eiger.name.as_str(), eiger.shape, eiger.pixel1),
        ("Eiger2CdTe_4M", Some([2162, 2068]), 7.5e-5)
    );
    assert_eq!(eiger.orientation, Orientation::TopRight);
    assert_eq!(eiger.gap_mask().unwrap().iter().filter(|&&masked| masked).count(), 268520);
    assert_eq!(eiger.dummy, DummyRule { dummy: Some(-2.0), delta: Some(1.5), counter: true });
}

#[test]
fn a_generic_detector_takes_the_frames_shape() {
    let detector = configured("Detector", "{\"pixel1\": 1e-4, \"pixel2\": 2e-4}").unwrap();
    assert_eq!(detector.shape, None);
    assert_eq!(detector.for_frames([3, 4]).unwrap().shape, Some([3, 4]));
    let fixed =
        configured("Detector", "{\"pixel1\": 1e-4, \"pixel2\": 2e-4, \"max_shape\": [5, 6]}")
            .unwrap();
    assert_eq!(
        fixed.check_frame_shape([6, 5]).unwrap_err().to_string(),
        "detector Detector has 5 x 6 pixels, the frames 6 x 5"
    );
}

#[test]
fn version_1_makes_a_grid_of_a_detector_without_a_size_of_its_own() {
    let plain =
        Detector::from_poni(&poni("Detector: FReLoN\nPixelSize1: 1e-4\nPixelSize2: 2e-4")).unwrap();
    assert_eq!((plain.name.as_str(), plain.shape, plain.pixel2), ("Detector", None, 2e-4));
    let pilatus =
        Detector::from_poni(&poni("Detector: Pilatus1M\nPixelSize1: 1.72e-4\nPixelSize2: 1.72e-4"))
            .unwrap();
    assert_eq!(pilatus.shape, Some([1043, 981]));
    let message = Detector::from_poni(&poni("PixelSize1: 1e-4")).unwrap_err().to_string();
    assert!(
        message
            .starts_with("detector Detector: no pixel size; expected pixel1 and pixel2 in metres"),
        "{message}"
    );
}

#[test]
fn larger_pixels_mean_binning() {
    let rayonix = configured("RayonixSx165", "{\"pixel1\": 7.9e-5, \"pixel2\": 7.9e-5}").unwrap();
    assert_eq!(rayonix.shape, Some([2048, 2048]));
    let pixium = configured("Pixium", "{}").unwrap();
    assert_eq!((pixium.shape, pixium.pixel1), (Some([955, 1240]), 308e-6));
    let unbinned = pixium.for_frames([1910, 2480]).unwrap();
    assert!((unbinned.pixel1 - 154e-6).abs() < 1e-18);
    let mar = configured("Mar345", "{\"pixel1\": 1.5e-4, \"pixel2\": 1.5e-4}").unwrap();
    assert_eq!(mar.shape, Some([2300, 2300]));
    assert_eq!(mar.for_frames([1800, 1800]).unwrap().pixel1, 1e-4);
}

#[test]
fn a_binned_gap_is_masked() {
    let halved = Detector::by_name("Maxipix2x2").unwrap().for_frames([258, 258]).unwrap();
    assert_eq!(halved.pixel1, 11e-5);
    assert_eq!(halved.gap_mask().unwrap().iter().filter(|&&masked| masked).count(), 4 * 258 - 4);
}

#[test]
fn detectors_that_are_no_flat_grid_are_refused() {
    let message = |name, config| configured(name, config).unwrap_err().to_string();
    assert!(
        message("Pixirad-1", "{}")
            .starts_with("detector Pixirad1: hexagonal pixels; only flat grids of rectangular")
    );
    assert!(message("Rapid", "{\"radius\": 0.12726}").starts_with("detector Rapid: not flat"));
    let module = message("Eiger4M", "{\"module_size\": [514, 1030]}");
    assert!(
        module.starts_with("detector Eiger4M: module_size in Detector_config is not supported"),
        "{module}"
    );
    assert!(
        message("/d.h5", "{}")
            .starts_with("detector /d.h5: expected a detector known by name, found a NeXus")
    );
    let size = message("Jungfrau", "{\"pixel1\": 1e-4}");
    assert!(
        size.starts_with(
            "detector Jungfrau: pixel size 0.0001 x 0.000075 m; expected 0.000075 x 0.000075"
        ),
        "{size}"
    );
    let other = message("Eiger4M", "{\"max_shape\": [100, 100]}");
    assert_eq!(other, "detector Eiger4M has 2167 x 2070 pixels, the frames 100 x 100");
}

#[test]
fn a_detector_file_brings_mask_corners_and_dummy() {
    let corners = [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, f32::NAN, 1.0];
    let file = NexusDetector {
        name: "frelon".to_owned(),
        shape: Some([2, 1]),
        pixel_size: Some([1.0, 1.0]),
        corners: Some(PixelCorners::new([2, 1], [corners, [0.0; 12]].concat()).unwrap()),
        dummy: Some(7.0),
        ..NexusDetector::default()
    };
    let detector = Detector::from_nexus(file.clone(), &DetectorSpec::default()).unwrap();
    assert_eq!(detector.gap_mask(), Some(vec![true, false]));
    assert_eq!(detector.dummy.dummy, Some(7.0));
    let message =
        |file| Detector::from_nexus(file, &DetectorSpec::default()).unwrap_err().to_string();
    let turned = NexusDetector { orientation: Some(2), ..file.clone() };
    assert_eq!(
        message(turned),
        "detector frelon: orientation 2 is not defined for a detector with pixel_corners; expected 3"
    );
    let masked = NexusDetector { mask: Some(vec![false; 3]), ..file };
    assert_eq!(message(masked), "detector frelon: mask has 3 pixels; expected 2 x 1");
}
