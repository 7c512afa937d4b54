//! The page about records, made of the doc comments of their types and of the records that the
//! tests of crate `records` read and write.

use std::fmt::Write as _;

use super::{package_directory, read};

/// The records that the page describes: the type that goes over the wire, its source file, and its
/// struct.
const RECORDS: [(&str, &str, &str); 5] = [
    ("scan", "acquisition.rs", "Scan"),
    ("task", "task.rs", "Task"),
    ("result", "result.rs", "TaskResult"),
    ("summary", "result.rs", "Summary"),
    ("fail", "fail.rs", "Fail"),
];

/// The objects within records.
const OBJECTS: [(&str, &str); 6] = [
    ("source.rs", "Source"),
    ("absent.rs", "Absent"),
    ("image_operation.rs", "ImageOperation"),
    ("task.rs", "TaskRecipe"),
    ("task.rs", "MonitorReadings"),
    ("result.rs", "Seconds"),
];

const HEAD: &str = "# azpipe-records: the records that the filters exchange

<!-- Made by the tests from the types of crate `records`; edit their comments, and run AZPIPE_BLESS=1 cargo test cookbook:: -->

## Description
Records are JSON objects in UTF-8, one per line. Each has a `type`, the version `v` of its format, which is 1, and an `id`. Every line stands alone, so lines may be
selected, cut and distributed by any program. Filters pass on records of types that they don't know, and fields that they don't know.

Frames are counted from 0. Ranges of frames are lists of `[start, stop]`, without the end, as in a Python slice, or `[start, stop, step]`. Paths that are
not UTF-8 are in a field with the suffix `_b64`, in base64, in place of the field itself. Fields without a value are left out.

The examples are in one line on the wire.
";

/// A field of a struct: its name on the wire, and its description.
struct Field {
    name: String,
    text: String,
    /// The type, if the fields of another struct are at this place.
    flattened: Option<String>,
}

/// Describes every record and field in Markdown, each record with an example.
pub fn page() -> String {
    let wire = read(&package_directory().join("crates/records/tests/wire.jsonl"));
    let examples: Vec<serde_json::Value> =
        wire.lines().map(|line| serde_json::from_str(line).expect("a record")).collect();
    let mut page = HEAD.to_owned();
    for (kind, file, name) in RECORDS {
        let (text, fields) = read_struct(file, name);
        let _ = write!(page, "\n## The {kind} record\n{text}\n");
        for field in &fields {
            if let Some(other) = &field.flattened {
                let article =
                    if other == "Acquisition" { "`scan` record" } else { "`task` record" };
                let is_own = (kind, other.as_str()) == ("scan", "Acquisition");
                if !is_own {
                    let _ = write!(page, "\nIt has the fields of the {article}, too.\n");
                }
            }
        }
        page += "\n| Field | |\n|---|---|\n";
        let example = examples
            .iter()
            .find(|example| example["type"] == kind)
            .expect("an example of each type");
        let own = fields.iter().filter(|field| field.flattened.is_none());
        own.for_each(|field| write_field(&mut page, field));
        if kind == "scan" {
            read_struct(file, "Acquisition")
                .1
                .iter()
                .for_each(|field| write_field(&mut page, field));
        }
        let example = serde_json::to_string_pretty(example).expect("a record is JSON");
        let _ = write!(page, "\n```json\n{}\n```\n", join_short_lists(&example));
    }
    page += "\n## Objects within records\n";
    for (file, name) in OBJECTS {
        let (text, fields) = read_struct(file, name);
        let _ = write!(page, "\n### {name}\n{text}\n\n| Field | |\n|---|---|\n");
        fields
            .iter()
            .filter(|field| field.flattened.is_none())
            .for_each(|field| write_field(&mut page, field));
    }
    page + "\n## See also\n`azpipe(7)`, `azpipe-files(5)`, `scan-find(1)`, `plan-split(1)`, `ai-integrate(1)`, `gather(1)`\n"
}

fn write_field(page: &mut String, field: &Field) {
    if field.flattened.is_none() {
        let _ = writeln!(page, "| `{}` | {} |", field.name, field.text);
    }
}

/// Writes lists of numbers in one line, which is how people read a range or a shape.
fn join_short_lists(json: &str) -> String {
    let mut out = String::new();
    let mut rest = json;
    while let Some(start) = rest.find("[\n") {
        let (before, list) = rest.split_at(start);
        out += before;
        let end = list[1..].find(['[', ']', '{']).map_or(list.len(), |end| end + 1);
        if list[end..].starts_with(']') {
            out += &list[..=end]
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .replace("[ ", "[")
                .replace(" ]", "]");
            rest = &list[end + 1..];
        } else {
            out += "[";
            rest = &list[1..];
        }
    }
    out + rest
}

/// Returns a comment without the clause that links to a function, which readers of the page don't
/// have.
fn without_code_links(comment: &str) -> String {
    match comment
        .split_once(", computed by [`")
        .and_then(|(before, rest)| Some((before, rest.split_once("`]")?.1)))
    {
        Some((before, after)) => format!("{before}{after}"),
        None => comment.to_owned(),
    }
}

/// Returns the description of a struct and its fields, from its source.
fn read_struct(file: &str, name: &str) -> (String, Vec<Field>) {
    let source = read(&package_directory().join("crates/records/src").join(file));
    let lines: Vec<&str> = source.lines().collect();
    let head = format!("pub struct {name} {{");
    let start =
        lines.iter().position(|line| *line == head).unwrap_or_else(|| panic!("{file}: no {name}"));
    let above = lines[..start]
        .iter()
        .rev()
        .take_while(|line| line.starts_with("///") || line.starts_with("#["));
    let mut text: Vec<&str> =
        above.filter_map(|line| line.strip_prefix("///")).map(str::trim).collect();
    text.reverse();
    let (mut fields, mut comment, mut attributes) = (Vec::new(), String::new(), String::new());
    for line in lines[start + 1..].iter().take_while(|line| **line != "}").map(|line| line.trim()) {
        if let Some(part) = line.strip_prefix("///") {
            comment = format!("{comment} {}", part.trim());
        } else if line.starts_with("#[") {
            attributes += line;
        } else if let Some((field, kind)) =
            line.strip_prefix("pub ").and_then(|line| line.split_once(": "))
        {
            let renamed =
                attributes.split_once("rename = \"").and_then(|(_, rest)| rest.split('"').next());
            let flattened =
                attributes.contains("flatten").then(|| kind.trim_end_matches(',').to_owned());
            let text = without_code_links(std::mem::take(&mut comment).trim()).replace('|', "or");
            fields.push(Field { name: renamed.unwrap_or(field).to_owned(), text, flattened });
            attributes.clear();
        }
    }
    assert!(
        fields.iter().all(|field| !field.text.is_empty()),
        "{file}: {name}: a field has no comment"
    );
    (text.join("\n"), fields)
}
