//! The programs and Python modules that the scripts of a target need, and how `--check` looks for
//! them.

use std::ffi::OsStr;
use std::io::ErrorKind;

use crate::check_failure::CheckFailure;
use crate::external_program::{last_line, run_program};

/// A program or Python module that the scripts of a target need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredTool {
    /// A program whose `--version` begins with `version`. The check is for GNU's programs, because
    /// there are others of the same names.
    Program {
        /// The name of the program.
        name: &'static str,
        /// The beginning of the output of `--version`.
        version: &'static str,
    },
    /// A command of a batch system.
    Command {
        /// The name of the command.
        name: &'static str,
        /// The batch system.
        of: &'static str,
    },
    /// GNU Make 4: older versions lack `$(file)`.
    Make4,
    /// A module that the Python of `--python` can import.
    PythonModule(&'static str),
}

impl RequiredTool {
    /// Returns the reason for which the tool can't be used on this machine; `python` is the value
    /// of `--python`.
    pub fn find_failure(self, python: &OsStr) -> Option<CheckFailure> {
        match self {
            Self::Program { name, version } => check_program(name, version),
            Self::Command { name, of } => check_command(name, of),
            Self::Make4 => check_make(),
            Self::PythonModule(module) => check_python(python, module),
        }
    }
}

/// Checks that `program --version` begins with `expected`.
fn check_program(program: &str, expected: &str) -> Option<CheckFailure> {
    match run_program(program, ["--version"]) {
        Ok(output) if String::from_utf8_lossy(&output.stdout).starts_with(expected) => None,
        Ok(_) => Some(CheckFailure::new(
            program,
            format_args!("expected {expected}, and found another program"),
        )),
        Err(error) => Some(CheckFailure::new(program, format_args!("{error}; install {expected}"))),
    }
}

/// Checks that a command of a batch system is there, whatever it makes of `--version`.
fn check_command(name: &str, of: &str) -> Option<CheckFailure> {
    let error = run_program(name, ["--version"]).err()?;
    let why = match error.kind() {
        ErrorKind::NotFound => {
            format!("the command of {of} is not found on this machine: submit where it is")
        }
        _ => error.to_string(),
    };
    Some(CheckFailure::new(name, why))
}

fn check_make() -> Option<CheckFailure> {
    match run_program("make", ["--version"]) {
        Ok(output) if output.stdout.starts_with(b"GNU Make 3.") => {
            Some(CheckFailure::new("make", "expected GNU Make 4 or later"))
        }
        _ => check_program("make", "GNU Make"),
    }
}

fn check_python(python: &OsStr, module: &str) -> Option<CheckFailure> {
    let code =
        format!("import importlib.util as u, sys; sys.exit(u.find_spec('{module}') is None)");
    let why = match run_program(python, ["-c", &code]) {
        Ok(output) if output.status.success() => return None,
        Ok(output) if output.stderr.is_empty() => {
            format!("it has no module {module}; install it, or name another Python")
        }
        Ok(output) => last_line(&output.stderr),
        Err(error) if error.kind() == ErrorKind::NotFound => "not found on this machine".to_owned(),
        Err(error) => error.to_string(),
    };
    Some(CheckFailure::new(format_args!("--python {}", python.display()), why))
}
