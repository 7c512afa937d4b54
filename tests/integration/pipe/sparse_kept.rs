//! Sparse pixels that are there stay there: through runs of ai-integrate without `--sparse`, and
//! raw files that are away.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use hdf5::File;
use serde_json::Value;

use super::sparse::{CLIP, Spots, digest, final_path, process};
use crate::support::{NO_ARGUMENTS, Workspace, run, small_options};

#[test]
fn pixels_of_a_part_survive_a_run_without_the_flag_that_replaces_it() {
    let Some(spots) = Spots::new() else { return };
    let whole = process(&spots.plan("u2", "whole", &CLIP), &["--sparse"], &[]);
    let expected = digest(&whole);
    let plan = || spots.plan("u2", "out", &[&CLIP[..], &["--by", "frames=5"]].concat());
    run("ai-integrate", &["--sparse"], &plan()).assert_success();
    let forced = run("ai-integrate", &["--force"], &plan()).assert_success();
    let gathered = run("gather", &["--keep-parts"], &forced.stdout).assert_success();
    assert_eq!(digest(&final_path(&gathered)), expected, "--force");
    // The same bytes with another time of change.
    let raw = fs::File::options().write(true).open(spots.path("u2.h5")).unwrap();
    raw.set_modified(SystemTime::now() + Duration::from_secs(9)).unwrap();
    fs::remove_file(final_path(&gathered)).unwrap();
    let results = run("ai-integrate", NO_ARGUMENTS, &plan()).assert_success();
    assert!(results.records("result").iter().all(|result| result["skipped"] != true));
    let gathered = run("gather", NO_ARGUMENTS, &results.stdout).assert_success();
    assert_eq!(digest(&final_path(&gathered)), expected, "another time of change");
    // Without pixels before, there are none after.
    let plain = process(&spots.plan("u2", "plain", &CLIP), &["--force"], &[]);
    assert_eq!(digest(&plain), Value::Null);
}

/// Status and number of pixels of each frame.
fn pixel_counts(path: &Path) -> Vec<(u8, u32)> {
    let group = sparse_group(path);
    let file = File::open(path).unwrap();
    let status = file.dataset(&format!("{group}/status")).unwrap().read_raw::<u8>().unwrap();
    let counts = file.dataset(&format!("{group}/nnz")).unwrap().read_raw::<u32>().unwrap();
    status.into_iter().zip(counts).collect()
}

/// Path of the group in a final file.
fn sparse_group(path: &Path) -> String {
    let file = File::open(path).unwrap();
    let default = |group: &hdf5::Group| {
        let name: hdf5::types::VarLenUnicode =
            group.attr("default").unwrap().read_scalar().unwrap();
        group.group(name.as_str()).unwrap()
    };
    let data = default(&default(&file)).name();
    format!("{}/sparse", data.rsplit_once('/').unwrap().0)
}

#[test]
fn frames_with_a_pattern_whose_raw_file_is_away_are_not_lost_for_want_of_pixels() {
    let mut workspace = Workspace::new(&small_options());
    let flags = ["--npt", "700", "--sigma-clip", "2.5", "--by", "frames=5"];
    let planned = workspace.plan_without_bins("out", &flags);
    let results = run("ai-integrate", NO_ARGUMENTS, &planned).assert_success();
    run("gather", NO_ARGUMENTS, &results.stdout).assert_success();
    fs::remove_file(&workspace.data.lima[0][1]).unwrap();
    workspace.find_scans();
    let tasks = workspace.plan_without_bins("out", &flags);
    let frames_of = |value: &Value| {
        let ranges = value.as_array().unwrap().iter();
        let ends = ranges.map(|range| [range[0].as_u64().unwrap(), range[1].as_u64().unwrap()]);
        ends.map(|[first, end]| end - first).sum::<u64>()
    };
    for (what, tasks) in [("planned before", planned), ("planned after", tasks)] {
        let results = run("ai-integrate", &["--sparse"], &tasks);
        let (mut done, mut missing) = (0, 0);
        for result in results.records("result") {
            done += frames_of(&result["done"]);
            let gaps = result["missing"].as_array().cloned().unwrap_or_default();
            missing += gaps.iter().map(|gap| frames_of(&gap["range"])).sum::<u64>();
        }
        assert_eq!((done, missing), (24, 0), "{what}: {}", results.stderr);
        if what == "planned after" {
            assert_eq!(results.status, 0, "{}", results.stderr);
            let why = "their raw data are away, so --sparse can't add their pixels";
            assert!(results.stderr.contains(why), "{}", results.stderr);
        }
        let gathered = run("gather", NO_ARGUMENTS, &results.stdout);
        let summary = &gathered.records("summary")[0];
        assert_eq!(summary["complete"], true, "{what}: {summary}");
        let with_pixels =
            pixel_counts(&final_path(&gathered)).iter().filter(|(status, _)| *status != 0).count();
        assert_eq!(with_pixels, 24 - 7, "{what}");
    }
}
