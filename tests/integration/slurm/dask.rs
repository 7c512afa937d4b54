//! slurm-emit's driver for dask: what its settings become in dask-jobqueue, and its workers on a
//! real SLURM. Runs where `AZPIPE_PEERS`, or `.venv` in the root, is a virtual environment that has
//! dask-jobqueue.

use std::process::Command;

use super::cluster::{Cluster, NODES, output_of, wait_until};
use super::jobs::Jobs;
use crate::support::{program, python_with};

#[test]
fn explain_says_what_dask_jobqueue_does() {
    let Some(python) = python_with("dask_jobqueue") else { return };
    let top = tempfile::tempdir().unwrap();
    let dir = top.path().join("jobs");
    let emit = |flags: &[&str]| {
        let mut command = Command::new(program("slurm-emit"));
        command
            .args(["--target", "dask", "--dir"])
            .arg(&dir)
            .args(flags)
            .stdin(std::process::Stdio::null());
        output_of(&mut command)
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
        "--interface",
        "lo",
        "--directive=--comment=ours",
        "--setup",
        "module load cuda",
    ];
    let memory = [
        "--cores",
        "8",
        "--mem-per-cpu",
        "2G",
        "--skip-directive",
        "time",
        "--skip-directive",
        "cpus-per-task",
    ];
    for flags in [&golden[..], &other, &memory] {
        let table = emit(&[&["--explain"], flags].concat());
        emit(flags);
        let mut command = Command::new(&python);
        command.arg(dir.join("workers.py")).current_dir(&dir);
        let script = output_of(&mut command);
        let becomes = |table: &str, mark: &str| {
            let below = table.split("workers.py").nth(1).unwrap().to_owned();
            let cells = below.lines().filter_map(|line| {
                line.split("  ")
                    .map(str::trim)
                    .find(|cell| cell.starts_with(mark))
                    .map(str::to_owned)
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
        for flag in ["--cores", "--processes", "--memory", "--walltime", "--n-workers"] {
            assert!(table.lines().any(|line| line.starts_with(flag)), "{flag}: {table}");
        }
        for line in script.lines().filter(|line| line.starts_with("#SBATCH")) {
            assert!(table.contains(line), "{line} is not explained\n{table}");
        }
    }
    let script = {
        emit(&golden);
        let mut command = Command::new(&python);
        command.arg(dir.join("workers.py")).current_dir(&dir);
        output_of(&mut command)
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

/// Two jobs of two engines, which no node has place for both of.
fn emit(jobs: &Jobs, python: &str) {
    let size = [
        "--target",
        "dask",
        "--cores",
        "6",
        "--processes",
        "2",
        "--memory",
        "1GB",
        "--n-workers",
        "2",
    ];
    jobs.emit(&[&size[..], &["--gres", "gpu:1", "--interface", "lo", "--python", python]].concat());
}

#[test]
fn workers_on_two_nodes_give_the_bytes_of_the_pipe() {
    let (Some(python), Some(_), Ok(_nodes)) =
        (python_with("dask_jobqueue"), Cluster::get(), NODES.read())
    else {
        return;
    };
    let jobs = Jobs::new("dask", "frames=6", 3);
    emit(&jobs, &python);
    assert!(jobs.submit(&[("SLOW", "2")]).contains("the driver"));
    assert!(jobs.call("submit").contains("nothing to submit"));
    wait_until("the summary", || jobs.is_gathered());
    jobs.assert_complete();
    let hosts = jobs.hosts();
    assert!(hosts.len() >= 2 && hosts.iter().all(|host| host.starts_with("node")), "{hosts:?}");
    let runs = jobs.runs();
    assert_eq!(runs.len(), 12);
    assert!(runs.iter().all(|run| run.arguments == "--engines 1 --threads 3"), "{runs:?}");
    assert!(runs.iter().all(|run| run.gpus.len() == 1), "each has one GPU: {runs:?}");
    let status = jobs.status();
    assert!(status.contains("12 of 12 done, 0 to do") && status.contains("speed"), "{status}");
    jobs.wait();
    assert!(jobs.call("resubmit").contains("the driver"), "which finds nothing to do");
    jobs.wait();
    assert_eq!(jobs.runs().len(), 12);
}

#[test]
fn a_driver_at_its_walltime_is_requeued_and_a_cancelled_one_stays_cancelled() {
    let (Some(python), Some(cluster), Ok(_nodes)) =
        (python_with("dask_jobqueue"), Cluster::get(), NODES.read())
    else {
        return;
    };
    let jobs = Jobs::new("dask-walltime", "frames=2", 1);
    emit(&jobs, &python);
    jobs.set_limit("limit", 4);
    jobs.submit(&[]);
    wait_until("a task is done", || !jobs.done().is_empty());
    let driver = jobs.queued("RUNNING")[0].split('_').next().unwrap().to_owned();
    cluster.ask("scancel", &["--batch", "--signal=USR1", &driver]);
    let log = || {
        std::fs::read_to_string(jobs.dir.join(format!("logs/driver_{driver}.log")))
            .unwrap_or_default()
    };
    wait_until("it is back", || log().matches("tasks to do").count() == 2);
    let before = jobs.done().len();
    jobs.set_limit("limit", 8);
    wait_until("it goes on", || jobs.done().len() > before);

    assert!(jobs.call("cancel").contains("cancelled"));
    jobs.wait();
    assert_eq!(log().matches("tasks to do").count(), 2, "{}", log());
    assert!(!jobs.is_gathered());
}

#[test]
fn the_tasks_of_a_job_that_is_lost_are_done_by_its_replacement() {
    let (Some(python), Some(cluster), Ok(_nodes)) =
        (python_with("dask_jobqueue"), Cluster::get(), NODES.read())
    else {
        return;
    };
    let jobs = Jobs::new("dask-lost", "frames=2", 1);
    let size = [
        "--target",
        "dask",
        "--cores",
        "6",
        "--processes",
        "2",
        "--memory",
        "1GB",
        "--n-workers",
        "1",
    ];
    jobs.emit(
        &[&size[..], &["--job-name", "lost", "--interface", "lo", "--python", &python]].concat(),
    );
    jobs.set_limit("limit", 4);
    jobs.submit(&[]);
    wait_until("a task is done", || !jobs.done().is_empty());
    let lost = jobs.runs()[0].job.clone();
    cluster.ask("scancel", &["--signal=KILL", "--full", &lost]);
    wait_until("another job runs", || jobs.runs().iter().any(|run| run.job != lost));
    jobs.lift_limit("limit");
    wait_until("the summary", || jobs.is_gathered());
    jobs.assert_complete();
    jobs.wait();
}

#[test]
fn a_task_that_kills_its_integrator_is_tried_again_and_told() {
    let Some(python) = python_with("dask_jobqueue") else { return };
    let jobs = Jobs::new("dask-killed", "frames=6", 1);
    let said = jobs.emit(&[
        "--target",
        "dask",
        "--partition",
        "local",
        "--n-workers",
        "1",
        "--python",
        &python,
    ]);
    assert!(!said.contains("node"), "{said}");
    let tasks = jobs.tasks();
    let output = jobs.script("submit").env("KILL", &tasks[2]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1) && told.contains("a task failed three times"),
        "{told}"
    );
    assert!(jobs.is_gathered() && jobs.summary().is_empty());
    assert_eq!(jobs.runs().len(), 3 + 3, "three others, and this one three times");
    jobs.call("resubmit");
    jobs.assert_complete();
}
