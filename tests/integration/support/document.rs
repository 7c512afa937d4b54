//! Documents whose commands are pasted into a shell.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Outcome, program, python};

/// Returns the fenced blocks of a Markdown document in one language: `sh` blocks run, `console` blocks only show commands.
pub fn fenced_blocks<'a>(document: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    document.split(&fence).skip(1).map(|rest| rest.split("```").next().expect("split returns a first piece")).collect()
}

/// Returns the first lines of the `console` blocks, after checking that each block of a Markdown document says whether it runs.
///
/// # Panics
/// If a block is neither `sh` nor `console`.
pub fn shown_commands(document: &str) -> Vec<&str> {
    let mut fences = document.lines().filter(|line| line.starts_with("```") && *line != "```");
    assert!(fences.all(|fence| ["```sh", "```console"].contains(&fence)), "every block says whether it runs");
    fenced_blocks(document, "console").into_iter().map(|block| block.lines().next().unwrap_or("")).collect()
}

/// Returns whether a shell command succeeds with this search path.
pub fn command_succeeds(command: &str, path: &str) -> bool {
    let output = Command::new("sh").args(["-c", command]).env("PATH", path).output().expect("sh starts");
    output.status.success()
}

/// Returns the PATH with the programs under test and, if it is installed, the Python of the peers.
pub fn search_path() -> String {
    let programs = Path::new(program("gather")).parent().expect("a program is in a directory");
    let python = python();
    let directories = [Some(programs), python.as_deref().and_then(Path::parent)].into_iter().flatten();
    let directories = directories.map(|directory| directory.display().to_string());
    directories.chain(std::env::var("PATH")).collect::<Vec<_>>().join(":")
}

/// Runs commands in `bash -euo pipefail`, and returns its output once the last command has ended.
///
/// As a paste does, the commands come on the shell's stdin: a filter that reads it by mistake eats the rest of them.
///
/// # Panics
/// If a command fails, or if one has eaten those that follow.
pub fn paste_into_bash(commands: &str, directory: &Path, path: &str) -> Outcome {
    let commands = format!("{commands}\ntouch pasted-to-the-end\n");
    let mut shell = Command::new("bash")
        .args(["-x", "-euo", "pipefail"])
        .current_dir(directory)
        .env("PATH", path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("bash starts");
    let mut stdin = shell.stdin.take().expect("stdin is piped");
    let writer = std::thread::spawn(move || stdin.write_all(commands.as_bytes()));
    let outcome = Outcome::from(shell.wait_with_output().expect("bash ends")).assert_success();
    writer.join().expect("the writer does not panic").expect("bash reads all commands");
    assert!(directory.join("pasted-to-the-end").exists(), "{}", outcome.stderr);
    outcome
}
