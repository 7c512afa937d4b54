//! Scripts, and the pieces that they are made of.

use std::ffi::{OsStr, OsString};

use filter::quote;

use crate::job_settings::{GatherRun, JobSettings};

/// A script of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The name of the file in the directory.
    pub name: &'static str,
    /// The program that reads the script, and how.
    kind: ScriptKind,
    /// The content, as bytes, because paths in it need not be UTF-8.
    pub text: OsString,
}

/// The program that reads a script, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScriptKind {
    /// A script of bash that users or other scripts run by its name.
    Executable,
    /// A script of bash that another script sources, or that sbatch reads.
    Bash,
    /// A file that another program reads.
    Other,
}

impl Script {
    /// Creates a script of bash that is run by its name.
    pub fn new_executable(name: &'static str, text: OsString) -> Self {
        Self { name, kind: ScriptKind::Executable, text }
    }

    /// Creates a script of bash that another script sources, or that sbatch reads.
    pub fn new_bash(name: &'static str, text: OsString) -> Self {
        Self { name, kind: ScriptKind::Bash, text }
    }

    /// Creates a file that another program than bash reads.
    pub fn new_source(name: &'static str, text: OsString) -> Self {
        Self { name, kind: ScriptKind::Other, text }
    }

    /// Returns whether the script is run by its name.
    pub fn is_executable(&self) -> bool {
        self.kind == ScriptKind::Executable
    }

    /// Returns whether bash reads the script.
    pub fn is_bash(&self) -> bool {
        self.kind != ScriptKind::Other
    }
}

/// The mark in a template at which the `#SBATCH` lines are inserted.
pub const DIRECTIVES: &str = "# DIRECTIVES\n";

/// The mark in a template at which the settings are inserted.
pub const SETTINGS: &str = "# SETTINGS\n";

/// Pieces that several templates share, each with the mark at which it is inserted.
const PIECES: [(&str, &str); 12] = [
    ("# LOCK\n", include_str!("targets/single_machine/lock.bash")),
    ("# EMPTY PLAN\n", include_str!("targets/empty_plan.bash")),
    ("# NOTE JOB\n", include_str!("targets/note_job.bash")),
    ("# CPUS\n", include_str!("targets/single_machine/cpus.bash")),
    ("# STOP POOL\n", include_str!("targets/single_machine/stop_pool.bash")),
    ("# WAIT FOR POOL\n", include_str!("targets/single_machine/wait_for_pool.bash")),
    ("# MISSING BATCHES\n", include_str!("targets/missing_batches.bash")),
    ("# WAIT OPTION\n", include_str!("targets/wait_option.bash")),
    ("# WAIT FOR\n", include_str!("targets/wait_for.bash")),
    ("# GATHER RESULTS\n", include_str!("targets/gather_results.bash")),
    ("# PROGRESS\n", include_str!("targets/progress.bash")),
    ("# FINAL GATHER\n", include_str!("targets/final_gather.bash")),
];

/// Fills a template: inserts the pieces that it names, and `texts` at their marks, which come in
/// this order. Marks within `texts` are left alone.
pub fn fill_template(template: &str, texts: &[(&str, &OsStr)]) -> OsString {
    let mut out = OsString::new();
    let template = PIECES
        .iter()
        .fold(template.to_owned(), |template, (mark, piece)| template.replace(mark, piece));
    let mut rest = &*template;
    for (mark, text) in texts {
        let (before, after) =
            rest.split_once(mark).expect("the templates have their marks, in this order");
        out.push(before);
        out.push(text);
        rest = after;
    }
    out.push(rest);
    out
}

/// Joins texts without a separator.
pub fn concat(texts: &[&OsStr]) -> OsString {
    texts.iter().fold(OsString::new(), |mut out, text| {
        out.push(text);
        out
    })
}

/// Formats `name=value`, a line of bash.
pub fn assign(name: &str, value: impl AsRef<OsStr>) -> OsString {
    concat(&[name.as_ref(), "=".as_ref(), &quote::shell(value.as_ref()), "\n".as_ref()])
}

/// Formats `name=(value ...)`, a line of bash.
pub fn assign_list(name: &str, values: &[String]) -> OsString {
    let words: Vec<_> = values.iter().map(|value| quote::shell(value.as_ref())).collect();
    concat(&[name.as_ref(), "=(".as_ref(), &words.join(" ".as_ref()), ")\n".as_ref()])
}

/// Formats the lines of bash that set the directory of the programs and the arguments of gather.
pub fn assign_programs(job: &JobSettings, run: GatherRun) -> OsString {
    concat(&[
        &assign("bin", &job.bin),
        &assign_list("gather_arguments", &job.gather_arguments(run)),
    ])
}

/// Formats the lines of bash that set the directory of the programs and the arguments of a gather
/// that counts what is done.
pub fn assign_count(job: &JobSettings) -> OsString {
    let mut arguments: Vec<String> =
        job.allow_missing_argument().into_iter().map(str::to_owned).collect();
    arguments.extend(job.missing_arguments());
    concat(&[&assign("bin", &job.bin), &assign_list("count_arguments", &arguments)])
}

/// Formats the line of bash that sets the arguments of a gather that tells what is missing.
pub fn assign_missing(job: &JobSettings) -> OsString {
    assign_list("missing_arguments", &job.missing_arguments())
}

/// Formats the lines of bash that set the sizes that flags gave. The others stay empty, for
/// `fit_to_machine`.
pub fn assign_size_request(job: &JobSettings) -> OsString {
    let request = job.size_request;
    concat(&[
        "# Sizes that flags of slurm-emit gave; empty ones depend on the CPUs of this machine.\n"
            .as_ref(),
        &assign_number("workers", request.workers),
        &assign_number("engines", request.engines),
        &assign_number("threads", request.threads),
    ])
}

/// Formats `name=number`, or `name=` without a number.
fn assign_number(name: &str, number: Option<u64>) -> OsString {
    format!("{name}={}\n", number.map(|number| number.to_string()).unwrap_or_default()).into()
}

/// Formats the line of bash that changes to the directory of the scripts.
pub fn change_directory(job: &JobSettings) -> OsString {
    concat(&["cd -- ".as_ref(), &quote::shell(job.dir.as_os_str()), " || exit\n".as_ref()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_in_inserted_texts_are_left_alone() {
        let template = "a\n# DIRECTIVES\nb\n# SETTINGS\nc\n";
        let filled = fill_template(
            template,
            &[(DIRECTIVES, "# SETTINGS\n".as_ref()), (SETTINGS, "x\n".as_ref())],
        );
        assert_eq!(filled, "a\n# SETTINGS\nb\nx\nc\n");
    }

    #[test]
    fn values_are_quoted_as_words() {
        assert_eq!(assign("bin", "/a b"), "bin='/a b'\n");
        assert_eq!(assign_list("list", &["-n".to_owned(), "$x".to_owned()]), "list=(-n '$x')\n");
        assert_eq!(assign_number("workers", Some(3)), "workers=3\n");
        assert_eq!(assign_number("workers", None), "workers=\n");
    }
}
