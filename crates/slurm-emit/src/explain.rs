//! Shows what each setting becomes in the scripts: the table of `--explain`.

use std::ffi::OsStr;

use crate::directive::Directive;
use crate::job_settings::JobSettings;
use records::format_count;

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
        Self::new(
            directive.flag,
            format!("#SBATCH {}", OsStr::to_string_lossy(&text)),
            &directive.why,
        )
    }

    /// Returns the text that the flag becomes.
    pub fn becomes(&self) -> &str {
        &self.becomes
    }

    /// Creates a heading: the script or program that the rows below it belong to.
    pub fn new_heading(name: &str) -> Self {
        Self::new(name, "", "")
    }

    fn cells(&self) -> [&str; 3] {
        [&self.flag, &self.becomes, &self.why]
    }
}

/// Formats the table, one string per line: the rows of a target, and those of the arguments that
/// ai-integrate gets.
pub fn format_table(
    target_rows: Vec<ExplainRow>,
    ai_integrate_arguments: &[String],
) -> Vec<String> {
    let mut rows = vec![ExplainRow::new("flag", "becomes", "because")];
    rows.extend(target_rows);
    rows.push(ExplainRow::new_heading("ai-integrate"));
    rows.extend(
        ai_integrate_arguments.chunk_by(|_, next| !next.starts_with('-')).map(argument_row),
    );
    let width = |column: usize| {
        rows.iter().map(|row| row.cells()[column].chars().count()).max().unwrap_or(0)
    };
    let (first, second) = (width(0), width(1));
    let format_row = |row: &ExplainRow| {
        let [flag, becomes, why] = row.cells();
        format!("{flag:first$}  {becomes:second$}  {why}").trim_end().to_owned()
    };
    rows.iter().map(format_row).collect()
}

/// Returns the row about the number of batches.
pub fn batches_row(job: &JobSettings, batches: usize) -> ExplainRow {
    let (minutes, rate) = (job.sizing.minutes, job.sizing.rate / 1e6);
    let why =
        format!("{minutes} minutes at {rate:.0} MB/s per job; less at first and towards the end");
    ExplainRow::new("--batch-minutes", format_count(batches as u64, "batch"), &why)
}

fn argument_row(argument: &[String]) -> ExplainRow {
    let (flag, why) = match argument[0].as_str() {
        "--engines" if argument.get(1).is_some_and(|count| count == "1") => {
            ("--target", "each process runs one task at a time")
        }
        "--engines" => {
            ("--ai-engines-per-worker", "tasks at a time, which share the GPU and the matrix")
        }
        "--threads" => ("--cores-per-worker", "threads of an engine"),
        "--allow-missing" => {
            ("--allow-missing", "frames without data are no failure; gather gets the flag, too")
        }
        "--device" => ("--device", "OpenCL devices to use, of those that the job has"),
        "--engine" => ("--engine", "compute engine"),
        _ => ("--ai-integrate-arg", "unchanged"),
    };
    ExplainRow::new(flag, argument.join(" "), why)
}
