//! Parses lines into records, and formats records as lines.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{FieldError, describe_json_error};
use crate::path::{B64_IN_JSON, move_to_b64_fields, take_b64_fields};
use crate::valid::check_id;
use crate::{Extra, Fail, Scan, Summary, Task, TaskResult};

/// The version of the wire format that this crate writes, and the newest that it reads.
pub const VERSION: u64 = 1;

/// A record: one line of a pipe.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A scan that can be integrated.
    Scan(Box<Scan>),
    /// A task to integrate.
    Task(Box<Task>),
    /// The result of a task.
    Result(Box<TaskResult>),
    /// The summary of a final file.
    Summary(Box<Summary>),
    /// A failure.
    Fail(Box<Fail>),
    /// A record of a type that this version does not know; its line is passed on unchanged.
    Other(String),
}

/// The reasons why a line is not a record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The line is not a JSON object with a `type`.
    #[error("not a record: {0}")]
    NotRecord(String),
    /// The record was written by a newer azpipe.
    #[error(
        "{kind} record of version {found}: this azpipe reads up to version {VERSION}: update azpipe"
    )]
    UnsupportedVersion {
        /// The record's type.
        kind: String,
        /// The record's version.
        found: u64,
    },
    /// A record of a known type lacks a field, or a field has the wrong type or an impossible
    /// value.
    #[error("{kind} record: {why}")]
    InvalidFields {
        /// The record's type.
        kind: String,
        /// The field, and what was expected.
        why: FieldError,
    },
}

impl Record {
    /// Parses one line. Records of unknown types are [`Record::Other`], whatever their version.
    ///
    /// # Errors
    /// Fails if the line is not a JSON object with a string `type`, and if a record of a known type
    /// is of a newer version, lacks a field, or has numbers that no scan has.
    pub fn parse(line: &str) -> Result<Self, RecordError> {
        match parse_plain(line) {
            Some(record) => Ok(record),
            None => Self::parse_any(line),
        }
    }

    /// Parses a line with its fields in any order, with paths of any bytes; says what is wrong.
    fn parse_any(line: &str) -> Result<Self, RecordError> {
        let value: Value = serde_json::from_str(line)
            .map_err(|why| RecordError::NotRecord(describe_json_error(&why)))?;
        let Value::Object(mut map) = value else {
            return Err(RecordError::NotRecord("expected a JSON object".to_owned()));
        };
        let Some(Value::String(kind)) = map.shift_remove("type") else {
            return Err(RecordError::NotRecord("expected a string `type`".to_owned()));
        };
        if !["scan", "task", "result", "summary", "fail"].contains(&kind.as_str()) {
            return Ok(Self::Other(line.to_owned()));
        }
        match map.shift_remove("v").as_ref().map(Value::as_u64) {
            Some(Some(found)) if found > VERSION => {
                return Err(RecordError::UnsupportedVersion { kind, found });
            }
            Some(Some(1..)) => (),
            _ => return Err(RecordError::InvalidFields { kind, why: FieldError::Version }),
        }
        let value = take_b64_fields(Value::Object(map));
        let record = match kind.as_str() {
            "scan" => Self::Scan(parse_fields(&kind, value)?),
            "task" => Self::Task(parse_fields(&kind, value)?),
            "result" => Self::Result(parse_fields(&kind, value)?),
            "summary" => Self::Summary(parse_fields(&kind, value)?),
            _ => Self::Fail(parse_fields(&kind, value)?),
        };
        record.check().map_err(|why| RecordError::InvalidFields { kind, why })?;
        Ok(record)
    }

    /// Checks the constraints that the types of the fields do not express.
    fn check(&self) -> Result<(), FieldError> {
        match self {
            Self::Scan(scan) => check_id("id", &scan.id).and_then(|()| scan.acquisition.check()),
            Self::Task(task) => task.check(),
            Self::Result(result) => result.task.check(),
            Self::Summary(_) | Self::Fail(_) | Self::Other(_) => Ok(()),
        }
    }

    /// Returns the record's `type` on the wire; `unknown` for a type that this version does not
    /// know.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Scan(_) => "scan",
            Self::Task(_) => "task",
            Self::Result(_) => "result",
            Self::Summary(_) => "summary",
            Self::Fail(_) => "fail",
            Self::Other(_) => "unknown",
        }
    }

    /// Formats the record as a line, without a line break at its end.
    pub fn to_line(&self) -> String {
        match self {
            Self::Scan(scan) => format_line(self.kind(), scan, &scan.acquisition.extra),
            Self::Task(task) => format_line(self.kind(), task, &task.acquisition.extra),
            Self::Result(result) => {
                format_line(self.kind(), result, &result.task.acquisition.extra)
            }
            Self::Summary(summary) => format_line(self.kind(), summary, &summary.extra),
            Self::Fail(fail) => format_line(self.kind(), fail, &fail.extra),
            Self::Other(line) => line.clone(),
        }
    }
}

fn parse_fields<T: DeserializeOwned>(kind: &str, value: Value) -> Result<Box<T>, RecordError> {
    serde_json::from_value(value).map(Box::new).map_err(|why| RecordError::InvalidFields {
        kind: kind.to_owned(),
        why: FieldError::Json(describe_json_error(&why)),
    })
}

/// Parses a line as this crate formats it: `type` and `v` first, and all paths in UTF-8. The line of
/// a scan of 10^5 files has 20 MB, and as a tree of JSON values ten times as much.
///
/// Returns `None` for all other lines, and for those that are wrong.
fn parse_plain(line: &str) -> Option<Record> {
    let (kind, fields) = line.strip_prefix(r#"{"type":""#)?.split_once(r#"","v":1,"#)?;
    // Other spellings of the first two fields, which would count, and marks of paths that are no
    // text.
    if [r#""type""#, r#""v""#, r#"_b64""#, r"\u"].iter().any(|mark| fields.contains(mark)) {
        return None;
    }
    let object = format!("{{{fields}");
    let record = match kind {
        "scan" => Record::Scan(serde_json::from_str(&object).ok()?),
        "task" => Record::Task(serde_json::from_str(&object).ok()?),
        "result" => Record::Result(serde_json::from_str(&object).ok()?),
        "summary" => Record::Summary(serde_json::from_str(&object).ok()?),
        "fail" => Record::Fail(serde_json::from_str(&object).ok()?),
        _ => return None,
    };
    record.check().is_ok().then_some(record)
}

/// Formats a record, in which a field of `extra` may have the name of another.
fn format_line(kind: &str, record: &impl Serialize, extra: &Extra) -> String {
    format_plain(kind, record)
        .filter(|line| extra.is_empty() && !line.contains(B64_IN_JSON))
        .unwrap_or_else(|| format_any(kind, record))
}

/// Formats a record without fields whose names must change.
fn format_plain(kind: &str, record: &impl Serialize) -> Option<String> {
    let mut line = format!(r#"{{"type":"{kind}","v":{VERSION}"#).into_bytes();
    let start = line.len();
    serde_json::to_writer(&mut line, record).ok()?;
    // The brace that opens the record's own fields.
    *line.get_mut(start)? = b',';
    String::from_utf8(line).ok()
}

fn format_any(kind: &str, record: &impl Serialize) -> String {
    let mut out = Map::new();
    out.insert("type".to_owned(), kind.into());
    out.insert("v".to_owned(), VERSION.into());
    let value = serde_json::to_value(record).expect("a record holds nothing that JSON can't");
    if let Value::Object(map) = move_to_b64_fields(value) {
        out.extend(map);
    }
    Value::Object(out).to_string()
}

macro_rules! into_record {
    ($($kind:ident($body:ty)),*) => {
        $(impl From<$body> for Record {
            fn from(body: $body) -> Self {
                Self::$kind(Box::new(body))
            }
        })*
    };
}

into_record!(Scan(Scan), Task(Task), Result(TaskResult), Summary(Summary), Fail(Fail));
