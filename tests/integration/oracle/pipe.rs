//! A case through the built filters: scan-find | plan-split | ai-integrate | gather.

use std::path::{Path, PathBuf};

use hdf5::types::VarLenUnicode;
use hdf5::{File, Group};
use serde_json::Value;

use super::azpipe::{Pattern, settings};
use super::case::Case;
use super::image;
use crate::support::{NO_ARGUMENTS, create_hdf5, run};

/// Integrates the case's frame, stored as the one frame of a bare dataset.
pub fn integrate(case: &Case) -> Pattern {
    let folder = tempfile::tempdir().unwrap();
    let frames = folder.path().join("frames.h5");
    write_frame(&frames, case);
    let out = folder.path().join("out");
    let mut flags = vec![format!("--out={}", out.display())];
    flags.extend(
        settings(case, folder.path())
            .iter()
            .map(|(key, value)| format!("--{key}={}", format_flag(value))),
    );
    let scans =
        run("scan-find", &[format!("{}::/data", frames.display())], "").assert_success().stdout;
    let tasks = run("plan-split", &flags, &scans).assert_success().stdout;
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    let summary = run("gather", NO_ARGUMENTS, &results).assert_success().stdout;
    let record: Value = serde_json::from_str(summary.lines().last().unwrap()).unwrap();
    read_default_pattern(&PathBuf::from(record["final"].as_str().unwrap()))
}

/// A setting as its flag takes it.
fn format_flag(value: &Value) -> String {
    match value {
        Value::Bool(on) => if *on { "on" } else { "off" }.to_owned(),
        Value::Array(limits) => limits.iter().map(Value::to_string).collect::<Vec<_>>().join(","),
        Value::String(text) => text.clone(),
        number => number.to_string(),
    }
}

fn write_frame(path: &Path, case: &Case) {
    let file = create_hdf5(path);
    let [rows, columns] = case.shape;
    let bytes = image::frame(case);
    let shape = (1, rows, columns);
    match case.dtype.as_str() {
        "uint16" => {
            let pixels: Vec<u16> =
                bytes.chunks_exact(2).map(|b| u16::from_ne_bytes(b.try_into().unwrap())).collect();
            file.new_dataset::<u16>()
                .shape(shape)
                .create("data")
                .unwrap()
                .write_raw(&pixels)
                .unwrap();
        }
        "uint32" => {
            let pixels: Vec<u32> =
                bytes.chunks_exact(4).map(|b| u32::from_ne_bytes(b.try_into().unwrap())).collect();
            file.new_dataset::<u32>()
                .shape(shape)
                .create("data")
                .unwrap()
                .write_raw(&pixels)
                .unwrap();
        }
        _ => {
            let pixels: Vec<i32> =
                bytes.chunks_exact(4).map(|b| i32::from_ne_bytes(b.try_into().unwrap())).collect();
            file.new_dataset::<i32>()
                .shape(shape)
                .create("data")
                .unwrap()
                .write_raw(&pixels)
                .unwrap();
        }
    }
}

/// The pattern that a viewer shows: what `default` leads to.
fn read_default_pattern(path: &Path) -> Pattern {
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
