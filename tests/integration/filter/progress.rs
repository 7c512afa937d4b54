//! Progress: on terminals, in logs, and for programs.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::Value;

use super::scans::{directory_with_scan, tasks};
use super::signals::send;
use super::terminal::{stderr_on_terminal, stderr_on_terminal_with_input};
use crate::support::filters::{AI_INTEGRATE, Filter, GATHER, PLAN_SPLIT, SCAN_FIND, SLURM_EMIT};
use crate::support::{exit_status, feed, files_below, json, lines};

/// Returns ai-integrate over three tasks of four frames each.
fn integrate(place: &Path, arguments: &[&str]) -> Command {
    let tasks_file = place.join("tasks.jsonl");
    if !tasks_file.exists() {
        std::fs::write(&tasks_file, tasks(place)).expect("a file");
    }
    let mut command = AI_INTEGRATE.command(place);
    command.args(["--force", "tasks.jsonl"]).args(arguments).env("TERM", "xterm");
    command
}

fn stderr(command: Command) -> String {
    String::from_utf8(feed(command, b"").stderr).expect("UTF-8")
}

#[test]
fn a_terminal_shows_a_line_in_place_and_then_one_that_sums_up() {
    let place = directory_with_scan();
    let on_terminal =
        |arguments: &[&str]| stderr_on_terminal(integrate(place.path(), arguments), 0);
    let text = on_terminal(&[]);
    assert!(text.contains("12/12 frames, ") && text.contains(".h5 1.1\r\x1b[K"), "{text:?}");
    assert!(
        !text.contains("/4 frames") && !text.contains("/8 frames"),
        "the total is that of all tasks: {text:?}"
    );
    let (_, last) = text.rsplit_once("\r\x1b[K").expect("the progress line is erased");
    assert!(
        last.starts_with("ai-integrate: 12 frames, in ") && last.contains("; limited by "),
        "{last:?}"
    );
    assert_eq!(on_terminal(&["-q"]), "");
    assert_eq!(on_terminal(&["--progress", "none"]), "");
    let mut dumb = integrate(place.path(), &[]);
    dumb.env("TERM", "dumb");
    assert!(!stderr_on_terminal(dumb, 0).contains('\x1b'));
}

#[test]
fn a_log_gets_one_line_of_a_short_run() {
    let place = directory_with_scan();
    for arguments in [&[][..], &["-q", "--progress", "log"]] {
        let text = stderr(integrate(place.path(), arguments));
        assert!(
            text.starts_with("ai-integrate: 12 frames, in ") && text.lines().count() == 1,
            "{text:?}"
        );
    }
    let mut again = AI_INTEGRATE.command(place.path());
    again.arg("tasks.jsonl");
    assert!(stderr(again).starts_with("ai-integrate: 12 frames, all done before, in "));
    assert_eq!(stderr(integrate(place.path(), &["-q"])), "");
    assert_eq!(stderr(integrate(place.path(), &["--progress", "none"])), "");
    assert_eq!(
        stderr(AI_INTEGRATE.command(place.path())),
        "",
        "an empty input is nothing to sum up"
    );
}

#[test]
fn programs_get_objects() {
    let place = directory_with_scan();
    let text = stderr(integrate(place.path(), &["--progress", "json"]));
    let last = json(text.lines().last().expect("an object"));
    let Value::Object(fields) = &last else { panic!("{last}") };
    let names: Vec<&str> = fields.keys().map(String::as_str).collect();
    let expected = "type filter state done total total_is_exact failed never_taken kept seconds frames_per_second bytes_per_second \
                    seconds_left scan limited_by";
    assert_eq!(names.join(" "), expected);
    let numbers =
        ["done", "total", "failed", "kept"].map(|name| last[name].as_u64().expect("a number"));
    assert_eq!((numbers, &last["total_is_exact"]), ([12, 12, 0, 12], &Value::Bool(true)));
    assert!(
        last["frames_per_second"].as_f64().expect("a rate") > 0.0 && last["state"] == "finished",
        "{last}"
    );
}

#[test]
fn programs_get_an_object_at_the_end_of_gather() {
    let place = directory_with_scan();
    let results = feed(integrate(place.path(), &[]), b"").stdout;
    std::fs::write(place.path().join("results.jsonl"), &results).expect("a file");
    let end = |arguments: &[&str], input: &[u8]| {
        let mut command = GATHER.command_without_arguments(place.path());
        command.args(["--keep-parts", "--progress", "json"]).args(arguments);
        let text = String::from_utf8(feed(command, input).stderr).expect("UTF-8");
        let last = json(text.lines().last().expect("an object"));
        let numbers =
            ["done", "total", "failed", "kept"].map(|name| last[name].as_u64().expect("a number"));
        assert_eq!((&last["type"], &last["filter"]), (&"progress".into(), &"gather".into()));
        assert!(last.get("limited_by").is_none(), "{last}");
        (last["state"].as_str().expect("a text").to_owned(), numbers)
    };
    let finished = |numbers| ("finished".to_owned(), numbers);
    assert_eq!(end(&["results.jsonl"], b""), finished([12, 12, 0, 12]));
    assert_eq!(end(&["-"], &results), finished([12, 12, 0, 12]), "with nothing to write");
    assert_eq!(end(&["--from", "PROCESSED"], b""), finished([12, 12, 0, 12]));
    assert_eq!(end(&["-"], b""), finished([0; 4]));
    let stopped = end(&["--fail-fast", "-"], &[b"bad\n", &results[..]].concat());
    assert_eq!(stopped.0, "stopped");
}

#[test]
fn frames_without_a_pattern_are_counted() {
    let place = directory_with_scan();
    let command = integrate(place.path(), &["--progress", "json"]);
    let files = files_below(&place.path().join("RAW_DATA"));
    let second = files
        .iter()
        .find(|path| path.to_string_lossy().ends_with("pilatus_0001.h5"))
        .expect("the second Lima file");
    std::fs::remove_file(second).expect("it is there");
    let done = feed(command, b"");
    assert_eq!(done.status.code(), Some(1));
    let text = String::from_utf8(done.stderr).expect("UTF-8");
    let last = json(text.lines().last().expect("an object"));
    let numbers =
        ["done", "total", "failed", "kept"].map(|name| last[name].as_u64().expect("a number"));
    assert_eq!(numbers, [7, 12, 5, 7], "{text}");
    assert!(
        stderr(integrate(place.path(), &[]))
            .contains("ai-integrate: 7 of 12 frames, 5 failed, in ")
    );
    let mut gather = GATHER.command_without_arguments(place.path());
    gather.args(["--progress", "json", "-"]);
    let text = String::from_utf8(feed(gather, &done.stdout).stderr).expect("UTF-8");
    let last = json(text.lines().last().expect("an object"));
    let numbers =
        ["done", "total", "failed", "kept"].map(|name| last[name].as_u64().expect("a number"));
    assert_eq!(numbers, [7, 12, 5, 7], "gather: {text}");
}

#[test]
fn what_is_stopped_says_how_much_is_kept() {
    let place = directory_with_scan();
    let tasks = tasks(place.path());
    for (signal, status) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 75)] {
        let mut command = AI_INTEGRATE.command(place.path());
        let mut child =
            command.args(["--force", "-"]).stdin(Stdio::piped()).spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        writeln!(stdin, "{}", lines(&tasks)[0]).expect("it reads");
        let mut result = String::new();
        stdout.read_line(&mut result).expect("a result, though the input is still open");
        send(&child, signal);
        let output = child.wait_with_output().expect("it ends");
        let text = String::from_utf8(output.stderr).expect("UTF-8");
        let expected = "ai-integrate: 4 of at least 4 frames done and kept; run the same command again: with --force to integrate all frames anew, \
                        without it to add those that no run has integrated";
        assert_eq!((exit_status(output.status), text.trim_end()), (status, expected));
    }
}

/// In `ai-integrate | gather`, both have the terminal: the one with the work draws on its last
/// line.
#[test]
fn gather_leaves_the_progress_line_to_the_filter_before_it() {
    let place = directory_with_scan();
    let results = feed(integrate(place.path(), &[]), b"").stdout;
    let whole = place.path().join("results.jsonl");
    std::fs::write(&whole, &results).expect("a file");
    let gather = |arguments: &[&str], input: &[u8], status: i32| {
        let mut command = GATHER.command_without_arguments(place.path());
        command.arg("--keep-parts").args(arguments).env("TERM", "xterm").stdin(Stdio::piped());
        stderr_on_terminal_with_input(command, input, status)
    };
    assert_eq!(gather(&[], &results, 0), "", "the scan is complete before its input ends");
    std::fs::remove_dir_all(place.path().join("PROCESSED/LaB6")).expect("finals");
    // Of a part of the results, what there is is gathered once the input has ended.
    let some = [b"bad\n", lines(&results)[0].as_bytes(), b"\n"].concat();
    let text = gather(&[], &some, 1);
    assert!(
        text.starts_with("\r\x1b[Kgather: ") && text.contains("12/12 frames"),
        "over the other's line: {text:?}"
    );
    std::fs::remove_dir_all(place.path().join("PROCESSED/LaB6")).expect("finals");
    assert!(gather(&["--progress", "bar"], &results, 0).contains("12/12 frames"));
    std::fs::remove_dir_all(place.path().join("PROCESSED/LaB6")).expect("finals");
    assert!(
        gather(&["results.jsonl"], b"", 0).contains("12/12 frames"),
        "its own input is no pipe"
    );
}

#[test]
fn more_messages_name_files_and_scans() {
    let place = directory_with_scan();
    let said = |filter: Filter, flags: &[&str], input: &[u8]| {
        let mut command = filter.command(place.path());
        command.arg("-v").args(flags);
        let done = feed(command, input);
        assert!(done.status.success(), "{done:?}");
        (String::from_utf8(done.stderr).expect("UTF-8"), done.stdout)
    };
    let (found, scans) = said(SCAN_FIND, &["RAW_DATA"], b"");
    assert!(found.contains("_0001.h5: 1 record in "), "{found}");
    let (planned, tasks) = said(PLAN_SPLIT, &["--by", "frames=4", "--npt", "100"], &scans);
    assert!(
        planned.ends_with("_0001.h5: entry 1.1: 12 frames in 3 tasks, 1 recipe\n"),
        "{planned}"
    );
    let (divided, _) = said(SLURM_EMIT, &[], &tasks);
    assert!(
        divided.contains("batch 000000: ") && divided.contains(" GB of stored data"),
        "{divided}"
    );
    let (integrated, results) = said(AI_INTEGRATE, &["-v"], &tasks);
    let first = "_0001.h5 1.1, frames 0 to 3: ";
    for part in
        [&format!("{first}4 frames: read in "), &format!("{first}/"), "_0000.h5: 4 frames, "]
    {
        assert!(integrated.contains(part), "{part} in {integrated}");
    }
    let (gathered, _) = said(GATHER, &[], &results);
    assert!(gathered.contains(".h5: written, 12 frames with a pattern"), "{gathered}");
}
