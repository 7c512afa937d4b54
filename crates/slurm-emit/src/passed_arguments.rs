//! Refuses arguments for ai-integrate and gather that the scripts give themselves, or with which
//! these programs do something other than their part of the work.

use crate::error::EmitError;
use crate::flags::JobSizeFlags;

/// Options that the scripts set, each with what to use in its place.
const SET_BY_SCRIPTS: [(&str, &str); 9] = [
    ("--threads", "use --cores-per-worker"),
    ("--engines", "use --ai-engines-per-worker"),
    ("--engine", "pass --engine to slurm-emit"),
    ("--device", "pass --device to slurm-emit"),
    ("--deadline", "use --time and --drain-seconds"),
    ("--allow-missing", "pass --allow-missing to slurm-emit"),
    ("--plan", "the scripts pass the plan in --dir"),
    ("--from", "the scripts pass the plan in --dir"),
    ("--complete-only", "the scripts pass it where it is due"),
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

/// Checks the arguments of `--ai-integrate-arg` and `--gather-arg`.
///
/// # Errors
/// An argument is set by the scripts, leads to no results, or is the name of an input.
pub fn check_passed_arguments(flags: &JobSizeFlags) -> Result<(), EmitError> {
    let passed =
        [("--ai-integrate-arg", &flags.ai_integrate_arg), ("--gather-arg", &flags.gather_arg)];
    passed.into_iter().try_for_each(|(flag, arguments)| {
        check(arguments).map_err(|(argument, why)| EmitError::PassedArgument {
            flag,
            argument: argument.clone(),
            why,
        })
    })
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
