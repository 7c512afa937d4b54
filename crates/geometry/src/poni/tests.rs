//! Parses valid and broken PONI files.

use super::*;
use crate::{Orientation, SensorMaterial};

const PLACEMENT: &str = "Distance: 0.1\nPoni1: 0.02\nPoni2: 0.03\n";

fn message(text: &str) -> String {
    Poni::parse(text).unwrap_err().to_string()
}

#[test]
fn version_1_has_pixel_sizes_and_no_version() {
    let poni = Poni::parse(
        "# Nota: C-Order, 1 refers to the Y axis, 2 to the X axis\nPixelSize1: 7.5e-05\nPixelSize2: 8e-05\n\
         Distance: 0.1\nPoni1: 0.02\nPoni2: 0.03\nRot1: 0.1\nRot2: -0.2\nRot3: 0.3\nSplineFile: None\nWavelength: 1e-10\n",
    )
    .unwrap();
    assert_eq!(
        [poni.dist, poni.poni1, poni.poni2, poni.rot1, poni.rot2, poni.rot3],
        [0.1, 0.02, 0.03, 0.1, -0.2, 0.3]
    );
    assert_eq!(poni.wavelength, Some(1e-10));
    assert_eq!(poni.detector.name, None);
    assert_eq!(
        (poni.detector.config.pixel1, poni.detector.config.pixel2),
        (Some(7.5e-5), Some(8e-5))
    );
}

#[test]
fn version_2_1_has_a_detector_with_an_orientation() {
    let text = format!(
        "poni_version: 2.1\nDetector: Detector\nDetector_config: {{\"pixel1\": 1e-4, \"pixel2\": 1e-4, \
         \"max_shape\": [10, 20], \"orientation\": 2}}\n{PLACEMENT}"
    );
    let detector = Poni::parse(&text).unwrap().detector;
    assert_eq!(detector.name.as_deref(), Some("Detector"));
    assert_eq!(detector.config.max_shape, Some([10, 20]));
    assert_eq!(detector.config.orientation, Some(Orientation::TopRight));
}

#[test]
fn a_later_line_overrides_an_earlier_one() {
    let text = format!(
        "poni1: 7\nDETECTOR: Eiger4M\nDetector_config: {{}}\n{PLACEMENT}# Poni2: 9\nDistance: 0.5\n"
    );
    let poni = Poni::parse(&text).unwrap();
    assert_eq!([poni.dist, poni.poni1, poni.poni2], [0.5, 0.02, 0.03]);
}

fn parallax_text(version: &str, sensor: &str, word: &str) -> String {
    format!(
        "poni_version: {version}\nDetector: Eiger4M\nDetector_config: {{{sensor}}}\n{PLACEMENT}Wavelength: 1e-10\nParallax: {word}\n"
    )
}

#[test]
fn parallax_has_the_sensor_of_the_detector() {
    let sensor = r#""sensor": {"material": "CZT", "thickness": 7.5e-4}"#;
    let parallax = |text: &str| Poni::parse(text).unwrap().parallax;
    let found = parallax(&parallax_text("3", sensor, "True")).unwrap();
    assert_eq!((found.material, found.thickness), (SensorMaterial::Czt, Some(7.5e-4)));
    assert_eq!(
        found.attenuation,
        SensorMaterial::Czt.pyfai_attenuation_coefficient(1e-10).unwrap()
    );
    let thick = parallax(&parallax_text("3", r#""sensor": {"material": "Se"}"#, "true")).unwrap();
    assert_eq!((thick.material, thick.thickness), (SensorMaterial::Se, None));
    // Whatever the sensor is, it has no effect without parallax.
    for (version, sensor, word) in
        [("3", sensor, "False"), ("2.1", sensor, "False"), ("3", r#""sensor": "?""#, "False")]
    {
        assert_eq!(parallax(&parallax_text(version, sensor, word)), None);
    }
}

#[test]
fn parallax_without_what_it_needs_is_refused() {
    let silicon = r#""sensor": {"material": "Si", "thickness": 3.2e-4}"#;
    let without_wavelength = parallax_text("3", silicon, "True").replace("Wavelength", "# ");
    for (text, expected) in [
        (parallax_text("2.1", silicon, "True"), "has no effect before `poni_version: 3`"),
        (without_wavelength, "needs a wavelength; add `Wavelength: METRES`"),
        (parallax_text("3", "", "True"), "needs the sensor; add it to Detector_config"),
        (
            parallax_text("3", r#""sensor": {"thickness": 1e-3}"#, "True"),
            "expected \"sensor\": {\"material\"",
        ),
        (parallax_text("3", r#""sensor": "Si""#, "True"), "expected \"sensor\": {\"material\""),
        (
            parallax_text("3", r#""sensor": {"material": "Pb"}"#, "True"),
            "unknown sensor material \"Pb\"",
        ),
        (
            parallax_text("3", r#""sensor": {"material": "Si", "thickness": 320}"#, "True"),
            "expected metres, from 1e-9 to 1",
        ),
        (
            parallax_text("3", r#""sensor": {"material": "BaFBr0.85I0.15"}"#, "True")
                .replace("1e-10", "1e-11"),
            "attenuation at 123.9842 keV is not tabulated: expected 1 to 100 keV",
        ),
    ] {
        let message = message(&text);
        assert!(message.starts_with("Parallax: True: ") && message.contains(expected), "{message}");
    }
}

#[test]
fn a_version_above_3_is_refused() {
    assert_eq!(
        message(&format!("poni_version: 4\n{PLACEMENT}")),
        "poni_version 4: expected 1, 2, 2.1 or 3"
    );
    assert_eq!(
        message(&format!("poni_version: new\n{PLACEMENT}")),
        "poni_version new: expected 1, 2, 2.1 or 3"
    );
}

#[test]
fn a_missing_key_or_a_wrong_value_is_named() {
    assert_eq!(
        message("Poni1: 1\nPoni2: 1\n"),
        "the PONI file has no Distance; save the geometry again with pyFAI"
    );
    for text in ["", "npt = 100\n", "Detector: Eiger4M\n"] {
        assert!(message(text).starts_with("not a PONI file: "), "{text}");
    }
    assert_eq!(
        message(&format!("{PLACEMENT}Rot1: half\n")),
        "rot1: half: expected a finite number"
    );
    assert_eq!(
        message(&format!("{PLACEMENT}Wavelength: 0\n")),
        "Wavelength: 0: expected metres, from 1e-13 to 1e-7"
    );
    let bad =
        |config| message(&format!("Detector: Eiger4M\nDetector_config: {config}\n{PLACEMENT}"));
    assert_eq!(bad("{\"orientation\": 5}"), "orientation: 5: expected 1, 2, 3 or 4");
    assert_eq!(bad("{\"max_shape\": [1]}"), "max_shape: [1]: expected [rows, columns]");
    assert!(bad("oops").starts_with("Detector_config: oops: expected a JSON object"));
    assert!(
        bad("{\"splineFile\": \"a.spline\"}")
            .starts_with("splineFile: a.spline: distortion by a spline is not supported")
    );
}

#[test]
fn lengths_in_other_units_than_metres_are_refused() {
    let placement =
        |distance: &str, poni: &str| format!("Distance: {distance}\nPoni1: {poni}\nPoni2: 0\n");
    for bad in ["0", "-0.1", "201", "1e300", "1e-300"] {
        assert_eq!(
            message(&placement(bad, "0")),
            format!("Distance: {bad}: expected metres, from 1e-6 to 200")
        );
    }
    for bad in ["1e300", "-101"] {
        assert_eq!(
            message(&format!("{PLACEMENT}Rot2: {bad}\n")),
            format!("Rot2: {bad}: expected radians, from -100 to 100")
        );
    }
    for bad in ["1001", "-1e9"] {
        assert!(message(&placement("0.1", bad)).starts_with("Poni1: "), "{bad}");
    }
    for bad in ["1", "0.7", "-1e-10", "1e-14", "12400"] {
        assert!(
            message(&format!("{PLACEMENT}Wavelength: {bad}\n"))
                .contains("expected metres, from 1e-13 to 1e-7"),
            "{bad}"
        );
    }
    for good in ["1e-13", "7e-11", "1e-7"] {
        assert!(Poni::parse(&format!("{PLACEMENT}Wavelength: {good}\n")).is_ok(), "{good}");
    }
    let pixel = |size: &str| format!("{PLACEMENT}PixelSize1: {size}\nPixelSize2: 1e-4\n");
    assert!(Poni::parse(&pixel("7.5e-5")).is_ok());
    for bad in ["0", "-1", "75"] {
        assert!(message(&pixel(bad)).contains("metres, above 0 and up to 0.1"), "{bad}");
    }
}

#[test]
fn unknown_keys_and_values_of_other_units_are_remarked_on() {
    let remarks = |text: &str| Poni::parse(text).unwrap().remarks();
    assert!(remarks(&format!("{PLACEMENT}Rot1: -3.2\nRot2: 6.28\n")).is_empty());
    assert_eq!(
        remarks(&format!("{PLACEMENT}Rot_1: 0.1\n")),
        ["`rot_1` is no key of a PONI file, and has no effect"]
    );
    assert_eq!(
        remarks("Distance: 120\nPoni1: 77.5\nPoni2: -21\nRot1: 12.1\nRot3: -90\n"),
        [
            "Distance: 120: more than 50 metres; write 0.12 if that is in millimetres",
            "Poni1: 77.5: more than 20 metres; write 0.0775 if that is in millimetres",
            "Poni2: -21: more than 20 metres; write -0.021 if that is in millimetres",
            "Rot1: 12.1: more than a full turn in radians; write 0.211185 if that is in degrees",
            "Rot3: -90: more than a full turn in radians; write -1.570796 if that is in degrees",
        ]
    );
}

#[test]
fn json_has_dist_and_may_be_part_of_a_worker_configuration() {
    let json = serde_json::json!({"version": 5, "poni": {
        "poni_version": 2.1, "dist": 0.1, "poni1": 0.02, "poni2": 0.03, "rot1": 0, "rot2": 0, "rot3": 0,
        "detector": "Pilatus1M", "detector_config": {"orientation": 3}, "wavelength": 1e-10
    }});
    let poni = Poni::from_json(&json).unwrap();
    assert_eq!((poni.dist, poni.detector.name.as_deref()), (0.1, Some("Pilatus1M")));
    assert!(matches!(Poni::from_json(&serde_json::json!("x")), Err(PoniError::NotAnObject)));
}

#[test]
fn a_detector_file_is_distinguished_from_a_name() {
    let spec = |name: &str| {
        Poni::parse(&format!("Detector: {name}\nDetector_config: {{}}\n{PLACEMENT}"))
            .unwrap()
            .detector
    };
    assert_eq!(spec("Pilatus CdTe 2M").file(), None);
    assert_eq!(spec("/data/frelon.h5").file(), Some("/data/frelon.h5".as_ref()));
    let config = format!(
        "Detector: NexusDetector\nDetector_config: {{\"filename\": \"d.nxs\"}}\n{PLACEMENT}"
    );
    assert_eq!(Poni::parse(&config).unwrap().detector.file(), Some("d.nxs".as_ref()));
}
