//! slurm-emit's Snakefile, run by Snakemake.
//! Runs where `AZPIPE_PEERS`, or `.venv` in the root, is a virtual environment that has Snakemake.

use std::fs;

use super::cluster::{shared_directory, wait_until};
use super::single_machine::{assert_drains_when_cancelled, assert_runs_what_is_missing, emit};
use crate::support::python_with;

#[test]
fn snakemake_runs_the_plan() {
    let Some(python) = python_with("snakemake") else { return };
    assert_runs_what_is_missing("snakemake", &["--python", &python]);
}

#[test]
fn a_cancelled_snakemake_drains_and_goes_on_later() {
    let Some(python) = python_with("snakemake") else { return };
    assert_drains_when_cancelled("snakemake", &["--python", &python]);
}

/// Snakemake's own handler of TERM waits for a lock, which the thread that it interrupts has while
/// it puts the results of a job on record: it would wait for ever.
#[test]
fn a_snakemake_that_is_cancelled_while_it_notes_results_ends() {
    let Some(python) = python_with("snakemake") else { return };
    let jobs = emit("snakemake", "cancel-noting", &["--python", &python]);
    // Snakemake loads this module when it notes the first result.
    let modules = shared_directory().join("cancel-noting");
    let text = "import os, time\n\nopen(os.environ['NOTES'] + '/noting', 'w').close()\n\
                time.sleep(5)\nDataFrame = Series = Index = type('Table', (), {})\n";
    fs::write(modules.join("pandas.py"), text).unwrap();
    let mut child = jobs.script("submit").env("PYTHONPATH", &modules).spawn().unwrap();
    wait_until("it notes a result", || modules.join("noting").exists());
    jobs.call("cancel");
    let mut status = None;
    wait_until("it ends", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(75));
    assert!(!jobs.done().is_empty() && !jobs.is_gathered());
    jobs.call("submit");
    jobs.assert_complete();
}
