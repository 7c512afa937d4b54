//! slurm-emit and its scripts in surroundings that they were not made for: signals, full disks, directories of
//! others, setups that leave nothing as it was.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::cluster::wait_until;
use super::scripts::{emit, read_stderr, targets, write_program};
use super::single_machine;
use super::task;
use crate::support::program;

/// Emits a plan of these tasks for a target, and returns the directory's ./submit.
fn emit_for(target: &str, dir: &Path, tasks: &str) -> Command {
    let emitted = emit(dir, &["--target", target, "--python", "python3"], tasks);
    assert!(emitted.status.success(), "{target}: {}", read_stderr(&emitted));
    Command::new(dir.join("submit"))
}

#[test]
fn a_signal_ends_the_writing_of_batches() {
    let top = tempfile::tempdir().unwrap();
    let (plan, dir) = (top.path().join("plan.jsonl"), top.path().join("jobs"));
    fs::write(&plan, task::lines(20_000)).unwrap();
    let mut command = Command::new(program("slurm-emit"));
    command.args(["--target", "make", "--dir"]).arg(&dir).arg(&plan).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let written = || fs::read_dir(dir.join(".batches")).map_or(0, Iterator::count);
    wait_until("batches are written", || written() > 10);
    let asked = Instant::now();
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(15));
    assert!(asked.elapsed() < Duration::from_secs(20) && !dir.join("batches/01").exists());
}

#[test]
fn a_plan_without_tasks_is_nothing_to_submit() {
    for target in targets() {
        let top = tempfile::tempdir().unwrap();
        let ran = emit_for(&target, &top.path().join("jobs"), "").output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert_eq!(
            said,
            "nothing to submit: the plan has no tasks\n",
            "{target}: {}",
            read_stderr(&ran)
        );
        assert_eq!(ran.status.code(), Some(0), "{target}");
    }
}

#[test]
fn a_directory_that_can_not_be_written_is_told_as_that() {
    for target in ["local", "parallel", "make", "snakemake", "hyperqueue"] {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join("jobs");
        let mut submit = emit_for(target, &dir, &task::lines(1));
        // Whoever runs the tests may be allowed to write everywhere.
        fs::create_dir(dir.join(".lock")).unwrap();
        let ran = submit.output().unwrap();
        let said = read_stderr(&ran);
        let why = format!("submit: {} can not be written: see the message above", dir.display());
        assert!(said.contains(&why) && !said.contains("another submit"), "{target}: {said}");
        assert_eq!(ran.status.code(), Some(2), "{target}");
    }
}

/// Stand-ins for SLURM's commands: sbatch takes every job, and the others note what they are asked.
fn write_slurm_commands(bin: &Path) {
    fs::create_dir(bin).unwrap();
    let note = format!("printf '%s %s\\n' \"${{0##*/}}\" \"$*\" >> {}/asked\n", bin.display());
    for (name, answer) in [
        ("sbatch", "wc -l < ${0%/*}/asked"),
        ("scancel", ""),
        ("squeue", ""),
        ("scontrol", "echo 'MaxArraySize = 1001'"),
    ] {
        write_program(&bin.join(name), &format!("#!/bin/sh\n{note}{answer}\n"));
    }
}

#[test]
fn a_job_that_can_not_be_noted_is_taken_back() {
    for target in ["slurm", "ray"] {
        let top = tempfile::tempdir().unwrap();
        let (dir, bin) = (top.path().join("jobs"), top.path().join("slurm"));
        let mut submit = emit_for(target, &dir, &task::lines(3));
        write_slurm_commands(&bin);
        // No room is left.
        symlink("/dev/full", dir.join("submitted")).unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let ran: Output = submit.env("PATH", path).output().unwrap();
        let said = read_stderr(&ran);
        assert_eq!(ran.status.code(), Some(2), "{target}: {said}");
        assert!(
            said.contains("/submitted can not be written: see the message above; job "),
            "{said}"
        );
        let asked = fs::read_to_string(bin.join("asked")).unwrap();
        let (taken, returned) =
            (asked.matches("sbatch ").count(), asked.matches("scancel ").count());
        assert_eq!((taken, returned), (1, 1), "{target}: {asked}");
    }
}

#[test]
fn setup_lines_have_a_shell_of_their_own_options() {
    for target in ["local", "parallel", "make"] {
        // As modules and Conda do; and an option that would end the scripts where a program is not found.
        let setup = ["--setup", "true ${NO_SUCH_VARIABLE}x; false", "--setup", "set -e"];
        let jobs = single_machine::emit(target, &format!("setup-{target}"), &setup);
        jobs.call("submit");
        jobs.assert_complete();
    }
}

#[test]
fn a_setup_that_ends_the_script_is_no_success() {
    for target in targets() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join("jobs");
        let flags = ["--target", &target, "--python", "python3", "--setup", "exit 0"];
        assert!(emit(&dir, &flags, &task::lines(1)).status.success(), "{target}");
        let mut count = 0;
        for name in ["submit", "job.sbatch", "job.pbs", "worker", "dask.sbatch", "ray.sbatch"] {
            let text = fs::read_to_string(dir.join(name)).unwrap_or_default();
            if !text.contains("ended in a line of --setup") {
                continue;
            }
            let ran = Command::new("bash").arg(dir.join(name)).current_dir(&dir).output().unwrap();
            let said = read_stderr(&ran);
            assert!(
                said.contains(&format!("{name}: ended in a line of --setup")),
                "{target}: {said}"
            );
            assert_eq!(ran.status.code(), Some(2), "{target}: {name}");
            count += 1;
        }
        assert!(count > 0, "{target}");
    }
}
