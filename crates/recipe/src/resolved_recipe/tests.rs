//! Recipes are resolved, written and read back.

use std::path::Path;

use crate::one_or_many::OneOrMany;
use crate::{GoniometerFile, IncidentAngle, PoniRange, Recipe, RecipeError, Settings};

fn settings(dir: &Path) -> Settings {
    std::fs::write(dir.join("a.poni"), "Distance: 0.1\n").unwrap();
    std::fs::write(dir.join("m.npy"), "mask").unwrap();
    let mask = Some(OneOrMany::One(dir.join("m.npy").into()));
    Settings { poni: Some(dir.join("a.poni").into()), mask, ..Settings::default() }
}

#[test]
fn the_digest_depends_on_content_and_not_on_paths() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let here = Recipe::resolve(&settings(one.path())).unwrap();
    let there = Recipe::resolve(&settings(two.path())).unwrap();
    assert_eq!(here.digest(), there.digest());
    let other = settings(two.path());
    std::fs::write(two.path().join("m.npy"), "other").unwrap();
    assert_ne!(Recipe::resolve(&other).unwrap().digest(), here.digest());
    let finer = Settings { npt: Some(1001), ..settings(one.path()) };
    assert_ne!(Recipe::resolve(&finer).unwrap().digest(), here.digest());
}

#[test]
fn a_written_recipe_reads_back_and_is_refused_once_a_file_changes() {
    let dir = tempfile::tempdir().unwrap();
    let recipe = Recipe::resolve(&settings(dir.path())).unwrap();
    let path = dir.path().join("recipe.toml");
    std::fs::write(&path, recipe.to_toml()).unwrap();
    assert_eq!(Recipe::load(&path, &recipe.digest()).unwrap(), recipe);
    assert!(matches!(Recipe::load(&path, "0000"), Err(RecipeError::Changed { .. })));
    std::fs::write(dir.path().join("m.npy"), "edited").unwrap();
    let error = Recipe::load(&path, &recipe.digest()).unwrap_err().to_string();
    assert!(error.contains("m.npy") && error.contains("plan-split"), "{error}");
}

#[test]
fn a_recipe_that_no_plan_split_wrote_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let recipe = Recipe::resolve(&settings(dir.path())).unwrap();
    let path = dir.path().join("recipe.toml");
    let load = |recipe: &Recipe, more: &str| {
        std::fs::write(&path, recipe.to_toml() + more).unwrap();
        Recipe::load(&path, &recipe.digest()).unwrap_err().to_string()
    };
    let newer = Recipe { version: 2, ..recipe.clone() };
    assert!(load(&newer, "").contains("version 2, and this azpipe reads up to version 1"));
    // A newer recipe may have unknown keys. The error about its version is more helpful than one
    // about a key.
    assert!(load(&newer, "[clipping]\nthreshold = 5\n").contains("version 2"));
    assert!(load(&recipe, "[clipping]\nthreshold = 5\n").contains("clipping"));
    assert!(load(&Recipe { npt: 1 << 40, ..recipe.clone() }, "").contains("npt"));
}

#[test]
fn every_number_is_refused_or_can_be_read_back() {
    let extremes = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        1e-300,
        1e300,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        5e-324,
        0.1 + 0.2,
        1.0 / 3.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        9_007_199_254_740_993.0,
        1e-9,
        4_294_967_295.0,
    ];
    let texts = |value: f64| [format!("{value}"), format!("{value:e}")];
    let sensor = |text: &str| format!("Si,{text}m").parse().ok();
    type Change = fn(&mut Settings, f64);
    let changes: [(&str, Change); 9] = [
        ("radial-range", |all, value| all.radial_range = Some([value, value + 1.0])),
        ("azimuth-range", |all, value| all.azimuth_range = Some([value, value + 1.0])),
        ("radial-edges", |all, value| {
            all.radial_edges = Some(vec![value, value + 1.0, value + 3.0])
        }),
        ("azimuth-edges", |all, value| {
            all.azimuth_edges = Some(vec![value, value + 1.0, value + 3.0])
        }),
        ("valid-min", |all, value| all.valid_min = Some(value)),
        ("valid-max", |all, value| all.valid_max = Some(value)),
        ("polarization", |all, value| all.polarization = Some(value)),
        ("polarization-offset", |all, value| {
            (all.polarization, all.polarization_offset) = (Some(0.9), Some(value))
        }),
        ("monitor", |all, value| {
            all.monitor = Some(OneOrMany::One(crate::MonitorSetting::Number(value)))
        }),
    ];
    let good = || Settings { geometry: Some("Distance: 1".into()), ..Settings::default() };
    let mut all: Vec<(String, Settings)> = Vec::new();
    for value in extremes {
        for (key, change) in changes {
            let mut settings = good();
            change(&mut settings, value);
            all.push((format!("{key} {value:e}"), settings));
        }
        for text in texts(value) {
            all.push((format!("sensor {text}"), Settings { sensor: sensor(&text), ..good() }));
            all.push((
                format!("sigma-clip {text}"),
                Settings { sigma_clip: text.parse().ok(), ..good() },
            ));
            all.push((
                format!("dead-time {text}"),
                Settings {
                    dead_time: text.parse().ok(),
                    exposure_time: text.parse().ok(),
                    ..good()
                },
            ));
            all.push((format!("median {text}"), Settings { median: text.parse().ok(), ..good() }));
            for word in [text.clone(), format!("{text},{text}")] {
                all.push((
                    format!("dummy {word}"),
                    Settings { dummy: word.parse().ok(), ..good() },
                ));
            }
            let region = format!("circle:{text},{text},{text}");
            let mask_region = region.parse().ok().map(OneOrMany::One);
            all.push((format!("mask-region {region}"), Settings { mask_region, ..good() }));
            let monitor = Some(OneOrMany::One(crate::MonitorSetting::Name("diode".into())));
            let monitor_reference = text.parse().ok().map(OneOrMany::One);
            all.push((
                format!("monitor-reference {text}"),
                Settings { monitor, monitor_reference, ..good() },
            ));
        }
    }
    let mut read = 0;
    for (what, settings) in all {
        let Ok(recipe) = Recipe::resolve(&settings) else { continue };
        let back = Recipe::parse(&recipe.to_toml(), Path::new("/r.toml"), &recipe.digest());
        assert!(back.is_ok(), "{what}: {}", back.unwrap_err());
        read += 1;
    }
    assert!(read > 100, "{read} recipes could be made at all");
}

#[test]
fn differences_between_recipes_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let written = settings(dir.path());
    let recipe = |change: fn(&mut Settings)| {
        let mut settings = written.clone();
        change(&mut settings);
        Recipe::resolve(&settings).unwrap()
    };
    let one = recipe(|_| ());
    assert!(one.differences(&recipe(|_| ())).is_empty());
    let other = recipe(|all| (all.npt, all.mask, all.polarization) = (Some(300), None, Some(0.99)));
    assert_eq!(
        one.differences(&other),
        ["npt: 1000, now 300", "mask: set, now none", "polarization: none, now 0.99"]
    );
    std::fs::write(dir.path().join("m.npy"), "another mask").unwrap();
    assert_eq!(one.differences(&recipe(|_| ())), ["mask"]);
    std::fs::write(dir.path().join("a.poni"), "Distance: 0.2\n").unwrap();
    assert_eq!(one.differences(&recipe(|_| ())), ["poni", "mask"]);
}

#[test]
fn a_recipe_has_the_angle_of_a_motor_in_each_range() {
    let dir = tempfile::tempdir().unwrap();
    let turned = |radial_range| Settings {
        incident_angle: Some(IncidentAngle::Motor("th".to_owned())),
        unit: "qip_nm^-1".parse().ok(),
        radial_range,
        ..settings(dir.path())
    };
    let why = Recipe::resolve(&turned(None)).unwrap_err().to_string();
    assert!(why.starts_with("incident-angle: set without radial-range; expected"), "{why}");
    let base = Recipe::resolve(&turned(Some([-1.0, 2.0]))).unwrap();
    assert!(base.has_moving_geometry() && !base.has_moving_detector());
    let range = |first: u64, incident_angle| PoniRange {
        first,
        last: first,
        poni: String::new(),
        poni_file: Default::default(),
        incident_angle,
    };
    let at = |angles: [Option<f64>; 2]| {
        base.with_geometries(vec![range(0, angles[0]), range(1, angles[1])])
    };
    let recipe = at([Some(0.1), Some(0.0)]);
    let path = dir.path().join("recipe.toml");
    std::fs::write(&path, recipe.to_toml()).unwrap();
    assert_eq!(Recipe::load(&path, &recipe.digest()).unwrap(), recipe);
    assert_ne!(at([Some(0.1), Some(0.2)]).digest(), recipe.digest());
    assert_eq!(recipe.common_poni(), Some("Distance: 0.1\n"));
    assert_eq!(recipe.file_paths().count(), 2, "PONI file and mask");
    let at_ranges = [0, 1].map(|number| recipe.at_range(&recipe.poni_table[number]));
    let expected = [Some(IncidentAngle::Degrees(0.1)), None];
    assert_eq!(at_ranges.each_ref().map(|at| at.incident_angle.clone()), expected);
    assert!(at_ranges.iter().all(|at| !at.has_moving_geometry() && at.poni == recipe.poni));
    // The matrix of a position is that of the recipe with the number.
    let number =
        Settings { incident_angle: Some(IncidentAngle::Degrees(0.1)), ..turned(Some([-1.0, 2.0])) };
    assert_eq!(at_ranges[0].digest(), Recipe::resolve(&number).unwrap().digest());
    for wrong in [at([Some(0.1), None]), at([Some(0.1), Some(f64::INFINITY)])] {
        std::fs::write(&path, wrong.to_toml()).unwrap();
        let why = Recipe::load(&path, &wrong.digest()).unwrap_err().to_string();
        assert!(why.contains("incident-angle: expected a finite angle for each range"), "{why}");
    }
}

#[test]
fn geometries_that_follow_from_motors_are_named_by_the_setting_that_a_user_gives() {
    let dir = tempfile::tempdir().unwrap();
    let turned = |motor: &str| Settings {
        incident_angle: Some(IncidentAngle::Motor(motor.to_owned())),
        unit: "qip_nm^-1".parse().ok(),
        radial_range: Some([-1.0, 2.0]),
        ..settings(dir.path())
    };
    let turned = |motor: &str| Recipe::resolve(&turned(motor)).unwrap();
    let at = |recipe: &Recipe, poni: &str, incident_angle: Option<f64>| {
        let (poni, poni_file) = (poni.to_owned(), "b.poni".into());
        recipe.with_geometries(vec![PoniRange {
            first: 0,
            last: 9,
            poni,
            poni_file,
            incident_angle,
        }])
    };
    let moved = |base: &Recipe| {
        let goniometer = GoniometerFile {
            path: "a.json".into(),
            sha256: "5".repeat(64),
            motors: vec!["del".to_owned(), "nu".to_owned()],
        };
        Recipe { goniometer: Some(goniometer), ..base.clone() }
    };
    let plain = Recipe::resolve(&settings(dir.path())).unwrap();
    let (here, there) = ("Distance: 1\n", "Distance: 2\n");
    let other_file = |mut recipe: Recipe| {
        recipe.goniometer.as_mut().unwrap().sha256 = "6".repeat(64);
        recipe
    };
    for (one, two, expected) in [
        (
            at(&turned("th"), "", Some(0.1)),
            at(&turned("th"), "", Some(0.2)),
            &["incident-angle: other positions of th"][..],
        ),
        (
            at(&turned("th"), "", Some(0.1)),
            at(&turned("mu"), "", Some(0.2)),
            &["incident-angle: th, now mu"],
        ),
        (
            at(&turned("th"), here, Some(0.1)),
            at(&turned("th"), there, Some(0.1)),
            &["poni-table and incident-angle: other positions of th"],
        ),
        (
            at(&moved(&plain), here, None),
            at(&moved(&plain), there, None),
            &["goniometer: other positions of del, nu"],
        ),
        (
            at(&moved(&turned("th")), here, Some(0.1)),
            at(&moved(&turned("th")), there, Some(0.1)),
            &["goniometer: other positions of del, nu, th"],
        ),
        (
            at(&moved(&plain), here, None),
            other_file(at(&moved(&plain), there, None)),
            &["goniometer"],
        ),
        (at(&moved(&plain), here, None), plain.clone(), &["goniometer: set, now none"]),
        (plain.clone(), at(&moved(&plain), here, None), &["goniometer: none, now set"]),
        (at(&plain, here, None), at(&plain, there, None), &["poni-table"]),
        (
            at(&moved(&plain), here, None),
            at(&plain, there, None),
            &["goniometer: set, now none", "poni-table"],
        ),
        (at(&moved(&plain), here, None), at(&moved(&plain), here, None), &[]),
    ] {
        assert_eq!(one.differences(&two), expected);
    }
}
