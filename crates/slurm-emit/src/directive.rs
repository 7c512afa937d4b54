//! Directives of sbatch, quoted, each with its reason.

use std::ffi::{OsStr, OsString};

use filter::quote;

use crate::error::EmitError;
use crate::job_settings::JobSettings;

/// A line `#SBATCH --option=value` of a job script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// The flag of slurm-emit that the directive comes from.
    pub flag: &'static str,
    /// The option of sbatch.
    pub option: &'static str,
    /// The value of the option, quoted, if it takes one.
    pub value: Option<OsString>,
    /// The reason for the directive: a comment above it in the script.
    pub why: String,
}

impl Directive {
    /// Returns the text that follows `#SBATCH`.
    pub fn text(&self) -> OsString {
        let mut out = OsString::from(self.option);
        if let Some(value) = &self.value {
            out.push("=");
            out.push(value);
        }
        out
    }
}

/// Formats directives as lines of a script, each below its reason, followed by the lines of
/// `--directive`.
///
/// # Errors
/// Fails if a line of `--directive` holds a line break.
pub fn format_directives(
    directives: &[Directive],
    extra: &[OsString],
) -> Result<OsString, EmitError> {
    let mut out = OsString::new();
    for directive in directives {
        out.push(format!("# {}\n#SBATCH ", directive.why));
        out.push(directive.text());
        out.push("\n");
    }
    for line in extra {
        // The user writes in sbatch's own language, so that the line is not quoted; it only has to
        // be one line.
        quote::sbatch(line).map_err(|why| EmitError::Directive { flag: "--directive", why })?;
        out.push("#SBATCH ");
        out.push(line);
        out.push("\n");
    }
    Ok(out)
}

/// Collects the directives of a job script, without those that `--skip-directive` names.
pub struct DirectiveList<'a> {
    job: &'a JobSettings,
    directives: Vec<Directive>,
}

impl<'a> DirectiveList<'a> {
    /// Creates an empty list.
    pub fn new(job: &'a JobSettings) -> Self {
        Self { job, directives: Vec::new() }
    }

    /// Returns the directives in the order in which they were added.
    pub fn into_directives(self) -> Vec<Directive> {
        self.directives
    }

    /// Adds `option=value`, which comes from `flag` of slurm-emit.
    ///
    /// # Errors
    /// Fails if no directive can hold the value.
    pub fn add(
        &mut self,
        flag: &'static str,
        option: &'static str,
        value: &str,
        why: &str,
    ) -> Result<(), EmitError> {
        let value =
            quote::sbatch(OsStr::new(value)).map_err(|why| EmitError::Directive { flag, why })?;
        self.push(flag, option, Some(value), why);
        Ok(())
    }

    /// Adds an option whose flag has the same name in slurm-emit, if the flag was given.
    ///
    /// # Errors
    /// Fails as [`DirectiveList::add`] does.
    pub fn add_if_given(
        &mut self,
        option: &'static str,
        value: Option<&str>,
        why: &str,
    ) -> Result<(), EmitError> {
        match value {
            Some(value) => self.add(option, option, value, why),
            None => Ok(()),
        }
    }

    /// Adds an option without a value.
    pub fn add_switch(&mut self, flag: &'static str, option: &'static str, why: &str) {
        self.push(flag, option, None, why);
    }

    /// Adds the directory in which the job runs, and its log there.
    ///
    /// # Errors
    /// Fails if no directive can hold the name of the directory.
    pub fn add_directory(&mut self, log: &str, why: &str) -> Result<(), EmitError> {
        let dir = quote::sbatch(self.job.dir.as_os_str())
            .map_err(|why| EmitError::Directive { flag: "--dir", why })?;
        self.push("--dir", "--chdir", Some(dir), "directory of the plan, the results and the logs");
        self.add_log(log, why)?;
        self.add("--dir", "--open-mode", "append", "a job that is requeued appends to its log")
    }

    /// Adds the log of the job. Its path is absolute, because SLURM would expand a `%` in the
    /// directory of a relative one, too.
    ///
    /// # Errors
    /// Fails if no directive can hold the name of the directory.
    pub fn add_log(&mut self, log: &str, why: &str) -> Result<(), EmitError> {
        let logs = self.job.dir.join("logs");
        let output = quote::sbatch_log(logs.as_os_str(), log)
            .map_err(|why| EmitError::Directive { flag: "--dir", why })?;
        self.push("--dir", "--output", Some(output), why);
        Ok(())
    }

    fn push(
        &mut self,
        flag: &'static str,
        option: &'static str,
        value: Option<OsString>,
        why: &str,
    ) {
        let name = |option: &str| option.trim_start_matches('-').to_owned();
        let is_skipped =
            self.job.slurm.skip_directive.iter().any(|skipped| name(skipped) == name(option));
        if !is_skipped {
            self.directives.push(Directive { flag, option, value, why: why.to_owned() });
        }
    }
}
