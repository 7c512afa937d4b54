//! The README's commands, run as they stand there, one after the other, in a directory with a dataset.

use std::path::Path;
use std::process::Command;

const README: &str = include_str!("../README.md");

/// The shell blocks behind a `<!-- run -->` line.
fn blocks() -> Vec<&'static str> {
    let marked = README.split("<!-- run -->\n```sh\n").skip(1);
    marked.map(|rest| rest.split("```").next().expect("a block ends")).collect()
}

/// Whether a program is here. CI has what the README asks for.
fn has(program: &str) -> bool {
    let found =
        Command::new("sh").args(["-c", &format!("command -v {program}")]).output().expect("sh").status.success();
    assert!(found || std::env::var_os("CI").is_none(), "{program} is not here, and CI needs it");
    found
}

#[test]
fn the_commands_run_as_they_stand() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let detector = sample::Detector::named("pilatus-100k").expect("a detector of the sample");
    let options = sample::Options { frames: 12, frames_per_file: 5, detector, ..sample::Options::default() };
    sample::write(directory.path(), &options).expect("the dataset can be written");
    let binaries = Path::new(env!("CARGO_BIN_EXE_gather")).parent().expect("a directory");
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap_or_default());
    let blocks = blocks();
    assert!(blocks.len() >= 4, "the README shows how to use the filters");
    for block in blocks {
        if (block.contains("jq ") && !has("jq")) || (block.contains("parallel ") && !has("parallel")) {
            continue;
        }
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", block]).current_dir(directory.path()).env("PATH", &path);
        let output = shell.output().expect("bash runs");
        assert!(output.status.success(), "{}\n{block}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    let results = std::fs::read_dir(directory.path().join("PROCESSED/LaB6/LaB6_0001")).expect("results");
    let names: Vec<_> = results.map(|result| result.expect("an entry").path()).collect();
    let finals = names.iter().filter(|path| path.extension().is_some_and(|extension| extension == "h5"));
    assert_eq!(finals.count(), 2, "one file a scan");
}
