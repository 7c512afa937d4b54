//! Compares every known detector with pyFAI's: shape, pixel size, orientation, dummy value, mask.

#![allow(clippy::unwrap_used, reason = "a test stops where it is wrong")]

mod support;

use std::fmt::Display;
use std::path::PathBuf;

use geometry::{Detector, Poni, known_detectors};
use sha2::{Digest, Sha256};

/// Properties of pyFAI's detectors, written by scripts/detectors-from-pyfai.
const GOLDEN: &str = include_str!("detectors.tsv");

fn or_dash(value: Option<impl Display>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

/// Lists the properties of a detector for frames of this shape, in the order and spelling of the
/// golden table.
fn properties(detector: &Detector, [rows, columns]: [usize; 2]) -> Vec<String> {
    let detector = detector.for_frames([rows, columns]).unwrap();
    let mask = detector.gap_mask().unwrap_or_else(|| vec![false; rows * columns]);
    let digest = Sha256::digest(mask.iter().map(|&masked| u8::from(masked)).collect::<Vec<u8>>());
    vec![
        detector.name.clone(),
        rows.to_string(),
        columns.to_string(),
        detector.pixel1.to_string(),
        detector.pixel2.to_string(),
        detector.orientation.number().to_string(),
        or_dash(detector.dummy.dummy),
        or_dash(detector.dummy.delta),
        digest.iter().map(|byte| format!("{byte:02x}")).collect(),
    ]
}

/// Spells a number as Rust does: Python writes 5.1e-05 for 0.000051.
fn respell(field: &str) -> String {
    field.parse::<f64>().map_or_else(|_| field.to_owned(), |number| number.to_string())
}

#[test]
fn every_detector_has_the_properties_that_pyfai_gives() {
    let mut seen: Vec<String> = Vec::new();
    for line in GOLDEN.lines().filter(|line| !line.starts_with('#')) {
        let expected: Vec<String> = line.split('\t').map(respell).collect();
        let detector = Detector::by_name(&expected[0]).unwrap();
        let shape = [1, 2].map(|field| expected[field].parse().unwrap());
        // The first line of a detector is its default readout, further lines are other binnings.
        if seen.last() != Some(&expected[0]) {
            assert_eq!(detector.shape, Some(shape), "{}", expected[0]);
            seen.push(expected[0].clone());
        }
        let found: Vec<String> =
            properties(&detector, shape).iter().map(|field| respell(field)).collect();
        assert_eq!(found, expected);
    }
    let has_shape =
        |name: &&str| Detector::by_name(name).is_ok_and(|detector| detector.shape.is_some());
    let more = known_detectors::names_unknown_to_pyfai().count();
    let known = known_detectors::names().filter(has_shape).count() - more;
    assert_eq!(known, seen.len(), "detectors in the table and in the golden table");
}

#[test]
fn detectors_written_by_hand_have_the_stated_properties() {
    // Name in a PONI file, rows, columns, pixel size in metres, number of pixels in gaps.
    let expected = [("HyPix-3000", [385, 775], [1e-4, 1e-4], 0)];
    assert_eq!(
        known_detectors::names_unknown_to_pyfai().count(),
        expected.len(),
        "each has a line here"
    );
    for (name, shape, pixel, gap_pixels) in expected {
        let text = format!(
            "poni_version: 2.1\nDetector: {name}\nDetector_config: {{}}\nDistance: 0.1\nPoni1: 0\nPoni2: 0\n"
        );
        let detector = Detector::from_poni(&Poni::parse(&text).unwrap()).unwrap();
        assert_eq!(
            (detector.shape, [detector.pixel1, detector.pixel2]),
            (Some(shape), pixel),
            "{name}"
        );
        let gaps = detector.gap_mask().unwrap_or_default();
        assert_eq!(gaps.iter().filter(|&&gap| gap).count(), gap_pixels, "{name}");
        let class = known_detectors::class_name(name).unwrap();
        assert!(known_detectors::names_unknown_to_pyfai().any(|other| other == class), "{name}");
    }
}

#[test]
fn the_table_and_the_golden_table_are_up_to_date_with_pyfai() {
    let Some(mut python) = support::pyfai_python() else { return };
    let script =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scripts/detectors-from-pyfai");
    let output = python.arg(script).arg("--check").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
