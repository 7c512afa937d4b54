//! Little memory (`ulimit -v`): each filter says what it lacks, and what is on disk is whole.

use std::process::{Command, Stdio};

use crate::support::filters::{FILTERS, directory_with_poni};
use crate::support::{NO_ARGUMENTS, Outcome, Workspace, feed, program, run, small_options};

/// Statuses of filters: 75 and 76 are those of a run that may be repeated.
const STATUSES: [i32; 5] = [0, 1, 2, 75, 76];

#[test]
fn a_limit_that_is_too_low_for_anything_is_told() {
    for filter in FILTERS {
        let place = directory_with_poni();
        for (kilobytes, is_enough) in [(65_535, false), (4_000_000, true)] {
            let script = format!("ulimit -v {kilobytes}; exec \"$@\" --version");
            let ran = filter.in_shell(place.path(), &script).output().expect("it ends");
            let told = String::from_utf8_lossy(&ran.stderr);
            if is_enough {
                assert_eq!(ran.status.code(), Some(0), "{filter:?}: {told}");
            } else {
                let expected =
                    "the address space is limited to 65535 kB; expected 65536 kB or more";
                assert_eq!(ran.status.code(), Some(2), "{filter:?}: {told}");
                assert!(told.contains(expected), "{filter:?}: {told}");
            }
        }
    }
}

/// Runs a filter under a limit of its address space, in kB.
fn run_with_limit(kilobytes: u64, name: &str, arguments: &[&str], input: &str) -> Outcome {
    let mut command = Command::new("sh");
    let script = format!("ulimit -v {kilobytes}; ulimit -c 0; exec \"$@\"");
    command.args(["-c", &script, "sh", program(name)]).args(arguments);
    // Without memory for a backtrace, the standard library may wait forever for its own lock.
    command.env("RUST_BACKTRACE", "0");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    feed(command, input).into()
}

#[test]
fn whatever_memory_there_is_the_results_are_whole_or_a_rerun_makes_them() {
    let workspace = Workspace::new(&small_options());
    let poni = workspace.data.poni.to_str().unwrap().to_owned();
    let raw = workspace.data.raw.to_str().unwrap().to_owned();
    let plan = ["--poni", &poni, "--npt", "500", "--by", "frames=12", "--out"];
    let quiet = workspace.path("quiet");
    let tasks =
        run("plan-split", &[&plan[..], &[quiet.to_str().unwrap()]].concat(), &workspace.scans);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks.assert_success().stdout);
    let quiet = run("gather", NO_ARGUMENTS, &results.assert_success().stdout).assert_success();
    let digest = |gathered: &Outcome| gathered.records("summary")[0]["data_digest"].clone();
    let mut told = 0;
    for megabytes in (64..=256).step_by(12) {
        let limit = megabytes << 10;
        let out = workspace.path(&format!("out-{megabytes}"));
        let plan = [&plan[..], &[out.to_str().unwrap()]].concat();
        // Each filter under the limit, with the input that it would have had.
        let found = run_with_limit(limit, "scan-find", &[&raw], "");
        let planned = run_with_limit(limit, "plan-split", &plan, &workspace.scans);
        let tasks = run("plan-split", &plan, &workspace.scans).assert_success().stdout;
        let threads = ["--threads", "2", "--engine", "cpu"];
        let integrated = run_with_limit(limit, "ai-integrate", &threads, &tasks);
        let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
        let gathered = run_with_limit(limit, "gather", &["--keep-parts"], &results);
        for (name, ran) in [
            ("scan-find", &found),
            ("plan-split", &planned),
            ("ai-integrate", &integrated),
            ("gather", &gathered),
        ] {
            let about = format!("{name}, {megabytes} MiB: {}: {}", ran.status, ran.stderr);
            // Rust aborts a process that has no memory, and says so. The HDF5 library crashes, of
            // which the shell tells.
            let is_aborted = ran.status == 128 + 6;
            let has_crashed = ran.status == 128 + 11;
            assert!(STATUSES.contains(&ran.status) || is_aborted || has_crashed, "{about}");
            assert!(ran.status == 0 || has_crashed || !ran.stderr.trim().is_empty(), "{about}");
            told += usize::from(ran.status != 0);
        }
        if gathered.status == 0 {
            assert_eq!(digest(&gathered), digest(&quiet), "{megabytes} MiB");
        }
        let again = run("gather", NO_ARGUMENTS, &results).assert_success();
        assert_eq!(digest(&again), digest(&quiet), "{megabytes} MiB");
    }
    assert!(told > 0, "no limit was too low");
}
