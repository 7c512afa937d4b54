//! Shows what becomes of each setting.

use std::ffi::OsStr;

use filter::quote;

use crate::args::Target;
use crate::directive::Directive;
use crate::header;
use crate::job::Job;
use crate::targets::{dask, ray};

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    flag: String,
    becomes: String,
    why: String,
}

impl Row {
    /// A flag, what it becomes, and why.
    pub fn new(flag: &str, becomes: impl Into<String>, why: &str) -> Self {
        Self { flag: flag.to_owned(), becomes: becomes.into(), why: why.to_owned() }
    }

    /// A directive.
    pub fn of_directive(directive: &Directive) -> Self {
        let text = directive.text();
        Self::new(directive.from, format!("#SBATCH {}", OsStr::to_string_lossy(&text)), &directive.why)
    }

    /// What the flag becomes.
    pub fn becomes(&self) -> &str {
        &self.becomes
    }

    /// What the rows below are about.
    fn heading(name: &str) -> Self {
        Self::new(name, "", "")
    }

    fn cells(&self) -> [&str; 3] {
        [&self.flag, &self.becomes, &self.why]
    }
}

/// A table, a line each: the flag, what it becomes, and why.
///
/// # Errors
/// A value that no directive can hold.
pub fn table(target: Target, job: &Job, batches: usize) -> Result<Vec<String>, quote::QuoteError> {
    let mut rows = vec![Row::new("flag", "becomes", "because")];
    match target {
        Target::Slurm => {
            rows.extend([batches_row(job, batches), Row::heading("job.sbatch")]);
            rows.extend(header::of_array(job, batches)?.iter().map(Row::of_directive));
            rows.push(Row::heading("gather.sbatch"));
            rows.extend(header::of_gather(job)?.iter().map(Row::of_directive));
        }
        Target::Dask => {
            rows.push(Row::heading("dask.sbatch"));
            rows.extend(header::of_driver(job)?.iter().map(Row::of_directive));
            rows.push(Row::heading("driver.py"));
            rows.extend(dask::rows(job)?);
        }
        Target::Ray => {
            rows.push(Row::heading("ray.sbatch"));
            rows.extend(ray::rows(job)?);
        }
        _ => rows.push(batches_row(job, batches)),
    }
    rows.push(Row::heading("ai-integrate"));
    match target {
        Target::Slurm | Target::Local | Target::Parallel => rows.extend(job.arguments().chunks(2).map(argument)),
        _ => rows.extend(job.arguments_of_one().chunks(2).map(argument)),
    }
    let width = |column: usize| rows.iter().map(|row| row.cells()[column].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    let line = |row: &Row| {
        let [flag, becomes, why] = row.cells();
        format!("{flag:first$}  {becomes:second$}  {why}").trim_end().to_owned()
    };
    Ok(rows.iter().map(line).collect())
}

fn batches_row(job: &Job, batches: usize) -> Row {
    let (minutes, rate) = (job.cut.minutes, job.cut.rate / 1e6);
    let why = format!("{minutes} minutes at {rate:.0} MB/s a job; less at first and towards the end");
    Row::new("--batch-minutes", format!("{batches} batches"), &why)
}

fn argument(pair: &[String]) -> Row {
    let (flag, why) = match pair[0].as_str() {
        "--engines" if pair[1] == "1" => ("--target", "a process runs a task at a time"),
        "--engines" => ("--ai-engines-per-worker", "tasks at a time, which share the GPU and the matrix"),
        "--threads" => ("--cores-per-worker", "threads of an engine"),
        "--allow-missing" => ("--allow-missing", "frames without data are no failure; gather is told so, too"),
        "--device" => ("--device", "which of the OpenCL devices that the job sees"),
        _ => ("--engine", "what computes"),
    };
    Row::new(flag, pair.join(" "), why)
}
