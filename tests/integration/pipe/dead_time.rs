//! `plan-split --dead-time`: patterns are those of frames that were corrected before, and each scan has
//! its own exposure time.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sample::Options;
use serde_json::{Value, json};

use super::sparse::{digest, process};
use crate::support::{Outcome, Workspace, python, run, run_python, small_options};

const PONI: &str = "poni_version: 2\nDetector: Detector\nDetector_config: {\"pixel1\": 1e-4, \"pixel2\": 1e-4}\n\
    Distance: 0.1\nPoni1: 0.007\nPoni2: 0.005\nRot1: 0\nRot2: 0\nRot3: 0\nWavelength: 1e-10\n";

/// Writes 200 frames of 0.01 counts per pixel.
const WRITE_SPARSE: &str = r#"
import h5py, numpy, pathlib, sys
frames = numpy.random.default_rng(6).poisson(0.01, (200, 150, 101)).astype("u4")
with h5py.File(pathlib.Path(sys.argv[1]) / "sparse.h5", "w") as file:
    file.create_dataset("data", data=frames, chunks=(1, 150, 101))
"#;

/// Prints how far the errors of two averages are apart.
const COMPARE_AVERAGES: &str = r#"
import sys
import h5py, numpy

def errors(path):
    with h5py.File(path) as file:
        entry = file[file.attrs["default"]]
        return entry[entry.attrs["default"]].parent["averaged/intensity_errors"][()]

one, other = map(errors, sys.argv[1:])
print(numpy.nanmax(abs(one / other - 1)))
"#;

/// Writes 20 frames of counts, a dark, and the frames corrected for a dead time of 1e-4 of the exposure:
/// NaN where a pixel was dead for more than nine tenths of it.
const WRITE: &str = r#"
import h5py, hdf5plugin, numpy, pathlib, sys
folder = pathlib.Path(sys.argv[1])
random = numpy.random.default_rng(5)
frames = random.poisson(random.uniform(0, 900, (20, 1, 101)) * random.uniform(0.5, 1, (20, 150, 101)))
frames[3] = random.poisson(0.02, (150, 101))
frames[:, random.integers(0, 150, 90), random.integers(0, 101, 90)] = 7000
frames[4:, 20, 30:40], frames[6, 77] = 9001, 8999
corrected = frames / (1 - 1e-4 * frames)
corrected[frames > 9000] = numpy.nan
with h5py.File(folder / "raw.h5", "w") as file:
    file.create_dataset("data", data=frames.astype("u4"), chunks=(1, 150, 101), **hdf5plugin.Bitshuffle(cname="lz4"))
with h5py.File(folder / "corrected.h5", "w") as file:
    file.create_dataset("data", data=corrected, chunks=(1, 150, 101))
numpy.save(folder / "dark.npy", random.uniform(0, 3, (150, 101)))
"#;

/// Prints which datasets two finals have in common to the bit, and how far intensities of the first are
/// above those of the third, which was not corrected.
const COMPARE: &str = r#"
import json, sys
import h5py, hdf5plugin, numpy

def read(path, name):
    with h5py.File(path) as file:
        entry = file[file.attrs["default"]]
        return entry[entry.attrs["default"]].parent["integrated"][name][()]

found, expected, uncorrected = sys.argv[1:]
ratio = read(found, "intensity") / read(uncorrected, "intensity")
print(json.dumps({
    "same": [name for name in ("intensity", "intensity_errors")
             if numpy.array_equal(read(found, name), read(expected, name), equal_nan=True)],
    "ratio": [float(numpy.nanmin(ratio)), float(numpy.nanmax(ratio))],
}))
"#;

struct Frames(tempfile::TempDir);

impl Frames {
    fn new() -> Option<Self> {
        python()?;
        let directory = tempfile::tempdir().unwrap();
        run_python(WRITE, [directory.path()])?;
        std::fs::write(directory.path().join("g.poni"), PONI).unwrap();
        Some(Self(directory))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn plan(&self, raw: &str, out: &str, flags: &[&str]) -> String {
        let raw = format!("{}::/data", self.path(raw).display());
        let scans = run("scan-find", &[raw], "").assert_success().stdout;
        let (poni, out) = (self.path("g.poni"), self.path(out));
        let [poni, out] = [&poni, &out].map(|path| path.to_str().unwrap());
        let arguments = [&["--poni", poni, "--out", out, "--npt", "40"], flags].concat();
        run("plan-split", &arguments, &scans).assert_success().stdout
    }
}

const DEAD_TIME: [&str; 4] = ["--dead-time", "10us", "--exposure-time", "100ms"];

#[test]
fn patterns_are_those_of_frames_that_were_corrected_before() {
    let Some(frames) = Frames::new() else { return };
    let dark = frames.path("dark.npy");
    let dark = dark.to_str().unwrap();
    let cases: [(&[&str], &[&str]); 7] = [
        (&[], &[]),
        (&["--split", "full", "--dark", dark], &["--threads", "3", "--batch-frames", "3"]),
        (&["--split", "no", "--error-model", "azimuthal"], &["--threads", "1"]),
        (&["--split", "no", "--sigma-clip", "4", "--error-model", "azimuthal"], &["--sparse"]),
        (&["--median", "50", "--by", "frames=3"], &["--engines", "2"]),
        (&["--npt-azim", "12"], &["--compression", "lz4"]),
        (&["--mean", "unweighted", "--valid-max", "8000"], &["--keep-sums"]),
    ];
    for (number, (flags, integrate)) in cases.into_iter().enumerate() {
        let run_on = |raw: &str, name: &str, more: &[&str]| {
            let tasks = frames.plan(raw, &format!("{name}{number}"), &[flags, more].concat());
            process(&tasks, integrate, &[])
        };
        let found = run_on("raw.h5", "found", &DEAD_TIME);
        let uncorrected = run_on("raw.h5", "uncorrected", &[]);
        let expected = match flags {
            // The limit of counts, as corrected counts have it.
            [flags @ .., "8000"] => {
                let flags = [flags, &["40000.1"]].concat();
                let tasks = frames.plan("corrected.h5", &format!("expected{number}"), &flags);
                process(&tasks, integrate, &[])
            }
            _ => run_on("corrected.h5", "expected", &[]),
        };
        let printed = run_python(COMPARE, [&found, &expected, &uncorrected]).expect("Python");
        let printed: Value = serde_json::from_slice(&printed).unwrap();
        let about = format!("{flags:?}: {printed}");
        // Counting errors are those of fewer counts than there are photons.
        let same: &[&str] = match flags.contains(&"azimuthal") {
            true => &["intensity", "intensity_errors"],
            false => &["intensity"],
        };
        assert_eq!(printed["same"], json!(same), "{about}");
        assert!(printed["ratio"][1].as_f64() > Some(1.02), "{about}");
        if integrate.contains(&"--sparse") {
            assert_eq!(digest(&found), digest(&expected), "spots have the corrected counts");
        }
    }
}

#[test]
fn averages_of_sparse_frames_have_the_errors_of_their_photons() {
    let Some(frames) = Frames::new() else { return };
    run_python(WRITE_SPARSE, [frames.path("")]).expect("Python");
    let averages = [&["--dead-time", "100ns", "--exposure-time", "0.1"][..], &[]].map(|flags| {
        let tasks = frames.plan("sparse.h5", &format!("sparse{}", flags.len()), flags);
        process(&tasks, &[], &["--average", "mean"])
    });
    let difference = run_python(COMPARE_AVERAGES, &averages).expect("Python");
    let difference: f64 = String::from_utf8_lossy(&difference).trim().parse().unwrap();
    assert!(difference < 1e-5, "{difference}");
}

/// Returns the records with the exposure times of their scans, in order; without where it is `None`.
fn with_exposure_times(scans: &str, times: &[Option<f64>]) -> String {
    let edit = |(line, time): (&str, &Option<f64>)| {
        let mut record: Value = serde_json::from_str(line).unwrap();
        match time {
            Some(time) => record["exposure_time"] = (*time).into(),
            None => _ = record.as_object_mut().unwrap().remove("exposure_time"),
        }
        record.to_string() + "\n"
    };
    scans.lines().zip(times).map(edit).collect()
}

fn plan(workspace: &Workspace, scans: &str, flags: &[&str]) -> Outcome {
    let (poni, out) = (workspace.data.poni.to_str().unwrap(), workspace.path("out"));
    let all = [&["--poni", poni, "--npt", "300", "--out", out.to_str().unwrap()], flags].concat();
    run("plan-split", &all, scans)
}

/// Returns the digests of the recipes of tasks, in order.
fn digests(planned: &Outcome) -> Vec<String> {
    let tasks = planned.records("task");
    tasks.iter().map(|task| task["recipe_digest"].as_str().unwrap().to_owned()).collect()
}

fn recipe_of(planned: &Outcome, task: usize) -> String {
    let path = planned.records("task")[task]["recipe"].as_str().unwrap().to_owned();
    std::fs::read_to_string(Path::new(&path)).unwrap()
}

#[test]
fn each_scan_has_its_exposure_time_and_all_share_the_matrix() {
    let workspace = Workspace::new(&Options { scans: 3, ..small_options() });
    let times = [Some(0.1), Some(0.2), Some(0.1)];
    let scans = with_exposure_times(&workspace.scans, &times);
    let planned = plan(&workspace, &scans, &["--dead-time", "120ns"]).assert_success();
    let found = digests(&planned);
    assert_eq!(found.len(), 3);
    assert!(found[0] == found[2] && found[0] != found[1], "{found:?}");
    let recipe = recipe_of(&planned, 1);
    assert!(recipe.contains("dead-time = 0.00000012\nexposure-time = 0.2\n"), "{recipe}");
    let given = ["--dead-time", "0.12us", "--exposure-time", "100ms"];
    let given =
        digests(&plan(&workspace, &workspace.scans, &[&given[..], &["--replace"]].concat()));
    assert_eq!(given.iter().collect::<BTreeSet<_>>(), BTreeSet::from([&found[0]]));
    let results = run("ai-integrate", &["-v"], &planned.stdout).assert_success();
    run("gather", &["-q"], &results.stdout).assert_success();
    let matrices = std::fs::read_dir(workspace.path("out/.azpipe/matrix")).unwrap();
    let matrices = matrices.filter(|entry| {
        entry.as_ref().unwrap().path().extension().is_some_and(|end| end == "matrix")
    });
    assert_eq!(matrices.count(), 1, "{}", results.stderr);
}

#[test]
fn recipes_that_become_equal_by_the_exposure_time_are_refused_and_a_picture_needs_none() {
    let workspace = Workspace::new(&small_options());
    let recipe = |name: &str, text: &str| {
        let path = workspace.path(name);
        std::fs::write(&path, format!("dead-time = '120ns'\n{text}")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let [a, b] = [recipe("a.toml", ""), recipe("b.toml", "exposure-time = 0.1\n")];
    let refused = plan(&workspace, &workspace.scans, &["--recipe", &a, "--recipe", &b]);
    assert_ne!(refused.status, 0);
    assert!(refused.stderr.contains("a and b have the same settings"), "{}", refused.stderr);
    let picture = workspace.path("p.png");
    let flags = ["--recipe", &a, "--preview", picture.to_str().unwrap()];
    plan(&workspace, &workspace.scans, &flags).assert_success();
    assert!(picture.exists());
}

#[test]
fn scans_whose_exposure_time_is_not_known_and_counts_that_are_corrected_are_refused() {
    let workspace = Workspace::new(&small_options());
    let dead_time = ["--dead-time", "120ns"];
    for (time, words) in [(None, "records no exposure time"), (Some(1e9), "1000000000 s")] {
        let scans = with_exposure_times(&workspace.scans, &[time]);
        let refused = plan(&workspace, &scans, &dead_time);
        assert_eq!(refused.status, 1, "{}", refused.stderr);
        let [said] = &refused.records("fail")[..] else { panic!("{}", refused.stdout) };
        let said = said["error"].as_str().unwrap();
        assert!(said.contains(words) && said.contains("--exposure-time 0.1"), "{said}");
        let given = [&dead_time[..], &["--exposure-time", "0.1"]].concat();
        plan(&workspace, &scans, &given).assert_success();
        plan(&workspace, &scans, &["--replace"]).assert_success();
    }
    let mut corrected: Value = serde_json::from_str(&workspace.scans).unwrap();
    corrected["countrate_correction_applied"] = true.into();
    let corrected = corrected.to_string();
    let refused = plan(&workspace, &corrected, &dead_time);
    assert_eq!(refused.status, 1);
    assert!(refused.stderr.contains("countrate_correction_applied"), "{}", refused.stderr);
    plan(&workspace, &corrected, &["--replace"]).assert_success();
    let binning = json!({"binning": [2, 1], "flip": [false, false], "rotation": 0, "region": [0, 0, 195, 487]});
    let mut binned: Value = serde_json::from_str(&workspace.scans).unwrap();
    binned["image_operation"] = binning;
    for flags in [&dead_time[..], &["--dead-time", "120ns", "--exposure-time", "0.1"]] {
        for mode in ["on", "off"] {
            let flags = [flags, &["--image-operation", mode]].concat();
            let refused = plan(&workspace, &binned.to_string(), &flags);
            assert!(refused.stderr.contains("frames are binned 2 x 1"), "{}", refused.stderr);
        }
    }
    for (flags, status, words) in [
        (&["--exposure-time", "1"][..], 2, "exposure-time: set without dead-time"),
        (&["--dead-time", "0"], 2, "such as 120ns"),
        (&["--dead-time", "95ms"], 1, "dead for more than nine tenths of the exposure time, 0.1 s"),
        (&["--dead-time", "40ms", "--valid-min", "3"], 1, "no value of"),
        (&["--dead-time", "120 min"], 2, "such as 120ns"),
    ] {
        let refused = plan(&workspace, &workspace.scans, flags);
        assert_eq!(refused.status, status, "{flags:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(words), "{flags:?}: {}", refused.stderr);
    }
}
