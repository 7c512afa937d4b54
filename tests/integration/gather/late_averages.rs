//! Averages that are asked for when the sums of the frames have gone: they are made from patterns,
//! and are those that the sums give.

use crate::support::{NO_ARGUMENTS, Workspace, run, small_options};

/// Average patterns of a final file: intensities and errors.
type Averages = [Vec<f64>; 2];

fn read_averages(path: &str, has_errors: bool) -> Averages {
    let file = hdf5::File::open(path).unwrap();
    let group = file.group("1.1/pilatus_integrate/averaged").unwrap();
    let read = |name| group.dataset(name).unwrap().read_raw::<f64>().unwrap();
    let errors = if has_errors { read("intensity_errors") } else { Vec::new() };
    [read("intensity"), errors]
}

/// Returns the largest difference between two averages, relative to them. Both must be NaN in the
/// same bins.
fn largest_difference(one: &[f64], other: &[f64]) -> f64 {
    assert_eq!(one.len(), other.len());
    assert!(one.iter().any(|value| *value > 0.0));
    one.iter().zip(other).fold(0.0, |largest: f64, (one, other)| {
        assert_eq!(one.is_nan(), other.is_nan());
        if one == other || one.is_nan() { largest } else { largest.max((one / other - 1.0).abs()) }
    })
}

#[test]
fn averages_of_patterns_are_those_of_sums() {
    let workspace = Workspace::new(&small_options());
    let recipes: [(&str, &[&str]); 10] = [
        ("plain", &[]),
        ("monitor", &["--monitor", "monitor", "--monitor-reference", "mean"]),
        ("bins", &["--error-floor", "bin"]),
        ("none", &["--error-floor", "none"]),
        ("std", &["--error", "std"]),
        ("azimuthal", &["--error-model", "azimuthal"]),
        ("median", &["--median", "50"]),
        ("quantiles", &["--median", "25,75", "--monitor", "monitor", "--monitor-reference", "1e6"]),
        ("no-errors", &["--error-model", "no"]),
        ("cake", &["--npt-azim", "8", "--monitor", "monitor", "--monitor-reference", "1e6"]),
    ];
    for (out, flags) in recipes {
        let tasks = workspace.plan(out, flags);
        let results = run("ai-integrate", &["--keep-sums"], &tasks).assert_success().stdout;
        for average in ["mean", "sum", "mean,7"] {
            let flags = ["--keep-parts", "--average", average];
            let gathered = run("gather", &flags, &results).assert_success();
            let path = gathered.records("summary")[0]["final"].as_str().unwrap().to_owned();
            let has_errors = out != "no-errors";
            let expected = read_averages(&path, has_errors);
            // Without the parts, and in place of a final file without averages, which would stay.
            std::fs::rename(workspace.path(out), workspace.path("whole")).unwrap();
            let copied = std::process::Command::new("cp")
                .arg("-a")
                .args([workspace.path("whole"), workspace.path(out)])
                .status();
            assert!(copied.unwrap().success());
            std::fs::remove_file(&path).unwrap();
            run("gather", NO_ARGUMENTS, &results).assert_success();
            assert!(workspace.parts(out).is_empty());
            let late = run("gather", &["--average", average], &results).assert_success();
            assert_eq!(
                late.records("summary")[0]["data_digest"],
                gathered.records("summary")[0]["data_digest"]
            );
            let found = read_averages(&path, has_errors);
            // The rounding of intensities to f32, and of errors, from which V - w² may follow. Without the
            // minimum of each pixel, errors differ in bins of few pixels.
            let most_of_errors = if matches!(out, "bins" | "none") { 1e-2 } else { 2e-6 };
            for (what, most, found, expected) in [
                ("intensity", 2e-7, &found[0], &expected[0]),
                ("errors", most_of_errors, &found[1], &expected[1]),
            ] {
                if what == "intensity" || has_errors {
                    let largest = largest_difference(found, expected);
                    assert!(largest < most, "{out}, {average}: {what} differ by {largest:e}");
                }
            }
            std::fs::remove_dir_all(workspace.path(out)).unwrap();
            std::fs::rename(workspace.path("whole"), workspace.path(out)).unwrap();
        }
    }
}
