//! Runs of the pipe on a sample dataset, and what is in their finals.

use std::path::Path;

use serde_json::Value;

use crate::support::{NO_ARGUMENTS, Outcome, run};

/// Runs the pipe up to gather, and returns the result records.
pub fn integrate(raw: &Path, poni: &Path, out: &Path, plan: &[&str]) -> String {
    let tasks = plan_tasks(raw, poni, out, plan);
    run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout
}

pub fn plan_tasks(raw: &Path, poni: &Path, out: &Path, plan: &[&str]) -> String {
    let scans = run("scan-find", &[raw], "").assert_success().stdout;
    let (poni, out) = (poni.to_str().unwrap(), out.to_str().unwrap());
    let flags = [&["--poni", poni, "--npt", "200", "--out", out], plan].concat();
    run("plan-split", &flags, &scans).assert_success().stdout
}

pub fn gather_from(out: &Path, more: &[&str]) -> Outcome {
    run("gather", &[&["--from", out.to_str().unwrap()], more].concat(), "")
}

/// The intensities of a final, frame by frame, and its positions of `rot`.
pub fn read_final(path: &str) -> (Vec<Vec<f32>>, Vec<f64>) {
    let file = hdf5::File::open(path).unwrap();
    let entry = file.group("/1.1").unwrap();
    let of_process = |group: &hdf5::Group| group.link_exists("integrated");
    let process = entry.groups().unwrap().into_iter().find(of_process).unwrap();
    let intensity = process.dataset("integrated/intensity").unwrap();
    let bins = intensity.shape()[1];
    let rows = intensity.read_raw::<f32>().unwrap();
    let rows = rows.chunks(bins).map(<[f32]>::to_vec).collect();
    (rows, process.dataset("counters/rot").unwrap().read_raw().unwrap())
}

pub fn final_of(gathered: &Outcome) -> String {
    let summary: Value = gathered.records("summary").pop().unwrap();
    summary["final"].as_str().unwrap().to_owned()
}
