//! The README's commands, pasted from top to bottom into one shell in an empty directory.

use std::process::Command;

use crate::support::{command_succeeds, fenced_blocks, paste_into_bash, search_path, shown_commands};

const README: &str = include_str!("../../README.md");

/// Commands that can't run here, each the first line of a `console` block: they install azpipe, open windows, or need a cluster.
const NOT_RUN: [&str; 4] = [
    "$ git clone https://github.com/azpipe/azpipe && cd azpipe",
    "$ silx view PROCESSED/LaB6/LaB6_0001/LaB6_0001_scan0001_pilatus.h5",
    "$ pyFAI-average -m mean -o calibrant.edf RAW_DATA/LaB6/LaB6_0001/scan0001/pilatus_0000.h5",
    "$ jobs/submit        # a job array, and a gather after it",
];

/// Returns whether a command succeeds on this machine. On CI, which installs what the README asks for, it must.
fn is_available(command: &str, path: &str) -> bool {
    let available = command_succeeds(command, path);
    assert!(available || std::env::var_os("CI").is_none(), "{command}: fails, and CI needs it");
    available
}

#[test]
fn pasted_into_a_shell_it_runs_from_top_to_bottom() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = search_path();
    let needs = [("jq ", "command -v jq"), ("python3 ", "python3 -c 'import h5py'")];
    let script: String = fenced_blocks(README, "sh")
        .into_iter()
        .filter(|block| needs.iter().all(|(word, check)| !block.contains(word) || is_available(check, &path)))
        .collect();
    let stderr = paste_into_bash(&script, directory.path(), &path).stderr;

    let exists = |file: &str| directory.path().join(file).exists();
    for results in ["PROCESSED", "RESULTS", "LIVE", "CLUSTER", "AVERAGED", "CLIPPED", "FROM_PYFAI", "FROM_INTEGRATOR"] {
        for scan in [1, 2] {
            let name = format!("{results}/LaB6/LaB6_0001/LaB6_0001_scan000{scan}_pilatus.h5");
            assert!(exists(&name), "{name} is missing\n{stderr}");
        }
    }
    for file in ["patterns.png", "check.png", "run.html", "jobs/submit"] {
        assert!(exists(file), "{file} is missing\n{stderr}");
    }
}

#[test]
fn only_known_commands_are_shown_and_not_run() {
    assert_eq!(shown_commands(README), NOT_RUN);
    assert!(fenced_blocks(README, "sh").len() > 15, "the README shows how to use the filters");
}

#[test]
fn the_dataset_of_the_examples_replaces_no_file() {
    for name in ["RAW_DATA", "lab6.poni", "mask.edf"] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let existing = directory.path().join(name);
        std::fs::write(&existing, "mine").expect("a file can be written");
        let output = Command::new(env!("CARGO_BIN_EXE_sample-dataset")).arg(directory.path()).output();
        let output = output.expect("sample-dataset starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert_eq!(
            stderr,
            format!("sample-dataset: {}: already exists; choose an empty directory\n", existing.display())
        );
        assert_eq!(std::fs::read_to_string(&existing).expect("it is still there"), "mine");
        let entries = std::fs::read_dir(directory.path()).expect("a directory").count();
        assert_eq!(entries, 1, "nothing else is written");
    }
}
