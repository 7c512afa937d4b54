//! Small raw data whose patterns say which file they are of: each frame has one count in all of its pixels.

use std::fs;
use std::path::{Path, PathBuf};

use hdf5::types::VarLenUnicode;
use hdf5::{File, Group};
use serde_json::Value;
use tempfile::TempDir;

use crate::site::{NOTHING, Ran, run};

const ROWS: usize = 20;
const COLUMNS: usize = 30;

/// A directory of raw data, and of results.
pub struct Place(TempDir);

/// How the frames of a test are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A dataset of an HDF5 file that says nothing else.
    Dataset,
    /// A numbered series of EDF images.
    Series,
    /// An entry with a start time, as Bliss writes it.
    Master,
}

pub const KINDS: [Kind; 3] = [Kind::Dataset, Kind::Series, Kind::Master];

impl Place {
    pub fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let poni = "poni_version: 2\nDetector: Detector\nDetector_config: {\"pixel1\": 1e-4, \"pixel2\": 1e-4, \"max_shape\": \
            [20, 30]}\nDistance: 0.1\nPoni1: 0\nPoni2: 0\nRot1: 0\nRot2: 0\nRot3: 0\nWavelength: 1e-10\n";
        fs::write(place.path("x.poni"), poni).unwrap();
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes frames of these counts into a directory, and returns what scan-find is to be given for them.
    pub fn write(&self, kind: Kind, directory: &str, counts: &[u16]) -> PathBuf {
        let directory = self.path(directory);
        fs::create_dir_all(&directory).unwrap();
        match kind {
            Kind::Dataset => {
                let path = directory.join("frames.h5");
                frames(&File::create(&path).unwrap(), "data", counts);
                let mut named = path.into_os_string();
                named.push("::/data");
                named.into()
            }
            Kind::Series => {
                for old in fs::read_dir(&directory).unwrap() {
                    fs::remove_file(old.unwrap().path()).unwrap();
                }
                for (number, count) in counts.iter().enumerate() {
                    fs::write(directory.join(format!("a_{number:04}.edf")), edf(*count)).unwrap();
                }
                directory
            }
            Kind::Master => {
                let path = directory.join("s.h5");
                let entry = class(&File::create(&path).unwrap(), "1.1", "NXentry");
                text(&entry, "start_time", "2026-03-04T10:20:30+01:00");
                text(&entry, "end_time", "2026-03-04T10:30:30+01:00");
                frames(&class(&class(&entry, "instrument", "NXinstrument"), "p3", "NXdetector"), "data", counts);
                path
            }
        }
    }

    /// What scan-find is to be given for the frames in a directory.
    pub fn write_name(&self, kind: Kind, directory: &str) -> PathBuf {
        match kind {
            Kind::Dataset => self.path(&format!("{directory}/frames.h5::/data")),
            Kind::Series => self.path(directory),
            Kind::Master => self.path(&format!("{directory}/s.h5")),
        }
    }

    /// Plans for what scan-find says of these operands.
    pub fn plan(&self, operands: &[&Path], out: &str, flags: &[&str]) -> Ran {
        let scans = run("scan-find", operands, "").good();
        self.plan_scans(&scans.stdout, out, flags)
    }

    pub fn plan_scans(&self, scans: &str, out: &str, flags: &[&str]) -> Ran {
        let (poni, out) = (self.path("x.poni"), self.path(out));
        let mut all = vec!["--poni", poni.to_str().unwrap(), "--out", out.to_str().unwrap(), "--solid-angle", "off"];
        all.extend(["--npt", "10", "--split", "no"].iter().filter(|_| !flags.contains(&"--npt")));
        all.extend(flags);
        run("plan-split", &all, scans)
    }

    /// Runs the whole pipe: the plan, the results and the summaries.
    pub fn process(&self, operands: &[&Path], out: &str, flags: &[&str]) -> [Ran; 3] {
        let plan = self.plan(operands, out, flags);
        let results = run("ai-integrate", &["--threads", "1"], &plan.stdout);
        let summaries = run("gather", NOTHING, &results.stdout);
        [plan, results, summaries]
    }
}

fn frames(group: &Group, name: &str, counts: &[u16]) {
    let pixels: Vec<u16> = counts.iter().flat_map(|count| std::iter::repeat_n(*count, ROWS * COLUMNS)).collect();
    let shape = (counts.len(), ROWS, COLUMNS);
    let data = group.new_dataset::<u16>().shape(shape).chunk((1, ROWS, COLUMNS)).create(name).unwrap();
    data.write_raw(&pixels).unwrap();
}

fn edf(count: u16) -> Vec<u8> {
    let header = format!(
        "{{\nByteOrder = LowByteFirst ;\nDataType = UnsignedShort ;\nDim_1 = {COLUMNS} ;\nDim_2 = {ROWS} ;\nSize = {} ;\n",
        2 * ROWS * COLUMNS
    );
    let mut bytes = format!("{header:<510}}}\n").into_bytes();
    bytes.extend(std::iter::repeat_n(count.to_le_bytes(), ROWS * COLUMNS).flatten());
    bytes
}

fn class(parent: &Group, name: &str, class: &str) -> Group {
    let group = parent.create_group(name).unwrap();
    let class: VarLenUnicode = class.parse().unwrap();
    group.new_attr::<VarLenUnicode>().create("NX_class").unwrap().write_scalar(&class).unwrap();
    group
}

fn text(parent: &Group, name: &str, value: &str) {
    let value: VarLenUnicode = value.parse().unwrap();
    parent.new_dataset::<VarLenUnicode>().create(name).unwrap().write_scalar(&value).unwrap();
}

/// The counts that a final shows, a frame each; `None` where it has no pattern.
pub fn counts(final_file: &str) -> Vec<Option<u16>> {
    let file = File::open(final_file).unwrap();
    let entry = file.group(&file.member_names().unwrap()[0]).unwrap();
    let process = entry.member_names().unwrap().into_iter().find(|name| name.ends_with("_integrate")).unwrap();
    let intensity = entry.dataset(&format!("{process}/integrated/intensity")).unwrap();
    let bins = intensity.shape()[1];
    let values: Vec<f32> = intensity.read_raw().unwrap();
    let count = |row: &[f32]| row.iter().copied().find(|value| !value.is_nan()).map(|value| value.round() as u16);
    values.chunks(bins).map(count).collect()
}

/// The counts as a final has them that lacks none.
pub fn all(counts: &[u16]) -> Vec<Option<u16>> {
    counts.iter().copied().map(Some).collect()
}

/// The finals that summaries name.
pub fn finals(summaries: &Ran) -> Vec<String> {
    summaries.records("summary").iter().map(|summary| summary["final"].as_str().unwrap().to_owned()).collect()
}

/// A field of each record of a kind.
pub fn field(ran: &Ran, kind: &str, name: &str) -> Vec<Value> {
    ran.records(kind).iter().map(|record| record[name].clone()).collect()
}
