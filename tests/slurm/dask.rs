//! slurm-emit's driver for dask: what its settings become in dask-jobqueue, and its workers on a real SLURM.
//! Runs where `AZPIPE_PEERS`, or `.venv` in the root, is a virtual environment that has dask-jobqueue.

use std::process::Command;

use crate::cluster::{Cluster, Jobs, peers, said, until};
use crate::task;

/// Prints the script that dask-jobqueue makes of the driver's arguments, without starting anything.
const JOB_SCRIPT: &str = r#"
import sys, dask_jobqueue
from dask_jobqueue.slurm import SLURMJob

class Recorder:
    def __init__(self, **arguments):
        arguments.pop("scheduler_options")
        print(SLURMJob("tcp://127.0.0.1:1", name="w", **arguments).job_script())
    def adapt(self, **jobs):
        print(jobs)

dask_jobqueue.SLURMCluster = Recorder
sys.path.insert(0, sys.argv[1])
import driver
driver.cluster()
"#;

#[test]
fn explain_says_what_dask_jobqueue_does() {
    let Some(python) = peers("dask_jobqueue") else { return };
    let top = tempfile::tempdir().unwrap();
    let dir = top.path().join("jobs");
    let emit = |flags: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_slurm-emit"));
        command.args(["--target", "dask", "--dir"]).arg(&dir).args(flags).stdin(std::process::Stdio::null());
        said(command)
    };
    // the first is dask-jobqueue's own example; its processes are 4 of 3 threads
    let golden = ["--cores", "12", "--memory", "16GB", "--walltime", "00:10:00"];
    let other = [
        "--cores-per-worker",
        "2",
        "--processes",
        "3",
        "--memory",
        "6GiB",
        "--walltime",
        "1:00:00",
        "--queue",
        "gpu",
        "--account",
        "id31",
        "--job-name",
        "ours",
        "--gres",
        "gpu:2",
        "--constraint",
        "a100&ib",
        "--scale",
        "cores=20",
    ];
    let memory =
        ["--cores", "8", "--mem-per-cpu", "2G", "--skip-directive", "time", "--skip-directive", "cpus-per-task"];
    for flags in [&golden[..], &other, &memory] {
        let table = emit(&[&["--explain"], flags].concat());
        emit(flags);
        let mut command = Command::new(&python);
        command.args(["-c", JOB_SCRIPT]).arg(&dir).current_dir(&dir);
        let script = said(command);
        let becomes = |table: &str, mark: &str| {
            let below = table.split("driver.py").nth(1).unwrap().to_owned();
            let cells = below.lines().filter_map(|line| {
                line.split("  ").map(str::trim).find(|cell| cell.starts_with(mark)).map(str::to_owned)
            });
            cells.collect::<Vec<_>>()
        };
        let directives = becomes(&table, "#SBATCH");
        assert!(directives.len() >= 3, "{table}");
        for directive in directives {
            assert!(script.lines().any(|line| line == directive), "{directive}\n{script}");
        }
        let arguments = becomes(&table, "dask worker ");
        assert!(arguments.len() >= 5, "{table}");
        for argument in arguments {
            // each with its value, in whatever order
            let argument = argument.trim_start_matches("dask worker ").replace("--nanny ", "");
            assert!(script.contains(&argument), "{argument}\n{script}");
        }
        for line in script.lines().filter(|line| line.starts_with("#SBATCH") && !line.contains("logs/")) {
            assert!(table.contains(line), "{line} is not explained\n{table}");
        }
    }
    let script = {
        emit(&golden);
        let mut command = Command::new(&python);
        command.args(["-c", JOB_SCRIPT]).arg(&dir).current_dir(&dir);
        said(command)
    };
    for expected in [
        "-J dask-worker",
        "-n 1",
        "--cpus-per-task=12",
        "--mem=15G",
        "-t 00:10:00",
        "--nthreads 3",
        "--memory-limit 3.73GiB",
        "--nworkers 4",
        "--nanny",
        "--death-timeout 60",
    ] {
        assert!(script.contains(expected), "{expected}\n{script}");
    }
}

/// A small cluster of dask: two jobs of two engines.
fn emit<'a>(cluster: &'a Cluster, python: &str, tasks: usize, flags: &[&str]) -> Jobs<'a> {
    let jobs = Jobs::new(cluster, "it's 50% \"of\" jobs");
    let common = [
        "--target",
        "dask",
        "--cores",
        "4",
        "--processes",
        "2",
        "--memory",
        "1GB",
        "--n-workers",
        "2",
        "--gres",
        "gpu:1",
        "--interface",
        "lo",
        "--python",
        python,
        "--directive=--distribution=cyclic",
    ];
    jobs.emit_tasks(tasks, &[&common[..], flags].concat());
    jobs
}

#[test]
fn workers_on_two_nodes_do_the_plan() {
    let Some(python) = peers("dask_jobqueue") else { return };
    let Some(cluster) = Cluster::start(&["SelectTypeParameters=CR_Core_Memory"]) else { return };
    // four of a node's eight CPUs and the driver's two: both workers and the driver do not fit one node
    let jobs = emit(&cluster, &python, 8, &[]);
    let mut submit = jobs.script("submit");
    submit.env("STUB_SECONDS", "1");
    assert!(said(submit).contains("the driver"));
    assert!(jobs.call("submit").contains("nothing to submit"));
    until(90, "the summary", || jobs.summary().contains("\"missing\":0"));
    cluster.wait(60);
    let runs = cluster.runs();
    assert_eq!(runs.len(), 8, "{runs:?}");
    let nodes: std::collections::BTreeSet<_> = runs.iter().map(|run| &run[4]).collect();
    assert!(nodes.len() >= 2, "{runs:?}");
    assert!(runs.iter().all(|run| run[7..].join(" ") == "--engines 1 --threads 2"), "{runs:?}");
    assert!(runs.iter().all(|run| run[3].len() == 1), "each has one GPU: {runs:?}");
}

#[test]
fn a_driver_at_its_walltime_is_requeued_and_a_cancelled_one_stays_cancelled() {
    let Some(python) = peers("dask_jobqueue") else { return };
    let Some(cluster) = Cluster::start(&[]) else { return };
    let jobs = emit(&cluster, &python, 12, &[]);
    let mut submit = jobs.script("submit");
    submit.env("STUB_SECONDS", "2");
    said(submit);
    let done = || (0..12).filter(|&task| cluster.is_done(task)).count();
    until(60, "a task is done", || done() > 0);
    let driver = cluster.ask("squeue", &["--noheader", "--name=azpipe-driver", "--format=%A"]);
    cluster.ask("scancel", &["--batch", "--signal=USR1", driver.trim()]);
    let log =
        || std::fs::read_to_string(jobs.dir.join(format!("logs/driver_{}.log", driver.trim()))).unwrap_or_default();
    until(60, "it is back", || log().matches("tasks to do").count() == 2);
    until(60, "it goes on", || done() > 4);

    assert!(jobs.call("cancel").contains("cancelled"));
    cluster.wait(60);
    assert_eq!(log().matches("tasks to do").count(), 2, "{}", log());
    assert!(done() < 12);
    assert!(jobs.summary().is_empty());
}

#[test]
fn a_task_that_kills_its_integrator_is_tried_again_and_told() {
    let Some(python) = peers("dask_jobqueue") else { return };
    let Some(cluster) = Cluster::start(&[]) else { return };
    let jobs = Jobs::new(&cluster, "jobs");
    let flags = ["--target", "dask", "--partition", "local", "--n-workers", "1", "--python", &python];
    jobs.emit_tasks(4, &flags);
    let mut submit = jobs.script("submit");
    submit.env("STUB_CRASH", task::id(2));
    let output = submit.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && told.contains("a task failed three times"), "{told}");
    assert!(jobs.summary().contains("\"missing\":1"));
    let tries = cluster.runs().len();
    assert_eq!(tries, 3 + 3, "three others, and this one three times");
    said(jobs.script("submit"));
    assert!(jobs.summary().contains("\"missing\":0"));
}
