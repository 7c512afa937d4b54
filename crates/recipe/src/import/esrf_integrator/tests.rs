//! Imports valid and mistyped configurations of the integrator.

use super::*;

fn read(text: &str) -> Result<(Settings, Vec<String>), RecipeError> {
    super::read(text, Path::new("/nowhere/id15.conf"))
}

fn message(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

const FULL: &str = "[dataset]\nlocation = /data/RAW/*/*.h5\nhdf5_entry =\nlayout = ID15A\n[azimuthal integration]\n\
    n_pts = 3000\nunit = q_A^-1 # per angstrom\ndetector = eiger2_cdte_4m\ndetector_name = eiger\nmask_file = /data/mask.edf\n\
    flatfield_file =\ndark_file = /data/dark.edf\nponi_file = /data/lab6.poni\nerror_model = poisson\n\
    azimuthal_range = (-180., 180., 1)\nradial_range = (0.5, 12)\nai_method = opencl\npolarization_factor = 0.95\n\
    correct_solid_angle = 0\ncorrect_detector_attenuation = 0\naverage_xy = mean\npixel_splitting = BBox\n\
    [computations distribution]\npartition = gpu\nn_workers = 4\n[output]\nlocation = /data/PROCESSED\ntry_metadata = diode\n\
    [pipeline]\nverbosity = 2\n";

#[test]
fn every_key_of_a_pattern_is_imported() {
    let (settings, _) = read(FULL).unwrap();
    let expected = Settings {
        poni: Some("/data/lab6.poni".into()),
        poni_detector: Some("eiger2_cdte_4m".into()),
        npt: Some(3000),
        unit: "q_A^-1".parse().ok(),
        radial_range: Some([0.5, 12.0]),
        split: Some(Split::BBox),
        mask: Some(OneOrMany::One("/data/mask.edf".into())),
        dark: Some(OneOrMany::One("/data/dark.edf".into())),
        polarization: Some(0.95),
        solid_angle: Some(false),
        error_model: Some(ErrorModel::Poisson),
        ..Settings::default()
    };
    assert_eq!(settings, expected);
}

#[test]
fn absent_keys_have_the_defaults_of_the_integrator() {
    let (settings, remarks) = read("[azimuthal integration]\nponi_file = a.poni\n").unwrap();
    assert_eq!(
        (settings.npt, settings.unit.map(Unit::name), settings.split),
        (Some(2500), Some("r_mm"), Some(Split::No))
    );
    assert_eq!(
        (settings.polarization, settings.error_model),
        (Some(0.99), Some(ErrorModel::Hybrid))
    );
    assert_eq!((settings.solid_angle, settings.sensor), (Some(true), None));
    assert!(
        remarks.iter().any(|line| line.starts_with("correct_detector_attenuation: not applied")),
        "{remarks:?}"
    );
    assert!(remarks.iter().any(|line| line.starts_with("radial_range: empty")), "{remarks:?}");
}

#[test]
fn every_other_key_gives_a_remark() {
    let (_, remarks) = read(FULL).unwrap();
    for words in [
        "try_metadata: ignored, as by the integrator",
        "ai_method: ignored, because azpipe does not need it",
        "[azimuthal integration] detector_name: not part of a recipe; use scan-find --detector eiger",
        "average_xy: not part of a recipe; use gather --average mean",
        "n_workers: not part of a recipe; use slurm-emit --n-workers 4",
        "[output] location: not part of a recipe; use plan-split --out /data/PROCESSED",
        "gather --layout integrator",
        "[dataset] location: not part of a recipe; use scan-find /data/RAW/*/*.h5",
    ] {
        assert!(remarks.iter().any(|line| line.contains(words)), "{words}: {remarks:#?}");
    }
    assert!(
        !remarks.iter().any(|line| line.contains("attenuation") || line.contains("radial_range")),
        "{remarks:#?}"
    );
    // No key is in two lists, and every key without a setting is in one.
    let keys_with_remarks: Vec<_> = KEYS_OF_OTHER_FILTERS
        .iter()
        .map(|(section, key, _)| (section, key))
        .chain(
            IGNORED_KEYS
                .iter()
                .chain(&KEYS_INTEGRATOR_IGNORES)
                .map(|(section, key)| (section, key)),
        )
        .collect();
    for (index, &(section, key)) in keys_with_remarks.iter().enumerate() {
        assert!(!keys_with_remarks[index + 1..].contains(&(section, key)), "{section} {key}");
        assert!(
            INTEGRATOR_KEYS.iter().any(|(known, keys)| known == section && keys.contains(key)),
            "{section} {key}"
        );
    }
}

#[test]
fn slices_become_a_cake_and_trimming_becomes_clipping() {
    let settings = |line: &str| read(&format!("[azimuthal integration]\n{line}\n")).unwrap().0;
    let cake = settings("azimuthal_range = (-90, 90, 6)");
    assert_eq!((cake.npt_azim, cake.azimuth_range), (Some(6), Some([-90.0, 90.0])));
    let clipped = settings("trim_method = sigma_clip\npixel_splitting = full\ntrim_bounds = (4)");
    assert_eq!((clipped.sigma_clip.unwrap().threshold, clipped.split), (4.0, Some(Split::No)));
    let median = settings("trim_method = median\ntrim_bounds = (10, 90)");
    assert_eq!(
        (median.median, median.error_model),
        (Some(Quantiles { low: 10.0, high: 90.0 }), Some(ErrorModel::No))
    );
    let moved = read("[dataset]\nmask_file = /m.edf\ndetector = Pilatus1M\n").unwrap().0;
    assert_eq!(
        (moved.mask, moved.poni_detector),
        (Some(OneOrMany::One("/m.edf".into())), Some("Pilatus1M".into()))
    );
}

#[test]
fn unknown_and_unsupported_keys_are_refused_by_name() {
    assert_eq!(
        message("[azimuthal integration]\nn_ptss = 3"),
        "/nowhere/id15.conf: unknown key `n_ptss`; did you mean `n_pts`?"
    );
    assert!(message("[azimutal integration]\n").ends_with("did you mean `azimuthal integration`?"));
    assert!(read("[other]\nwhatever = 1\n").is_ok(), "the integrator ignores this section");
    let refusal = |line: &str| message(&format!("[azimuthal integration]\n{line}\n"));
    for (line, words) in [
        ("pixel_splitting = pseudo", "pixel_splitting: pseudo: expected no, BBox or full"),
        ("error_model = azimuthal", "error_model: azimuthal: expected hybrid"),
        ("trim_method = clip", "trim_method: clip: expected median"),
        ("trim_method = median", "trim_bounds: nothing: expected two percentiles"),
        (
            "trim_method = sigma_clip\ntrim_bounds = 3\nazimuthal_range = 0,90,3",
            "one slice with a trim_method",
        ),
        ("n_pts = many", "n_pts: many: expected a number"),
        ("azimuthal_range = 0,90", "azimuthal_range: 0,90: expected (min, max, number of slices)"),
        (
            "correct_detector_attenuation = maybe",
            "correct_detector_attenuation: maybe: expected 0 or 1",
        ),
    ] {
        assert!(refusal(line).contains(words), "{line}: {}", refusal(line));
    }
    assert!(
        message("[output]\nexisting_output = raise\n")
            .contains("existing_output: raise: not supported")
    );
}
