//! Questions to programs and files that stay unanswered: slurm-emit tells of them, and makes no
//! answer up.

use std::fs;
use std::process::Command;

use super::scripts::{emit, read_stderr, write_program};
use super::task;
use crate::support::{capture, fault_shim, program};

#[test]
fn a_check_that_could_not_ask_a_program_fails() {
    let top = tempfile::tempdir().unwrap();
    let mut command = Command::new(program("slurm-emit"));
    command.arg("--dir").arg(top.path().join("jobs"));
    command.args([
        "--target",
        "local",
        "--check",
        "--ai-integrate-arg=--fail-fast",
        "--gather-arg=--keep-parts",
    ]);
    fault_shim::preload(&mut command, top.path()).env("FAULTS_AT", "posix_spawn 1-99 EAGAIN");
    let output = capture(command, task::line(1));
    let said = read_stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for expected in [
        "--ai-integrate-arg: ai-integrate can't be asked: ",
        "--gather-arg: gather can't be asked: ",
    ] {
        assert!(said.contains(&format!("{expected}Resource temporarily unavailable")), "{said}");
    }
}

#[test]
fn a_slurm_that_does_not_answer_is_told() {
    let top = tempfile::tempdir().unwrap();
    for (answer, expected) in [
        (
            "echo 'Unable to contact slurm controller' >&2; exit 1",
            Some("sinfo: Unable to contact slurm controller; "),
        ),
        (
            "echo 'gpu*|soon|64'",
            Some("sinfo: answers `gpu*|soon|64`: expected PARTITION|TIMELIMIT|CPUS; "),
        ),
        ("echo 'gpu*|1-00:00:00|64'", None),
    ] {
        write_program(&top.path().join("sinfo"), answer);
        let mut path = top.path().as_os_str().to_owned();
        path.push(":/usr/bin:/bin");
        let mut command = Command::new(program("slurm-emit"));
        command.arg("--dir").arg(top.path().join("jobs")).env("PATH", path);
        let output = capture(command, task::line(1));
        let said = read_stderr(&output);
        assert!(output.status.success(), "{said}");
        let warning = said.lines().find(|line| line.contains("sinfo"));
        assert!(warning.is_some() == expected.is_some(), "{said}");
        assert!(
            warning.zip(expected).is_none_or(|(line, expected)| line.contains(expected)),
            "{said}"
        );
    }
}

#[test]
fn memory_that_cannot_be_estimated_is_not_made_up() {
    let top = tempfile::tempdir().unwrap();
    let recipe = top.path().join("recipe.toml");
    fs::write(&recipe, "npt = ").unwrap();
    let mut line: serde_json::Value = serde_json::from_str(&task::line(1)).unwrap();
    line["recipe"] = recipe.to_str().unwrap().into();
    let flags = ["--target", "dask", "--mem", "none"];
    let output = emit(&top.path().join("jobs"), &flags, &format!("{line}\n"));
    let said = read_stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains(recipe.to_str().unwrap()) && said.contains("give the memory of a job"),
        "{said}"
    );
}
