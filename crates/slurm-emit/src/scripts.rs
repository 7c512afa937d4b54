//! Scripts, and the pieces that they are made of.

use std::ffi::{OsStr, OsString};

use filter::quote;

use crate::job::Job;

/// One script of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Its name in the directory.
    pub name: &'static str,
    /// Whether it is to be called; else another program reads it.
    pub executable: bool,
    /// Its text. Of bytes, for that is what paths are.
    pub text: OsString,
}

impl Script {
    /// A script to be called.
    pub fn called(name: &'static str, text: OsString) -> Self {
        Self { name, executable: true, text }
    }

    /// A script that another program reads.
    pub fn read(name: &'static str, text: OsString) -> Self {
        Self { name, executable: false, text }
    }
}

/// Where in a template the `#SBATCH` lines go.
pub const DIRECTIVES: &str = "# DIRECTIVES\n";

/// Where in a template the settings go.
pub const SETTINGS: &str = "# SETTINGS\n";

/// Pieces that several templates have, with the marks of their places: how to be the only one on this machine and how
/// to end there, which batches are still to do, how to wait for a process through signals, how to gather while there are results to come, how to show
/// how far the plan is, and the end that puts together what is integrated and judges the whole.
const PIECES: [(&str, &str); 7] = [
    ("# ALONE\n", include_str!("targets/here/alone.bash")),
    ("# DRAIN\n", include_str!("targets/here/drain.bash")),
    ("# TO DO\n", include_str!("targets/to-do.bash")),
    ("# AWAIT\n", include_str!("targets/await.bash")),
    ("# GATHER\n", include_str!("targets/gather.bash")),
    ("# PROGRESS\n", include_str!("targets/progress.bash")),
    ("# JUDGE\n", include_str!("targets/judge.bash")),
];

/// A template with its pieces, and with texts in the places of marks, in the order of the marks. What is put in is not
/// searched for marks again.
pub fn fill(template: &str, texts: &[(&str, &OsStr)]) -> OsString {
    let mut out = OsString::new();
    let template = PIECES.iter().fold(template.to_owned(), |template, (mark, piece)| template.replace(mark, piece));
    let mut rest = &*template;
    for (mark, text) in texts {
        let (before, after) = rest.split_once(mark).expect("the templates have their marks, in this order");
        out.push(before);
        out.push(text);
        rest = after;
    }
    out.push(rest);
    out
}

/// Texts, one behind the other.
pub fn concat(texts: &[&OsStr]) -> OsString {
    texts.iter().fold(OsString::new(), |mut out, text| {
        out.push(text);
        out
    })
}

/// `name=value`, a line of bash.
pub fn assign(name: &str, value: impl AsRef<OsStr>) -> OsString {
    concat(&[name.as_ref(), "=".as_ref(), &quote::shell(value.as_ref()), "\n".as_ref()])
}

/// `name=(value ...)`, a line of bash.
pub fn assign_list(name: &str, values: &[String]) -> OsString {
    let words: Vec<_> = values.iter().map(|value| quote::shell(value.as_ref())).collect();
    concat(&[name.as_ref(), "=(".as_ref(), &words.join(" ".as_ref()), ")\n".as_ref()])
}

/// The lines of bash that say where the programs are, and what gather is told besides.
pub fn assign_programs(job: &Job) -> OsString {
    let allow_missing = assign("allow_missing", job.allow_missing_argument().unwrap_or_default());
    concat(&[&assign("bin", &job.bin), &allow_missing])
}

/// The line that goes to the directory of the job.
pub fn enter(job: &Job) -> OsString {
    concat(&["cd -- ".as_ref(), &quote::shell(job.dir.as_os_str()), " || exit\n".as_ref()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_in_is_not_filled_in_again() {
        let template = "a\n# DIRECTIVES\nb\n# SETTINGS\nc\n";
        let filled = fill(template, &[(DIRECTIVES, "# SETTINGS\n".as_ref()), (SETTINGS, "x\n".as_ref())]);
        assert_eq!(filled, "a\n# SETTINGS\nb\nx\nc\n");
    }

    #[test]
    fn values_are_words() {
        assert_eq!(assign("bin", "/a b"), "bin='/a b'\n");
        assert_eq!(assign_list("list", &["-n".to_owned(), "$x".to_owned()]), "list=(-n '$x')\n");
    }
}
