//! A directory of raw data, and scan-find run on it.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hdf5::types::VarLenUnicode;
use hdf5::{File, Group};
use sample::{Dataset, Defect, Options};
use serde_json::Value;
use tempfile::TempDir;

/// A temporary directory.
pub struct Field(TempDir);

/// What scan-find did.
pub struct Ran {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn records(&self, kind: &str) -> Vec<Value> {
        let all = self.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        all.filter(|record| record["type"] == kind).collect()
    }

    /// Those fields of each scan, as text.
    pub fn fields(&self, names: &[&str]) -> Vec<String> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let line = |scan: &Value| names.iter().map(|name| text(&scan[*name])).collect::<Vec<_>>().join(" ");
        self.records("scan").iter().map(line).collect()
    }

    pub fn good(self) -> Self {
        assert_eq!(self.status, 0, "stdout: {} stderr: {}", self.stdout, self.stderr);
        self
    }
}

impl Field {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    /// A dataset of the sample below `name`: two scans, or those with defects.
    pub fn dataset(&self, name: &str, defects: &[Defect]) -> Dataset {
        let detector = sample::Detector::named("pilatus-100k").unwrap();
        let scans = if defects.is_empty() { 2 } else { 0 };
        let (frames, frames_per_file, distinct) = (12, 5, 1);
        let defects = defects.to_vec();
        let (dtype, rest) = (detector.dtype, Options::default());
        let options = Options { scans, defects, frames, frames_per_file, distinct, detector, dtype, ..rest };
        sample::write(&self.path(name), &options).unwrap()
    }

    /// An HDF5 file with one detector of this many frames in the entry.
    pub fn master(&self, name: &str, entry: &str, detector: &str, frames: usize) -> PathBuf {
        let file = File::create(self.path(name)).unwrap();
        let group = class(&file, entry, "NXentry");
        text(&group, "start_time", "2026-03-04T10:20:30+01:00");
        text(&group, "end_time", "2026-03-04T10:30:30+01:00");
        let member = class(&class(&group, "instrument", "NXinstrument"), detector, "NXdetector");
        let data = member.new_dataset::<u16>().shape((frames, 3, 4)).no_chunk().create("data").unwrap();
        data.write_raw(&vec![0_u16; frames * 12]).unwrap();
        self.path(name)
    }

    /// A NumPy image.
    pub fn image(&self, name: &str) -> PathBuf {
        let header = "{'descr': '<u2', 'fortran_order': False, 'shape': (3, 4), }";
        let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        bytes.extend(format!("{header:<117}\n").into_bytes());
        bytes.extend([7; 24]);
        std::fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    /// An EDF image.
    pub fn edf(&self, name: &str) -> PathBuf {
        let header =
            "{\nByteOrder = LowByteFirst ;\nDataType = UnsignedShort ;\nDim_1 = 4 ;\nDim_2 = 3 ;\nSize = 24 ;\n";
        let mut bytes = format!("{header:<510}}}\n").into_bytes();
        bytes.extend([7; 24]);
        std::fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }
}

pub fn class(parent: &Group, name: &str, class: &str) -> Group {
    let group = parent.create_group(name).unwrap();
    let class: VarLenUnicode = class.parse().unwrap();
    group.new_attr::<VarLenUnicode>().create("NX_class").unwrap().write_scalar(&class).unwrap();
    group
}

pub fn text(parent: &Group, name: &str, value: &str) {
    let value: VarLenUnicode = value.parse().unwrap();
    parent.new_dataset::<VarLenUnicode>().create(name).unwrap().write_scalar(&value).unwrap();
}

/// Runs scan-find in a directory.
pub fn find_in<S: AsRef<OsStr>>(directory: &Path, arguments: &[S], input: &[u8]) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_scan-find"))
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Nobody reads a list that is not asked for.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { status: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Runs scan-find.
pub fn find<S: AsRef<OsStr>>(arguments: &[S]) -> Ran {
    find_in(Path::new("/"), arguments, b"")
}
