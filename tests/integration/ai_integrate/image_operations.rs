//! Frames that Lima binned, flipped, turned or cut before it saved them: on the whole detector's
//! geometry, against pyFAI with a geometry of the frames as they are saved.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::corrections::numbers;
use crate::support::{NO_ARGUMENTS, Outcome, python, run, source_file};

/// The radial axis, intensities and errors of a pattern.
type Pattern = [Vec<f64>; 3];

fn plan(folder: &Path, name: &str, flags: &[&str]) -> Outcome {
    let scan = run("scan-find", &[folder.join(format!("{name}.h5"))], "").assert_success().stdout;
    let out = folder.join(format!("out/{name}/{}", flags.len()));
    let poni = folder.join("whole.poni");
    let given = ["--poni", poni.to_str().unwrap(), "--npt", "200", "--out", out.to_str().unwrap()];
    // The last of a flag that is given twice is meant.
    let given = if flags.contains(&"--poni") { &given[2..] } else { &given[..] };
    run("plan-split", &[given, flags].concat(), &scan)
}

fn integrated(tasks: &Outcome) -> Pattern {
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks.stdout).assert_success().stdout;
    let summary =
        run("gather", NO_ARGUMENTS, &results).assert_success().records("summary").remove(0);
    let file = hdf5::File::open(summary["final"].as_str().unwrap()).unwrap();
    let entry = summary["entry"].as_str().unwrap();
    let group = file
        .group(&format!("/{entry}/{}_integrate/integrated", summary["detector"].as_str().unwrap()))
        .unwrap();
    ["q", "intensity", "intensity_errors"]
        .map(|name| group.dataset(name).unwrap().read_raw::<f64>().unwrap())
}

/// How far from pyFAI's a pattern is at the most; bins are empty where pyFAI's are.
fn distance(ours: &Pattern, peer: &Value) -> f64 {
    let [radial, intensity, sem, count] =
        [0, 1, 2, 3].map(|index| numbers(&peer["pattern"][index]));
    let mut worst = 0.0_f64;
    for bin in 0..radial.len() {
        worst = worst.max((ours[0][bin] / radial[bin] - 1.0).abs());
        if count[bin] == 0.0 {
            assert!(ours[1][bin].is_nan(), "bin {bin}");
            continue;
        }
        worst = worst
            .max((ours[1][bin] / intensity[bin] - 1.0).abs())
            .max((ours[2][bin] / sem[bin] - 1.0).abs());
    }
    worst
}

#[test]
fn frames_after_each_operation_are_placed_on_the_whole_detector() {
    let Some(python) = python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    let said = Command::new(python)
        .arg(source_file("ai_integrate/operations.py"))
        .arg(folder)
        .output()
        .unwrap();
    let said: Value = serde_json::from_slice(&said.stdout)
        .unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(&said.stderr)));
    let mask = folder.join("mask.npy");
    let masked = ["--mask", mask.to_str().unwrap()];
    let mut whole = None;
    for (name, peer) in said.as_object().unwrap() {
        let tasks = plan(folder, name, if name == "all" { &masked } else { &[] }).assert_success();
        assert_eq!(
            tasks.stderr.contains("put back on the whole detector"),
            name != "whole",
            "{name}: {}",
            tasks.stderr
        );
        let pattern = integrated(&tasks);
        let worst = distance(&pattern, peer);
        assert!(worst < 1e-6, "{name}: {worst} off pyFAI");
        if name == "whole" {
            whole = Some(pattern);
        }
    }
    // The same photons, in another order.
    let whole = whole.unwrap();
    for name in ["rows", "columns", "quarter", "half", "three"] {
        let turned = integrated(&plan(folder, name, &[]));
        let same = |(one, two): (&f64, &f64)| (one - two).abs() <= 1e-6 * one.abs();
        assert!(whole.iter().flatten().zip(turned.iter().flatten()).all(same), "{name}");
    }
    // The master over a file of Lima's says what the file does.
    let scan =
        run("scan-find", &[folder.join("bliss.h5")], "").assert_success().records("scan").remove(0);
    let done = serde_json::json!({"full": [195, 487], "binning": [2, 2], "flip": [true, false], "rotation": 90,
        "region": [50, 10, 150, 80]});
    assert_eq!(scan["image_operation"], done);
    assert!(
        distance(&integrated(&plan(folder, "bliss", &masked).assert_success()), &said["all"])
            < 1e-6
    );

    // The user knows better.
    let at = integrated(&plan(folder, "region", &["--roi", "40,300"]).assert_success());
    assert!(distance(&at, &said["region"]) < 1e-6);
    let poni = folder.join("region.poni");
    let of_frames = ["--poni", poni.to_str().unwrap()];
    let saved = plan(folder, "region", &[&of_frames[..], &["--image-operation", "off"]].concat())
        .assert_success();
    assert!(!saved.stderr.contains("put back"), "{}", saved.stderr);
    assert!(distance(&integrated(&saved), &said["region"]) < 1e-6);
    let refused = plan(folder, "region", &of_frames);
    assert_eq!(refused.status, 1);
    let words = ["cut to 110 x 150 pixels at row 40, column 300", "--image-operation off"];
    assert!(words.iter().all(|word| refused.stderr.contains(word)), "{}", refused.stderr);
    let beyond = plan(folder, "region", &["--roi", "100,0"]);
    assert!(beyond.stderr.contains("reach beyond the detector's 195 x 487"), "{}", beyond.stderr);
}
