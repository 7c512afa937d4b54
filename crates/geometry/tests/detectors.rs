//! Every detector that is known by name, against pyFAI's facts: shape, pixels, orientation, dummy, mask.

#![allow(clippy::unwrap_used, reason = "a test stops where it is wrong")]

mod support;

use std::fmt::Display;
use std::path::PathBuf;

use geometry::{Detector, known_detectors};
use sha2::{Digest, Sha256};

/// Written by scripts/detectors-from-pyfai from pyFAI itself.
const GOLDEN: &str = include_str!("detectors.tsv");

fn or_dash(value: Option<impl Display>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

/// A detector's facts, for frames of this shape, as the golden table spells them.
fn facts(detector: &Detector, [rows, columns]: [usize; 2]) -> Vec<String> {
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

/// Numbers in one spelling: Python writes 5.1e-05 where Rust writes 0.000051.
fn spelled(field: &str) -> String {
    field.parse::<f64>().map_or_else(|_| field.to_owned(), |number| number.to_string())
}

#[test]
fn every_detector_has_the_facts_that_pyfai_has() {
    let mut seen: Vec<String> = Vec::new();
    for line in GOLDEN.lines().filter(|line| !line.starts_with('#')) {
        let expected: Vec<String> = line.split('\t').map(spelled).collect();
        let detector = Detector::by_name(&expected[0]).unwrap();
        let shape = [1, 2].map(|field| expected[field].parse().unwrap());
        // The first line of a detector is its readout by default, others are of binned frames.
        if seen.last() != Some(&expected[0]) {
            assert_eq!(detector.shape, Some(shape), "{}", expected[0]);
            seen.push(expected[0].clone());
        }
        let found: Vec<String> = facts(&detector, shape).iter().map(|field| spelled(field)).collect();
        assert_eq!(found, expected);
    }
    let known =
        known_detectors::names().filter(|name| Detector::by_name(name).is_ok_and(|detector| detector.shape.is_some()));
    assert_eq!(known.count(), seen.len(), "detectors in the table and in the golden facts");
}

#[test]
fn the_table_and_the_golden_facts_are_what_pyfai_says_today() {
    let Some(mut python) = support::pyfai_python() else { return };
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scripts/detectors-from-pyfai");
    let output = python.arg(script).arg("--check").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
