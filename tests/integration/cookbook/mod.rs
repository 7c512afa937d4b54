//! The manual pages of sections 5 and 7, which are also the site in `docs/book`: their examples
//! work, and `man` has the same text.

mod markdown;
mod record_fields;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::program;

/// The sources of the site and the manual pages that are made of them.
const PAGES: [(&str, &str); 5] = [
    ("tutorial.md", "azpipe.7"),
    ("cookbook.md", "azpipe-cookbook.7"),
    ("moving.md", "azpipe-moving.7"),
    ("records.md", "azpipe-records.5"),
    ("files.md", "azpipe-files.5"),
];

fn package_directory() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn source_path(name: &str) -> PathBuf {
    package_directory().join("docs/book/src").join(name)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// Compares a file with what it should be, or writes it.
fn check_file(path: &Path, expected: &str) {
    if std::env::var_os("AZPIPE_BLESS").is_some() {
        std::fs::write(path, expected).expect("the file is written");
    }
    assert!(
        std::fs::read_to_string(path).unwrap_or_default() == expected,
        "{} is out of date; write it anew: AZPIPE_BLESS=1 cargo test --test integration cookbook::",
        path.display()
    );
}

#[test]
fn records_are_described_as_their_types_are_and_manual_pages_say_what_the_site_says() {
    check_file(&source_path("records.md"), &record_fields::page());
    for (source, page) in PAGES {
        check_file(
            &package_directory().join("man").join(page),
            &markdown::to_manual(&read(&source_path(source)), page),
        );
    }
}

#[test]
fn mandoc_finds_nothing_wrong() {
    for (source, page) in PAGES {
        let path = package_directory().join("man").join(page);
        let Ok(lint) =
            Command::new("mandoc").args(["-T", "lint", "-W", "warning"]).arg(&path).output()
        else {
            return;
        };
        assert!(lint.status.success(), "{source}: {}", String::from_utf8_lossy(&lint.stdout));
    }
}

#[test]
fn the_site_has_every_page_and_no_dead_link() {
    let contents = read(&source_path("SUMMARY.md"));
    let listed = std::fs::read_dir(source_path("")).expect("the directory of the site");
    for file in
        listed.map(|file| file.expect("a file").file_name().into_string().expect("a name in UTF-8"))
    {
        assert!(
            file == "SUMMARY.md" || contents.contains(&format!("({file})")),
            "SUMMARY.md: {file} is missing"
        );
        let text = read(&source_path(&file));
        for link in
            text.split("](").skip(1).map(|rest| rest.split([')', '#']).next().unwrap_or_default())
        {
            let is_elsewhere = link.is_empty() || link.starts_with("https://");
            assert!(is_elsewhere || source_path(link).exists(), "{file}: {link} is not there");
        }
    }
    let pages = PAGES.map(|(source, _)| source);
    assert!(pages.iter().all(|source| contents.contains(source)), "{contents}");
}

/// Returns the PATH with the programs under test and, if the tests have one, the Python environment
/// of the peers.
fn search_path() -> String {
    let programs = Path::new(program("gather")).parent().expect("a program is in a directory");
    let peers =
        std::env::var("AZPIPE_PEERS").map_or(String::new(), |peers| format!("{peers}/bin:"));
    format!("{}:{peers}{}", programs.display(), std::env::var("PATH").unwrap_or_default())
}

/// Programs and modules of Python that examples use besides azpipe. An example is not run where one
/// is missing, except on CI.
const NEEDS: [(&str, &str); 11] = [
    ("jq ", "command -v jq"),
    ("parallel --", "command -v parallel"),
    ("make -j", "command -v make"),
    ("snakemake --", "command -v snakemake"),
    ("submitit", "python3 -c 'import submitit'"),
    ("import h5py", "python3 -c 'import h5py'"),
    ("import numpy", "python3 -c 'import numpy'"),
    ("import xarray", "python3 -c 'import xarray, h5netcdf'"),
    ("import matplotlib", "python3 -c 'import matplotlib'"),
    ("import silx", "python3 -c 'import silx'"),
    ("import pyFAI", "python3 -c 'import pyFAI'"),
];

fn can_run(example: &str, path: &str) -> bool {
    NEEDS.iter().filter(|(word, _)| example.contains(word)).all(|(_, check)| {
        let found =
            Command::new("sh").args(["-c", check]).env("PATH", path).output().expect("sh starts");
        assert!(
            found.status.success() || std::env::var_os("CI").is_none(),
            "{check}: fails, and CI needs it"
        );
        found.status.success()
    })
}

/// Runs the examples of a page one after the other in an empty directory, and compares their output
/// with the page.
fn run_examples(source: &str) {
    let (text, path) = (read(&source_path(source)), search_path());
    let directory = tempfile::tempdir().expect("a temporary directory");
    for example in markdown::examples(&text) {
        if !can_run(&example.script, &path) {
            eprintln!("{source}: not run, because a program is missing: {}", example.script);
            continue;
        }
        let done = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &example.script])
            .current_dir(directory.path())
            .env("PATH", &path)
            .stdin(Stdio::null())
            .output()
            .expect("bash starts");
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{source}: {}\n{}: {stderr}", example.script, done.status);
        if let Some(output) = example.output {
            assert_eq!(
                String::from_utf8_lossy(&done.stdout),
                output,
                "{source}: {}\n{stderr}",
                example.script
            );
        }
    }
}

#[test]
fn examples_of_the_tutorial_work() {
    run_examples("tutorial.md");
}

#[test]
fn examples_of_the_cookbook_work() {
    run_examples("cookbook.md");
}

#[test]
fn examples_of_moving_work() {
    run_examples("moving.md");
}

#[test]
fn examples_of_files_work() {
    run_examples("files.md");
}
