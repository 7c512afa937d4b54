//! All messages of the crate, side by side.

#![allow(clippy::unwrap_used, reason = "a test stops where it is wrong")]

use records::{FieldError, Record, SpansError};

#[test]
fn why_a_line_is_no_record() {
    let lines = [
        "{",
        "[1]",
        r#"{"v":1}"#,
        r#"{"type":"scan","v":2}"#,
        r#"{"type":"scan"}"#,
        r#"{"type":"fail","v":1,"id":"0a"}"#,
        r#"{"type":"fail","v":1,"id":0,"stage":"gather","about":"x","error":"y","retryable":false}"#,
    ];
    let messages = [
        "not a record: EOF while parsing an object, column 1",
        "not a record: expected a JSON object",
        "not a record: expected a string `type`",
        "scan record of version 2: this azpipe reads up to version 1: update azpipe",
        "scan record: expected a version number `v`",
        "fail record: missing field `stage`",
        "fail record: invalid type: integer `0`, expected a string",
    ];
    assert_eq!(lines.map(|line| Record::parse(line).unwrap_err().to_string()), messages);
}

#[test]
fn why_a_field_is_refused() {
    let errors = [
        FieldError::Id { field: "scan", text: "../..".to_owned() },
        FieldError::RelativePath { field: "out", path: "out".into() },
        FieldError::TooManyFrames(1 << 60),
        FieldError::TooManyPixels { shape: [1 << 20, 1 << 20], most: 1 << 27 },
        FieldError::TooManyListed { field: "absent", frames: 402_653_184 },
        FieldError::TooManyStrided { field: "sources", frames: 33_554_432 },
        FieldError::UnevenSource { file: "/p3.h5".into(), frames: 8, rows: 3 },
        FieldError::RepeatedFrame("/p3.h5".into()),
    ];
    let messages = [
        "`scan` is \"../..\": expected 1 to 64 letters and digits",
        "`out` is \"out\": expected an absolute path",
        "1152921504606846976 frames: expected at most 134217728",
        "frames of 1048576 x 1048576 pixels: expected at most 134217728 pixels",
        "`absent` has 402653184 frames: expected at most 134217728",
        "`sources` has 33554432 frames in ranges with a step: expected at most 16777216",
        "source /p3.h5: 8 frames in 3 rows: expected one row for each frame",
        "source /p3.h5: `frames` lists a frame twice: expected each frame once",
    ];
    assert_eq!(errors.map(|error| error.to_string()), messages);
    let spans = [
        SpansError::TooLarge { start: 0, stop: 1 << 60 },
        SpansError::TooManyFrames(402_653_184),
        SpansError::TooManyStrided(67_108_864),
    ];
    let messages = [
        "frame range [0, 1152921504606846976]: expected numbers up to 134217728",
        "frame ranges of 402653184 frames: expected at most 134217728",
        "frame ranges with a step that have 67108864 frames: expected at most 16777216",
    ];
    assert_eq!(spans.map(|error| error.to_string()), messages);
}
