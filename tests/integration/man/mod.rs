//! The manual pages: true to the command lines, well-formed, and with examples that work.

mod example;
mod page;

use crate::support::{filters, program};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const SECTIONS: [&str; 10] = [
    "NAME",
    "SYNOPSIS",
    "DESCRIPTION",
    "OPTIONS",
    "\"EXIT STATUS\"",
    "ENVIRONMENT",
    "FILES",
    "LIMITS",
    "EXAMPLES",
    "\"SEE ALSO\"",
];

/// Each filter's name, what somebody wrote of it, and its page as it should be.
fn pages() -> impl Iterator<Item = (String, String, String)> {
    filters::commands().into_iter().map(|command| {
        let name = command.get_name().to_owned();
        let sections = package_directory().join("man/extra").join(format!("{name}.man"));
        let sections = std::fs::read_to_string(&sections)
            .unwrap_or_else(|why| panic!("{}: {why}", sections.display()));
        let page = page::render(&command, &sections);
        (name, sections, page)
    })
}

fn package_directory() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn pages_are_what_the_command_lines_say() {
    for (name, _, page) in pages() {
        let path = package_directory().join("man").join(format!("{name}.1"));
        if std::env::var_os("AZPIPE_BLESS").is_some() {
            std::fs::write(&path, &page).expect("the page is written");
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == page,
            "{} is out of date; write it anew: AZPIPE_BLESS=1 cargo test --test integration man::",
            path.display()
        );
    }
}

/// Returns the rows of a table of an option's values, with what help says of each.
fn table_of_values(command: &clap::Command, option: &str) -> String {
    let argument = command
        .get_arguments()
        .find(|argument| argument.get_long() == Some(option))
        .expect("an option");
    let values = argument.get_possible_values();
    let row = |value: &clap::builder::PossibleValue| {
        format!("| `{}` | {} |\n", value.get_name(), value.get_help().expect("each value has help"))
    };
    values.iter().map(row).collect()
}

/// Compares the table of the README below `head` with an option's values, or writes it.
fn check_table(head: &str, command: &clap::Command, option: &str) {
    let path = package_directory().join("README.md");
    let mut readme = std::fs::read_to_string(&path).expect("the README is there");
    let start =
        readme.find(head).unwrap_or_else(|| panic!("no table with the head {head}")) + head.len();
    let end = start + readme[start..].find("\n\n").expect("a table ends with an empty line") + 1;
    let table = table_of_values(command, option);
    if std::env::var_os("AZPIPE_BLESS").is_some() {
        readme.replace_range(start..end, &table);
        std::fs::write(&path, &readme).expect("the README is written");
    } else {
        assert_eq!(
            readme[start..end],
            table,
            "write it anew: AZPIPE_BLESS=1 cargo test --test integration man::"
        );
    }
}

#[test]
fn tables_in_the_readme_are_what_the_command_lines_say() {
    check_table("| `--export` | files |\n|---|---|\n", &gather::command(), "export");
}

/// The filters whose help is complete: it has short help for one screen, and examples.
const SCREENS: [&str; 5] = ["scan-find", "plan-split", "ai-integrate", "gather", "slurm-emit"];

#[test]
fn short_help_fits_a_screen() {
    for (name, ..) in pages().filter(|(name, ..)| SCREENS.contains(&name.as_str())) {
        let program = Path::new(program("gather")).with_file_name(&name);
        let help = Command::new(program)
            .arg("-h")
            .env("COLUMNS", "80")
            .output()
            .expect("it prints its help");
        let help = String::from_utf8(help.stdout).expect("UTF-8");
        assert!(help.lines().count() <= 50, "{name}: {} lines\n{help}", help.lines().count());
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{name}\n{help}");
    }
}

/// `--help` shows the examples of the manual page, which `examples_work` runs.
#[test]
fn long_help_shows_the_examples_of_the_page() {
    for (name, sections, _) in pages().filter(|(name, ..)| SCREENS.contains(&name.as_str())) {
        let path = package_directory().join("crates").join(&name).join("src/examples.txt");
        let examples = example::as_plain_text(&sections);
        if std::env::var_os("AZPIPE_BLESS").is_some() {
            std::fs::write(&path, &examples).expect("the examples are written");
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == examples,
            "{} is out of date; write it anew: AZPIPE_BLESS=1 cargo test --test integration man::",
            path.display()
        );
        let count = example::count(&sections);
        assert!((3..=6).contains(&count), "{name}: {count} examples");
    }
}

#[test]
fn pages_have_the_sections_that_readers_look_for() {
    for (name, _, page) in pages() {
        let sections = page.lines().filter_map(|line| line.strip_prefix(".SH "));
        // Only ai-integrate has much to say about its progress.
        let sections: Vec<_> = sections
            .filter(|section| (name.as_str(), *section) != ("ai-integrate", "PROGRESS"))
            .collect();
        assert_eq!(sections, SECTIONS, "{name}");
    }
}

#[test]
fn every_option_is_described() {
    for (name, _, page) in pages() {
        let lines: Vec<_> = page.lines().collect();
        let ends = |line: &str| [".TP", ".SS", ".SH"].iter().any(|end| line.starts_with(end));
        let empty = lines.windows(3).find(|three| three[1] == ".sp" && ends(three[2]));
        assert_eq!(empty, None, "{name}");
    }
}

#[test]
fn mandoc_finds_nothing_wrong() {
    for (name, _, page) in pages() {
        let mandoc = Command::new("mandoc")
            .args(["-T", "lint", "-W", "warning"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        // Where it is not installed, the pages are still compared with what was checked elsewhere.
        let Ok(mut mandoc) = mandoc else { return };
        let mut stdin = mandoc.stdin.take().expect("a pipe");
        stdin.write_all(page.as_bytes()).expect("mandoc reads the page");
        drop(stdin);
        let lint = mandoc.wait_with_output().expect("mandoc ends");
        assert!(lint.status.success(), "{name}: {}", String::from_utf8_lossy(&lint.stdout));
    }
}

#[test]
fn examples_work() {
    for (_, sections, _) in pages() {
        example::run_all(&sections);
    }
}
