//! Errors of patterns beside what the patterns scatter by, on frames of few photons.

use super::viewers::run_script;
use crate::support::{NO_ARGUMENTS, Workspace, run, small_options};

/// Stated errors over what the frames of a final scatter by, in the root mean square over bins: of
/// single frames, and of the average over all of them (scatter over the root of their number).
const STATED_OVER_SEEN: &str = r#"
import json, sys
import h5py, numpy

with h5py.File(sys.argv[1]) as file:
    entry = file[file.attrs["default"]]
    data = entry[entry.attrs["default"]]
    intensity, errors = (data[name][()].astype("f8") for name in ("intensity", "intensity_errors"))
    averaged = data.parent["averaged/intensity_errors"][()] if "averaged" in data.parent else None
    good = numpy.isfinite(intensity).all(axis=0) & (data["count"][()] > 50)
    # Frames of the sample are not equally bright.
    flux = intensity[:, good].mean(axis=1, keepdims=True)
    intensity[:, good] *= flux.mean() / flux
    seen = intensity[:, good].var(axis=0, ddof=1)
    out = {"bins": int(good.sum()), "single": float(numpy.sqrt((errors[:, good] ** 2).mean() / seen.mean())),
           "middle": float(numpy.median(numpy.sqrt((errors[:, good] ** 2).mean(axis=0) / seen)))}
    if averaged is not None:
        out["averaged"] = float(numpy.sqrt((averaged[good] ** 2).mean() / (seen.mean() / len(intensity))))
print(json.dumps(out))
"#;

/// Stated errors over seen scatter, and what ai-integrate warned of.
struct Stated {
    single: f64,
    /// That of the bin in the middle, and not of the mean.
    middle: f64,
    averaged: f64,
    warned: String,
}

/// Returns the ratio of the stated errors to the observed scatter for frames of this mean count,
/// integrated with these flags of plan-split, and the warnings of ai-integrate.
fn compare_errors_with_scatter(mean: f64, plan: &[&str]) -> Option<Stated> {
    let workspace =
        Workspace::new(&sample::Options { frames: 60, distinct: 60, mean, ..small_options() });
    let plan = [&["--dummy", "none"], plan].concat();
    let integrated = run("ai-integrate", NO_ARGUMENTS, &workspace.plan_without_bins("out", &plan))
        .assert_success();
    let summary = run("gather", &["--average", "mean"], &integrated.stdout)
        .assert_success()
        .records("summary")
        .remove(0);
    let found = run_script(STATED_OVER_SEEN, &[summary["final"].as_str().unwrap()])?;
    assert!(found["bins"].as_u64().unwrap() > 30, "{found}");
    let number = |name: &str| found[name].as_f64().unwrap();
    let (single, middle, averaged) = (number("single"), number("middle"), number("averaged"));
    Some(Stated { single, middle, averaged, warned: integrated.stderr })
}

#[test]
fn sparse_frames_have_true_errors_by_bin_and_true_averages_by_any_rule() {
    for split in ["no", "bbox"] {
        let with = |floor| {
            compare_errors_with_scatter(
                0.02,
                &["--npt", "60", "--split", split, "--error-floor", floor],
            )
        };
        let Some(Stated { single, averaged, warned, .. }) = with("pixel") else { return };
        assert!(single > 4.0, "pyFAI's rule: {single}");
        assert!((0.9..1.1).contains(&averaged), "{split}: {averaged}");
        assert!(warned.contains("--error-floor bin"), "{warned}");
        let Stated { single, averaged, warned, .. } = with("bin").unwrap();
        assert!(
            (0.9..1.1).contains(&single) && (0.9..1.1).contains(&averaged),
            "{split}: {single}, {averaged}"
        );
        assert!(!warned.contains("variance"), "{warned}");
        let Stated { single, averaged, .. } = with("none").unwrap();
        assert!(
            (0.9..1.1).contains(&single) && (0.9..1.1).contains(&averaged),
            "{split}: {single}, {averaged}"
        );
    }
}

#[test]
fn the_error_of_a_median_is_its_scatter_or_pyfais() {
    let with = |error| {
        compare_errors_with_scatter(
            400.0,
            &["--npt", "400", "--split", "no", "--median", "50", "--median-error", error],
        )
    };
    // On the slopes of rings the pixels of a bin differ by more than their noise, so the bin in the
    // middle is looked at.
    let Some(Stated { middle: scatter, .. }) = with("scatter") else { return };
    assert!((0.8..1.25).contains(&scatter), "{scatter}");
    let Stated { middle: pixel, .. } = with("pyfai").unwrap();
    assert!(pixel > 5.0 * scatter, "{pixel} for {scatter}");
}

#[test]
fn clipping_sparse_frames_is_warned_of() {
    let workspace = Workspace::new(&sample::Options { frames: 2, mean: 0.02, ..small_options() });
    let plan =
        ["--npt", "60", "--dummy", "none", "--sigma-clip", "3", "--error-model", "azimuthal"];
    let integrated = run("ai-integrate", NO_ARGUMENTS, &workspace.plan_without_bins("out", &plan))
        .assert_success();
    assert!(
        integrated.stderr.contains("sigma clipping dropped every photon"),
        "{}",
        integrated.stderr
    );
}

/// Frames of equal pixels, each a Poisson draw of this mean.
const POISSON: &str = r#"
import json, sys
import h5py, numpy

path, mean, frames = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
draws = numpy.random.default_rng(7).poisson(mean, (frames, 195, 487)).astype("u2")
with h5py.File(path, "w") as file:
    file.create_dataset("data", data=draws, chunks=(1, 195, 487))
print(json.dumps({}))
"#;

/// The stated errors of averages over the scatter of these, in the root mean square over bins of at
/// least 500 pixels.
const AVERAGES: &str = r#"
import json, sys
import h5py, numpy

with h5py.File(sys.argv[1]) as file:
    entry = file[file.attrs["default"]]
    data = entry[entry.attrs["default"]]
    good = data["count"][()] > 500
    averaged = data.parent["averaged"]
    intensity, errors = (averaged[name][()][:, good] for name in ("intensity", "intensity_errors"))
    ratio = numpy.sqrt((errors ** 2).mean() / intensity.var(axis=0, ddof=1).mean())
    print(json.dumps({"bins": int(good.sum()), "averages": len(intensity), "ratio": float(ratio)}))
"#;

#[test]
fn the_error_of_averages_is_what_they_scatter_by_at_any_number_of_counts() {
    for mean in [0.02, 1.0, 100.0] {
        let mut workspace = Workspace::new(&sample::Options { frames: 1, ..small_options() });
        let raw = workspace.path("poisson.h5");
        if run_script(POISSON, &[raw.to_str().unwrap(), &mean.to_string(), "300"]).is_none() {
            return;
        }
        workspace.scans =
            run("scan-find", &[format!("{}::/data", raw.display())], "").assert_success().stdout;
        for (split, floor) in [("no", "pixel"), ("bbox", "bin")] {
            let flags =
                ["--dummy", "none", "--npt", "60", "--split", split, "--error-floor", floor];
            let results = run(
                "ai-integrate",
                NO_ARGUMENTS,
                &workspace.plan_without_bins("out", &[&flags[..], &["--replace"]].concat()),
            );
            for average in ["median,10", "median,7", "mean,10"] {
                let gathered =
                    run("gather", &["--average", average, "--keep-sums"], &results.stdout)
                        .assert_success();
                let file = gathered.records("summary")[0]["final"].as_str().unwrap().to_owned();
                let found = run_script(AVERAGES, &[&file]).unwrap();
                assert!(
                    found["bins"].as_u64().unwrap() > 30
                        && found["averages"].as_u64().unwrap() >= 30,
                    "{found}"
                );
                let ratio = found["ratio"].as_f64().unwrap();
                assert!(
                    (0.9..1.1).contains(&ratio),
                    "{mean} counts, {average}, {split}, floor {floor}: {ratio}"
                );
            }
        }
    }
}
