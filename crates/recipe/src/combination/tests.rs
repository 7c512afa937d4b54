//! Consequences of another value of each setting.

use std::path::Path;

use crate::{Combination, Recipe, Settings};

const COMBINATIONS: [Combination; 3] = [
    Combination::Difference,
    Combination::Sum { same_detector: true },
    Combination::Sum { same_detector: false },
];

/// The settings that most recipes below have.
const BASE: &str =
    "geometry = 'Distance: 0.1'\nunit = 'qip_nm^-1'\nradial-range = [0, 9]\nsplit = 'no'\n";

/// Resolves the settings of a recipe file, in which later lines replace earlier ones.
fn recipe(dir: &Path, lines: &str) -> Recipe {
    let mut table: toml::Table = BASE.parse().unwrap();
    let own: toml::Table = lines.parse().unwrap();
    // Bins are given in one way.
    if own.contains_key("radial-edges") {
        table.remove("radial-range");
    }
    table.extend(own);
    let path = dir.join("recipe.toml");
    let mut settings = Settings::parse(&table.to_string(), &path).unwrap();
    settings.resolve_paths_from(dir);
    Recipe::resolve(&settings).unwrap_or_else(|why| panic!("{lines}: {why}"))
}

/// Says of each combination whether two recipes are refused (R), warned of (W) or neither (-).
fn consequences(one: &Recipe, other: &Recipe) -> String {
    let letter = |combination| {
        let mismatches = one.mismatches(other, combination);
        match (mismatches.are_refused(), mismatches.is_empty()) {
            (true, _) => 'R',
            (false, false) => 'W',
            (false, true) => '-',
        }
    };
    COMBINATIONS.map(letter).iter().collect()
}

#[test]
fn a_setting_that_differs_is_refused_or_warned_of_where_the_result_would_have_no_meaning() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["f.npy", "g.npy"] {
        std::fs::write(dir.path().join(name), name).unwrap();
    }
    for (one, other, expected) in [
        // How it is written, where the pixels were, and which are left out of all frames.
        ("", "roi = [1, 2]", "---"),
        ("", "image-operation = false", "---"),
        ("", "geometry = 'Distance: 0.2'", "---"),
        ("", "mask = 'f.npy'", "---"),
        ("", "mask-inverted = 'f.npy'", "---"),
        ("", "mask-region = 'sector:0,1'", "---"),
        // Callers compare the axes.
        ("", "npt = 77", "---"),
        ("npt-azim = 9", "npt-azim = 10", "---"),
        ("", "unit = 'q_nm^-1'", "---"),
        ("", "radial-range = [0, 8]", "---"),
        ("radial-edges = [0, 1, 3]", "radial-edges = [0, 2, 3]", "RRR"),
        ("azimuth-edges = [0, 1, 3]", "azimuth-edges = [0, 2, 3]", "RRR"),
        ("", "incident-angle = 0.2", "R--"),
        ("incident-angle = 0.2", "incident-angle = 'eta'", "R--"),
        ("", "tilt-angle = 1", "R--"),
        ("", "sample-orientation = 2", "R--"),
        ("", "azimuth-range = [0, 90]", "W--"),
        ("", "azimuth-range = [-180, 180]", "---"),
        ("split = 'bbox'", "split = 'full'", "W--"),
        ("", "solid-angle = false", "RRR"),
        ("", "polarization = 0.95", "RRR"),
        ("polarization = 0.9", "polarization = 0.95", "RRR"),
        ("polarization = 0.9", "polarization = 0.9\npolarization-offset = 9", "RR-"),
        ("", "sensor = 'Si,1mm'", "RR-"),
        ("", "dead-time = '120ns'", "RR-"),
        ("dead-time = '120ns'", "dead-time = '130ns'", "RR-"),
        ("dead-time = '120ns'\nexposure-time = 1", "dead-time = '120ns'\nexposure-time = 2", "---"),
        ("", "flat = 'f.npy'", "RR-"),
        ("flat = 'g.npy'", "flat = 'f.npy'", "RR-"),
        ("flat = 'f.npy'", "flat = 'f.npy'\nflat-mode = 'multiply'", "RR-"),
        ("", "dark = 'f.npy'", "RR-"),
        ("dark = 'g.npy'", "dark = 'f.npy'", "---"),
        ("", "mean = 'unweighted'", "RRR"),
        ("", "median = 50", "RRR"),
        ("median = 50", "median = '40,60'", "RRR"),
        ("median = 50", "median = 50\nmedian-error = 'pyfai'", "RRR"),
        ("", "empty = 0", "RRR"),
        ("", "error-model = 'no'", "RRR"),
        ("", "error-model = 'azimuthal'", "RRR"),
        ("", "error = 'std'", "RRR"),
        ("", "error-floor = 'none'", "RRR"),
        (
            "error-model = 'variance'\nvariance = 'f.npy'",
            "error-model = 'variance'\nvariance = 'g.npy'",
            "---",
        ),
        ("npt-azim = 9", "npt-azim = 9\nkeep-bits = 9", "-RR"),
        ("", "sigma-clip = 5", "WWW"),
        ("", "dummy = 'none'", "WW-"),
        ("", "valid-min = 0", "WW-"),
        ("", "valid-max = 9", "WW-"),
        ("", "detector-mask = false", "WW-"),
        ("", "monitor = 'm'", "RRR"),
        ("monitor = 'diode'", "monitor = 'm'", "RRR"),
        (
            "monitor = 'm'\nmonitor-reference = 5",
            "monitor = 'm'\nmonitor-reference = 'mean'",
            "RRR",
        ),
        ("monitor = 'm'\nmonitor-reference = 5", "monitor = 'm'\nmonitor-reference = 6", "RRR"),
        ("monitor = 'm'\nmonitor-reference = 'a'", "monitor = 'm'\nmonitor-reference = 'b'", "RRR"),
        ("monitor = ['a', 'b']", "monitor = ['b', 'a']", "---"),
        ("monitor = 'f.npy::/m'", "monitor = 'g.npy::/m'", "---"),
        ("monitor = 'f.npy::/m'", "monitor = 'f.npy::/n'", "RRR"),
        // A factor by which a user scales scans and detectors to each other; a background has one
        // of its own (gather --subtract-scale).
        ("monitor = 'm'", "monitor = ['m', 2]", "R--"),
        ("", "monitor = 2", "R--"),
    ] {
        let [one, other] = [one, other].map(|lines| recipe(dir.path(), lines));
        assert_eq!(consequences(&one, &other), expected, "{}{}", one.to_toml(), other.to_toml());
        assert_eq!(consequences(&other, &one), expected, "{}", other.to_toml());
        assert_eq!(consequences(&other, &other), "---");
    }
}

#[test]
fn the_same_files_elsewhere_are_the_same() {
    let [here, there] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let flat = |dir: &Path| {
        std::fs::write(dir.join("f.npy"), "flat").unwrap();
        recipe(dir, "flat = 'f.npy'")
    };
    assert_eq!(consequences(&flat(here.path()), &flat(there.path())), "---");
}

#[test]
fn what_differs_is_told_with_both_values_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f.npy"), "flat").unwrap();
    let flat = recipe(dir.path(), "flat = 'f.npy'\nmedian = 50\nvalid-max = 9");
    let none = recipe(dir.path(), "valid-max = 8");
    let told =
        |one: &Recipe| one.mismatches(&none, Combination::Difference).describe(&"it", &"/out/s.h5");
    let expected = format!(
        "it was integrated with flat-mode divide, flat {} (SHA-256 0d2cf3b9ccae), median 50,50, median-error scatter, \
         and /out/s.h5 with flat-mode none, flat none, median none, median-error none; integrate both with the same \
         --flat-mode, --flat, --median, --median-error",
        dir.path().join("f.npy").display()
    );
    let seen = told(&flat);
    let digest = |text: &str| text.replace(&text[text.find("SHA").unwrap()..][..20], "SHA");
    assert_eq!(digest(&seen), digest(&expected), "{seen}");
    assert_eq!(
        told(&recipe(dir.path(), "")),
        "it was integrated with valid-max none, and /out/s.h5 with valid-max 8; integrate both with the same --valid-max"
    );
}
