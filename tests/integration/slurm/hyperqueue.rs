//! slurm-emit's job for HyperQueue, on a real server and worker. Runs where `AZPIPE_PEERS`, or
//! `.venv` in the root, is a virtual environment that has HyperQueue.

use std::process::Command;

use super::cluster::shared_directory;
use super::jobs::Jobs;
use super::scripts::{read_stderr, write_program};
use super::single_machine::{assert_drains_when_cancelled, assert_runs_what_is_missing};
use crate::support::{python_with, source_file};

/// Returns a Python that runs the driver beside a server of its own; `None` without HyperQueue.
/// They have a network of their own, because the server listens on all interfaces.
fn python_beside_server(name: &str) -> Option<String> {
    let python = python_with("hyperqueue")?;
    let unshare = Command::new("unshare").args(["--net", "ip", "link", "set", "lo", "up"]).output();
    if !unshare.is_ok_and(|output| output.status.success()) {
        assert!(std::env::var_os("CI").is_none(), "a network namespace needs root, unshare and ip");
        eprintln!("skipped: a network namespace needs root, unshare and ip");
        return None;
    }
    let server = source_file("../cluster/hyperqueue-server.py");
    let wrapper = shared_directory().join(format!("python-{name}"));
    let text = format!(
        "[[ $1 == driver.py ]] || exec '{python}' \"$@\"\n\
         exec unshare --net bash -c 'ip link set lo up && exec \"$@\"' - '{python}' '{}' \"$@\"\n",
        server.display()
    );
    write_program(&wrapper, &text);
    Some(wrapper.to_str().unwrap().to_owned())
}

#[test]
fn hyperqueue_runs_the_plan() {
    let Some(python) = python_beside_server("runs") else { return };
    assert_runs_what_is_missing("hyperqueue", &["--python", &python]);
}

#[test]
fn a_cancelled_hyperqueue_drains_and_goes_on_later() {
    let Some(python) = python_beside_server("drains") else { return };
    assert_drains_when_cancelled("hyperqueue", &["--python", &python]);
}

#[test]
fn without_a_server_the_driver_says_how_to_start_one() {
    let Some(python) = python_with("hyperqueue") else { return };
    let jobs = Jobs::new_without_slurm("no-server", "scan", 1);
    jobs.emit(&["--target", "hyperqueue", "--python", &python]);
    let output = jobs.script("submit").env("HQ_SERVER_DIR", "/proc/nowhere").output().unwrap();
    let said = read_stderr(&output);
    assert!(
        output.status.code() == Some(2)
            && said.contains("no server of HyperQueue answers: Invalid server directory")
            && said.contains("start one with hq server start"),
        "{said}"
    );
}
