//! Runs programs of SLURM and of the chosen target, to ask them a question.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Output, Stdio};

/// Runs a program and returns its output. Variables of SLURM are removed from its environment,
/// because those of a job that slurm-emit runs in, or a user's defaults, would change the answer. A
/// program is stopped after 20 seconds.
///
/// # Errors
/// Fails if the program is not on this machine, and if it does not end in time.
pub fn run_program<A: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    arguments: impl IntoIterator<Item = A>,
) -> io::Result<Output> {
    run_program_with_input(program, arguments, b"")
}

/// Runs a program as [`run_program`] does, with `input` on its stdin.
///
/// # Errors
/// Fails as [`run_program`] does.
pub fn run_program_with_input<A: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    arguments: impl IntoIterator<Item = A>,
    input: &[u8],
) -> io::Result<Output> {
    let mut command = Command::new("timeout");
    let program = program.as_ref();
    command.arg("20").arg(program).args(arguments);
    for name in std::env::vars_os().map(|(name, _)| name).filter(changes_slurm) {
        command.env_remove(name);
    }
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    // A program that does not read its stdin answers all the same.
    if let Some(mut stdin) = child.stdin.take()
        && let Err(error) = stdin.write_all(input)
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        return Err(error);
    }
    let output = child.wait_with_output()?;
    match output.status.code() {
        Some(124) => {
            Err(io::Error::new(io::ErrorKind::TimedOut, "no answer within 20 s; try again later"))
        }
        Some(127) => {
            let why = format!("{} is not found on this machine", program.display());
            Err(io::Error::new(io::ErrorKind::NotFound, why))
        }
        _ => Ok(output),
    }
}

fn changes_slurm(name: &OsString) -> bool {
    let name = name.as_bytes();
    name != b"SLURM_CONF"
        && [&b"SLURM_"[..], b"SBATCH_", b"SQUEUE_", b"SINFO_"]
            .iter()
            .any(|kind| name.starts_with(kind))
}

/// Returns the last line that a program wrote to stderr, which is its reason to fail.
pub fn last_line(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    text.lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or("no reason given")
        .trim()
        .to_owned()
}
