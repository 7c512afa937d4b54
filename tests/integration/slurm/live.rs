//! A scan that is integrated on a real SLURM while it is measured: `slurm-emit --append` submits
//! batches as they come.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::cluster::{Cluster, NODES, output_of, shared_directory};
use super::dataset::{parse_digests, read_record_files, records};
use crate::support::{NO_ARGUMENTS, program, python, run, source_file};

/// The jobs that may wait or run at a time.
const WORKERS: usize = 2;

fn write_scan(python: &Path, raw: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(python);
    command.arg(source_file("pipe/live.py")).arg(raw).args(arguments).stdout(Stdio::null());
    command.spawn().expect("Python starts")
}

/// Scan to digest of its patterns, as a plain pipe makes them of all that is there.
fn piped(raw: &Path, plan: &[&str], out: &Path) -> BTreeMap<String, String> {
    let found = run("scan-find", &[raw], "").assert_success().stdout;
    let tasks = run("plan-split", &[plan, &[out.to_str().unwrap()]].concat(), &found)
        .assert_success()
        .stdout;
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    parse_digests(&run("gather", NO_ARGUMENTS, &results).assert_success().stdout)
}

#[test]
fn a_scan_is_integrated_while_it_is_measured_and_a_plan_grows_in_its_directory() {
    let (Some(cluster), Some(python), Ok(_nodes)) = (Cluster::get(), python(), NODES.read()) else {
        return;
    };
    let top = shared_directory().join("live");
    let [raw, jobs, poni] = ["raw", "the jobs", "live.poni"].map(|name| top.join(name));
    fs::create_dir_all(&raw).unwrap();
    let geometry = "poni_version: 2.1\nDetector: Detector\nDetector_config: {\"pixel1\": 172e-6, \"pixel2\": 172e-6, \
                    \"max_shape\": [195, 487]}\nDistance: 0.1\nPoni1: 0.0168\nPoni2: 0.0419\nRot1: 0\nRot2: 0\nRot3: 0\n\
                    Wavelength: 1e-10\n";
    fs::write(&poni, geometry).unwrap();
    let plan = ["--poni", poni.to_str().unwrap(), "--npt", "100", "--by", "file", "--out"];
    let pipe = |follow: &str| {
        let mut shell = cluster.command("bash");
        let script = format!(
            "set -o pipefail; \"$0\" {follow} raw | \"$1\" --poni live.poni --npt 100 --by file --out results |
             \"$2\" --append --submit --dir 'the jobs' --n-workers {WORKERS} --ai-engines-per-worker 1 \
             --cores-per-worker 1 --partition main --batch-minutes 0"
        );
        shell
            .args(["-c", &script])
            .args(["scan-find", "plan-split", "slurm-emit"].map(program))
            .current_dir(&top);
        shell.stdout(Stdio::piped()).stderr(Stdio::piped());
        shell
    };
    // The elements of arrays that wait or run, of this test alone.
    let count_elements = || {
        let submitted = fs::read_to_string(jobs.join("submitted")).unwrap_or_default();
        let ids: Vec<_> = submitted.lines().filter_map(|line| line.split(' ').next()).collect();
        if ids.is_empty() {
            return 0;
        }
        let states = "--states=PENDING,RUNNING";
        let queue = cluster.ask(
            "squeue",
            &["--noheader", "--array", states, "--format=%K", "--jobs", &ids.join(",")],
        );
        queue.lines().filter(|line| line.trim() != "N/A").count()
    };
    let count_results = || {
        records(&read_record_files(&jobs.join("results")))
            .filter(|one| one["type"] == "result")
            .count()
    };

    let mut live = pipe("--follow=1 --until-idle 4s").spawn().unwrap();
    let files = ["--files", "9", "--frames", "4", "--pause", "1"];
    let mut writer = write_scan(&python, &raw, &[&["first"][..], &files].concat());
    let (mut most, mut before_the_end) = (0, 0);
    while live.try_wait().unwrap().is_none() {
        if writer.try_wait().unwrap().is_none() {
            before_the_end = count_results();
            most = count_elements().max(most);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(writer.wait().unwrap().success());
    let output = live.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(before_the_end > 0, "nothing was integrated before the scan ended: {said}");
    assert!((1..=WORKERS).contains(&most), "{most} jobs at a time: {said}");
    assert_eq!(said.matches("gather of all results").count(), 1, "{said}");
    output_of(cluster.command(jobs.join("submit")).arg("--wait"));
    let digests = || parse_digests(&fs::read_to_string(jobs.join("summary.jsonl")).unwrap());
    let summaries = fs::read_to_string(jobs.join("summary.jsonl")).unwrap();
    assert_eq!(digests(), piped(&raw, &plan, &top.join("first by the pipe")), "{summaries}{said}");

    // A second scan, as a plan that is complete: only its tasks are integrated.
    let done = count_results();
    assert!(
        write_scan(&python, &raw, &["second", "--files", "3", "--frames", "4"])
            .wait()
            .unwrap()
            .success()
    );
    let said = String::from_utf8(output_of_both(&mut pipe("")).stderr).unwrap();
    assert!(said.contains(" added to the jobs, which has "), "{said}");
    output_of(cluster.command(jobs.join("submit")).arg("--wait"));
    assert_eq!(digests(), piped(&raw, &plan, &top.join("both by the pipe")));
    let again = count_results() - done;
    assert!((3..=5).contains(&again), "{again} tasks were integrated for a scan of three: {said}");
}

fn output_of_both(command: &mut Command) -> std::process::Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}
