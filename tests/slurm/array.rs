//! slurm-emit's job array on a real SLURM, with the real programs: whatever happens to its jobs, the patterns are those
//! of a plain pipe.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;

use crate::cluster::{Cluster, NODES, until};
use crate::data::{Data, content, digests, programs};
use crate::jobs::Jobs;

/// Each task a batch.
const EACH: [&str; 2] = ["--batch-minutes", "0"];

fn strings(flags: &[String]) -> Vec<&str> {
    flags.iter().map(String::as_str).collect()
}

#[test]
fn the_array_gives_the_bytes_of_the_pipe_and_runs_in_strides_where_it_must() {
    let (Some(cluster), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("array", "frames=6", 3);
    jobs.emit(&[&EACH[..], &["--gres", "gpu:1", "--partition", "main"]].concat());

    // as if from within a job, and with a user's own defaults: neither counts
    let leaks =
        [("SLURM_JOB_ID", "7"), ("SLURM_NTASKS", "9"), ("SBATCH_PARTITION", "nowhere"), ("SQUEUE_STATES", "CD")];
    let told = jobs.submit(&leaks);
    assert!(told.contains("6 of 6 elements"), "twelve batches, where an array may have six: {told}");
    jobs.wait(90);
    jobs.assert_complete();

    let runs = jobs.runs();
    assert_eq!(runs.len(), 12);
    let elements: BTreeSet<_> = runs.iter().map(|run| run.element.as_str()).collect();
    assert_eq!(elements.into_iter().collect::<Vec<_>>(), ["0", "1", "2", "3", "4", "5"]);
    for run in &runs {
        assert_eq!((run.cpus.as_str(), run.arguments.as_str()), ("4", "--engines 2 --threads 2"));
        assert!(run.gpus == "0" || run.gpus == "1", "one GPU, not {}", run.gpus);
    }
    let log = jobs.log(1);
    for line in ["batches/01/000001.jsonl: ai-integrate ended with status 0", "batches/01/000007.jsonl: gather ended"] {
        assert!(log.contains(line), "{log}");
    }
    // each scan was put together by an element, before the closing gather
    assert_eq!(digests(&content(&jobs.dir.join("summaries"))), jobs.summary());
    let status = jobs.call("status");
    assert!(status.contains("12 of 12 done, 0 to do") && status.contains("speed"), "{status}");
    assert!(jobs.call("submit").contains("nothing to submit: all is integrated"));

    // results that are lost are made again
    fs::remove_dir_all(Data::get().out("array")).unwrap();
    assert_eq!(Data::get().plan("array", "frames=6", 3), jobs.plan, "and the recipe is back");
    fs::remove_file(jobs.dir.join("summary.jsonl")).unwrap();
    jobs.submit(&[]);
    jobs.wait(90);
    jobs.assert_complete();
    assert!(cluster.ask("squeue", &["--noheader", "--name=no-such"]).is_empty());
}

#[test]
fn no_more_than_n_workers_run_at_a_time_and_status_says_how_far_they_are() {
    let (Some(_), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("workers", "frames=5", 1);
    jobs.emit(&[&EACH[..], &["--n-workers", "2"]].concat());
    jobs.submit(&[("SLOW", "2")]);
    let (most, status) = (Cell::new(0), Cell::new(String::new()));
    until(60, "all are done", || {
        most.set(jobs.queued("RUNNING").len().max(most.get()));
        if jobs.done().len() == 2 && most.get() == 2 {
            status.set(jobs.call("status"));
        }
        jobs.done().len() == 5
    });
    assert_eq!(most.get(), 2);
    let status = status.take();
    for part in
        [" of 5 done, ", " running, ", " waiting", "speed  ", "/s; what is to do takes 1 min", "JOBID PARTITION"]
    {
        assert!(status.contains(part), "{part}: {status}");
    }
    jobs.wait(30);
    jobs.assert_complete();
}

#[test]
fn a_drained_element_goes_on_and_a_cancelled_one_stays_cancelled() {
    let (Some(cluster), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("drained", "frames=3", 1);
    let said = jobs.emit(&strings(&jobs.batches(2)));
    assert!(said.contains("8 tasks in 2 batches"), "{said}");
    jobs.submit(&[("SLOW", "1.5")]);
    let (array, tasks) = (jobs.array(), jobs.tasks());
    until(30, "both have done a task", || [0, 4].iter().all(|&task| jobs.done().contains(&tasks[task])));

    // what SLURM sends before the walltime, and what a user sends
    cluster.ask("scancel", &["--batch", "--signal=USR1", &format!("{array}_0")]);
    cluster.ask("scancel", &[&format!("{array}_1")]);
    jobs.wait(60);

    let log = jobs.log(0);
    assert!(log.contains("status 75") && log.contains("requeued") && log.contains("start 2"), "{log}");
    assert!(tasks[..4].iter().all(|task| jobs.done().contains(task)));
    let log = jobs.log(1);
    assert!(!log.contains("requeued") && !log.contains("start 2"), "{log}");
    assert!(!jobs.done().contains(&tasks[7]));
    assert!(jobs.is_judged() && jobs.summary().is_empty(), "the closing gather ran, and the scan is not complete");

    // only what is missing is submitted, and its work is not done twice
    let told = jobs.submit(&[]);
    assert!(told.contains("1 of 2 elements"), "{told}");
    jobs.wait(60);
    jobs.assert_complete();
    assert_eq!(jobs.runs().iter().filter(|run| run.element == "0").count(), 2);
}

#[test]
fn an_element_that_drains_with_nothing_done_is_not_requeued() {
    let (Some(cluster), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("nothing", "frames=12", 1);
    jobs.emit(&["--batch-minutes", "10"]);
    jobs.submit(&[("HOLD", "30")]);
    until(30, "it runs", || !jobs.runs().is_empty());
    std::thread::sleep(std::time::Duration::from_millis(500));
    cluster.ask("scancel", &["--batch", "--signal=USR1", &format!("{}_0", jobs.array())]);
    jobs.wait(60);
    let log = jobs.log(0);
    assert!(log.contains("status 76") && !log.contains("requeued"), "{log}");
    assert_eq!(jobs.runs().len(), 1);
    assert!(jobs.is_judged() && jobs.done().is_empty());
}

#[test]
fn at_its_walltime_an_element_drains_and_is_requeued_and_resumes() {
    // for as long as this takes, other tests have the nodes: not node1
    let Some(_) = Cluster::get() else { return };
    let jobs = Jobs::new("walltime", "frames=1", 1);
    // SLURM looks every 30 s, and 30 s ahead: the signal comes 4 to 34 s after the start
    let flags = ["--batch-minutes", "100", "--rate", "1G", "--time", "1", "--drain-seconds", "26"];
    jobs.emit(&[&flags[..], &["--nodelist", "node1"]].concat());
    jobs.submit(&[("SLOW", "1.6")]);
    jobs.wait(180);
    let log = jobs.log(0);
    assert!(log.contains("status 75") && log.contains("start 2"), "{log}");
    jobs.assert_complete();
}

#[test]
fn a_killed_integrator_leaves_the_rest_and_what_is_missing_is_resubmitted_in_smaller_batches() {
    let (Some(_), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("killed", "frames=3", 1);
    jobs.emit(&[&strings(&jobs.batches(2))[..], &["--mem", "300M"]].concat());
    let tasks = jobs.tasks();
    jobs.submit(&[("KILL", &tasks[1]), ("SLOW", "0.5")]);
    let refused = jobs.script("resubmit").output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("waiting or running"), "{refused:?}");
    jobs.wait(60);
    let done = jobs.done();
    assert!(tasks[4..].iter().all(|task| done.contains(task)) && !done.contains(&tasks[1]), "{done:?}");
    assert!(jobs.log(0).contains("ai-integrate ended with status 137"), "{}", jobs.log(0));
    assert!(jobs.is_judged() && jobs.summary().is_empty());
    let before = jobs.runs().len();

    let told = jobs.call("resubmit");
    // what was killed may have been for its memory
    assert!(told.contains("batches of up to 2 tasks, up to 4 before") && told.contains("--mem=600M"), "{told}");
    let again = content(&jobs.dir.join("batches/02"));
    assert!(tasks[4..].iter().all(|task| !again.contains(task.as_str())), "what is done is not done again");
    jobs.wait(60);
    jobs.assert_complete();
    assert_eq!(jobs.runs().len() - before, again.lines().count().div_ceil(2));
}

#[test]
fn an_element_out_of_memory_is_given_more() {
    let (Some(_), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("memory", "frames=12", 1);
    jobs.emit(&["--mem", "12M", "--batch-minutes", "10"]);
    // memory is looked at every second
    jobs.submit(&[("HOLD", "1"), ("SLOW", "2")]);
    jobs.wait(60);
    assert!(jobs.log(0).contains("memory limit") && jobs.summary().is_empty(), "{}", jobs.log(0));
    for expected in ["--mem=24M", "--mem=48M", "--mem=96M"] {
        let told = jobs.call("resubmit");
        assert!(told.contains(expected), "{told}");
        jobs.wait(60);
        if !jobs.summary().is_empty() {
            break;
        }
    }
    jobs.assert_complete();
}

#[test]
fn a_node_that_goes_down_costs_a_restart() {
    // all other tests' jobs are elsewhere or have ended
    let (Some(cluster), Ok(_nodes)) = (Cluster::get(), NODES.write()) else { return };
    let jobs = Jobs::new("down", "frames=12", 1);
    jobs.emit(&[&EACH[..], &["--exclude", "node1"]].concat());
    jobs.submit(&[("SLOW", "3")]);
    until(30, "they run", || jobs.runs().len() == 2);
    let node = jobs.runs()[0].node.clone();
    let set = |state: &str| {
        cluster.ask("scontrol", &["update", &format!("nodename={node}"), &format!("state={state}"), "reason=test"])
    };
    set("down");
    jobs.wait(90);
    set("resume");
    jobs.assert_complete();
    let runs = jobs.runs();
    let again: Vec<_> = runs.iter().skip(2).collect();
    assert!(!again.is_empty() && again.iter().all(|run| run.node != node), "{runs:?}");
    assert!(jobs.log(again[0].element.parse().unwrap()).contains("start 2"));
}

#[test]
fn cancel_ends_all_and_submit_goes_on() {
    let (Some(_), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("cancelled", "frames=8", 1);
    jobs.emit(&EACH);
    jobs.submit(&[("HOLD", "60")]);
    assert!(jobs.call("submit").contains("nothing to submit: what is missing is waiting or running"));
    assert!(jobs.call("cancel").contains("cancelled"));
    jobs.wait(30);
    assert!(jobs.call("cancel").contains("nothing to cancel"));
    // without it, jobs would fail and leave no word of why
    fs::remove_dir_all(jobs.dir.join("logs")).unwrap();
    assert!(jobs.call("submit").contains("3 of 3 elements"));
    jobs.wait(60);
    jobs.assert_complete();
}

#[test]
fn an_array_that_is_cancelled_again_and_again_gives_the_bytes_of_the_pipe() {
    let (Some(_), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("interrupted", "frames=1", 3);
    jobs.emit(&["--batch-minutes", "10"]);
    for _ in 0..3 {
        jobs.submit(&[]);
        until(60, "it runs", || !jobs.queued("RUNNING").is_empty());
        // whenever it comes: while it starts, integrates, or gathers
        jobs.call("cancel");
        jobs.wait(60);
    }
    jobs.call("resubmit");
    jobs.wait(60);
    jobs.assert_complete();
}

#[test]
fn partitions_of_two_architectures_share_a_plan() {
    let (Some(_), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("shared", "frames=4", 1);
    let (one, other) = (programs("x86 bin"), programs("power's bin"));
    let bins = [format!("gpu={}", one.display()), format!("p9gpu={}", other.display())];
    // six of a node's eight CPUs: a job a node
    let size = ["--partition", "any", "--n-workers", "3", "--cores", "6", "--bin", &bins[0], "--bin", &bins[1]];
    let said = jobs.emit(&[&EACH[..], &size].concat());
    assert!(said.contains("= 6 engines, 18 CPUs, 3 GPUs"), "{said}");
    jobs.submit(&[("SLOW", "3")]);
    jobs.wait(120);
    jobs.assert_complete();
    let runs = jobs.runs();
    for run in &runs {
        let bin = if run.node == "node3" { &other } else { &one };
        assert_eq!(run.program, bin.join("ai-integrate").to_str().unwrap(), "{run:?}");
    }
    let nodes: BTreeSet<_> = runs.iter().map(|run| run.node.as_str()).collect();
    assert!(nodes.contains("node3") && nodes.len() > 1, "{runs:?}");
}
