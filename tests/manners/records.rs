//! Bad lines, unknown types and fields, newer versions: what a filter does with what it can't use.

use serde_json::Value;

use crate::tool::{NOTE, READERS, json, lines, workplace};

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
    for tool in READERS {
        for bad in bad {
            let place = workplace();
            let done = tool.run(place.path(), &["-q"], [NOTE.as_bytes(), bad, NOTE.as_bytes()].join(&b'\n'));
            assert_eq!(done.status.code(), Some(1), "{done:?}");
            let [before, fail, after] = lines(&done.stdout)[..] else { panic!("{done:?}") };
            assert_eq!([before, after], [NOTE; 2], "{tool:?}");
            assert!(fail.starts_with(r#"{"type":"fail","v":1,"id":"","#), "{fail}");
            let fail = json(fail);
            assert_eq!(fail["stage"], tool.name);
            assert_eq!(fail["about"], "stdin:2");
            assert_eq!(fail["retryable"], false);
            let complaint = format!("{}: stdin:2: {}", tool.name, fail["error"].as_str().expect("a text"));
            assert_eq!(lines(&done.stderr), [complaint]);
        }
    }
}

#[test]
fn a_newer_version_is_a_failure_and_never_a_guess() {
    for tool in READERS {
        for kind in KNOWN_TYPES {
            let place = workplace();
            let newer = format!(r#"{{"type":"{kind}","v":2,"id":"a","file":"/x.h5"}}"#);
            let done = tool.run(place.path(), &[], format!("{newer}\n{NOTE}\n"));
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
    for tool in READERS {
        let place = workplace();
        let done = tool.run(place.path(), &[], fail);
        assert_eq!(lines(&done.stdout), [fail], "{tool:?}");
        assert_eq!(done.status.code(), Some(0), "what failed elsewhere is not ours: {tool:?}");
    }
}

#[test]
fn blank_lines_mean_nothing() {
    for tool in READERS {
        let place = workplace();
        let done = tool.run(place.path(), &[], format!("\n{NOTE}\n\n  \n{NOTE}\n\n"));
        assert_eq!(lines(&done.stdout), [NOTE; 2], "{tool:?}");
        assert_eq!(done.status.code(), Some(0), "{tool:?}");
    }
}

#[test]
fn fail_fast_stops_at_the_first_failure() {
    for tool in READERS {
        let place = workplace();
        let done = tool.run(place.path(), &["--fail-fast"], format!("{NOTE}\nbad\n{NOTE}\n"));
        assert_eq!(done.status.code(), Some(1), "{tool:?}");
        let kinds: Vec<Value> = lines(&done.stdout).into_iter().map(|line| json(line)["type"].clone()).collect();
        assert_eq!(kinds, ["note", "fail"], "{tool:?}");
    }
}
