//! Nobody else's code runs in slurm-emit's dask: another user of the machine tries, with and
//! without certificates.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::cluster::{Cluster, NODES, output_of, shared_directory, wait_until};
use super::jobs::Jobs;
use crate::support::python_with;

/// Returns what another user could do to a driver that is running.
fn attack(python: &str, name: &str) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/dask-stranger");
    let mut command = Command::new(python);
    command.arg(script).arg(shared_directory().join(name));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    eprintln!("{said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

fn is_root() -> bool {
    output_of(Command::new("id").arg("-u")).trim() == "0"
}

#[test]
fn another_user_can_not_run_code_through_the_scheduler_of_a_cluster() {
    let (Some(python), Some(_), Ok(_nodes)) =
        (python_with("dask_jobqueue"), Cluster::get(), NODES.read())
    else {
        return;
    };
    let jobs = Jobs::new("dask-strangers", "frames=6", 1);
    let size = [
        "--target",
        "dask",
        "--cores",
        "2",
        "--processes",
        "2",
        "--memory",
        "1GB",
        "--n-workers",
        "1",
    ];
    jobs.emit(&[&size[..], &["--interface", "lo", "--dashboard", "--python", &python]].concat());
    jobs.submit(&[("SLOW", "20")]);
    wait_until("a task is running", || !jobs.runs().is_empty());
    let report = attack(&python, "dask-strangers");
    assert!(report["ports"].as_array().unwrap().len() >= 2, "scheduler and dashboard: {report}");
    for attempt in ["plain", "own certificate", "readable", "open"] {
        assert_eq!(report[attempt], json!([]), "{attempt}: {report}");
    }
    assert_eq!(
        report["their certificate"],
        json!([0]),
        "the certificates alone keep others out: {report}"
    );
    jobs.call("cancel");
    jobs.wait();
    let log = jobs.driver_log();
    assert!(log.contains("dashboard at http://127.0.0.1:") && log.contains("ssh -L "), "{log}");
    let mut names = std::fs::read_dir(&jobs.dir).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(
        !names.any(|name| name.to_string_lossy().starts_with(".certificates")),
        "certificates go with the driver"
    );
}

#[test]
fn another_user_can_not_run_code_through_the_scheduler_on_a_machine() {
    let Some(python) = python_with("distributed").filter(|_| is_root()) else { return };
    let jobs = Jobs::new("dask-local-strangers", "frames=12", 1);
    jobs.emit(&[
        "--target",
        "dask",
        "--partition",
        "local",
        "--n-workers",
        "1",
        "--python",
        &python,
    ]);
    let mut driver = jobs.script("submit").env("SLOW", "20").stderr(Stdio::null()).spawn().unwrap();
    wait_until("a task is running", || !jobs.runs().is_empty());
    let report = attack(&python, "dask-local-strangers");
    assert!(!report["ports"].as_array().unwrap().is_empty(), "{report}");
    for attempt in ["plain", "own certificate", "open"] {
        assert_eq!(report[attempt], json!([]), "{attempt}: {report}");
    }
    jobs.call("cancel");
    driver.wait().unwrap();
}
