//! Views against images that were binned, flipped, turned and cut one after the other.

use super::*;
use crate::Poni;

/// A detector of 5 x 4 pixels.
fn detector() -> Detector {
    of_shape("[5, 4]")
}

fn of_shape(shape: &str) -> Detector {
    let config = format!("{{\"pixel1\": 1e-4, \"pixel2\": 2e-4, \"max_shape\": {shape}}}");
    let text =
        format!("poni_version: 2\nDetector: Detector\nDetector_config: {config}\nDistance: 1\nPoni1: 0\nPoni2: 0\n");
    Detector::from_poni(&Poni::parse(&text).unwrap()).unwrap()
}

fn done(binning: [u64; 2], flip: [bool; 2], rotation: u64, region: [u64; 4]) -> Framing {
    let operation = Operation { full: Some([5, 4]), binning, flip, rotation, region };
    Framing { shape: [region[2], region[3]], operation: Some(operation) }
}

fn pixels(framing: &Framing) -> Vec<usize> {
    PixelMapping::new(&detector(), framing).unwrap().pixels().collect()
}

#[test]
fn flips_come_before_turns_and_regions_are_of_what_came_of_them() {
    // Pixel r c of the detector is number 4 r + c.
    assert_eq!(pixels(&done([1, 1], [true, false], 0, [0, 0, 5, 4]))[..5], [16, 17, 18, 19, 12]);
    assert_eq!(pixels(&done([1, 1], [false, true], 0, [0, 0, 5, 4]))[..5], [3, 2, 1, 0, 7]);
    // Clockwise: the first row is the first column, from its end.
    assert_eq!(pixels(&done([1, 1], [false, false], 90, [0, 0, 4, 5]))[..6], [16, 12, 8, 4, 0, 17]);
    assert_eq!(pixels(&done([1, 1], [false, false], 180, [0, 0, 5, 4]))[..3], [19, 18, 17]);
    assert_eq!(pixels(&done([1, 1], [false, false], 270, [0, 0, 4, 5]))[..6], [3, 7, 11, 15, 19, 2]);
    assert_eq!(pixels(&done([1, 1], [true, false], 90, [1, 2, 2, 2])), [9, 13, 10, 14]);
}

#[test]
fn binned_frames_are_of_larger_pixels_and_lose_what_does_not_fill_one() {
    let view = PixelMapping::new(&detector(), &done([2, 2], [false, true], 0, [0, 0, 2, 2])).unwrap();
    assert_eq!((view.full(), view.detector.pixel1, view.detector.pixel2), ([2, 2], 2e-4, 4e-4));
    assert_eq!(view.pixels().collect::<Vec<_>>(), [1, 0, 3, 2]);
    assert!(!view.is_identity());
    let poni_of_binned = PixelMapping::new(&of_shape("[2, 2]"), &done([2, 2], [false; 2], 0, [0, 0, 2, 2])).unwrap();
    assert_eq!(poni_of_binned.detector.pixel1, 1e-4);
}

#[test]
fn a_region_of_a_detector_that_can_be_binned_is_no_binning() {
    let pixium = Detector::by_name("RayonixSx165").unwrap();
    let [rows, columns] = pixium.shape.unwrap();
    let [half_rows, half_columns] = [rows as u64 / 2, columns as u64 / 2];
    let framing = Framing::region([half_rows, half_columns], [half_rows, half_columns]);
    let view = PixelMapping::new(&pixium, &framing).unwrap();
    assert_eq!((view.detector.pixel1, view.full()), (pixium.pixel1, [rows, columns]));
    assert_eq!(view.pixels().next(), Some(rows / 2 * columns + columns / 2));
}

#[test]
fn what_contradicts_is_refused_in_words() {
    let refused = |shape: &str, framing: &Framing| match PixelMapping::new(&of_shape(shape), framing) {
        Err(why) => why.to_string(),
        Ok(_) => panic!("{framing:?}"),
    };
    let uneven = refused("[5, 4]", &done([2, 1], [false; 2], 90, [0, 0, 4, 2]));
    assert!(uneven.contains("binned 2 x 1, turned by 90 degrees: Lima does not say"), "{uneven}");
    let beyond = refused("[5, 4]", &done([1, 1], [false; 2], 0, [1, 0, 5, 4]));
    assert!(beyond.contains("5 x 4 pixels reach beyond the detector's 5 x 4"), "{beyond}");
    let skew = refused("[5, 4]", &done([1, 1], [false; 2], 45, [0, 0, 5, 4]));
    assert!(skew.contains("expected a rotation by 0, 90, 180 or 270"), "{skew}");
    let shape = Framing { shape: [3, 3], ..done([1, 1], [true, false], 0, [0, 0, 5, 4]) };
    assert!(refused("[5, 4]", &shape).contains("but frames have 3 x 3 pixels"));
    let none = refused("[5, 4]", &done([9, 1], [false; 2], 0, [0, 0, 0, 4]));
    assert!(none.contains("binned 9 x 1") && none.contains("of an image of 5 x 4 pixels"), "{none}");
    let saved = refused("[2, 3]", &done([1, 1], [false; 2], 0, [1, 1, 2, 3]));
    assert!(saved.contains("--image-operation off"), "{saved}");
    assert!(
        refused("[7, 7]", &done([1, 1], [true; 2], 0, [0, 0, 5, 4])).contains("has 7 x 7 pixels, the frames 5 x 4")
    );
}

#[test]
fn a_camera_that_says_a_larger_image_than_the_poni_knows_is_taken_as_it_is() {
    let view = PixelMapping::new(&of_shape("[4, 4]"), &done([1, 1], [false; 2], 0, [0, 0, 4, 4])).unwrap();
    assert!(view.is_identity());
}
