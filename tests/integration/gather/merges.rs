//! Patterns merged on one axis: against pyFAI's MultiGeometry, against one integration of all, and
//! what is refused.

use std::fs;

use super::viewers::{LOOK_AT_ARRAYS, run_script};
use crate::support::{NO_ARGUMENTS, Outcome, Workspace, run, small_options};
use sample::Options;

/// A script that prints pyFAI's MultiGeometry pattern of frame 1 of both scans, in steradian, and
/// the bins where it differs from azpipe's.
const MULTIGEOMETRY: &str = r#"
import json, logging, sys
logging.disable(logging.CRITICAL)
import h5py, hdf5plugin, numpy, pyFAI
from pyFAI.multi_geometry import MultiGeometry

master, final, *ponis = sys.argv[1:]
ais = [pyFAI.load(poni) for poni in ponis]
with h5py.File(master) as raw:
    images = [raw[f"/{scan}.1/instrument/pilatus/data"][1] for scan in (1, 2)]
    monitors = [float(raw[f"/{scan}.1/measurement/monitor"][1]) / 1e6 for scan in (1, 2)]
masks = [(image < 0) | (ai.detector.mask != 0) for image, ai in zip(images, ais)]
many = MultiGeometry(ais, unit="q_nm^-1", radial_range=(8.0, 30.0), azimuth_range=(-180, 180), empty=numpy.nan)
peer = many.integrate1d(images, npt=300, error_model="poisson", lst_mask=masks, normalization_factor=monitors,
                        method=("bbox", "csr", "cython"))
first = ais[0].detector.pixel1 * ais[0].detector.pixel2 / ais[0].dist**2
with h5py.File(final) as file:
    data = file[file.attrs["default"]]
    data = data[data.attrs["default"]]
    ours = [data[name][1].astype("f8") for name in ("intensity", "intensity_errors")]
    axis = data["q"][()]
    members = file[data.parent.name + "/members"]
    names = sorted(members)
    solid = [float(members[name]["solid_angle"][0]) for name in names]
there = peer.count > 0
# The whole of a pixel that reaches over the end of the range, where that is in one bin: a habit of pyFAI's.
there[[0, -1]] = False
worst = lambda mine, its: float(numpy.nanmax(abs(mine[there] / (its[there] * first) - 1)))
print(json.dumps({
    "bins": int(there.sum()), "empty": bool(numpy.isnan(ours[0][peer.count == 0]).all()),
    "axis": float(abs(axis / peer.radial - 1).max()),
    "intensity": worst(ours[0], peer.intensity), "sigma": worst(ours[1], peer.sigma),
    "names": names,
    "solid": [value / (ai.detector.pixel1 * ai.detector.pixel2 / ai.dist**2) for value, ai in zip(solid, ais)],
}))
"#;

const RANGE: [&str; 2] = ["--radial-range", "8,30"];

/// Two scans of a detector, the second further off and turned; the results of both.
fn integrate_two_positions(workspace: &Workspace, flags: &[&str]) -> (String, [String; 2]) {
    let near = fs::read_to_string(&workspace.data.poni).unwrap();
    let far: Vec<String> = near
        .lines()
        .map(|line| match line.split_once(": ") {
            Some(("Distance", value)) => {
                format!("Distance: {}", value.parse::<f64>().unwrap() * 1.25)
            }
            Some(("Rot1", _)) => "Rot1: 0.1".to_owned(),
            _ => line.to_owned(),
        })
        .collect();
    let ponis = [workspace.path("near.poni"), workspace.path("far.poni")];
    fs::write(&ponis[0], near).unwrap();
    fs::write(&ponis[1], far.join("\n") + "\n").unwrap();
    let out = workspace.path("out");
    let mut results = String::new();
    for (scan, poni) in workspace.scans.lines().zip(&ponis) {
        let arguments = [
            &["--poni", poni.to_str().unwrap(), "--out", out.to_str().unwrap(), "--npt", "300"],
            flags,
        ]
        .concat();
        let tasks = run("plan-split", &arguments, &format!("{scan}\n")).assert_success().stdout;
        results += &run("ai-integrate", &["--threads", "1"], &tasks).assert_success().stdout;
    }
    (results, ponis.map(|poni| poni.to_str().unwrap().to_owned()))
}

fn workspace_of_two_scans() -> Workspace {
    Workspace::new(&Options { scans: 2, frames: 3, ..small_options() })
}

/// Returns the last summary of a run that must succeed.
fn last_summary(ran: Outcome) -> serde_json::Value {
    ran.assert_success().records("summary").pop().unwrap()
}

#[test]
fn two_positions_are_what_multigeometry_makes_of_them() {
    let workspace = workspace_of_two_scans();
    let monitor = ["--monitor", "monitor", "--monitor-reference", "1000000"];
    let (results, ponis) = integrate_two_positions(&workspace, &[&RANGE[..], &monitor].concat());
    let summary =
        last_summary(run("gather", &["--merge-all", "both", "--export", "nxazint"], &results));
    let file = summary["final"].as_str().unwrap();
    assert!(file.ends_with("out/both.h5"), "{file}");
    assert_eq!(
        (&summary["integrated"], &summary["complete"], &summary["detector"]),
        (&3.into(), &true.into(), &"both".into())
    );
    assert!(workspace.parts("out").is_empty(), "nothing needs them any more");
    let master = workspace.data.master.to_str().unwrap();
    let Some(seen) = run_script(MULTIGEOMETRY, &[master, file, &ponis[0], &ponis[1]]) else {
        return;
    };
    assert!(seen["bins"].as_u64().unwrap() > 200, "{seen}");
    assert_eq!((&seen["empty"], seen["names"].as_array().unwrap().len()), (&true.into(), 2));
    let below =
        |name: &str, limit: f64| assert!(seen[name].as_f64().unwrap() < limit, "{name}: {seen}");
    below("axis", 1e-9);
    below("intensity", 1e-6);
    below("sigma", 1e-6);
    let solid: Vec<f64> = serde_json::from_value(seen["solid"].clone()).unwrap();
    assert!(solid.iter().all(|ratio| (ratio - 1.0).abs() < 1e-12), "{solid:?}");
}

#[test]
fn two_sectors_of_a_scan_are_the_whole_of_it() {
    let workspace = Workspace::new(&small_options());
    let mut results = String::new();
    for (name, range) in [("upper", "0,180"), ("lower", "-180,0")] {
        let flags =
            [&RANGE[..], &["--split", "no", "--recipe-name", name, "--azimuth-range", range]]
                .concat();
        results += &run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &flags))
            .assert_success()
            .stdout;
    }
    let whole = run(
        "ai-integrate",
        NO_ARGUMENTS,
        &workspace.plan("whole", &[&RANGE[..], &["--split", "no"]].concat()),
    )
    .assert_success();
    let whole = last_summary(run("gather", &["--average", "mean"], &whole.stdout));
    let merged = last_summary(run("gather", &["--merge", "all", "--average", "mean"], &results));
    let file = merged["final"].as_str().unwrap();
    assert!(file.ends_with("_scan0001_all.h5"), "{file}");
    let finals = [file, whole["final"].as_str().unwrap()];
    let Some(seen) = run_script(LOOK_AT_ARRAYS, &finals) else { return };
    assert_eq!(seen["same_nans"], true);
    assert!(
        seen["intensity"].as_f64().unwrap() < 2e-7 && seen["errors"].as_f64().unwrap() < 2e-7,
        "{seen}"
    );
    assert!(seen["averaged"].as_f64().unwrap() < 1e-12, "{seen}");

    // It is found again, without sums; another is made from the patterns.
    let again = last_summary(run("gather", &["--merge", "all", "--average", "mean"], &results));
    assert_eq!(again["data_digest"], merged["data_digest"]);
    let late = last_summary(run("gather", &["--merge", "other", "--average", "mean"], &results));
    let finals = [late["final"].as_str().unwrap(), whole["final"].as_str().unwrap()];
    let Some(seen) = run_script(LOOK_AT_ARRAYS, &finals) else { return };
    assert_eq!(seen["same_nans"], true);
    for what in ["intensity", "errors", "averaged"] {
        assert!(seen[what].as_f64().unwrap() < 1e-6, "{what}: {seen}");
    }
}

#[test]
fn a_merge_without_sums_is_refused_where_patterns_are_not_enough() {
    for flags in [&["--empty", "0"][..], &["--monitor", "monitor", "--monitor-reference", "mean"]] {
        let workspace = workspace_of_two_scans();
        let (results, _) = integrate_two_positions(&workspace, &[&RANGE[..], flags].concat());
        run("gather", NO_ARGUMENTS, &results).assert_success();
        let late = run("gather", &["--merge-all", "both"], &results);
        assert_eq!(late.status, 1);
        let why = "--merge needs the sums of 3 frames, which were removed with the parts";
        assert!(late.stderr.contains(why), "{}", late.stderr);
    }
}

#[test]
fn a_frame_that_one_lacks_is_missing() {
    let workspace = workspace_of_two_scans();
    let flags = [&RANGE[..], &["--by", "frames=1"]].concat();
    let (results, _) = integrate_two_positions(&workspace, &flags);
    let last = results.lines().last().unwrap().to_owned();
    let part: serde_json::Value = serde_json::from_str(&last).unwrap();
    fs::remove_file(workspace.path("out").join(part["part"].as_str().unwrap())).unwrap();
    let gathered = run("gather", &["--merge-all", "both"], &results);
    assert_eq!(gathered.status, 1);
    let summary = gathered.records("summary").pop().unwrap();
    assert_eq!(
        (&summary["integrated"], &summary["missing"][0]["range"]),
        (&2.into(), &serde_json::json!([[2, 3]]))
    );
    // The rest comes later: the sums of what was there are still there.
    let rest = integrate_two_positions(&workspace, &flags).0;
    let merged = last_summary(run("gather", &["--merge-all", "both"], &rest));
    assert_eq!((&merged["integrated"], &merged["complete"]), (&3.into(), &true.into()));
}

#[test]
fn what_does_not_fit_is_refused_with_what_was_expected() {
    let workspace = workspace_of_two_scans();
    let (near, _) = integrate_two_positions(&workspace, &["--recipe-name", "a"]);
    let axes = run("gather", &["--merge-all", "both", "--keep-parts"], &near);
    assert_eq!(axes.status, 1);
    let told = &axes.stderr;
    assert!(
        told.contains("can't be merged with ")
            && told.contains(": their axes are q (nm^-1) of ")
            && told.contains("the same --unit"),
        "{told}"
    );
    assert_eq!(axes.records("summary").len(), 2, "the patterns themselves are there");
    let alone = run("gather", &["--merge", "both", "--keep-parts"], &near);
    assert_eq!(alone.status, 1);
    assert!(alone.stderr.contains("expected another detector or scan"), "{}", alone.stderr);
    let taken = run("gather", &["--merge-all", "a/b"], "");
    assert_eq!(taken.status, 2);
    assert!(taken.stderr.contains("expected part of a file name, without `/`"), "{}", taken.stderr);
}

#[test]
fn a_merged_final_of_other_scans_is_not_replaced() {
    let workspace = Workspace::new(&Options { scans: 4, frames: 3, ..small_options() });
    let scans: Vec<&str> = workspace.scans.split_inclusive('\n').collect();
    let results = |of: &[usize]| -> String {
        let text: String = of.iter().map(|&scan| scans[scan]).collect();
        let base = ["--poni", workspace.data.poni.to_str().unwrap(), "--npt", "300"];
        let out = workspace.path("out");
        let flags = [&base[..], &["--out", out.to_str().unwrap()]].concat();
        let tasks = run("plan-split", &flags, &text).assert_success().stdout;
        run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout
    };
    let flags = ["--keep-sums", "--merge-all", "both"];
    let first = last_summary(run("gather", &flags, &results(&[0, 1])));
    let path = first["final"].as_str().unwrap();
    let bytes = fs::read(path).unwrap();
    for others in [&[2, 3][..], &[1, 2]] {
        let refused = run("gather", &flags, &results(others));
        assert_eq!(refused.status, 1, "{}", refused.stderr);
        for word in [path, "was merged from other patterns", "pass another name"] {
            assert!(refused.stderr.contains(word), "{}", refused.stderr);
        }
        assert!(fs::read(path).unwrap() == bytes, "{others:?}");
    }
    // The next scans of a series are added to those that came before.
    let more = last_summary(run("gather", &flags, &results(&[0, 1, 2])));
    assert_eq!(more["final"], first["final"]);
    assert_ne!(more["data_digest"], first["data_digest"]);
}

#[test]
fn a_merge_of_earlier_data_is_told_until_it_is_merged_again() {
    let workspace = workspace_of_two_scans();
    let flags = [&RANGE[..], &["--by", "frames=1"]].concat();
    let (results, _) = integrate_two_positions(&workspace, &flags);
    let part = |line: &str| {
        let result: serde_json::Value = serde_json::from_str(line).unwrap();
        workspace.path("out").join(result["part"].as_str().unwrap())
    };
    fs::remove_file(part(results.lines().last().unwrap())).unwrap();
    let merged =
        run("gather", &["--merge-all", "both"], &results).records("summary").pop().unwrap();
    let merged = merged["final"].as_str().unwrap();
    let is_told = |ran: &Outcome| {
        ran.stderr.contains(merged) && ran.stderr.contains("was merged from earlier data of ")
    };
    // The frame that was missing is there, and the merge lacks it.
    let rest = integrate_two_positions(&workspace, &flags).0;
    let from = workspace.path("out");
    let from = ["--keep-parts", "--from", from.to_str().unwrap()];
    for (arguments, input) in [(&["--keep-parts"][..], rest.as_str()), (&from, "")] {
        let gathered = run("gather", arguments, input).assert_success();
        assert!(is_told(&gathered), "{}", gathered.stderr);
        assert_eq!(gathered.stderr.matches("earlier data").count(), 1, "{}", gathered.stderr);
    }
    let again = run("gather", &["--merge-all", "both", "--keep-parts"], &rest).assert_success();
    assert!(!is_told(&again), "{}", again.stderr);
    assert!(!is_told(&run("gather", NO_ARGUMENTS, &rest).assert_success()));
    // A merge that can't be read is told, and one that was removed is forgotten.
    let bytes = fs::read(merged).unwrap();
    fs::write(merged, &bytes[..bytes.len() / 2]).unwrap();
    let gathered = run("gather", &from, "").assert_success();
    assert!(gathered.stderr.contains("can't tell whether"), "{}", gathered.stderr);
    fs::remove_file(merged).unwrap();
    let gathered = run("gather", &from, "").assert_success();
    assert!(!gathered.stderr.contains(merged), "{}", gathered.stderr);
    let note = workspace.path("out/.azpipe/merges/both.h5");
    assert!(note.exists());
    let cleaned = run("gather", &[&from[1..], &["--clean"]].concat(), "").assert_success();
    assert!(cleaned.stderr.contains("note of a merged final file"), "{}", cleaned.stderr);
    assert!(!note.exists());
}
