//! slurm-emit's jobs on a real SLURM. ai-integrate and gather are stand-ins here, for these tests are about
//! what SLURM and the scripts do.

use std::fs;

use crate::cluster::{Cluster, Jobs, said, until};
use crate::task;

/// Tasks of these numbers, each a batch.
const EACH: [&str; 2] = ["--batch-minutes", "0"];

fn stderr(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_array_runs_every_batch_once_and_gather_judges_the_whole() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let jobs = Jobs::new(&cluster, "it's 50%a \"of\" $HOME `id`; # \u{e9}");
    jobs.emit_tasks(5, &[&EACH[..], &["--gres", "gpu:1", "--n-workers", "2", "--partition", "main"]].concat());

    // as if from within a job, and with a user's own defaults: neither counts
    let mut submit = jobs.script("submit");
    submit.envs([
        ("SLURM_JOB_ID", "7"),
        ("SLURM_NTASKS", "9"),
        ("SBATCH_PARTITION", "nowhere"),
        ("SQUEUE_STATES", "CD"),
    ]);
    let told = said(submit);
    assert!(told.contains("5 of 5 elements"), "{told}");
    cluster.wait(60);

    let mut runs = cluster.runs();
    runs.sort_by(|a, b| a[1].cmp(&b[1]));
    let elements: Vec<_> = runs.iter().map(|run| run[1].as_str()).collect();
    assert_eq!(elements, ["0", "1", "2", "3", "4"]);
    for run in &runs {
        assert_eq!(run[2], "4", "2 engines of 2 threads");
        assert!(run[3] == "0" || run[3] == "1", "one GPU, not {}", run[3]);
        assert_eq!(run[7..].join(" "), "--engines 2 --threads 2");
    }
    for element in 0..5 {
        let log = jobs.log(element);
        assert!(
            log.contains("ai-integrate ended with status 0") && log.contains("gather ended with status 0"),
            "{log}"
        );
    }
    assert!(jobs.summary().contains("\"missing\":0"));
    let status = jobs.call("status");
    assert!(status.contains("5 of 5 done, 0 to do"), "{status}");

    assert!(jobs.call("submit").contains("nothing to submit"));
    assert!(cluster.ask("squeue", &["--noheader"]).is_empty());
}

#[test]
fn no_more_than_n_workers_run_at_a_time() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let jobs = Jobs::new(&cluster, "jobs");
    jobs.emit_tasks(5, &[&EACH[..], &["--n-workers", "2"]].concat());
    let mut submit = jobs.script("submit");
    submit.env("STUB_SECONDS", "2");
    said(submit);
    let most = std::cell::Cell::new(0);
    until(60, "all are done", || {
        let running = cluster.ask("squeue", &["--noheader", "--array", "--states=R", "--name=azpipe"]);
        most.set(running.lines().count().max(most.get()));
        (0..5).all(|task| cluster.is_done(task))
    });
    assert_eq!(most.get(), 2);
}

#[test]
fn a_plan_of_more_batches_than_an_array_may_have_is_run_in_strides() {
    let Some(cluster) = Cluster::start(&["MaxArraySize=3"]) else { return };
    let jobs = Jobs::new(&cluster, "jobs");
    jobs.emit_tasks(7, &EACH);
    assert!(jobs.call("submit").contains("3 of 3 elements"));
    cluster.wait(60);
    assert!(jobs.summary().contains("\"missing\":0"));
    let log = jobs.log(1);
    assert!(log.contains("batches/01/000001.jsonl") && log.contains("batches/01/000004.jsonl"), "{log}");
    assert_eq!(cluster.runs().len(), 7);
}

#[test]
fn a_drained_element_goes_on_and_a_cancelled_one_stays_cancelled() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let jobs = Jobs::new(&cluster, "jobs");
    // two batches of four tasks
    jobs.emit_tasks(8, &["--batch-minutes", "1", "--rate", "70000"]);
    let mut submit = jobs.script("submit");
    submit.env("STUB_SECONDS", "1");
    said(submit);
    let array = jobs.array();
    until(30, "both have done a task", || cluster.is_done(0) && cluster.is_done(4));

    // what SLURM sends before the walltime, and what a user sends
    cluster.ask("scancel", &["--batch", "--signal=USR1", &format!("{array}_0")]);
    cluster.ask("scancel", &[&format!("{array}_1")]);
    cluster.wait(60);

    let log = jobs.log(0);
    assert!(log.contains("status 75") && log.contains("requeued") && log.contains("start 2"), "{log}");
    assert!((0..4).all(|task| cluster.is_done(task)));
    let log = jobs.log(1);
    assert!(!log.contains("requeued") && !log.contains("start 2"), "{log}");
    assert!(!cluster.is_done(7));
    assert!(jobs.summary().contains("\"missing\":"), "the closing gather ran");

    // only what is missing is submitted, and its work is not done twice
    let told = jobs.call("submit");
    assert!(told.contains("1 of 2 elements"), "{told}");
    cluster.wait(60);
    assert!(jobs.summary().contains("\"missing\":0"));
    assert_eq!(cluster.runs().iter().filter(|run| run[1] == "0").count(), 2);
}

#[test]
fn an_element_that_drains_with_nothing_done_is_not_requeued() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let jobs = Jobs::new(&cluster, "jobs");
    jobs.emit_tasks(2, &["--batch-minutes", "10"]);
    let mut submit = jobs.script("submit");
    submit.env("STUB_STUCK", "yes");
    said(submit);
    until(30, "it runs", || !cluster.runs().is_empty());
    cluster.ask("scancel", &["--batch", "--signal=USR1", &format!("{}_0", jobs.array())]);
    cluster.wait(60);
    let log = jobs.log(0);
    assert!(log.contains("status 76") && !log.contains("requeued"), "{log}");
    assert_eq!(cluster.runs().len(), 1);
    assert!(jobs.summary().contains("\"missing\":2"), "the closing gather judged");
}

#[test]
fn at_its_walltime_an_element_drains_and_is_requeued() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let jobs = Jobs::new(&cluster, "jobs");
    // SLURM looks every 30 s, and 30 s ahead: the signal comes 4 to 34 s after the start
    jobs.emit_tasks(38, &["--batch-minutes", "100", "--rate", "1G", "--time", "1", "--drain-seconds", "26"]);
    let mut submit = jobs.script("submit");
    submit.env("STUB_SECONDS", "1");
    said(submit);
    cluster.wait(150);
    let log = jobs.log(0);
    assert!(log.contains("status 75") && log.contains("start 2"), "{log}");
    assert!(jobs.summary().contains("\"missing\":0"));
}

#[test]
fn a_killed_integrator_leaves_the_rest_and_is_resubmitted_in_smaller_batches() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let jobs = Jobs::new(&cluster, "jobs");
    jobs.emit_tasks(8, &["--batch-minutes", "1", "--rate", "70000"]);
    let mut submit = jobs.script("submit");
    submit.env("STUB_CRASH", task::id(1));
    said(submit);
    let refused = jobs.script("resubmit").output().unwrap();
    assert!(stderr(&refused).contains("waiting or running"), "{}", stderr(&refused));
    cluster.wait(60);
    assert!(jobs.summary().contains("\"missing\":3"), "{}", jobs.summary());
    assert!((4..8).all(|task| cluster.is_done(task)));
    let before = cluster.runs().len();

    let told = jobs.call("resubmit");
    assert!(told.contains("batches of up to 2 tasks, up to 4 before") && told.contains("2 of 2 elements"), "{told}");
    cluster.wait(60);
    assert!(jobs.summary().contains("\"missing\":0"));
    assert_eq!(cluster.runs().len() - before, 2);
}

#[test]
fn a_dead_node_costs_a_restart() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let jobs = Jobs::new(&cluster, "jobs");
    jobs.emit_tasks(1, &EACH);
    let mut submit = jobs.script("submit");
    submit.env("STUB_SECONDS", "3");
    said(submit);
    until(30, "it runs", || !cluster.runs().is_empty());
    let node = cluster.runs()[0][4].clone();
    cluster.ask("scontrol", &["update", &format!("nodename={node}"), "state=down", "reason=test"]);
    cluster.wait(60);
    assert!(jobs.summary().contains("\"missing\":0"));
    let runs = cluster.runs();
    assert!(runs.len() == 2 && runs[1][4] != node, "{runs:?}");
}

#[test]
fn cancel_ends_all_and_submit_goes_on() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let jobs = Jobs::new(&cluster, "jobs");
    jobs.emit_tasks(3, &EACH);
    let mut submit = jobs.script("submit");
    submit.env("STUB_SECONDS", "60");
    said(submit);
    assert!(jobs.call("submit").contains("nothing to submit: what is missing is waiting or running"));
    assert!(jobs.call("cancel").contains("cancelled"));
    cluster.wait(30);
    assert!(jobs.call("cancel").contains("nothing to cancel"));
    // without it, jobs would fail and leave no word of why
    fs::remove_dir_all(jobs.dir.join("logs")).unwrap();
    assert!(jobs.call("submit").contains("3 of 3 elements"));
    cluster.wait(60);
    assert!(jobs.summary().contains("\"missing\":0"));
}

#[test]
fn check_says_why_the_jobs_would_not_run() {
    let lines = ["PartitionName=short Nodes=ALL MaxTime=10"];
    let Some(cluster) = Cluster::start(&lines) else { return };
    let jobs = Jobs::new(&cluster, "jobs");
    let refused = |flags: &[&str], expected: &str| {
        let output = jobs.emit(&task::lines(2), &[&["--check", "--submit"], flags].concat());
        let said = stderr(&output);
        assert!(output.status.code() == Some(2) && said.contains(expected), "{flags:?}: {said}");
        assert!(!jobs.dir.join("submitted").exists(), "{flags:?}");
    };
    refused(&["--partition", "gpux"], "--partition gpux: no such partition; this cluster has main, short");
    refused(&["--partition", "short", "--time", "11"], "--time 00:11:00: partition short allows 00:10:00");
    refused(&["--cores-per-worker", "5"], "job.sbatch: Requested node configuration is not available");
    refused(&["--mem", "1T"], "job.sbatch: Requested node configuration is not available");
    refused(&["--gres", "gpu:3"], "job.sbatch: Requested node configuration is not available");
    refused(&["--gres", "ufo:1"], "job.sbatch: Invalid generic resource (gres) specification");
    refused(
        &["--mem-per-cpu", "1G", "--directive=--mem=1G"],
        "job.sbatch: fatal: --mem, --mem-per-cpu, and --mem-per-gpu are",
    );
    refused(&["--directive=--no-such-option"], "job.sbatch: unrecognized option '--no-such-option'");
    refused(&["--setup", "if true; then"], "job.sbatch: line");
    refused(&["--bin", "/nonexistent"], "--bin: /nonexistent/ai-integrate: no such program");

    let output = jobs.emit(
        &task::lines(2),
        &["--check", "--partition", "short", "--time", "10", "--mem-per-gpu", "100M", "--gpus", "1"],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let output = jobs.emit(&task::lines(0), &["--check", "--submit"]);
    assert!(output.status.success() && stderr(&output).contains("the plan is empty"), "{}", stderr(&output));
}

#[test]
fn the_size_is_told_with_what_the_nodes_say_to_it() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let jobs = Jobs::new(&cluster, "jobs");
    let said = stderr(
        &jobs.emit(&task::lines(1), &["--gres", "gpu:1", "--ai-engines-per-worker", "8", "--cores-per-worker", "4"]),
    );
    assert!(said.contains("4 jobs x 8 engines x 4 threads = 32 engines, 128 CPUs, 4 GPUs"), "{said}");
    assert!(said.contains("a node has 8: such a job never starts; try --cores-per-worker 1"), "{said}");
    assert!(fs::exists(jobs.dir.join("submit")).unwrap());
}

#[test]
fn nodes_of_another_architecture_have_programs_of_their_own() {
    let Some(cluster) = Cluster::start(&["PartitionName=p9gpu Nodes=node3 MaxTime=INFINITE"]) else { return };
    let other = cluster.path().join("power's bin");
    fs::create_dir(&other).unwrap();
    for program in ["ai-integrate", "gather"] {
        fs::copy(crate::cluster::stub().join(program), other.join(program)).unwrap();
    }
    let jobs = Jobs::new(&cluster, "jobs");
    jobs.emit_tasks(
        2,
        &["--batch-minutes", "0", "--bin", &format!("p9gpu={}", other.display()), "--partition", "p9gpu"],
    );
    jobs.call("submit");
    cluster.wait(60);
    assert!(jobs.summary().contains("\"missing\":0"));
    assert!(
        cluster.runs().iter().all(|run| run[4] == "node3" && run[6..].join(" ").starts_with(other.to_str().unwrap()))
    );
}
