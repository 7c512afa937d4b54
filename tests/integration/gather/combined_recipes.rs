//! Patterns of two recipes that are subtracted or merged: what must be equal, and what may differ.

use std::fs;

use serde_json::Value;

use crate::support::{Outcome, Workspace, npy, run, small_options};
use sample::Options;

const SHAPE: [usize; 2] = [195, 487];
const RANGE: [&str; 2] = ["--radial-range", "8,30"];

/// A directory with one scan, some images, and patterns of the scan by several recipes.
struct Recipes(Workspace);

impl Recipes {
    fn new() -> Self {
        let workspace = Workspace::new(&Options { frames: 3, ..small_options() });
        for (name, value) in [("flat", 2.0_f32), ("dark", 1.0), ("mask", 0.0)] {
            let pixels: Vec<u8> =
                std::iter::repeat_n(value.to_le_bytes(), SHAPE[0] * SHAPE[1]).flatten().collect();
            fs::write(workspace.path(&format!("{name}.npy")), npy("<f4", SHAPE, &pixels)).unwrap();
        }
        let poni = fs::read_to_string(&workspace.data.poni).unwrap();
        let far = poni.lines().map(|line| match line.strip_prefix("Distance: ") {
            Some(distance) => format!("Distance: {}\n", 1.25 * distance.parse::<f64>().unwrap()),
            None => format!("{line}\n"),
        });
        fs::write(workspace.path("far.poni"), far.collect::<String>()).unwrap();
        Self(workspace)
    }

    /// Integrates the scan below `out`, and returns the results. Flags that begin with `@` are files
    /// of the directory.
    fn integrate(&self, out: &str, flags: &[&str]) -> String {
        let flags: Vec<String> = flags.iter().map(|flag| self.resolve(flag)).collect();
        let flags: Vec<&str> = RANGE.into_iter().chain(flags.iter().map(String::as_str)).collect();
        let poni: &[&str] = if flags.contains(&"--poni") { &[] } else { &["--poni", self.poni()] };
        let out = self.0.path(out);
        let base = ["--out", out.to_str().unwrap(), "--npt", "300"];
        let tasks = run("plan-split", &[poni, &base, &flags].concat(), &self.0.scans);
        run("ai-integrate", &["--threads", "1"], &tasks.assert_success().stdout)
            .assert_success()
            .stdout
    }

    fn poni(&self) -> &str {
        self.0.data.poni.to_str().unwrap()
    }

    fn resolve(&self, flag: &str) -> String {
        match flag.strip_prefix('@') {
            Some(name) => self.0.path(name).to_str().unwrap().to_owned(),
            None => flag.to_owned(),
        }
    }

    /// Integrates and gathers the scan, and returns the path of its final file.
    fn gather(&self, out: &str, flags: &[&str]) -> String {
        final_file(&run("gather", &["--keep-parts"], &self.integrate(out, flags)))
    }
}

fn final_file(gathered: &Outcome) -> String {
    gathered.records("summary")[0]["final"].as_str().unwrap().to_owned()
}

fn read(path: &Value, name: &str) -> Vec<f64> {
    hdf5::File::open(path.as_str().unwrap()).unwrap().dataset(name).unwrap().read_raw().unwrap()
}

#[test]
fn a_background_with_other_corrections_means_or_errors_is_refused() {
    let recipes = Recipes::new();
    let sample = recipes.integrate("sample", &[]);
    for (index, (flags, key, values)) in [
        (&["--flat", "@flat.npy"][..], "--flat", ["flat.npy (SHA-256 ", "flat none"]),
        (&["--dark", "@dark.npy"], "--dark", ["dark.npy (SHA-256 ", "dark none"]),
        (&["--sensor", "Si,320um"], "--sensor", ["sensor Si,320um", "sensor none"]),
        (&["--median", "50"], "--median", ["median 50,50", "median none"]),
        (&["--mean", "unweighted"], "--mean", ["mean unweighted", "mean weighted"]),
        (&["--error-floor", "none"], "--error-floor", ["error-floor none", "error-floor pixel"]),
        (
            &["--error-model", "azimuthal"],
            "--error-model",
            ["error-model azimuthal", "error-model poisson"],
        ),
        (&["--error-model", "no"], "--error-model", ["error-model no", "error-model poisson"]),
        (&["--solid-angle", "off"], "--solid-angle", ["solid-angle off", "solid-angle on"]),
        (&["--empty", "0"], "--empty", ["empty 0", "empty nan"]),
    ]
    .into_iter()
    .enumerate()
    {
        let background = recipes.gather(&format!("background{index}"), flags);
        for reduction in [&[][..], &["--thickness", "1mm", "--calibration-factor", "1"]] {
            let subtract = [&["--keep-parts", "--subtract", &background], reduction].concat();
            let refused = run("gather", &subtract, &sample);
            assert_eq!(refused.status, 1, "{flags:?}: {}", refused.stderr);
            let expected = [
                format!("{background}: can't be subtracted: it was integrated with "),
                format!("; integrate both with the same {key}"),
                values[0].to_owned(),
                values[1].to_owned(),
            ];
            for expected in expected {
                assert!(refused.stderr.contains(&expected), "{expected}: {}", refused.stderr);
            }
        }
    }
    // Both the same.
    let flags = ["--flat", "@flat.npy", "--flat-mode", "multiply", "--median", "50"];
    let background = recipes.gather("same", &flags);
    let sample = recipes.integrate("same_sample", &flags);
    let subtracted = run("gather", &["--subtract", &background], &sample).assert_success();
    assert_eq!(subtracted.stderr, "");
}

#[test]
fn a_background_of_other_pixels_is_subtracted_and_warned_of_if_its_mean_may_be_another() {
    let recipes = Recipes::new();
    let sample = recipes.integrate("sample", &[]);
    for (index, (flags, warned)) in [
        (&["--mask", "@mask.npy"][..], ""),
        (&["--valid-max", "1e6"], "valid-max 1000000"),
        (&["--dummy", "none"], "dummy none"),
        // Its pixels are not split unless --split says so.
        (&["--sigma-clip", "5", "--split", "bbox"], "sigma-clip 5,"),
        (&["--azimuth-range", "0,90"], "azimuth-range 0,90"),
    ]
    .into_iter()
    .enumerate()
    {
        let background = recipes.gather(&format!("background{index}"), flags);
        let subtract = ["--keep-parts", "--subtract", &background];
        let subtracted = run("gather", &subtract, &sample).assert_success();
        if warned.is_empty() {
            assert_eq!(subtracted.stderr, "", "{flags:?}");
            continue;
        }
        let expected = [
            format!("{background}: subtracted, although it was integrated with {warned}"),
            format!("; integrate both with the same {}, unless that is meant", flags[0]),
        ];
        for expected in expected {
            assert!(subtracted.stderr.contains(&expected), "{expected}: {}", subtracted.stderr);
        }
    }
}

#[test]
fn a_background_of_another_detector_or_wavelength_is_subtracted_and_warned_of() {
    let mut recipes = Recipes::new();
    let sample = recipes.integrate("sample", &[]);
    let poni = fs::read_to_string(recipes.poni()).unwrap();
    let with_wavelength = |wavelength: f64| {
        let lines = poni.lines().map(|line| match line.strip_prefix("Wavelength: ") {
            Some(_) => format!("Wavelength: {wavelength:e}\n"),
            None => format!("{line}\n"),
        });
        lines.collect::<String>()
    };
    let own = poni.lines().find_map(|line| line.strip_prefix("Wavelength: ")).unwrap();
    let own: f64 = own.parse().unwrap();
    fs::write(recipes.0.path("near.poni"), with_wavelength(own * 1.0005)).unwrap();
    fs::write(recipes.0.path("other.poni"), with_wavelength(own * 1.01)).unwrap();
    let subtract = |background: &str| {
        run("gather", &["--keep-parts", "--subtract", background], &sample).assert_success().stderr
    };
    let near = recipes.gather("near", &["--poni", "@near.poni"]);
    assert_eq!(subtract(&near), "", "two calibrations of one wavelength");
    let other = recipes.gather("other", &["--poni", "@other.poni"]);
    let told = subtract(&other);
    let expected = format!("{other}: subtracted, although it was measured with a wavelength of ");
    assert!(told.contains(&expected), "{told}");
    let name = sample_detector(&recipes.0.scans);
    recipes.0.scans = recipes.0.scans.replace(&format!("\"{name}\""), "\"another\"");
    let other = recipes.gather("detector", &[]);
    let told = subtract(&other);
    let expected = "it was measured with the detector another, and ";
    assert!(told.contains(expected), "{told}");
    assert!(told.contains(&format!(" with the detector {name}; ")), "{told}");
}

/// Returns the name of the detector in the first of scan-find's records.
fn sample_detector(scans: &str) -> String {
    let first: Value = serde_json::from_str(scans.lines().next().unwrap()).unwrap();
    first["detector"].as_str().unwrap().to_owned()
}

#[test]
fn a_background_at_another_distance_is_scaled_to_the_samples_solid_angle() {
    let recipes = Recipes::new();
    let sample = recipes.integrate("sample", &["--poni", "@far.poni"]);
    let background = recipes.gather("background", &[]);
    let gathered = run("gather", &["--subtract", &background], &sample).assert_success();
    let factors = read(&gathered.records("summary")[0]["subtracted"], "entry/subtracted/factor");
    assert_eq!(factors.len(), 3);
    assert!(factors.iter().all(|factor| (factor * 1.25 * 1.25 - 1.0).abs() < 1e-12), "{factors:?}");
}

#[test]
fn errors_of_a_background_do_not_depend_on_what_its_final_holds() {
    for (keep, most) in [(&[][..], 2e-6), (&["--keep-sums"], 1e-12)] {
        let workspace = Workspace::new(&Options { frames: 8, ..small_options() });
        let tasks = workspace.plan("out", &["--monitor", "monitor", "--monitor-reference", "1e6"]);
        let results = run("ai-integrate", keep, &tasks).assert_success().stdout;
        let empty = workspace.path("empty.h5");
        let subtract = ["--subtract", empty.to_str().unwrap()];
        let look = |average: &[&str]| {
            let own = run("gather", &[keep, average].concat(), &results).assert_success();
            fs::copy(final_file(&own), &empty).unwrap();
            let gathered = run("gather", &[keep, average, &subtract].concat(), &results);
            let path = gathered.assert_success().records("summary")[0]["subtracted"].clone();
            ["background", "mean"]
                .map(|group| read(&path, &format!("entry/{group}/intensity_errors")))
        };
        let without = look(&[]);
        let with = look(&["--average", "mean"]);
        for (without, with) in without.iter().flatten().zip(with.iter().flatten()) {
            assert_eq!(without.is_nan(), with.is_nan());
            assert!(with.is_nan() || (without / with - 1.0).abs() < most, "{without}, {with}");
        }
    }
}

#[test]
fn a_merged_background_has_the_monitor_of_its_members() {
    let recipes = Recipes::new();
    let monitor = ["--monitor", "monitor", "--monitor-reference", "1e6"];
    let sectors = [("upper", "0,180"), ("lower", "-180,0")].map(|(name, range)| {
        let range = format!("--azimuth-range={range}");
        recipes.integrate("parts", &[&monitor[..], &["--recipe-name", name, &range]].concat())
    });
    let merge = |flags: &[&str]| {
        run("gather", &[&["--merge", "all"], flags].concat(), &sectors.concat()).assert_success()
    };
    let merged = merge(&["--keep-parts"]);
    let merged = merged.records("summary").pop().unwrap()["final"].as_str().unwrap().to_owned();
    let sample = |out: &str, flags: &[&str]| {
        run("gather", &["--subtract", &merged], &recipes.integrate(out, flags))
    };
    let unweighted = sample("unweighted", &monitor);
    let told = "is merged of patterns that are divided by monitors, so that the mean needs the weights of each frame";
    assert_eq!(unweighted.status, 2);
    assert!(unweighted.stderr.contains(told), "{}", unweighted.stderr);
    merge(&["--average", "mean"]);
    let refused = sample("without", &[]);
    assert_eq!(refused.status, 1);
    let told = "it was integrated with monitor monitor, monitor-reference 1000000, and the sample with \
                monitor none, monitor-reference none; ";
    assert!(refused.stderr.contains(told), "{}", refused.stderr);
    let gathered = sample("with", &monitor).assert_success();
    let left = read(&gathered.records("summary")[0]["subtracted"], "entry/mean/intensity");
    let whole = read(&gathered.records("summary")[0]["subtracted"], "entry/background/intensity");
    // The sectors share the pixels at their ends.
    let sum = |values: &[f64]| values.iter().filter(|value| value.is_finite()).sum::<f64>();
    assert!(sum(&left).abs() < 0.02 * sum(&whole), "{} of {}", sum(&left), sum(&whole));
}

#[test]
fn patterns_with_other_monitors_corrections_or_means_are_not_merged() {
    let recipes = Recipes::new();
    let base = ["--monitor", "monitor", "--monitor-reference", "1e6"];
    let with = |flags: &[&'static str]| -> Vec<&'static str> { [&base[..], flags].concat() };
    for (index, (flags, key, values)) in [
        (
            vec!["--monitor", "epoch", "--monitor-reference", "1e6"],
            "--monitor",
            ["monitor monitor,", "monitor epoch;"],
        ),
        (
            vec!["--monitor", "monitor", "--monitor-reference", "5e5"],
            "--monitor-reference",
            ["monitor-reference 1000000,", "monitor-reference 500000;"],
        ),
        (vec![], "--monitor, --monitor-reference", ["monitor monitor,", "monitor none,"]),
        (
            with(&["--flat", "@flat.npy"]),
            "--flat-mode, --flat",
            ["flat none", "flat.npy (SHA-256 "],
        ),
        (with(&["--median", "50"]), "--median", ["median none", "median 50,50"]),
        (with(&["--dark", "@dark.npy"]), "--dark", ["dark none", "dark.npy (SHA-256"]),
        (with(&["--mean", "unweighted"]), "--mean", ["mean weighted", "mean unweighted"]),
        (
            with(&["--polarization", "0.9"]),
            "--polarization",
            ["polarization none", "polarization 0.9"],
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let out = format!("out{index}");
        let named = |name, flags: &[&'static str]| {
            recipes.integrate(&out, &[&["--recipe-name", name], flags].concat())
        };
        let results = named("a", &base) + &named("b", &flags);
        let refused = run("gather", &["--merge", "all"], &results);
        assert_eq!(refused.status, 1, "{flags:?}: {}", refused.stderr);
        let expected = [
            "can't be merged with ",
            ": the first was integrated with ",
            values[0],
            ", and the second with ",
            values[1],
            &format!("; integrate both with the same {key}"),
        ];
        for expected in expected {
            assert!(refused.stderr.contains(expected), "{expected}: {}", refused.stderr);
        }
    }
}

#[test]
fn patterns_of_other_places_and_pixels_are_merged() {
    let recipes = Recipes::new();
    for (index, (flags, warned)) in [
        (&["--poni", "@far.poni", "--azimuth-range", "0,90"][..], ""),
        (&["--mask", "@mask.npy", "--split", "no"], ""),
        // A factor of the second to the first.
        (&["--monitor", "2"], ""),
        (&["--valid-max", "1e6"], "valid-max 1000000"),
    ]
    .into_iter()
    .enumerate()
    {
        let out = format!("out{index}");
        let named = |name, flags: &[&str]| {
            recipes.integrate(&out, &[&["--recipe-name", name], flags].concat())
        };
        let merged = run("gather", &["--merge", "all"], &(named("a", &[]) + &named("b", flags)));
        let merged = merged.assert_success();
        assert_eq!(merged.records("summary").len(), 3);
        assert_eq!(merged.stderr.is_empty(), warned.is_empty(), "{}", merged.stderr);
        assert!(merged.stderr.contains(warned), "{}", merged.stderr);
    }
}
