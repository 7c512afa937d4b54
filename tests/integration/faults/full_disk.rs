//! A disk that is full, or fails, ends a filter that writes results with status 2 that names the
//! file, at whichever write.

use std::process::Command;

use sample::{Options, Random};

use super::pipe::{PIPE, Pipe};
use crate::support::fault_shim::preload;
use crate::support::{
    NO_ARGUMENTS, Outcome, Workspace, capture, new_seed, program, run, small_options,
};

#[test]
fn a_result_that_cannot_be_written_is_status_2_with_its_name() {
    let pipe = Pipe::new(2);
    let steps = pipe.quiet(&PIPE);
    for filter in ["ai-integrate", "gather"] {
        let step = steps.iter().find(|step| step.filter == filter).expect("a step");
        for call in ["pwrite", "ftruncate"] {
            let count = step
                .calls
                .iter()
                .find(|(counted, _)| *counted == call)
                .map_or(0, |(_, places)| places.len());
            assert!(count > 0, "{filter} makes results without {call}");
            for k in 1..=count {
                // It may fail once, and be free again when the file is closed; or fail from then
                // on.
                for last in [k, usize::MAX >> 1] {
                    step.before.write(&pipe.state());
                    let ran = pipe.run(
                        filter,
                        &step.input,
                        &[("FAULTS_AT", &format!("{call} {k}-{last} ENOSPC"))],
                    );
                    assert_eq!(ran.status, 2, "{filter}: {call} {k}-{last}: {}", ran.stderr);
                    assert!(
                        ran.stderr.contains(".h5: No space left"),
                        "{filter}: {call} {k}: {}",
                        ran.stderr
                    );
                }
            }
        }
    }
}

#[test]
fn a_file_beyond_the_limit_of_sizes_is_told_with_its_name() {
    let workspace = Workspace::new(&small_options());
    let scans = run("scan-find", &[workspace.path("RAW_DATA")], "").assert_success().stdout;
    let plan = workspace.plan("out", &[]);
    let results = run("ai-integrate", NO_ARGUMENTS, &plan).assert_success().stdout;
    let path = |name: &str| workspace.path(name).display().to_string();
    let [poni, preview, jobs, other] = ["lab6.poni", "preview.png", "jobs", "other"].map(path);
    let runs: [(&str, Vec<&str>, &str, &str); 4] = [
        (
            "plan-split",
            vec!["--poni", &poni, "--out", &other, "--preview", &preview],
            &scans,
            "preview.png",
        ),
        ("ai-integrate", vec!["--force"], &plan, "out"),
        ("gather", vec![], &results, "out"),
        ("slurm-emit", vec!["--dir", &jobs], &plan, "jobs"),
    ];
    for (filter, arguments, input, file) in runs {
        let mut command = Command::new("bash");
        // In blocks of 1024 bytes.
        command.args(["-c", "ulimit -f 1; exec \"$@\"", "bash", program(filter)]).args(arguments);
        let ran = Outcome::from(capture(command, input));
        // Other final files may be smaller: gather goes on with them.
        let status = if filter == "gather" { 1 } else { 2 };
        assert_eq!(ran.status, status, "{filter}: {}", ran.stderr);
        assert!(ran.stderr.contains("File too large"), "{filter}: {}", ran.stderr);
        assert!(ran.stderr.contains(&path(file)), "{filter}: {}", ran.stderr);
    }
    // Nothing is left that hinders the next run.
    run("gather", NO_ARGUMENTS, &results).assert_success();
}

/// Some of the writes of a part of 250 frames by 4000 bins fail, one each time: what is written last
/// (the variance) as likely as what is written first.
#[test]
fn no_failed_write_of_a_part_with_many_blocks_is_sealed() {
    let options = Options { frames: 250, frames_per_file: 250, ..small_options() };
    let workspace = Workspace::new(&options);
    let plan = workspace.plan_without_bins("out", &["--npt", "4000", "--by", "scan"]);
    let top = workspace.path(".").canonicalize().unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    let integrate = |faults: &[(&str, &str)]| {
        let mut command = Command::new(program("ai-integrate"));
        command.args(["--engine", "cpu", "--threads", "1", "--force"]);
        preload(&mut command, &top).envs(faults.iter().copied());
        capture(command, &plan)
    };
    let counted = integrate(&[("FAULTS_LOG", log.path().to_str().unwrap()), ("FAULTS_COUNT", "1")]);
    assert!(counted.status.success());
    let calls = std::fs::read_to_string(log.path()).unwrap();
    let writes = calls.lines().filter(|line| line.starts_with("pwrite ")).count();
    assert!(writes > 30, "{writes} writes of 24 MB");
    let mut random = Random::new(&[new_seed()]);
    for _ in 0..10 {
        let k = 1 + random.index(writes);
        let fault = ["EIO", "ENOSPC", "short"][random.index(3)];
        let ran = Outcome::from(integrate(&[("FAULTS_AT", &format!("pwrite {k} {fault}"))]));
        // A short write is continued.
        let status = if fault == "short" { 0 } else { 2 };
        assert_eq!(ran.status, status, "pwrite {k} {fault} of {writes}: {}", ran.stderr);
    }
    let results = Outcome::from(integrate(&[("FAULTS_UNUSED", "1")])).assert_success().stdout;
    run("gather", NO_ARGUMENTS, &results).assert_success();
}
