//! Shows what each setting becomes in the scripts: the table of `--explain`.

use std::ffi::OsStr;

use crate::args::Target;
use crate::directive::Directive;
use crate::error::EmitError;
use crate::job_directives::{array_directives, driver_directives, gather_directives};
use crate::job_settings::JobSettings;
use crate::plural::plural;
use crate::targets::{dask, ray};

/// A line of the table: a flag, the settings that follow from it, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainRow {
    flag: String,
    becomes: String,
    why: String,
}

impl ExplainRow {
    /// Creates the row of a flag.
    pub fn new(flag: &str, becomes: impl Into<String>, why: &str) -> Self {
        Self { flag: flag.to_owned(), becomes: becomes.into(), why: why.to_owned() }
    }

    /// Creates the row of an `#SBATCH` directive.
    pub fn from_directive(directive: &Directive) -> Self {
        let text = directive.text();
        Self::new(directive.flag, format!("#SBATCH {}", OsStr::to_string_lossy(&text)), &directive.why)
    }

    /// Returns the text that the flag becomes.
    pub fn becomes(&self) -> &str {
        &self.becomes
    }

    /// Creates a heading: the script or program that the rows below it belong to.
    fn heading(name: &str) -> Self {
        Self::new(name, "", "")
    }

    fn cells(&self) -> [&str; 3] {
        [&self.flag, &self.becomes, &self.why]
    }
}

/// Formats the table, one string per line.
///
/// # Errors
/// Fails if no directive can hold a value.
pub fn format_table(target: Target, job: &JobSettings, batches: usize) -> Result<Vec<String>, EmitError> {
    let rows = rows(target, job, batches)?;
    let width = |column: usize| rows.iter().map(|row| row.cells()[column].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    let format_row = |row: &ExplainRow| {
        let [flag, becomes, why] = row.cells();
        format!("{flag:first$}  {becomes:second$}  {why}").trim_end().to_owned()
    };
    Ok(rows.iter().map(format_row).collect())
}

fn rows(target: Target, job: &JobSettings, batches: usize) -> Result<Vec<ExplainRow>, EmitError> {
    let mut rows = vec![ExplainRow::new("flag", "becomes", "because")];
    match target {
        Target::Slurm => {
            rows.extend([batches_row(job, batches), ExplainRow::heading("job.sbatch")]);
            rows.extend(array_directives(job, batches)?.iter().map(ExplainRow::from_directive));
            rows.push(ExplainRow::heading("gather.sbatch"));
            rows.extend(gather_directives(job)?.iter().map(ExplainRow::from_directive));
        }
        Target::Dask => {
            rows.push(ExplainRow::heading("dask.sbatch"));
            rows.extend(driver_directives(job)?.iter().map(ExplainRow::from_directive));
            rows.push(ExplainRow::heading("driver.py"));
            rows.extend(dask::explain_rows(job)?);
        }
        Target::Ray => {
            rows.push(ExplainRow::heading("ray.sbatch"));
            rows.extend(ray::explain_rows(job)?);
        }
        _ => rows.push(batches_row(job, batches)),
    }
    rows.push(ExplainRow::heading("ai-integrate"));
    let size = if target.uses_slurm() { job.size } else { job.size_on_this_machine() };
    let arguments = match target {
        Target::Slurm | Target::Local | Target::Parallel => job.job_arguments(&size),
        _ => job.engine_arguments(&size),
    };
    rows.extend(arguments.chunks(2).map(argument_row));
    Ok(rows)
}

fn batches_row(job: &JobSettings, batches: usize) -> ExplainRow {
    let (minutes, rate) = (job.sizing.minutes, job.sizing.rate / 1e6);
    let why = format!("{minutes} minutes at {rate:.0} MB/s per job; less at first and towards the end");
    ExplainRow::new("--batch-minutes", plural(batches as u64, "batch"), &why)
}

fn argument_row(argument: &[String]) -> ExplainRow {
    let (flag, why) = match argument[0].as_str() {
        "--engines" if argument[1] == "1" => ("--target", "each process runs one task at a time"),
        "--engines" => ("--ai-engines-per-worker", "tasks at a time, which share the GPU and the matrix"),
        "--threads" => ("--cores-per-worker", "threads of an engine"),
        "--allow-missing" => ("--allow-missing", "frames without data are no failure; gather gets the flag, too"),
        "--device" => ("--device", "OpenCL devices to use, of those that the job has"),
        _ => ("--engine", "compute engine"),
    };
    ExplainRow::new(flag, argument.join(" "), why)
}
