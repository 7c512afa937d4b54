//! Sparse pixels that are there stay there: through runs of ai-integrate without `--sparse`, damage
//! of the final file, and raw files that are away.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use hdf5::File;
use serde_json::Value;

use super::sparse::{CLIP, Spots, digest, final_path, process};
use crate::support::{NO_ARGUMENTS, Workspace, run, run_python, small_options};

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

/// Flips a bit in the chunk of a dataset of sparse pixels.
fn flip_bit(path: &Path, name: &str, chunk: usize) {
    let dataset = File::open(path).unwrap().dataset(&format!("{}/{name}", sparse_group(path)));
    let dataset = dataset.unwrap();
    let place = match dataset.offset() {
        Some(offset) => offset,
        None => dataset.chunk_info(chunk).unwrap().addr,
    };
    drop(dataset);
    let mut bytes = fs::read(path).unwrap();
    bytes[place as usize + 1] ^= 4;
    fs::write(path, bytes).unwrap();
}

/// Writes frames with so many spots that their pixels fill several chunks.
const MANY: &str = r#"
import h5py, numpy, sys
random = numpy.random.default_rng(5)
frames = random.poisson(8, (80, 150, 101))
for frame in frames:
    frame.ravel()[random.permutation(frame.size)[:1200]] += 60
with h5py.File(sys.argv[1], "w") as file:
    file["data"] = frames.astype("u2")
"#;

#[test]
fn a_flipped_bit_costs_only_the_pixels_of_the_frames_that_it_is_in() {
    let Some(spots) = Spots::new() else { return };
    run_python(MANY, [spots.path("many.h5")]).unwrap();
    for name in ["intensity", "row"] {
        let tasks = spots.plan("many", name, &CLIP);
        let path = process(&tasks, &["--sparse"], &[]);
        let before = pixel_counts(&path);
        let total: u32 = before.iter().map(|(_, count)| count).sum();
        assert!(total > 2 << 15, "{total}");
        let expected = digest(&path);
        flip_bit(&path, name, 1);
        let from = spots.path(name);
        let gathered = run("gather", &["--from", from.to_str().unwrap()], "");
        assert!(gathered.stderr.contains("sparse pixels of frame"), "{}", gathered.stderr);
        let after = pixel_counts(&path);
        let kept = before.iter().zip(&after).filter(|(before, after)| before == after).count();
        assert!((40..80).contains(&kept), "{name}: {kept} of 80 frames kept their pixels");
        let is_unsettled = |after: &(u8, u32)| *after == (0, 0);
        let lost = after.iter().filter(|after| is_unsettled(after)).count();
        assert_eq!(kept + lost, 80, "{after:?}");
        // A rerun integrates those alone.
        let results = run("ai-integrate", &["--sparse", "-v"], &tasks).assert_success();
        assert!(results.stderr.contains(&format!("{lost} frames")), "{}", results.stderr);
        run("gather", NO_ARGUMENTS, &results.stdout).assert_success();
        assert_eq!(digest(&path), expected, "{name}");
    }
}

#[test]
fn frames_that_were_integrated_without_the_flag_are_named_beside_damaged_ones() {
    let Some(spots) = Spots::new() else { return };
    run_python(MANY, [spots.path("many.h5")]).unwrap();
    let tasks = spots.plan("many", "out", &[&CLIP[..], &["--by", "frames=40"]].concat());
    let (first, second) = tasks.split_once('\n').unwrap();
    let with = run("ai-integrate", &["--sparse"], first).assert_success();
    let without = run("ai-integrate", NO_ARGUMENTS, second).assert_success();
    let results = with.stdout + &without.stdout;
    let told = "frames 40 to 79 were integrated without --sparse";
    let gathered = run("gather", NO_ARGUMENTS, &results).assert_success();
    assert!(gathered.stderr.contains(told), "{}", gathered.stderr);
    flip_bit(&final_path(&gathered), "row", 0);
    let gathered = run("gather", &["--from", spots.path("out").to_str().unwrap()], "");
    let damaged = gathered.stderr.contains("sparse pixels of frame");
    assert!(damaged && gathered.stderr.contains(told), "{}", gathered.stderr);
}

#[test]
fn a_final_whose_index_of_pixels_is_damaged_is_kept_under_another_name() {
    let Some(spots) = Spots::new() else { return };
    let path = process(&spots.plan("u2", "out", &CLIP), &["--sparse"], &[]);
    flip_bit(&path, "nnz", 0);
    let damaged = fs::read(&path).unwrap();
    let gathered = run("gather", &["--from", spots.path("out").to_str().unwrap()], "");
    assert!(gathered.stderr.contains("kept under this name"), "{}", gathered.stderr);
    let aside = format!("{}.damaged", path.display());
    assert!(fs::read(aside).unwrap() == damaged);
    assert_eq!(digest(&path), Value::Null);
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

#[test]
fn tasks_that_lack_only_their_pixels_are_missing_if_they_are_asked_for() {
    let Some(spots) = Spots::new() else { return };
    let tasks = spots.plan("u2", "out", &[&CLIP[..], &["--by", "frames=4"]].concat());
    let plan = spots.path("plan.jsonl");
    fs::write(&plan, &tasks).unwrap();
    let ask =
        |flags: &[&str]| run("gather", &[&["--plan", plan.to_str().unwrap()], flags].concat(), "");
    // Tasks that are missing, and counts: final files and tasks that are done.
    let seen = |flags: &[&str]| {
        let missing = ask(&[&["--missing"], flags].concat()).assert_success().stdout;
        let counts = ask(&[&["--count-done"], flags].concat());
        let record = counts.records("progress").remove(0);
        let count = |name: &str| record[name].as_u64().unwrap();
        assert_eq!(counts.status == 0, count("finals_complete") == 1, "{record}");
        (missing.lines().count() as u64, count("finals_done"), count("tasks_done"))
    };
    let all = tasks.lines().count() as u64;
    assert!(all >= 3);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success();
    run("gather", &["--keep-parts"], &results.stdout).assert_success();
    assert_eq!(seen(&[]), (0, 1, all));
    assert_eq!(seen(&["--sparse"]), (all, 0, 0));
    let one = tasks.lines().nth(1).unwrap().to_owned() + "\n";
    let results = run("ai-integrate", &["--sparse"], &one).assert_success();
    assert_eq!(seen(&["--sparse"]), (all - 1, 0, 1), "in a part");
    let told = "were integrated without --sparse, and have no sparse pixels";
    let gathered = run("gather", NO_ARGUMENTS, &results.stdout).assert_success();
    assert!(gathered.stderr.contains(told), "{}", gathered.stderr);
    assert_eq!(seen(&["--sparse"]), (all - 1, 0, 1), "in the final file");
    let missing = ask(&["--missing", "--sparse"]).assert_success().stdout;
    let results = run("ai-integrate", &["--sparse"], &missing).assert_success();
    assert_eq!(seen(&["--sparse"]), (0, 0, all), "not gathered yet");
    for layout in ["virtual", "copy"] {
        let gathered = run("gather", &["--layout", layout], &results.stdout).assert_success();
        assert!(!gathered.stderr.contains(told), "{}", gathered.stderr);
        assert_eq!(seen(&["--sparse"]), (0, 1, all), "{layout}");
    }
    // A recipe without clipping has no pixels that could be missing.
    let plain = spots.plan("u2", "plain", &[]);
    fs::write(&plan, &plain).unwrap();
    process(&plain, &["--sparse"], &[]);
    assert_eq!(seen(&["--sparse"]), (0, 1, 1));
    let alone = ask(&["--sparse"]);
    assert!(alone.status == 2 && alone.stderr.contains("--missing"), "{}", alone.stderr);
    // Without the recipe, it is not known whether pixels are missing.
    let clipped = spots.plan("u2", "out", &CLIP);
    fs::write(&plan, &clipped).unwrap();
    let task: Value = serde_json::from_str(clipped.trim()).unwrap();
    fs::remove_file(task["recipe"].as_str().unwrap()).unwrap();
    for question in ["--missing", "--count-done"] {
        let unknown = ask(&[question, "--sparse"]);
        assert_eq!(unknown.status, 1, "{}", unknown.stderr);
        let fail = unknown.records("fail").remove(0);
        assert!(fail["about"].as_str().unwrap().starts_with("sparse pixels of "), "{fail}");
        assert_eq!(fail["retryable"], true);
    }
}

#[test]
fn a_plan_with_patterns_is_submitted_again_for_its_pixels() {
    let Some(spots) = Spots::new() else { return };
    let whole = process(&spots.plan("u2", "whole", &CLIP), &["--sparse"], &[]);
    let tasks = spots.plan("u2", "out", &[&CLIP[..], &["--by", "frames=5"]].concat());
    let path = process(&tasks, &[], &[]);
    let jobs = spots.path("jobs");
    let flags = ["--dir", jobs.to_str().unwrap(), "--target", "local"];
    run("slurm-emit", &[&flags[..], &["--ai-integrate-arg=--sparse"]].concat(), &tasks)
        .assert_success();
    let call = |script: &str| {
        let output = std::process::Command::new(jobs.join(script)).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_ne!(output.status.code(), Some(2), "{said}");
        String::from_utf8_lossy(&output.stdout).into_owned() + &said
    };
    let count = tasks.lines().count();
    let before = call("status");
    assert!(before.contains(&format!("tasks  0 of {count} done, {count} to do")), "{before}");
    call("submit");
    assert_eq!(digest(&path), digest(&whole));
    let after = call("status");
    assert!(after.contains(&format!("tasks  {count} of {count} done, 0 to do")), "{after}");
}
