//! Small raw data whose patterns say which file they are of: each frame has one count in all of its
//! pixels.

use std::fs;
use std::path::{Path, PathBuf};

use hdf5::{File, Group};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{
    NO_ARGUMENTS, Outcome, create_hdf5, nexus_group, run, uniform_edf, write_text,
};

pub const ROWS: usize = 20;
pub const COLUMNS: usize = 30;

/// A directory of raw data, and of results.
pub struct RawDirectory(TempDir);

/// How the frames of a test are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageKind {
    /// A dataset of an HDF5 file that says nothing else.
    Dataset,
    /// A numbered series of EDF images.
    Series,
    /// An entry with a start time, as Bliss writes it.
    Master,
}

pub const STORAGE_KINDS: [StorageKind; 3] =
    [StorageKind::Dataset, StorageKind::Series, StorageKind::Master];

impl RawDirectory {
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

    /// Writes frames of these counts into a directory, and returns what scan-find is to be given
    /// for them.
    pub fn write(&self, kind: StorageKind, directory: &str, counts: &[u16]) -> PathBuf {
        let directory = self.path(directory);
        fs::create_dir_all(&directory).unwrap();
        match kind {
            StorageKind::Dataset => {
                let path = directory.join("frames.h5");
                write_frames(&create_hdf5(&path), "data", counts);
                let mut named = path.into_os_string();
                named.push("::/data");
                named.into()
            }
            StorageKind::Series => {
                for old in fs::read_dir(&directory).unwrap() {
                    fs::remove_file(old.unwrap().path()).unwrap();
                }
                for (number, count) in counts.iter().enumerate() {
                    fs::write(
                        directory.join(format!("a_{number:04}.edf")),
                        uniform_edf([ROWS, COLUMNS], *count),
                    )
                    .unwrap();
                }
                directory
            }
            StorageKind::Master => {
                let path = directory.join("s.h5");
                let entry = nexus_group(&create_hdf5(&path), "1.1", "NXentry");
                write_text(&entry, "start_time", "2026-03-04T10:20:30+01:00");
                write_text(&entry, "end_time", "2026-03-04T10:30:30+01:00");
                write_frames(
                    &nexus_group(
                        &nexus_group(&entry, "instrument", "NXinstrument"),
                        "p3",
                        "NXdetector",
                    ),
                    "data",
                    counts,
                );
                path
            }
        }
    }

    /// Returns the path of a raw file of a scan with a master.
    pub fn lima_file(&self, directory: &str, number: usize) -> PathBuf {
        self.path(directory).join(format!("scan0001/p3_{number:04}.h5"))
    }

    /// Writes a raw file with one frame of this count.
    pub fn write_lima_file(&self, directory: &str, number: usize, count: u16) {
        let path = self.lima_file(directory, number);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let entry = nexus_group(&create_hdf5(&path), "entry_0000", "NXentry");
        write_frames(&nexus_group(&entry, "measurement", "NXcollection"), "data", &[count]);
    }

    /// Writes the master of raw files with one frame each, and a counter that has their counts.
    pub fn write_master_of_files(&self, directory: &str, counts: &[u16]) {
        let entry = nexus_group(&create_hdf5(self.path(directory).join("s.h5")), "1.1", "NXentry");
        write_text(&entry, "start_time", "2026-03-04T10:20:30+01:00");
        write_text(&entry, "end_time", "2026-03-04T10:30:30+01:00");
        let measurement = nexus_group(&entry, "measurement", "NXcollection");
        let values: Vec<f64> = counts.iter().copied().map(f64::from).collect();
        let counter = measurement.new_dataset::<f64>().shape(values.len()).create("value").unwrap();
        counter.write_raw(&values).unwrap();
        let instrument = nexus_group(&entry, "instrument", "NXinstrument");
        let whole = (counts.len(), ROWS, COLUMNS);
        let mut builder =
            nexus_group(&instrument, "p3", "NXdetector").new_dataset::<u16>().shape(whole);
        for number in 0..counts.len() {
            let (file, one) = (format!("scan0001/p3_{number:04}.h5"), (1, ROWS, COLUMNS));
            let dataset = "entry_0000/measurement/data";
            builder =
                builder.virtual_map(file, dataset, one, .., whole, (number..number + 1, .., ..));
        }
        builder.create("data").unwrap();
    }

    /// Returns scan-find's operand for the frames in a directory.
    pub fn operand(&self, kind: StorageKind, directory: &str) -> PathBuf {
        match kind {
            StorageKind::Dataset => self.path(&format!("{directory}/frames.h5::/data")),
            StorageKind::Series => self.path(directory),
            StorageKind::Master => self.path(&format!("{directory}/s.h5")),
        }
    }

    /// Plans for what scan-find says of these operands.
    pub fn plan(&self, operands: &[&Path], out: &str, flags: &[&str]) -> Outcome {
        let scans = run("scan-find", operands, "").assert_success();
        self.plan_scans(&scans.stdout, out, flags)
    }

    pub fn plan_scans(&self, scans: &str, out: &str, flags: &[&str]) -> Outcome {
        let (poni, out) = (self.path("x.poni"), self.path(out));
        let mut all = vec![
            "--poni",
            poni.to_str().unwrap(),
            "--out",
            out.to_str().unwrap(),
            "--solid-angle",
            "off",
        ];
        all.extend(["--npt", "10", "--split", "no"].iter().filter(|_| !flags.contains(&"--npt")));
        all.extend(flags);
        run("plan-split", &all, scans)
    }

    /// Runs the whole pipe: the plan, the results and the summaries.
    pub fn process(&self, operands: &[&Path], out: &str, flags: &[&str]) -> [Outcome; 3] {
        let plan = self.plan(operands, out, flags);
        let results = run("ai-integrate", &["--threads", "1"], &plan.stdout);
        let summaries = run("gather", NO_ARGUMENTS, &results.stdout);
        [plan, results, summaries]
    }
}

/// Writes frames of these counts as a dataset.
pub fn write_frames(group: &Group, name: &str, counts: &[u16]) {
    let pixels: Vec<u16> =
        counts.iter().flat_map(|count| std::iter::repeat_n(*count, ROWS * COLUMNS)).collect();
    let shape = (counts.len(), ROWS, COLUMNS);
    let data =
        group.new_dataset::<u16>().shape(shape).chunk((1, ROWS, COLUMNS)).create(name).unwrap();
    data.write_raw(&pixels).unwrap();
}

/// The counts that a final shows, a frame each; `None` where it has no pattern.
pub fn read_counts(final_file: &str) -> Vec<Option<u16>> {
    let file = File::open(final_file).unwrap();
    let entry = file.group(&file.member_names().unwrap()[0]).unwrap();
    let process = entry
        .member_names()
        .unwrap()
        .into_iter()
        .find(|name| name.ends_with("_integrate"))
        .unwrap();
    let intensity = entry.dataset(&format!("{process}/integrated/intensity")).unwrap();
    let bins = intensity.shape()[1];
    let values: Vec<f32> = intensity.read_raw().unwrap();
    let count = |row: &[f32]| {
        row.iter().copied().find(|value| !value.is_nan()).map(|value| value.round() as u16)
    };
    values.chunks(bins).map(count).collect()
}

/// The counts as a final has them that lacks none.
pub fn with_pattern(counts: &[u16]) -> Vec<Option<u16>> {
    counts.iter().copied().map(Some).collect()
}

/// The finals that summaries name.
pub fn list_finals(summaries: &Outcome) -> Vec<String> {
    summaries
        .records("summary")
        .iter()
        .map(|summary| summary["final"].as_str().unwrap().to_owned())
        .collect()
}

/// A field of each record of a kind.
pub fn field_of_each(ran: &Outcome, kind: &str, name: &str) -> Vec<Value> {
    ran.records(kind).iter().map(|record| record[name].clone()).collect()
}
