//! Counters that give frames a place on a map, a scale of the background or a transmission: of scans
//! that end early, of any type of number, and those that have no value per frame.

use sample::Defect;
use serde_json::{Value, json};

use super::viewers::run_script;
use crate::support::{NO_ARGUMENTS, Outcome, Workspace, run, run_python, small_options};

/// Integrates a scan, and gathers with flags.
fn gather(workspace: &Workspace, flags: &[&str]) -> Outcome {
    let tasks = workspace.plan("out", &[]);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).stdout;
    run("gather", &[&["--keep-parts"], flags].concat(), &results)
}

#[test]
fn a_scan_that_ended_early_has_maps_backgrounds_and_transmissions() {
    let background = Workspace::new(&small_options());
    let gathered = gather(&background, &[]).assert_success();
    let background = gathered.records("summary")[0]["final"].as_str().unwrap().to_owned();
    for defect in [Defect::Aborted, Defect::Running] {
        let options = sample::Options { scans: 0, defects: vec![defect], ..small_options() };
        let workspace = Workspace::new(&options);
        let map = ["--map", "rot,elapsed_time"];
        let subtract = ["--subtract", &background, "--subtract-scale", "monitor"];
        let absolute = ["--thickness", "1mm", "--calibration-factor", "1"];
        let transmission = ["--transmission", "monitor/monitor"];
        let absolute = [&absolute[..], &transmission].concat();
        for (flags, name) in [(&map[..], "map"), (&subtract, "subtracted"), (&absolute, "absolute")]
        {
            let gathered = gather(&workspace, flags);
            let about = format!("{defect:?}, {name}: {}", gathered.stderr);
            assert_eq!(gathered.status, 0, "{about}");
            assert!(gathered.records("summary")[0].get(name).is_some(), "{about}");
            let lacks = ["without a position", "without a value"];
            assert!(!lacks.iter().any(|lack| gathered.stderr.contains(lack)), "{about}");
        }
    }
}

/// Adds counters of other types to a scan: half-precision floats, booleans, a column of a table, a
/// list that is too short, and a motor that is text.
const ADD: &str = r#"
import sys
import h5py, numpy

with h5py.File(sys.argv[1], "r+") as file:
    counters = file["1.1/measurement"]
    counters["half"] = numpy.arange(24, dtype="f2") / 2
    counters["half"].attrs["units"] = "mm"
    counters["flag"] = numpy.arange(24) % 2 == 1
    counters["column"] = numpy.arange(24, dtype="i4").reshape(24, 1)
    counters["short"] = numpy.arange(10.0)
    file["1.1/instrument/positioners/label"] = ["somewhere"] * 24
"#;

/// The positions on a map.
const POSITIONS: &str = r#"
import json, sys
import h5py

with h5py.File(sys.argv[1]) as file:
    data = file["entry/map"]
    read = lambda name: [data[name][()].tolist(), data[name].attrs.get("units")]
    print(json.dumps({name: read(name) for name in sys.argv[2:]}))
"#;

/// Returns a scan with counters of other types; `None` without Python.
fn workspace_with_counters() -> Option<Workspace> {
    let mut workspace = Workspace::new(&small_options());
    run_python(ADD, [&workspace.data.master])?;
    workspace.find_scans();
    Some(workspace)
}

#[test]
fn counters_are_numbers_of_any_type() {
    let Some(workspace) = workspace_with_counters() else { return };
    for (fast, slow, expected) in [
        (
            "half",
            "flag",
            json!([(0..24).map(|frame| f64::from(frame) / 2.0).collect::<Vec<_>>(), "mm"]),
        ),
        ("column", "flag", json!([(0..24).map(f64::from).collect::<Vec<_>>(), Value::Null])),
    ] {
        let gathered = gather(&workspace, &["--map", &format!("{fast},{slow}")]);
        assert_eq!((gathered.status, gathered.stderr.as_str()), (0, ""));
        let map = gathered.records("summary")[0]["map"].as_str().unwrap().to_owned();
        let Some(seen) = run_script(POSITIONS, &[&map, fast, slow]) else { return };
        let seen = (&seen[fast], &seen[slow][0]);
        assert_eq!(seen, (&expected, &json!([0.0, 1.0])));
    }
    // As a monitor, they are those of frames already.
    let gathered = workspace.process("monitored", &["--monitor", "half"], &[]);
    assert_eq!(gathered.records("summary")[0]["integrated"], 23, "{}", gathered.stderr);
}

#[test]
fn counters_without_a_value_per_frame_are_told_with_what_they_have() {
    let Some(workspace) = workspace_with_counters() else { return };
    for (name, told) in [
        (
            "short",
            "no counter or motor `short` with a value for each of the 24 frames, which has 10 values; there are: column, ",
        ),
        (
            "samz",
            "no counter or motor `samz` with a value for each of the 24 frames, which has a single number; there are: ",
        ),
        (
            "label",
            "no counter or motor `label` with a value for each of the 24 frames; there are: ",
        ),
    ] {
        let refused = gather(&workspace, &["--map", &format!("rot,{name}")]);
        assert!(refused.status == 1 && refused.stderr.contains(told), "{}", refused.stderr);
    }
}
