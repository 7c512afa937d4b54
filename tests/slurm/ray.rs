//! slurm-emit's driver for Ray, on the nodes of a real SLURM.

use std::collections::BTreeSet;
use std::fs;

use crate::cluster::{Cluster, Jobs, peers, said, until};
use crate::task;

/// A Ray on two nodes, of two engines each.
fn emit<'a>(cluster: &'a Cluster, python: &str, tasks: usize, flags: &[&str]) -> Jobs<'a> {
    let jobs = Jobs::new(cluster, "it's 50% \"of\" jobs");
    let common = ["--target", "ray", "--n-workers", "2", "--gres", "gpu:1", "--mem", "3G", "--python", python];
    jobs.emit_tasks(tasks, &[&common[..], flags].concat());
    jobs
}

#[test]
fn engines_on_two_nodes_do_the_plan() {
    let Some(python) = peers("ray") else { return };
    let Some(cluster) = Cluster::start(&[]) else { return };
    let jobs = emit(&cluster, &python, 8, &["--check"]);
    let mut submit = jobs.script("submit");
    submit.env("STUB_SECONDS", "1");
    said(submit);
    until(120, "the summary", || jobs.summary().contains("\"missing\":0"));
    cluster.wait(60);
    let runs = cluster.runs();
    assert_eq!(runs.len(), 8, "{runs:?}");
    let nodes: BTreeSet<_> = runs.iter().map(|run| &run[4]).collect();
    assert_eq!(nodes.len(), 2, "{runs:?}");
    assert!(runs.iter().all(|run| run[3].len() == 1), "each has one GPU: {runs:?}");
    assert!(jobs.call("status").contains("8 of 8 done, 0 to do"));

    let left = fs::read_dir("/tmp").unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy() == format!("ray.{}", runs[0][0])
    });
    assert_eq!(left.count(), 0, "its directory is removed");
}

#[test]
fn a_ray_at_its_walltime_is_requeued_and_a_cancelled_one_stays_cancelled() {
    let Some(python) = peers("ray") else { return };
    let Some(cluster) = Cluster::start(&[]) else { return };
    let jobs = emit(&cluster, &python, 16, &[]);
    let mut submit = jobs.script("submit");
    submit.env("STUB_SECONDS", "3");
    said(submit);
    let done = || (0..16).filter(|&task| cluster.is_done(task)).count();
    until(90, "a task is done", || done() > 0);
    let job = cluster.ask("squeue", &["--noheader", "--name=azpipe-ray", "--format=%A"]).trim().to_owned();
    cluster.ask("scancel", &["--batch", "--signal=USR1", &job]);
    let log = || fs::read_to_string(jobs.dir.join(format!("logs/ray_{job}.log"))).unwrap_or_default();
    until(90, "it is back", || log().matches("tasks to do").count() == 2);
    assert!(jobs.call("cancel").contains("cancelled"));
    cluster.wait(60);
    assert_eq!(log().matches("tasks to do").count(), 2, "{}", log());
    assert!(done() < 16 && jobs.summary().is_empty());
}

#[test]
fn what_fits_no_node_is_refused_before_it_is_submitted() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let jobs = Jobs::new(&cluster, "jobs");
    let output = jobs.emit(&task::lines(1), &["--target", "ray", "--cores", "10"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("10 CPUs a job: a node has 8"), "{said}");
    assert!(!jobs.dir.exists());
}

#[test]
fn a_ray_of_this_machine_tells_what_failed_three_times() {
    let Some(python) = peers("ray") else { return };
    let Some(cluster) = Cluster::start(&[]) else { return };
    let jobs = Jobs::new(&cluster, "jobs");
    jobs.emit_tasks(4, &["--target", "ray", "--partition", "local", "--n-workers", "1", "--python", &python]);
    let mut submit = jobs.script("submit");
    submit.env("STUB_CRASH", task::id(2));
    let output = submit.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && told.contains("a task failed three times"), "{told}");
    assert!(jobs.summary().contains("\"missing\":1"));
    assert_eq!(cluster.runs().len(), 3 + 3, "three others, and this one three times");
    said(jobs.script("submit"));
    assert!(jobs.summary().contains("\"missing\":0"));
}
