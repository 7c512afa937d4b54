//! A directive of sbatch, quoted, with the reason for it beside it.

use std::ffi::{OsStr, OsString};

use filter::quote;

use crate::job::Job;

/// One line `#SBATCH --option=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// The flag of slurm-emit that decides it.
    pub from: &'static str,
    /// The option of sbatch.
    pub option: &'static str,
    /// Its value, quoted, if it takes one.
    pub value: Option<OsString>,
    /// Why it is there.
    pub why: String,
}

impl Directive {
    /// What stands behind `#SBATCH`.
    pub fn text(&self) -> OsString {
        let mut out = OsString::from(self.option);
        if let Some(value) = &self.value {
            out.push("=");
            out.push(value);
        }
        out
    }
}

/// The lines of these directives, each below its reason, and of those that the user adds.
///
/// # Errors
/// A line break in what the user adds.
pub fn lines(directives: &[Directive], extra: &[OsString]) -> Result<OsString, quote::QuoteError> {
    let mut out = OsString::new();
    for directive in directives {
        out.push(format!("# {}\n#SBATCH ", directive.why));
        out.push(directive.text());
        out.push("\n");
    }
    for line in extra {
        // It is sbatch's own language, so that it goes in as it is; but a line it has to be.
        quote::sbatch(line)?;
        out.push("#SBATCH ");
        out.push(line);
        out.push("\n");
    }
    Ok(out)
}

/// Collects directives, without those that the user wants to do without.
pub struct List<'a> {
    job: &'a Job,
    out: Vec<Directive>,
}

impl<'a> List<'a> {
    /// None yet.
    pub fn new(job: &'a Job) -> Self {
        Self { job, out: Vec::new() }
    }

    /// All of them.
    pub fn into_directives(self) -> Vec<Directive> {
        self.out
    }

    /// `option=value`, because of the flag `from`.
    ///
    /// # Errors
    /// A value that no directive can hold.
    pub fn add(
        &mut self,
        from: &'static str,
        option: &'static str,
        value: &str,
        why: &str,
    ) -> Result<(), quote::QuoteError> {
        let value = quote::sbatch(OsStr::new(value))?;
        self.push(from, option, Some(value), why);
        Ok(())
    }

    /// An option that our flag has the name of, where the flag is given.
    ///
    /// # Errors
    /// As [`List::add`].
    pub fn optional(&mut self, option: &'static str, value: Option<&str>, why: &str) -> Result<(), quote::QuoteError> {
        value.map_or(Ok(()), |value| self.add(option, option, value, why))
    }

    /// An option without a value.
    pub fn flag(&mut self, from: &'static str, option: &'static str, why: &str) {
        self.push(from, option, None, why);
    }

    /// Where the job runs and writes its log.
    ///
    /// # Errors
    /// A directory whose name no directive can hold.
    pub fn place(&mut self, log: &str, why: &str) -> Result<(), quote::QuoteError> {
        let dir = &self.job.dir;
        self.push("--dir", "--chdir", Some(quote::sbatch(dir.as_os_str())?), "plan, results and logs are in here");
        self.log(log, why)?;
        self.add("--dir", "--open-mode", "append", "a job that is requeued goes on in its log")
    }

    /// Where the job writes its log. Absolute, for in a path below its directory SLURM would read a `%` of that, too.
    ///
    /// # Errors
    /// As [`List::place`].
    pub fn log(&mut self, log: &str, why: &str) -> Result<(), quote::QuoteError> {
        let output = quote::sbatch_log(self.job.dir.join("logs").as_os_str(), log)?;
        self.push("--dir", "--output", Some(output), why);
        Ok(())
    }

    fn push(&mut self, from: &'static str, option: &'static str, value: Option<OsString>, why: &str) {
        let name = |option: &str| option.trim_start_matches('-').to_owned();
        let is_skipped = self.job.site.skip_directive.iter().any(|skipped| name(skipped) == name(option));
        if !is_skipped {
            self.out.push(Directive { from, option, value, why: why.to_owned() });
        }
    }
}
