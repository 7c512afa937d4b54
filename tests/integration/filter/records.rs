//! Bad lines, unknown types and fields, newer versions: what a filter does with what it can't use.

use serde_json::Value;

use crate::support::filters::{GATHER, NOTE, READERS, directory_with_poni};
use crate::support::{json, lines};

const KNOWN_TYPES: [&str; 5] = ["scan", "task", "result", "summary", "fail"];

#[test]
fn a_bad_line_is_one_failure_and_the_rest_goes_on() {
    let bad: [&[u8]; 8] = [
        b"not JSON",
        b"[1]",
        b"{}",
        b"{\"type\":1}",
        b"{\"type\":\"scan\"}",
        b"{\"type\":\"task\",\"v\":1}",
        b"\xff\xfe",
        &NOTE.as_bytes()[..30],
    ];
    for filter in READERS {
        for bad in bad {
            let place = directory_with_poni();
            let done = filter.run(
                place.path(),
                &["-q"],
                [NOTE.as_bytes(), bad, NOTE.as_bytes()].join(&b'\n'),
            );
            assert_eq!(done.status.code(), Some(1), "{done:?}");
            let [before, fail, after] = lines(&done.stdout)[..] else { panic!("{done:?}") };
            assert_eq!([before, after], [NOTE; 2], "{filter:?}");
            assert!(fail.starts_with(r#"{"type":"fail","v":1,"id":"","#), "{fail}");
            let fail = json(fail);
            assert_eq!(fail["stage"], filter.name);
            assert_eq!(fail["about"], "stdin:2");
            assert_eq!(fail["retryable"], false);
            let complaint =
                format!("{}: stdin:2: {}", filter.name, fail["error"].as_str().expect("a text"));
            // And that nothing came which it works on.
            assert!(
                lines(&done.stderr)[0] == complaint && lines(&done.stderr).len() == 2,
                "{done:?}"
            );
        }
    }
}

#[test]
fn a_file_of_another_kind_is_reported_once() {
    let poni = "poni_version: 2\nDetector: Pilatus100k\nDistance: 0.1\nPoni1: 0\n";
    for filter in READERS {
        let place = directory_with_poni();
        let binary = b"\x89HDF\r\n\x1a\n\0\0\n\0\nmore\n{\"\n".repeat(9);
        let done = filter.run(place.path(), &["-q"], binary);
        assert_eq!((done.status.code(), lines(&done.stdout).len()), (Some(1), 1), "{done:?}");
        let [told] = lines(&done.stderr)[..] else { panic!("{done:?}") };
        assert!(
            told.starts_with(&format!(
                "{}: stdin: binary data, not records: expected ",
                filter.name
            )),
            "{told}"
        );
        let done = filter.run(place.path(), &["-q"], poni);
        assert_eq!(done.status.code(), Some(1), "{done:?}");
        let [first, others] = lines(&done.stderr)[..] else { panic!("{done:?}") };
        assert!(first.contains("stdin:1: not a record: "), "{first}");
        assert!(others.contains("stdin: 3 more lines are not records: expected "), "{others}");
        let done = filter.run(place.path(), &["-q"], format!("{poni}{NOTE}\nnoise\n{NOTE}\n"));
        let about: Vec<_> =
            lines(&done.stdout).iter().map(|line| json(line)["about"].clone()).collect();
        assert_eq!(
            about,
            ["stdin:1".into(), "stdin".into(), Value::Null, "stdin:6".into(), Value::Null],
            "{done:?}"
        );
    }
}

#[test]
fn a_newer_version_is_a_failure_and_never_a_guess() {
    for filter in READERS {
        for kind in KNOWN_TYPES {
            let place = directory_with_poni();
            let newer = format!(r#"{{"type":"{kind}","v":2,"id":"a","file":"/x.h5"}}"#);
            let done = filter.run(place.path(), &[], format!("{newer}\n{NOTE}\n"));
            assert_eq!(done.status.code(), Some(1), "{done:?}");
            let [fail, note] = lines(&done.stdout)[..] else { panic!("{done:?}") };
            assert_eq!(note, NOTE);
            assert_eq!(json(fail)["type"], "fail");
            let error = json(fail)["error"].as_str().expect("a text").to_owned();
            assert!(error.contains("version 2") && error.contains("version 1"), "{error}");
        }
    }
}

#[test]
fn failures_of_others_pass_with_all_their_fields() {
    let fail = r#"{"type":"fail","v":1,"id":"0a","stage":"scan-find","about":"/x.h5","error":"no frames","retryable":true,"beamline":"id31"}"#;
    for filter in READERS {
        let place = directory_with_poni();
        let done = filter.run(place.path(), &["-q"], fail);
        assert_eq!(lines(&done.stdout), [fail], "{filter:?}");
        assert_eq!(done.status.code(), Some(1), "what failed elsewhere failed: {filter:?}");
        assert_eq!(lines(&done.stderr), [""; 0], "and was told there: {filter:?}");
    }
}

/// A line of each type, from the tests of the wire format.
fn line_of(kind: &str) -> &'static str {
    let wire = include_str!("../../../crates/records/tests/wire.jsonl");
    let mut lines = wire.lines().filter(|line| !line.is_empty());
    lines.find(|line| json(line)["type"] == kind).expect("a line of each type")
}

#[test]
fn records_for_another_filter_are_a_failure_that_says_what_was_expected() {
    for filter in READERS {
        let (works_on, maker) = match filter.name {
            "plan-split" => ("scan", "scan-find"),
            "gather" => ("result", "ai-integrate"),
            _ => ("task", "plan-split"),
        };
        for kind in ["scan", "task", "result", "summary", "note"]
            .into_iter()
            .filter(|kind| *kind != works_on)
        {
            let line = if kind == "note" { NOTE } else { line_of(kind) };
            let place = directory_with_poni();
            let done = filter.run(place.path(), &["-q"], format!("{line}\n{line}\n"));
            assert_eq!(done.status.code(), Some(1), "{kind}: {done:?}");
            assert_eq!(lines(&done.stdout), [line; 2], "{kind}: {done:?}");
            let what = if kind == "note" {
                "2 records of unknown type".to_owned()
            } else {
                format!("2 {kind} records")
            };
            let expected = format!("expected {works_on} records, as {maker} writes them");
            let complaint =
                format!("{}: stdin: no {works_on} record, but {what}: {expected}", filter.name);
            assert_eq!(lines(&done.stderr), [complaint], "{kind}");
            // Without -q, the first of them is warned of when it comes: the end may be hours away.
            let done = filter.run(place.path(), &[], line);
            let warning = format!(
                "{}: warning: stdin:1: a {kind} record, which is passed on unchanged: {expected}",
                filter.name
            );
            assert_eq!(lines(&done.stderr)[0] == warning, kind != "note", "{kind}: {done:?}");
        }
        let empty = filter.run(directory_with_poni().path(), &[], "");
        assert_eq!((empty.status.code(), lines(&empty.stdout)), (Some(0), vec![]), "{filter:?}");
    }
}

#[test]
fn a_plan_without_tasks_is_told_from_an_empty_one() {
    let place = directory_with_poni();
    std::fs::write(place.path().join("results.jsonl"), format!("{}\n", line_of("result")))
        .expect("a file");
    std::fs::write(place.path().join("empty.jsonl"), "").expect("a file");
    let wrong = GATHER.run(place.path(), &["--plan", "results.jsonl", "--missing"], "");
    assert_eq!(wrong.status.code(), Some(1), "{wrong:?}");
    assert!(
        String::from_utf8_lossy(&wrong.stderr).contains("no task record, but 1 result record"),
        "{wrong:?}"
    );
    assert_eq!(
        GATHER.run(place.path(), &["--plan", "empty.jsonl", "--missing"], "").status.code(),
        Some(0)
    );
}

#[test]
fn blank_lines_mean_nothing() {
    for filter in READERS {
        let place = directory_with_poni();
        let done = filter.run(place.path(), &[], format!("\n{NOTE}\n\n  \n{NOTE}\n\n"));
        assert_eq!(lines(&done.stdout), [NOTE; 2], "{filter:?}");
        assert_eq!(done.status.code(), Some(filter.status), "{filter:?}");
        assert_eq!(filter.run(place.path(), &[], "\n \n").status.code(), Some(0), "{filter:?}");
    }
}

#[test]
fn fail_fast_stops_at_the_first_failure() {
    for filter in READERS {
        let place = directory_with_poni();
        let done = filter.run(place.path(), &["--fail-fast"], format!("{NOTE}\nbad\n{NOTE}\n"));
        assert_eq!(done.status.code(), Some(1), "{filter:?}");
        let kinds: Vec<Value> =
            lines(&done.stdout).into_iter().map(|line| json(line)["type"].clone()).collect();
        assert_eq!(kinds, ["note", "fail"], "{filter:?}");
    }
}
