//! Lists all error messages of the crate, so that they can be read side by side.

#![allow(clippy::unwrap_used, reason = "a test stops where it is wrong")]

use geometry::{
    DetectorError, EnergyNotTabulated, GeometryError, PixelCorners, PoniError, SensorMaterial,
    Unit, known_detectors,
};

#[test]
fn detector_errors() {
    let name = || "Eiger4M".to_owned();
    let errors = [
        DetectorError::Unknown(known_detectors::class_name("Pilatus 2N").unwrap_err()),
        DetectorError::Refused { name: "Pixirad1".to_owned(), why: "hexagonal pixels" },
        DetectorError::Setting { name: name(), key: "module_size".to_owned() },
        DetectorError::File("/d.h5".into()),
        DetectorError::NoPixelSize(name()),
        DetectorError::NoShape(name()),
        DetectorError::Pixel { name: name(), found: [1e-4, 1e-4], expected: [7.5e-5, 7.5e-5] },
        DetectorError::Shape { name: name(), detector: [2167, 2070], frames: [100, 100] },
        DetectorError::Operation {
            name: name(),
            operation: "binned 2 x 1".to_owned(),
            why: "expected this".to_owned(),
        },
        DetectorError::Mask { name: name(), found: 3, shape: [2, 1] },
        DetectorError::Corners(PixelCorners::new([2, 1], vec![0.0; 12]).unwrap_err()),
        DetectorError::Orientation { name: name(), number: 5 },
        DetectorError::OrientedCorners { name: name(), number: 2 },
    ];
    let messages = [
        "unknown detector \"Pilatus 2N\": did you mean \"pilatus_2m\"?",
        "detector Pixirad1: hexagonal pixels; only flat grids of rectangular pixels can be used by name: \
         save the detector with pyFAI as a NeXus detector file and name that file as the detector",
        "detector Eiger4M: module_size in Detector_config is not supported; \
         expected pixel1, pixel2, max_shape, orientation, sensor or filename",
        "detector /d.h5: expected a detector known by name, found a NeXus detector file that was not read",
        "detector Eiger4M: no pixel size; expected pixel1 and pixel2 in metres in Detector_config, \
         or pixel_size in the detector file",
        "detector Eiger4M: no shape; expected max_shape in Detector_config, \
         or shape, max_shape or pixel_corners in the detector file",
        "detector Eiger4M: pixel size 0.0001 x 0.0001 m; expected 0.000075 x 0.000075 m, \
         the only size that its pixels have",
        "detector Eiger4M has 2167 x 2070 pixels, the frames 100 x 100",
        "detector Eiger4M: frames binned 2 x 1: expected this",
        "detector Eiger4M: mask has 3 pixels; expected 2 x 1",
        "pixel_corners has 12 numbers; expected 2 x 1 x 4 x 3",
        "detector Eiger4M: orientation 5; expected 1, 2, 3 or 4",
        "detector Eiger4M: orientation 2 is not defined for a detector with pixel_corners; expected 3",
    ];
    assert_eq!(errors.map(|error| error.to_string()), messages);
}

#[test]
fn poni_errors() {
    let errors = [
        PoniError::Version("4".to_owned()),
        PoniError::NotPoni,
        PoniError::Missing("Distance"),
        PoniError::Value {
            key: "Wavelength".to_owned(),
            value: "0.7".to_owned(),
            expected: "metres",
        },
        PoniError::Parallax("needs a wavelength".to_owned()),
        PoniError::Spline("a.spline".to_owned()),
        PoniError::NotAnObject,
    ];
    let messages = [
        "poni_version 4: expected 1, 2, 2.1 or 3",
        "not a PONI file: it has no line with Distance, Poni1 or Poni2; \
         expected the geometry that pyFAI-calib2 saves after a calibration",
        "the PONI file has no Distance; save the geometry again with pyFAI",
        "Wavelength: 0.7: expected metres",
        "Parallax: True: needs a wavelength",
        "splineFile: a.spline: distortion by a spline is not supported; \
         save the detector with pyFAI as a NeXus detector file and name that file as the detector",
        "geometry: expected a JSON object with dist, poni1, poni2",
    ];
    assert_eq!(errors.map(|error| error.to_string()), messages);
}

#[test]
fn unit_and_material_errors() {
    let unit = |name: &str| Unit::parse(name).unwrap_err().to_string();
    let units = Unit::list();
    let messages = [
        (unit("zzz"), "unknown unit \"zzz\""),
        (unit("qx"), "unit qx is a component of q, which may be negative, not a radial unit"),
        (
            unit("log10(q.m)"),
            "unit log10(q.m) is a nonlinear scale of q and is not supported; integrate in q and rescale the axis",
        ),
        (
            unit("qtot_nm^-1"),
            "unit qtot_nm^-1 is a unit of fiber and grazing-incidence geometry that is not supported; \
             qip_nm^-1 and qoop_nm^-1 are",
        ),
    ];
    let nearest = "unknown unit \"2theta\"; did you mean \"2th_deg\"?";
    assert_eq!(unit("2theta"), format!("{nearest} Expected one of {units}"));
    for (message, expected) in messages {
        assert_eq!(message, format!("{expected}: expected one of {units}"));
    }
    assert_eq!(
        GeometryError::NoWavelength(Unit::default()).to_string(),
        "unit q_nm^-1 needs a wavelength, and the PONI file gives none; \
         add `Wavelength: METRES` to it, or choose the unit r_mm, r_m, 2th_deg or 2th_rad"
    );
    assert_eq!(
        GeometryError::ParallaxNotFlat("bent".to_owned()).to_string(),
        "Parallax: True: only flat detectors are corrected for parallax, and the pixels of bent have positions of their own; \
         expected False"
    );
    assert_eq!(
        "Pb".parse::<SensorMaterial>().unwrap_err().to_string(),
        "unknown sensor material \"Pb\": expected one of Si, Ge, GaAs, CdTe, Gd2O2S, Se, CZT, BaFBr0.85I0.15"
    );
    assert_eq!(
        EnergyNotTabulated { energy: 0.5, largest: 1000.0 }.to_string(),
        "attenuation at 0.5000 keV is not tabulated: expected 1 to 1000 keV"
    );
}
