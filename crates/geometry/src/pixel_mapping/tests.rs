//! Compares pixel mappings with images that were binned, flipped, rotated and cut, in this order.

use super::*;
use crate::Poni;

/// Makes a detector of 5 x 4 pixels.
fn detector() -> Detector {
    detector_of_shape("[5, 4]")
}

fn detector_of_shape(shape: &str) -> Detector {
    let config = format!("{{\"pixel1\": 1e-4, \"pixel2\": 2e-4, \"max_shape\": {shape}}}");
    let text = format!(
        "poni_version: 2\nDetector: Detector\nDetector_config: {config}\nDistance: 1\nPoni1: 0\nPoni2: 0\n"
    );
    Detector::from_poni(&Poni::parse(&text).unwrap()).unwrap()
}

fn saved_as(binning: [u64; 2], flip: [bool; 2], rotation: u64, region: [u64; 4]) -> FrameLayout {
    let operation = ImageOperation { full: Some([5, 4]), binning, flip, rotation, region };
    FrameLayout { shape: [region[2], region[3]], operation: Some(operation) }
}

fn pixels(framing: &FrameLayout) -> Vec<usize> {
    PixelMapping::new(&detector(), framing).unwrap().pixels().collect()
}

#[test]
fn flips_come_before_rotations_and_regions_come_last() {
    // The pixel at row r and column c of the detector has index 4 r + c.
    assert_eq!(
        pixels(&saved_as([1, 1], [true, false], 0, [0, 0, 5, 4]))[..5],
        [16, 17, 18, 19, 12]
    );
    assert_eq!(pixels(&saved_as([1, 1], [false, true], 0, [0, 0, 5, 4]))[..5], [3, 2, 1, 0, 7]);
    // Clockwise: the first row is the first column, read from its end.
    assert_eq!(
        pixels(&saved_as([1, 1], [false, false], 90, [0, 0, 4, 5]))[..6],
        [16, 12, 8, 4, 0, 17]
    );
    assert_eq!(pixels(&saved_as([1, 1], [false, false], 180, [0, 0, 5, 4]))[..3], [19, 18, 17]);
    assert_eq!(
        pixels(&saved_as([1, 1], [false, false], 270, [0, 0, 4, 5]))[..6],
        [3, 7, 11, 15, 19, 2]
    );
    assert_eq!(pixels(&saved_as([1, 1], [true, false], 90, [1, 2, 2, 2])), [9, 13, 10, 14]);
}

#[test]
fn binned_frames_have_larger_pixels_and_drop_incomplete_blocks() {
    let mapping =
        PixelMapping::new(&detector(), &saved_as([2, 2], [false, true], 0, [0, 0, 2, 2])).unwrap();
    assert_eq!(
        (mapping.full(), mapping.detector.pixel1, mapping.detector.pixel2),
        ([2, 2], 2e-4, 4e-4)
    );
    assert_eq!(mapping.pixels().collect::<Vec<_>>(), [1, 0, 3, 2]);
    assert!(!mapping.is_identity());
    let poni_of_binned = PixelMapping::new(
        &detector_of_shape("[2, 2]"),
        &saved_as([2, 2], [false; 2], 0, [0, 0, 2, 2]),
    )
    .unwrap();
    assert_eq!(poni_of_binned.detector.pixel1, 1e-4);
}

#[test]
fn a_region_of_a_detector_that_can_be_binned_is_no_binning() {
    let rayonix = Detector::by_name("RayonixSx165").unwrap();
    let [rows, columns] = rayonix.shape.unwrap();
    let [half_rows, half_columns] = [rows as u64 / 2, columns as u64 / 2];
    let framing = FrameLayout::region([half_rows, half_columns], [half_rows, half_columns]);
    let mapping = PixelMapping::new(&rayonix, &framing).unwrap();
    assert_eq!((mapping.detector.pixel1, mapping.full()), (rayonix.pixel1, [rows, columns]));
    assert_eq!(mapping.pixels().next(), Some(rows / 2 * columns + columns / 2));
}

#[test]
fn contradictory_operations_are_refused() {
    let refused = |shape: &str, framing: &FrameLayout| match PixelMapping::new(
        &detector_of_shape(shape),
        framing,
    ) {
        Err(why) => why.to_string(),
        Ok(_) => panic!("{framing:?}"),
    };
    let uneven = refused("[5, 4]", &saved_as([2, 1], [false; 2], 90, [0, 0, 4, 2]));
    assert!(
        uneven.contains("binned 2 x 1, turned by 90 degrees: Lima does not record"),
        "{uneven}"
    );
    let beyond = refused("[5, 4]", &saved_as([1, 1], [false; 2], 0, [1, 0, 5, 4]));
    assert!(beyond.contains("5 x 4 pixels reach beyond the detector's 5 x 4"), "{beyond}");
    let skew = refused("[5, 4]", &saved_as([1, 1], [false; 2], 45, [0, 0, 5, 4]));
    assert!(skew.contains("expected a rotation by 0, 90, 180 or 270"), "{skew}");
    let shape = FrameLayout { shape: [3, 3], ..saved_as([1, 1], [true, false], 0, [0, 0, 5, 4]) };
    assert!(refused("[5, 4]", &shape).contains("expected frames of 5 x 4 pixels, found 3 x 3"));
    let none = refused("[5, 4]", &saved_as([9, 1], [false; 2], 0, [0, 0, 0, 4]));
    assert!(
        none.contains("binned 9 x 1") && none.contains("expected a binning of 1 x 1 to 5 x 4"),
        "{none}"
    );
    let saved = refused("[2, 3]", &saved_as([1, 1], [false; 2], 0, [1, 1, 2, 3]));
    assert!(saved.contains("--image-operation off"), "{saved}");
    assert!(
        refused("[7, 7]", &saved_as([1, 1], [true; 2], 0, [0, 0, 5, 4]))
            .contains("has 7 x 7 pixels, the frames 5 x 4")
    );
}

#[test]
fn frames_with_the_shape_in_the_poni_are_mapped_one_to_one_even_if_the_camera_claims_a_larger_image()
 {
    let mapping = PixelMapping::new(
        &detector_of_shape("[4, 4]"),
        &saved_as([1, 1], [false; 2], 0, [0, 0, 4, 4]),
    )
    .unwrap();
    assert!(mapping.is_identity());
}
