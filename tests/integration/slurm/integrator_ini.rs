//! The configuration of ESRF's integrator, run as a whole by one line: what slurm-emit prints, into
//! bash.

use std::fs;

use sample::{Detector, Options};
use serde_json::Value;

use super::cluster::{Cluster, NODES, output_of, shared_directory};
use super::dataset::{parse_digests, records};
use crate::support::{NO_ARGUMENTS, program, run};

#[test]
fn one_line_runs_a_whole_configuration() {
    let (Some(cluster), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let top = shared_directory().join("integrator ini");
    let detector = Detector::named("pilatus-100k").unwrap();
    let options =
        Options { scans: 3, frames: 10, detector, dtype: detector.dtype, ..Options::default() };
    let data = sample::write(&top, &options).unwrap();
    let ini = top.join("id15.ini");
    let text = format!(
        "[dataset]\nlocation = {}*.h5   # the masters\nhdf5_entry = 1.1, 3.1\n\
         [azimuthal integration]\nponi_file = {}\nn_pts = 300\ndetector_name = {}\nerror_model = poisson\n\
         [computations distribution]\npartition = main\nn_workers = 2\nai_engines_per_worker = 2\ncores_per_worker = 1\n\
         time = 00:10:00\nmemory_per_worker = 500MB\n[output]\nlocation = results of all\n",
        data.master.strip_prefix(&top).unwrap().to_str().unwrap().trim_end_matches(".h5"),
        data.poni.file_name().unwrap().to_str().unwrap(),
        detector_name(&data),
    );
    fs::write(&ini, text).unwrap();

    // As a user has it: slurm-emit --integrator-ini id15.ini --dir jobs --submit --print-pipe |
    // bash
    let mut shell = cluster.command("bash");
    shell.args([
        "-c",
        "set -o pipefail; \"$0\" --integrator-ini id15.ini --dir jobs --submit --print-pipe | bash",
    ]);
    output_of(shell.arg(program("slurm-emit")).current_dir(&top));
    output_of(cluster.command(top.join("jobs/submit")).arg("--wait"));

    let summaries = fs::read_to_string(top.join("jobs/summary.jsonl")).unwrap();
    let entries: Vec<Value> = records(&summaries).map(|summary| summary["entry"].clone()).collect();
    assert_eq!(entries, ["1.1", "3.1"], "{summaries}");
    for summary in records(&summaries) {
        let path = summary["final"].as_str().unwrap();
        assert!(path.starts_with(top.join("results of all").to_str().unwrap()), "{path}");
        assert_eq!(summary["layout"], "integrator");
    }

    // The same by the filters alone.
    let out = top.join("by the pipe");
    let found =
        run("scan-find", &[data.master.to_str().unwrap(), "--entry=1.1", "--entry=3.1"], "")
            .assert_success();
    let recipe = ["--recipe", ini.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let tasks = run("plan-split", &recipe, &found.stdout).assert_success().stdout;
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    let expected = run("gather", &["--layout", "integrator"], &results).assert_success().stdout;
    assert_eq!(parse_digests(&summaries), parse_digests(&expected));
}

/// Returns the detector's name in the raw data.
fn detector_name(data: &sample::Dataset) -> String {
    let found = run("scan-find", &[data.master.to_str().unwrap()], "").assert_success().stdout;
    records(&found).next().unwrap()["detector"].as_str().unwrap().to_owned()
}
