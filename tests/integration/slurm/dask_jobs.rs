//! The jobs of dask's workers: none idles in vain, failures are told, and there are as many as the
//! tasks need.

use std::fs;

use super::cluster::{Cluster, NODES, output_of, shared_directory, wait_until};
use super::jobs::Jobs;
use crate::support::python_with;

const SIZE: [&str; 10] = [
    "--target",
    "dask",
    "--cores",
    "2",
    "--processes",
    "2",
    "--memory",
    "1GB",
    "--interface",
    "lo",
];

#[test]
fn a_driver_ends_with_the_reason_if_its_workers_never_connect() {
    let (Some(python), Some(cluster), Ok(_nodes)) =
        (python_with("dask_jobqueue"), Cluster::get(), NODES.read())
    else {
        return;
    };
    let jobs = Jobs::new("dask-setup", "frames=6", 1);
    let fails =
        r#"[[ $SLURM_JOB_NAME == *driver ]] || { echo "module: cuda is unknown"; exit 1; }"#;
    jobs.emit(&[&SIZE[..], &["--n-workers", "1", "--python", &python, "--setup", fails]].concat());
    jobs.submit(&[]);
    jobs.wait();
    let log = jobs.driver_log();
    assert!(log.contains("no worker came to work, and 3 jobs failed. The last: job "), "{log}");
    assert!(
        log.contains("ended before it connected; its log ")
            && log.contains("module: cuda is unknown"),
        "{log}"
    );
    let driver = fs::read_to_string(jobs.dir.join("submitted")).unwrap();
    let shown = cluster.ask("scontrol", &["show", "job", driver.split(' ').next().unwrap()]);
    assert!(shown.contains("JobState=FAILED") && shown.contains("ExitCode=2:0"), "{shown}");
}

#[test]
fn what_sbatch_refuses_is_found_by_check_and_told_by_the_driver() {
    let (Some(python), Some(_), Ok(_nodes)) =
        (python_with("dask_jobqueue"), Cluster::get(), NODES.read())
    else {
        return;
    };
    let jobs = Jobs::new("dask-refused", "frames=6", 1);
    let flags = [&SIZE[..], &["--n-workers", "1", "--python", &python]].concat();
    for (flag, expected) in [
        ("--memory=1TB", "job script of workers.py: Requested node configuration is not available"),
        (
            "--directive=--no-such-option",
            "job script of workers.py: unrecognized option '--no-such-option'",
        ),
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
        log.contains(
            "sbatch refuses the job of a worker: sbatch: unrecognized option '--no-such-option'"
        ),
        "{log}"
    );
    assert!(log.contains("no worker came to work, and 3 jobs failed"), "{log}");
}

#[test]
fn jobs_without_a_task_end_early_if_their_number_adapts() {
    let (Some(python), Some(cluster), Ok(_nodes)) =
        (python_with("dask_jobqueue"), Cluster::get(), NODES.read())
    else {
        return;
    };
    // five tasks: four at a time in two jobs, and one that is left
    let jobs = Jobs::new("dask-adapt", "frames=5", 1);
    let flags = ["--adapt", "0,2", "--job-name", "adapted", "--python", &python];
    assert!(jobs.emit(&[&SIZE[..], &flags].concat()).contains("2 jobs x 2 engines"));
    jobs.set_limit("limit", 4);
    jobs.submit(&[("SLOW", "1")]);
    let count = || {
        cluster.ask("squeue", &["--noheader", "--name=adapted", "--states=R,PD"]).lines().count()
    };
    wait_until("there are two jobs", || count() == 2);
    wait_until("four tasks are done", || jobs.done().len() >= 4);
    wait_until("one job is left", || count() == 1);
    assert!(!jobs.is_gathered(), "while the last task runs");
    jobs.lift_limit("limit");
    wait_until("the summary", || jobs.is_gathered());
    jobs.assert_complete();
    jobs.wait();
}

#[test]
fn settings_of_the_site_and_arguments_of_the_user_reach_dask_jobqueue() {
    let (Some(python), Some(_), Ok(_nodes)) =
        (python_with("dask_jobqueue"), Cluster::get(), NODES.read())
    else {
        return;
    };
    let jobs = Jobs::new("dask-site", "frames=12", 1);
    let top = shared_directory().join("dask-site");
    let top = top.to_str().unwrap();
    let yaml = format!(
        "jobqueue:\n  slurm:\n    name: site-worker\n    job-script-prologue: [export SITE=yes]\n    job-extra-directives: \
         [--comment=site]\n    log-directory: {top}/site-logs\n    shared-temp-directory: {top}\n    local-directory: \
         {top}/scratch\n    scheduler-options: {{idle_timeout: 1h}}\n"
    );
    fs::write(format!("{top}/jobqueue.yaml"), yaml).unwrap();
    let profile = format!(
        "[dask]\nnanny = false\ndeath_timeout = 90\nshebang = \"#!/bin/bash -e\"\nworker_extra_args = [\"--memory-limit\", \"0\"]\n\
         env_extra = [\"hostname > '{top}/host'\"]\nscheduler_options = {{ validate = true }}\n"
    );
    fs::write(format!("{top}/site.toml"), profile).unwrap();
    let profile = format!("{top}/site.toml");
    let flags = [
        "--target",
        "dask",
        "--cores",
        "2",
        "--processes",
        "1",
        "--memory",
        "1GB",
        "--interface",
        "lo",
    ];
    let more = [
        "--n-workers",
        "1",
        "--python",
        &python,
        "--profile",
        &profile,
        "--cluster-kwarg",
        "death-timeout=95",
    ];
    let more = [&more[..], &["--setup", "export OURS=yes"]].concat();
    let said = jobs.emit(&[&flags[..], &more, &["--check"]].concat());
    assert!(!said.contains("warning"), "{said}");
    let mut print = jobs.command(&python);
    let script = output_of(print.arg(jobs.dir.join("workers.py")).env("DASK_CONFIG", top));
    let expected = [
        "#!/bin/bash -e\n",
        "#SBATCH -J site-worker\n",
        "#SBATCH --comment=site\n",
        "/site-logs/site-worker-%J.out\n",
        "export SITE=yes\nexport OURS=yes\nhostname > ",
        "--no-nanny --death-timeout 95 --local-directory ",
        "--resources engine=1",
        "--memory-limit 0",
    ];
    for part in expected {
        assert!(script.contains(part), "{part}: {script}");
    }
    assert!(!script.contains("/logs/worker_"), "the site's logs take the place of ours: {script}");
    let mut submit = jobs.script("submit");
    output_of(submit.arg("--wait").env("DASK_CONFIG", top));
    jobs.assert_complete();
    assert!(fs::read_to_string(format!("{top}/host")).unwrap().starts_with("node"));
    assert!(fs::read_dir(format!("{top}/site-logs")).unwrap().count() > 0);

    // of a later dask-jobqueue
    let output =
        jobs.try_emit(&[&flags[..], &more, &["--cluster-kwarg=no_such=[1]", "--check"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(2) && said.contains("unexpected keyword argument 'no_such'"),
        "{said}"
    );
}
