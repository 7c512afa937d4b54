//! The README's commands, pasted from top to bottom into one shell in an empty directory.

use crate::support::program;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const README: &str = include_str!("../../README.md");

/// Commands that can't run here, each the first line of a `console` block: they install azpipe,
/// open windows, or need a cluster.
const NOT_RUN: [&str; 8] = [
    "$ git clone https://github.com/azpipe/azpipe && cd azpipe",
    "$ scripts/package          # into dist/, with SHA-256 sums",
    "$ silx view PROCESSED/LaB6/LaB6_0001/LaB6_0001_scan0001_pilatus.h5",
    ">>> data = xarray.open_dataset(final, group=\"1.1/pilatus_integrate/integrated\", engine=\"h5netcdf\")",
    "$ pyFAI-average -m mean -o calibrant.edf RAW_DATA/LaB6/LaB6_0001/scan0001/pilatus_0000.h5",
    "$ jobs/submit        # a job array, and a gather after it",
    "$ dask-jobs/submit --wait     # up to 8 jobs of workers; --python names a Python that has dask_jobqueue",
    "$ scan-find --follow --until-idle 30m RAW_DATA | plan-split --recipe pattern.toml --out CLUSTER |",
];

/// Returns the fenced blocks of the README in one language: `sh` blocks run, `console` blocks only
/// show commands.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    README
        .split(&fence)
        .skip(1)
        .map(|rest| rest.split("```").next().expect("split returns a first piece"))
        .collect()
}

/// Returns whether a command succeeds on this machine. On CI, which installs what the README asks
/// for, it must.
fn succeeds(command: &str, path: &str) -> bool {
    let output =
        Command::new("sh").args(["-c", command]).env("PATH", path).output().expect("sh starts");
    assert!(
        output.status.success() || std::env::var_os("CI").is_none(),
        "{command}: fails, and CI needs it"
    );
    output.status.success()
}

/// Returns the PATH with the programs under test and, if the tests have one, the Python environment
/// with h5py.
fn search_path() -> String {
    let programs = Path::new(program("gather")).parent().expect("a program is in a directory");
    let peers =
        std::env::var("AZPIPE_PEERS").map_or(String::new(), |peers| format!("{peers}/bin:"));
    format!("{}:{peers}{}", programs.display(), std::env::var("PATH").unwrap_or_default())
}

#[test]
fn pasted_into_a_shell_it_runs_from_top_to_bottom() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = search_path();
    let needs = [("jq ", "command -v jq"), ("python3 ", "python3 -c 'import h5py'")];
    let mut script: String = blocks("sh")
        .into_iter()
        .filter(|block| {
            needs.iter().all(|(word, check)| !block.contains(word) || succeeds(check, &path))
        })
        .collect();
    script += "touch pasted-to-the-end\n";

    // As a paste does, the commands come on the shell's stdin: a filter that reads it by mistake
    // eats the rest of them.
    let mut shell = Command::new("bash")
        .args(["-x", "-euo", "pipefail"])
        .current_dir(directory.path())
        .env("PATH", &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("bash starts");
    let mut stdin = shell.stdin.take().expect("stdin is piped");
    let writer = std::thread::spawn(move || stdin.write_all(script.as_bytes()));
    let output = shell.wait_with_output().expect("bash ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{stderr}", output.status);
    writer.join().expect("the writer does not panic").expect("bash reads all commands");

    let exists = |file: &str| directory.path().join(file).exists();
    assert!(exists("pasted-to-the-end"), "{stderr}");
    for results in ["PROCESSED", "RESULTS", "LIVE", "CLUSTER", "AVERAGED", "CLIPPED", "FROM_PYFAI"]
    {
        for scan in [1, 2] {
            let name = format!("{results}/LaB6/LaB6_0001/LaB6_0001_scan000{scan}_pilatus.h5");
            assert!(exists(&name), "{name} is missing\n{stderr}");
        }
    }
    let from_files = "FROM_INTEGRATOR/LaB6_0001_scan0001_pilatus.h5";
    let picture = "patterns_LaB6_0001_scan0002_pilatus.png";
    for file in [picture, "check.png", "run.html", "jobs/submit", "ray-jobs/submit", from_files] {
        assert!(exists(file), "{file} is missing\n{stderr}");
    }
}

#[test]
fn only_known_commands_are_shown_and_not_run() {
    let first_lines = blocks("console").into_iter().map(|block| block.lines().next().unwrap_or(""));
    assert_eq!(first_lines.collect::<Vec<_>>(), NOT_RUN);
    let fences = README.lines().filter(|line| line.starts_with("```") && *line != "```");
    assert!(
        fences.clone().all(|fence| ["```sh", "```console"].contains(&fence)),
        "every block says whether it runs"
    );
    assert!(blocks("sh").len() > 15, "the README shows how to use the filters");
}

#[test]
fn the_dataset_of_the_examples_replaces_no_file() {
    for name in ["RAW_DATA", "lab6.poni", "mask.edf"] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let existing = directory.path().join(name);
        std::fs::write(&existing, "mine").expect("a file can be written");
        let output =
            Command::new(env!("CARGO_BIN_EXE_sample-dataset")).arg(directory.path()).output();
        let output = output.expect("sample-dataset starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert_eq!(
            stderr,
            format!(
                "sample-dataset: {}: already exists; choose an empty directory\n",
                existing.display()
            )
        );
        assert_eq!(std::fs::read_to_string(&existing).expect("it is still there"), "mine");
        let entries = std::fs::read_dir(directory.path()).expect("a directory").count();
        assert_eq!(entries, 1, "nothing else is written");
    }
}
