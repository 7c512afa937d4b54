//! Lists the error messages of the crate, so that they can be read side by side.

#![allow(clippy::unwrap_used, reason = "a test stops where it is wrong")]

use std::io;
use std::path::Path;

use recipe::{
    DummySetting, EmptyBinValue, ErrorFloor, ErrorMeasure, ErrorModel, FlatMode, MaskRegion,
    MedianError, Quantiles, Recipe, RecipeError, ReferenceSetting, Sensor, Settings, SigmaClip,
    Split,
};

#[test]
fn recipe_errors() {
    let path = || "/r.toml".into();
    let detector = || "p3".to_owned();
    let setting =
        || RecipeError::Setting { key: "npt", why: "0: expected 1 to 1048576 bins".to_owned() };
    let errors = [
        RecipeError::Io { path: path(), why: io::Error::from_raw_os_error(2) },
        RecipeError::Syntax { path: path(), why: "expected a JSON object".to_owned() },
        RecipeError::UnknownKey {
            path: path(),
            key: "nptt".to_owned(),
            nearest: Some("npt".to_owned()),
        },
        RecipeError::UnknownKey { path: path(), key: "zzz".to_owned(), nearest: None },
        RecipeError::Import {
            path: path(),
            key: "unit".to_owned(),
            why: "3: expected the name of a unit".to_owned(),
        },
        RecipeError::SectionGlob {
            path: path(),
            section: "a[".to_owned(),
            why: "unclosed character class".to_owned(),
        },
        RecipeError::NoSection {
            path: path(),
            detector: detector(),
            sections: vec!["e1".to_owned(), "e*".to_owned()],
        },
        RecipeError::SeveralSections {
            path: path(),
            detector: detector(),
            sections: vec!["p*".into(), "*3".into()],
        },
        setting(),
        setting().in_file(Path::new("/r.toml")),
        RecipeError::Changed {
            path: path(),
            found: "00ff".to_owned(),
            expected: "ff00".to_owned(),
        },
        RecipeError::NewerVersion { path: path(), found: 2 },
    ];
    let messages = [
        "/r.toml: No such file or directory (os error 2)",
        "/r.toml: expected a JSON object",
        "/r.toml: unknown key `nptt`; did you mean `npt`?",
        "/r.toml: unknown key `zzz`",
        "/r.toml: unit: 3: expected the name of a unit",
        "/r.toml: section [detector.\"a[\"]: expected a name or a glob: unclosed character class",
        "/r.toml: no section for detector p3; sections are: e1, e*",
        "/r.toml: several sections for detector p3: p*, *3; expected one",
        "npt: 0: expected 1 to 1048576 bins",
        "/r.toml: npt: 0: expected 1 to 1048576 bins",
        "/r.toml: has changed since the recipe was made (SHA-256 00ff, expected ff00); run plan-split again",
        "/r.toml: recipe has version 2, and this azpipe reads up to version 1; update azpipe",
    ];
    assert_eq!(errors.map(|error| error.to_string()), messages);
}

#[test]
fn settings_that_contradict_each_other_or_are_out_of_range() {
    for (settings, expected) in [
        (
            "poni-table = 'table'\nradial-range = [1, 2]",
            "poni-table: set together with geometry; expected one of them",
        ),
        (
            "goniometer = 'arm.json'\nradial-range = [1, 2]",
            "goniometer: set together with geometry; expected one of them",
        ),
        ("motor = 'tth'", "motor: set without goniometer; expected both, or neither"),
        ("npt = 0", "npt: 0: expected 1 to 1048576 bins"),
        ("npt-azim = 0", "npt-azim: 0: expected 1 to 36000 bins"),
        (
            "npt = 1000000\nnpt-azim = 36000",
            "npt-azim: 1000000 x 36000 bins: expected at most 16777216 in all",
        ),
        (
            "radial-range = [2, 1]",
            "radial-range: 2,1: expected two finite numbers, the lower first",
        ),
        (
            "azimuth-range = [0, 361]",
            "azimuth-range: 0,361: expected at most a full circle, 360 degrees",
        ),
        ("radial-edges = [1]", "radial-edges: 1 given; expected at least 2 numbers"),
        ("radial-edges = [1, nan]", "radial-edges: NaN: expected finite numbers"),
        ("radial-edges = [1, 3, 2]", "radial-edges: 3 is followed by 2; expected rising numbers"),
        (
            "azimuth-edges = [0, 9, 361]",
            "azimuth-edges: 0 to 361: expected at most a full circle, 360 degrees",
        ),
        (
            "radial-edges = [1, 2]\nnpt = 1",
            "npt: set together with radial-edges; expected one of them",
        ),
        ("polarization = 2", "polarization: 2: expected a number from -1 to 1"),
        (
            "polarization-offset = 1",
            "polarization-offset: set without polarization; expected both, or neither",
        ),
        (
            "incident-angle = nan",
            "incident-angle: NaN: expected a number of degrees, from -720 to 720",
        ),
        ("sample-orientation = 9", "sample-orientation: 9: expected 1 to 8, as in EXIF"),
        (
            "tilt-angle = 2",
            "tilt-angle: set with unit q_nm^-1, which does not depend on the sample; expected one of qip_nm^-1, qip_A^-1, qoop_nm^-1, \
             qoop_A^-1",
        ),
        ("flat-mode = 'divide'", "flat-mode: set without flat; expected both, or neither"),
        ("median-error = 'pyfai'", "median-error: set without median; expected both, or neither"),
        ("valid-min = nan", "valid-min: NaN: expected a finite number"),
        (
            "valid-max = -1",
            "valid-max: -1: expected at least 0; a negative limit masks every photon count",
        ),
        ("valid-min = 3\nvalid-max = 1", "valid-max: 1: expected at least valid-min, 3"),
        (
            "error-model = 'variance'",
            "variance: missing; error-model variance needs an image of variances (--variance)",
        ),
        (
            "error-model = 'no'\nerror = 'std'",
            "error: std with error-model no; expected another error-model",
        ),
        (
            "error-model = 'azimuthal'\nerror-floor = 'bin'",
            "error-floor: set without counting statistics; expected error-model poisson or hybrid, or no error-floor",
        ),
        ("npt-azim = 4\nkeep-bits = 0", "keep-bits: 0: expected 1 to 22"),
        ("npt-azim = 4\nkeep-bits = 23", "keep-bits: 23: expected 1 to 22"),
        (
            "keep-bits = 12",
            "keep-bits: set without npt-azim; expected a cake, as patterns of one dimension are not compressed",
        ),
        (
            "sigma-clip = 5\nmedian = 50",
            "median: set together with sigma-clip; expected one of them",
        ),
        (
            "median = 50\nmean = 'unweighted'",
            "median: set together with mean unweighted; expected one of them",
        ),
        (
            "sigma-clip = 5\nerror-model = 'no'",
            "sigma-clip: needs a standard deviation; expected another error-model than no",
        ),
        (
            "median = 50\nerror-model = 'azimuthal'",
            "median: has no azimuthal errors; expected error-model no, poisson, hybrid or variance",
        ),
        ("monitor = 0", "monitor: 0: expected a finite number other than 0"),
        (
            "monitor-reference = 1",
            "monitor-reference: 1 given for 0 monitors; expected one for each",
        ),
        (
            "monitor = [{name = 'a', reference = 'mean'}, {name = 'b', reference = 1}]",
            "monitor-reference: mean: the mean is that of the product of all monitors; \
             expected mean for all of them, or for none",
        ),
    ] {
        let settings =
            Settings::parse(&format!("geometry = 'Distance: 1'\n{settings}"), Path::new("r.toml"))
                .unwrap();
        assert_eq!(Recipe::resolve(&settings).unwrap_err().to_string(), expected);
    }
    assert_eq!(
        Recipe::resolve(&Settings::default()).unwrap_err().to_string(),
        "poni: missing; expected a PONI file (--poni lab6.poni)"
    );
}

#[test]
fn texts_of_settings() {
    let messages = [
        ("x".parse::<Split>().unwrap_err(), "no, bbox or full"),
        ("x".parse::<ErrorModel>().unwrap_err(), "no, poisson, azimuthal, hybrid or variance"),
        ("x".parse::<ErrorMeasure>().unwrap_err(), "sem or std"),
        ("x".parse::<ErrorFloor>().unwrap_err(), "pixel, bin or none"),
        ("x".parse::<MedianError>().unwrap_err(), "scatter or pyfai"),
        ("x".parse::<EmptyBinValue>().unwrap_err(), "nan or 0"),
        ("x".parse::<DummySetting>().unwrap_err(), "auto, none, VALUE or VALUE,DELTA"),
        ("x".parse::<FlatMode>().unwrap_err(), "divide or multiply"),
        (
            "x".parse::<SigmaClip>().unwrap_err(),
            "T or T,ITERATIONS: T standard deviations (not negative) or chauvenet, 1 to 1000 iterations",
        ),
        (
            "x".parse::<Quantiles>().unwrap_err(),
            "50 for the median, or LOW,HIGH: percent from 0 to 100, the lower first",
        ),
        (
            "x".parse::<Sensor>().unwrap_err(),
            "a material and its thickness, 1e-9 to 1 m, such as CdTe,750um or Si,0.32mm",
        ),
        (
            "x".parse::<MaskRegion>().unwrap_err(),
            "[outside-]circle:ROW,COLUMN,RADIUS, rectangle:ROW,COLUMN,ROW,COLUMN, \
             polygon:ROW,COLUMN,ROW,COLUMN,ROW,COLUMN,... or sector:FROM,TO",
        ),
    ];
    for (message, expected) in messages {
        assert_eq!(message, format!("`x`: expected {expected}"));
    }
    assert_eq!(
        "0".parse::<ReferenceSetting>().unwrap_err(),
        "`0`: expected mean, a finite number other than 0, or the name of a counter"
    );
}
