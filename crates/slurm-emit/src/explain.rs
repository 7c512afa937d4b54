//! Shows what becomes of each setting.

use std::ffi::OsStr;

use manners::quote;

use crate::args::Target;
use crate::directive::{self, Directive};
use crate::job::Job;

/// A table, a line each: the flag, what it becomes and where, and why.
///
/// # Errors
/// A value that no directive can hold.
pub fn table(target: Target, job: &Job, batches: usize) -> Result<Vec<String>, quote::Error> {
    let mut rows: Vec<[String; 3]> = Vec::new();
    rows.push(["flag".into(), "becomes".into(), "because".into()]);
    rows.push([
        "--batch-minutes".into(),
        format!("{batches} batches"),
        format!(
            "{} minutes at {} MB/s a job, or less so that all workers have some",
            job.cut.minutes,
            job.cut.rate as u64 / 1_000_000
        ),
    ]);
    if target == Target::Slurm {
        let scripts =
            [("job.sbatch", directive::of_array(job, batches)?), ("gather.sbatch", directive::of_gather(job)?)];
        for (script, directives) in scripts {
            rows.push([script.into(), String::new(), String::new()]);
            rows.extend(directives.iter().map(row));
        }
    }
    rows.push(["ai-integrate".into(), String::new(), String::new()]);
    rows.extend(job.arguments().chunks(2).map(argument));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    Ok(rows
        .iter()
        .map(|[flag, becomes, why]| format!("{flag:first$}  {becomes:second$}  {why}").trim_end().to_owned())
        .collect())
}

fn row(directive: &Directive) -> [String; 3] {
    let value = directive.value.as_deref().map(OsStr::to_string_lossy);
    let becomes = value.map_or(directive.option.to_owned(), |value| format!("{}={value}", directive.option));
    [directive.from.to_owned(), becomes, directive.why.clone()]
}

fn argument(pair: &[String]) -> [String; 3] {
    let (flag, why) = match pair[0].as_str() {
        "--engines" => ("--ai-engines-per-worker", "thread groups that share the job's GPU and its matrix"),
        "--threads" => ("--cores-per-worker", "threads of an engine"),
        _ => ("--engine", "what computes"),
    };
    [flag.to_owned(), pair.join(" "), why.to_owned()]
}
