//! slurm-emit's scripts for one machine: xargs, GNU parallel and make run the real programs.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use super::cluster::{output_of, shared_directory, wait_until};
use super::dataset::records;
use super::jobs::Jobs;
use crate::support::{capture, program};

/// Two workers of an engine each, six batches of two scans.
pub fn emit(target: &str, name: &str, flags: &[&str]) -> Jobs {
    let jobs = Jobs::new_without_slurm(name, "frames=8", 2);
    let size = ["--n-workers", "2", "--ai-engines-per-worker", "1", "--cores-per-worker", "1"];
    jobs.emit(
        &[&["--target", target, "--batch-minutes", "0", "--check"][..], &size, flags].concat(),
    );
    jobs
}

/// All is done once, a failure is told and mended by running it again, and nothing is done twice.
pub fn assert_runs_what_is_missing(target: &str, flags: &[&str]) {
    let jobs = emit(target, target, flags);
    let tasks = jobs.tasks();
    let output = jobs.script("submit").env("KILL", &tasks[4]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(jobs.summary().len(), 1, "the other scan is complete");
    let status = jobs.status();
    assert!(status.contains("5 of 6 done, 1 to do"), "{status}");
    jobs.call("resubmit");
    jobs.assert_complete();
    assert!(
        jobs.runs().iter().all(|run| run.arguments == "--engines 1 --threads 1"),
        "{:?}",
        jobs.runs()
    );
    let before = jobs.runs().len();
    jobs.call("submit");
    jobs.assert_complete();
    assert_eq!(jobs.runs().len(), before, "nothing is done again");

    // whatever results, job logs and summaries say: patterns that are lost are made again, and no
    // others
    let summary = fs::read_to_string(jobs.dir.join("summary.jsonl")).unwrap();
    let lost =
        records(&summary).find_map(|record| record["final"].as_str().map(str::to_owned)).unwrap();
    fs::remove_file(lost).unwrap();
    assert!(jobs.status().contains("3 of 6 done, 3 to do"));
    jobs.call("submit");
    jobs.assert_complete();
    assert_eq!(jobs.runs().len() - before, 3);
}

#[test]
fn this_machine_runs_the_plan() {
    assert_runs_what_is_missing("local", &[]);
}

#[test]
fn gnu_parallel_runs_the_plan() {
    assert_runs_what_is_missing("parallel", &[]);
}

#[test]
fn make_runs_the_plan() {
    assert_runs_what_is_missing("make", &[]);
}

#[test]
fn check_looks_for_what_the_engines_need() {
    let jobs = Jobs::new_without_slurm("tools", "scan", 1);
    let other = shared_directory().join("tools/bin");
    fs::create_dir(&other).unwrap();
    for name in ["parallel", "make", "xargs"] {
        let says = "#!/bin/sh\necho 'GNU Make 3.82, and other old things'\n";
        fs::write(other.join(name), says).unwrap();
        fs::set_permissions(other.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", other.display(), std::env::var("PATH").unwrap());
    for (target, expected) in [
        ("parallel", "parallel: expected GNU parallel, and found another program"),
        ("make", "make: expected GNU Make 4 or later"),
        ("local", "xargs: expected xargs (GNU findutils), and found another program"),
    ] {
        let mut command = jobs.command(program("slurm-emit"));
        command.args(["--target", target, "--check", "--dir"]).arg(&jobs.dir).env("PATH", &path);
        let output = capture(command, &jobs.plan);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(expected), "{target}: {said}");
    }
}

#[test]
fn make_puts_each_scan_together_when_its_tasks_are_done() {
    let jobs = emit("make", "make-scan", &[]);
    let plan =
        records(&jobs.plan).map(|task| super::dataset::text(&task["scan"])).collect::<Vec<_>>();
    let target = format!("summaries/{}.jsonl", plan[5]);
    let output = jobs.script("submit").args(["-j1", &target]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "the other scan is missing");
    assert_eq!(jobs.runs().len(), 3);
    assert_eq!(jobs.summary().into_keys().collect::<Vec<_>>(), [plan[5].clone()]);
}

#[test]
fn a_scan_of_more_tasks_than_a_command_line_holds_is_made() {
    let jobs = Jobs::new_without_slurm("make-many", "scan", 1);
    let task = jobs.plan.trim_end();
    let id = &jobs.tasks()[0];
    let many: String =
        (0..5000).map(|index| task.replace(id, &format!("{index:016x}")) + "\n").collect();
    let mut emit = jobs.command(program("slurm-emit"));
    emit.args(["--target", "make", "--dir"]).arg(&jobs.dir);
    assert!(capture(emit, &many).status.success());
    let makefile = fs::read_to_string(jobs.dir.join("Makefile")).unwrap();
    assert_eq!(makefile.matches("\tresults/").count(), 5000);
    // all of one batch's results: make has nothing to do but to gather
    for index in 0..5000 {
        fs::write(jobs.dir.join(format!("results/{index:016x}.jsonl")), "").unwrap();
    }
    let output = Command::new("make").arg("-C").arg(&jobs.dir).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn workers_have_cpus_and_gpus_of_their_own() {
    let cpus = std::thread::available_parallelism().unwrap().get();
    let jobs = emit("local", "gpus", &[]);
    let with = |gpus: Option<&str>, slow: &str| {
        let before = jobs.runs().len();
        let mut submit = jobs.script("submit");
        match gpus {
            Some(gpus) => submit.env("CUDA_VISIBLE_DEVICES", gpus),
            None => submit.env_remove("CUDA_VISIBLE_DEVICES"),
        };
        assert!(submit.env("SLOW", slow).output().unwrap().status.success());
        jobs.runs().split_off(before)
    };
    let runs = with(Some("3,GPU-5c1d,MIG-7"), "1");
    let of = |gpu: &str| {
        runs.iter()
            .filter(|run| run.gpus == gpu)
            .map(|run| run.cpu_set.clone())
            .collect::<HashSet<_>>()
    };
    let (first, second) = (of("3"), of("GPU-5c1d"));
    assert!(first.len() == 1 && second.len() == 1, "a worker keeps its GPU and its CPUs: {runs:?}");
    if cpus > 1 {
        assert_ne!(first, second);
    }
    for (gpus, expected) in [("7", "7"), ("", ""), ("NoDevFiles", "NoDevFiles")] {
        jobs.lose_patterns();
        let runs = with(Some(gpus), "0");
        assert!(
            runs.len() == 6 && runs.iter().all(|run| run.gpus == expected),
            "{gpus:?}: {runs:?}"
        );
    }
    let installed = Command::new("nvidia-smi").output().is_ok();
    jobs.lose_patterns();
    assert!(
        with(None, "0").iter().all(|run| (run.gpus == "unset") != installed),
        "none to be found"
    );
    jobs.assert_complete();
}

#[test]
fn what_is_cancelled_drains_and_goes_on_later() {
    for target in ["local", "parallel", "make"] {
        assert_drains_when_cancelled(target, &[]);
    }
}

/// Programs that a submit started can hold its lock after it has ended, and it is not at work then.
#[test]
fn a_lock_that_an_ended_submit_left_is_waited_for() {
    let jobs = emit("local", "left-lock", &[]);
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let lock = jobs.dir.join(".lock");
    let hold = |seconds: &str| {
        fs::write(&lock, format!("{}\n", ended.id())).unwrap();
        let holder = Command::new("flock")
            .arg("--no-fork")
            .arg(&lock)
            .args(["sleep", seconds])
            .spawn()
            .unwrap();
        wait_until("the lock is held", || {
            !Command::new("flock")
                .arg("--nonblock")
                .arg(&lock)
                .arg("true")
                .status()
                .unwrap()
                .success()
        });
        holder
    };
    let mut holder = hold("4");
    assert!(holder.try_wait().unwrap().is_none(), "the lock is held as submit begins");
    jobs.call("submit");
    jobs.assert_complete();
    holder.wait().unwrap();

    let mut holder = hold("60");
    let refused = jobs.script("submit").output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    let expected =
        format!("programs of an earlier submit (process {}) are still at work", ended.id());
    assert!(refused.status.code() == Some(2) && said.contains(&expected), "{said}");
    // A submit that has just begun, and one on another machine, are not looked for here.
    for (owner, expected) in [("", "process unknown"), ("1 elsewhere", "process 1 on elsewhere")] {
        fs::write(&lock, format!("{owner}\n")).unwrap();
        let refused = jobs.script("submit").output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        let expected = format!("another submit is at work here ({expected})");
        assert!(refused.status.code() == Some(2) && said.contains(&expected), "{said}");
    }
    let refused = jobs.script("cancel").output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("run ./cancel there"), "{said}");
    holder.kill().unwrap();
    holder.wait().unwrap();
}

/// `cancel`, INT from the keyboard, and `cancel` after `submit` was killed end all that `submit` runs, and
/// what is missing is done by the next `submit`.
pub fn assert_drains_when_cancelled(target: &str, flags: &[&str]) {
    // The test's own server of HyperQueue is started by `submit`, and would be ended with all that it left.
    let ways = if target == "hyperqueue" { 2 } else { 3 };
    for how in &["cancel", "keyboard", "killed"][..ways] {
        let jobs = emit(target, &format!("{how}-{target}"), flags);
        jobs.set_limit("limit", 4);
        let mut child = jobs.script("submit").process_group(0).spawn().unwrap();
        wait_until("some is done", || jobs.done().len() >= 2);
        let other = jobs.script("submit").output().unwrap();
        assert!(
            String::from_utf8_lossy(&other.stderr).contains("another submit is at work"),
            "{other:?}"
        );
        let mut status = Some(75);
        match *how {
            "keyboard" => {
                let group = format!("-{}", child.id());
                output_of(Command::new("kill").args(["-INT", "--", &group]));
            }
            "killed" => {
                child.kill().unwrap();
                status = child.wait().unwrap().code();
                let told = jobs.call("cancel");
                assert!(told.contains("the programs that it left are ended"), "{target}: {told}");
            }
            _ => drop(jobs.call("cancel")),
        }
        assert_eq!(child.wait().unwrap().code(), status, "{target}, {how}");
        wait_until("nothing is left", || {
            let mut lock = Command::new("flock");
            lock.arg("--nonblock").arg(jobs.dir.join(".lock")).arg("true");
            lock.status().unwrap().success()
        });
        assert!(!jobs.is_gathered(), "{target}, {how}");
        assert!(jobs.call("cancel").contains("nothing to cancel"));
        jobs.lift_limit("limit");
        jobs.call("submit");
        jobs.assert_complete();
    }
}

/// The frames of a Lima file that is missing are lost: the work is done, and nothing is complete.
#[test]
fn lost_frames_are_told_and_no_file_with_any_is_called_complete() {
    for (name, flags, status) in [("lost", &[][..], 1), ("allowed", &["--allow-missing"], 0)] {
        let mut jobs = Jobs::new_without_slurm(name, "frames=8", 1);
        let mut tasks: Vec<serde_json::Value> = records(&jobs.plan).collect();
        let sources = tasks[0]["sources"].as_array_mut().unwrap();
        let frames = sources.remove(0)["frames"].clone();
        tasks[0]["absent"] =
            serde_json::json!([{"range": frames, "kind": "missing", "reason": "file missing"}]);
        jobs.plan = tasks.iter().map(|task| format!("{task}\n")).collect();
        jobs.emit(&[&["--target", "local"], flags].concat());
        assert_eq!(jobs.script("submit").output().unwrap().status.code(), Some(status));
        let told = jobs.status();
        for expected in [
            &format!("files  {} of 1 complete, 17 of 24 frames", 1 - status),
            "3 of 3 done, 0 to do",
            "lost   7 frames without a pattern: missing 7; see summary.jsonl",
        ] {
            assert!(told.contains(expected), "{told}");
        }
    }
}
