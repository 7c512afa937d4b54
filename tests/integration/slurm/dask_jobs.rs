//! The jobs of dask's workers: none idles in vain, failures are told, and there are as many as the tasks need.

use super::cluster::{Cluster, NODES, wait_until};
use super::jobs::Jobs;
use crate::support::python_with;

const SIZE: [&str; 10] =
    ["--target", "dask", "--cores", "2", "--processes", "2", "--memory", "1GB", "--interface", "lo"];

#[test]
fn a_driver_ends_with_the_reason_if_its_workers_never_connect() {
    let (Some(python), Some(cluster), Ok(_nodes)) = (python_with("dask_jobqueue"), Cluster::get(), NODES.read()) else {
        return;
    };
    let jobs = Jobs::new("dask-setup", "frames=6", 1);
    let fails = r#"[[ $SLURM_JOB_NAME == *driver ]] || { echo "module: cuda is unknown"; exit 1; }"#;
    jobs.emit(&[&SIZE[..], &["--n-workers", "1", "--python", &python, "--setup", fails]].concat());
    jobs.submit(&[]);
    jobs.wait();
    let log = jobs.driver_log();
    assert!(log.contains("no worker came to work, and 3 jobs failed. The last: job "), "{log}");
    assert!(log.contains("ended before it connected; its log ") && log.contains("module: cuda is unknown"), "{log}");
    let driver = std::fs::read_to_string(jobs.dir.join("submitted")).unwrap();
    let shown = cluster.ask("scontrol", &["show", "job", driver.split(' ').next().unwrap()]);
    assert!(shown.contains("JobState=FAILED") && shown.contains("ExitCode=2:0"), "{shown}");
}

#[test]
fn what_sbatch_refuses_is_found_by_check_and_told_by_the_driver() {
    let (Some(python), Some(_), Ok(_nodes)) = (python_with("dask_jobqueue"), Cluster::get(), NODES.read()) else {
        return;
    };
    let jobs = Jobs::new("dask-refused", "frames=6", 1);
    let flags = [&SIZE[..], &["--n-workers", "1", "--python", &python]].concat();
    for (flag, expected) in [
        ("--memory=1TB", "job script of workers.py: Requested node configuration is not available"),
        ("--directive=--no-such-option", "job script of workers.py: unrecognized option '--no-such-option'"),
        ("--setup=if true; then", "dask.sbatch: line"),
    ] {
        let output = jobs.try_emit(&[&flags[..], &["--check", flag]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(expected), "{said}");
    }
    jobs.emit(&[&flags[..], &["--check"]].concat());
    jobs.emit(&[&flags[..], &["--directive=--no-such-option"]].concat());
    jobs.submit(&[]);
    jobs.wait();
    let log = jobs.driver_log();
    assert!(
        log.contains("sbatch refuses the job of a worker: sbatch: unrecognized option '--no-such-option'"),
        "{log}"
    );
    assert!(log.contains("no worker came to work, and 3 jobs failed"), "{log}");
}

#[test]
fn jobs_without_a_task_end_early_if_their_number_adapts() {
    let (Some(python), Some(cluster), Ok(_nodes)) = (python_with("dask_jobqueue"), Cluster::get(), NODES.read()) else {
        return;
    };
    // five tasks: four at a time in two jobs, and one that is left
    let jobs = Jobs::new("dask-adapt", "frames=5", 1);
    let flags = ["--adapt", "0,2", "--job-name", "adapted", "--python", &python];
    assert!(jobs.emit(&[&SIZE[..], &flags].concat()).contains("2 jobs x 2 engines"));
    jobs.submit(&[("SLOW", "12")]);
    let count = || cluster.ask("squeue", &["--noheader", "--name=adapted", "--states=R,PD"]).lines().count();
    wait_until("there are two jobs", || count() == 2);
    wait_until("four tasks are done", || jobs.done().len() >= 4);
    wait_until("one job is left", || count() == 1);
    assert!(!jobs.is_gathered(), "while the last task runs");
    wait_until("the summary", || jobs.is_gathered());
    jobs.assert_complete();
    jobs.wait();
}
