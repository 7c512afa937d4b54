//! slurm-emit's job array at the limits of time, memory and number of jobs, on a real SLURM.

use std::fs;

use super::array::as_strs;
use super::cluster::{Cluster, NODES};
use super::dataset::{read_record_files, records};
use super::jobs::Jobs;

#[test]
fn at_its_walltime_an_element_drains_and_is_requeued_and_resumes() {
    // for as long as this takes, other tests have the nodes: not node1
    let Some(_) = Cluster::get() else { return };
    let jobs = Jobs::new("walltime", "frames=1", 1);
    // SLURM looks every 30 s, and 30 s ahead: the signal comes 10 to 40 s after the start
    let flags = ["--batch-minutes", "100", "--rate", "1G", "--time", "1", "--drain-seconds", "20"];
    jobs.emit(&[&flags[..], &["--nodelist", "node1"]].concat());
    jobs.submit(&[("SLOW", "1.8")]);
    jobs.wait();
    let log = jobs.log(0);
    assert!(log.contains("status 75") && log.contains("start 2"), "{log}");
    jobs.assert_complete();
}

#[test]
fn an_element_that_is_killed_at_its_walltime_is_cut_smaller() {
    let (Some(_), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("timeout", "scan", 1);
    jobs.emit(&["--time", "1", "--drain-seconds", "1"]);
    jobs.submit(&[("HANG", &jobs.tasks()[0])]);
    jobs.wait();
    let log = jobs.log(0);
    assert!(log.contains("DUE TO TIME LIMIT") && !log.contains("start 2"), "{log}");
    assert!(jobs.is_gathered() && jobs.summary().is_empty());

    // its one task is cut between frames
    let told = jobs.call("resubmit");
    assert!(
        told.contains("batches/02: 2 batches of up to ")
            && told.contains("2 batches in 2 elements"),
        "{told}"
    );
    let again = read_record_files(&jobs.dir.join("batches/02"));
    let mut ranges: Vec<_> = records(&again).map(|task| task["range"].to_string()).collect();
    ranges.sort();
    assert_eq!(ranges, ["[[0,12]]", "[[12,24]]"]);
    assert!(
        records(&again).all(|task| task["id"] == jobs.tasks()[0].as_str()),
        "the plan's own id"
    );
    jobs.wait();
    jobs.assert_complete();
    assert_eq!(jobs.runs().len(), 3);
    assert!(jobs.call("resubmit").contains("nothing to submit: all tasks are integrated"));
}

#[test]
fn a_killed_integrator_leaves_the_rest_and_what_is_missing_is_resubmitted_in_smaller_batches() {
    let (Some(_), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("killed", "frames=3", 1);
    jobs.emit(&[&as_strs(&jobs.batches(2))[..], &["--mem", "300M"]].concat());
    let tasks = jobs.tasks();
    jobs.submit(&[("KILL", &tasks[1]), ("SLOW", "0.5")]);
    let refused = jobs.script("resubmit").output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("waiting or running"), "{refused:?}");
    jobs.wait();
    let done = jobs.done();
    assert!(
        tasks[4..].iter().all(|task| done.contains(task)) && !done.contains(&tasks[1]),
        "{done:?}"
    );
    assert!(jobs.log(0).contains("ai-integrate ended with status 137"), "{}", jobs.log(0));
    assert!(jobs.is_gathered() && jobs.summary().is_empty());
    let before = jobs.runs().len();

    let told = jobs.call("resubmit");
    // what was killed may have been for its memory
    assert!(
        told.contains("batches/02: ")
            && told.contains(" batches of up to ")
            && told.contains("--mem=600M"),
        "{told}"
    );
    let again = read_record_files(&jobs.dir.join("batches/02"));
    assert!(
        tasks[4..].iter().all(|task| !again.contains(task.as_str())),
        "what is done is not done again"
    );
    jobs.wait();
    jobs.assert_complete();
    // Each batch is begun once. Tasks differ in size, so that four of them may be three batches.
    let batches = fs::read_dir(jobs.dir.join("batches/02")).unwrap().count();
    assert!((2..=3).contains(&batches), "{told}");
    assert_eq!(jobs.runs().len() - before, batches);
}

#[test]
fn an_element_out_of_memory_is_given_more() {
    let (Some(_), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("memory", "frames=12", 1);
    jobs.emit(&["--mem", "12M", "--batch-minutes", "10"]);
    // memory is looked at every second
    jobs.submit(&[("HOLD", "1"), ("SLOW", "2")]);
    jobs.wait();
    assert!(jobs.log(0).contains("memory limit") && jobs.summary().is_empty(), "{}", jobs.log(0));
    for expected in ["--mem=24M", "--mem=48M", "--mem=96M"] {
        let told = jobs.call("resubmit");
        assert!(told.contains(expected), "{told}");
        jobs.wait();
        if !jobs.summary().is_empty() {
            break;
        }
    }
    jobs.assert_complete();
}

#[test]
fn where_a_user_may_submit_few_jobs_the_array_is_smaller_and_leaves_one_to_gather() {
    let (Some(cluster), Ok(_nodes)) = (Cluster::with_accounting(), NODES.read()) else { return };
    // The limit is of the user, so that one plan after another has it for itself.
    let jobs = Jobs::new("few", "frames=6", 3);
    jobs.emit(&["--batch-minutes", "0", "--partition", "few", "--check"]);
    // Jobs of others count, too.
    let other = cluster.ask(
        "sbatch",
        &["--parsable", "--hold", "--partition=few", "--output=/dev/null", "--wrap=true"],
    );
    let told = jobs.submit(&[("SLOW", "0.2")]);
    assert!(
        told.contains("12 batches in 2 elements") && told.contains("gather of all results"),
        "{told}"
    );
    assert!(told.contains("SLURM takes no more jobs of this user now"), "{told}");
    cluster.ask("scancel", &[other.trim()]);
    jobs.wait();
    jobs.assert_complete();
    assert_eq!(jobs.runs().len(), 12);

    // No job is left for the array: nothing stays behind, and what SLURM says is told.
    let none_left = [
        "--hold",
        "--partition=few",
        "--output=/dev/null",
        "--array=0-3",
        "--wrap=true",
        "--parsable",
    ];
    let others = cluster.ask("sbatch", &none_left);
    jobs.lose_patterns();
    let output = jobs.script("submit").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(2) && said.contains("QOSMaxSubmitJobPerUserLimit"),
        "{said}"
    );
    assert!(jobs.queued("all").is_empty());
    cluster.ask("scancel", &[&format!("{}_3", others.trim())]);
    let output = jobs.script("submit").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(2) && said.contains("sbatch refused job.sbatch"),
        "{said}"
    );
    assert!(jobs.queued("all").is_empty(), "a gather without an array is of no use");
    cluster.ask("scancel", &[others.trim()]);
}
