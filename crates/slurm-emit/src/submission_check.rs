//! Checks before submission whether the jobs would run: asks bash about the scripts, and SLURM
//! about the jobs.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::check_failure::CheckFailure;
use crate::external_program::{last_line, run_program, run_program_with_input};
use crate::job_settings::JobSettings;
use crate::partitions::{Partition, list_partitions, select_partitions};
use crate::passed_arguments::refusal_of_program;
use crate::scripts::Script;
use crate::targets::JobTarget;

/// Returns every reason for which the jobs would not run.
///
/// `sbatch --test-only` misses two kinds of errors, which are checked separately: a walltime above
/// the partition's limit, with which jobs would wait forever, and errors in the script. It does not
/// name an unknown partition, either.
pub fn find_failures(
    target: &dyn JobTarget,
    job: &JobSettings,
    scripts: &[Script],
) -> Vec<CheckFailure> {
    let bins = std::iter::once(&job.bin).chain(job.partition_bins.iter().map(|(_, dir)| dir));
    let mut failures: Vec<_> = bins.flat_map(|bin| check_programs(bin)).collect();
    let bash_scripts = scripts.iter().filter(|script| script.is_bash());
    failures.extend(bash_scripts.filter_map(|script| check_syntax(&job.dir, script.name)));
    failures.extend(check_arguments(job));
    let lacking: Vec<_> = target
        .required_tools(job)
        .iter()
        .filter_map(|tool| tool.find_failure(&job.python))
        .collect();
    let has_tools = lacking.is_empty();
    failures.extend(lacking);
    if target.uses_slurm() {
        failures.extend(check_slurm(job, scripts));
    }
    if let Some(program) = target.job_script_program().filter(|_| has_tools) {
        failures.extend(check_printed_script(job, program));
    }
    failures
}

/// Checks the job script that a program of the directory prints: that of the jobs which a driver
/// submits.
fn check_printed_script(job: &JobSettings, program: &str) -> Option<CheckFailure> {
    let script = match run_program(&job.python, [job.dir.join(program)]) {
        Ok(output) if output.status.success() => output.stdout,
        Ok(output) => return Some(CheckFailure::new(program, last_line(&output.stderr))),
        Err(error) => return Some(CheckFailure::new(program, error)),
    };
    let subject = format!("job script of {program}");
    let refusal = |program: &str, arguments: &[&str], reason: fn(&[u8]) -> String| {
        match run_program_with_input(program, arguments, &script) {
            Ok(output) if output.status.success() => None,
            Ok(output) => Some(CheckFailure::new(&subject, reason(&output.stderr))),
            Err(error) => Some(CheckFailure::new(program, error)),
        }
    };
    refusal("bash", &["-n"], last_line)
        .or_else(|| refusal("sbatch", &["--test-only"], sbatch_reason))
}

/// Checks that ai-integrate and gather exist and are executable. They are not run, because they may
/// be for another architecture, that of the nodes.
fn check_programs(bin: &Path) -> Vec<CheckFailure> {
    let error = |path: &Path| match path.metadata() {
        Ok(file) if file.is_file() && file.permissions().mode() & 0o111 != 0 => None,
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Some(format!("{}: {error}", path.display()))
        }
        _ => Some(missing_program(path)),
    };
    let programs = ["ai-integrate", "gather"].map(|name| bin.join(name));
    programs
        .iter()
        .filter_map(|path| error(path))
        .map(|why| CheckFailure::new("--bin", why))
        .collect()
}

/// Checks the arguments that are passed on. A program for another architecture does not run here,
/// and is not asked.
fn check_arguments(job: &JobSettings) -> Vec<CheckFailure> {
    let passed = [
        ("--ai-integrate-arg", "ai-integrate", &job.ai_integrate_arguments),
        ("--gather-arg", "gather", &job.gather_arguments),
    ];
    let mut failures = Vec::new();
    for (flag, program, arguments) in
        passed.into_iter().filter(|(_, _, arguments)| !arguments.is_empty())
    {
        match refusal_of_program(&job.bin.join(program), arguments) {
            Ok(Some(why)) => {
                failures.push(CheckFailure::new(flag, format_args!("{program} refuses it: {why}")));
            }
            // `check_programs` reports a program that is not there.
            Err(error) if error.kind() != ErrorKind::NotFound => {
                failures.push(CheckFailure::new(
                    flag,
                    format_args!("{program} can't be asked: {error}"),
                ));
            }
            _ => (),
        }
    }
    failures
}

fn missing_program(path: &Path) -> String {
    format!("{}: no such program; give the directory of ai-integrate and gather", path.display())
}

fn check_syntax(dir: &Path, script: &str) -> Option<CheckFailure> {
    let path = dir.join(script);
    match run_program("bash", ["-n".as_ref(), path.as_os_str()]) {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let line = last_line(&output.stderr);
            let line = line.strip_prefix(&format!("{}: ", path.display())).unwrap_or(&line);
            Some(CheckFailure::new(script, format_args!("{line}; correct --setup")))
        }
        Err(error) => Some(CheckFailure::new("bash", error)),
    }
}

fn check_slurm(job: &JobSettings, scripts: &[Script]) -> Vec<CheckFailure> {
    let all = match list_partitions() {
        Ok(all) => all,
        Err(error) => {
            return vec![CheckFailure::new("sinfo", format_args!("{error}; {NO_SLURM_ADVICE}"))];
        }
    };
    let mut failures = check_partition(job, &all, "--partition", job.slurm.partition.as_deref());
    if let Some(name) = &job.slurm.gather_partition {
        failures.extend(check_partition(job, &all, "--gather-partition", Some(name)));
    }
    // sbatch would say the same of an unknown partition once more.
    if failures.is_empty() { check_resources(job, scripts) } else { failures }
}

/// The advice for a machine on which SLURM does not answer.
const NO_SLURM_ADVICE: &str =
    "run slurm-emit on a machine from which jobs can be submitted, or use --target local";

/// Checks that the partitions of a flag exist and allow the walltime.
fn check_partition(
    job: &JobSettings,
    all: &[Partition],
    flag: &str,
    requested: Option<&str>,
) -> Vec<CheckFailure> {
    let mut failures = Vec::new();
    for name in requested.iter().flat_map(|requested| requested.split(',')) {
        if !all.iter().any(|partition| partition.name == name) {
            let mut names: Vec<_> = all.iter().map(|partition| partition.name.as_str()).collect();
            names.dedup();
            failures.push(CheckFailure::new(
                format_args!("{flag} {name}"),
                format_args!("no such partition; this cluster has {}", names.join(", ")),
            ));
        }
    }
    let mut selected = select_partitions(all, requested);
    selected.dedup_by_key(|partition| &partition.name);
    for partition in selected {
        let time = job.walltime;
        if let Some(limit) = partition.limit.filter(|limit| limit.minutes() < time.minutes()) {
            let why =
                format!("partition {} allows {limit}: the jobs would wait forever", partition.name);
            failures.push(CheckFailure::new(format_args!("--time {time}"), why));
        }
    }
    failures
}

/// Checks whether SLURM would accept the jobs.
fn check_resources(job: &JobSettings, scripts: &[Script]) -> Vec<CheckFailure> {
    let mut failures = Vec::new();
    for script in scripts.iter().map(|script| script.name).filter(|name| name.ends_with(".sbatch"))
    {
        // All elements have the same resources, so that one is enough; `submit` takes care of their
        // number.
        let array = (script == "job.sbatch").then_some("--array=0");
        let path = job.dir.join(script);
        let arguments =
            ["--test-only"].into_iter().chain(array).map(AsRef::as_ref).chain([path.as_os_str()]);
        match run_program("sbatch", arguments) {
            Ok(output) if output.status.success() => (),
            Ok(output) => failures.push(CheckFailure::new(script, sbatch_reason(&output.stderr))),
            Err(error) => failures.push(CheckFailure::new("sbatch", error)),
        }
    }
    failures
}

/// Returns the reason in sbatch's messages, without their prefixes.
fn sbatch_reason(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let mut lines = Vec::new();
    for line in text.lines() {
        let line = line.trim_start_matches("sbatch: ").trim_start_matches("error: ");
        let line = line.trim_start_matches("allocation failure: ");
        if !line.is_empty() {
            lines.push(line);
        }
    }
    if lines.is_empty() {
        "sbatch --test-only refused it without a reason".to_owned()
    } else {
        lines.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_sbatch_are_joined_without_prefixes() {
        let stderr =
            b"sbatch: error: this site takes no --mem\nallocation failure: Unspecified error\n";
        assert_eq!(sbatch_reason(stderr), "this site takes no --mem; Unspecified error");
        assert_eq!(sbatch_reason(b"\n"), "sbatch --test-only refused it without a reason");
    }
}
