//! The examples of the manual pages, run as a reader would run them.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::program;
use sample::{Detector, Options};

/// The examples of a page, each one script, as they stand between `.EX` and `.EE`.
fn parse_examples(sections: &str) -> Vec<String> {
    let mut examples = Vec::new();
    let mut current: Option<String> = None;
    for line in sections.lines() {
        match (line, &mut current) {
            (".EX", _) => current = Some(String::new()),
            (".EE", _) => examples.extend(current.take()),
            (line, Some(script)) => *script += &format!("{line}\n"),
            _ => (),
        }
    }
    examples
}

/// Returns how many examples a page has.
pub fn count(sections: &str) -> usize {
    parse_examples(sections).len()
}

/// Returns the section EXAMPLES of a page as `--help` shows it: plain text, with the commands
/// indented.
pub fn as_plain_text(sections: &str) -> String {
    let lines = sections.lines().skip_while(|line| *line != ".SH EXAMPLES").skip(1);
    let mut literal = false;
    let mut out = "Examples:\n".to_owned();
    for line in lines.take_while(|line| !line.starts_with(".SH")) {
        match line {
            ".EX" | ".EE" => literal = line == ".EX",
            ".PP" => out += if out.ends_with(":\n") { "" } else { "\n" },
            line if literal => out += &format!("      {line}\n"),
            line => {
                out += &format!(
                    "  {}\n",
                    line.replace("\\fB", "").replace("\\fR", "").replace("\\-", "-")
                )
            }
        }
    }
    out
}

/// Runs the examples of a page one after the other, where a reader would have the sample dataset.
pub fn run_all(sections: &str) {
    let place = tempfile::tempdir().expect("a directory");
    let detector = Detector::named("pilatus-100k").expect("the sample knows it");
    let options = Options { detector, dtype: detector.dtype, ..Options::default() };
    sample::write(place.path(), &options).expect("a dataset");
    for example in parse_examples(sections) {
        let done = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &example])
            .current_dir(place.path())
            .env("PATH", search_path())
            .stdin(Stdio::null())
            .output()
            .expect("bash");
        assert!(
            done.status.success(),
            "{example}\n{}: {}",
            done.status,
            String::from_utf8_lossy(&done.stderr)
        );
    }
}

/// Where the programs under test come first.
fn search_path() -> String {
    let programs = Path::new(program("gather")).parent().expect("a directory");
    format!("{}:{}", programs.display(), std::env::var("PATH").expect("a PATH"))
}
