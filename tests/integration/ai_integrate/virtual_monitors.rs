//! A monitor that is a virtual dataset, whose source can't be read: a failure. The HDF5 library
//! itself gives the fill value.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{
    Outcome, Workspace, capture, create_hdf5, fault_shim, program, small_options,
};

const FRAMES: usize = 24;

/// Writes a virtual dataset of a number per frame, and its source in a directory of its own.
fn write_monitor(file: &Path, source: &Path) {
    std::fs::create_dir(source.parent().unwrap()).unwrap();
    let values: Vec<f64> = (1..=FRAMES).map(|value| value as f64).collect();
    create_hdf5(source).new_dataset_builder().with_data(&values).create("mon").unwrap();
    let monitor = create_hdf5(file);
    let monitor = monitor.new_dataset::<f64>().shape(FRAMES);
    monitor
        .virtual_map(source.to_str().unwrap(), "/mon", FRAMES, .., FRAMES, ..)
        .create("mon")
        .unwrap();
}

/// Returns the frames of all results that have a pattern, and those that have none.
fn done_and_missing(outcome: &Outcome) -> Vec<[Value; 2]> {
    outcome
        .records("result")
        .iter()
        .map(|result| ["done", "missing"].map(|field| result[field].clone()))
        .collect()
}

#[test]
fn a_call_that_fails_on_a_source_is_a_failure_or_changes_nothing() {
    let workspace = Workspace::new(&small_options());
    let source = workspace.path("counters/mon.h5");
    write_monitor(&workspace.path("monitor.h5"), &source);
    let monitor = format!("{}::/mon", workspace.path("monitor.h5").display());
    let integrate = |out: &str, variables: &[(&str, &str)]| -> Outcome {
        let tasks = workspace.plan(out, &["--by", "scan", "--monitor", &monitor]);
        let mut command = Command::new(program("ai-integrate"));
        fault_shim::preload(&mut command, source.parent().unwrap()).envs(variables.iter().copied());
        capture(command, &tasks).into()
    };
    let log = workspace.path("calls");
    let quiet = integrate("quiet", &[("FAULTS_LOG", log.to_str().unwrap()), ("FAULTS_COUNT", "1")])
        .assert_success();
    let calls = std::fs::read_to_string(&log).unwrap();
    let mut failed = 0;
    for line in calls.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [call @ ("open" | "pread" | "stat"), k, ..] = words[..] else { continue };
        let fault = format!("{call} {k} EIO");
        let out = fault.replace(' ', "-");
        let ran = integrate(&out, &[("FAULTS_AT", &fault)]);
        if ran.status == 0 {
            assert_eq!(done_and_missing(&ran), done_and_missing(&quiet), "{fault}");
            continue;
        }
        failed += 1;
        let fails = ran.records("fail");
        assert!(
            fails.len() == 1 && fails[0]["retryable"] == true,
            "{fault}: {}\n{}",
            ran.stdout,
            ran.stderr
        );
        assert!(ran.stderr.contains("Input/output error"), "{fault}: {}", ran.stderr);
    }
    assert!(failed > 1, "{calls}");
}
