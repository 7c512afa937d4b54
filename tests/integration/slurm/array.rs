//! slurm-emit's job array on a real SLURM, with the real programs: whatever happens to its jobs,
//! the patterns are those of a plain pipe.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::cluster::{Cluster, NODES, output_of, shared_directory, wait_until};
use super::dataset::{make_program_directory, parse_digests, read_record_files};
use super::jobs::Jobs;
use crate::support::{capture, program, read_files_below};

/// Each task a batch.
const EACH: [&str; 2] = ["--batch-minutes", "0"];

pub fn as_strs(flags: &[String]) -> Vec<&str> {
    flags.iter().map(String::as_str).collect()
}

#[test]
fn the_array_gives_the_bytes_of_the_pipe_and_runs_in_strides_where_it_must() {
    let (Some(cluster), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("array", "frames=6", 3);
    jobs.emit(&[&EACH[..], &["--gres", "gpu:1", "--partition", "main"]].concat());

    // as if from within a job, and with a user's own defaults: neither counts
    let leaks = [
        ("SLURM_JOB_ID", "7"),
        ("SLURM_NTASKS", "9"),
        ("SBATCH_PARTITION", "nowhere"),
        ("SQUEUE_STATES", "CD"),
    ];
    let told = jobs.submit(&leaks);
    assert!(
        told.contains("12 batches in 6 elements"),
        "twelve batches, where an array may have six: {told}"
    );
    jobs.wait();
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
    for line in [
        "batches/01/000001.jsonl: ai-integrate ended with status 0",
        "batches/01/000007.jsonl: gather ended",
    ] {
        assert!(log.contains(line), "{log}");
    }
    // each scan was put together by an element, before the closing gather
    assert_eq!(parse_digests(&read_record_files(&jobs.dir.join("summaries"))), jobs.summary());
    let status = jobs.status();
    assert!(status.contains("12 of 12 done, 0 to do") && status.contains("speed"), "{status}");
    assert!(jobs.call("submit").contains("nothing to submit: all tasks are integrated"));

    // results that are lost are made again
    jobs.lose_patterns();
    fs::remove_file(jobs.dir.join("summary.jsonl")).unwrap();
    jobs.submit(&[]);
    jobs.wait();
    jobs.assert_complete();
    assert!(cluster.ask("squeue", &["--noheader", "--name=no-such"]).is_empty());
}

#[test]
fn no_more_than_n_workers_run_at_a_time_and_status_says_how_far_they_are() {
    let (Some(_), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("workers", "workers=5", 1);
    jobs.emit(&[&EACH[..], &["--n-workers", "2"]].concat());
    jobs.set_limit("limit", 2);
    jobs.submit(&[]);
    let most = Cell::new(0);
    wait_until("some is done", || {
        most.set(jobs.queued("RUNNING").len().max(most.get()));
        most.get() >= 2 && !jobs.done().is_empty()
    });
    let status = jobs.status();
    jobs.lift_limit("limit");
    wait_until("all are done", || {
        most.set(jobs.queued("RUNNING").len().max(most.get()));
        jobs.done().len() == 5
    });
    assert_eq!(most.get(), 2);
    for part in [
        " of 5 done, ",
        " running, ",
        " waiting",
        "speed  ",
        "/s; the rest takes about 1 min",
        "JOBID PARTITION",
    ] {
        assert!(status.contains(part), "{part}: {status}");
    }
    jobs.wait();
    jobs.assert_complete();
}

#[test]
fn a_drained_element_goes_on_and_a_cancelled_one_stays_cancelled() {
    let (Some(cluster), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("drained", "frames=3", 1);
    let said = jobs.emit(&as_strs(&jobs.batches(2)));
    assert!(said.contains("8 tasks in 2 batches"), "{said}");
    jobs.set_limit("element_limit", 3);
    jobs.submit(&[]);
    let (array, tasks) = (jobs.array(), jobs.tasks());
    wait_until("both have done a task", || {
        [0, 4].iter().all(|&task| jobs.done().contains(&tasks[task]))
    });

    // what SLURM sends before the walltime, and what a user sends
    cluster.ask("scancel", &["--batch", "--signal=USR1", &format!("{array}_0")]);
    cluster.ask("scancel", &[&format!("{array}_1")]);
    wait_until("it goes on", || jobs.log(0).contains("start 2"));
    jobs.lift_limit("element_limit");
    jobs.wait();

    let log = jobs.log(0);
    assert!(log.contains("status 75") && log.contains("requeued"), "{log}");
    assert!(tasks[..4].iter().all(|task| jobs.done().contains(task)));
    let log = jobs.log(1);
    assert!(!log.contains("requeued") && !log.contains("start 2"), "{log}");
    assert!(!jobs.done().contains(&tasks[7]));
    assert!(
        jobs.is_gathered() && jobs.summary().is_empty(),
        "the closing gather ran, and the scan is not complete"
    );

    // only what is missing is submitted, and its work is not done twice
    let told = jobs.submit(&[]);
    assert!(told.contains("1 batch in 1 element\n"), "{told}");
    jobs.wait();
    jobs.assert_complete();
    assert_eq!(
        jobs.runs().iter().filter(|run| run.element == "0").count(),
        3,
        "two starts, and the second array"
    );
}

#[test]
fn an_element_that_drains_with_nothing_done_is_not_requeued() {
    let (Some(cluster), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("nothing", "frames=12", 1);
    jobs.emit(&["--batch-minutes", "10"]);
    jobs.submit(&[("HOLD", "30")]);
    wait_until("it runs", || jobs.handles_usr1());
    cluster.ask("scancel", &["--batch", "--signal=USR1", &format!("{}_0", jobs.array())]);
    jobs.wait();
    let log = jobs.log(0);
    assert!(log.contains("status 76") && !log.contains("requeued"), "{log}");
    assert_eq!(jobs.runs().len(), 1);
    assert!(jobs.is_gathered() && jobs.done().is_empty());
}

#[test]
fn a_node_that_goes_down_costs_a_restart() {
    // all other tests' jobs are elsewhere or have ended
    let (Some(cluster), Ok(_nodes)) = (Cluster::get(), NODES.write()) else { return };
    let jobs = Jobs::new("down", "frames=12", 1);
    jobs.emit(&[&EACH[..], &["--exclude", "node1"]].concat());
    jobs.submit(&[("SLOW", "6")]);
    wait_until("they run", || jobs.runs().len() == 2);
    let node = jobs.runs()[0].node.clone();
    let set = |state: &str| {
        cluster.ask(
            "scontrol",
            &["update", &format!("nodename={node}"), &format!("state={state}"), "reason=test"],
        )
    };
    set("down");
    jobs.wait();
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
    assert!(
        jobs.call("submit").contains("nothing to submit: all missing tasks are waiting or running")
    );
    assert!(jobs.call("cancel").contains("cancelled"));
    jobs.wait();
    assert!(jobs.call("cancel").contains("nothing to cancel"));
    // without it, jobs would fail and leave no word of why
    fs::remove_dir_all(jobs.dir.join("logs")).unwrap();
    assert!(jobs.call("submit").contains("3 batches in 3 elements"));
    jobs.wait();
    jobs.assert_complete();
}

#[test]
fn an_array_that_is_cancelled_again_and_again_gives_the_bytes_of_the_pipe() {
    let (Some(_), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("interrupted", "frames=1", 3);
    jobs.emit(&["--batch-minutes", "10"]);
    for _ in 0..3 {
        jobs.submit(&[("SLOW", "1")]);
        // On an idle machine it may have ended before anybody looks.
        let has_begun = || !jobs.queued("RUNNING").is_empty() || jobs.queued("all").is_empty();
        wait_until("it runs", has_begun);
        // whenever it comes: while it starts, integrates, or gathers
        jobs.call("cancel");
        jobs.wait();
    }
    jobs.call("resubmit");
    jobs.wait();
    jobs.assert_complete();
}

#[test]
fn partitions_of_two_architectures_share_a_plan() {
    let (Some(_), Ok(_nodes)) = (Cluster::get(), NODES.write()) else { return };
    let jobs = Jobs::new("shared", "frames=4", 1);
    let (one, other) = (make_program_directory("x86 bin"), make_program_directory("power's bin"));
    let bins = [format!("gpu={}", one.display()), format!("p9gpu={}", other.display())];
    // six of a node's eight CPUs: a job a node, of which none may be another test's
    let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/profiles/esrf.toml");
    let size = [
        "--profile",
        profile,
        "--partition",
        "any",
        "--n-workers",
        "3",
        "--cores",
        "6",
        "--bin",
        &bins[0],
        "--bin",
        &bins[1],
    ];
    let said = jobs.emit(&[&EACH[..], &size].concat());
    assert!(said.contains("= 6 engines, 18 CPUs, 3 GPUs"), "{said}");
    jobs.submit(&[("SLOW", "3")]);
    jobs.wait();
    jobs.assert_complete();
    let runs = jobs.runs();
    for run in &runs {
        let bin = if run.node == "node3" { &other } else { &one };
        assert_eq!(run.program, bin.join("ai-integrate").to_str().unwrap(), "{run:?}");
    }
    let nodes: BTreeSet<_> = runs.iter().map(|run| run.node.as_str()).collect();
    assert!(nodes.contains("node3") && nodes.len() > 1, "{runs:?}");
}

#[test]
fn done_means_that_each_final_is_there_complete_and_of_the_recipe_of_the_plan() {
    let (Some(_), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("finals", "frames=6", 3);
    jobs.emit(&["--batch-minutes", "10", "--gather-arg=--keep-parts"]);
    jobs.submit(&[]);
    jobs.wait();
    jobs.assert_complete();
    assert!(jobs.status().contains("files  3 of 3 complete, 72 of 72 frames"));

    // As after a closing gather that failed: the parts are there, a summary is left over, and a
    // final is not there.
    let task: serde_json::Value = serde_json::from_str(jobs.plan.lines().next().unwrap()).unwrap();
    let final_file = jobs.out().join(task["final"].as_str().unwrap());
    for script in ["submit", "resubmit"] {
        fs::remove_file(&final_file).unwrap();
        let status = jobs.status();
        assert!(status.contains("files  2 of 3 complete, 72 of 72 frames"), "{status}");
        let told = jobs.call(script);
        assert!(told.contains("gather of all results") && !told.contains("job array"), "{told}");
        jobs.wait();
        jobs.assert_complete();
        assert!(final_file.exists());
    }
    assert!(jobs.call("submit").contains("nothing to submit: all tasks are integrated"));

    // A final of another recipe is no final of this plan.
    let other = jobs.plan.replace(task["recipe_digest"].as_str().unwrap(), &"0".repeat(64));
    fs::write(jobs.dir.join("plan.jsonl"), other).unwrap();
    let status = jobs.status();
    assert!(status.contains("files  0 of 3 complete"), "{status}");
}

#[test]
fn elements_that_make_room_for_other_jobs_are_requeued_and_go_on() {
    // node3 is wanted as a whole
    let (Some(cluster), Ok(_nodes)) = (Cluster::get(), NODES.write()) else { return };
    let jobs = Jobs::new("preempted", "frames=2", 1);
    jobs.emit(&["--partition", "low", "--batch-minutes", "10", "--n-workers", "1"]);
    jobs.set_limit("limit", 8);
    jobs.submit(&[]);
    wait_until("some is done", || !jobs.done().is_empty());
    cluster.ask("srun", &["--partition=high", "--exclusive", "true"]);
    wait_until("it goes on", || jobs.log(0).contains("start 2"));
    jobs.lift_limit("limit");
    jobs.wait();
    let log = jobs.log(0);
    assert!(log.contains("stopped with work left: requeued"), "{log}");
    jobs.assert_complete();
}

#[test]
fn an_element_that_is_completing_does_not_keep_its_tasks() {
    let (Some(_), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("completing", "frames=12", 1);
    jobs.emit(&EACH);
    jobs.submit(&[("HANG", &jobs.tasks()[0])]);
    wait_until("it hangs", || jobs.done().contains(&jobs.tasks()[1]) && jobs.runs().len() == 2);
    jobs.call("cancel");
    wait_until("it completes", || jobs.queued("RUNNING").is_empty());
    let told = jobs.submit(&[]);
    assert!(told.contains("1 batch in 1 element\n"), "{told}");
    jobs.wait();
    jobs.assert_complete();
}

#[test]
fn submit_waits_and_ends_with_the_truth() {
    let (Some(_), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("waited", "frames=12", 2);
    jobs.emit(&EACH);
    let tasks = jobs.tasks();
    let output = jobs.script("submit").arg("--wait").env("KILL", &tasks[1]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1) && said.contains("not all output files are complete"),
        "{said}"
    );
    assert!(jobs.is_gathered() && jobs.summary().len() == 1, "it waited for the closing gather");
    let output = jobs.script("submit").args(["--wait", "--comment=again"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    jobs.assert_complete();
}

#[test]
fn another_user_sees_the_jobs_and_queues_nothing_twice() {
    let (Some(cluster), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("group", "frames=8", 1);
    // What a beam time has: a directory whose group may write, and so may the group of all in it.
    let parent = jobs.dir.parent().unwrap();
    cluster.ask("chgrp", &["nogroup", parent.to_str().unwrap()]);
    fs::set_permissions(parent, fs::Permissions::from_mode(0o2775)).unwrap();
    let open_for_all =
        |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    open_for_all(shared_directory());
    open_for_all(&shared_directory().join("c"));
    let with_umask = |script: &str| {
        let mut command = jobs.command("bash");
        command.args(["-c", &format!("umask 002; {script}"), "-"]).arg(&jobs.dir);
        command
    };
    let mut emit = with_umask("exec \"$2\" --dir \"$1\" --bin \"$3\" --batch-minutes 0");
    emit.arg(program("slurm-emit")).arg(make_program_directory("bin"));
    assert!(capture(emit, &jobs.plan).status.success());
    output_of(with_umask("exec \"$1\"/submit").env("HOLD", "60"));
    let as_nobody = |script: &str| {
        let command = with_umask(&format!("\"$1\"/{script} || test {script} = status"));
        let program = command.get_program().to_owned();
        let mut nobody = jobs.command("setpriv");
        nobody
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(program)
            .args(command.get_args());
        output_of(&mut nobody)
    };
    let status = as_nobody("status");
    assert!(
        status.contains("0 of 3 done")
            && status.contains("azpipe")
            && !status.contains(" 0 running, 0 wait"),
        "{status}"
    );
    let told = as_nobody("submit");
    assert!(told.contains("nothing to submit: all missing tasks are waiting or running"), "{told}");
    jobs.call("cancel");
    jobs.wait();
}

#[test]
fn arguments_of_gather_and_ai_integrate_reach_the_jobs() {
    let (Some(_), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("arguments", "frames=6", 2);
    let passed = [
        "--gather-arg=--average=mean",
        "--gather-arg=--export",
        "--gather-arg=xye",
        "--gather-arg=--layout=integrator",
        "--gather-arg=--merge-all=both",
        "--gather-arg=--report=report.html",
        "--ai-integrate-arg=--batch-frames=8",
    ];
    jobs.emit(&[&EACH[..], &passed, &["--check"]].concat());
    jobs.submit(&[]);
    jobs.wait();
    jobs.assert_complete_beside_merged();
    let in_jobs: Vec<_> = jobs.runs().into_iter().filter(|run| run.job != "-").collect();
    assert!(in_jobs.iter().all(|run| run.arguments.ends_with(" --batch-frames=8")), "{in_jobs:?}");
    let files = read_files_below(&jobs.out());
    let count =
        |end: &str| files.iter().filter(|(path, _)| path.to_string_lossy().ends_with(end)).count();
    assert!(jobs.out().join("both.h5").exists() && jobs.dir.join("report.html").exists());
    assert!(count(".xye") >= 2, "{:?}", files.iter().map(|(path, _)| path).collect::<Vec<_>>());

    let output = jobs.try_emit(&[&EACH[..], &["--gather-arg=--avrage=mean"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(2)
            && said
                .contains("--gather-arg: `--avrage=mean` can't be passed on: unexpected argument"),
        "{said}"
    );
}
