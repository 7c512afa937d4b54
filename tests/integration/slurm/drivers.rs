//! The drivers of dask and Ray that are told to end while results come: on this machine.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::cluster::{output_of, shared_directory, wait_until};
use super::jobs::Jobs;
use super::scripts::write_program;
use crate::support::{program, python_with};

const DRIVERS: [(&str, &str); 2] = [("dask", "dask_jobqueue"), ("ray", "ray")];

/// A directory of scripts for a driver with one engine on this machine.
fn emit(target: &str, name: &str, python: &str, flags: &[&str]) -> Jobs {
    let jobs = Jobs::new_without_slurm(name, "frames=6", 1);
    let size = ["--n-workers", "1", "--ai-engines-per-worker", "1", "--python", python];
    let place = ["--target", target, "--partition", "local"];
    jobs.emit(&[&place[..], &size, flags].concat());
    jobs
}

fn send(signal: &str, to: &str) {
    output_of(Command::new("kill").args([signal, "--", to]));
}

/// Returns the id of the driver that `submit` runs.
fn driver_of(submit: &Child) -> String {
    let mut find = Command::new("pgrep");
    find.args(["--parent", &submit.id().to_string(), "--full", "driver.py"]);
    output_of(&mut find).trim().to_owned()
}

#[test]
fn what_ended_before_a_driver_is_cancelled_is_kept() {
    for (target, module) in DRIVERS {
        let Some(python) = python_with(module) else { return };
        let jobs = emit(target, &format!("keeps-{target}"), &python, &[]);
        let mut submit = jobs.script("submit").env("SLOW", "3").spawn().unwrap();
        wait_until("a task runs", || !jobs.runs().is_empty());
        // Its result comes while the driver can't look at it.
        let driver = driver_of(&submit);
        send("-STOP", &driver);
        let parts = jobs.out().join(".azpipe/parts");
        wait_until("a part", || walk(&parts).iter().any(|path| path.ends_with(".h5")));
        std::thread::sleep(Duration::from_secs(6));
        send("-TERM", &submit.id().to_string());
        send("-CONT", &driver);
        assert_eq!(submit.wait().unwrap().code(), Some(75), "{target}");
        assert!(!jobs.done().is_empty() && !jobs.is_gathered(), "{target}");
    }
}

#[test]
fn a_driver_that_is_cancelled_after_its_last_task_ends_without_the_closing_gather() {
    for (target, module) in DRIVERS {
        let Some(python) = python_with(module) else { return };
        // Until the gather beside the driver has ended, no closing gather begins.
        let bin = shared_directory().join(format!("slow gather {target}"));
        std::fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(program("ai-integrate"), bin.join("ai-integrate")).unwrap();
        std::os::unix::fs::symlink(program("gather"), bin.join("real")).unwrap();
        let gather = "[[ $* != *--complete-only* ]] || { cat > /dev/null; sleep 6; exit; }\n\
                      exec \"${0%/*}/real\" \"$@\"";
        write_program(&bin.join("gather"), gather);
        let bin = bin.to_str().unwrap();
        let jobs = emit(target, &format!("ends-{target}"), &python, &["--bin", bin]);
        let mut submit = jobs.script("submit").spawn().unwrap();
        wait_until("all is done", || jobs.done().len() == 4);
        std::thread::sleep(Duration::from_secs(2));
        send("-TERM", &submit.id().to_string());
        assert_eq!(submit.wait().unwrap().code(), Some(75), "{target}");
        assert!(!jobs.is_gathered(), "{target}");
        jobs.call("submit");
        jobs.assert_complete();
    }
}

/// Whenever INT or `cancel` comes, as Ray starts and as tasks run, the driver ends in order, and nothing is left.
#[test]
fn a_driver_ends_in_order_at_any_time() {
    for (target, module) in DRIVERS {
        let Some(python) = python_with(module) else { return };
        let jobs = emit(target, &format!("keyboard-{target}"), &python, &[]);
        jobs.set_limit("limit", 2);
        for (number, seconds) in [0.2, 1.5, 4.0, 8.0].into_iter().enumerate() {
            let mut submit = jobs.script("submit");
            submit.process_group(0).stderr(Stdio::piped());
            let submit = submit.spawn().unwrap();
            wait_until("it has begun", || {
                let lock = std::fs::read_to_string(jobs.dir.join(".lock")).unwrap_or_default();
                lock.starts_with(&format!("{} ", submit.id()))
            });
            std::thread::sleep(Duration::from_secs_f64(seconds));
            match number % 2 {
                0 => send("-INT", &format!("-{}", submit.id())),
                _ => drop(jobs.call("cancel")),
            }
            let ended = submit.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&ended.stderr);
            let is_orderly = ended.status.code() == Some(75);
            assert!(is_orderly && said.contains("submit: cancelled"), "{target}: {said}");
            assert!(!said.contains("Traceback"), "{target}, {seconds} s: {said}");
        }
        jobs.lift_limit("limit");
        jobs.call("submit");
        jobs.assert_complete();
    }
}

/// Returns the paths of all files below a directory that may not be there yet.
fn walk(top: &std::path::Path) -> Vec<String> {
    let mut find = Command::new("find");
    find.arg(top).args(["-type", "f"]);
    String::from_utf8_lossy(&find.output().unwrap().stdout).lines().map(str::to_owned).collect()
}
