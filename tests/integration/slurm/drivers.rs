//! The drivers of dask and Ray that are told to end while results come: on this machine.

use std::process::{Child, Command};
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

fn send(signal: &str, driver: &Child) {
    output_of(Command::new("kill").args([signal, &driver.id().to_string()]));
}

#[test]
fn what_ended_before_a_driver_is_cancelled_is_kept() {
    for (target, module) in DRIVERS {
        let Some(python) = python_with(module) else { return };
        let jobs = emit(target, &format!("keeps-{target}"), &python, &[]);
        let mut driver = jobs.script("submit").env("SLOW", "3").spawn().unwrap();
        wait_until("a task runs", || !jobs.runs().is_empty());
        // Its result comes while the driver can't look at it.
        send("-STOP", &driver);
        let parts = jobs.out().join(".azpipe/parts");
        wait_until("a part", || walk(&parts).iter().any(|path| path.ends_with(".h5")));
        std::thread::sleep(Duration::from_secs(6));
        send("-TERM", &driver);
        send("-CONT", &driver);
        assert_eq!(driver.wait().unwrap().code(), Some(75), "{target}");
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
        let mut driver = jobs.script("submit").spawn().unwrap();
        wait_until("all is done", || jobs.done().len() == 4);
        std::thread::sleep(Duration::from_secs(2));
        send("-TERM", &driver);
        assert_eq!(driver.wait().unwrap().code(), Some(75), "{target}");
        assert!(!jobs.is_gathered(), "{target}");
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
