//! slurm-emit's Snakefile, run by Snakemake.
//! Runs where `AZPIPE_PEERS`, or `.venv` in the root, is a virtual environment that has Snakemake.

use super::single_machine::{assert_drains_when_cancelled, assert_runs_what_is_missing};
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
