//! Imports configurations of pyFAI's worker of every version.

use super::*;
use crate::{ErrorModel, Quantiles, ReferenceSetting, Split};

fn read(json: &str) -> Result<(Settings, Vec<String>), RecipeError> {
    super::read(json, Path::new("/nowhere/azimint.json"))
}

/// Reads a configuration with a geometry, a number of bins and these keys.
fn with(keys: &str) -> Result<(Settings, Vec<String>), RecipeError> {
    read(&format!(
        "{{\"version\": 5, \"poni\": {{\"dist\": 0.1, \"poni1\": 0, \"poni2\": 0}}, \"nbpt_rad\": 100, {keys}}}"
    ))
}

fn message(keys: &str) -> String {
    with(keys).unwrap_err().to_string()
}

#[test]
fn version_5_as_pyfai_writes_it() {
    let (settings, remarks) = read(
        r#"{"application": "worker", "version": 5, "poni": {"poni_version": 2.1, "dist": 0.1, "poni1": 0.02, "poni2": 0.03,
            "rot1": 0.0, "rot2": 0.0, "rot3": 0.0, "detector": "Pilatus1M", "detector_config": {"orientation": 3},
            "wavelength": 1e-10}, "nbpt_rad": 2500, "nbpt_azim": 1, "unit": "q_A^-1", "chi_discontinuity_at_0": false,
            "polarization_description": [0.95, 0.0], "normalization_factor": 1.0, "val_dummy": null, "delta_dummy": null,
            "correct_solid_angle": true, "dark_current": ["/d/a.edf", "/d/b.edf"], "flat_field": "/d/f.edf",
            "mask_file": "/d/m.edf", "error_model": "poisson", "method": ["full", "csr", "cython"], "opencl_device": null,
            "azimuth_range": [-Infinity, Infinity], "radial_range": [0.5, 12.0], "integrator_class": "AzimuthalIntegrator",
            "integrator_method": "integrate1d_ng", "extra_options": null, "monitor_name": null, "shape": null}"#,
    )
    .unwrap();
    let geometry = "poni_version: 2.1\nDetector: Pilatus1M\nDetector_config: {\"orientation\":3}\nDistance: 0.1\nPoni1: 0.02\n\
        Poni2: 0.03\nRot1: 0.0\nRot2: 0.0\nRot3: 0.0\nWavelength: 1e-10\n";
    let expected = Settings {
        geometry: Some(geometry.to_owned()),
        npt: Some(2500),
        unit: "q_A^-1".parse().ok(),
        radial_range: Some([0.5, 12.0]),
        split: Some(Split::Full),
        mask: OneOrMany::from_items(vec!["/d/m.edf".into()]),
        dark: OneOrMany::from_items(vec!["/d/a.edf".into(), "/d/b.edf".into()]),
        flat: OneOrMany::from_items(vec!["/d/f.edf".into()]),
        polarization: Some(0.95),
        solid_angle: Some(true),
        error_model: Some(ErrorModel::Poisson),
        ..Settings::default()
    };
    assert_eq!(settings, expected);
    assert_eq!(remarks, [""; 0]);
}

#[test]
fn a_description_without_a_factor_is_no_correction() {
    let text = |polarization: &str| {
        format!(
            r#"{{"version": 5, "poni": {{"dist": 0.1, "poni1": 0, "poni2": 0, "detector": "Pilatus1M"}}, "nbpt_rad": 10,
            "nbpt_azim": 36, "method": ["bbox", "csr", "cython"], "polarization_description": {polarization}}}"#
        )
    };
    for none in ["null", "[]", "[null]", "[null, 0]"] {
        let (settings, remarks) = read(&text(none)).unwrap();
        assert_eq!((settings.polarization, settings.polarization_offset), (None, None), "{none}");
        assert!(
            remarks[0].starts_with("azimuth_range: empty, so the azimuthal axis is -180 to 180"),
            "{remarks:?}"
        );
    }
    assert_eq!(read(&text("[0.9, 0]")).unwrap().0.polarization, Some(0.9));
}

#[test]
fn a_geometry_of_version_3_keeps_its_parallax() {
    let text = |version: &str, parallax: bool| {
        format!(
            r#"{{"version": 5, "nbpt_rad": 5, "poni": {{"poni_version": {version}, "dist": 0.1, "poni1": 0, "poni2": 0,
                "detector": "Eiger4M", "detector_config": {{"sensor": {{"material": "Si"}}}}, "parallax": {parallax}}}}}"#
        )
    };
    let geometry = |version, parallax| read(&text(version, parallax)).unwrap().0.geometry.unwrap();
    let found = geometry("3", true);
    assert!(
        found.starts_with("poni_version: 3\n") && found.contains("Parallax: True\n"),
        "{found}"
    );
    assert!(found.contains(r#"Detector_config: {"sensor":{"material":"Si"}}"#), "{found}");
    assert!(geometry("2.1", false).starts_with("poni_version: 2.1\n"));
}

#[test]
fn version_1_has_its_geometry_at_the_top_level_and_switches() {
    let (settings, remarks) = read(
        r#"{"dist": 0.2, "poni1": 0.01, "poni2": 0.02, "rot1": 0, "rot2": 0, "rot3": 0, "wavelength": 1e-10, "pixel1": 1e-4,
            "pixel2": 2e-4, "detector": "Detector", "shape": [10, 20], "splineFile": null, "nbpt_rad": 50, "nbpt_azim": 36,
            "do_2D": false, "unit": "2th_deg", "method": "full_csr_ocl", "do_mask": false, "mask_file": "m.edf",
            "do_dark": true, "dark_current": "a.edf, b.edf", "do_polarization": true, "polarization_factor": 0.9,
            "polarization_offset": 0.1, "do_azimuthal_range": true, "azimuth_range_min": -10, "azimuth_range_max": 20,
            "do_radial_range": false, "radial_range_min": 1, "radial_range_max": 2, "do_dummy": true, "val_dummy": -2,
            "delta_dummy": 1.5, "do_solid_angle": false, "do_poisson": 1, "do_OpenCL": true}"#,
    )
    .unwrap();
    let geometry = settings.geometry.unwrap();
    assert!(
        geometry
            .contains("Detector_config: {\"pixel1\":0.0001,\"pixel2\":0.0002,\"max_shape\":[10,20]}\nDistance: 0.2\n"),
        "{geometry}"
    );
    assert_eq!((settings.split, settings.npt_azim, settings.mask), (Some(Split::Full), None, None));
    assert_eq!(settings.dark.unwrap().as_slice().len(), 2);
    assert_eq!(
        (settings.polarization, settings.polarization_offset),
        (Some(0.9), Some(0.1f64.to_degrees()))
    );
    assert_eq!((settings.azimuth_range, settings.radial_range), (Some([-10.0, 20.0]), None));
    assert_eq!(settings.dummy, Some(DummySetting::Value { value: -2.0, delta: 1.5 }));
    assert_eq!(
        (settings.solid_angle, settings.error_model),
        (Some(false), Some(ErrorModel::Poisson))
    );
    assert!(
        remarks.iter().any(|line| line.contains("--engine"))
            && remarks.iter().any(|line| line.contains("val_dummy")),
        "{remarks:?}"
    );
}

#[test]
fn a_poni_file_is_named_and_may_be_overridden() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.poni"), "Distance: 0.1\nPoni1: 1\nPoni2: 2\n").unwrap();
    let read = |text: &str| super::read(text, &dir.path().join("c.json")).unwrap().0;
    let named = read(r#"{"version": 3, "poni": "a.poni", "nbpt_rad": 5, "detector": null}"#);
    assert_eq!(
        (named.poni.unwrap().as_path(), named.geometry),
        (dir.path().join("a.poni").as_path(), None)
    );
    let overridden = read(r#"{"version": 2, "poni": "a.poni", "nbpt_rad": 5, "dist": 0.7}"#);
    assert!(
        overridden.poni.is_none()
            && overridden
                .geometry
                .unwrap()
                .ends_with("Poni2: 2\nponi_version: 2.1\nDistance: 0.7\n")
    );
}

#[test]
fn the_name_of_the_function_selects_clipping_or_a_median() {
    let clipped = with(
        r#""integrator_method": "sigma_clip_ng", "extra_options": {"thres": 3, "max_iter": 4, "error_model": "azimuthal"}"#,
    );
    let clipped = clipped.unwrap().0;
    assert_eq!(clipped.sigma_clip.unwrap().to_string(), "3,4");
    assert_eq!(clipped.error_model, Some(ErrorModel::Azimuthal));
    assert_eq!(
        with(r#""integrator_name": "sigma_clip_ng""#).unwrap().0.error_model,
        Some(ErrorModel::Poisson)
    );
    let median =
        with(r#""integrator_method": "medfilt1d_ng", "extra_options": {"percentile": [10, 90]}"#)
            .unwrap()
            .0;
    assert_eq!(median.median, Some(Quantiles { low: 10.0, high: 90.0 }));
}

#[test]
fn normalization_is_a_number_and_a_counter() {
    let (settings, remarks) =
        with(r#""normalization_factor": 1e5, "monitor_name": "/entry/instrument/diode""#).unwrap();
    let names = [MonitorSetting::Number(1e5), MonitorSetting::Name("diode".to_owned())];
    assert_eq!(settings.monitor.unwrap().as_slice(), names);
    assert!(remarks.iter().any(|line| line.contains("counter diode")), "{remarks:?}");
    assert_eq!(settings.monitor_reference, None::<OneOrMany<ReferenceSetting>>);
}

#[test]
fn cakes_begin_where_the_discontinuity_is() {
    let cake =
        with(r#""nbpt_azim": 360, "chi_discontinuity_at_0": true, "unit": ["q_nm^-1", "chi_deg"]"#)
            .unwrap()
            .0;
    assert_eq!(
        (cake.npt_azim, cake.azimuth_range, cake.unit.map(Unit::name)),
        (Some(360), Some([0.0, 360.0]), Some("q_nm^-1"))
    );
    let unweighted = with(r#""method": ["bbox", "csr", "cython", "unweighted"]"#).unwrap().0;
    assert_eq!(
        (unweighted.mean, unweighted.split),
        (Some(crate::Mean::Unweighted), Some(Split::BBox))
    );
    assert_eq!(with(r#""nbpt_azim": 1"#).unwrap().0.unit.map(Unit::name), Some("2th_deg"));
}

#[test]
fn unknown_and_unsupported_keys_are_refused_by_name() {
    assert_eq!(
        message("\"npt_rad\": 3"),
        "/nowhere/azimint.json: unknown key `npt_rad`; did you mean `nbpt_rad`?"
    );
    for (keys, words) in [
        (r#""version": 6"#, "version: 6: expected at most 5"),
        (
            r#""error_model": "variance""#,
            "error_model: \"variance\": expected a model that needs no image",
        ),
        (r#""error_model": 7"#, "error_model: 7: expected no, poisson"),
        (r#""integrator_class": "FiberIntegrator""#, "integrator_class: FiberIntegrator"),
        (r#""integrator_method": "separate""#, "integrator_method: separate: expected integrate1d"),
        (r#""extra_options": {"safe": false}"#, "extra_options.safe: false: not supported"),
        (
            r#""method": ["pseudo", "csr", "cython"], "nbpt_azim": 10"#,
            "expected no, bbox or full splitting",
        ),
        (r#""radial_range": [1, null]"#, "radial_range: 1 to none: expected both limits"),
        (r#""npt_ip": 10"#, "fiber integration is not supported"),
        (r#""nbpt_azim": 2.5"#, "nbpt_azim: 2.5: expected a whole number"),
        (r#""mask_file": 3"#, "mask_file: 3: expected a file"),
        (r#""polarization_factor": "high""#, "expected a factor"),
        (r#""val_dummy": -1, "do_dummy": "no""#, "do_dummy: \"no\": expected true or false"),
        (
            r#""integrator_method": "sigma_clip_ng", "extra_options": {"thres": "3"}"#,
            "extra_options.thres: \"3\": expected a number",
        ),
        (
            r#""integrator_method": "sigma_clip_ng", "extra_options": {"thres": null, "max_iter": 2.5}"#,
            "extra_options.max_iter: 2.5: expected a whole number",
        ),
    ] {
        assert!(message(keys).contains(words), "{keys}: {}", message(keys));
    }
    assert!(
        read(r#"{"version": 5, "nbpt_rad": 3}"#).unwrap_err().to_string().contains("poni: missing")
    );
    assert!(
        read(r#"{"version": 5, "poni": {"dist": 1}}"#)
            .unwrap_err()
            .to_string()
            .contains("nbpt_rad: missing")
    );
    assert!(
        read(r#"{"poni": {"distt": 1}, "nbpt_rad": 1}"#)
            .unwrap_err()
            .to_string()
            .contains("did you mean `dist`")
    );
    assert!(read("[1]").unwrap_err().to_string().contains("expected a JSON object"));
}

#[test]
fn the_section_of_pyfai_diffmap_is_read() {
    let (settings, remarks) = read(
        r#"{"experiment_title": "map", "ai": {"version": 5, "poni": "a.poni", "nbpt_rad": 700}}"#,
    )
    .unwrap();
    assert_eq!(settings.npt, Some(700));
    assert!(
        remarks[0].contains("pyFAI-diffmap") && remarks[0].contains("scan-find"),
        "{remarks:?}"
    );
    let why = read(r#"{"ai": "a.poni"}"#).unwrap_err().to_string();
    assert!(why.contains("ai: ") && why.contains("pyFAI-diffmap"), "{why}");
}
