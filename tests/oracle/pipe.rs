//! A case through the built filters: scan-find | plan-split | ai-integrate | gather.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hdf5::types::VarLenUnicode;
use hdf5::{File, Group};
use serde_json::Value;

use crate::azpipe::{Pattern, settings};
use crate::case::Case;
use crate::image;

/// Integrates the case's frame, stored as the one frame of a bare dataset.
pub fn integrate(case: &Case) -> Pattern {
    let folder = tempfile::tempdir().unwrap();
    let frames = folder.path().join("frames.h5");
    store(&frames, case);
    let out = folder.path().join("out");
    let mut flags = vec![format!("--out={}", out.display())];
    flags.extend(settings(case, folder.path()).iter().map(|(key, value)| format!("--{key}={}", flag(value))));
    let scans = run(env!("CARGO_BIN_EXE_scan-find"), &[format!("{}::/data", frames.display())], "");
    let tasks = run(env!("CARGO_BIN_EXE_plan-split"), &flags, &scans);
    let results = run(env!("CARGO_BIN_EXE_ai-integrate"), &[], &tasks);
    let summary = run(env!("CARGO_BIN_EXE_gather"), &[], &results);
    let record: Value = serde_json::from_str(summary.lines().last().unwrap()).unwrap();
    read(&PathBuf::from(record["final"].as_str().unwrap()))
}

/// A setting as its flag takes it.
fn flag(value: &Value) -> String {
    match value {
        Value::Bool(on) => if *on { "on" } else { "off" }.to_owned(),
        Value::Array(limits) => limits.iter().map(Value::to_string).collect::<Vec<_>>().join(","),
        Value::String(text) => text.clone(),
        number => number.to_string(),
    }
}

fn run(filter: &str, arguments: &[String], input: &str) -> String {
    let mut command = Command::new(filter);
    let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // The records of one scan fit into a pipe.
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{filter} {arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn store(path: &Path, case: &Case) {
    let file = File::create(path).unwrap();
    let [rows, columns] = case.shape;
    let bytes = image::frame(case);
    let shape = (1, rows, columns);
    match case.dtype.as_str() {
        "uint16" => {
            let pixels: Vec<u16> = bytes.chunks_exact(2).map(|b| u16::from_ne_bytes(b.try_into().unwrap())).collect();
            file.new_dataset::<u16>().shape(shape).create("data").unwrap().write_raw(&pixels).unwrap();
        }
        "uint32" => {
            let pixels: Vec<u32> = bytes.chunks_exact(4).map(|b| u32::from_ne_bytes(b.try_into().unwrap())).collect();
            file.new_dataset::<u32>().shape(shape).create("data").unwrap().write_raw(&pixels).unwrap();
        }
        _ => {
            let pixels: Vec<i32> = bytes.chunks_exact(4).map(|b| i32::from_ne_bytes(b.try_into().unwrap())).collect();
            file.new_dataset::<i32>().shape(shape).create("data").unwrap().write_raw(&pixels).unwrap();
        }
    }
}

/// The pattern that a viewer shows: what `default` leads to.
fn read(path: &Path) -> Pattern {
    let file = File::open(path).unwrap();
    let mut group: Group = file.as_group().unwrap();
    while let Ok(next) = group.attr("default") {
        group = group.group(next.read_scalar::<VarLenUnicode>().unwrap().as_str()).unwrap();
    }
    let axes = group.attr("axes").unwrap().read_raw::<VarLenUnicode>().unwrap();
    let numbers = |name: &str| group.dataset(name).unwrap().read_raw::<f64>().unwrap();
    Pattern {
        axis: numbers(axes.last().unwrap().as_str()),
        intensity: numbers("intensity"),
        sem: numbers("intensity_errors"),
        std: Vec::new(),
    }
}
