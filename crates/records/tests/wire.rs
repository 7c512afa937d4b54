//! The wire, held from both sides: a golden line of each type comes back to the byte, and holds the
//! documented fields and no others.

use records::{Record, RecordError};
use serde::de::DeserializeOwned;
use serde_json::Value;

const GOLDEN: &str = include_str!("wire.jsonl");

/// The fields of the wire, declared once more: one that is added by accident fails here.
mod strict {
    use serde::Deserialize;

    macro_rules! record {
        ($name:ident: $($field:ident $(($rename:literal))?),* $(; optional: $($maybe:ident),*)?) => {
            #[derive(Deserialize)]
            #[serde(deny_unknown_fields)]
            #[allow(dead_code)]
            pub struct $name {
                $($(#[serde(rename = $rename)])? $field: serde_json::Value,)*
                $($(#[serde(default)] $maybe: Option<serde_json::Value>,)*)?
            }
        };
    }

    record!(Scan: r#type("type"), v, id, below, entry, detector, complete, frames, shape, dtype, codec, sources;
        optional: file, file_b64, dataset, title, start_time, end_time, end_reason, chunk, image_operation, content, exposure_time, planned_frames, countrate_correction_applied, counters, absent);
    record!(Task: r#type("type"), v, id, scan, range, recipe, recipe_digest, out, part, last("final"), bytes,
        below, entry, detector, complete, frames, shape, dtype, codec, sources;
        optional: file, file_b64, more, absent_elsewhere);
    record!(Operation: binning, flip, rotation, region; optional: full);
    record!(TaskRecipe: recipe, recipe_digest, part, last("final"));
    record!(TaskResult: r#type("type"), v, id, scan, range, recipe, recipe_digest, out, part, last("final"), bytes,
        below, entry, detector, complete, frames, shape, dtype, codec, sources,
        done, skipped, read_bytes, seconds, device, engine, host; optional: file, file_b64, missing, part_digest, sent_bytes,
            decode_path, monitor_readings);
    record!(Summary: r#type("type"), v, id, scan, file, entry, detector, recipe_digest, last("final"), frames,
        integrated, complete, up_to_date, scan_state, data_digest, seconds; optional: missing);
    record!(Fail: r#type("type"), v, id, stage, about, error, retryable);
    record!(Source: dataset, size, mtime, frames, rows, bytes; optional: file, file_b64);
}

fn golden(kind: &str) -> &'static str {
    GOLDEN
        .lines()
        .find(|line| line.starts_with(&format!("{{\"type\":\"{kind}\"")))
        .expect("a golden line of each type")
}

fn holds<T: DeserializeOwned>(line: &str) {
    if let Err(why) = serde_json::from_str::<T>(line) {
        panic!("{why}: {line}");
    }
}

#[test]
fn golden_lines_come_back_to_the_byte() {
    for line in GOLDEN.lines() {
        assert_eq!(Record::parse(line).unwrap().to_line(), line);
    }
}

/// A line as this crate formats it is parsed straight into a record, and any other by way of a tree
/// of JSON values. A space at the start is what neither writes.
#[test]
fn a_line_means_the_same_however_it_is_parsed() {
    let (mut same, mut wrong) = (0, 0);
    let mut compare = |line: &str| {
        let (plain, spaced) = (Record::parse(line), Record::parse(&format!(" {line}")));
        match (plain, spaced) {
            (Ok(Record::Other(_)), Ok(Record::Other(_))) => (),
            (Ok(plain), Ok(spaced)) => {
                same += 1;
                assert_eq!(plain, spaced, "{line}");
                assert_eq!(plain.to_line(), spaced.to_line());
            }
            (Err(plain), Err(spaced)) => {
                wrong += 1;
                // Both tell the column, if any, of the line that they have.
                let words = |why: &RecordError| why.to_string().replace(char::is_numeric, "");
                assert_eq!(words(&plain), words(&spaced));
            }
            (plain, spaced) => panic!("{plain:?}, {spaced:?}: {line}"),
        }
    };
    let fields = [
        r#""type":"scan""#,
        r#""\u0074ype":"fail""#,
        r#""v":2"#,
        r#""id":"0""#,
        r#""done":[[0,1]]"#,
        r#""file_b64":"L2Nhdelf""#,
        r#""note":"\u0000b64:L2Nhdelf""#,
        r#""new":{"type":1,"v":[2.50,1e400]}"#,
        r#""frames":1.0"#,
        r#""sources":null"#,
    ];
    for line in GOLDEN.lines() {
        compare(line);
        let places = line.match_indices([',', '{']).map(|(at, _)| at + 1);
        for (at, field) in places.flat_map(|at| fields.map(|field| (at, field))) {
            compare(&format!("{}{field},{}", &line[..at], &line[at..]));
        }
        for at in (0..line.len()).filter(|at| line.is_char_boundary(*at)) {
            compare(&line[..at]);
            for put in ["", "0", "\"", ",", "-", "e9", "."] {
                let rest = line[at..].chars().next().map_or(at, |first| at + first.len_utf8());
                compare(&format!("{}{put}{}", &line[..at], &line[rest..]));
            }
        }
    }
    assert!(same > 5000 && wrong > 5000, "{same} {wrong}");
}

#[test]
fn a_written_line_holds_the_documented_fields_and_no_others() {
    let written = |kind| Record::parse(golden(kind)).unwrap().to_line();
    holds::<strict::Scan>(&written("scan"));
    holds::<strict::Task>(&written("task"));
    let scan: Value = serde_json::from_str(&written("scan")).unwrap();
    holds::<strict::Operation>(&scan["image_operation"].to_string());
    let task: Value = serde_json::from_str(&written("task")).unwrap();
    holds::<strict::TaskRecipe>(&task["more"][0].to_string());
    holds::<strict::TaskResult>(&written("result"));
    holds::<strict::Summary>(&written("summary"));
    holds::<strict::Fail>(&written("fail"));
    let result: Value = serde_json::from_str(&written("result")).unwrap();
    holds::<strict::Source>(&result["sources"][0].to_string());
}

#[test]
fn unknown_fields_survive_at_every_level() {
    let mut scan: Value = serde_json::from_str(golden("scan")).unwrap();
    scan["beamline"] = "id31".into();
    scan["sources"][0]["tape"] = 7.into();
    let line = scan.to_string();
    assert_eq!(
        serde_json::from_str::<Value>(&Record::parse(&line).unwrap().to_line()).unwrap(),
        scan
    );
}

#[test]
fn the_former_name_of_the_decode_path_is_still_read() {
    let line = golden("result");
    let former = line.replace("\"decode_path\":", "\"way\":");
    assert_ne!(former, line);
    assert_eq!(Record::parse(&former).unwrap().to_line(), line);
}

#[test]
fn an_unknown_type_passes_as_it_came() {
    let line = r#"{ "type" : "note", "v": 99,  "text":"hi"}"#;
    assert_eq!(Record::parse(line).unwrap(), Record::Other(line.to_owned()));
}

#[test]
fn a_newer_version_is_refused_and_says_so() {
    let line = golden("task").replacen("\"v\":1", "\"v\":2", 1);
    let error = Record::parse(&line).unwrap_err();
    assert!(matches!(error, RecordError::UnsupportedVersion { found: 2, .. }));
    assert!(error.to_string().contains("update"), "{error}");
}

#[test]
fn what_is_no_record_is_an_error() {
    for line in ["", "{", "[1]", "{\"v\":1}", "{\"type\":3}", "nonsense"] {
        assert!(matches!(Record::parse(line), Err(RecordError::NotRecord(_))), "{line}");
    }
    for line in
        ["{\"type\":\"task\",\"v\":1}", "{\"type\":\"scan\"}", "{\"type\":\"fail\",\"v\":\"1\"}"]
    {
        assert!(matches!(Record::parse(line), Err(RecordError::InvalidFields { .. })), "{line}");
    }
}

#[test]
fn ids_that_would_lead_elsewhere_and_numbers_without_bounds_are_refused() {
    let refuse = |kind: &str, field: &str, value: Value| {
        let mut record: Value = serde_json::from_str(golden(kind)).unwrap();
        record[field] = value;
        match Record::parse(&record.to_string()) {
            Err(RecordError::InvalidFields { kind: found, why }) if found == kind => {
                why.to_string()
            }
            other => panic!("{kind} with another {field}: {other:?}"),
        }
    };
    assert!(refuse("scan", "id", "../../..".into()).contains("`id` is"));
    for id in ["", "/etc", "a b", "nul\0", &"5".repeat(65)] {
        assert!(refuse("task", "scan", id.into()).contains("letters and digits"), "{id:?}");
    }
    assert!(refuse("result", "recipe_digest", "..".into()).contains("`recipe_digest`"));
    for field in ["out", "recipe", "file"] {
        for path in ["", "out", "./out", "../out"] {
            let why = refuse("task", field, path.into());
            assert!(
                why.contains(&format!("`{field}` is {path:?}: expected an absolute path")),
                "{why}"
            );
        }
    }
    let more =
        serde_json::json!([{"recipe": "r", "recipe_digest": "00", "part": "p", "final": "f"}]);
    assert!(refuse("task", "more", more).contains("`recipe` is \"r\": expected an absolute path"));
    let more =
        serde_json::json!([{"recipe": "/r", "recipe_digest": "../..", "part": "p", "final": "f"}]);
    assert!(refuse("task", "more", more).contains("`recipe_digest`"));
    assert!(refuse("scan", "frames", (1u64 << 60).into()).contains("at most"));
    assert!(
        refuse("task", "shape", serde_json::json!([1u64 << 40, 1u64 << 40])).contains("pixels")
    );
    assert!(
        refuse("task", "range", serde_json::json!([[0, 1u64 << 60]])).contains("up to 134217728")
    );
}
