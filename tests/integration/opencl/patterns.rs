//! Patterns that devices make: equal to the processor's, and the same bytes every time.

use std::collections::BTreeSet;

use serde_json::Value;

use super::driver;
use crate::support::{NO_ARGUMENTS, Outcome, Workspace, create_hdf5, run, small_options};

fn gather_summary(results: Outcome) -> Value {
    let gathered = run("gather", NO_ARGUMENTS, &results.assert_success().stdout).assert_success();
    gathered.records("summary").remove(0)
}

fn gather_digest(results: Outcome) -> String {
    gather_summary(results)["data_digest"].as_str().expect("a digest").to_owned()
}

/// A dataset of the final.
fn read_numbers(summary: &Value, name: &str) -> Vec<f64> {
    let file =
        hdf5::File::open(summary["final"].as_str().expect("a path")).expect("the final opens");
    let [entry, detector] =
        ["entry", "detector"].map(|name| summary[name].as_str().expect("a name"));
    let path = format!("{entry}/{detector}_integrate/integrated/{name}");
    let dataset = file.dataset(&path).expect("the dataset is there");
    dataset.read_raw().expect("numbers")
}

#[test]
fn a_device_gives_the_patterns_of_the_processor_and_says_what_it_was_sent() {
    if !driver::is_installed() {
        return;
    }
    let workspace = Workspace::new(&small_options());
    let recipes: [&[&str]; 3] = [
        &["--error-model", "poisson"],
        &["--npt-azim", "36", "--split", "no"],
        &["--error-model", "azimuthal"],
    ];
    for (number, recipe) in recipes.iter().enumerate() {
        let plan = |out: &str| {
            workspace.plan(&format!("{out}{number}"), &[recipe, &["--by", "frames=5"][..]].concat())
        };
        let expected = gather_summary(driver::integrate(&["--engine", "cpu"], &plan("cpu"), &[]));
        let flags = ["--engine", "opencl", "--threads", "1", "--verify", "2", "-v"];
        let found = driver::integrate(&flags, &plan("opencl"), &[]).assert_success();
        for result in found.records("result") {
            assert_eq!(result["engine"], "opencl", "{result}");
            let decoded = result["decode_path"].as_str().expect("a text");
            assert!(
                decoded == "opencl: 5 frames decoded on the device"
                    || decoded == "opencl: 4 frames decoded on the device",
                "{result}"
            );
            assert!(found.stderr.contains(&format!("; {decoded}; ")), "{}", found.stderr);
            let bytes = |name: &str| result[name].as_f64().expect("bytes");
            assert!((1.0..1.1).contains(&(bytes("sent_bytes") / bytes("read_bytes"))), "{result}");
        }
        assert_equal_patterns(&gather_summary(found), &expected, recipe);
    }
}

#[test]
fn frames_that_the_processor_decodes_or_puts_together_go_to_the_device_all_the_same() {
    if !driver::is_installed() {
        return;
    }
    let mut workspace = Workspace::new(&small_options());
    let (frames, [rows, columns]) = (10, [195, 487]);
    let values: Vec<i32> =
        (0..frames * rows * columns).map(|at| (at * 7919 % 1013) as i32 - 2).collect();
    for chunk in [[1, rows, columns], [4, 100, 150]] {
        let file = workspace.path(&format!("{chunk:?}.h5"));
        let written = create_hdf5(&file);
        let extents = [frames, rows, columns].map(hdf5::Extent::fixed);
        let dataset = written
            .new_dataset::<i32>()
            .shape(extents)
            .chunk(chunk)
            .shuffle()
            .deflate(3)
            .create("data");
        dataset.expect("a dataset").write_raw(&values).expect("written");
        drop(written);
        workspace.scans =
            run("scan-find", &[format!("{}::/data", file.display())], "").assert_success().stdout;
        let plan = |out: &str| {
            workspace
                .plan(&format!("{out}{chunk:?}"), &["--error-model", "poisson", "--by", "frames=7"])
        };
        let expected = gather_summary(driver::integrate(&["--engine", "cpu"], &plan("cpu"), &[]));
        let flags = ["--engine", "opencl", "--threads", "1", "--verify", "2"];
        let found = driver::integrate(&flags, &plan("opencl"), &[]).assert_success();
        assert!(
            found.records("result").iter().all(|result| result["engine"] == "opencl"),
            "{}",
            found.stdout
        );
        assert_equal_patterns(&gather_summary(found), &expected, &[&format!("{chunk:?}")]);
    }
}

/// The patterns of two finals are the same but for the rounding of sums.
fn assert_equal_patterns(found: &Value, expected: &Value, what: &[&str]) {
    for name in ["intensity", "intensity_errors"] {
        let (found, expected) = (read_numbers(found, name), read_numbers(expected, name));
        let close =
            |(f, e): (&f64, &f64)| (f.is_nan() && e.is_nan()) || (f - e).abs() <= 1e-6 * e.abs();
        assert!(
            found.len() == expected.len() && found.iter().zip(&expected).all(close),
            "{what:?}: {name}"
        );
        assert!(expected.iter().any(|value| *value > 0.), "{what:?}: {name}: nothing is compared");
    }
}

#[test]
fn any_cut_batch_engine_and_run_gives_the_same_bytes() {
    if !driver::is_installed() {
        return;
    }
    let workspace = Workspace::new(&small_options());
    let ways: [(&str, &[&str]); 6] = [
        ("scan", &["--threads", "1"]),
        ("scan", &["--threads", "1"]),
        // More threads than a device has queues.
        ("scan", &["--threads", "12", "--batch-frames", "1"]),
        ("frames=1", &["--threads", "1", "--engines", "2"]),
        ("frames=5", &["--threads", "3", "--batch-frames", "2", "--device", "1"]),
        ("file", &["--threads", "2", "--batch-frames", "64", "--device", "0"]),
    ];
    let mut digests = BTreeSet::new();
    for (number, (by, flags)) in ways.iter().enumerate() {
        let tasks = workspace.plan(&format!("out{number}"), &["--by", by]);
        digests.insert(gather_digest(driver::integrate(
            &[&["--engine", "opencl"][..], flags].concat(),
            &tasks,
            &[],
        )));
    }
    assert_eq!(digests.len(), 1, "{digests:?}");
}

#[test]
fn what_is_not_for_devices_is_done_by_the_processor_which_is_said_once() {
    if !driver::is_installed() {
        return;
    }
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "frames=8", "--split", "no", "--median", "50"]);
    let ran = driver::integrate(&["--engine", "opencl"], &tasks, &[]).assert_success();
    assert!(
        ran.records("result")
            .iter()
            .all(|result| result["engine"] == "cpu" && result["device"] == "cpu")
    );
    assert_eq!(ran.stderr.matches("no kernels for medians").count(), 1, "{}", ran.stderr);
}

#[test]
fn clipped_patterns_are_the_bytes_of_the_processor() {
    if !driver::is_installed() {
        return;
    }
    let workspace = Workspace::new(&small_options());
    let recipes: [&[&str]; 2] = [
        &["--split", "no", "--sigma-clip", "3", "--error-model", "azimuthal"],
        &["--sigma-clip", "chauvenet", "--npt-azim", "12", "--split", "bbox"],
    ];
    for (number, recipe) in recipes.iter().enumerate() {
        let plan = |out: &str| {
            workspace.plan(&format!("{out}{number}"), &[recipe, &["--by", "frames=5"][..]].concat())
        };
        let expected = gather_digest(driver::integrate(&["--engine", "cpu"], &plan("cpu"), &[]));
        let flags = [
            "--engine",
            "opencl",
            "--threads",
            "1",
            "--batch-frames",
            "4",
            "--verify",
            "2",
            "--progress",
            "none",
        ];
        let found = driver::integrate(&flags, &plan("opencl"), &[]).assert_success();
        for result in found.records("result") {
            assert_eq!(result["engine"], "opencl", "{result}");
            let bytes = |name: &str| result[name].as_f64().expect("bytes");
            assert!((1.0..1.1).contains(&(bytes("sent_bytes") / bytes("read_bytes"))), "{result}");
        }
        assert_eq!(found.stderr, "");
        assert_eq!(gather_digest(found), expected, "{recipe:?}");
    }
}

#[test]
fn auto_takes_no_processor_for_a_gpu() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "scan"]);
    let ran = driver::integrate(&[], &tasks, &[]).assert_success();
    let gpu = ran.records("result")[0]["engine"] != "cpu";
    assert!(!gpu || !ran.records("result")[0]["device"].as_str().unwrap_or("").contains("pthread"));
    let (flags, library) =
        (["--force", "--progress", "none"], ("AZPIPE_OPENCL_LIBRARY", "/no/such/library.so"));
    let ran = driver::integrate(&flags, &tasks, &[library]).assert_success();
    assert_eq!(
        (ran.records("result")[0]["engine"].as_str(), ran.stderr.as_str()),
        (Some("cpu"), "")
    );
}

#[test]
fn all_devices_have_their_share_of_the_work() {
    if !driver::is_installed() {
        return;
    }
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "frames=1"]);
    // Devices take tasks as they come, so the kernels are compiled before: it takes one device
    // longer than another.
    driver::integrate(&["--engine", "opencl"], &tasks, &[]).assert_success();
    let ran = driver::integrate(&["--engine", "opencl", "--force", "--threads", "1"], &tasks, &[])
        .assert_success();
    let results = ran.records("result");
    let by = |number: usize| {
        let is_by = |result: &&Value| {
            result["device"].as_str().expect("a name").ends_with(&format!("({number})"))
        };
        results.iter().filter(is_by).count()
    };
    let (first, second) = (by(0), by(1));
    assert_eq!(first + second, results.len(), "{}", ran.stdout);
    assert!(first.min(second) * 4 >= results.len(), "{first} and {second} of {}", results.len());
}

#[test]
fn kernels_are_compiled_once_for_an_output_root() {
    if !driver::is_installed() {
        return;
    }
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "scan"]);
    let cached = || {
        let found = std::fs::read_dir(workspace.path("out/.azpipe/opencl")).expect("a cache");
        let mut names: Vec<_> = found.map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        names
    };
    let first = gather_digest(driver::integrate(&["--engine", "opencl"], &tasks, &[]));
    assert_eq!(cached().len(), 1, "one variant of the kernels, compiled by two engines");
    let before = cached();
    assert_eq!(
        gather_digest(driver::integrate(&["--engine", "opencl", "--force"], &tasks, &[])),
        first
    );
    assert_eq!(cached(), before);
    let binary = workspace.path("out/.azpipe/opencl").join(&before[0]);
    std::fs::write(&binary, "damaged").expect("written");
    assert_eq!(
        gather_digest(driver::integrate(&["--engine", "opencl", "--force"], &tasks, &[])),
        first
    );
    assert!(std::fs::metadata(binary).expect("there").len() > 100, "made anew");
    let elsewhere = workspace.path("kept");
    let flags = ["--engine", "opencl", "--force", "--cache", elsewhere.to_str().expect("UTF-8")];
    assert_eq!(gather_digest(driver::integrate(&flags, &tasks, &[])), first);
    assert_eq!(std::fs::read_dir(elsewhere.join("opencl")).expect("a cache").count(), 1);
}

#[test]
fn processes_that_start_at_once_share_a_cache_of_kernels() {
    if !driver::is_installed() {
        return;
    }
    let workspace = Workspace::new(&small_options());
    let kept = workspace.path("kept");
    let flags = [
        "--engine",
        "opencl",
        "--device",
        "0",
        "--threads",
        "1",
        "--cache",
        kept.to_str().expect("UTF-8"),
    ];
    let digests: BTreeSet<String> = std::thread::scope(|scope| {
        let plans =
            [1, 2, 3].map(|number| workspace.plan(&format!("out{number}"), &["--by", "scan"]));
        let runs = plans.map(|tasks| {
            scope.spawn(move || gather_digest(driver::integrate(&flags, &tasks, &[])))
        });
        runs.into_iter().map(|run| run.join().expect("a good run")).collect()
    });
    assert_eq!(digests.len(), 1, "{digests:?}");
    let left: Vec<_> = std::fs::read_dir(kept.join("opencl")).expect("a cache").collect();
    assert_eq!(left.len(), 1, "one file, and nothing unfinished: {left:?}");
}
