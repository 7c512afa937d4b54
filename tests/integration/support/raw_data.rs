//! Raw data of several kinds, and runs of scan-find on them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use sample::{Dataset, Defect, Options};
use tempfile::TempDir;

use super::{Outcome, capture, create_hdf5, nexus_group, npy, program, uniform_edf, write_text};

/// A temporary directory of raw data.
pub struct RawData(TempDir);

impl RawData {
    /// Makes an empty directory.
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Returns a path in the directory, whose parent directories exist then.
    pub fn path(&self, name: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    /// Writes a dataset of the crate `sample` below `name`: two scans, or one scan per defect.
    pub fn write_dataset(&self, name: &str, defects: &[Defect]) -> Dataset {
        let detector = sample::Detector::named("pilatus-100k").unwrap();
        let scans = if defects.is_empty() { 2 } else { 0 };
        let (frames, frames_per_file, distinct) = (12, 5, 1);
        let defects = defects.to_vec();
        let (dtype, rest) = (detector.dtype, Options::default());
        let options =
            Options { scans, defects, frames, frames_per_file, distinct, detector, dtype, ..rest };
        sample::write(&self.path(name), &options).unwrap()
    }

    /// Writes an HDF5 file with one detector of so many frames in an entry.
    pub fn write_master(&self, name: &str, entry: &str, detector: &str, frames: usize) -> PathBuf {
        let file = create_hdf5(self.path(name));
        let group = nexus_group(&file, entry, "NXentry");
        write_text(&group, "start_time", "2026-03-04T10:20:30+01:00");
        write_text(&group, "end_time", "2026-03-04T10:30:30+01:00");
        let member =
            nexus_group(&nexus_group(&group, "instrument", "NXinstrument"), detector, "NXdetector");
        let data =
            member.new_dataset::<u16>().shape((frames, 3, 4)).no_chunk().create("data").unwrap();
        data.write_raw(&vec![0_u16; frames * 12]).unwrap();
        self.path(name)
    }

    /// Writes an image of 3 x 4 pixels as a NumPy file.
    pub fn write_npy(&self, name: &str) -> PathBuf {
        std::fs::write(self.path(name), npy("<u2", [3, 4], &[7; 24])).unwrap();
        self.path(name)
    }

    /// Writes an image of 3 x 4 pixels as an EDF file.
    pub fn write_edf(&self, name: &str) -> PathBuf {
        std::fs::write(self.path(name), uniform_edf([3, 4], 7)).unwrap();
        self.path(name)
    }
}

/// Runs scan-find in a directory.
pub fn find_in<S: AsRef<OsStr>>(directory: &Path, arguments: &[S], input: &[u8]) -> Outcome {
    let mut command = Command::new(program("scan-find"));
    command.args(arguments).current_dir(directory);
    capture(command, input).into()
}

/// Runs scan-find.
pub fn find<S: AsRef<OsStr>>(arguments: &[S]) -> Outcome {
    find_in(Path::new("/"), arguments, b"")
}
