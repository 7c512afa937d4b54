//! Refuses arguments for ai-integrate and gather that the scripts give themselves, or with which
//! these programs do something other than their part of the work.

use std::io;
use std::path::Path;

use filter::exit_status::USAGE_OR_IO;

use crate::error::EmitError;
use crate::external_program::run_program;
use crate::flags::JobSizeFlags;

/// Options that the scripts set, each with what to use in its place.
const SET_BY_SCRIPTS: [(&str, &str); 10] = [
    ("--threads", "use --cores-per-worker"),
    ("--engines", "use --ai-engines-per-worker"),
    ("--engine", "pass --engine to slurm-emit"),
    ("--device", "pass --device to slurm-emit"),
    ("--deadline", "use --time and --drain-seconds"),
    ("--allow-missing", "pass --allow-missing to slurm-emit"),
    ("--plan", "the scripts pass the plan in --dir"),
    ("--from", "the scripts pass the plan in --dir"),
    ("--complete-only", "the scripts pass it where it is due"),
    ("--out", "results are written, and looked for, where plan-split --out named"),
];

/// Options with which a program only answers a question or cleans up.
const NO_WORK: [&str; 10] = [
    "--help",
    "-h",
    "--version",
    "-V",
    "--completions",
    "--list-devices",
    "--missing",
    "--count-done",
    "--clean",
    "--dry-run",
];

/// Checks the arguments of `--ai-integrate-arg` and `--gather-arg`, whose programs on this machine are in
/// `bin`.
///
/// # Errors
/// An argument is set by the scripts, leads to no results, or is the name of an input, or the program
/// does not know it or its value.
pub fn check_passed_arguments(flags: &JobSizeFlags, bin: &Path) -> Result<(), EmitError> {
    let passed = [
        ("--ai-integrate-arg", &flags.ai_integrate_arg, "ai-integrate"),
        ("--gather-arg", &flags.gather_arg, "gather"),
    ];
    let mut passed = passed.into_iter().filter(|(_, arguments, _)| !arguments.is_empty());
    passed.try_for_each(|(flag, arguments, program)| {
        check(arguments).map_err(|(argument, why)| EmitError::PassedArgument {
            flag,
            argument: argument.clone(),
            why: why.to_owned(),
        })?;
        // One that does not run here is not asked.
        match refusal_of_program(&bin.join(program), arguments) {
            Ok(Some(why)) => {
                Err(EmitError::PassedArgument { flag, argument: arguments.join(" "), why })
            }
            _ => Ok(()),
        }
    })
}

/// Returns why a program refuses arguments, if it does.
///
/// It is asked for its version after them: the arguments before are then parsed, and nothing is done.
///
/// # Errors
/// Fails if the program does not run here.
pub fn refusal_of_program(program: &Path, arguments: &[String]) -> io::Result<Option<String>> {
    let words = arguments.iter().map(String::as_str).chain(["--version"]);
    let answer = run_program(program, words)?;
    let is_refused = answer.status.code() == Some(i32::from(USAGE_OR_IO));
    let text = String::from_utf8_lossy(&answer.stderr);
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    Ok(is_refused.then(|| lines.join("; ").trim_start_matches("error: ").to_owned()))
}

fn check(arguments: &[String]) -> Result<(), (&String, &'static str)> {
    let mut takes_value = false;
    for argument in arguments {
        let (name, value) = argument
            .split_once('=')
            .map_or((argument.as_str(), None), |(name, value)| (name, Some(value)));
        if let Some((_, advice)) = SET_BY_SCRIPTS.iter().find(|(known, _)| *known == name) {
            return Err((argument, advice));
        }
        if NO_WORK.contains(&name) {
            return Err((argument, "expected an option with which results are made"));
        }
        if !name.starts_with('-') && !takes_value {
            return Err((argument, "expected an option; the scripts name the input"));
        }
        takes_value = name.starts_with('-') && value.is_none();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(arguments: &[&str]) -> Option<String> {
        let all: Vec<String> = arguments.iter().map(|one| (*one).to_owned()).collect();
        check(&all).err().map(|(argument, _)| argument.clone())
    }

    #[test]
    fn options_for_results_pass_and_all_else_is_refused() {
        let passes: [&[&str]; 4] = [
            &["--average=mean", "--export", "xye"],
            &["-v", "--plot", "--scans.png"],
            &["--verify=3", "--batch-frames", "8"],
            &[],
        ];
        assert_eq!(passes.map(refusal), [None, None, None, None]);
        for wrong in ["--help", "--missing", "--plan=/dev/null", "--threads=4", "/etc/passwd"] {
            assert_eq!(refusal(&["--average=mean", wrong]).as_deref(), Some(wrong));
        }
    }
}
