//! Files that slurm-emit did not write: it neither replaces nor removes them.

use std::fs;
use std::path::Path;

use super::scripts::{emit, read_stderr};
use super::task;
use crate::support::read_files_below;

/// Writes files, whose directories are made.
fn write_files(dir: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

const TARGETS: [&[&str]; 6] = [
    &["--target", "slurm"],
    &["--target", "local"],
    &["--target", "parallel"],
    &["--target", "make"],
    &["--target", "dask"],
    &["--target", "ray", "--partition", "local"],
];

#[test]
fn a_directory_that_others_filled_is_refused_whole() {
    let projects: [&[(&str, &str)]; 8] = [
        &[("batches/mine/data.h5", "raw"), ("plan.jsonl", "{\"type\":\"task\"}\n")],
        &[("batches/01/000000.jsonl", "{\"my\":1}\n")],
        &[("Makefile", "all:\n")],
        &[
            ("submit", "#!/bin/bash\nmine\n"),
            ("plan.jsonl", "{\"type\":\"task\"}\n"),
            ("logs/x", ""),
        ],
        &[("submit", "#!/bin/bash\n./plan\n"), ("plan.jsonl", "{\"mine\":true}\n"), ("logs/x", "")],
        &[("notes.txt", "mine")],
        &[(".slurm-emit", "mine")],
        &[("logs/a.log", "mine")],
    ];
    for (number, files) in projects.iter().enumerate() {
        for flags in TARGETS {
            let top = tempfile::tempdir().unwrap();
            write_files(top.path(), files);
            let before = read_files_below(top.path());
            let output = emit(top.path(), flags, &task::line(1));
            let said = read_stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{number} {flags:?} {said}");
            assert!(said.contains("slurm-emit did not write"), "{number} {flags:?} {said}");
            assert_eq!(
                said.matches(top.path().to_str().unwrap()).count(),
                1,
                "a path once: {said}"
            );
            assert_eq!(read_files_below(top.path()), before, "{number} {flags:?}");
        }
    }
}

#[test]
fn in_its_own_directory_others_files_stay() {
    for flags in TARGETS {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join("jobs");
        assert!(emit(&dir, flags, &task::lines(3)).status.success());
        let theirs = [
            ("notes.txt", "mine"),
            ("batches/mine/data.h5", "raw"),
            ("batches/note", "mine"),
            ("logs/x", "log"),
        ];
        write_files(&dir, &theirs);
        let output = emit(&dir, flags, &task::lines(4));
        assert!(output.status.success(), "{flags:?} {}", read_stderr(&output));
        for (name, text) in theirs {
            assert_eq!(fs::read_to_string(dir.join(name)).unwrap(), text, "{flags:?} {name}");
        }
        assert_eq!(fs::read_to_string(dir.join("plan.jsonl")).unwrap(), task::lines(4));
    }
}

#[test]
fn what_is_in_the_way_is_told_before_anything_is_written() {
    let ways: [&[(&str, &str)]; 3] = [
        &[("batches/01/mine.txt", "mine")],
        &[("batches/01/mine.jsonl", "{\"mine\":1}\n")],
        &[("Makefile", "all:\n")],
    ];
    for files in ways {
        let top = tempfile::tempdir().unwrap();
        assert!(emit(top.path(), &[], &task::lines(3)).status.success());
        write_files(top.path(), files);
        let before = read_files_below(top.path());
        let output = emit(top.path(), &["--target", "make"], &task::lines(4));
        let said = read_stderr(&output);
        assert!(output.status.code() == Some(2) && said.contains(files[0].0), "{said}");
        assert_eq!(read_files_below(top.path()), before);
    }
}

#[test]
fn a_directory_from_before_there_were_marks_is_known_by_its_files() {
    for flags in TARGETS {
        for lines in [task::lines(3), String::new()] {
            let top = tempfile::tempdir().unwrap();
            let dir = top.path().join("jobs");
            assert!(emit(&dir, flags, &lines).status.success());
            let marked = read_files_below(&dir);
            fs::remove_file(dir.join(".slurm-emit")).unwrap();
            // It is written since there are marks.
            if dir.join("workers.py").exists() {
                fs::remove_file(dir.join("workers.py")).unwrap();
            }
            write_files(&dir, &[("logs/1_0.log", "said"), ("results/x.jsonl", ""), (".lock", "")]);
            let output = emit(&dir, flags, &lines);
            assert!(output.status.success(), "{flags:?} {}", read_stderr(&output));
            fs::remove_file(dir.join("logs/1_0.log")).unwrap();
            fs::remove_file(dir.join("results/x.jsonl")).unwrap();
            fs::remove_file(dir.join(".lock")).unwrap();
            let names = |content: Vec<(std::path::PathBuf, Vec<u8>)>| {
                content.into_iter().map(|(name, _)| name)
            };
            assert!(names(read_files_below(&dir)).eq(names(marked)), "{flags:?}");
        }
    }
}

#[test]
fn a_folder_of_others_beside_the_batches_is_left_alone() {
    let top = tempfile::tempdir().unwrap();
    let output = emit(top.path(), &[], &task::lines(3));
    assert!(output.status.success(), "{}", read_stderr(&output));
    write_files(
        top.path(),
        &[("batches/mine/data.h5", "raw"), ("batches/02/000000.jsonl", &task::line(0))],
    );
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", ". ./queue.bash; printf %s \"$batch_dir\""]).current_dir(top.path());
    assert_eq!(String::from_utf8(shell.output().unwrap().stdout).unwrap(), "batches/02");
}
